//! Counts of every unit, a folio or a base page, and lists of units of like counts.
//!
//! A list holds the units of one side of memory whose counts are within a factor of two, so that halving
//! all counts shifts lists instead of looking at units. Those that no list has are on their way.

use crate::placement::View;
use crate::types::*;
use alloc::vec::Vec;

/// No unit.
const NONE: u32 = u32::MAX;
/// Lists of a side: of count 0, and of counts `[2^(n - 1), 2^n)`.
pub(super) const BINS: usize = 17;

/// A side of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Fast = 0,
    Slow = 1,
}

impl Side {
    fn of(tier: TierId) -> Self {
        if tier == TierId::FAST { Self::Fast } else { Self::Slow }
    }
}

/// What is known of a unit; kept at its first page.
#[derive(Clone, Copy, Debug)]
struct Unit {
    /// Neighbours in its list.
    older: u32,
    newer: u32,
    /// Halvings that the count has seen.
    clock: u32,
    count: u16,
    /// Side of the list that it is in.
    listed: Option<Side>,
    tracked: bool,
    huge: bool,
}

impl Unit {
    const UNKNOWN: Self = Self {
        older: NONE,
        newer: NONE,
        clock: 0,
        count: 0,
        listed: None,
        tracked: false,
        huge: false,
    };
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    oldest: u32,
    newest: u32,
}

const EMPTY: Ends = Ends { oldest: NONE, newest: NONE };

/// List of a count.
fn bin(count: u16) -> usize {
    (u16::BITS - count.leading_zeros()) as usize
}

/// All units.
#[derive(Clone, Debug)]
pub(super) struct Units {
    /// A count at which all are halved.
    cool: u16,
    units: Vec<Unit>,
    lists: [[Ends; BINS]; 2],
    clock: u32,
    /// Sum of all counts, of which parts that rounding takes from a unit are found when it is looked at.
    total: f64,
}

impl Units {
    /// Room for `hint` pages.
    pub(super) fn new(cool: u16, hint: PageCount) -> Self {
        let hint = usize::try_from(hint.0).unwrap_or(0);
        let units = Vec::with_capacity(hint);
        Self { cool, units, lists: [[EMPTY; BINS]; 2], clock: 0, total: 0.0 }
    }

    pub(super) fn bytes(&self) -> Bytes {
        Bytes((self.units.capacity() * size_of::<Unit>()) as u64)
    }

    /// How often counts were halved.
    pub(super) fn coolings(&self) -> u64 {
        self.clock.into()
    }

    /// Share of all samples that a unit has.
    pub(super) fn share(&self, page: PageId) -> f64 {
        f64::from(self.count(page)) / self.total.max(1.0)
    }

    /// The least share that a unit of a list can have.
    pub(super) fn least_share(&self, bin: usize) -> f64 {
        f64::from(1u32 << bin) / 2.0 / self.total.max(1.0)
    }

    fn count(&self, page: PageId) -> u16 {
        let unit = &self.units[page.index()];
        unit.count.checked_shr(self.clock.wrapping_sub(unit.clock)).unwrap_or(0)
    }

    /// Units of a list, the oldest first.
    pub(super) fn in_list(&self, side: Side, bin: usize) -> impl Iterator<Item = PageId> {
        let mut next = self.lists[side as usize][bin].oldest;
        core::iter::from_fn(move || {
            let page = (next != NONE).then_some(PageId(next))?;
            next = self.units[page.index()].newer;
            Some(page)
        })
    }

    /// The unit that has been in the coldest list of a side for longest, of lists below `bin`.
    pub(super) fn coldest(&self, side: Side, bin: usize) -> Option<PageId> {
        (0..bin).find_map(|bin| self.in_list(side, bin).next())
    }

    /// Counts a sample; `None` for a page that is not known.
    pub(super) fn sample(&mut self, page: PageId, view: &View<'_>) -> Option<()> {
        let first = self.unit_of(page)?;
        let before = self.make_good(first);
        let count = before.saturating_add(1);
        self.total += f64::from(count - before);
        if bin(count) == bin(before) {
            self.units[first.index()].count = count;
        } else {
            self.unlist(first);
            self.units[first.index()].count = count;
            self.list(first, view);
        }
        if count >= self.cool {
            self.halve();
        }
        Some(())
    }

    /// Halves a unit's count as often as all were; gives it.
    fn make_good(&mut self, page: PageId) -> u16 {
        let count = self.count(page);
        let unit = &mut self.units[page.index()];
        let halvings = self.clock.wrapping_sub(unit.clock).min(64);
        let exact = f64::from(unit.count) / (1u128 << halvings) as f64;
        self.total = (self.total - (exact - f64::from(count))).max(0.0);
        (unit.count, unit.clock) = (count, self.clock);
        count
    }

    fn halve(&mut self) {
        self.clock = self.clock.wrapping_add(1);
        self.total /= 2.0;
        for side in [Side::Fast, Side::Slow] {
            self.append(side, 0, 1);
            let lists = &mut self.lists[side as usize];
            lists[1..].rotate_left(1);
            lists[BINS - 1] = EMPTY;
        }
    }

    /// Moves the units of a list behind those of another one.
    fn append(&mut self, side: Side, to: usize, from: usize) {
        let [first, then] = [to, from].map(|bin| self.lists[side as usize][bin]);
        self.lists[side as usize][from] = EMPTY;
        if then.oldest == NONE {
            return;
        }
        let oldest = if first.newest == NONE {
            then.oldest
        } else {
            self.units[first.newest as usize].newer = then.oldest;
            self.units[then.oldest as usize].older = first.newest;
            first.oldest
        };
        self.lists[side as usize][to] = Ends { oldest, newest: then.newest };
    }

