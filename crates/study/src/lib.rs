//! Policies replayed on traces under sizes of fast memory and seeds, with the bound beside them.
//!
//! A [`Study`] is the whole outcome, in the order in which the user named things: traces, sizes of
//! fast memory, policies, seeds. It is the same whatever the number of threads. Nothing is printed: a
//! [`Monitor`] receives the progress and may end it.
#![forbid(unsafe_code)]

pub mod advise;
pub mod bounds;
mod error;
mod input;
mod labels;
mod memory;
mod monitor;
mod oracle;
mod programs;
mod runner;
pub mod stats;

pub use bounds::{BoundResult, NoBound};
pub use error::StudyError;
pub use input::{Input, Watched};
pub use labels::{is_online, is_reference, labels, policies, policy_of};
pub use monitor::{Monitor, Pass, Unwatched};
pub use programs::{Guests, Programs, guests};
pub use runner::{Policies, Request, footprint, machine, run, run_with, with_seed};

use frostline_sim::{FastSize, Footprint, Machine, RunOutcome};
use frostline_trace::TraceHeader;

/// Everything that was run.
pub struct Study {
    /// The machine, as all runs had it.
    pub machine: Machine,
    /// Whether the translation lookaside buffer was modelled.
    pub tlb: bool,
    /// Seeds of the runs, ascending.
    pub seeds: Vec<u64>,
    /// By trace.
    pub traces: Vec<TraceStudy>,
}

/// One trace under every size and policy.
pub struct TraceStudy {
    /// As the user named it.
    pub name: String,
    /// What the trace says about itself.
    pub header: TraceHeader,
    /// What a pass over it found.
    pub footprint: Footprint,
    /// Factor by which intervals of policies were divided.
    pub scale: f64,
    /// By size of fast memory.
    pub sizes: Vec<SizeStudy>,
}

/// One trace with one size of fast memory.
pub struct SizeStudy {
    /// As the user named it.
    pub fast: FastSize,
    /// In bytes.
    pub fast_bytes: u64,
    /// The bound, or why there is none.
    pub bound: Result<BoundResult, NoBound>,
    /// By policy.
    pub policies: Vec<PolicyStudy>,
}

/// One policy with one size, under every seed.
pub struct PolicyStudy {
    /// As the user named it, parameters included.
    pub spec: String,
    /// By seed. Series and heatmaps are kept for the first one only.
    pub runs: Vec<RunOutcome>,
}

impl PolicyStudy {
    /// Mean and interval of a number over the seeds.
    pub fn stat(&self, number: impl Fn(&frostline_sim::RunReport) -> f64) -> stats::Stat {
        stats::Stat::of(self.runs.iter().map(|run| number(&run.report)))
    }

    /// As [`Self::stat`], of a number that may be missing; missing in one run is missing.
    pub fn stat_option(
        &self,
        number: impl Fn(&frostline_sim::RunReport) -> Option<f64>,
    ) -> Option<stats::Stat> {
        let values: Option<Vec<f64>> = self.runs.iter().map(|run| number(&run.report)).collect();
        values.map(|values| stats::Stat::of(values.into_iter()))
    }

    /// The run that stands for all of them in charts.
    pub fn first(&self) -> &RunOutcome {
        &self.runs[0]
    }
}

impl SizeStudy {
    /// Policies from the shortest modelled run to the longest; ties by name.
    pub fn ranked(&self) -> Vec<&PolicyStudy> {
        let mut ranked: Vec<&PolicyStudy> = self.policies.iter().collect();
        let time = |p: &PolicyStudy| p.stat(|r| r.modelled_seconds).mean;
        ranked.sort_by(|a, b| time(a).total_cmp(&time(b)).then_with(|| a.spec.cmp(&b.spec)));
        ranked
    }

    /// [Slowdown](slowdown_among) of a policy's runs, among those of the same seed here: in the order of times, whatever
    /// the pages are.
    pub fn slowdown(&self, policy: &PolicyStudy) -> stats::Stat {
        policy.stat(|run| self.slowdown_of(run))
    }

