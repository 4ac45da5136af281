//! Advice: how much fast memory a program needs, so that it becomes no slower than is accepted.
//!
//! A few replays at sizes in a grid give the slowdown by size; more of them lie between the two sizes where the answer is.
//! A [part](Part) of a large trace is replayed.

mod blocks;
mod curve;
mod thin;

pub use curve::Curve;
pub use thin::{Part, Thinned};

use crate::runner::footprint_by;
use crate::{Input, Monitor, Programs, Request, StudyError, TraceStudy, run};
use blocks::{Blocks, interval};
use frostline_core::Limit;
use frostline_core::policy::registry;
use frostline_core::types::{Bytes, PAGE_BYTES};
use frostline_sim::{FastSize, Scale, SeriesOptions, SimOptions};
use thin::{Counted, Regions, with_part_of_translations};

/// Unit of sizes: a part of the footprint.
const UNITS: u32 = 1024;
/// Sizes that are looked at first, in units.
const FIRST: [u32; 9] = [16, 64, 128, 256, 384, 512, 640, 768, 1024];
/// Sizes between two others that are looked at next.
const BETWEEN: u32 = 3;
/// Two sizes are close enough where they differ by one part in so many, or one unit.
const CLOSE: u32 = 64;
/// Regions of 2 MiB that a part of a trace has.
const REGIONS: usize = 96;
/// Records from which on a part is replayed, where nobody asks for something else.
const LONG: u64 = 48_000_000;
/// A larger part is no part.
const MOST_PART: f64 = 0.5;
/// Points of a run's time series.
const POINTS: usize = 200;

/// What of a trace is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// A part where that saves much time.
    ByLength,
    /// All of it.
    All,
    /// A part, where there are regions enough.
    Part,
}

/// What is asked.
pub struct Question {
    /// The trace.
    pub trace: String,
    /// Slowdowns that are accepted, above 0: 0.02 for 2 %.
    pub goals: Vec<f64>,
    /// Policy, checked.
    pub policy: String,
    /// What is replayed.
    pub extent: Extent,
    /// Runs at the same time; `None` for one per core.
    pub jobs: Option<usize>,
    /// Machine and everything else; its size of fast memory does not matter.
    pub options: SimOptions,
    /// What reading the trace may take without accounting for it.
    pub limit: Limit,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Advice {
    /// Memory of the program at its largest.
    pub footprint_bytes: u64,
    /// Part of the regions that was replayed; `None` for all.
    pub part: Option<f64>,
    /// Slowdown by size, as shares of the footprint.
    pub curve: Curve,
    /// For each slowdown that is accepted, in the order of the question.
    pub answers: Vec<Answer>,
    /// Replays that were made.
    pub replays: usize,
}

/// Fast memory for a slowdown. Sizes are shares of the footprint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// Slowdown that is accepted.
    pub goal: f64,
    /// Size from which on it is no more; `None` where all memory is not enough: the policy's own work takes more.
    pub size: Option<f64>,
    /// The program loses no more with the smallest size that was looked at.
    pub is_least: bool,
    /// Ends of the 95 % interval of the size, by how the program varies over time; `None` for a run that is too
    /// short to tell.
    pub interval: Option<(Option<f64>, Option<f64>)>,
}

