//! Options of a run, besides trace, machine and policy.

use crate::footprint::Footprint;
use crate::machine::Machine;
use crate::setting::Setting;
use crate::size::FastSize;
use frostline_core::spec::{self, SpecError};
use frostline_core::types::{Bytes, Nanos};
use frostline_daemon::Goal;
use std::str::FromStr;

/// Footprint to which the interval constants of the literature belong.
pub const REFERENCE_FOOTPRINT_BYTES: u64 = 64 << 30;

/// How a policy's intervals relate to the published ones.
///
/// A program of footprint `F` stands for one of footprint `P`, by default 64 GiB: footprint and run
/// length are both divided by `S = max(1, P / F)`. Intervals, in samples and in time, are divided by `S`
/// too; latency, bandwidth and costs per page stay, so that moving the whole footprint takes the same
/// share of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Intervals divided by `S`, for programs of that size.
    Of(Bytes),
    /// Intervals as published.
    Paper,
}

impl Default for Scale {
    fn default() -> Self {
        Self::Of(Bytes(REFERENCE_FOOTPRINT_BYTES))
    }
}

impl Scale {
    /// The divisor `S`, at least 1.
    pub fn factor(self, footprint: &Footprint) -> f64 {
        match self {
            Self::Paper => 1.0,
            Self::Of(size) => (size.0 as f64 / footprint.bytes().max(1) as f64).max(1.0),
        }
    }
}

impl FromStr for Scale {
    type Err = SpecError;

    /// `scaled`, `paper`, or the size of the programs that intervals were published for.
    fn from_str(text: &str) -> Result<Self, SpecError> {
        match text {
            "scaled" => Ok(Self::default()),
            "paper" => Ok(Self::Paper),
            size => spec::parse_bytes(size).map(Self::Of),
        }
    }
}

/// Things that go wrong on purpose, at seeded moments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FaultInjection {
    /// Probability that a sample is lost.
    pub lost_samples: f64,
    /// Probability that a folio is busy when it is to be moved, split or collapsed.
    pub busy_pages: f64,
    /// Probability that the destination of a move turns out to be full, per call of at most 512
    /// pages.
    pub full_node: f64,
    /// Number of times that a process ends and all its memory goes; spread over the trace. What it
    /// touches afterwards is allocated anew, as by a restarted process.
    pub exits: u32,
}

/// A daemon in which the policy decides: the one that runs live.
#[derive(Clone, Debug, PartialEq)]
pub struct HostedDaemon {
    /// Room of tier 0 for new memory beyond the policy's limit, of which the kernel knows nothing.
    pub spare: Bytes,
    /// Share of a core that it may use, `(0, 1]`.
    pub cpu_share: f64,
    /// The same while the program has over 2 % more fast memory than it may, `(0, 1]`.
    pub settling_cpu_share: f64,
    /// Programs make as many accesses in all their life as others in a second.
    pub brief: bool,
    /// Slowdown that it keeps to in place of the size of fast memory.
    pub goal: Option<Goal>,
}

/// Names of what a run is of, for its report.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    /// Trace as the user named it; the header's name where empty.
    pub trace: String,
    /// Effective parameters of the policy.
    pub policy_config: Vec<(String, Setting)>,
}

/// Points that an adaptive series has at least, once it has had twice as many, unless told otherwise.
pub const SERIES_POINTS: usize = 200;

/// Points of a run's time series.
#[derive(Clone, Copy, Debug)]
pub struct SeriesOptions {
    /// Modelled time between points; `None`: such that there are as many [`points`](Self::points).
    pub interval: Option<Nanos>,
    /// Least number of points in a run that is long enough, without an interval; at most twice as many.
    pub points: usize,
}

impl Default for SeriesOptions {
    fn default() -> Self {
        Self { interval: None, points: SERIES_POINTS }
    }
}

/// Options of a run.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// The machine.
    pub machine: Machine,
    /// Size of tier 0.
    pub fast: FastSize,
    /// The policy decides in a daemon, and the kernel knows nothing of it. `None`: the policy is
    /// the kernel's.
    pub daemon: Option<HostedDaemon>,
    /// Blocks of 2 MiB that are free in tier 0, for folios; `None`: all of it is.
    pub kernel_blocks: Option<u64>,
    /// Capacities of tiers that differ from the machine's, by tier number; number 0 overrides
    /// `fast`.
    pub limits: Vec<(u8, Bytes)>,
    /// Names for the report.
    pub labels: Labels,
    /// Seed of everything random in the machine.
    pub seed: u64,
    /// Model the translation lookaside buffer.
    pub tlb: bool,
    /// Scaling of intervals, for the report; the policy has been made with the same.
    pub scale: Scale,
    /// Most bytes per second that may be migrated; `None` without a limit.
    pub migration_bytes_per_second: Option<Bytes>,
    /// Points of the time series.
    pub series: SeriesOptions,
    /// Records per `Epoch` event for offline policies; 0 sends none.
    pub epoch_records: u64,
    /// Collect heatmaps of address over time.
    pub heatmaps: bool,
    /// Moments of the trace's clock, ascending, at which to note what has happened, to a batch of
    /// records.
    pub moments: Vec<u64>,
    /// Things that go wrong.
    pub faults: FaultInjection,
}

impl SimOptions {
    /// A run on `machine` with `fast` and defaults.
    pub fn new(machine: Machine, fast: FastSize) -> Self {
        Self {
            machine,
            fast,
            daemon: None,
            kernel_blocks: None,
            limits: Vec::new(),
            labels: Labels::default(),
            seed: 1,
            tlb: false,
            scale: Scale::default(),
            migration_bytes_per_second: None,
            series: SeriesOptions::default(),
            epoch_records: 0,
            heatmaps: false,
            moments: Vec::new(),
            faults: FaultInjection::default(),
        }
    }
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Records replayed.
    pub records: u64,
    /// Records of the whole trace, from the footprint pass.
    pub records_total: u64,
    /// Modelled time.
    pub modelled: Nanos,
}

/// Watches a run, and may stop it.
pub trait Observer {
    /// Called every few thousand records; false stops the run with [`crate::SimError::Cancelled`].
    fn progress(&mut self, progress: &Progress) -> bool;
}

/// Watches nothing.
impl Observer for () {
    fn progress(&mut self, _: &Progress) -> bool {
        true
    }
}

impl<F: FnMut(&Progress) -> bool> Observer for F {
    fn progress(&mut self, progress: &Progress) -> bool {
        self(progress)
    }
}
