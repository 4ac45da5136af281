//! `frostline advise`.

mod asked;
mod prices;
mod probed;
mod process;
mod recorded;
mod swept;
mod told;

use crate::model::Switch;
use asked::{Asked, Measured, Samples};
use frostline_core::policy::registry;
use frostline_core::spec;
use frostline_core::types::Nanos;
use frostline_driver::Slowdown;
use frostline_report::html;
use frostline_sim::{FastSize, Scale, SimOptions};
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
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use told::{show, told};

const SHORT: &str = "\
Examples:
  frostline advise s.flt
  frostline advise s.flt --max-slowdown 2% --machine dram-cxl --price dram=4,cxl=1.5
  frostline advise --for 30s -- redis-server --save ''
  frostline advise 4711 --for 5min --max-slowdown 2%";

const LONG: &str = "\
Examples:
  frostline advise s.flt
  frostline advise s.flt --max-slowdown 1%,5% --machine dram-cxl,dram-nvm --policies frost,hybridtier
  frostline advise s.flt --max-slowdown 2% --machine dram-cxl --price dram=4,cxl=1.5
  frostline advise synth:ycsb-b --exact --json
  frostline advise s.flt --policies frost,hybridtier --report s.html
  frostline advise --for 30s -- redis-server --save ''
  frostline advise 4711 --for 5min --max-slowdown 2%

The size is the one from which on the program is no slower, whatever more there is. Its interval says how
much it varies with what the program does over time; how far the model itself is off is in
docs/notes/validation.md. Of a large trace, what happens in some of its regions of 2 MiB is replayed.

A running process is watched: the access bits of all its pages are read and cleared, over and over, and touches of pages
that had not been touched for some time are what it would cost to have them in zram. Where page tables cannot be read,
it is probed: some of its pages, drawn at random, are paged out to zram, and how soon they come back tells the same. Probes
cost it a tenth of the least slowdown that is accepted, at most 0.2 %. What slow nodes would cost is not seen.

PROGRAM is recorded as by `frostline record`, into a trace that is deleted afterwards. It is ended as soon as the
trace has 1 GiB.";

/// Machine where nobody names one.
const MACHINE: &str = "dram-cxl";

/// What a report says of itself.
const BASED_ON: &str = "Times are modelled, not measured: the accesses of a trace are replayed against a model of the \
machine on a virtual clock, once for each size that has a number in the table under the chart; between two sizes, the slowdown \
is taken to follow a straight line. The intervals say how much the sizes vary with what the program does over time: stretches \
of the run are drawn again and again. How far the model itself is off is in docs/notes/validation.md.";

#[derive(clap::Args)]
#[command(after_help = SHORT, after_long_help = LONG)]
pub struct Args {
    /// Trace: a file of `frostline record`, or synth:NAME:key=value...; or the number of a running
    /// process, where no file has that name
    #[arg(value_name = "TRACE|PID", conflicts_with = "command")]
    #[arg(required_unless_present_any = ["command", "pid"])]
    trace: Option<String>,
    /// The program to record for the advice, and its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
    /// Watch this running process
    #[arg(long, value_name = "PID", conflicts_with_all = ["trace", "command"])]
    pid: Option<u32>,
    /// What sees touches of PID: its page tables where they can be read, or probes
    #[arg(
        long,
        value_enum,
        default_value = "auto",
        value_name = "auto|page-tables|probes",
        hide_possible_values = true,
        conflicts_with = "command"
    )]
    #[arg(hide_short_help = true)]
    samples: Samples,
    /// Record PROGRAM so long, and end it then [default: to its end]; or watch PID so long [default: 1min]
    #[arg(long = "for", value_name = "TIME", value_parser = spec::parse_duration)]
    time: Option<Nanos>,
    /// Keep the trace of PROGRAM in a file
    #[arg(short, long, value_name = "TRACE")]
    output: Option<PathBuf>,
    /// How much slower the program may become, separated by commas
    #[arg(long, default_value = "1%,2%,5%,10%", value_name = "LIST", value_delimiter = ',')]
    max_slowdown: Vec<Slowdown>,
    /// Machines: presets (see `frostline list machines`) or TOML files, with parameters, separated by commas
    /// [default: dram-cxl; of a PID, this one with zram]
    #[arg(short, long, value_name = "LIST", value_delimiter = ',')]
    machine: Vec<String>,
    /// Policies, separated by commas [default: frost; of a PID, none]
    #[arg(short, long, alias = "policy", value_name = "LIST")]
    policies: Option<String>,
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
    #[arg(long, default_value = "scaled", value_name = "scaled|paper|SIZE")]
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

