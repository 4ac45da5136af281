//! `frostline-repro all`.

use super::effort::EffortArgs;
use super::scoreboard;
use crate::cluster::Cluster;
use crate::experiment::night::{self, Night, Task};
use crate::experiment::plan::Plan;
use frostline_terminal::progress::note;
use frostline_terminal::{cancel, output};
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frostline-repro all --dry-run            # how much there is to run, and how long it takes here
  frostline-repro all --results r          # in full; Ctrl-C, and the same again goes on
  frostline-repro all --quick -j 2         # smaller workloads
  frostline-repro all --results r --scheduler tcp://10.0.0.1:8786

It runs what has no results in the folder, the longest experiments first, and prints the score of all.
The time is estimated from a brief run of each experiment on this machine.

A cluster of Dask is spoken to by python3, or what FROSTLINE_PYTHON names, which needs `distributed`. Its workers need no more \
than that: they are sent this program. What runs on recorded traces runs here.")]
pub struct Args {
    /// A folder of other ones [default: those that come with the program]
    folder: Option<PathBuf>,
    /// Folder of results
    #[arg(long, value_name = "FOLDER", default_value = "kept")]
    results: PathBuf,
    /// Print what would be run, and how long it takes
    #[arg(long)]
    dry_run: bool,
    /// Have a cluster of Dask make the runs: address of its scheduler, tcp://HOST:PORT
    #[arg(long, value_name = "ADDRESS", conflicts_with = "jobs")]
    scheduler: Option<String>,
    #[command(flatten)]
    effort: EffortArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// A folder that cannot be read, a file in it that is no experiment, a run that fails, or a stop.
pub fn run(args: &Args) -> anyhow::Result<()> {
    cancel::install()?;
    let files = night::files(args.folder.as_slice())?;
    let mut tasks =
        files.iter().map(|file| Task::read(file)).collect::<anyhow::Result<Vec<_>>>()?;
    let (effort, folder) = (args.effort.effort(false), Some(args.results.as_path()));
    let night = Night { effort, folder, build: crate::build()? };
    let plan = Plan::make(&night, &mut tasks)?;
    if args.dry_run {
        return if args.json { plan.json() } else { output::text(&plan.text()) };
    }
    note(&plan.text());
    let stored = match &args.scheduler {
        Some(address) => night.complete_on(&Cluster::connect(address)?, &tasks)?,
        None => night.complete(&tasks)?,
    };
    let mut scored: Vec<_> = tasks.into_iter().zip(stored).collect();
    scored.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    scoreboard::print(scored, false, args.json)
}
