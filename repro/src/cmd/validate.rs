//! `frostline-repro validate`.

use crate::validate::programs::store;
use crate::validate::{self, show};
use frostline_terminal::files::write_report;
use frostline_terminal::{cancel, output};
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frostline-repro validate                          # records what is installed; minutes each, kept
  frostline-repro validate gauss-kv etc --report v.html

Programs are recorded, and profiled beside what the generators make. docs/notes/workloads.md has the
programs, docs/reference/workloads.md the measures.")]
pub struct Args {
    /// Generators [default: all whose program is installed]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Where recordings are kept, and looked for before recording [default: the user's cache]
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Write a report with the curves of each pair
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// Where standard output cannot be written, and those of validation.
pub fn run(args: &Args) -> anyhow::Result<()> {
    cancel::install()?;
    let dir = args.keep.clone().map_or_else(store::folder, Ok)?;
    let pairs = validate::validate(&args.names, &dir)?;
    if let Some(path) = &args.report {
        write_report(path, &validate::report::page(&pairs))?;
    }
    if args.json {
        output::json(&pairs.iter().map(show::row).collect::<Vec<_>>())?;
    } else {
        output::text(&show::text(&pairs))?;
    }
    validate::check(pairs, !args.names.is_empty())
}
