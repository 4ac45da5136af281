//! `frostline consolidate`: asks a program to gather its hot pages.

use crate::errors::failure;
use crate::live::consolidation;
use frostline_driver::consolidate::ConsolidationLimit;
use frostline_driver::consolidate::request::{self, Request};
use frostline_driver::environment::AGENT_THREAD;
use frostline_linux::{Root, Target};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What `--help` says first.
pub const LONG: &str = "\
Asks a program to gather its hot base pages, which lie scattered, in few regions of 2 MiB, once. \
Its addresses stay. It must have been started by `frostline run --consolidate` or `--in-process`: \
the pages can be moved from inside only, and nothing is put into a program that runs.";

const EXAMPLES: &str = "\
Examples:
  frostline consolidate 4711
  frostline consolidate 4711 --limit 290 --json
  frostline consolidate 4711 --dry-run";

/// A look takes a second, and as long as the program keeps the thread from working.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Process
    #[arg(value_name = "PID")]
    pid: u32,
    /// Regions with fewer hot pages than that are emptied of them: 1 to 512, or auto, as the
    /// distribution suggests
    #[arg(long, value_name = "PAGES", default_value = "auto", value_parser = ConsolidationLimit::parse)]
    limit: ConsolidationLimit,
    /// Look, and move nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// Where the program has no agent, does not answer, or cannot do it.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let root = Root::system();
    let target = Target::open(&root, args.pid)?;
    let comm = |tid| root.read(format!("/proc/{}/task/{tid}/comm", args.pid)).unwrap_or_default();
    if !target
        .threads()?
        .into_iter()
        .any(|tid| comm(tid).trim_end().as_bytes() == AGENT_THREAD.to_bytes())
    {
        return Err(failure(
            format!("process {} ({}) has no agent in it", args.pid, target.comm()?),
            "start it by `frostline run --consolidate -- ...`",
        ));
    }
    let request = Request {
        pid: args.pid,
        start_ticks: target.identity().start_ticks,
        limit: args.limit,
        dry_run: args.dry_run,
        number: std::process::id().into(),
    };
    request::ask(&root, &request)?;
    let began = Instant::now();
    let numbers = loop {
        if let Some(numbers) = request::answered(&root, &request) {
            break numbers;
        }
        if began.elapsed() > PATIENCE || !target.is_alive() {
            request::forget(&root, args.pid);
            target.check_alive()?;
            return Err(failure(
                format!("the agent in process {} does not answer", args.pid),
                "it looks again when the program has 4 MiB of memory, and must be allowed to write \
                 to /run/frostline",
            ));
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    if let Some(why) = numbers.refused {
        anyhow::bail!(why);
    }
    if args.json {
        crate::output::text(&crate::output::envelope(&[&numbers])?)?;
    } else {
        crate::output::text(&(consolidation::text(&numbers) + "\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}
