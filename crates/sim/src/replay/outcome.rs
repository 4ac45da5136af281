//! Outcome of a run: sums and means.

use super::Replay;
use super::kernel::Kernel;
use super::time::Wait;
use super::watch::{Moment, Watch};
use crate::heatmap::{Heatmaps, HeatmapsBuilder};
use crate::report::{Host, RunReport, SeriesPoint, TierReport, TimeSplit};
use crate::series::class_shares;
use frostline_core::engine::Rejected;
use frostline_core::event::MoveOutcome;
use frostline_core::types::*;
use std::collections::BTreeMap;
use std::time::Instant;

/// A finished run.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    /// Everything that is one number.
    pub report: RunReport,
    /// Time series.
    pub series: Vec<SeriesPoint>,
    /// Address over time, where asked for.
    pub heatmaps: Option<Heatmaps>,
    /// What had happened at the moments asked for, as many of them as the trace reaches.
    pub moments: Vec<Moment>,
}

impl Replay<'_> {
    /// Processor time of all tiering work so far, in seconds.
    pub(super) fn tiering_seconds(&self) -> f64 {
        let Kernel { sampling, background, .. } = &self.kernel;
        // A daemon takes its samples itself.
        let (sampler, daemon) = match &self.hosted {
            Some(hosted) => (0.0, hosted.cpu_ns()),
            None => (sampling.sums.sampler_cpu, 0.0),
        };
        let guests = self.turn.as_ref().map_or(0.0, |turn| turn.guest_cpu_ns);
        let policy = sampling.sums.policy_cpu + self.kernel.time.spun_ns();
        (sampler + policy + guests + background.cpu_ns() + daemon) / 1e9
    }

    /// The trace has ended.
    pub(super) fn finish(mut self, started: Instant) -> RunOutcome {
        self.serve();
        self.kernel.tell_all();
        self.add_point();
        let pages = self.kernel.engine.view().pages();
        self.kernel.settle_promotions(PageRun::between(0, pages));
        let limit = self.decider().view().limits(TierId::FAST).capacity;
        let Kernel { engine, marks, .. } = &mut self.kernel;
        self.watch.accessed.settle(self.records, engine.states(), marks, limit);
        let mut report = self.report(started);
        let Watch { series, heatmaps, moments, .. } = self.watch;
        let series = series.points;
        let classes = class_shares(&series, report.fast_bytes);
        report.counters.extend(classes.map(|(name, value)| (format!("over_time.{name}"), value)));
        let heatmaps = heatmaps.map(HeatmapsBuilder::finish);
        if let Some(Heatmaps { by_address, by_frame }) = &heatmaps {
            for (kind, map) in [("virtual", by_address), ("physical", by_frame)] {
                report
                    .counters
                    .insert(format!("addresses.{kind}_hottest_tenth"), map.hottest_tenth);
            }
        }
        RunOutcome { report, series, heatmaps, moments }
    }

    fn report(&self, started: Instant) -> RunReport {
        let (fast, all) = self.served.sums();
        let Kernel { setup, time, engine, sampling, background, sums, .. } = &self.kernel;
        let decider = self.decider();
        let stats = engine.stats();
        let options = setup.options;
        let waited = |what: Wait| time.waited_ns(what) / 1e9;
        let (fault, migrate, scan) =
            (waited(Wait::Fault), waited(Wait::Migrate), waited(Wait::Scan));
        let modelled_seconds = time.ns / 1e9;
        let [all_fast_ns, all_slow_ns] = time.references_ns();
        let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        RunReport {
            trace: if options.labels.trace.is_empty() {
                self.trace_name.raw().to_owned()
            } else {
                options.labels.trace.clone()
            },
            policy: decider.name().to_owned(),
            policy_config: options.labels.policy_config.iter().cloned().collect(),
            machine: setup.machine.name.clone(),
            seed: options.seed,
            scale: options.scale.factor(setup.footprint),
            footprint_bytes: setup.footprint.bytes(),
            fast: options.fast.to_string(),
            fast_bytes: decider.view().limits(TierId::FAST).capacity.bytes().0,
            fast_bytes_mean: share(time.sums.fast_byte_ns, time.ns),
            accesses: all,
            fast_hit_ratio: share(fast as f64, all as f64),
            slowdown_vs_all_fast: share(time.ns, all_fast_ns),
            speedup_vs_all_slow: share(all_slow_ns, time.ns),
            share_of_bound: None,
            bound_gap: None,
            saving_ns: self.saving_ns(),
            promoted_bytes: stats.promoted_pages * PAGE_BYTES,
            demoted_bytes: stats.demoted_pages * PAGE_BYTES,
            splits: decider.stats().splits,
            collapses: decider.stats().collapses,
            page_checks: background.sums.page_checks,
            hint_faults: self.faults.hint_faults,
            good_put: (sums.promoted > 0)
                .then(|| 1.0 - sums.promoted_unused as f64 / sums.promoted as f64),
            fast_pages_accessed_mean: self.watch.accessed.mean(),
            hotness_fragmentation: self.watch.accessed.fragmentation(),
            sampler_cpu_share: share(sampling.sums.sampler_cpu, time.ns),
            tiering_cpu_seconds: self.tiering_seconds(),
            time_split: TimeSplit {
                app: modelled_seconds - fault - migrate - scan,
                scan,
                migrate,
                fault,
            },
            op_latency_ns: self.watch.operations.latencies.report(),
            metadata_bytes: decider.metadata_bytes().0,
            program_rss_bytes: sums.resident_sum_max * PAGE_BYTES,
            modelled_seconds,
            tiers: self.tier_reports(),
            counters: self.counters(),
            host: Host {
                wall_seconds: started.elapsed().as_secs_f64(),
                peak_rss_bytes: peak_rss_bytes(),
            },
        }
    }

    /// Saving over all-slow in the terms of the upper bound: unqueued latencies, and migration at
    /// the cheapest rate per byte.
    fn saving_ns(&self) -> f64 {
        let (machine, sums) = (self.kernel.setup.machine, &self.kernel.sums);
        let tiers = machine.tiers.len();
        let mut saving = 0.0;
        for tier in 0..tiers {
            for kind in 0..4u8 {
                let each = machine.saving_ns(AccessKind::from_bits(kind), tier);
                saving += each * self.served.accesses[tier][usize::from(kind)] as f64;
            }
            for to in (0..tiers).filter(|&to| to != tier) {
                let each = machine.move_page_ns(tier, to);
                saving -= each * sums.moved[tier][to] as f64;
            }
        }
        saving
    }

    fn tier_reports(&self) -> Vec<TierReport> {
        let Kernel { setup, time, engine, sums, .. } = &self.kernel;
        let view = engine.view();
        let report = |(t, tier): (usize, &crate::machine::TierModel)| {
            let id = TierId(t as u8);
            let counts = self.served.accesses[t];
            let demand = counts[0] + counts[1] + counts[2];
            let stall = time.sums.latency[t] * setup.machine.cpu.mlp;
            TierReport {
                name: tier.name.clone(),
                capacity_bytes: self.decider().view().limits(id).capacity.bytes().0,
                resident_bytes: view.used(id).bytes().0,
                resident_bytes_max: sums.resident_max[t] * PAGE_BYTES,
                accesses: counts.iter().sum(),
                latency_ns_mean: if demand > 0 { stall / demand as f64 } else { 0.0 },
            }
        };
        setup.machine.tiers.iter().enumerate().map(report).collect()
    }

    fn counters(&self) -> BTreeMap<String, f64> {
        let mut counters = BTreeMap::new();
        let mut put = |name: &str, value: f64| {
            counters.insert(name.to_owned(), value);
        };
        let Kernel { setup, time, frames, marks, translations, sampling, .. } = &self.kernel;
        let Kernel { background, faults: injected, sums, .. } = &self.kernel;
        let (faults, work) = (&self.faults, &background.sums);
        let [all_fast_ns, all_slow_ns] = time.references_ns();
        let by_daemon = self.hosted.as_ref().map_or(0, |hosted| hosted.reclaimed());
        let reclaimed = faults.reclaim.reclaimed + by_daemon;
        for (name, count) in [
            ("samples", sampling.sums.samples),
            ("samples_lost", sampling.lost()),
            ("samples_absent", sampling.sums.absent),
            ("base_faults", faults.base_faults),
            ("huge_faults", faults.huge_faults),
            ("refaults", faults.refaults),
            ("reclaimed_pages", reclaimed),
            ("huge_frame_shortages", sums.huge_frame_shortages),
            ("compacted_pages", sums.compacted),
            ("zero_pages_freed", work.zero_pages_freed),
            ("armed_pages", work.armed_pages),
            ("shootdowns", translations.shootdowns),
            ("actions_not_modelled", work.not_modelled),
            ("promoted_unused_pages", sums.promoted_unused),
            ("tlb_l1_hits", translations.lookups[0]),
            ("tlb_l2_hits", translations.lookups[1]),
            ("tlb_walks", translations.lookups[2]),
            ("injected_busy_folios", injected.busy.struck),
            ("injected_full_calls", injected.full.struck),
            ("injected_exits", self.exits.happened),
            ("injected_exit_pages", self.exits.pages),
            ("load_sample_period", sampling.loads.period() * u64::from(setup.thinning)),
        ] {
            put(&format!("machine.{name}"), count as f64);
        }
        for (name, ns) in [
            ("compute_seconds", time.sums.compute / time.parallel),
            ("walk_seconds", time.sums.walk),
            ("sampling_assist_seconds", sampling.sums.assist),
            ("scan_fast_seconds", work.scan_ns[0]),
            ("scan_slow_seconds", work.scan_ns[1]),
            ("sampler_cpu_seconds", sampling.sums.sampler_cpu),
            ("worker_cpu_seconds", background.cpu_ns()),
            ("all_fast_seconds", all_fast_ns),
            ("all_slow_seconds", all_slow_ns),
        ] {
            put(&format!("machine.{name}"), ns / 1e9);
        }
        let lookups = translations.lookups[2] * u64::from(setup.thinning);
        if lookups > 0 {
            let l2_ns = translations.lookups[1] as f64 * setup.machine.tlb.l2_hit_ns;
            let walks_ns = time.sums.walk - l2_ns * f64::from(setup.thinning);
            put("machine.walk_ns_mean", walks_ns / lookups as f64);
        }
        let footprint = (sums.resident_sum_max * PAGE_BYTES).max(1) as f64;
        let metadata = self.decider().policy().metadata_bytes().0 as f64;
        put("policy_metadata_ratio", metadata / footprint);
        let base_ns = time.sums.compute / time.parallel + time.sums.waited_anyway;
        let memory_ns = all_fast_ns - base_ns;
        if memory_ns > 0.0 {
            put("machine.access_time_vs_all_fast", (time.ns - base_ns) / memory_ns);
        }
        put("machine.table_bytes", (frames.bytes() + marks.capacity()) as f64);
        self.engine_counters(&mut put);
        self.decider().policy().metrics(&mut |name, value| put(&format!("policy.{name}"), value));
        counters
    }

    fn engine_counters(&self, put: &mut dyn FnMut(&str, f64)) {
        let stats = self.decider().stats();
        for reason in Rejected::ALL {
            put(
                &format!("engine.rejected_{}", reason.name()),
                stats.rejected[reason as usize] as f64,
            );
        }
        let outcomes = [
            (MoveOutcome::Moved, "moved"),
            (MoveOutcome::Busy, "busy"),
            (MoveOutcome::NoSpace, "no_space"),
            (MoveOutcome::Gone, "gone"),
            (MoveOutcome::Shared, "shared"),
        ];
        for (outcome, name) in outcomes {
            put(&format!("engine.{name}_pages"), stats.outcomes[outcome as usize] as f64);
        }
        for (name, count) in [
            ("approved_pages", stats.approved_pages),
            ("promoted_pages", stats.promoted_pages),
            ("demoted_pages", stats.demoted_pages),
            ("failed_splits", stats.failed_splits),
            ("failed_collapses", stats.failed_collapses),
            ("anomalies", stats.anomalies),
            ("moved_by_others_pages", stats.moved_by_others.iter().sum()),
        ] {
            put(&format!("engine.{name}"), count as f64);
        }
    }
}

/// `VmHWM` of this process; 0 where the system does not tell.
fn peak_rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
