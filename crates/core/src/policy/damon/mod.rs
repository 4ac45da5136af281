//! `damon`: the kernel's tiering by DAMON (`samples/damon/mtier.c`, Linux 6.16), two threads over physical memory.
//!
//! Each watches the frames of one tier in areas, by the access bit of one random page of each area in every
//! sample. After each aggregation, areas that are accessed alike are joined and all are cut at random. One thread
//! promotes accessed areas of the slow tier, hottest first, until 99.7 % of fast memory are used; the
//! other demotes areas without access, coldest first, until 0.5 % are free: within a quota that follows
//! these goals. Of an area that was chosen, only pages move whose own access bit agrees.
//!
//! Not good for: hot pages that lie among cold ones; sudden need (demotion begins with a byte, and doubles). Departs:
//! what frames hold which pages is modelled (`frames`); the kernel's self-tuning intervals are left out.

mod frames;
mod quota;
mod regions;
#[cfg(test)]
mod tests;
mod worker;

use super::contract::{MetricSink, Policy};
use super::entry::{Entry, Group};
use super::facts::{Facts, Telemetry};
use super::offer::Offer;
use super::runs::{Room, Runs};
use super::settings::Settings;
use super::suited;
use crate::action::{Lane, Plan};
use crate::budget::Budget;
use crate::event::{Event, MoveOutcome};
use crate::params::{Kind, Param};
use crate::placement::View;
use crate::rng::Rng;
use crate::types::*;
use alloc::boxed::Box;
use frames::Memory;
use quota::{Quota, REACHED};
use regions::{Area, Areas};
use worker::{Scheme, Worker};

/// `damon`.
pub const ENTRY: Entry = Entry {
    name: "damon",
    group: Group::Baselines,
    summary: "physical areas by samples of access bits; hot ones in, cold ones out, by quotas",
    citation: "Park et al., DAMON, HPDC '22; samples/damon/mtier.c of Linux 6.16",
    pages: None,
    params: &[
        Param::scaled("sampling", Kind::Duration, "5ms", "", "interval of samples"),
        Param::fixed("floor", Kind::Duration, "200us", "", "least interval of samples"),
        Param::fixed("samples", Kind::Count, "20", "", "in an aggregation"),
        Param::fixed("least", Kind::Count, "10", "", "areas of a tier at least"),
        Param::fixed("most", Kind::Count, "1000", "", "areas of a tier at most"),
        Param::scaled("apply", Kind::Duration, "1s", "", "interval of moves and quotas"),
        Param::fixed("quota", Kind::Bytes, "200MiB", "per second", "moved each way at most"),
        Param::fixed("used", Kind::Ratio, "0.997", "", "of fast memory; the goal of promotion"),
        Param::fixed("free", Kind::Ratio, "0.005", "", "of fast memory; the goal of demotion"),
        Param::fixed(
            "frames",
            Kind::Choice(&["fresh", "scattered"]),
            "fresh",
            "",
            "of a kernel that has just started, or in pieces",
        ),
    ],
    preset: &[],
    suits: suited::anywhere,
    facts: |_| Facts {
        needs: Telemetry { access_bits: true, ..Telemetry::default() },
        in_kernel: true,
        ..Facts::default()
    },
    build: |settings, context| Ok(Box::new(Damon::new(settings, context))),
};

/// Highest part of a score.
const MOST_POINTS: u64 = 100;
/// Highest logarithm of an age.
const MOST_LOG: i64 = 32;

/// DAMON; made by [`ENTRY`].
struct Damon {
    rng: Rng,
    sampling: Nanos,
    samples: u32,
    /// Seconds of an aggregation, unscaled.
    aggregation_s: f64,
    apply: Nanos,
    goals: [f64; 2],
    memory: Memory,
    /// Of each tier at most, to be taken apart before anything else; none once that is done.
    scattered: PageCount,
    promoter: Worker,
    demoter: Worker,
    next_sample: Nanos,
    next_apply: Nanos,
    /// Samples since the last aggregation.
    taken: u32,
    aggregations: u64,
    /// Pages proposed for promotion and for demotion.
    proposed: [u64; 2],
}

