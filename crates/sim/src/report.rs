//! Result of a simulated run, in the shape of the JSON output.

use crate::setting::Setting;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One policy on one trace and machine.
///
/// An *access* is a record that reached memory, after the trace's cache model. Everything but
/// `host` is a pure function of trace, machine, policy and seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    /// Trace as the user named it.
    pub trace: String,
    /// Policy name.
    pub policy: String,
    /// Its effective parameters, scaled ones as used.
    pub policy_config: BTreeMap<String, Setting>,
    /// Machine name.
    pub machine: String,
    /// Seed of everything random.
    pub seed: u64,
    /// Scale factor applied to the paper's intervals; 1 with `--scale paper`.
    pub scale: f64,
    /// Peak resident bytes of the program over all tiers.
    pub footprint_bytes: u64,
    /// Size of tier 0 as it was asked for: `1:8`, `40%`, `2GiB`.
    pub fast: String,
    /// Capacity of tier 0.
    pub fast_bytes: u64,
    /// Time-weighted mean of what was resident in tier 0.
    pub fast_bytes_mean: f64,
    /// Accesses replayed, thinning multiplied out.
    pub accesses: u64,
    /// Share served by tier 0, in `[0, 1]`.
    pub fast_hit_ratio: f64,
    /// Modelled run time divided by that with everything in tier 0.
    pub slowdown_vs_all_fast: f64,
    /// Run time with everything in the slowest tier divided by the modelled one.
    pub speedup_vs_all_slow: f64,
    /// Saving over all-slow, on unqueued latency and the cheapest migration, as a share of the
    /// upper bound's; none where the bound was not asked for or does not apply (swap models).
    pub share_of_bound: Option<f64>,
    /// Relative distance of the bound from a feasible plan.
    pub bound_gap: Option<f64>,
    /// Saving in nanoseconds that `share_of_bound` divides.
    pub saving_ns: f64,
    /// Bytes moved to faster tiers.
    pub promoted_bytes: u64,
    /// Bytes moved to slower tiers.
    pub demoted_bytes: u64,
    /// Folios split.
    pub splits: u64,
    /// Folios rebuilt.
    pub collapses: u64,
    /// Access bits read by scans.
    pub page_checks: u64,
    /// Faults on armed pages.
    pub hint_faults: u64,
    /// Share of promoted pages touched at least once before they left; none where nothing was
    /// promoted.
    pub good_put: Option<f64>,
    /// Base pages of tier 0 that are accessed within a while, on average: one second divided by
    /// `scale`, at most a 128th of the trace, in the middle of each eighth of it. Of two runs, one with huge and one with base pages,
    /// one minus the quotient is HotBox's hotness fragmentation.
    pub fast_pages_accessed_mean: Option<f64>,
    /// The same quotient, against base pages at their best: all that was accessed anywhere in that
    /// while, at most what tier 0 holds. In `[0, 1]`; none where nothing was accessed.
    pub hotness_fragmentation: Option<f64>,
    /// Share of one core that the sampler used.
    pub sampler_cpu_share: f64,
    /// Processor time of all tiering work: sampler, policy workers, copies.
    pub tiering_cpu_seconds: f64,
    /// Where the modelled time went.
    pub time_split: TimeSplit,
    /// Latency of marked operations; none where the trace marks none.
    pub op_latency_ns: Option<OpLatency>,
    /// Bytes of engine and policy metadata.
    pub metadata_bytes: u64,
    /// Peak resident bytes with folios and bloat, before any split: what the operating system
    /// would show as RSS.
    pub program_rss_bytes: u64,
    /// Modelled run time.
    pub modelled_seconds: f64,
    /// Per tier.
    pub tiers: Vec<TierReport>,
    /// Counters of engine (`engine.*`), machine (`machine.*`) and policy (`policy.*`), and how the
    /// policy's classes compared with fast memory (`over_time.*`).
    pub counters: BTreeMap<String, f64>,
    /// What varies between identical runs.
    pub host: Host,
}

/// Seconds of modelled time by what the program waited for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeSplit {
    /// Program: instructions and memory.
    pub app: f64,
    /// Scans of access bits.
    pub scan: f64,
    /// Migration, split and collapse work on the program's cores.
    pub migrate: f64,
    /// Faults of all kinds.
    pub fault: f64,
}

/// Percentiles of marked operations' latency.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OpLatency {
    /// Operations measured.
    pub count: u64,
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
}

/// One tier over the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TierReport {
    /// Name in the machine description.
    pub name: String,
    /// Capacity.
    pub capacity_bytes: u64,
    /// Resident at the end.
    pub resident_bytes: u64,
    /// Peak resident.
    pub resident_bytes_max: u64,
    /// Accesses served.
    pub accesses: u64,
    /// Mean modelled latency of an access, queueing included.
    pub latency_ns_mean: f64,
}

/// What the run cost on this computer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Real time.
    pub wall_seconds: f64,
    /// Peak resident memory of the simulating process so far.
    pub peak_rss_bytes: u64,
}

/// A point of a run's time series.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SeriesPoint {
    /// Modelled time at the end of the interval.
    pub seconds: f64,
    /// Accesses of the interval.
    pub accesses: u64,
    /// Share of them served by tier 0.
    pub fast_hit_ratio: f64,
    /// Resident bytes per tier.
    pub resident_bytes: Vec<u64>,
    /// Bytes promoted in the interval.
    pub promoted_bytes: u64,
    /// Bytes demoted in the interval.
    pub demoted_bytes: u64,
    /// The policy's classes `[hot, warm, cold]` in bytes, where it has them.
    pub classes_bytes: Option<[u64; 3]>,
    /// Policy gauges at that moment (`rhr`, `ehr`, thresholds).
    pub gauges: BTreeMap<String, f64>,
}
