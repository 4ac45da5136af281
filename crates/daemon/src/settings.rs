//! Settings of a daemon, and times and sizes that are the same in every host.

use crate::goal::Goal;
use crate::limit::Limit;
use alloc::vec::Vec;
use frostline_core::types::*;

/// How often sources are polled, and work is handed out.
pub const STEP: Nanos = Nanos(50_000_000);
/// How often limits are looked at.
pub(crate) const REPORT: Nanos = Nanos(1_000_000_000);
/// Processor time after which a step ends, so that accesses, faults and signals are heard while much is moved.
pub(crate) const TURN: Nanos = Nanos(10_000_000);
/// Pages moved between two looks at the clock.
pub(crate) const MOVE_PAGES: u32 = 256;
/// Part of the daemon's share of a core that goes into knowing where pages are.
pub(crate) const AUDIT_PART: f64 = 0.25;
/// Part of the rest that is kept for moves where hearing and deciding take more than there is.
pub(crate) const MOVE_PART: f64 = 0.25;

/// One tier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tier {
    /// What may be in it, beside what there is room for.
    pub limit: Option<Limit>,
    /// Whether a touch of a page in it does without a fault.
    pub direct: bool,
}

/// Loads from nodes that miss all caches: their latencies, and whether they are counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeLoads {
    /// From the fast node, above 0 (ns).
    pub fast_ns: f64,
    /// From the next one (ns), no less.
    pub slow_ns: f64,
    /// One in a period is sampled; otherwise faults and access bits tell of pages that were touched.
    pub sampled: bool,
}

/// Of so many loads one is counted for policies that want no samples: 2500 in a second of a program that misses its
/// caches ten million times. In 5 s the share of a tier is known within one percent by that.
pub const COUNTED: u32 = 4001;

/// Settings of a daemon.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Tiers, the fastest first.
    pub tiers: Vec<Tier>,
    /// The tier of swap space.
    pub swap: Option<TierId>,
    /// Share of a core once the limit holds.
    pub cpu_share: f64,
    /// Share of a core until then, for a minute at most.
    pub settling_cpu_share: f64,
    /// Nothing is moved.
    pub dry_run: bool,
    /// Whether pages are moved to keep limits that the policy does not.
    pub reclaims: bool,
    /// Whether pages are paged out at random to see who comes back.
    pub probes: bool,
    /// Whether touches that are seen anyway stand for access bits.
    pub answers: bool,
    /// Whether the policy wants samples of loads.
    pub wants_samples: bool,
    /// Whether it wants to know how many loads each tier serves: samples are counted for it.
    pub counts: bool,
    /// Whether it wants to know of the faults that pages in slower tiers have now and then.
    pub hinted: bool,
    /// Slowdown that is kept to, in place of a limit of fast memory.
    pub goal: Option<Goal>,
    /// Loads from slower nodes, where anything tells of them.
    pub node_loads: Option<NodeLoads>,
    /// Time that a running thread loses where a run of its pages is paged out (ns).
    pub interruption: f64,
    /// Seed of random choices.
    pub seed: u64,
}

impl Settings {
    /// Whether a touch of a page in this tier does without a fault.
    pub fn is_direct(&self, tier: TierId) -> bool {
        self.tiers.get(tier.index()).is_some_and(|tier| tier.direct)
    }
}
