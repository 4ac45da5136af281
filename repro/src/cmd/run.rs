//! `frostline-repro run`.

use super::effort::EffortArgs;
use crate::experiment::chart::Drawn;
use crate::experiment::heatmap::Picture;
use crate::experiment::map::Map;
use crate::experiment::night::Task;
use crate::experiment::{Finding, carry_out, report, show};
use frostline_sim::RunReport;
use frostline_terminal::files::write_report;
use frostline_terminal::{cancel, output};
use serde::Serialize;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frostline-repro run memtis-fig11 --quick
  frostline-repro run memtis-fig5 --seeds 3 --report fig5.html

The file says what to run and what was published. Numbers are from the simulator: modelled time.")]
pub struct Args {
    /// The experiment: a name of `frostline-repro list`, or a file
    file: PathBuf,
    #[command(flatten)]
    effort: EffortArgs,
    /// Print results and every run's numbers as JSON
    #[arg(long)]
    json: bool,
    /// Write a report with charts
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

#[derive(Serialize)]
struct Printed<'a> {
    experiment: String,
    paper: &'a str,
    title: &'a str,
    quick: bool,
    results: &'a [Finding],
    charts: &'a [Drawn],
    maps: &'a [Map],
    heatmaps: &'a [Picture],
    runs: Vec<&'a RunReport>,
}

/// Runs the command.
///
/// # Errors
/// A file that is no experiment, or a run that fails.
pub fn run(args: &Args) -> anyhow::Result<()> {
    cancel::install()?;
    let Task { name, experiment, .. } = Task::read(&args.file)?;
    let quick = args.effort.quick;
    let outcome = carry_out(&experiment, args.effort.effort(args.report.is_some()))?;
    if let Some(path) = &args.report {
        write_report(path, &report::page(&experiment, &outcome))?;
    }
    if !args.json {
        return output::text(&show::text(&experiment, &outcome, quick));
    }
    output::json(&[Printed {
        experiment: name,
        paper: &experiment.paper,
        title: &experiment.title,
        quick,
        results: &outcome.findings,
        charts: &outcome.charts,
        maps: &outcome.maps,
        heatmaps: &outcome.heatmaps,
        runs: outcome.studies().flat_map(frostline_study::Study::reports).collect(),
    }])
}
