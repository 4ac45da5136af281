//! `frostline status`: what runs here.

use super::watch;
use crate::live::summary;
use frostline_driver::{Status, instances};
use frostline_linux::Root;
use frostline_terminal::output;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frostline status
  frostline status --json
  frostline status --watch")]
pub struct Args {
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
/// Where the list cannot be read.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.watch {
        return watch::run(args.once);
    }
    let all = instances::list(&Root::system())?;
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
