//! `frostline advise`.

use crate::model::{Switch, scale};
use frostline_core::policy::registry;
use frostline_core::spec::SpecError;
use frostline_driver::Slowdown;
use frostline_report::table::Table;
use frostline_report::units::{bytes, percent};
use frostline_sim::{FastSize, Machine, Scale, SimOptions};
use frostline_study::advise::{Advice, Answer, Extent, Question, Trace, advise};
use frostline_study::machine;
use frostline_terminal::errors::usage;
use frostline_terminal::progress::Screen;
use frostline_terminal::{cancel, limit, output};
use serde::Serialize;
use std::fmt::Write;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::str::FromStr;

const GIB: f64 = (1u64 << 30) as f64;

const SHORT: &str = "\
Examples:
  frostline advise s.flt
  frostline advise s.flt --max-slowdown 2% --machine dram-cxl --price dram=4,cxl=1.5";

const LONG: &str = "\
Examples:
  frostline advise s.flt
  frostline advise s.flt --max-slowdown 1%,5% --machine dram-cxl,dram-nvm --policies frost,hybridtier
  frostline advise s.flt --max-slowdown 2% --machine dram-cxl --price dram=4,cxl=1.5
  frostline advise synth:ycsb-b --exact --json

The size is the one from which on the program is no slower, whatever more there is. Its interval says how
much it varies with what the program does over time; how far the model itself is off is in
docs/notes/validation.md. Of a large trace, what happens in some of its regions of 2 MiB is replayed.";

#[derive(clap::Args)]
#[command(after_help = SHORT, after_long_help = LONG)]
pub struct Args {
    /// Trace: a file of `frostline record`, or synth:NAME:key=value...
    #[arg(value_name = "TRACE")]
    trace: String,
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
    /// Print every number as JSON
    #[arg(long)]
    json: bool,
}

/// Price of a GiB of a tier.
#[derive(Clone, Debug, PartialEq)]
struct Price {
    tier: String,
    per_gib: f64,
}

impl FromStr for Price {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let price = text.split_once('=').and_then(|(tier, price)| {
            let per_gib =
                price.parse().ok().filter(|price: &f64| *price >= 0.0 && price.is_finite())?;
            Some(Self { tier: tier.to_owned(), per_gib })
        });
        price.ok_or_else(|| SpecError::new(format!("'{text}' is no price"), "write dram=4,cxl=1.5"))
    }
}

/// Prices of a GiB in the first and the last tier.
#[derive(Clone, Copy)]
struct Prices {
    fast: f64,
    slow: f64,
}

impl Prices {
    /// Those of a machine; none where none are given.
    fn of(machine: &Machine, given: &[Price]) -> anyhow::Result<Option<Self>> {
        if given.is_empty() {
            return Ok(None);
        }
        let price = |tier: &str| {
            let price = given.iter().find(|price| price.tier == tier).map(|price| price.per_gib);
            price.ok_or_else(|| {
                let what = format!("--price says nothing of {tier}, a tier of {}", machine.name);
                usage(what, format!("add {tier}=PRICE"))
            })
        };
        let (fast, slow) = (&machine.tiers[0].name, &machine.tiers[machine.tiers.len() - 1].name);
        Ok(Some(Self { fast: price(fast)?, slow: price(slow)? }))
    }

    /// What is saved where that share of a footprint is fast.
    fn saved(self, footprint: u64, share: f64) -> f64 {
        (self.fast - self.slow) * (1.0 - share) * footprint as f64 / GIB
    }
}

/// One machine and policy.
#[derive(Serialize)]
struct Run {
    trace: String,
    machine: String,
    policy: String,
    footprint_bytes: u64,
    /// Part of the regions that was replayed; 1 for all.
    part: f64,
    replays: usize,
    answers: Vec<Told>,
    curve: Vec<Point>,
    #[serde(skip)]
    slow: String,
}

/// Answer in bytes.
#[derive(Serialize)]
struct Told {
    max_slowdown: f64,
    /// `None` where all memory is not enough.
    fast_bytes: Option<u64>,
    fast_share: Option<f64>,
    /// Ends of the 95 % interval.
    low_bytes: Option<u64>,
    high_bytes: Option<u64>,
    /// A smaller size was not looked at.
    is_least: bool,
    /// With the prices that were given.
    saved: Option<f64>,
}

#[derive(Serialize)]
struct Point {
    fast_bytes: u64,
    slowdown: f64,
}

