//! `multi-clock`: MULTI-CLOCK (Maruf et al., HPCA '22), the kernel's lists with a way up.
//!
//! A thread looks at the ends of the slow tier's lists every second and reads access bits. A page
//! that was accessed is marked and goes round; one that is accessed again while it bears the mark,
//! or was active already, is promoted, as far as there is room. A page that is not accessed loses
//! its mark and its place in the active list. A promotion that finds no room wakes the kernel's
//! thread, which demotes what the fast tier's inactive list ends with.
//!
//! Not good for: large slow tiers, which take long to look through. Not modelled: file pages; the
//! fast tier's lists are looked at when room is needed only.

#[cfg(test)]
mod tests;

use super::contract::{Allocation, Home, MetricSink, Policy};
use super::entry::{Entry, Group};
use super::facts::{Facts, Telemetry};
use super::kernel::Watermarks;
use super::kernel::kswapd::Kswapd;
use super::kernel::lru::{List, Lru, Verdict};
use super::offer::Offer;
use super::runs::Room;
use super::settings::Settings;
use super::suited;
use crate::action::{Lane, Plan};
use crate::budget::Budget;
use crate::event::Event;
use crate::params::{Kind, Param};
use crate::placement::View;
use crate::types::*;
use alloc::boxed::Box;

/// `multi-clock`.
pub const ENTRY: Entry = Entry {
    name: "multi-clock",
    group: Group::Baselines,
    summary: "promotion of pages whose access bit was set twice, from lists like the kernel's",
    citation: "Maruf et al., MULTI-CLOCK, HPCA '22",
    pages: None,
    params: &[
        Param::scaled("interval", Kind::Duration, "1s", "", "of looks at the slow tier's lists"),
        Param::fixed("batch", Kind::Count, "1024", "pages", "of each list in one look, at least"),
        Param::fixed(
            "watermark-gap",
            Kind::Ratio,
            "0.001",
            "",
            "of fast memory, from mark to mark",
        ),
        Param::scaled("rest", Kind::Duration, "100ms", "", "of demotion that found nothing"),
    ],
    preset: &[],
    suits: suited::anywhere,
    facts: |_| Facts {
        needs: Telemetry { access_bits: true, ..Telemetry::default() },
        in_kernel: true,
        ..Facts::default()
    },
    build: |settings, context| Ok(Box::new(MultiClock::new(settings, context))),
};

/// What has happened, for reports and tests.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    looks: u64,
    checked: u64,
    marked: u64,
    unmarked: u64,
    deactivated: u64,
    promoted: u64,
    no_room: u64,
}

/// MULTI-CLOCK; made by [`ENTRY`].
struct MultiClock {
    lru: Lru,
    kswapd: Kswapd,
    interval: Nanos,
    pages: u64,
    next_look: Nanos,
    gap: f64,
    counters: Counters,
}

impl MultiClock {
    fn new(settings: &Settings, context: &Offer) -> Self {
        let interval = Nanos(settings.duration("interval").0.max(1));
        Self {
            lru: Lru::new(context.table_pages()),
            kswapd: Kswapd::new(context.scale, settings.duration("rest")),
            interval,
            pages: settings.count("batch").max(1),
            next_look: interval,
            gap: settings.number("watermark-gap"),
            counters: Counters::default(),
        }
    }

    /// Treats what is known of the slow tiers' pages; promotes while there is room.
    fn settle(&mut self, tier: TierId, view: &View<'_>, budget: &mut Budget, plan: &mut Plan) {
        let marks = Watermarks::of(view, self.gap);
        let mut room = Room::above(marks.high, view, TierId::FAST, budget);
        while let Some(answer) = self.lru.next_answered(tier) {
            let (page, pages) = (answer.unit.start, u64::from(answer.unit.pages));
            self.counters.checked += 1;
            let again = answer.list == List::Active && answer.accessed;
            match self.lru.check(page, answer.accessed) {
                verdict if again || verdict == Verdict::Activate => {
                    if room.take(pages) {
                        self.counters.promoted += pages;
                        self.lru.depart(page);
                        plan.migrate(answer.unit, TierId::FAST, Lane::PROMOTE);
                    } else {
                        self.counters.no_room += 1;
                        self.kswapd.wake(marks.promote.max(marks.high + pages));
                        self.lru.file(page, List::Active);
                    }
                }
                Verdict::Keep => {
                    self.counters.marked += 1;
                    self.lru.file(page, answer.list);
                }
                _ => {
                    self.counters.unmarked += 1;
                    self.counters.deactivated += u64::from(answer.list == List::Active);
                    self.lru.file(page, List::Inactive);
                }
            }
        }
    }
}

impl Policy for MultiClock {
    fn observe(&mut self, _: Nanos, events: &[Event], view: &View<'_>) {
        events.iter().for_each(|event| self.lru.observe(event, view));
    }

    fn place(&mut self, _: Nanos, _: &Allocation, view: &View<'_>) -> Home {
        let leave_free = Watermarks::of(view, self.gap).low_share(view);
        Home { leave_free, ..Home::default() }
    }

    fn decide(&mut self, now: Nanos, view: &View<'_>, mut budget: Budget, plan: &mut Plan) {
        let leaving = self.lru.land(TierId::FAST, view);
        for tier in (1..view.tiers() as u8).map(TierId) {
            self.settle(tier, view, &mut budget, plan);
        }
        self.kswapd.run(now, &mut self.lru, leaving, view, &mut budget, plan);
        if now < self.next_look {
            return;
        }
        self.next_look = now.saturating_add(self.interval);
        self.counters.looks += 1;
        for tier in (1..view.tiers() as u8).map(TierId) {
            // What was not answered in a whole interval never will be.
            self.lru.abandon(tier);
            for list in [List::Active, List::Inactive] {
                self.lru.isolate(tier, list, self.pages, Lane::SCAN, plan);
            }
        }
    }

    fn next_wakeup(&self) -> Option<Nanos> {
        let answered = (1..MAX_TIERS as u8).any(|t| self.lru.next_answered(TierId(t)).is_some());
        let own = if answered { Nanos::ZERO } else { self.next_look };
        Some(self.kswapd.next_wakeup(&self.lru).map_or(own, |wakeup| wakeup.min(own)))
    }

    fn metrics(&self, sink: &mut MetricSink<'_>) {
        let c = &self.counters;
        for (name, value) in [
            ("looks_total", c.looks),
            ("checked_total", c.checked),
            ("marked_total", c.marked),
            ("unmarked_total", c.unmarked),
            ("deactivated_total", c.deactivated),
            ("promotions_proposed_pages_total", c.promoted),
            ("promotions_without_room_total", c.no_room),
        ] {
            sink(name, value as f64);
        }
        self.kswapd.metrics(sink);
    }

    fn metadata_bytes(&self) -> Bytes {
        self.lru.bytes()
    }
}
