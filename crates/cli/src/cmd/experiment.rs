//! `frostline experiment`.

use crate::experiment::chart::Drawn;
use crate::experiment::file::Experiment;
use crate::experiment::heatmap::Picture;
use crate::experiment::map::Map;
use crate::experiment::{Effort, Finding, carry_out, report, show};
use frostline_report::table::Table;
use frostline_sim::RunReport;
use frostline_terminal::files::write_report;
use frostline_terminal::{cancel, output};
use serde::Serialize;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Run one and print the paper's numbers beside ours
    Run(RunArgs),
    /// List those of a folder
    List {
        /// The folder
        #[arg(default_value = "experiments")]
        folder: PathBuf,
    },
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frostline experiment run experiments/memtis-fig11.toml --quick
  frostline experiment run experiments/memtis-fig5.toml --seeds 3 --report fig5.html

The file says what to run and what was published. Numbers are from the simulator: modelled time.")]
struct RunArgs {
    /// The experiment's file
    file: PathBuf,
    /// Smaller workloads and fewer seeds
    #[arg(long)]
    quick: bool,
    /// How many seeds [default: as the file says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: Option<u64>,
    /// Runs at the same time [default: one per core]
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
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
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Run(args) => one(&args)?,
        Command::List { folder } => list(&folder)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn one(args: &RunArgs) -> anyhow::Result<()> {
    cancel::install()?;
    let experiment = Experiment::read(&args.file)?;
    let effort = Effort {
        quick: args.quick,
        seeds: args.seeds,
        jobs: args.jobs.map(NonZeroUsize::get),
        charts: args.report.is_some(),
    };
    let outcome = carry_out(&experiment, effort)?;
    if let Some(path) = &args.report {
        write_report(path, &report::page(&experiment, &outcome))?;
    }
    if !args.json {
        return output::text(&show::text(&experiment, &outcome, args.quick));
    }
    let name = args.file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    output::json(&[Printed {
        experiment: name.unwrap_or_default(),
        paper: &experiment.paper,
        title: &experiment.title,
        quick: args.quick,
        results: &outcome.findings,
        charts: &outcome.charts,
        maps: &outcome.maps,
        heatmaps: &outcome.heatmaps,
        runs: outcome.studies().flat_map(frostline_study::Study::reports).collect(),
    }])
}

fn list(folder: &Path) -> anyhow::Result<()> {
    let mut table = Table::new(&["file", "paper", "what it shows"]).left(3);
    for path in Experiment::files(folder)? {
        let experiment = Experiment::read(&path)?;
        table.row(vec![path.display().to_string(), experiment.paper, experiment.title]);
    }
    output::text(&table.show(0))
}
