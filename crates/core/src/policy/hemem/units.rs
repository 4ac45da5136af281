//! Counts of every unit, a huge page or a base page, and the queues in which units wait.

use crate::placement::View;
use crate::types::*;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Entries of a queue that may be out of date, beside as many as were valid at the last look.
const SLACK: usize = 1024;

/// When a unit is hot, and when all counts are halved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    /// Sampled loads of a hot unit.
    pub loads: u16,
    /// Sampled stores of a hot unit.
    pub stores: u16,
    /// A count at which all are halved.
    pub cool: u16,
}

/// What is known of a unit; kept at its first page.
#[derive(Clone, Copy, Debug, Default)]
struct Unit {
    loads: u16,
    stores: u16,
    /// Coolings that the counts have seen.
    clock: u32,
    /// Names its entry in a queue; 0 where it is in none.
    stamp: u32,
    /// Where that entry is.
    waits: Option<Queue>,
    tracked: bool,
    huge: bool,
    hot: bool,
}

impl Unit {
    fn pages(self) -> u64 {
        if self.huge { u64::from(HUGE_PAGES) } else { 1 }
    }

    /// Counts with all coolings made good.
    fn cooled(self, clock: u32) -> Self {
        let halvings = clock.wrapping_sub(self.clock);
        let halve = |count: u16| count.checked_shr(halvings).unwrap_or(0);
        Self { loads: halve(self.loads), stores: halve(self.stores), clock, ..self }
    }
}

/// Where units wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    /// Hot, in fast memory: looked through when counts are halved.
    FastHot,
    /// Cold, in fast memory: what makes room.
    FastCold,
    /// Hot, elsewhere: what wants room.
    SlowHot,
}

/// An entry is valid while its unit bears the same stamp.
#[derive(Clone, Copy, Debug)]
struct Entry {
    page: PageId,
    stamp: u32,
}

/// All units.
#[derive(Clone, Debug)]
pub(super) struct Units {
    rule: Rule,
    units: Vec<Unit>,
    queues: [VecDeque<Entry>; 3],
    /// Entries of a queue from which on it is rid of invalid ones.
    full: [usize; 3],
    /// Pages of the units in a queue.
    waiting: [u64; 3],
    clock: u32,
    last_stamp: u32,
    /// Pages tracked, and those of them that are hot.
    tracked: u64,
    hot: u64,
}

impl Units {
    /// Room for `hint` pages.
    pub(super) fn new(rule: Rule, hint: PageCount) -> Self {
        let hint = usize::try_from(hint.0).unwrap_or(0);
        Self {
            rule,
            units: Vec::with_capacity(hint),
            queues: Default::default(),
            full: [SLACK; 3],
            waiting: [0; 3],
            clock: 0,
            last_stamp: 0,
            tracked: 0,
            hot: 0,
        }
    }

    /// Pages that are hot and cold.
    pub(super) fn classes(&self) -> [u64; 2] {
        [self.hot, self.tracked - self.hot]
    }

    /// How often counts were halved.
    pub(super) fn coolings(&self) -> u64 {
        u64::from(self.clock)
    }

    pub(super) fn bytes(&self) -> Bytes {
        let entries: usize = self.queues.iter().map(VecDeque::capacity).sum();
        let units = self.units.capacity() * size_of::<Unit>();
        Bytes((units + entries * size_of::<Entry>()) as u64)
    }

    fn is_hot(&self, unit: Unit) -> bool {
        unit.loads >= self.rule.loads || unit.stores >= self.rule.stores
    }

    /// Counts one sample. Tells whether all counts are halved from now on, which only pages do of
    /// which `halves` holds; `None` for a page that is not tracked.
    pub(super) fn sample(
        &mut self,
        page: PageId,
        store: bool,
        halves: impl FnOnce() -> bool,
        view: &View<'_>,
    ) -> Option<bool> {
        let first = self.unit_of(page)?;
        let mut unit = self.units[first.index()].cooled(self.clock);
        let count = if store { &mut unit.stores } else { &mut unit.loads };
        *count = count.saturating_add(1);
        let cools = *count >= self.rule.cool && halves();
        self.units[first.index()] = unit;
        self.classify(first, view);
        self.clock = self.clock.wrapping_add(u32::from(cools));
        Some(cools)
    }

