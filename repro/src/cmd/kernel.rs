//! `frostline-repro kernel`.

use crate::kernel::system::System;
use crate::kernel::{Report, run as measure};
use frostline_daemon::Limit;
use frostline_report::units::bytes;
use frostline_terminal::errors::failure;
use frostline_terminal::{cancel, output};
use std::ffi::OsString;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frostline-repro kernel mglru-reclaim --fast 40% --json -- python3 job.py
  frostline-repro kernel numa-balancing --fast 4GiB -- ./solver
  frostline-repro kernel damon --fast 4GiB -- ./solver

The rival of 'frostline run --fast SIZE -- PROGRAM': the same program, the same limit, the kernel alone. Needs root, and
control groups that limit memory. What is changed for it is undone afterwards, by 'frostline doctor --undo' after a crash.
With mglru-reclaim, what is cached of files counts as memory.")]
pub struct Args {
    /// What tiers
    system: System,
    /// Fast memory: a size, or a share of what the program has in all
    #[arg(long, value_name = "SIZE")]
    fast: Limit,
    /// Print JSON, after what the program prints
    #[arg(long)]
    json: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Runs the program, and prints what that was like.
///
/// # Errors
/// Where the machine lacks something, without rights, after a Ctrl-C, and where the program fails.
pub fn run(args: &Args) -> anyhow::Result<()> {
    cancel::install()?;
    let report = measure(args.system, args.fast, &args.program)?;
    match args.json {
        true => output::json(std::slice::from_ref(&report))?,
        false => output::text(&show(&report))?,
    }
    match report.exit {
        0 => Ok(()),
        code => {
            Err(failure(format!("the program ended with {code}"), "what it printed may say why"))
        }
    }
}

fn show(report: &Report) -> String {
    let Report { system, seconds, refaults, .. } = report;
    let lists = match (system.as_str(), report.generations) {
        ("mglru-reclaim", true) => ", by generations",
        ("mglru-reclaim", false) => {
            ", by two lists: this kernel has no generations, or they are off"
        }
        _ => "",
    };
    let mut text = format!(
        "{system}{lists}: {seconds:.2} s\n\
         fast memory  {} in the mean, {} at most\n\
         slow memory  {}",
        bytes(report.fast_bytes),
        bytes(report.fast_bytes_most as f64),
        bytes(report.slow_bytes),
    );
    if report.compressed_bytes > 0.0 {
        text += &format!(", which takes {}", bytes(report.compressed_bytes));
    }
    text += &format!("\nrefaults     {refaults}, which took {:.2} s\n", report.refault_seconds);
    if report.thread_cpu_seconds > 0.0 {
        text += &format!("kernel thread  {:.2} s of a processor\n", report.thread_cpu_seconds);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_tells_which_lists_the_kernel_has() {
        let report = Report {
            system: "mglru-reclaim".into(),
            fast: "40%".into(),
            generations: false,
            exit: 0,
            seconds: 2.5,
            fast_bytes: 1e6,
            fast_bytes_most: 2_000_000,
            slow_bytes: 3e6,
            compressed_bytes: 0.0,
            refaults: 7,
            refault_seconds: 0.25,
            thread_cpu_seconds: 0.0,
        };
        let text = show(&report);
        assert!(text.contains("by two lists") && text.contains("7, which took 0.25 s"), "{text}");
        assert!(!text.contains("slow memory  2.9 MiB, which"), "{text}");
        let text = show(&Report { generations: true, compressed_bytes: 1e6, ..report.clone() });
        let text = text
            + &show(&Report { system: "damon".into(), thread_cpu_seconds: 1.5, ..report.clone() });
        assert!(text.contains("damon: 2.50 s") && text.contains("1.50 s of a processor"), "{text}");
        assert!(
            text.contains("by generations: 2.50 s") && text.contains(", which takes"),
            "{text}"
        );
    }
}
