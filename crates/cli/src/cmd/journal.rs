//! `frostline journal`: what live runs wrote down of their decisions.

use frostline_driver::journal::{Entries, replay};
use frostline_terminal::errors::{ResultExt, failure};
use frostline_terminal::{limit, output};
use std::path::PathBuf;
use std::process::ExitCode;

/// What `--help` of `verify` says first.
const LONG: &str = "\
Tells a new engine everything that the engine of a live run was told, at the same times, and \
compares what it wants done with what was wanted then. Both are the same unless the policy has \
changed.";

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frostline run --journal j -- ./server
  frostline journal verify j
  frostline trace import j j.flt             # its samples as a trace")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Repeat the decisions of a journal, and compare
    #[command(long_about = LONG)]
    Verify(Verify),
}

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  frostline journal verify j\n  frostline journal verify j --json"
)]
struct Verify {
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
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Command::Verify(args) = &args.command;
    let entries = Entries::open(&args.journal).or_hint(
        format!("cannot read the journal {}", args.journal.display()),
        "frostline run --journal FILE -- PROGRAM writes one",
    )?;
    let done = replay(&mut entries.within(limit::current()))?;
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
