//! `frostline status`: what runs here.

use crate::live::summary;
use crate::output;
use frostline_driver::instances;
use frostline_linux::Root;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:\n  frostline status\n  frostline status --json")]
pub struct Args {
    /// Print every number as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// Where the list cannot be read.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let all = instances::list(&Root::system())?;
    if args.json {
        output::json(&all)?;
        return Ok(ExitCode::SUCCESS);
    }
    if all.is_empty() {
        output::text("nothing is managed\n")?;
    }
    for status in &all {
        if status.targets.is_empty() {
            output::text(&format!("{}: frostline {}; does not run\n", status.name, status.pid))?;
            continue;
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
        output::text(&format!("{head}\n  {body}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}
