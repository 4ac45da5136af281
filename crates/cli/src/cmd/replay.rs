//! `frostline replay`: repeats the decisions of a journal.

use frostline_driver::journal::{Entries, replay};
use frostline_terminal::errors::failure;
use frostline_terminal::{limit, output};
use std::path::PathBuf;
use std::process::ExitCode;

/// What `--help` says first.
pub const LONG: &str = "\
Tells a new engine everything that the engine of a live run was told, at the same times, and \
compares what it wants done with what was wanted then. Both are the same unless the policy has \
changed.";

#[derive(clap::Args)]
#[command(after_help = "Examples:\n  frostline replay j\n  frostline replay j --json")]
pub struct Args {
    /// Journal of `frostline run --journal`
    journal: PathBuf,
    /// Print numbers as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// Where the journal is damaged, and where other actions come out.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let done = replay(&mut Entries::open(&args.journal)?.within(limit::current()))?;
    if args.json {
        output::json(&[&done])?;
    } else if done.difference.is_none() {
        output::text(&format!(
            "identical: {} actions after {} events in {} batches{}\n",
            done.actions,
            done.events,
            done.batches,
            if done.cut_off { "; the journal's end is cut off" } else { "" }
        ))?;
    }
    match done.difference {
        None => Ok(ExitCode::SUCCESS),
        Some((entry, what)) => Err(failure(
            format!("other actions come out after entry {entry}: {what}"),
            "was the journal written by this version of frostline?",
        )),
    }
}
