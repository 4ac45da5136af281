//! `frostline bound`.

use frostline_bound::{Bound, EpochChoice, EpochMatrix, SolveOptions, solve};
use frostline_core::spec;
use frostline_core::types::PageCount;
use frostline_report::summary;
use frostline_report::table::Table;
use frostline_report::units::{bytes, count, percent, seconds};
use frostline_sim::{FastSize, FaultInjection, Footprint, Machine};
use frostline_study::{Input, bounds, footprint, machine};
use frostline_terminal::errors::failure;
use frostline_terminal::progress::{self, Screen};
use frostline_terminal::{cancel, limit, output};
use serde::Serialize;
use std::fmt::Write;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frostline bound s.flt
  frostline bound s.flt --fast 1:2,40%,2GiB --machine dram-cxl
  frostline bound synth:zipf:pages=64K:accesses=10M --fast 1:8 --gap 0.1% --json

`at most` is what no policy can save beyond, `at least` what a plan with knowledge of the future
saves; both net of migrations at the cheapest rate, and as shares of what all-fast memory saves.
The truth is between them: the gap is their distance.")]
pub struct Args {
    /// Trace: a file of `frostline record`, or synth:NAME:key=value...
    #[arg(value_name = "TRACE")]
    trace: String,
    /// Sizes of the fast tier, separated by commas: 1:8 (fast to slow), 40% of the footprint, 2GiB
    #[arg(short, long, default_value = "1:2,1:8,1:16", value_name = "LIST")]
    #[arg(value_delimiter = ',')]
    fast: Vec<FastSize>,
    /// Machine: a preset (see `frostline list machines`) or a TOML file, with parameters
    #[arg(short, long, value_name = "NAME[:key=value...]", default_value = "dram-nvm")]
    machine: String,
    /// Prices over time: at least so many, and fewer than twice as many
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    epochs: u32,
    /// Stop searching at this gap
    #[arg(long, default_value = "0.5%", value_name = "SHARE", value_parser = spec::parse_ratio)]
    gap: f64,
    /// Passes over the trace at most, for each size
    #[arg(long, default_value_t = 60, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,
    /// Print every number as JSON
    #[arg(long)]
    json: bool,
}

/// One size of fast memory, as `--json` shows it.
#[derive(Serialize)]
struct Run {
    trace: String,
    machine: String,
    footprint_bytes: u64,
    accesses: u64,
    fast: String,
    fast_bytes: u64,
    all_fast_saving_ns: f64,
    saving_upper_ns: f64,
    saving_feasible_ns: f64,
    bound_gap: f64,
    epochs: u32,
    iterations: u32,
}

/// Computes the bound for every size.
///
/// # Errors
/// Wrong usage, a trace that cannot be read or does not fit, or a stop.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    cancel::install()?;
    let machine = machine(&args.machine)?;
    let input = Input::open(&args.trace, 2, limit::current(), &Screen)?;
    let footprint = footprint(&input, &machine, &Screen)?;
    if let Err(why) = bounds::applies(&machine, &FaultInjection::default(), &footprint) {
        let hint = match why {
            bounds::NoBound::Memory { .. } => "take a shorter trace",
            _ => "take a machine with one fast and one slow tier, such as dram-nvm",
        };
        return Err(failure(format!("there is no bound here: {why}"), hint));
    }
    let epochs = EpochChoice::About(args.epochs);
    let matrix = bounds::matrix(&input, &footprint, &Screen)?.with_epochs(epochs);
    let options = SolveOptions {
        target_gap: args.gap,
        max_iterations: args.iterations,
        ..SolveOptions::default()
    };
    let mut runs = Vec::new();
    for &fast in &args.fast {
        let capacity = fast.pages(&footprint);
        let spinner = progress::bar(&format!("computing the bound at {fast}"), "", None);
        let bound = solve(&matrix, &bounds::model(&machine, capacity.0), &options);
        spinner.finish_and_clear();
        cancel::check()?;
        runs.push(report(&args.trace, &machine, &footprint, &matrix, (fast, capacity), &bound?));
    }
    match args.json {
        true => output::json(&runs)?,
        false => output::text(&show(&machine, &footprint, &matrix, &runs))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn report(
    trace: &str,
    machine: &Machine,
    footprint: &Footprint,
    matrix: &EpochMatrix,
    (fast, capacity): (FastSize, PageCount),
    bound: &Bound,
) -> Run {
    Run {
        trace: trace.to_owned(),
        machine: machine.name.clone(),
        footprint_bytes: footprint.bytes(),
        accesses: matrix.records() * u64::from(matrix.thinning()),
        fast: fast.to_string(),
        fast_bytes: capacity.bytes().0,
        all_fast_saving_ns: bound.all_fast_saving_ns,
        saving_upper_ns: bound.saving_upper_ns,
        saving_feasible_ns: bound.saving_feasible_ns,
        bound_gap: bound.gap,
        epochs: matrix.epochs(),
        iterations: bound.iterations,
    }
}

fn show(machine: &Machine, footprint: &Footprint, matrix: &EpochMatrix, runs: &[Run]) -> String {
    let mut out = String::new();
    let accesses = count(matrix.records() as f64 * f64::from(matrix.thinning()));
    let all_fast = runs.first().map_or(0.0, |run| run.all_fast_saving_ns);
    let _ = writeln!(out, "trace    {}", runs.first().map_or("", |run| &run.trace));
    let _ = writeln!(
        out,
        "         footprint {}, {accesses} accesses to memory",
        bytes(footprint.bytes() as f64)
    );
    let _ = writeln!(out, "machine  {}", summary::machine(machine));
    let _ = writeln!(out, "         all-fast memory saves {}", seconds(all_fast / 1e9));
    let _ = writeln!(out, "prices   {} over time\n", matrix.epochs());
    let mut table = Table::new(&["fast", "size", "at most", "share", "at least", "gap", "passes"]);
    for run in runs {
        let share = if all_fast > 0.0 { run.saving_upper_ns / all_fast } else { 0.0 };
        table.row(vec![
            run.fast.clone(),
            bytes(run.fast_bytes as f64),
            seconds(run.saving_upper_ns / 1e9),
            percent(share),
            seconds(run.saving_feasible_ns / 1e9),
            format!("{:.2} %", run.bound_gap * 100.0),
            run.iterations.to_string(),
        ]);
    }
    out.push_str(&table.show(0));
    out
}
