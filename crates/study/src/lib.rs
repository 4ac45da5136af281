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