    /// First page of the tracked unit that holds a page.
    fn unit_of(&self, page: PageId) -> Option<PageId> {
        let region = page.region().first();
        let at = |page: PageId| self.units.get(page.index()).filter(|unit| unit.tracked);
        match at(region) {
            Some(unit) if unit.huge => Some(region),
            _ => at(page).map(|_| page),
        }
    }

    /// Makes a unit hot or cold by its counts, and lets it wait accordingly.
    fn classify(&mut self, page: PageId, view: &View<'_>) {
        let unit = self.units[page.index()];
        let hot = self.is_hot(unit);
        if hot == unit.hot {
            return;
        }
        self.units[page.index()].hot = hot;
        if hot {
            self.hot += unit.pages();
        } else {
            self.hot -= unit.pages();
        }
        self.file(page, view);
    }

    /// Lets a unit wait at the end of the queue where it belongs, and nowhere else. What moves
    /// waits nowhere.
    fn file(&mut self, page: PageId, view: &View<'_>) {
        self.leave(page);
        let state = view.state(page);
        let unit = &mut self.units[page.index()];
        let queue = match (state.tier(), unit.hot) {
            _ if state.is_in_flight() => return,
            (Some(TierId::FAST), true) => Queue::FastHot,
            (Some(TierId::FAST), false) => Queue::FastCold,
            (Some(_), true) => Queue::SlowHot,
            _ => return,
        };
        self.last_stamp = self.last_stamp.wrapping_add(1).max(1);
        (unit.stamp, unit.waits) = (self.last_stamp, Some(queue));
        let number = queue as usize;
        self.waiting[number] += unit.pages();
        let entries = &mut self.queues[number];
        entries.push_back(Entry { page, stamp: self.last_stamp });
        if entries.len() > self.full[number] {
            let units = &self.units;
            entries.retain(|entry| units[entry.page.index()].stamp == entry.stamp);
            self.full[number] = 2 * entries.len() + SLACK;
        }
    }

    /// Takes a unit out of the queue where it waits.
    fn leave(&mut self, page: PageId) {
        let unit = &mut self.units[page.index()];
        if let Some(queue) = unit.waits.take() {
            self.waiting[queue as usize] -= unit.pages();
            unit.stamp = 0;
        }
    }

    /// The unit that has waited for longest.
    pub(super) fn first(&mut self, queue: Queue, view: &View<'_>) -> Option<(PageId, PageRun)> {
        loop {
            let Entry { page, stamp } = *self.queues[queue as usize].front()?;
            let unit = self.units[page.index()];
            if unit.stamp == stamp {
                let state = view.state(page);
                let fast = state.tier() == Some(TierId::FAST);
                let here = fast == (queue != Queue::SlowHot) && state.is_resident();
                if here && !state.is_in_flight() && state.is_huge() == unit.huge {
                    return Some((page, view.unit(page)));
                }
                self.leave(page);
            }
            self.queues[queue as usize].pop_front();
        }
    }

    /// Takes the unit away that [`Self::first`] gave.
    pub(super) fn take_first(&mut self, queue: Queue) {
        if let Some(entry) = self.queues[queue as usize].pop_front() {
            self.leave(entry.page);
        }
    }

    /// Pages that want room in fast memory.
    pub(super) fn waiting_pages(&self) -> u64 {
        self.waiting[Queue::SlowHot as usize]
    }

    /// Looks through all hot units after a halving: some are cold now.
    pub(super) fn cool_hot_pages(&mut self, view: &View<'_>) {
        for queue in [Queue::FastHot, Queue::SlowHot] {
            let mut entries = core::mem::take(&mut self.queues[queue as usize]);
            entries.retain(|entry| {
                let unit = self.units[entry.page.index()];
                if unit.stamp != entry.stamp {
                    return false;
                }
                self.units[entry.page.index()] = unit.cooled(self.clock);
                self.classify(entry.page, view);
                self.units[entry.page.index()].hot
            });
            // What became cold went to another queue; nothing was added to this one.
            self.queues[queue as usize] = entries;
        }
    }

    /// New memory is cold.
    pub(super) fn populate(&mut self, run: PageRun, huge: bool, view: &View<'_>) {
        self.forget(run, view);
        let end = (run.end() as usize).next_multiple_of(HUGE_PAGES as usize);
        if end > self.units.len() {
            self.units.resize(end, Unit::default());
        }
        let step = if huge { HUGE_PAGES } else { 1 } as usize;
        for start in run.range().step_by(step) {
            self.track(PageId(start as u32), Unit { huge, ..Unit::default() }, view);
        }
    }

