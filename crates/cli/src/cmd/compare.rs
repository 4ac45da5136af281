//! `frostline compare`.

use crate::model::{ModelArgs, ProgramArgs};
use crate::series;
use frostline_core::spec;
use frostline_core::types::Nanos;
use frostline_report::{csv, details, html, summary};
use frostline_sim::FastSize;
use frostline_study::Request;
use frostline_terminal::errors::usage;
use frostline_terminal::files::write_report;
use frostline_terminal::progress::Screen;
use frostline_terminal::{cancel, digest, limit, output};
use serde::Serialize;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const SHORT: &str = "\
Examples:
  frostline compare s.flt --fast 1:2,1:8,1:16 --report s.html
  frostline compare s.flt -p memtis -f 1:8 --series run.csv          # one run: every number";

const LONG: &str = "\
Examples:
  frostline compare s.flt --fast 1:2,1:8,1:16 --report s.html
  frostline compare synth:zipf:pages=256K:accesses=20M --policies memtis,memtis-ns,first-touch
  frostline compare s.flt --policies memtis:alpha=0.75,memtis:alpha=0.5 --fast 30% --seeds 5
  frostline compare s.flt t.flt --machine dram-cxl --json > runs.json
  frostline compare s.flt --seeds 5 --csv > runs.csv
  frostline compare s.flt -p memtis -f 1:8 --series run.csv          # one run: every number
  frostline compare s.flt -p memtis -f 1:8 --lost-samples 10% --busy-pages 5%

Groups of policies: `all` (the principal online ones and the references first-touch, all-fast and
all-slow), `variants`, `baselines`, `offline`. `frostline list policies` lists them.

`slowdown` is the modelled time over that with all memory fast.

`of bound` is the share that a policy reaches of what no placement can beat, on unqueued latencies
and the cheapest migration. The gap says by how much the bound may be too high.";

#[derive(clap::Args)]
#[command(after_help = SHORT, after_long_help = LONG)]
pub struct Args {
    /// Traces: files of `frostline record`, or synth:NAME:key=value...
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<String>,
    /// Policies and groups of policies, separated by commas
    #[arg(short, long, alias = "policy", default_value = "all", value_name = "LIST")]
    policies: String,
    /// Sizes of the fast tier, separated by commas: 1:8 (fast to slow), 40% of the footprint, 2GiB
    #[arg(short, long, default_value = "1:2,1:8,1:16", value_name = "LIST")]
    #[arg(value_delimiter = ',')]
    fast: Vec<FastSize>,
    /// Run everything with so many seeds, and give means with intervals
    ///
    /// Generated traces differ by the seed, too.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Do not compute the upper bound
    #[arg(long)]
    no_bound: bool,
    /// Runs at the same time [default: one per core]
    #[arg(short, long, value_name = "N", hide_short_help = true)]
    jobs: Option<NonZeroUsize>,
    /// Print every number as JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Print a row for each run as CSV instead of tables
    ///
    /// The columns are those of a run in JSON that every policy has, and the digest of the trace.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Write the time series of the run, where it is one
    #[arg(long, value_name = "FILE.csv|FILE.json")]
    series: Option<PathBuf>,
    /// Modelled time between points of the series [default: about 200 points]
    #[arg(long, value_name = "TIME", requires = "series", value_parser = spec::parse_duration)]
    #[arg(hide_short_help = true)]
    series_interval: Option<Nanos>,
    /// Write a report with charts
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    #[command(flatten)]
    programs: ProgramArgs,
    #[command(flatten)]
    model: ModelArgs,
}

/// Runs the comparison.
///
/// # Errors
/// Wrong usage, a trace that cannot be read, or a stop.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    cancel::install()?;
    let policies = frostline_study::policies(&args.policies)?;
    let guests = args.programs.guests();
    let runs = args.traces.len() * args.fast.len() * policies.len() * guests.len().max(1);
    let single = runs == 1 && args.seeds == 1;
    let series = match &args.series {
        Some(_) if !single => {
            return Err(usage(
                "--series: there are several runs",
                "name one trace, one policy and one size",
            ));
        }
        Some(path) => Some((path, series::Format::of(path)?)),
        None => None,
    };
    let mut options = args.model.options(args.fast[0])?;
    options.heatmaps = args.report.is_some();
    options.series.interval = args.series_interval;
    let digests: BTreeMap<String, Option<String>> = match args.json || args.csv {
        true => digests(&args.traces)?,
        false => BTreeMap::new(),
    };
    let request = Request {
        traces: args.programs.programs(args.traces),
        guests,
        sizes: args.fast,
        policies,
        seeds: args.seeds,
        bound: !args.no_bound,
        jobs: args.jobs.map(NonZeroUsize::get),
        options,
        every_series: false,
        limit: limit::current(),
    };
    let study = frostline_study::run(&request, &Screen)?;
    if let Some((path, format)) = series {
        series::write(path, format, study.traces[0].sizes[0].policies[0].first())?;
    }
    if let Some(path) = &args.report {
        write_report(path, &html::study(&study))?;
    }
    match single {
        _ if args.json => output::json_about(About { trace_sha256: &digests }, &study.reports())?,
        _ if args.csv => {
            let sha256_of = |trace: &str| digests.get(trace).cloned().flatten();
            output::text(&csv::runs(&study.reports(), sha256_of)?)?;
        }
        true => output::text(&details::show(&study))?,
        false => output::text(&summary::show(&study))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What concerns all runs.
#[derive(Serialize)]
struct About<'a> {
    /// Digests of the traces by the names they were given, `None` for those that are no files.
    trace_sha256: &'a BTreeMap<String, Option<String>>,
}

fn digests(traces: &[String]) -> anyhow::Result<BTreeMap<String, Option<String>>> {
    let one = |trace: &String| Ok((trace.clone(), digest::sha256(Path::new(trace))?));
    traces.iter().map(one).collect()
}
