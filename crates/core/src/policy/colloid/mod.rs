//! Balance of loaded latencies: `colloid` (Vuppalapati and Agarwal, SOSP '24), on HeMem's samples.
//!
//! Hot pages are promoted where reads of fast memory take less time than those of slow memory, as loaded as
//! both are, and demoted where they take longer. The change of fast memory's share of reads that balances
//! both is searched for (`balance.rs`). The hottest pages that together have no more than that
//! share of samples move, no more bytes of them than the reads are that shift.
//!
//! Not good for: a fast tier that is never loaded, where it is HeMem with a limit. Taken from the paper's
//! abstract and from descriptions of the algorithm, not from its code: search, delta, epsilon, limit, quantum.
//! Ours: lists by powers of two, weights of averages, exchanges where fast memory is full, units as large as
//! the world maps them.

mod balance;
mod loads;
#[cfg(test)]
mod tests;
mod units;

use super::contract::{MetricSink, PageSize, Policy};
use super::entry::{Entry, Group};
use super::facts::{Facts, Telemetry};
use super::offer::Offer;
use super::settings::Settings;
use super::suited;
use crate::action::{Lane, Plan};
use crate::budget::Budget;
use crate::event::Event;
use crate::params::{Kind, Param};
use crate::placement::View;
use crate::types::*;
use alloc::boxed::Box;
use alloc::vec::Vec;
use balance::{Balance, Direction, Shift};
use loads::{Loaded, Loads};
use units::{BINS, Side, Units};

/// `colloid`.
pub const ENTRY: Entry = Entry {
    name: "colloid",
    group: Group::Baselines,
    summary: "hot pages move so that reads of both tiers take the same time under load",
    citation: "Vuppalapati and Agarwal, Colloid, SOSP '24",
    pages: Some(PageSize::Folio),
    params: &[
        Param::fixed("period", Kind::Count, "5000", "LLC load misses", "per sample"),
        Param::fixed("store-period", Kind::Count, "5000", "retired stores", "per sample; 0 none"),
        Param::fixed("cool", Kind::Count, "18", "samples", "of a page that halve all counts"),
        Param::fixed("quantum", Kind::Duration, "10ms", "", "interval of decisions"),
        Param::fixed(
            "delta",
            Kind::Ratio,
            "0.05",
            "",
            "difference of latencies, over that of fast memory, that is balance",
        ),
        Param::fixed(
            "epsilon",
            Kind::Ratio,
            "0.01",
            "",
            "distance of the marks at which the search has ended",
        ),
    ],
    preset: &[],
    suits: suited::period_of_brief_programs,
    facts,
    build: |settings, offer| Ok(Box::new(Colloid::new(settings, offer))),
};

/// Units that are looked at, at most, for those that move in one quantum.
const LOOKS: usize = 4096;
/// Bytes of a read.
const LINE_BYTES: f64 = 64.0;

fn facts(settings: &Settings) -> Facts {
    let needs = Telemetry {
        load_sample_period: settings.period("period"),
        store_sample_period: settings.count_u32("store-period"),
        read_latencies: true,
        ..Telemetry::default()
    };
    Facts { needs, ..Facts::default() }
}

/// What has happened, for reports and tests.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    samples: u64,
    unknown_pages: u64,
    promoted: u64,
    demoted: u64,
    up: u64,
    down: u64,
}

/// The policy; made by [`ENTRY`].
struct Colloid {
    quantum: Nanos,
    next_wakeup: Nanos,
    units: Units,
    loads: Loads,
    loaded: Option<Loaded>,
    balance: Balance,
    /// Bytes that may move; what the last quanta left of it, too, up to two folios.
    limit: f64,
    /// First pages of what was proposed and not known to have ended.
    moving: Vec<PageId>,
    counters: Counters,
}

