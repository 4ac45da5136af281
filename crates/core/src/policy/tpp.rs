//! `tpp`: Transparent Page Placement (Al Maruf et al., ASPLOS '23).
//!
//! Slow memory is armed in turn, as in `autonuma`. A page that faults is marked as accessed; it is
//! promoted, then and there, only where it was in its tier's active list already: at its second
//! fault. Demotion is apart from allocation: where less than 2 % of fast memory is free, pages from
//! the end of its inactive list go to the next tier, and new memory may use that room.
//!
//! Not good for: hot sets larger than fast memory; two touches, however far apart, are hot. Not
//! modelled: file pages, which the source may place in slow memory at once; MGLRU.

#[cfg(test)]
mod tests;

use super::contract::{Allocation, FaultDecision, Home, MetricSink, Policy};
use super::entry::{Entry, Group};
use super::facts::{Facts, Telemetry};
use super::kernel::Watermarks;
use super::kernel::hint::{Arms, HintScan};
use super::kernel::kswapd::Kswapd;
use super::kernel::lru::{List, Lru};
use super::kernel::scan_period::{Counts, Ending, PACE, Pace};
use super::offer::Offer;
use super::settings::Settings;
use super::suited;
use crate::action::Plan;
use crate::budget::Budget;
use crate::event::{Event, Fault, MoveCause};
use crate::params::{Kind, Param};
use crate::placement::View;
use crate::types::*;
use alloc::boxed::Box;

/// `tpp`.
pub const ENTRY: Entry = Entry {
    name: "tpp",
    group: Group::Baselines,
    summary: "promotion at the second hint fault, demotion ahead of allocation",
    citation: "Al Maruf et al., TPP, ASPLOS '23",
    pages: None,
    params: &[
        PACE[0],
        PACE[1],
        PACE[2],
        PACE[3],
        PACE[4],
        PACE[5],
        Param::fixed("free", Kind::Ratio, "0.02", "", "of fast memory that demotion keeps free"),
        Param::fixed("watermark-gap", Kind::Ratio, "0.001", "", "of fast memory for allocations"),
        Param::scaled("rest", Kind::Duration, "100ms", "", "of demotion that found nothing"),
    ],
    preset: &[],
    suits: suited::anywhere,
    facts: |_| Facts {
        needs: Telemetry { faults: true, access_bits: true, ..Telemetry::default() },
        in_kernel: true,
        ..Facts::default()
    },
    build: |settings, context| Ok(Box::new(Tpp::new(settings, context))),
};

/// What has happened, for reports and tests.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    faults: u64,
    first: u64,
    no_room: u64,
    promoted: u64,
}

/// TPP; made by [`ENTRY`].
struct Tpp {
    scan: HintScan,
    lru: Lru,
    kswapd: Kswapd,
    free: f64,
    gap: f64,
    counters: Counters,
}

impl Tpp {
    fn new(settings: &Settings, context: &Offer) -> Self {
        let pace = Pace::read(settings);
        Self {
            scan: HintScan::new(Arms::Slow, Counts::All, pace, context),
            lru: Lru::new(context.table_pages()),
            kswapd: Kswapd::new(context.scale, settings.duration("rest")),
            free: settings.number("free"),
            gap: settings.number("watermark-gap"),
            counters: Counters::default(),
        }
    }

    /// Wakes demotion where less than its watermark is free.
    fn check_room(&mut self, view: &View<'_>) {
        let limits = view.limits(TierId::FAST);
        let wanted = limits.keep_free.0 + (limits.capacity.0 as f64 * self.free) as u64;
        if view.free(TierId::FAST).0 < wanted {
            self.kswapd.wake(wanted);
        }
    }

    fn judge(&mut self, fault: &Fault, view: &View<'_>) -> Ending {
        if fault.tier == TierId::FAST {
            return Ending::Stayed;
        }
        if self.lru.list_of(fault.page) != Some(List::Active) {
            self.counters.first += 1;
            self.lru.file(fault.page, List::Active);
            return Ending::Stayed;
        }
        let pages = u64::from(view.unit(fault.page).pages);
        let least = view.limits(TierId::FAST).keep_free.0 + pages;
        if view.free(TierId::FAST).0 < least {
            self.counters.no_room += 1;
            self.kswapd.wake(least);
            return Ending::Failed;
        }
        Ending::Promoted
    }
}

impl Policy for Tpp {
    fn observe(&mut self, _: Nanos, events: &[Event], view: &View<'_>) {
        for event in events {
            self.lru.observe(event, view);
            match event {
                Event::Populated { run, .. } => run.iter().for_each(|page| self.scan.fresh(page)),
                Event::Moved { run, to: TierId::FAST, cause: MoveCause::FaultDecision } => {
                    self.counters.promoted += u64::from(run.pages);
                }
                _ => {}
            }
        }
        self.check_room(view);
    }

    fn place(&mut self, _: Nanos, _: &Allocation, view: &View<'_>) -> Home {
        let leave_free = Watermarks::of(view, self.gap).low_share(view);
        Home { leave_free, ..Home::default() }
    }

    fn decide(&mut self, now: Nanos, view: &View<'_>, mut budget: Budget, plan: &mut Plan) {
        let leaving = self.lru.land(TierId::FAST, view);
        self.kswapd.run(now, &mut self.lru, leaving, view, &mut budget, plan);
        self.scan.run(now, view, plan, &mut |_| {});
    }

    fn next_wakeup(&self) -> Option<Nanos> {
        let kswapd = self.kswapd.next_wakeup(&self.lru);
        Some(kswapd.map_or(self.scan.next(), |wakeup| wakeup.min(self.scan.next())))
    }

    fn on_fault(&mut self, now: Nanos, fault: &Fault, view: &View<'_>) -> FaultDecision {
        self.counters.faults += 1;
        let ending = self.judge(fault, view);
        self.scan.fault(now, fault, ending, view);
        match ending {
            Ending::Promoted => FaultDecision::MoveHere(TierId::FAST),
            Ending::Failed | Ending::Stayed => FaultDecision::Stay,
        }
    }

    fn metrics(&self, sink: &mut MetricSink<'_>) {
        let c = &self.counters;
        for (name, value) in [
            ("hint_faults_total", c.faults),
            ("hint_faults_first_total", c.first),
            ("hint_faults_without_room_total", c.no_room),
            ("promoted_in_fault_pages_total", c.promoted),
        ] {
            sink(name, value as f64);
        }
        self.scan.metrics(sink);
        self.kswapd.metrics(sink);
    }

    fn metadata_bytes(&self) -> Bytes {
        self.scan.bytes() + self.lru.bytes()
    }
}
