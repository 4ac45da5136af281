//! `hemem`: HeMem (Raybuck et al., SOSP '21), hot by fixed numbers of samples.
//!
//! A page, huge or not, is hot at 8 sampled loads or 4 sampled stores. Once either count of any page
//! reaches 18, all counts are halved. Hot pages wait first in, first out for fast memory; what makes
//! room is the cold page that has been cold there for longest. With no cold page left there, nothing
//! moves: a hot set larger than fast memory ends migration.
//!
//! Not good for: hot sets far from the size of fast memory. Departs from its source: pages are as
//! large as the world maps them, not always 2 MiB; small allocations are managed, too, but halve no
//! counts; moves are decided on up to 8 MiB ahead; the sampling thread never rests where a machine
//! is modelled, and does live; samples and writes wait for nothing; no memory is kept free, as in the
//! authors' code.

mod extents;
mod units;

#[cfg(test)]
mod tests;

use super::contract::{MetricSink, PageSize, Policy};
use super::entry::{Entry, Group};
use super::facts::{Facts, Telemetry};
use super::offer::Offer;
use super::settings::Settings;
use super::suited;
use crate::action::{Lane, Plan};
use crate::budget::Budget;
use crate::event::{Event, Sample, SampleKind};
use crate::params::{Kind, Param};
use crate::placement::View;
use crate::types::*;
use alloc::boxed::Box;
use alloc::vec::Vec;
use extents::Extents;
use units::{Queue, Rule, Units};

/// Pages on their way in one direction while more are proposed: what is queued for longer is decided
/// on by what was hot then.
const AHEAD_PAGES: u64 = 2048;

/// `hemem`.
pub const ENTRY: Entry = Entry {
    name: "hemem",
    group: Group::Principal,
    summary: "hot at fixed numbers of sampled accesses; first in, first out",
    citation: "Raybuck et al., HeMem, SOSP '21",
    pages: Some(PageSize::Folio),
    params: &[
        Param::fixed("period", Kind::Count, "5000", "LLC load misses", "per sample"),
        Param::fixed("store-period", Kind::Count, "5000", "retired stores", "per sample; 0 none"),
        Param::fixed("hot-loads", Kind::Count, "8", "samples", "loads that make a page hot"),
        Param::fixed("hot-stores", Kind::Count, "4", "samples", "stores that make a page hot"),
        Param::fixed("cool", Kind::Count, "18", "samples", "of one kind that halve all counts"),
        Param::scaled("wakeup", Kind::Duration, "10ms", "", "interval of the migration thread"),
    ],
    preset: &[],
    suits: suited::period_of_brief_programs,
    facts,
    build: |settings, context| Ok(Box::new(Hemem::new(settings, context))),
};

fn facts(settings: &Settings) -> Facts {
    let needs = Telemetry {
        load_sample_period: settings.period("period"),
        store_sample_period: settings.count_u32("store-period"),
        ..Telemetry::default()
    };
    Facts { needs, spinning_threads: 1, ..Facts::default() }
}

/// What has happened, for reports and tests.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    samples: u64,
    unknown_pages: u64,
    lost: u64,
    promoted: u64,
    demoted: u64,
    halts: u64,
}

/// HeMem; made by [`ENTRY`].
struct Hemem {
    wakeup: Nanos,
    next_wakeup: Nanos,
    units: Units,
    extents: Extents,
    /// First pages of what was proposed and not known to have ended.
    moving: Vec<PageId>,
    /// Counts were halved since hot pages were last looked at.
    cooled: bool,
    counters: Counters,
}

impl Hemem {
    fn new(settings: &Settings, context: &Offer) -> Self {
        let few = |key| u16::try_from(settings.count(key).max(1)).unwrap_or(u16::MAX);
        let wakeup = Nanos(settings.duration("wakeup").0.max(1));
        let rule = Rule { loads: few("hot-loads"), stores: few("hot-stores"), cool: few("cool") };
        Self {
            wakeup,
            next_wakeup: wakeup,
            units: Units::new(rule, context.table_pages()),
            extents: Extents::default(),
            moving: Vec::new(),
            cooled: false,
            counters: Counters::default(),
        }
    }

    fn sample(&mut self, sample: &Sample, view: &View<'_>) {
        self.counters.samples += 1;
        let fast = view.limits(TierId::FAST).capacity;
        let counts = || !self.extents.is_small(sample.page, fast);
        match self.units.sample(sample.page, sample.kind == SampleKind::Store, counts, view) {
            Some(cooled) => self.cooled |= cooled,
            None => self.counters.unknown_pages += 1,
        }
    }

    /// Finds places for what has ended its move, one way or the other; gives the pages that are
    /// still on their way out of fast memory, and into it.
    fn land(&mut self, view: &View<'_>) -> (u64, u64) {
        let (mut leaving, mut arriving) = (0, 0);
        let units = &mut self.units;
        self.moving.retain(|&page| {
            let state = view.state(page);
            if state.is_in_flight() {
                let pages = view.unit(page).pages;
                let out = state.tier() == Some(TierId::FAST);
                *(if out { &mut leaving } else { &mut arriving }) += u64::from(pages);
                return true;
            }
            units.settle(page, view);
            false
        });
        (leaving, arriving)
    }