impl Damon {
    fn new(settings: &Settings, context: &Offer) -> Self {
        let sampling = settings.duration("sampling").max(settings.duration("floor"));
        let sampling = Nanos(sampling.0.max(1));
        let samples = settings.count("samples").clamp(1, 1 << 20) as u32;
        let apply = Nanos(settings.duration("apply").0.max(1));
        let quota = settings.count("quota") as f64 * apply.as_secs_f64();
        let areas = || {
            let number = |key| settings.count(key).clamp(3, 1 << 20) as u32;
            Areas::new(number("least"), number("most"))
        };
        // Before the program began, nearly all of fast memory was free for long.
        let worker = |scheme| {
            Worker::new(scheme, areas(), Quota::new(Bytes(quota as u64), scheme == Scheme::Promote))
        };
        Self {
            rng: Rng::new(context.seed),
            sampling,
            samples,
            aggregation_s: sampling.as_secs_f64() * f64::from(samples) * context.scale,
            apply,
            goals: [settings.number("used"), settings.number("free")],
            memory: Memory::default(),
            scattered: match settings.word("frames") {
                "scattered" => PageCount((2 * context.table_pages().0).max(1 << 16)),
                _ => PageCount::ZERO,
            },
            promoter: worker(Scheme::Promote),
            demoter: worker(Scheme::Demote),
            next_sample: sampling,
            next_apply: apply,
            taken: 0,
            aggregations: 0,
            proposed: [0; 2],
        }
    }

    /// Follows pages to where they are.
    fn follow(&mut self, run: PageRun, view: &View<'_>) {
        let mut next = run.start.0;
        while next < run.end() {
            let page = PageId(next);
            let state = view.state(page);
            match state.tier() {
                Some(tier) if state.is_huge() => self.memory.put_folio(page.region(), tier),
                tier => self.memory.put(page, tier),
            }
            next = view.unit(page).end();
        }
    }

    fn aggregate(&mut self, now: Nanos, view: &View<'_>, plan: &mut Plan) {
        self.taken = 0;
        self.aggregations += 1;
        let workers = [&mut self.promoter, &mut self.demoter];
        workers.into_iter().for_each(|worker| worker.aggregate(self.samples));
        if now >= self.next_apply {
            self.next_apply = now.saturating_add(self.apply);
            self.apply(view, plan);
        }
        let workers = [&mut self.promoter, &mut self.demoter];
        workers.into_iter().for_each(|worker| worker.begin(&mut self.rng));
    }

    /// New quotas, and what the schemes make of them.
    fn apply(&mut self, view: &View<'_>, plan: &mut Plan) {
        let capacity = view.limits(TierId::FAST).capacity.0.max(1) as f64;
        let share = |pages: PageCount, goal: f64| {
            (pages.0 as f64 / capacity / goal.max(1e-4) * REACHED as f64) as u64
        };
        self.promoter.quota.renew(share(view.used(TierId::FAST), self.goals[0]));
        self.demoter.quota.renew(share(view.free(TierId::FAST), self.goals[1]));
        let hot = |area: &Area| hotness(area, self.samples, self.aggregation_s);
        self.promoter.apply(hot, &self.memory, view, plan);
        self.demoter.apply(|area| MOST_POINTS - hot(area), &self.memory, view, plan);
    }

    /// Proposes what has been chosen, as far as there is room; the rest is forgotten.
    fn migrate(&mut self, view: &View<'_>, budget: &mut Budget, plan: &mut Plan) {
        let [promoted, demoted] = &mut self.proposed;
        let ways = [
            (&mut self.demoter, TierId::FAST, Lane::DEMOTE, demoted),
            (&mut self.promoter, TierId::FAST.slower(), Lane::PROMOTE, promoted),
        ];
        for (worker, from, lane, moved) in ways {
            let to = if from == TierId::FAST { from.slower() } else { TierId::FAST };
            let mut room = Room::of(view, to, budget);
            let mut runs = Runs::new(to, lane);
            for first in worker.take_chosen() {
                let state = view.state(first);
                let unit = view.unit(first);
                if state.tier() == Some(from)
                    && !state.is_in_flight()
                    && room.take(u64::from(unit.pages))
                {
                    runs.push(unit, plan);
                }
            }
            *moved += runs.finish(plan);
        }
    }
}

