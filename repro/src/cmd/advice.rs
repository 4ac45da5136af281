//! `frostline-repro advice`.

use frostline_core::policy::registry;
use frostline_core::spec;
use frostline_report::table::Table;
use frostline_report::units::{bytes, percent};
use frostline_sim::{FastSize, SimOptions};
use frostline_study::advise::{Curve, Extent, Question, Trace, advise};
use frostline_study::{Programs, Request, machine};
use frostline_terminal::progress::Screen;
use frostline_terminal::{cancel, limit, output};
use serde::Serialize;

/// Sizes of which every one is replayed, and those below a 16th of the memory, where the slowdown falls steeply and
/// in no straight line.
const SIZES: u32 = 64;
const SMALL: u32 = 4 * SIZES;

/// Programs of half a GiB and more, of which a part is drawn, and smaller ones.
const TRACES: [&str; 12] = [
    "synth:zipf:pages=256K:accesses=32M",
    "synth:hotcold:pages=256K:accesses=32M",
    "synth:shift:pages=128K:accesses=32M",
    "synth:ycsb-b:size=768MiB:accesses=32M",
    "synth:ycsb-c:size=512MiB:accesses=32M",
    "synth:etc:size=512MiB:accesses=32M",
    "synth:gauss-kv:size=512MiB:accesses=32M",
    "synth:btree:accesses=32M",
    "synth:xsbench:accesses=32M",
    "synth:pagerank:scale=20:accesses=32M",
    "synth:bfs:scale=20:accesses=32M",
    "synth:liblinear:accesses=32M",
];

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frostline-repro advice                              # twelve programs, some minutes
  frostline-repro advice synth:zipf:pages=64K --max-slowdown 5% --machine dram-nvm

What `frostline advise` says of each program, beside what all of the program with each 64th of its
memory fast comes to, and each 256th below a 16th.")]
pub struct Args {
    /// Traces [default: twelve generated ones]
    #[arg(value_name = "TRACE")]
    traces: Vec<String>,
    /// Slowdowns, separated by commas
    #[arg(long, default_value = "2%,5%,10%", value_name = "LIST", value_delimiter = ',')]
    #[arg(value_parser = spec::parse_ratio)]
    max_slowdown: Vec<f64>,
    /// Machine
    #[arg(short, long, default_value = "dram-cxl", value_name = "NAME[:key=value...]")]
    machine: String,
    /// Policy
    #[arg(short, long, default_value = registry::DEFAULT, value_name = "POLICY")]
    policy: String,
    /// Draw a part of each trace, however short it is
    #[arg(long)]
    drawn: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One trace and slowdown. Sizes are shares of the footprint.
#[derive(Serialize)]
struct Case {
    trace: String,
    footprint_bytes: u64,
    /// Part of the regions that advice came from.
    part: f64,
    max_slowdown: f64,
    advised: Option<f64>,
    found: Option<f64>,
}

impl Case {
    /// By how much of the right size the advice is off; 0 where neither has one.
    fn error(&self) -> Option<f64> {
        match (self.advised, self.found) {
            (Some(advised), Some(found)) => Some(advised / found - 1.0),
            (None, None) => Some(0.0),
            _ => None,
        }
    }
}

/// Prints what is advised beside what is so.
///
/// # Errors
/// Wrong usage, a trace that cannot be read, or a stop.
pub fn run(args: &Args) -> anyhow::Result<()> {
    cancel::install()?;
    let policy = registry::expand(&args.policy)?.remove(0);
    let options = SimOptions::new(machine(&args.machine)?, FastSize::Percent(100.0));
    let traces: Vec<&str> = match args.traces.is_empty() {
        true => TRACES.to_vec(),
        false => args.traces.iter().map(String::as_str).collect(),
    };
    let mut cases = Vec::new();
    for trace in traces {
        let question = Question {
            goals: args.max_slowdown.clone(),
            policies: vec![policy.clone()],
            extent: if args.drawn { Extent::Part } else { Extent::ByLength },
            jobs: None,
            options: options.clone(),
        };
        let mut opened = Trace::open(trace, limit::current(), &Screen)?;
        let advice = advise(&mut opened, &question, &Screen)?.remove(0);
        drop(opened);
        let whole = every_size(trace, &policy, &options)?;
        cases.extend(advice.answers.iter().map(|answer| Case {
            trace: trace.to_owned(),
            footprint_bytes: advice.footprint_bytes,
            part: advice.part.unwrap_or(1.0),
            max_slowdown: answer.goal,
            advised: answer.size,
            found: whole.size_for(answer.goal),
        }));
    }
    if args.json {
        return output::json(&cases);
    }
    output::text(&show(&cases))
}

/// Slowdown of all of a program by every size.
fn every_size(trace: &str, policy: &str, options: &SimOptions) -> anyhow::Result<Curve> {
    let share = |size: u32, of: u32| f64::from(size) / f64::from(of);
    let small = (4..16).map(|size| share(size, SMALL));
    let sizes: Vec<f64> = small.chain((4..=SIZES).map(|size| share(size, SIZES))).collect();
    let request = Request {
        traces: vec![Programs::alone(trace)],
        guests: Vec::new(),
        sizes: sizes.iter().map(|share| FastSize::Percent(100.0 * share)).collect(),
        policies: vec![policy.to_owned()],
        seeds: 1,
        bound: false,
        jobs: None,
        options: options.clone(),
        every_series: false,
        limit: limit::current(),
    };
    let study = frostline_study::run(&request, &Screen)?;
    let losses = study.traces[0]
        .sizes
        .iter()
        .map(|size| size.policies[0].first().report.slowdown_vs_all_fast - 1.0);
    Ok(Curve::new(sizes.into_iter().zip(losses).collect()))
}

fn show(cases: &[Case]) -> String {
    let headings = ["trace", "memory", "replayed", "slower by", "advised", "is", "off by"];
    let mut table = Table::new(&headings).left(1);
    let size = |size: Option<f64>| size.map_or("more".to_owned(), percent);
    for case in cases {
        table.row(vec![
            case.trace.clone(),
            bytes(case.footprint_bytes as f64),
            percent(case.part),
            percent(case.max_slowdown),
            size(case.advised),
            size(case.found),
            case.error().map_or("?".to_owned(), |error| format!("{:+.1} %", error * 100.0)),
        ]);
    }
    let close = |case: &&Case| case.error().is_some_and(|error| error.abs() <= 0.05);
    let close = cases.iter().filter(close).count();
    format!("{}\nwithin 5 % of the right size: {close} of {}\n", table.show(0), cases.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_a_part_of_the_right_size() {
        let case = |advised, found| Case {
            trace: "t".into(),
            footprint_bytes: 1 << 30,
            part: 1.0,
            max_slowdown: 0.02,
            advised,
            found,
        };
        assert_eq!(case(Some(0.6), Some(0.5)).error().map(|e| (e * 10.0).round()), Some(2.0));
        assert_eq!(case(None, None).error(), Some(0.0));
        assert_eq!(case(None, Some(0.5)).error(), None);
        let text = show(&[case(Some(0.5), Some(0.5)), case(None, Some(0.5))]);
        assert!(text.contains("1 of 2") && text.contains("more"), "{text}");
    }
}