    /// The same of one of the runs.
    pub fn slowdown_of(&self, run: &frostline_sim::RunReport) -> f64 {
        let runs = self.policies.iter().flat_map(|one| &one.runs).map(|run| &run.report);
        slowdown_among(run, runs.filter(|other| other.seed == run.seed))
    }
}

/// Time of a run over the least that any of `runs`, it among them, would take with all memory fast.
pub fn slowdown_among<'a>(
    run: &frostline_sim::RunReport,
    runs: impl IntoIterator<Item = &'a frostline_sim::RunReport>,
) -> f64 {
    least_all_fast(runs).map_or(run.slowdown_vs_all_fast, |least| run.modelled_seconds / least)
}

/// Shortest time that one of these runs would take with all memory fast and the pages that it had (s). Pages differ:
/// policies split folios, or have base pages from the start, and walks take longer then. `None` where no time passes.
fn least_all_fast<'a>(runs: impl IntoIterator<Item = &'a frostline_sim::RunReport>) -> Option<f64> {
    let all_fast = |run: &frostline_sim::RunReport| run.modelled_seconds / run.slowdown_vs_all_fast;
    let known = runs.into_iter().map(all_fast).filter(|time| time.is_finite() && *time > 0.0);
    known.reduce(f64::min)
}

impl TraceStudy {
    /// Takes over the runs of the same trace made with another seed. Header, footprint and bounds
    /// stay those of the first one; each run's share was taken of its own bound. Series are kept
    /// with `every_series`.
    fn append_runs(&mut self, other: Self, every_series: bool) {
        for (size, more) in self.sizes.iter_mut().zip(other.sizes) {
            for (policy, more) in size.policies.iter_mut().zip(more.policies) {
                policy.runs.extend(more.runs.into_iter().map(|run| RunOutcome {
                    series: if every_series { run.series } else { Vec::new() },
                    heatmaps: None,
                    ..run
                }));
            }
        }
    }
}

impl Study {
    /// Every run's report, in the order of the request.
    pub fn reports(&self) -> Vec<&frostline_sim::RunReport> {
        let sizes = self.traces.iter().flat_map(|trace| &trace.sizes);
        let policies = sizes.flat_map(|size| &size.policies);
        policies.flat_map(|policy| &policy.runs).map(|run| &run.report).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_sim::{RunReport, SimOptions};

    #[test]
    fn slowdowns_are_in_the_order_of_times_whatever_the_pages_are() {
        let fast: FastSize = "1:8".parse().expect("a size");
        let machine = machine("dram-nvm").expect("a machine");
        let request = Request {
            traces: vec![Programs::alone("synth:zipf:size=16MiB:accesses=400K")],
            guests: Vec::new(),
            sizes: vec![fast],
            policies: ["first-touch", "frost", "hybridtier"].map(str::to_owned).to_vec(),
            seeds: 2,
            bound: false,
            jobs: Some(1),
            options: SimOptions { tlb: true, ..SimOptions::new(machine, fast) },
            every_series: false,
            limit: frostline_core::Limit::default(),
        };
        let study = run(&request, &Unwatched).expect("it runs");
        let size = &study.traces[0].sizes[0];
        let slowdowns: Vec<f64> =
            size.ranked().iter().map(|policy| size.slowdown(policy).mean).collect();
        assert!(slowdowns.is_sorted() && slowdowns[0] > 1.0, "{slowdowns:?}");
        // With base pages more walks take long: what they share is told by each run's own measure.
        let own = |spec: &str| {
            let policy = size.policies.iter().find(|policy| policy.spec == spec);
            let policy = policy.expect("it ran");
            size.slowdown(policy).mean / policy.stat(|run| run.slowdown_vs_all_fast).mean
        };
        assert!(own("hybridtier") > 1.02 && own("first-touch") < 1.0001, "{}", own("hybridtier"));
    }

    #[test]
    fn runs_without_time_have_no_least() {
        assert_eq!(least_all_fast([&RunReport::default()]), None);
        let run = |modelled_seconds, slowdown_vs_all_fast| RunReport {
            modelled_seconds,
            slowdown_vs_all_fast,
            ..RunReport::default()
        };
        assert_eq!(least_all_fast([&run(3.0, 1.5), &run(2.0, 2.0), &run(0.0, 0.0)]), Some(1.0));
    }
}
