//! `nimble`: Nimble Page Management (Yan et al., ASPLOS '19), exchanges in batches.
//!
//! At every interval all access bits are read and cleared. Slow pages that were accessed since the
//! last time are hot, fast ones that were not are cold. Cold pages are exchanged for hot ones, and
//! where more are cold than hot, the others for slow pages that were not accessed: HotBox's account
//! of it (section 6), by which batches grow with fast memory. Its source moves huge pages; HotBox has runs
//! with base pages beside.
//!
//! Not good for: memory of which more is accessed in an interval than fits. Departs: an exchange is a
//! demotion and then a promotion; the interval is ours. Not modelled: copies by several threads.

#[cfg(test)]
mod tests;

use super::contract::{MetricSink, PageSize, Policy};
use super::entry::{Entry, Group};
use super::facts::{Facts, Telemetry};
use super::kernel::{scan_all, units};
use super::offer::Offer;
use super::runs::{Room, Runs};
use super::settings::Settings;
use super::suited;
use crate::action::{Lane, Plan};
use crate::budget::Budget;
use crate::event::{AccessBits, Event};
use crate::hotness::bitmap::Bitmap;
use crate::params::{Kind, Param};
use crate::placement::View;
use crate::types::*;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// `nimble`.
pub const ENTRY: Entry = Entry {
    name: "nimble",
    group: Group::Baselines,
    summary: "exchange of pages accessed since the last scan for others, in batches",
    citation: "Yan et al., Nimble, ASPLOS '19",
    pages: Some(PageSize::Folio),
    params: &[
        Param::scaled("interval", Kind::Duration, "5s", "", "of scans and exchanges"),
        Param::fixed("fill", Kind::Switch, "on", "", "exchange all cold pages, if few are hot"),
        Param::fixed("rate", Kind::Bytes, "2GiB", "per second", "moved at most, both ways"),
        Param::fixed("ahead", Kind::Count, "1024", "pages", "demoted before others come, at most"),
    ],
    preset: &[],
    suits: suited::anywhere,
    facts: |_| Facts {
        needs: Telemetry { access_bits: true, ..Telemetry::default() },
        in_kernel: true,
        ..Facts::default()
    },
    build: |settings, context| Ok(Box::new(Nimble::new(settings, context))),
};

/// What has happened, for reports and tests.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    scans: u64,
    batches: u64,
    hot: u64,
    cold: u64,
    filled_up: u64,
    promoted: u64,
    demoted: u64,
}

/// Nimble; made by [`ENTRY`].
struct Nimble {
    interval: Nanos,
    fill: bool,
    /// Pages that a batch promotes at most.
    most: u64,
    ahead: u64,
    next_scan: Nanos,
    /// First page of the last unit that was asked for; `None` where all answers are in.
    awaited: Option<PageId>,
    /// Units that were accessed, by their first page.
    accessed: Bitmap,
    /// Units to leave and to enter fast memory, in the order of moves.
    leaving: VecDeque<PageId>,
    entering: VecDeque<PageId>,
    /// Answers are in that no batch has been chosen by.
    fresh: bool,
    /// Something has ended: there may be room.
    stirred: bool,
    counters: Counters,
}

impl Nimble {
    fn new(settings: &Settings, _: &Offer) -> Self {
        let interval = Nanos(settings.duration("interval").0.max(1));
        let rate = settings.count("rate") as f64;
        let most = Bytes((rate * interval.as_secs_f64() / 2.0) as u64).pages().0;
        Self {
            interval,
            most: most.max(u64::from(HUGE_PAGES)),
            fill: settings.switch("fill"),
            ahead: settings.count("ahead").max(u64::from(HUGE_PAGES)),
            next_scan: interval,
            awaited: None,
            accessed: Bitmap::default(),
            leaving: VecDeque::new(),
            entering: VecDeque::new(),
            fresh: false,
            stirred: false,
            counters: Counters::default(),
        }
    }

    /// Proposes to read and clear the access bits of all memory.
    fn scan(&mut self, view: &View<'_>, plan: &mut Plan) {
        self.counters.scans += 1;
        self.awaited = units(view).last().map(|unit| unit.start);
        scan_all(view, plan);
    }

    fn answer(&mut self, bits: &AccessBits) {
        for (page, accessed) in bits.units() {
            if accessed {
                self.accessed.insert(page.0);
            } else {
                self.accessed.remove(page.0);
            }
        }
        if self.awaited.is_some_and(|last| bits.run.contains(last)) {
            self.awaited = None;
            (self.fresh, self.stirred) = (true, true);
        }
    }