    /// Takes a unit out of its list.
    pub(super) fn unlist(&mut self, page: PageId) {
        let bin = bin(self.count(page));
        let Unit { older, newer, listed, .. } = self.units[page.index()];
        let Some(side) = listed else { return };
        let ends = &mut self.lists[side as usize][bin];
        match older {
            NONE => ends.oldest = newer,
            older => self.units[older as usize].newer = newer,
        }
        match newer {
            NONE => ends.newest = older,
            newer => self.units[newer as usize].older = older,
        }
        let unit = &mut self.units[page.index()];
        (unit.older, unit.newer, unit.listed) = (NONE, NONE, None);
    }

    /// Puts a unit at the newest end of the list where it belongs, unless it is on its way.
    fn list(&mut self, page: PageId, view: &View<'_>) {
        let state = view.state(page);
        let Some(tier) = state.tier().filter(|_| !state.is_in_flight()) else { return };
        let side = Side::of(tier);
        let ends = &mut self.lists[side as usize][bin(self.count(page))];
        let older = core::mem::replace(&mut ends.newest, page.0);
        match older {
            NONE => ends.oldest = page.0,
            older => self.units[older as usize].newer = page.0,
        }
        let unit = &mut self.units[page.index()];
        (unit.older, unit.newer, unit.listed) = (older, NONE, Some(side));
    }

    /// A unit may be elsewhere now.
    pub(super) fn settle(&mut self, page: PageId, view: &View<'_>) {
        if self.unit_of(page) == Some(page) {
            self.unlist(page);
            self.list(page, view);
        }
    }

    /// First page of the unit that holds a page, where it is known.
    pub(super) fn unit_of(&self, page: PageId) -> Option<PageId> {
        let at = |page: PageId| self.units.get(page.index()).filter(|unit| unit.tracked);
        let region = page.region().first();
        match at(region) {
            Some(unit) if unit.huge => Some(region),
            _ => at(page).map(|_| page),
        }
    }

    fn track(&mut self, page: PageId, huge: bool, count: u16, view: &View<'_>) {
        let unit = Unit { tracked: true, huge, count, clock: self.clock, ..Unit::UNKNOWN };
        self.units[page.index()] = unit;
        self.total += f64::from(count);
        self.list(page, view);
    }

    /// Gives the count that the unit had; `None` where there was none.
    fn untrack(&mut self, page: PageId) -> Option<u16> {
        self.units.get(page.index()).filter(|unit| unit.tracked)?;
        self.unlist(page);
        let count = self.make_good(page);
        self.total = (self.total - f64::from(count)).max(0.0);
        self.units[page.index()] = Unit::UNKNOWN;
        Some(count)
    }

    /// Pages are resident for the first time.
    pub(super) fn populate(&mut self, run: PageRun, huge: bool, view: &View<'_>) {
        self.forget(run, view);
        self.grow(run.end());
        let step = if huge { HUGE_PAGES } else { 1 };
        run.iter().step_by(step as usize).for_each(|page| self.track(page, huge, 0, view));
    }

    fn grow(&mut self, end: u32) {
        let end = (end as usize).next_multiple_of(HUGE_PAGES as usize);
        if end > self.units.len() {
            self.units.resize(end, Unit::UNKNOWN);
        }
    }

    fn known(&self, run: PageRun) -> PageRun {
        run.intersect(PageRun::between(0, self.units.len() as u32))
    }

    /// Pages are gone. Those left of a folio are base pages.
    pub(super) fn forget(&mut self, run: PageRun, view: &View<'_>) {
        let run = self.known(run);
        if run.pages == 0 {
            return;
        }
        for page in [run.start, PageId(run.end() - 1)] {
            let region = page.region();
            if region.run().intersect(run) != region.run() {
                self.split(region, view);
            }
        }
        run.iter().for_each(|page| {
            self.untrack(page);
        });
    }

    /// A folio has become base pages. Its samples are spread over them, rounded down.
    pub(super) fn split(&mut self, region: Region, view: &View<'_>) {
        let first = region.first();
        if self.units.get(first.index()).is_some_and(|unit| unit.tracked && unit.huge) {
            let count = self.untrack(first).unwrap_or(0) / HUGE_PAGES as u16;
            region.run().iter().for_each(|page| self.track(page, false, count, view));
        }
    }

    /// Base pages have become a folio, which has all their samples.
    pub(super) fn collapse(&mut self, region: Region, view: &View<'_>) {
        self.grow(region.run().end());
        let counts = region.run().iter().filter_map(|page| self.untrack(page));
        let count = counts.fold(0, u16::saturating_add);
        self.track(region.first(), true, count, view);
    }

    /// Pages have other numbers, under which they begin anew.
    pub(super) fn remap(&mut self, from: PageRun, to: PageId, view: &View<'_>) {
        self.forget(from, view);
        let target = PageRun { start: to, pages: from.pages };
        self.forget(target, view);
        self.grow(target.end());
        let mut page = target.start;
        while page.0 < target.end() {
            let unit = view.unit(page);
            if view.state(page).is_resident() {
                self.track(page, unit.pages > 1, 0, view);
            }
            page = PageId(unit.end().max(page.0 + 1));
        }
    }

    /// Somebody else moved pages.
    pub(super) fn moved(&mut self, run: PageRun, view: &View<'_>) {
        self.known(run).iter().for_each(|page| self.settle(page, view));
    }
}