    /// Proposes hot pages for fast memory while there is `room` and fewer than `most`; gives the
    /// pages.
    fn promote(
        &mut self,
        mut room: u64,
        most: u64,
        bytes: &mut Bytes,
        view: &View<'_>,
        plan: &mut Plan,
    ) -> u64 {
        let mut promoted = 0;
        while promoted < most
            && let Some((page, run)) = self.units.first(Queue::SlowHot, view)
        {
            if u64::from(run.pages) > room || run.bytes() > *bytes {
                break;
            }
            room -= u64::from(run.pages);
            promoted += u64::from(run.pages);
            self.take(Queue::SlowHot, page, run, TierId::FAST, bytes, plan);
        }
        promoted
    }

    /// Proposes `need` pages to leave fast memory, the longest cold ones first; gives the pages.
    fn demote(&mut self, need: u64, bytes: &mut Bytes, view: &View<'_>, plan: &mut Plan) -> u64 {
        let mut demoted = 0;
        let next = TierId::FAST.slower();
        let below = view.free(next).saturating_sub(view.limits(next).keep_free).0;
        while demoted < need {
            let Some((page, run)) = self.units.first(Queue::FastCold, view) else {
                self.counters.halts += 1;
                break;
            };
            if demoted + u64::from(run.pages) > below || run.bytes() > *bytes {
                break;
            }
            demoted += u64::from(run.pages);
            self.take(Queue::FastCold, page, run, next, bytes, plan);
        }
        demoted
    }

    fn take(
        &mut self,
        from: Queue,
        page: PageId,
        run: PageRun,
        to: TierId,
        bytes: &mut Bytes,
        plan: &mut Plan,
    ) {
        *bytes = bytes.saturating_sub(run.bytes());
        self.units.take_first(from);
        self.moving.push(page);
        let lane = if to == TierId::FAST { Lane::PROMOTE } else { Lane::DEMOTE };
        plan.migrate(run, to, lane);
    }
}

impl Policy for Hemem {
    fn observe(&mut self, _: Nanos, events: &[Event], view: &View<'_>) {
        for event in events {
            match event {
                Event::Sample(sample) => self.sample(sample, view),
                Event::Populated { run, huge, .. } => self.units.populate(*run, *huge, view),
                Event::Mapped { run, backing, .. } => self.extents.map(*run, *backing),
                Event::Unmapped { run } => {
                    self.extents.unmap(*run);
                    self.units.forget(*run, view);
                }
                Event::Freed { run } => self.units.forget(*run, view),
                Event::Remapped { from, to } => {
                    self.extents.remap(*from, *to);
                    self.units.remap(*from, *to, view);
                }
                Event::SplitDone { region, split: true } => self.units.split(*region, view),
                Event::CollapseDone { region, tier: Some(_) } => {
                    self.units.collapse(*region, view);
                }
                Event::Moved { run, .. } => self.units.moved(*run, view),
                Event::SamplesLost { count } => self.counters.lost += count,
                _ => {}
            }
        }
    }

    fn decide(&mut self, now: Nanos, view: &View<'_>, budget: Budget, plan: &mut Plan) {
        self.next_wakeup = now.saturating_add(self.wakeup);
        let (leaving, arriving) = self.land(view);
        if core::mem::take(&mut self.cooled) {
            self.units.cool_hot_pages(view);
        }
        let limits = view.limits(TierId::FAST);
        let free = view.free(TierId::FAST).0;
        let mut bytes = budget.remaining;
        let room = free.saturating_sub(limits.keep_free.0);
        let most = AHEAD_PAGES.saturating_sub(arriving);
        let promoted = self.promote(room, most, &mut bytes, view, plan);
        self.counters.promoted += promoted;
        let waiting = self.units.waiting_pages();
        let wanted = if waiting > 0 { waiting + limits.keep_free.0 } else { 0 };
        let coming = free - promoted.min(free) + leaving;
        let over = view.over(TierId::FAST).0.saturating_sub(leaving);
        let need = over + wanted.saturating_sub(coming);
        let need = need.min(AHEAD_PAGES.saturating_sub(leaving));
        self.counters.demoted += self.demote(need, &mut bytes, view, plan);
    }

    fn next_wakeup(&self) -> Option<Nanos> {
        Some(self.next_wakeup)
    }

    fn metrics(&self, sink: &mut MetricSink<'_>) {
        let c = &self.counters;
        for (name, value) in [
            ("samples_total", c.samples),
            ("samples_unknown_page_total", c.unknown_pages),
            ("samples_lost_total", c.lost),
            ("coolings_total", self.units.coolings()),
            ("promotions_proposed_pages_total", c.promoted),
            ("demotions_proposed_pages_total", c.demoted),
            ("halts_total", c.halts),
        ] {
            sink(name, value as f64);
        }
    }

    fn metadata_bytes(&self) -> Bytes {
        let moving = self.moving.capacity() * size_of::<PageId>();
        self.units.bytes() + self.extents.bytes() + Bytes(moving as u64)
    }

    fn classes(&self) -> Option<[u64; 3]> {
        let [hot, cold] = self.units.classes();
        Some([hot, 0, cold])
    }
}
