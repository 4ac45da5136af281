//! `frostline-repro tournament`.

use crate::tournament::matrix::Matrix;
use crate::tournament::results::Results;
use crate::tournament::{play, standings};
use frostline_terminal::progress::Screen;
use frostline_terminal::{cancel, output};
use std::num::NonZeroUsize;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frostline-repro tournament -o t.jsonl                    # hours; Ctrl-C, and the same again goes on
  frostline-repro tournament -o t.jsonl --family held-out
  frostline-repro tournament my.toml -o m.jsonl --json

Regret is how much longer a policy takes than the best of a case, in modelled seconds. Results are
kept by case in the file of -o; cases that it has are not played again, while the version is the same.")]
pub struct Args {
    /// Matrix of machines, sizes, policies and families of traces [default: the program's own]
    #[arg(value_name = "FILE.toml")]
    matrix: Option<PathBuf>,
    /// Results, a line for each case; an existing file is gone on with
    #[arg(short, long, value_name = "FILE.jsonl")]
    output: PathBuf,
    /// Only this family of traces
    #[arg(long, value_name = "NAME")]
    family: Option<String>,
    /// Runs at the same time [default: one per core]
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Plays what is missing, and prints the standings.
///
/// # Errors
/// A matrix that cannot be read, a run that fails, a stop, or results that cannot be written.
pub fn run(args: &Args) -> anyhow::Result<()> {
    cancel::install()?;
    let matrix = Matrix::read(args.matrix.as_deref())?;
    let units = matrix.units(args.family.as_deref())?;
    let mut results = Results::open(&args.output)?;
    play(&matrix, &units, args.jobs.map(NonZeroUsize::get), &mut results, &Screen)?;
    let all = standings::standings(&results.of(&units));
    if args.json { output::json(&all) } else { output::text(&standings::text(&all)) }
}