/// What advice is asked of.
enum Subject {
    Trace(String),
    Program,
    Process(u32),
}

impl Subject {
    fn of(args: &Args) -> Self {
        match (&args.trace, args.pid) {
            (_, Some(pid)) => Self::Process(pid),
            (Some(text), None) => match text.parse() {
                Ok(pid) if !Path::new(text).exists() => Self::Process(pid),
                _ => Self::Trace(text.clone()),
            },
            (None, None) => Self::Program,
        }
    }
}

/// Answers for every machine and policy.
///
/// # Errors
/// Wrong usage, a trace that cannot be read, a process that cannot be watched, or a stop.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let subject = Subject::of(&args);
    let recorded = matches!(subject, Subject::Program);
    if args.output.is_some() && !recorded {
        return Err(usage("--output is about a PROGRAM", "name one after --"));
    }
    match subject {
        Subject::Process(pid) => of_process(pid, &args),
        Subject::Trace(_) if args.time.is_some() => {
            Err(usage("--for is about a PROGRAM or a PID", "name one"))
        }
        Subject::Trace(name) => of_trace(&args, &name, None),
        Subject::Program => {
            let recorded = Recorded::of(&args)?;
            of_trace(&args, recorded.trace()?, Some(recorded.program()))
        }
    }
}

/// Advice on a running process. Of nodes nothing is told: whether a page is touched is seen, and not how often.
fn of_process(pid: u32, args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(machine) = args.machine.iter().find(|name| name.as_str() != asked::MACHINE) {
        let what = format!(
            "of a running process nothing can be said about {machine}, only about zram here"
        );
        return Err(usage(
            what,
            "record the program for other machines: frostline advise -- PROGRAM",
        ));
    }
    if args.policies.is_some() || args.exact {
        let what = "--policies and --exact are about traces";
        return Err(usage(
            what,
            "leave them out, or record the program: frostline advise -- PROGRAM",
        ));
    }
    let goals: Vec<f64> = args.max_slowdown.iter().map(|slowdown| slowdown.get()).collect();
    let time = args.time.unwrap_or(process::TIME);
    let asked = Asked { pid, samples: args.samples, time, goals: &goals, seed: args.seed };
    let (name, found) = asked.look()?;
    let prices = Prices::of_names(["dram", asked::MACHINE], "this machine", &args.price)?;
    let machine = [asked::MACHINE; 2];
    let advised = [(machine, prices, vec![found.advice])];
    tell(args, &name, &advised, Some(found.measured), &found.based_on)
}

fn of_trace(args: &Args, name: &str, program: Option<&str>) -> anyhow::Result<ExitCode> {
    let policies = registry::expand(args.policies.as_deref().unwrap_or(registry::DEFAULT))?;
    let machines = match args.machine.is_empty() {
        true => vec![machine(MACHINE)?],
        false => args.machine.iter().map(|text| machine(text)).collect::<Result<_, _>>()?,
    };
    let prices = machines.iter().map(|machine| Prices::of(machine, &args.price));
    let prices: Vec<Option<Prices>> = prices.collect::<anyhow::Result<_>>()?;
    // Not before a recording: Ctrl-C is the program's.
    cancel::install()?;
    let mut trace = Trace::open(name, limit::current(), &Screen)?;
    let mut advised = Vec::new();
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
        let slow = &*machine.tiers[machine.tiers.len() - 1].name;
        let advice = advise(&mut trace, &question, &Screen)?;
        advised.push(([&*machine.name, slow], prices, advice));
    }
    tell(args, program.unwrap_or(name), &advised, None, BASED_ON)
}

/// Machine and its slow memory, prices and advice by policy.
type Advised<'a> = ([&'a str; 2], Option<Prices>, Vec<Advice>);

/// Prints what was found, and writes the report.
fn tell(
    args: &Args,
    of: &str,
    advised: &[Advised<'_>],
    measured: Option<Measured>,
    based_on: &str,
) -> anyhow::Result<ExitCode> {
    if let Some(path) = &args.report {
        let machines = advised.iter().map(|([machine, _], _, advice)| html::Advised {
            machine,
            policies: advice.iter().collect(),
        });
        write_report(path, &html::advice(of, &machines.collect::<Vec<_>>(), based_on))?;
    }
    let runs = advised.iter().flat_map(|(machine, prices, advice)| {
        advice.iter().map(|advice| told(of, *machine, advice, *prices, measured))
    });
    let runs: Vec<_> = runs.collect();
    match args.json {
        true => output::json(&runs)?,
        false => output::text(&show(&runs, based_on))?,
    }
    Ok(ExitCode::SUCCESS)
}
