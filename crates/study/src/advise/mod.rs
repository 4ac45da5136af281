//! Advice: how much fast memory a program needs, so that it becomes no slower than is accepted.
//!
//! A few replays at sizes in a grid give the slowdown by size; more of them lie where the answers are likely.
//! A [part](Part) of a large trace is replayed.

mod blocks;
mod curve;
pub mod probed;
mod search;
pub mod swept;
#[cfg(test)]
mod tests;
mod thin;
mod trace;

pub use curve::Curve;
pub use thin::{Part, Thinned};
pub use trace::Trace;

use crate::runner::{Ready, run_one, threads};
use crate::{Input, Monitor, Request, SizeStudy};
use blocks::{Blocks, Stretched, interval};
use frostline_core::Limit;
use frostline_core::policy::registry;
use frostline_core::types::{Bytes, PAGE_BYTES};
use frostline_sim::{FastSize, Footprint, Scale, SeriesOptions, SimOptions};
use search::{FIRST, LEAST, UNITS, share};
use std::sync::Arc;
use thin::with_part_of_translations;

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
    /// Slowdowns that are accepted, above 0: 0.02 for 2 %.
    pub goals: Vec<f64>,
    /// Policies, checked.
    pub policies: Vec<String>,
    /// What is replayed.
    pub extent: Extent,
    /// Runs at the same time; `None` for one per core.
    pub jobs: Option<usize>,
    /// Machine and everything else; its size of fast memory does not matter. Where it has moments, what is lost
    /// between the first and the last of them counts.
    pub options: SimOptions,
}

/// What came of it for a policy.
#[derive(Clone, Debug)]
pub struct Advice {
    /// The policy.
    pub policy: String,
    /// Memory of the program at its largest.
    pub footprint_bytes: u64,
    /// Part of the regions that was replayed; `None` for all.
    pub part: Option<f64>,
    /// Slowdown by size, as shares of the footprint.
    pub curve: Curve,
    /// For each slowdown that is accepted, in the order of the question.
    pub answers: Vec<Answer>,
    /// Replays that were made, but for those of other policies.
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

/// Looks for the answers, by policy in the order of the question.
///
/// # Errors
/// A trace that cannot be read or is empty, a policy that cannot run on the machine, or a stop.
pub fn advise(
    trace: &mut Trace,
    question: &Question,
    monitor: &dyn Monitor,
) -> anyhow::Result<Vec<Advice>> {
    let world = World::new(trace, question, monitor)?;
    let mut fast = None;
    let threads = threads(question.jobs)?;
    threads.install(|| {
        question.policies.iter().map(|policy| world.advise(policy, &mut fast)).collect()
    })
}

/// What is replayed, and where.
struct World<'a> {
    question: &'a Question,
    monitor: &'a dyn Monitor,
    input: Arc<Input>,
    footprint: Footprint,
    options: SimOptions,
    /// Memory of all of the program, and the part of it that is replayed.
    footprint_bytes: u64,
    part: Option<f64>,
}

impl<'a> World<'a> {
    fn new(
        trace: &mut Trace,
        question: &'a Question,
        monitor: &'a dyn Monitor,
    ) -> anyhow::Result<Self> {
        let series = SeriesOptions { interval: None, points: POINTS };
        let mut options = SimOptions { series, ..question.options.clone() };
        let whole = trace.footprint(&options.machine, monitor)?;
        let drawn = REGIONS as f64 / trace.regions().accessed() as f64;
        let draws = match question.extent {
            Extent::ByLength => whole.records > LONG,
            Extent::All => false,
            Extent::Part => true,
        };
        let part = (draws && drawn < MOST_PART).then_some(drawn);
        let (input, footprint) = match part {
            None => (trace.input(), whole.clone()),
            Some(part) => {
                options.machine = with_part_of_translations(&options.machine, part);
                let bytes = options.scale.factor(&whole) * whole.bytes() as f64;
                options.scale = Scale::Of(Bytes(bytes as u64));
                let input = trace.draw(REGIONS, options.seed, monitor)?;
                let footprint = crate::footprint(&input, &options.machine, monitor)?;
                (input, footprint)
            }
        };
        let footprint_bytes = whole.peak_resident_pages * PAGE_BYTES;
        Ok(Self { question, monitor, input, footprint, options, footprint_bytes, part })
    }