/// How hot an area is, from 0 to 100: half by accesses, half by the logarithm of its age (`damon_hot_score`).
fn hotness(area: &Area, samples: u32, aggregation_s: f64) -> u64 {
    let accesses = u64::from(area.accesses) * MOST_POINTS / u64::from(samples);
    let seconds = (f64::from(area.age) * aggregation_s) as u64;
    let log = i64::from(u64::BITS - seconds.leading_zeros()).min(MOST_LOG);
    let log = if accesses == 0 { -log } else { log };
    let age = (log + MOST_LOG) as u64 * MOST_POINTS / (2 * MOST_LOG as u64);
    (accesses.min(MOST_POINTS) + age) / 2
}

impl Policy for Damon {
    fn observe(&mut self, _: Nanos, events: &[Event], view: &View<'_>) {
        if self.scattered > PageCount::ZERO {
            let tiers = (0..view.tiers() as u8).map(TierId);
            // Of a tier that is much larger than the program, as much as may concern it.
            let capacities = tiers.map(|tier| view.limits(tier).capacity.min(self.scattered));
            self.memory.scatter(capacities, &mut self.rng);
            self.scattered = PageCount::ZERO;
        }
        for event in events {
            match event {
                Event::AccessBits(bits) => {
                    self.promoter.answer(bits);
                    self.demoter.answer(bits);
                }
                Event::Populated { run, .. }
                | Event::Unmapped { run }
                | Event::Freed { run }
                | Event::Moved { run, .. }
                | Event::MigrationDone { run, outcome: MoveOutcome::Moved, .. } => {
                    self.follow(*run, view);
                }
                Event::Remapped { from, to } => {
                    self.follow(*from, view);
                    self.follow(PageRun { start: *to, pages: from.pages }, view);
                }
                Event::CollapseDone { region, tier: Some(_) } => self.follow(region.run(), view),
                _ => {}
            }
        }
    }

    fn decide(&mut self, now: Nanos, view: &View<'_>, mut budget: Budget, plan: &mut Plan) {
        self.migrate(view, &mut budget, plan);
        if now < self.next_sample {
            return;
        }
        self.next_sample = now.saturating_add(self.sampling);
        if self.taken == self.samples {
            self.aggregate(now, view, plan);
        }
        self.taken += 1;
        self.promoter.sample(&self.memory, view, &mut self.rng, plan);
        self.demoter.sample(&self.memory, view, &mut self.rng, plan);
    }

    fn next_wakeup(&self) -> Option<Nanos> {
        Some(self.next_sample)
    }

    fn metrics(&self, sink: &mut MetricSink<'_>) {
        sink("aggregations_total", self.aggregations as f64);
        for (name, worker) in [("slow", &self.promoter), ("fast", &self.demoter)] {
            sink(&alloc::format!("{name}_areas"), worker.areas() as f64);
            sink(&alloc::format!("{name}_looks_total"), worker.looks as f64);
            sink(&alloc::format!("{name}_areas_applied_total"), worker.applied as f64);
            sink(&alloc::format!("{name}_units_filtered_total"), worker.filtered as f64);
            sink(&alloc::format!("{name}_quota_left_bytes"), worker.quota.left() as f64);
        }
        sink("promotions_proposed_pages_total", self.proposed[0] as f64);
        sink("demotions_proposed_pages_total", self.proposed[1] as f64);
    }

    fn metadata_bytes(&self) -> Bytes {
        let workers = self.promoter.metadata_bytes() + self.demoter.metadata_bytes();
        Bytes((workers + self.memory.metadata_bytes()) as u64)
    }
}
