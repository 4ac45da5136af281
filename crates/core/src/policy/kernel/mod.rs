//! Mechanisms of the kernel that several policies share: its lists of pages, the thread that
//! demotes, and
//! hint faults.

pub mod generations;
pub mod hint;
pub mod kswapd;
pub mod lru;
pub mod scan_period;
#[cfg(test)]
mod scan_period_tests;
#[cfg(test)]
pub(super) mod testing;

use crate::action::{Action, Lane, Plan, Scan};
use crate::event::Level;
use crate::placement::{PageState, View};
use crate::types::{PageId, PageRun, TierId};

/// Free pages of the fastest tier at which something happens (`__setup_per_zone_wmarks`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// Below it, new memory comes from the next tier.
    pub low: u64,
    /// Promotions leave so much.
    pub high: u64,
    /// What demotion restores.
    pub promote: u64,
}

impl Watermarks {
    /// One, two and three times `gap`, a share of the tier and at least a page, above what moves
    /// leave free.
    pub fn of(view: &View<'_>, gap: f64) -> Self {
        let limits = view.limits(TierId::FAST);
        let gap = ((limits.capacity.0 as f64 * gap) as u64).max(1);
        let least = limits.keep_free.0;
        Self { low: least + gap, high: least + 2 * gap, promote: least + 3 * gap }
    }

    /// The low watermark as a share of fast memory, below 1.
    pub fn low_share(self, view: &View<'_>) -> f64 {
        let capacity = view.limits(TierId::FAST).capacity.0;
        // Rounded up, because the engine rounds down.
        if capacity > self.low { (self.low as f64 + 0.5) / capacity as f64 } else { 0.0 }
    }
}

/// All resident units in the order of their numbers.
pub fn units<'a>(view: &View<'a>) -> impl Iterator<Item = PageRun> + use<'a> {
    let states = view.states();
    (0..states.len()).filter_map(move |i| {
        let (state, page) = (PageState(states[i]), PageId(i as u32));
        let huge = state.is_huge();
        let first = state.is_resident() && (!huge || page.offset() == 0);
        first.then(|| if huge { page.region().run() } else { PageRun::single(page) })
    })
}

/// Has all access bits read and cleared.
pub fn scan_all(view: &View<'_>, plan: &mut Plan) {
    scan_units(units(view), Lane::SCAN, plan);
}

/// Has access bits read and cleared, of units in order, those that follow each other together.
pub fn scan_units(units: impl Iterator<Item = PageRun>, lane: Lane, plan: &mut Plan) {
    let mut units = units.peekable();
    while let Some(unit) = units.next() {
        let mut scan = scan_of(unit, true);
        let follows = |end, next: &PageRun| next.start.0 == end && next.pages == unit.pages;
        while let Some(next) = units.next_if(|next| follows(scan.run.end(), next)) {
            scan.run.pages += next.pages;
        }
        plan.push(Action::Scan { scan, lane });
    }
}

/// Has the access bit of a page or folio read, and cleared where that is wanted.
pub fn look(unit: PageRun, clear: bool, plan: &mut Plan) {
    plan.push(Action::Scan { scan: scan_of(unit, clear), lane: Lane::SCAN });
}

fn scan_of(unit: PageRun, clear: bool) -> Scan {
    let level = if unit.pages > 1 { Level::Huge } else { Level::Base };
    Scan { run: unit, clear, level, skip_untouched: false }
}