    /// Answers for a policy. `fast` is what a fast memory is like in which nothing is moved, once that is known.
    fn advise(&self, policy: &str, fast: &mut Option<Found>) -> anyhow::Result<Advice> {
        let goals = &self.question.goals;
        let mut runs: Vec<(u32, Found)> = Vec::new();
        let mut sizes = FIRST.to_vec();
        let mut replays = 0;
        while !sizes.is_empty() {
            replays += sizes.len();
            let found = if fast.is_some() {
                self.replay(&sizes, policy, &self.options)?
            } else {
                replays += 1;
                let alone = SimOptions { daemon: None, ..self.options.clone() };
                let all_fast = || self.replay(&[UNITS], registry::ALL_FAST, &alone);
                let found = || self.replay(&sizes, policy, &self.options);
                let (all_fast, found) = rayon::join(all_fast, found);
                *fast = all_fast?.pop();
                found?
            };
            let found = found.into_iter().map(|found| found.beside(fast.as_ref()));
            runs.extend(sizes.iter().copied().zip(found));
            sizes = search::next(&curve(&runs), goals, rayon::current_num_threads());
        }
        runs.sort_by_key(|(size, _)| *size);
        let curve = curve(&runs);
        let fast = fast.as_ref().and_then(|fast| fast.blocks.as_ref());
        let stretched = |(size, found): (u32, Found)| {
            Some(Stretched { size: share(size), loss: found.loss, blocks: found.blocks? })
        };
        let stretched: Option<Vec<Stretched>> = runs.into_iter().map(stretched).collect();
        let by_chance = stretched.as_ref().zip(fast);
        let answer = |goal: &f64| {
            let size = curve.size_for(*goal);
            Answer {
                goal: *goal,
                size,
                is_least: size == Some(share(LEAST)),
                interval: by_chance
                    .map(|(runs, fast)| interval(runs, fast, *goal, self.options.seed)),
            }
        };
        let answers = goals.iter().map(answer).collect();
        let Self { footprint_bytes, part, .. } = *self;
        Ok(Advice { policy: policy.to_owned(), footprint_bytes, part, answers, replays, curve })
    }

    fn replay(
        &self,
        sizes: &[u32],
        policy: &str,
        options: &SimOptions,
    ) -> anyhow::Result<Vec<Found>> {
        let percent = |units: &u32| FastSize::Percent(100.0 * share(*units));
        let request = Request {
            traces: Vec::new(),
            guests: Vec::new(),
            sizes: sizes.iter().map(percent).collect(),
            policies: vec![policy.to_owned()],
            seeds: 1,
            bound: false,
            jobs: None,
            options: options.clone(),
            every_series: false,
            limit: Limit::default(),
        };
        let (input, footprint) = (Arc::clone(&self.input), self.footprint.clone());
        let study = run_one(&request, Ready { input, footprint, co_runners: None }, self.monitor)?;
        Ok(study.sizes.iter().map(Found::of).collect())
    }
}

/// What a replay has found.
struct Found {
    loss: f64,
    /// Seconds between the moments that count, where not all of the run does.
    seconds: Option<f64>,
    blocks: Option<Blocks>,
}

impl Found {
    fn of(study: &SizeStudy) -> Self {
        let run = study.policies[0].first();
        let report = &run.report;
        let blocks = Blocks::of(&run.series, report.accesses, report.modelled_seconds);
        let seconds = match &run.moments[..] {
            [first, .., last] => Some(last.seconds - first.seconds),
            _ => None,
        };
        Self { loss: report.slowdown_vs_all_fast - 1.0, seconds, blocks }
    }

    /// With what it loses between the moments that count. Stretches of the whole run say nothing of that.
    fn beside(self, fast: Option<&Self>) -> Self {
        match (self.seconds, fast.and_then(|fast| fast.seconds)) {
            (Some(seconds), Some(fast)) => {
                Self { loss: seconds / fast - 1.0, blocks: None, ..self }
            }
            _ => self,
        }
    }
}

fn curve(runs: &[(u32, Found)]) -> Curve {
    Curve::new(runs.iter().map(|(size, found)| (share(*size), found.loss)).collect())
}