    fn track(&mut self, page: PageId, unit: Unit, view: &View<'_>) {
        let clock = self.clock;
        let unit = Unit { clock, stamp: 0, waits: None, tracked: true, hot: false, ..unit };
        self.units[page.index()] = unit;
        self.tracked += unit.pages();
        if self.is_hot(unit) {
            self.classify(page, view);
        } else {
            self.file(page, view);
        }
    }

    fn untrack(&mut self, page: PageId) -> Unit {
        self.leave(page);
        let unit = core::mem::take(&mut self.units[page.index()]);
        if unit.tracked {
            self.tracked -= unit.pages();
            self.hot -= if unit.hot { unit.pages() } else { 0 };
        }
        unit
    }

    /// Pages are gone. Those left of a huge page are base pages.
    pub(super) fn forget(&mut self, run: PageRun, view: &View<'_>) {
        let run = run.intersect(PageRun::between(0, self.units.len() as u32));
        self.break_edges(run, view);
        run.iter().for_each(|page| {
            self.untrack(page);
        });
    }

    /// Splits huge pages that lie only in part in a run.
    fn break_edges(&mut self, run: PageRun, view: &View<'_>) {
        if run.pages == 0 {
            return;
        }
        for page in [run.start, PageId(run.end() - 1)] {
            let region = page.region();
            if region.run().intersect(run) != region.run() {
                self.split(region, view);
            }
        }
    }

    /// A huge page has become base pages, which are as hot as it was.
    pub(super) fn split(&mut self, region: Region, view: &View<'_>) {
        let first = region.first();
        if self.units.get(first.index()).is_some_and(|unit| unit.tracked && unit.huge) {
            let unit = self.untrack(first).cooled(self.clock);
            region.run().iter().for_each(|page| {
                self.track(page, Unit { huge: false, ..unit }, view);
            });
        }
    }

    /// Base pages have become a huge page, as hot as the hottest of them.
    pub(super) fn collapse(&mut self, region: Region, view: &View<'_>) {
        let known = region.run().range().end <= self.units.len();
        if !known || !region.run().iter().all(|page| self.units[page.index()].tracked) {
            return;
        }
        let (mut loads, mut stores) = (0, 0);
        for page in region.run().iter() {
            let unit = self.untrack(page).cooled(self.clock);
            (loads, stores) = (unit.loads.max(loads), unit.stores.max(stores));
        }
        self.track(region.first(), Unit { loads, stores, huge: true, ..Unit::default() }, view);
    }

    /// Pages have other numbers. Whole huge pages stay such where the new place is aligned.
    pub(super) fn remap(&mut self, from: PageRun, to: PageId, view: &View<'_>) {
        let from = from.intersect(PageRun::between(0, self.units.len() as u32));
        self.break_edges(from, view);
        if from.start.offset() != to.offset() {
            let regions = from.start.region().0..from.end().div_ceil(HUGE_PAGES);
            regions.for_each(|region| self.split(Region(region), view));
        }
        let moved: Vec<(u32, Unit)> = from
            .iter()
            .map(|page| (page.0 - from.start.0, self.untrack(page).cooled(self.clock)))
            .filter(|(_, unit)| unit.tracked)
            .collect();
        let target = PageRun { start: to, pages: from.pages };
        self.forget(target, view);
        let end = (target.end() as usize).next_multiple_of(HUGE_PAGES as usize);
        if end > self.units.len() {
            self.units.resize(end, Unit::default());
        }
        for (offset, unit) in moved {
            self.track(PageId(to.0 + offset), unit, view);
        }
    }

    /// Somebody else moved pages.
    pub(super) fn moved(&mut self, run: PageRun, view: &View<'_>) {
        let run = run.intersect(PageRun::between(0, self.units.len() as u32));
        for page in run.iter() {
            if self.unit_of(page) == Some(page) {
                self.file(page, view);
            }
        }
    }

    /// A move has ended.
    pub(super) fn settle(&mut self, page: PageId, view: &View<'_>) {
        if self.unit_of(page) == Some(page) {
            self.file(page, view);
        }
    }
}
