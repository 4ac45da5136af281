//! `frostline-repro adversary`.

use crate::adversary::duel::Outcome;
use crate::adversary::show::{Summary, text, worst};
use crate::adversary::{Settings, fight};
use crate::lines::Lines;
use crate::parallel;
use frostline_core::policy::registry;
use frostline_terminal::{cancel, output};
use serde::Serialize;
use std::num::NonZeroUsize;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frostline-repro adversary -o a.jsonl --cases 2000        # half an hour; Ctrl-C, and the same again goes on
  frostline-repro adversary -o a.jsonl --cases 4000        # so many more
  frostline-repro adversary -o b.jsonl --cases 200 --seed 7 --policy memtis-plus

A duel is a generated program of the development set, or two of which one begins later, with random
parameters, on a random machine with a random size of fast memory: the policy against first touch, by
modelled seconds. The worst are printed with the command that repeats each.")]
pub struct Args {
    /// Results, a line for each duel; an existing file is gone on with
    #[arg(short, long, value_name = "FILE.jsonl")]
    output: PathBuf,
    /// How many duels, those of the file included
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1000)]
    cases: u64,
    /// Seed that all duels are drawn from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Policy that is tried
    #[arg(short, long, value_name = "POLICY", default_value = "frost")]
    policy: String,
    /// Duels at the same time [default: one per core]
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// How many of the worst to print
    #[arg(long, value_name = "N", default_value_t = 10)]
    worst: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What JSON has of all duels together.
#[derive(Serialize)]
struct About<'a> {
    settings: &'a Settings,
    summary: &'a Summary,
}

/// Of the worst, with what repeats it.
#[derive(Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    outcome: &'a Outcome,
    loss: Option<f64>,
    command: String,
}

/// Fights what is missing, and prints the worst.
///
/// # Errors
/// A policy that is not known, a stop, or results that cannot be written.
pub fn run(args: &Args) -> anyhow::Result<()> {
    cancel::install()?;
    registry::check(&args.policy)?;
    let Args { policy, seed, .. } = args;
    let build = crate::build()?;
    let settings = Settings { policy: policy.clone(), seed: *seed, build };
    let mut results = Lines::open(&args.output, &settings)?;
    fight(&settings, args.cases, parallel::jobs(args.jobs), &mut results)?;
    let within = |one: &&Outcome| one.duel.number < args.cases;
    let outcomes: Vec<&Outcome> = results.rows().iter().filter(within).collect();
    let (summary, worst) = (Summary::of(&outcomes), worst(&outcomes, args.worst));
    if args.json {
        let row = |outcome: &&'_ Outcome| {
            let (loss, command) = (outcome.loss(), outcome.duel.command(policy));
            serde_json::to_value(Row { outcome, loss, command })
        };
        let rows = worst.iter().map(row).collect::<Result<Vec<_>, _>>()?;
        output::json_about(About { settings: &settings, summary: &summary }, &rows)
    } else {
        output::text(&text(&settings, &summary, &worst))
    }
}
