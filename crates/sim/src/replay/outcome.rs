//! Outcome of a run: sums and means.

use super::{Moment, Replay, RunOutcome, Wait};
use crate::heatmap::{Heatmaps, HeatmapsBuilder};
use crate::report::{Host, RunReport, SeriesPoint, TierReport, TimeSplit};
use crate::series;
use frostline_core::engine::Rejected;
use frostline_core::event::MoveOutcome;
use frostline_core::types::*;
use std::collections::BTreeMap;
use std::time::Instant;

/// Totals at the last point of the series.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SeriesBase {
    fast: u64,
    all: u64,
    promoted: u64,
    demoted: u64,
}

impl Replay<'_> {
    /// Processor time of all tiering work so far, in seconds.
    fn tiering_seconds(&self) -> f64 {
        let t = &self.totals;
        // A daemon takes its samples itself.
        let (sampling, daemon) = match &self.hosted {
            Some(hosted) => (0.0, hosted.cpu_ns()),
            None => (t.sampler_cpu, 0.0),
        };
        (sampling + t.policy_cpu + t.guest_cpu + self.background.cpu_ns() + daemon) / 1e9
    }

    pub(super) fn note_moment(&mut self) {
        let plain =
            |tier: &[u64; 4]| tier[AccessKind::Load as usize] + tier[AccessKind::Store as usize];
        let accesses = self.totals.accesses[..self.machine.tiers.len()].iter().map(plain);
        let stats = self.engine.stats();
        self.moments.push(Moment {
            seconds: self.now_ns / 1e9,
            accesses: accesses.zip(&self.totals.spared).map(|(all, spared)| all - spared).collect(),
            promoted_pages: stats.promoted_pages,
            demoted_pages: stats.demoted_pages,
            tiering_seconds: self.tiering_seconds(),
        });
    }

    pub(super) fn add_point(&mut self) {
        let (fast, all) = self.access_sums();
        let stats = self.engine.stats();
        let base = std::mem::replace(
            &mut self.series_base,
            SeriesBase { fast, all, promoted: stats.promoted_pages, demoted: stats.demoted_pages },
        );
        let view = self.engine.view();
        let accesses = all - base.all;
        let hits = (fast - base.fast) as f64;
        let mut gauges = BTreeMap::new();
        self.decider().policy().metrics(&mut |name, value| {
            gauges.insert(name.to_owned(), value);
        });
        let point = SeriesPoint {
            seconds: self.now_ns / 1e9,
            accesses,
            fast_hit_ratio: if accesses > 0 { hits / accesses as f64 } else { 0.0 },
            resident_bytes: (0..view.tiers())
                .map(|t| view.used(TierId(t as u8)).bytes().0)
                .collect(),
            promoted_bytes: (stats.promoted_pages - base.promoted) * PAGE_BYTES,
            demoted_bytes: (stats.demoted_pages - base.demoted) * PAGE_BYTES,
            classes_bytes: self
                .decider()
                .policy()
                .classes()
                .map(|c| c.map(|pages| pages * PAGE_BYTES)),
            gauges,
        };
        self.series.push(self.now_ns, point);
    }

    pub(super) fn finish(mut self, started: Instant) -> RunOutcome {
        self.serve();
        self.tell_all();
        self.add_point();
        self.settle_fast_tier();
        self.settle_accessed();
        let mut report = self.report(started);
        let classes = series::class_shares(&self.series.points, report.fast_bytes);
        report.counters.extend(classes.map(|(name, value)| (format!("over_time.{name}"), value)));
        let heatmaps = self.heatmaps.map(HeatmapsBuilder::finish);
        if let Some(Heatmaps { by_address, by_frame }) = &heatmaps {
            for (kind, map) in [("virtual", by_address), ("physical", by_frame)] {
                report
                    .counters
                    .insert(format!("addresses.{kind}_hottest_tenth"), map.hottest_tenth);
            }
        }
        RunOutcome { report, series: self.series.points, heatmaps, moments: self.moments }
    }

    /// Promoted pages that are still there and were never touched count as unused.
    fn settle_fast_tier(&mut self) {
        let mut next = 0;
        while next < self.engine.view().pages() {
            let unit = self.unit(PageId(next));
            next = unit.end();
            if self.engine.view().state(unit.start).is_resident() {
                self.settle_promotion(unit);
            }
        }
    }

    fn report(&self, started: Instant) -> RunReport {
        let (fast, all) = self.access_sums();
        let t = &self.totals;
        let stats = self.engine.stats();
        let options = self.options;
        let waited = |what: Wait| t.waited[what as usize] / 1e9;
        let (fault, migrate, scan) =
            (waited(Wait::Fault), waited(Wait::Migrate), waited(Wait::Scan));
        let modelled_seconds = self.now_ns / 1e9;
        let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        RunReport {
            trace: if options.trace.is_empty() {
                self.trace_name.raw().to_owned()
            } else {
                options.trace.clone()
            },
            policy: self.decider().name().to_owned(),
            policy_config: options.policy_config.iter().cloned().collect(),
            machine: self.machine.name.clone(),
            seed: options.seed,
            scale: options.scale.factor(self.footprint),
            footprint_bytes: self.footprint.bytes(),
            fast_bytes: self.decider().view().limits(TierId::FAST).capacity.bytes().0,
            fast_bytes_mean: share(t.fast_byte_ns, self.now_ns),
            accesses: all,
            fast_hit_ratio: share(fast as f64, all as f64),
            slowdown_vs_all_fast: share(self.now_ns, self.references[0].ns),
            speedup_vs_all_slow: share(self.references[1].ns, self.now_ns),
            share_of_bound: None,
            bound_gap: None,
            saving_ns: self.saving_ns(),
            promoted_bytes: stats.promoted_pages * PAGE_BYTES,
            demoted_bytes: stats.demoted_pages * PAGE_BYTES,
            splits: self.decider().stats().splits,
            collapses: self.decider().stats().collapses,
            page_checks: t.page_checks,
            hint_faults: t.hint_faults,
            good_put: (t.promoted_pages > 0)
                .then(|| 1.0 - t.promoted_unused as f64 / t.promoted_pages as f64),
            fast_pages_accessed_mean: self.accessed.mean(),
            hotness_fragmentation: self.accessed.fragmentation(),
            sampler_cpu_share: share(t.sampler_cpu, self.now_ns),
            tiering_cpu_seconds: self.tiering_seconds(),
            time_split: TimeSplit {
                app: modelled_seconds - fault - migrate - scan,
                scan,
                migrate,
                fault,
            },
            op_latency_ns: self.operations.latencies.report(),
            metadata_bytes: self.decider().metadata_bytes().0,
            program_rss_bytes: t.resident_sum_max * PAGE_BYTES,
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
        let tiers = self.machine.tiers.len();
        let mut saving = 0.0;
        for tier in 0..tiers {
            for kind in 0..4u8 {
                let each = self.machine.saving_ns(AccessKind::from_bits(kind), tier);
                saving += each * self.totals.accesses[tier][usize::from(kind)] as f64;
            }
            for to in (0..tiers).filter(|&to| to != tier) {
                let each = self.machine.move_page_ns(tier, to);
                saving -= each * self.totals.moved_pages[tier][to] as f64;
            }
        }
        saving
    }

    fn tier_reports(&self) -> Vec<TierReport> {
        let view = self.engine.view();
        let report = |(t, tier): (usize, &crate::machine::TierModel)| {
            let id = TierId(t as u8);
            let counts = self.totals.accesses[t];
            let demand = counts[0] + counts[1] + counts[2];
            let stall = self.totals.latency[t] * self.machine.cpu.mlp;
            TierReport {
                name: tier.name.clone(),
                capacity_bytes: self.decider().view().limits(id).capacity.bytes().0,
                resident_bytes: view.used(id).bytes().0,
                resident_bytes_max: self.totals.resident_max[t] * PAGE_BYTES,
                accesses: counts.iter().sum(),
                latency_ns_mean: if demand > 0 { stall / demand as f64 } else { 0.0 },
            }
        };
        self.machine.tiers.iter().enumerate().map(report).collect()
    }

    fn counters(&self) -> BTreeMap<String, f64> {
        let mut counters = BTreeMap::new();
        let mut put = |name: &str, value: f64| {
            counters.insert(name.to_owned(), value);
        };
        let t = &self.totals;
        for (name, count) in [
            ("samples", t.samples),
            ("samples_lost", t.samples_lost),
            ("samples_absent", t.samples_absent),
            ("base_faults", t.base_faults),
            ("huge_faults", t.huge_faults),
            ("refaults", t.refaults),
            ("reclaimed_pages", t.reclaimed + self.hosted.as_ref().map_or(0, |h| h.reclaimed())),
            ("huge_frame_shortages", t.huge_frame_shortages),
            ("compacted_pages", t.compacted),
            ("zero_pages_freed", t.zero_pages_freed),
            ("armed_pages", t.armed_pages),
            ("shootdowns", t.shootdowns),
            ("actions_not_modelled", t.not_modelled),
            ("promoted_unused_pages", t.promoted_unused),
            ("tlb_l1_hits", t.tlb_lookups[0]),
            ("tlb_l2_hits", t.tlb_lookups[1]),
            ("tlb_walks", t.tlb_lookups[2]),
            ("injected_busy_folios", t.injected_busy),
            ("injected_full_calls", t.injected_full),
            ("injected_exits", t.injected_exits),
            ("injected_exit_pages", t.exited_pages),
            ("load_sample_period", self.load_sampler.period() * u64::from(self.thinning)),
        ] {
            put(&format!("machine.{name}"), count as f64);
        }
        for (name, ns) in [
            ("compute_seconds", t.compute / self.parallel),
            ("walk_seconds", t.walk),
            ("sampling_assist_seconds", t.sampling_assist),
            ("scan_fast_seconds", t.scan[0]),
            ("scan_slow_seconds", t.scan[1]),
            ("sampler_cpu_seconds", t.sampler_cpu),
            ("worker_cpu_seconds", self.background.cpu_ns()),
            ("all_fast_seconds", self.references[0].ns),
            ("all_slow_seconds", self.references[1].ns),
        ] {
            put(&format!("machine.{name}"), ns / 1e9);
        }
        let lookups = t.tlb_lookups[2] * u64::from(self.thinning);
        if lookups > 0 {
            let l2_ns = t.tlb_lookups[1] as f64 * self.machine.tlb.l2_hit_ns;
            let walks_ns = t.walk - l2_ns * f64::from(self.thinning);
            put("machine.walk_ns_mean", walks_ns / lookups as f64);
        }
        let footprint = (t.resident_sum_max * PAGE_BYTES).max(1) as f64;
        let metadata = self.decider().policy().metadata_bytes().0 as f64;
        put("policy_metadata_ratio", metadata / footprint);
        let base_ns = t.compute / self.parallel + t.waited_anyway;
        let memory_ns = self.references[0].ns - base_ns;
        if memory_ns > 0.0 {
            put("machine.access_time_vs_all_fast", (self.now_ns - base_ns) / memory_ns);
        }
        put("machine.table_bytes", (self.frames.bytes() + self.marks.capacity()) as f64);
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