/// Answers for every machine and policy.
///
/// # Errors
/// Wrong usage, a trace that cannot be read, or a stop.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    cancel::install()?;
    let policies = registry::expand(&args.policies)?;
    let machines = args.machine.iter().map(|text| machine(text));
    let machines: Vec<Machine> = machines.collect::<Result<_, _>>()?;
    let prices = machines.iter().map(|machine| Prices::of(machine, &args.price));
    let prices: Vec<Option<Prices>> = prices.collect::<anyhow::Result<_>>()?;
    let mut trace = Trace::open(&args.trace, limit::current(), &Screen)?;
    let mut runs = Vec::new();
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
        let advice = advise(&mut trace, &question, &Screen)?;
        runs.extend(advice.iter().map(|advice| told(&args.trace, machine, advice, prices)));
    }
    match args.json {
        true => output::json(&runs)?,
        false => output::text(&show(&runs))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn told(trace: &str, machine: &Machine, advice: &Advice, prices: Option<Prices>) -> Run {
    let footprint = advice.footprint_bytes;
    let in_bytes = |share: f64| (share * footprint as f64) as u64;
    let answer = |answer: &Answer| {
        let (low, high) = answer.interval.unwrap_or_default();
        Told {
            max_slowdown: answer.goal,
            fast_bytes: answer.size.map(in_bytes),
            fast_share: answer.size,
            low_bytes: low.map(in_bytes),
            high_bytes: high.map(in_bytes),
            is_least: answer.is_least,
            saved: prices.zip(answer.size).map(|(prices, share)| prices.saved(footprint, share)),
        }
    };
    let point = |&(share, slowdown): &(f64, f64)| Point { fast_bytes: in_bytes(share), slowdown };
    Run {
        trace: trace.to_owned(),
        machine: machine.name.clone(),
        policy: advice.policy.clone(),
        footprint_bytes: footprint,
        part: advice.part.unwrap_or(1.0),
        replays: advice.replays,
        answers: advice.answers.iter().map(answer).collect(),
        curve: advice.curve.points().iter().map(point).collect(),
        slow: machine.tiers[machine.tiers.len() - 1].name.clone(),
    }
}

fn show(runs: &[Run]) -> String {
    let mut out = String::new();
    let Some(first) = runs.first() else { return out };
    let _ = writeln!(out, "trace    {}", first.trace);
    let replayed = match first.part {
        part if part < 1.0 => format!("{} of its regions replayed", percent(part)),
        _ => "all of it replayed".to_owned(),
    };
    let footprint = bytes(first.footprint_bytes as f64);
    let _ = writeln!(out, "         footprint {footprint}, {replayed}");
    for run in runs {
        let _ = writeln!(out, "\n{} under {}", run.machine, run.policy);
        let slow = format!("in {}", run.slow);
        let mut headings = vec!["slower by", "fast", "share", "95 %", &*slow];
        let priced = run.answers.iter().any(|answer| answer.saved.is_some());
        if priced {
            headings.push("saves");
        }
        let mut table = Table::new(&headings);
        for answer in &run.answers {
            let mut cells = row(run, answer);
            if priced {
                cells.push(answer.saved.map_or_else(String::new, |saved| format!("{saved:.2}")));
            }
            table.row(cells);
        }
        out.push_str(&table.show(2));
        let curve = run.curve.iter().map(|point| {
            let share = point.fast_bytes as f64 / run.footprint_bytes as f64;
            format!("{} {}", percent(share), percent(point.slowdown))
        });
        let curve = frostline_report::table::wrap(&curve.collect::<Vec<_>>().join(", "), 2);
        let _ = writeln!(out, "  fast memory and slowdown: {curve}");
    }
    out
}

fn row(run: &Run, answer: &Told) -> Vec<String> {
    let goal = format!("{} at most", percent(answer.max_slowdown));
    let Some((fast, share)) = answer.fast_bytes.zip(answer.fast_share) else {
        return vec![
            goal,
            "more than there is".to_owned(),
            String::new(),
            String::new(),
            String::new(),
        ];
    };
    let size = |size: Option<u64>| size.map_or("all".to_owned(), |size| bytes(size as f64));
    let interval = match (answer.low_bytes, answer.high_bytes) {
        (None, None) => "too short to tell".to_owned(),
        (low, high) => format!("{} to {}", size(low), size(high)),
    };
    let less = if answer.is_least { "below " } else { "" };
    vec![
        goal,
        format!("{less}{}", bytes(fast as f64)),
        percent(share),
        interval,
        bytes(run.footprint_bytes.saturating_sub(fast) as f64),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_of_tiers_that_there_are() {
        assert_eq!("dram=4".parse(), Ok(Price { tier: "dram".into(), per_gib: 4.0 }));
        for bad in ["dram", "dram=", "dram=-1", "dram=x", "dram=inf"] {
            assert!(bad.parse::<Price>().is_err(), "{bad}");
        }
        let cxl = machine("dram-cxl").expect("it is listed");
        let given = |text: &str| -> Vec<Price> { text.split(',').flat_map(str::parse).collect() };
        assert!(Prices::of(&cxl, &[]).expect("none is asked for").is_none());
        let error = Prices::of(&cxl, &given("dram=4")).err().expect("one is missing").to_string();
        assert!(error.contains("cxl"), "{error}");
        let prices = Prices::of(&cxl, &given("dram=4,cxl=1.5")).expect("both").expect("both");
        assert_eq!(prices.saved(8 << 30, 0.25), 15.0);
    }
}
