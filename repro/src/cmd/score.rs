//! `frostline-repro score`.

use super::effort::EffortArgs;
use super::scoreboard;
use crate::experiment::night::{self, Night, Task};
use crate::experiment::stored::Stored;
use frostline_terminal::cancel;
use frostline_terminal::errors::usage;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frostline-repro score                             # all, from results that come with the program
  frostline-repro score memtis-fig5 --each          # number by number, with reasons
  frostline-repro score --run --quick --results r   # all anew, half a minute each; goes on where it was stopped

Counted are published numbers that have a direction: per cent, points, ratios and correlations, no
amounts and times. Met are those that our interval reaches, or from which ours is less than a quarter
away; of the others, ours points the same way (slight where by less than a tenth of what was published),
the other way (reversed), or neither for sure.")]
pub struct Args {
    /// Experiments by name, their files, and folders of them [default: all that come with the program]
    #[arg(value_name = "EXPERIMENT")]
    paths: Vec<PathBuf>,
    /// Run those that have no results yet, or results of another file, effort or number of seeds
    #[arg(long)]
    run: bool,
    /// Folder of results [default: those that come with the program; with --run, none are kept]
    #[arg(long, value_name = "FOLDER")]
    results: Option<PathBuf>,
    /// Show every number, with the reasons of those that are not met
    #[arg(long)]
    each: bool,
    #[command(flatten)]
    effort: EffortArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// A file that is no experiment, one without results where none are run, or a run that fails.
pub fn run(args: &Args) -> anyhow::Result<()> {
    cancel::install()?;
    let files = night::files(&args.paths)?;
    let tasks = files.iter().map(|file| Task::read(file)).collect::<anyhow::Result<Vec<_>>>()?;
    let folder = args.results.as_deref();
    let stored = match args.run {
        true => {
            let effort = args.effort.effort(false);
            Night { effort, folder, build: crate::build()? }.complete(&tasks)?
        }
        false => tasks.iter().map(|task| kept(folder, task)).collect::<anyhow::Result<_>>()?,
    };
    scoreboard::print(tasks.into_iter().zip(stored).collect(), args.each, args.json)
}

fn kept(folder: Option<&Path>, task: &Task) -> anyhow::Result<Stored> {
    let Task { name, .. } = task;
    Stored::read(folder, name)?.ok_or_else(|| {
        usage(format!("{name} has no results"), "`--run` runs it; add --quick to try")
    })
}
