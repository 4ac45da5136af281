//! `frostline sim`.

use crate::model::{ModelArgs, ProgramArgs};
use crate::series;
use anyhow::Context;
use frostline_core::policy::registry;
use frostline_core::spec;
use frostline_core::types::Nanos;
use frostline_report::{details, html};
use frostline_sim::FastSize;
use frostline_study::Request;
use frostline_terminal::files::write_report;
use frostline_terminal::progress::Screen;
use frostline_terminal::{cancel, limit, output};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frostline sim s.flt --policy memtis --fast 1:8
  frostline sim s.flt --policy memtis:alpha=0.75 --fast 40% --machine dram-cxl --bound
  frostline sim synth:zipf:pages=64K:accesses=10M --series run.csv --report run.html
  frostline sim s.flt --lost-samples 10% --busy-pages 5%")]
pub struct Args {
    /// Trace: a file of `frostline record`, or synth:NAME:key=value...
    #[arg(value_name = "TRACE")]
    trace: String,
    /// Policy with parameters; see `frostline policies`
    #[arg(short, long, default_value = registry::DEFAULT, value_name = "NAME[:key=value...]")]
    policy: String,
    /// Size of the fast tier: 1:8 (fast to slow), 40% of the footprint, 2GiB
    #[arg(short, long, default_value = "1:8", value_name = "SIZE")]
    fast: FastSize,
    /// Compute the upper bound too, and the share of it that the policy reaches
    #[arg(long)]
    bound: bool,
    /// Print every number as JSON
    #[arg(long)]
    json: bool,
    /// Write the time series of the run
    #[arg(long, value_name = "FILE.csv|FILE.json")]
    series: Option<PathBuf>,
    /// Modelled time between points of the series [default: about 200 points]
    #[arg(long, value_name = "TIME", value_parser = spec::parse_duration)]
    series_interval: Option<Nanos>,
    /// Write a report with charts
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    #[command(flatten)]
    programs: ProgramArgs,
    #[command(flatten)]
    model: ModelArgs,
}

/// Runs the simulation.
///
/// # Errors
/// Wrong usage, a trace that cannot be read, or a stop.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    cancel::install()?;
    registry::check(&args.policy).context("--policy")?;
    let format = args.series.as_deref().map(series::Format::of).transpose()?;
    let mut options = args.model.options(args.fast)?;
    options.heatmaps = args.report.is_some();
    options.series.interval = args.series_interval;
    let request = Request {
        traces: args.programs.programs(vec![args.trace]),
        guests: args.programs.guests(),
        sizes: vec![args.fast],
        policies: vec![args.policy],
        seeds: 1,
        bound: args.bound,
        jobs: None,
        options,
        every_series: false,
        limit: limit::current(),
    };
    let study = frostline_study::run(&request, &Screen)?;
    if let (Some(path), Some(format)) = (&args.series, format) {
        series::write(path, format, study.traces[0].sizes[0].policies[0].first())?;
    }
    if let Some(path) = &args.report {
        write_report(path, &html::study(&study))?;
    }
    match args.json {
        true => output::json(&study.reports())?,
        false => output::text(&details::show(&study))?,
    }
    Ok(ExitCode::SUCCESS)
}
