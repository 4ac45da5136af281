//! `frostline status`: what runs here.

use super::watch;
use crate::live::summary;
use frostline_driver::{Status, instances};
use frostline_linux::Root;
use frostline_terminal::errors::failure;
use frostline_terminal::output;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frostline status
  frostline status --json
  frostline status redis-server
  frostline status --watch")]
pub struct Args {
    /// Only what these are in: numbers or names of processes, or names of targets
    #[arg(value_name = "PID|NAME", conflicts_with = "watch")]
    which: Vec<String>,
    /// Show pictures, second by second
    #[arg(short, long, conflicts_with = "json")]
    watch: bool,
    /// Print one picture as text, with averages since the start
    #[arg(long, requires = "watch")]
    once: bool,
    /// Print every number as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// Where the list cannot be read, or has nothing of a name in it.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.watch {
        return watch::run(args.once);
    }
    let all = chosen(instances::list(&Root::system())?, &args.which)?;
    if args.json {
        output::json(&all)?;
        return Ok(ExitCode::SUCCESS);
    }
    if all.is_empty() {
        output::text("nothing is managed\n")?;
    }
    for status in &all {
        output::text(&text(status))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Those of `all` that one of `which` is in; all where nothing is chosen.
fn chosen(all: Vec<Status>, which: &[String]) -> anyhow::Result<Vec<Status>> {
    for word in which {
        if !all.iter().any(|status| is_in(word, status)) {
            return Err(failure(
                format!("nothing that is managed has the number or name '{word}'"),
                "frostline status shows all that is managed",
            ));
        }
    }
    let is_chosen =
        |status: &Status| which.is_empty() || which.iter().any(|word| is_in(word, status));
    Ok(all.into_iter().filter(is_chosen).collect())
}

/// Whether a driver has this number or name, or a process that it drives.
fn is_in(word: &str, status: &Status) -> bool {
    let pid: Option<u32> = word.parse().ok();
    let is_it = |number: u32, name: &str| pid == Some(number) || name == word;
    is_it(status.pid, status.name.raw())
        || status.targets.iter().any(|target| is_it(target.pid, target.comm.raw()))
}

/// One driver in a few lines.
pub fn text(status: &Status) -> String {
    if status.targets.is_empty() {
        return format!("{}: frostline {}; does not run\n", status.name, status.pid);
    }
    let targets: Vec<String> =
        status.targets.iter().map(|t| format!("{} ({})", t.pid, t.comm)).collect();
    let head = format!(
        "{}: frostline {}, since {:.0} s{}; processes {}",
        status.name,
        status.pid,
        status.seconds,
        if status.dry_run { ", dry run" } else { "" },
        targets.join(", ")
    );
    let body = summary::text(status).replace('\n', "\n  ");
    format!("{head}\n  {body}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_driver::status::TargetStatus;

    #[test]
    fn a_process_cannot_write_to_the_terminal_by_its_name() {
        let status = Status {
            name: "a\u{202e}b".into(),
            targets: vec![
                TargetStatus { pid: 4, comm: "\x1b]0;x\x07".into(), mapped_bytes: 0 },
                TargetStatus { pid: 5, comm: "x\nroot: \u{9b}2J\r".into(), mapped_bytes: 0 },
            ],
            ..Status::default()
        };
        let text = text(&status);
        let first = text.lines().next().unwrap();
        assert_eq!(
            first,
            r"a\u{202e}b: frostline 0, since 0 s; processes 4 (\u{1b}]0;x\u{7}), 5 (x\nroot: \u{9b}2J\r)"
        );
        let waiting = Status { name: "\x1bc".into(), ..Status::default() };
        assert!(super::text(&waiting).starts_with(r"\u{1b}c: "));
    }
}
