//! `frostline advise`.

mod prices;
mod recorded;
mod told;

use crate::model::{Switch, scale};
use frostline_core::policy::registry;
use frostline_core::spec;
use frostline_core::types::Nanos;
use frostline_driver::Slowdown;
use frostline_report::html::{self, Advised};
use frostline_sim::{FastSize, Machine, Scale, SimOptions};
use frostline_study::advise::{Advice, Extent, Question, Trace, advise};
use frostline_study::machine;
use frostline_terminal::errors::usage;
use frostline_terminal::files::write_report;
use frostline_terminal::progress::Screen;
use frostline_terminal::{cancel, limit, output};
use prices::{Price, Prices};
use recorded::Recorded;
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use told::{show, told};

const SHORT: &str = "\
Examples:
  frostline advise s.flt
  frostline advise s.flt --max-slowdown 2% --machine dram-cxl --price dram=4,cxl=1.5
  frostline advise --for 30s -- redis-server --save ''";

const LONG: &str = "\
Examples:
  frostline advise s.flt
  frostline advise s.flt --max-slowdown 1%,5% --machine dram-cxl,dram-nvm --policies frost,hybridtier
  frostline advise s.flt --max-slowdown 2% --machine dram-cxl --price dram=4,cxl=1.5
  frostline advise synth:ycsb-b --exact --json
  frostline advise s.flt --policies frost,hybridtier --report s.html
  frostline advise --for 30s -- redis-server --save ''

The size is the one from which on the program is no slower, whatever more there is. Its interval says how
much it varies with what the program does over time; how far the model itself is off is in
docs/notes/validation.md. Of a large trace, what happens in some of its regions of 2 MiB is replayed.

PROGRAM is recorded as by `frostline record`, into a trace that is deleted afterwards. It is ended as soon as the
trace has 1 GiB.";

/// What a report says of itself.
const BASED_ON: &str = "Times are modelled, not measured: the accesses of a trace are replayed against a model of the \
machine on a virtual clock, once for each size that has a number in the table under the chart; between two sizes, the slowdown \
is taken to follow a straight line. The intervals say how much the sizes vary with what the program does over time: stretches \
of the run are drawn again and again. How far the model itself is off is in docs/notes/validation.md.";

#[derive(clap::Args)]
#[command(after_help = SHORT, after_long_help = LONG)]
pub struct Args {
    /// Trace: a file of `frostline record`, or synth:NAME:key=value...
    #[arg(value_name = "TRACE", required_unless_present = "command", conflicts_with = "command")]
    trace: Option<String>,
    /// The program to record for the advice, and its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
    /// Record PROGRAM so long, and end it then [default: to its end]
    #[arg(long = "for", value_name = "TIME", value_parser = spec::parse_duration)]
    time: Option<Nanos>,
    /// Keep the trace of PROGRAM in a file
    #[arg(short, long, value_name = "TRACE")]
    output: Option<PathBuf>,
    /// How much slower the program may become, separated by commas
    #[arg(long, default_value = "1%,2%,5%,10%", value_name = "LIST", value_delimiter = ',')]
    max_slowdown: Vec<Slowdown>,
    /// Machines: presets (see `frostline list machines`) or TOML files, with parameters, separated by commas
    #[arg(short, long, default_value = "dram-cxl", value_name = "LIST", value_delimiter = ',')]
    machine: Vec<String>,
    /// Policies, separated by commas
    #[arg(short, long, alias = "policy", default_value = registry::DEFAULT, value_name = "LIST")]
    policies: String,
    /// Prices of a GiB by tier: dram=4,cxl=1.5
    #[arg(long, value_name = "TIER=PRICE,...", value_delimiter = ',')]
    price: Vec<Price>,
    /// Replay all of the trace, however large it is
    #[arg(long)]
    exact: bool,
    /// Translation lookaside buffer: modelled, or off
    #[arg(
        long,
        value_enum,
        default_value = "on",
        value_name = "on|off",
        hide_possible_values = true
    )]
    #[arg(hide_short_help = true)]
    tlb: Switch,
    /// Intervals of policies: as for `frostline compare`
    #[arg(long, default_value = "scaled", value_name = "scaled|paper|SIZE", value_parser = scale)]
    #[arg(hide_short_help = true)]
    scale: Scale,
    /// Seed of everything random: what is drawn of the trace, policies, intervals
    #[arg(long, default_value_t = 1, hide_short_help = true)]
    seed: u64,
    /// Runs at the same time [default: one per core]
    #[arg(short, long, value_name = "N", hide_short_help = true)]
    jobs: Option<NonZeroUsize>,
    /// Print every number as JSON; what PROGRAM prints is thrown away
    #[arg(long)]
    json: bool,
    /// Write a report with charts
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

/// Answers for every machine and policy.
///
/// # Errors
/// Wrong usage, a trace that cannot be read, or a stop.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let policies = registry::expand(&args.policies)?;
    let machines = args.machine.iter().map(|text| machine(text));
    let machines: Vec<Machine> = machines.collect::<Result<_, _>>()?;
    let prices = machines.iter().map(|machine| Prices::of(machine, &args.price));
    let prices: Vec<Option<Prices>> = prices.collect::<anyhow::Result<_>>()?;
    let recorded = match args.command.is_empty() {
        true if args.time.is_some() => {
            return Err(usage("--for is about a PROGRAM", "name one after --"));
        }
        true if args.output.is_some() => {
            return Err(usage("--output is about a PROGRAM", "name one after --"));
        }
        true => None,
        false => Some(Recorded::of(&args)?),
    };
    // Not before the recording: Ctrl-C is the program's.
    cancel::install()?;
    let name = match (&args.trace, &recorded) {
        (Some(trace), _) => trace.clone(),
        (None, Some(recorded)) => recorded.trace()?.to_owned(),
        (None, None) => return Err(usage("no trace is named", "name one, or a program after --")),
    };
    let mut trace = Trace::open(&name, limit::current(), &Screen)?;
    let mut advised: Vec<(&Machine, Option<Prices>, Vec<Advice>)> = Vec::new();
    for (machine, prices) in machines.iter().zip(prices) {
        let question = Question {
            goals: args.max_slowdown.iter().map(|slowdown| slowdown.get()).collect(),
            policies: policies.clone(),
            extent: if args.exact { Extent::All } else { Extent::ByLength },
            jobs: args.jobs.map(NonZeroUsize::get),
            options: SimOptions {
                seed: args.seed,
                tlb: args.tlb == Switch::On,
                scale: args.scale,
                ..SimOptions::new(machine.clone(), FastSize::Percent(100.0))
            },
        };
        advised.push((machine, prices, advise(&mut trace, &question, &Screen)?));
    }
    let of = recorded.as_ref().map_or(&*name, Recorded::program);
    if let Some(path) = &args.report {
        let machines = advised.iter().map(|(machine, _, advice)| Advised {
            machine: &machine.name,
            policies: advice.iter().collect(),
        });
        write_report(path, &html::advice(of, &machines.collect::<Vec<_>>(), BASED_ON))?;
    }
    let runs = advised.iter().flat_map(|(machine, prices, advice)| {
        advice.iter().map(|advice| told(of, machine, advice, *prices))
    });
    let runs: Vec<_> = runs.collect();
    match args.json {
        true => output::json(&runs)?,
        false => output::text(&show(&runs))?,
    }
    Ok(ExitCode::SUCCESS)
}