impl Colloid {
    fn new(settings: &Settings, offer: &Offer) -> Self {
        let quantum = Nanos(settings.duration("quantum").0.max(1));
        let cool = u16::try_from(settings.count("cool").max(1)).unwrap_or(u16::MAX);
        Self {
            quantum,
            next_wakeup: quantum,
            units: Units::new(cool, offer.table_pages()),
            loads: Loads::new(&offer.tiers),
            loaded: None,
            balance: Balance::new(settings.number("delta"), settings.number("epsilon")),
            limit: 0.0,
            moving: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// Lists again what has ended its move, one way or the other.
    fn land(&mut self, view: &View<'_>) {
        let units = &mut self.units;
        self.moving.retain(|&page| {
            let moves = view.state(page).is_in_flight();
            if !moves {
                units.settle(page, view);
            }
            moves
        });
    }

    /// Units of a side that have no more than a share of samples together, the hottest first, with their
    /// lists.
    fn hottest(&self, side: Side, mut share: f64) -> Vec<(PageId, usize)> {
        let (mut found, mut looks) = (Vec::new(), LOOKS);
        for bin in (1..BINS).rev() {
            if self.units.least_share(bin) > share {
                continue;
            }
            for page in self.units.in_list(side, bin).take(looks) {
                looks -= 1;
                let its = self.units.share(page);
                if its <= share {
                    share -= its;
                    found.push((page, bin));
                }
            }
        }
        found
    }

    /// Takes a unit's bytes from the limit; whether they fit.
    fn may_move(&mut self, bytes: u64) -> bool {
        let fits = bytes as f64 <= self.limit;
        self.limit -= if fits { bytes as f64 } else { 0.0 };
        fits
    }

    fn take(&mut self, page: PageId, run: PageRun, to: TierId, plan: &mut Plan) {
        self.depart(page);
        let up = to == TierId::FAST;
        let counter = if up { &mut self.counters.promoted } else { &mut self.counters.demoted };
        *counter += u64::from(run.pages);
        plan.migrate(run, to, if up { Lane::PROMOTE } else { Lane::DEMOTE });
    }

    fn depart(&mut self, page: PageId) {
        self.units.unlist(page);
        self.moving.push(page);
    }

    fn promote(&mut self, share: f64, view: &View<'_>, plan: &mut Plan) {
        let kept = view.limits(TierId::FAST).keep_free;
        let mut room = view.free(TierId::FAST).saturating_sub(kept).0;
        for (page, bin) in self.hottest(Side::Slow, share) {
            let run = view.unit(page);
            let pages = u64::from(run.pages);
            if pages <= room {
                if !self.may_move(run.bytes().0) {
                    break;
                }
                room -= pages;
                self.take(page, run, TierId::FAST, plan);
                continue;
            }
            let Some(victim) = self.units.coldest(Side::Fast, bin) else { break };
            let other = view.unit(victim);
            if !self.may_move(run.bytes().0 + other.bytes().0) {
                break;
            }
            if run.pages == other.pages && other.start == victim {
                self.depart(page);
                self.depart(victim);
                self.counters.promoted += pages;
                self.counters.demoted += pages;
                plan.exchange(run, other, Lane::PROMOTE);
            } else {
                // The room that it leaves is for the next quantum.
                self.take(victim, other, TierId::FAST.slower(), plan);
            }
        }
    }

    fn demote(&mut self, share: f64, view: &View<'_>, plan: &mut Plan) {
        let mut room = self.room_below(view);
        for (page, _) in self.hottest(Side::Fast, share) {
            let run = view.unit(page);
            if u64::from(run.pages) > room || !self.may_move(run.bytes().0) {
                break;
            }
            room -= u64::from(run.pages);
            self.take(page, run, TierId::FAST.slower(), plan);
        }
    }

    fn room_below(&self, view: &View<'_>) -> u64 {
        let next = TierId::FAST.slower();
        view.free(next).saturating_sub(view.limits(next).keep_free).0
    }

    /// Has the coldest pages leave where others have overfilled fast memory.
    fn relieve(&mut self, view: &View<'_>, plan: &mut Plan) {
        let (mut over, mut room) = (view.over(TierId::FAST).0, self.room_below(view));
        while over > 0
            && let Some(page) = self.units.coldest(Side::Fast, BINS)
        {
            let run = view.unit(page);
            let pages = u64::from(run.pages);
            if pages > room {
                break;
            }
            (over, room) = (over.saturating_sub(pages), room - pages);
            self.take(page, run, TierId::FAST.slower(), plan);
        }
    }
}

impl Policy for Colloid {
    fn observe(&mut self, _: Nanos, events: &[Event], view: &View<'_>) {
        for event in events {
            match event {
                Event::Sample(sample) => {
                    self.counters.samples += 1;
                    let known = self.units.sample(sample.page, view);
                    self.counters.unknown_pages += u64::from(known.is_none());
                }
                Event::ReadLatency { tier, reads, waited } => {
                    self.loads.add(*tier, *reads, *waited);
                }
                Event::Populated { run, huge, .. } => self.units.populate(*run, *huge, view),
                Event::Unmapped { run } | Event::Freed { run } => self.units.forget(*run, view),
                Event::Remapped { from, to } => self.units.remap(*from, *to, view),
                Event::SplitDone { region, split: true } => self.units.split(*region, view),
                Event::CollapseDone { region, tier: Some(_) } => {
                    self.units.collapse(*region, view);
                }
                Event::Moved { run, .. } => self.units.moved(*run, view),
                _ => {}
            }
        }
    }

    fn decide(&mut self, now: Nanos, view: &View<'_>, budget: Budget, plan: &mut Plan) {
        self.next_wakeup = now.saturating_add(self.quantum);
        self.land(view);
        self.relieve(view, plan);
        let Some(loaded) = self.loads.look() else { return };
        self.loaded = Some(loaded);
        let Loaded { share, fast_ns, slow_ns, reads } = loaded;
        let Some(Shift { direction, share }) = self.balance.shift(share, fast_ns, slow_ns) else {
            return;
        };
        let new = share * reads * LINE_BYTES;
        let two_folios = 2.0 * Region(0).run().bytes().0 as f64;
        self.limit = (self.limit + new).min(new.max(two_folios));
        self.limit = self.limit.min(budget.remaining.0 as f64);
        match direction {
            Direction::Up => {
                self.counters.up += 1;
                self.promote(share, view, plan);
            }
            Direction::Down => {
                self.counters.down += 1;
                self.demote(share, view, plan);
            }
        }
    }

    fn next_wakeup(&self) -> Option<Nanos> {
        Some(self.next_wakeup)
    }

    fn metrics(&self, sink: &mut MetricSink<'_>) {
        let c = &self.counters;
        for (name, value) in [
            ("samples_total", c.samples),
            ("samples_unknown_page_total", c.unknown_pages),
            ("coolings_total", self.units.coolings()),
            ("promotions_proposed_pages_total", c.promoted),
            ("demotions_proposed_pages_total", c.demoted),
            ("shifts_to_fast_total", c.up),
            ("shifts_to_slow_total", c.down),
            ("searches_begun_again_total", self.balance.resets),
        ] {
            sink(name, value as f64);
        }
        if let Some(loaded) = &self.loaded {
            sink("fast_read_latency_ns", loaded.fast_ns);
            sink("slow_read_latency_ns", loaded.slow_ns);
            sink("fast_read_share", loaded.share);
        }
    }

    fn metadata_bytes(&self) -> Bytes {
        let moving = self.moving.capacity() * size_of::<PageId>();
        self.units.bytes() + Bytes(moving as u64)
    }
}
