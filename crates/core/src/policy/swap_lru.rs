//! `swap-lru`: slow memory as a swap device of Linux, a reference of HotBox (ISMM '22, section 3.1).
//!
//! No access is served outside fast memory: the touch of a page there brings it in, alone. The kernel's
//! lists, told by access bits, say what leaves; its thread evicts ahead of need between two watermarks,
//! and where it is late, the program waits while the oldest pages leave.
//!
//! Not good for: pages of which little is used before they leave. Departs from Linux: no read-ahead
//! of neighbours, no refault distances, no device beneath (as HotBox's own version), and where the
//! program waits, access bits are not looked at again.

#[cfg(test)]
mod tests;

use super::contract::{MetricSink, PageSize, Policy};
use super::entry::{Entry, Group};
use super::facts::{Facts, Telemetry};
use super::hotbox::marks;
use super::kernel::kswapd::Kswapd;
use super::kernel::lru::{List, Lru};
use super::offer::Offer;
use super::settings::Settings;
use super::suited;
use crate::action::Plan;
use crate::budget::Budget;
use crate::event::{Event, MoveCause};
use crate::params::{Kind, Param};
use crate::placement::View;
use crate::types::*;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// `swap-lru`.
pub const ENTRY: Entry = Entry {
    name: "swap-lru",
    group: Group::Baselines,
    summary: "slow memory is a swap device; the kernel's lists say what leaves",
    citation: "Bergman et al., HotBox, ISMM '22, section 3.1; Linux 6",
    pages: Some(PageSize::Base),
    params: &[
        Param::fixed(
            "watermark-gap",
            Kind::Ratio,
            "0.001",
            "",
            "of fast memory, from mark to mark",
        ),
        Param::scaled("rest", Kind::Duration, "100ms", "", "of eviction that found nothing"),
    ],
    preset: &[],
    suits: suited::anywhere,
    facts: |_| Facts {
        needs: Telemetry {
            faults: true,
            swap_faults: true,
            access_bits: true,
            ..Telemetry::default()
        },
        swaps: true,
        in_kernel: true,
        ..Facts::default()
    },
    build: |settings, context| Ok(Box::new(SwapLru::new(settings, context))),
};

/// Swapping by Linux's lists; made by [`ENTRY`].
struct SwapLru {
    lru: Lru,
    kswapd: Kswapd,
    gap: f64,
    brought_in: u64,
    waited_for: u64,
}

impl SwapLru {
    fn new(settings: &Settings, context: &Offer) -> Self {
        Self {
            lru: Lru::new(context.table_pages()),
            kswapd: Kswapd::new(context.scale, settings.duration("rest")),
            gap: settings.number("watermark-gap"),
            brought_in: 0,
            waited_for: 0,
        }
    }
}

impl Policy for SwapLru {
    fn observe(&mut self, _: Nanos, events: &[Event], view: &View<'_>) {
        for event in events {
            self.lru.observe(event, view);
            match event {
                Event::Moved { run, cause: MoveCause::Refault, .. } => {
                    self.brought_in += u64::from(run.pages);
                }
                Event::Moved { run, cause: MoveCause::Reclaim, .. } => {
                    self.waited_for += u64::from(run.pages);
                }
                _ => {}
            }
        }
        let marks = marks(view, self.gap);
        if view.free(TierId::FAST).0 < marks.low {
            self.kswapd.wake(marks.high);
        }
    }

    fn decide(&mut self, now: Nanos, view: &View<'_>, mut budget: Budget, plan: &mut Plan) {
        let leaving = self.lru.land(TierId::FAST, view);
        self.kswapd.run(now, &mut self.lru, leaving, view, &mut budget, plan);
    }

    fn next_wakeup(&self) -> Option<Nanos> {
        self.kswapd.next_wakeup(&self.lru)
    }

    fn victims(&mut self, _: Nanos, wanted: PageCount, view: &View<'_>, out: &mut Vec<PageId>) {
        let lists = [List::Inactive, List::Active];
        let oldest = lists.iter().flat_map(|list| self.lru.from_oldest(TierId::FAST, *list));
        let mut pages = 0;
        for unit in oldest.filter(|unit| !view.state(unit.start).is_in_flight()) {
            if pages >= wanted.0 {
                break;
            }
            pages += u64::from(unit.pages);
            out.push(unit.start);
        }
    }

    fn metrics(&self, sink: &mut MetricSink<'_>) {
        sink("brought_in_pages_total", self.brought_in as f64);
        sink("evicted_while_waiting_pages_total", self.waited_for as f64);
        self.kswapd.metrics(sink);
    }

    fn metadata_bytes(&self) -> Bytes {
        self.lru.bytes()
    }
}
