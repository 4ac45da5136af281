//! A trace for the page: its map, how much memory serves how many of its accesses, and what advice says.

use super::{heatmap, profile};
use frostline_core::policy::registry;
use frostline_profile::CurvePoint;
use frostline_sim::{FastSize, Heatmap, SimOptions};
use frostline_study::advise::{Extent, Question, Trace, advise};
use frostline_study::machine;
use frostline_terminal::limit;
use frostline_terminal::progress::Screen;
use serde::Serialize;

/// Slowdowns that are asked about.
const GOALS: [f64; 4] = [0.01, 0.02, 0.05, 0.1];

/// What the page gets.
#[derive(Serialize)]
struct Opened<'a> {
    trace: &'a str,
    machine: &'a str,
    policy: &'a str,
    records: u64,
    touched_bytes: u64,
    footprint_bytes: u64,
    miss_curve: Vec<CurvePoint>,
    /// Shares of the footprint, and slowdowns with so much fast memory.
    slowdowns: Vec<(f64, f64)>,
    answers: Vec<Answered>,
    map: Heatmap,
}

#[derive(Serialize)]
struct Answered {
    max_slowdown: f64,
    /// Share of the footprint; `None` where all is not enough.
    fast_share: Option<f64>,
}

/// Looks at a trace, as JSON.
///
/// # Errors
/// A trace that cannot be read, a machine that cannot be, or a stop.
pub fn look(trace: &str, by: &str) -> anyhow::Result<String> {
    let map = heatmap::maps(trace, by)?.by_address;
    let summary = profile::profile_of(trace, None, None)?.summary();
    let machine = machine(by)?;
    let name = machine.name.clone();
    let question = Question {
        goals: GOALS.to_vec(),
        policies: vec![registry::DEFAULT.to_owned()],
        extent: Extent::ByLength,
        jobs: None,
        options: SimOptions { tlb: true, ..SimOptions::new(machine, FastSize::Percent(100.0)) },
    };
    let mut opened = Trace::open(trace, limit::current(), &Screen)?;
    let advice = advise(&mut opened, &question, &Screen)?.remove(0);
    let answers = advice.answers.iter();
    let told = Opened {
        trace,
        machine: &name,
        policy: registry::DEFAULT,
        records: summary.records,
        touched_bytes: summary.bytes,
        footprint_bytes: advice.footprint_bytes,
        miss_curve: summary.miss_curve,
        slowdowns: advice.curve.points().to_vec(),
        answers: answers
            .map(|answer| Answered { max_slowdown: answer.goal, fast_share: answer.size })
            .collect(),
        map,
    };
    Ok(serde_json::to_string(&told)?)
}