    /// Chooses who leaves and who enters.
    fn choose(&mut self, view: &View<'_>) {
        let mut sides: [[Vec<PageRun>; 2]; 2] = Default::default();
        for unit in units(view) {
            let state = view.state(unit.start);
            if !state.is_in_flight() {
                let fast = state.tier() == Some(TierId::FAST);
                let hot = self.accessed.contains(unit.start.0);
                sides[usize::from(fast)][usize::from(hot)].push(unit);
            }
        }
        let [[slow_cold, slow_hot], [fast_cold, _]] = sides;
        let sum = |units: &[PageRun]| units.iter().map(|u| u64::from(u.pages)).sum::<u64>();
        let (hot, cold) = (sum(&slow_hot), sum(&fast_cold));
        self.counters.batches += 1;
        self.counters.hot += hot;
        self.counters.cold += cold;
        let free = view.free(TierId::FAST).saturating_sub(view.limits(TierId::FAST).keep_free).0;
        // Only cold pages make room, and what finds none stays where it is.
        let batch = if self.fill { hot.max(cold) } else { hot };
        let enter = batch.min(cold + free).min(self.most);
        self.counters.filled_up += enter.min(hot + sum(&slow_cold)).saturating_sub(hot);
        let chain = |first: Vec<PageRun>, then: Vec<PageRun>, most: u64| {
            let mut left = most;
            let fits = move |unit: &PageRun| {
                let fits = left >= u64::from(unit.pages);
                left = if fits { left - u64::from(unit.pages) } else { 0 };
                fits
            };
            first.into_iter().chain(then).take_while(fits).map(|unit| unit.start).collect()
        };
        let slow_cold = if self.fill { slow_cold } else { Vec::new() };
        self.leaving = chain(fast_cold, Vec::new(), enter.saturating_sub(free));
        self.entering = chain(slow_hot, slow_cold, enter);
    }

    /// Goes on with the batch: what is to enter while there is room, then what is to leave.
    fn exchange(&mut self, view: &View<'_>, mut budget: Budget, plan: &mut Plan) {
        let mut room = Room::of(view, TierId::FAST, &mut budget);
        let mut runs = Runs::new(TierId::FAST, Lane::PROMOTE);
        while let Some(first) = self.entering.front().copied() {
            let unit = view.unit(first);
            let state = view.state(first);
            let stays = state.tier().is_none_or(|tier| tier == TierId::FAST);
            if stays || state.is_in_flight() {
                self.entering.pop_front();
                continue;
            }
            if !room.take(unit.pages) {
                break;
            }
            self.entering.pop_front();
            runs.push(unit, plan);
        }
        self.counters.promoted += runs.finish(plan);
        if self.entering.is_empty() {
            self.leaving.clear();
        }
        let to = TierId::FAST.slower();
        let mut coming = room.pages() + view.reserved(to).0;
        let mut room = Room::of(view, to, &mut budget);
        let mut runs = Runs::new(to, Lane::DEMOTE);
        while coming < self.ahead
            && let Some(first) = self.leaving.front().copied()
        {
            let unit = view.unit(first);
            let state = view.state(first);
            if state.tier() != Some(TierId::FAST) || state.is_in_flight() {
                self.leaving.pop_front();
                continue;
            }
            if !room.take(unit.pages) {
                break;
            }
            coming += u64::from(unit.pages);
            self.leaving.pop_front();
            runs.push(unit, plan);
        }
        self.counters.demoted += runs.finish(plan);
    }
}

impl Policy for Nimble {
    fn observe(&mut self, _: Nanos, events: &[Event], _: &View<'_>) {
        for event in events {
            match event {
                Event::AccessBits(bits) => self.answer(bits),
                Event::MigrationDone { .. } => self.stirred = true,
                _ => {}
            }
        }
    }

    fn decide(&mut self, now: Nanos, view: &View<'_>, budget: Budget, plan: &mut Plan) {
        if core::mem::take(&mut self.fresh) {
            self.choose(view);
        }
        if core::mem::take(&mut self.stirred) {
            self.exchange(view, budget, plan);
        }
        if now >= self.next_scan {
            self.next_scan = now.saturating_add(self.interval);
            // A batch that has not ended is given up.
            self.leaving.clear();
            self.entering.clear();
            self.scan(view, plan);
        }
    }

    fn next_wakeup(&self) -> Option<Nanos> {
        Some(if self.stirred { Nanos::ZERO } else { self.next_scan })
    }

    fn metrics(&self, sink: &mut MetricSink<'_>) {
        let c = &self.counters;
        for (name, value) in [
            ("scans_total", c.scans),
            ("batches_total", c.batches),
            ("hot_slow_pages_total", c.hot),
            ("cold_fast_pages_total", c.cold),
            ("filled_up_pages_total", c.filled_up),
            ("promotions_proposed_pages_total", c.promoted),
            ("demotions_proposed_pages_total", c.demoted),
        ] {
            sink(name, value as f64);
        }
    }

    fn metadata_bytes(&self) -> Bytes {
        let waiting = (self.leaving.capacity() + self.entering.capacity()) * size_of::<PageId>();
        self.accessed.bytes() + Bytes(waiting as u64)
    }
}
