//! `frostline-repro score`.

use super::effort::{EffortArgs, name};
use crate::experiment::carry_out;
use crate::experiment::file::Experiment;
use crate::experiment::score::Score;
use frostline_report::table::Table;
use frostline_terminal::{cancel, output};
use serde::Serialize;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frostline-repro score --quick                     # all; half a minute each
  frostline-repro score memtis-fig11 hotbox-fig8 --seeds 3

Counted are published numbers that have a direction: per cent, points, ratios and correlations, no
amounts and times. Ours points the same way (slight where by less than a tenth of it), the other way (reversed), or
neither for sure (unsure); within counts those that our interval reaches.")]
pub struct Args {
    /// Experiments by name, their files, and folders of them [default: all that come with the program]
    #[arg(value_name = "EXPERIMENT")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    effort: EffortArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Scored {
    experiment: String,
    paper: String,
    title: String,
    quick: bool,
    #[serde(flatten)]
    score: Score,
}

/// Runs the command.
///
/// # Errors
/// A file that is no experiment, or a run that fails.
pub fn run(args: &Args) -> anyhow::Result<()> {
    cancel::install()?;
    let mut files = if args.paths.is_empty() { Experiment::names() } else { Vec::new() };
    for path in &args.paths {
        match path.is_dir() {
            true => files.extend(Experiment::files(path)?),
            false => files.push(path.clone()),
        }
    }
    let read = |path: &PathBuf| Ok((name(path), Experiment::read(path)?));
    let experiments = files.iter().map(read).collect::<anyhow::Result<Vec<_>>>()?;
    let mut scored = Vec::new();
    for (name, experiment) in experiments {
        let score = Score::of(&carry_out(&experiment, args.effort.effort(false))?.findings);
        let Experiment { paper, title, .. } = experiment;
        scored.push(Scored { experiment: name, paper, title, quick: args.effort.quick, score });
    }
    if args.json { output::json(&scored) } else { output::text(&text(&scored)) }
}

/// A row for each experiment, and their sum.
fn text(scored: &[Scored]) -> String {
    let headings =
        ["experiment", "published", "same way", "slight", "reversed", "unsure", "within"];
    let mut table = Table::new(&headings);
    let sum = scored.iter().map(|one| one.score).sum();
    let rows = scored.iter().map(|one| (one.experiment.as_str(), one.score));
    for (name, score) in rows.chain([("all", sum)]) {
        let Score { published, same, slight, reversed, unsure, within } = score;
        let mut row = vec![name.to_owned()];
        row.extend(
            [published, same, slight, reversed, unsure, within].map(|count| count.to_string()),
        );
        table.row(row);
    }
    table.show(0)
}