/// Looks for the answers.
///
/// # Errors
/// A trace that cannot be read or is empty, a policy that cannot run on the machine, or a stop.
pub fn advise(question: &Question, monitor: &dyn Monitor) -> anyhow::Result<Advice> {
    let input = Input::open(&question.trace, 1, question.limit, monitor)?;
    let mut regions = Regions::default();
    let whole = footprint_by(&input, &question.options.machine, monitor, |source| {
        Box::new(Counted::new(Box::new(source), &mut regions))
    })?;
    drop(input);
    if whole.peak_resident_pages == 0 {
        let hint = "record a program that uses memory";
        return Err(StudyError::failed(format!("{} has no accesses", question.trace), hint).into());
    }
    let drawn = REGIONS as f64 / regions.accessed() as f64;
    let draws = match question.extent {
        Extent::ByLength => whole.records > LONG,
        Extent::All => false,
        Extent::Part => true,
    };
    let part = (draws && drawn < MOST_PART).then(|| {
        let machine = with_part_of_translations(&question.options.machine, drawn);
        let bytes = question.options.scale.factor(&whole) * whole.bytes() as f64;
        let scale = Scale::Of(Bytes(bytes as u64));
        let options = SimOptions { machine, scale, ..question.options.clone() };
        (Part::draw(&regions, REGIONS, question.options.seed), options)
    });
    let options = part.as_ref().map_or(&question.options, |(_, options)| options);
    let programs = Programs {
        part: part.as_ref().map(|(part, _)| part.clone()),
        ..Programs::alone(&question.trace)
    };
    let mut runs: Vec<(u32, Found)> = Vec::new();
    // A fast memory in which nothing is moved, beside the first sizes.
    let mut next = FIRST.to_vec();
    let mut fast = None;
    while !next.is_empty() {
        let mut policies = vec![question.policy.clone()];
        if fast.is_none() {
            policies.push(registry::ALL_FAST.to_owned());
        }
        let study = replay(question, (&programs, options), &next, policies, monitor)?;
        for (size, study) in next.iter().zip(&study.sizes) {
            runs.push((*size, Found::of(study, 0)));
            if *size == UNITS && fast.is_none() {
                fast = Some(Found::of(study, 1));
            }
        }
        runs.sort_by_key(|(size, _)| *size);
        next = between(&runs, &question.goals);
    }
    let fast = fast.and_then(|fast| fast.blocks);
    let curve = curve(&runs);
    let blocks: Option<Vec<(f64, Blocks)>> =
        runs.iter().map(|(size, found)| Some((share(*size), found.blocks.clone()?))).collect();
    let answer = |goal: f64| {
        let size = curve.size_for(goal);
        let by_chance = blocks.as_ref().zip(fast.as_ref());
        Answer {
            goal,
            size,
            is_least: size == Some(share(FIRST[0])),
            interval: by_chance
                .map(|(blocks, fast)| interval(blocks, fast, goal, question.options.seed)),
        }
    };
    let answers = question.goals.iter().map(|goal| answer(*goal)).collect();
    let footprint_bytes = whole.peak_resident_pages * PAGE_BYTES;
    let part = part.map(|_| drawn);
    Ok(Advice { footprint_bytes, part, answers, replays: runs.len() + 1, curve })
}

/// What a replay has found.
struct Found {
    loss: f64,
    blocks: Option<Blocks>,
}

impl Found {
    fn of(study: &crate::SizeStudy, policy: usize) -> Self {
        let run = study.policies[policy].first();
        let report = &run.report;
        let blocks = Blocks::of(&run.series, report.accesses, report.modelled_seconds);
        Self { loss: report.slowdown_vs_all_fast - 1.0, blocks }
    }
}

fn share(units: u32) -> f64 {
    f64::from(units) / f64::from(UNITS)
}

fn curve(runs: &[(u32, Found)]) -> Curve {
    Curve::new(runs.iter().map(|(size, found)| (share(*size), found.loss)).collect())
}

/// Sizes to look at next: between those where an answer is, as long as they are not close.
fn between(runs: &[(u32, Found)], goals: &[f64]) -> Vec<u32> {
    let curve = curve(runs);
    let mut next: Vec<u32> = Vec::new();
    for (below, above) in goals.iter().filter_map(|goal| curve.bracket(*goal)) {
        let units = |share: f64| (share * f64::from(UNITS)).round() as u32;
        let (below, above) = (units(below), units(above));
        if above - below > (above / CLOSE).max(1) {
            let at = |i| below + (above - below) * i / (BETWEEN + 1);
            next.extend((1..=BETWEEN).map(at).filter(|size| *size > below));
        }
    }
    next.sort_unstable();
    next.dedup();
    next
}

fn replay(
    question: &Question,
    (programs, options): (&Programs, &SimOptions),
    sizes: &[u32],
    policies: Vec<String>,
    monitor: &dyn Monitor,
) -> anyhow::Result<TraceStudy> {
    let percent = |units: &u32| FastSize::Percent(100.0 * share(*units));
    let options =
        SimOptions { series: SeriesOptions { interval: None, points: POINTS }, ..options.clone() };
    let request = Request {
        traces: vec![programs.clone()],
        guests: Vec::new(),
        sizes: sizes.iter().map(percent).collect(),
        policies,
        seeds: 1,
        bound: false,
        jobs: question.jobs,
        options,
        every_series: false,
        limit: question.limit,
    };
    let mut study = run(&request, monitor)?;
    Ok(study.traces.remove(0))
}
