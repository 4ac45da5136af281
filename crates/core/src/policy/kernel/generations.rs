//! The kernel's pages by generations (MGLRU), and the thread that demotes the oldest.
//!
//! New and promoted pages are of the youngest generation. Where there are fewer than three, or with
//! three too few pages in the oldest or too many in the youngest, all pages' access bits are read and
//! cleared: who was accessed becomes one of the youngest, and then a younger one begins. Woken, the
//! thread takes batches out of the oldest generation, demotes who was not accessed, and looks at the
//! neighbours of who was.
//!
//! Source: `mm/vmscan.c` (`should_run_aging`, `try_to_inc_max_seq`, `scan_folios`, `evict_folios`,
//! `lru_gen_look_around`), Linux 6.12, with `lru_gen/enabled` 7. Not modelled: file pages, tiers of
//! references by file descriptors, Bloom filters that spare parts of page tables a walk.

use super::lru::read;
use super::units;
use crate::action::{Lane, Plan};
use crate::budget::Budget;
use crate::event::{AccessBits, Event};
use crate::placement::View;
use crate::policy::contract::MetricSink;
use crate::policy::runs::{Room, Runs};
use crate::types::*;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Youngest generations that nothing leaves (`MIN_NR_GENS`).
const YOUNG: usize = 2;
/// Pages that are taken out at once (`MAX_LRU_BATCH`).
const BATCH: u64 = 64;
/// Entries of page tables around an accessed page that are looked at, too.
const AROUND: u32 = 64;
/// The first round looks at all pages shifted right by this (`DEF_PRIORITY`).
const FIRST_PRIORITY: u32 = 12;
/// How long answers about access bits are waited for.
const TIMEOUT: Nanos = Nanos(10_000_000_000);

/// What has happened, for reports and tests; units.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    woken: u64,
    walks: u64,
    checked: u64,
    kept: u64,
    demoted: u64,
    rests: u64,
}

/// What is known of a unit of fast memory, at its first page.
#[derive(Clone, Copy, Debug, Default)]
struct Unit {
    /// Its generation and one more; 0 where it is not listed.
    listed: u32,
    pages: u16,
    /// It was accessed when it was to leave.
    referenced: bool,
}

/// Units of a generation, those listed first in front. An entry is valid while its unit is of it.
#[derive(Clone, Debug, Default)]
struct List {
    units: VecDeque<PageId>,
    pages: u64,
}

/// Units of fast memory by generation.
#[derive(Clone, Debug)]
struct Ages {
    units: Vec<Unit>,
    /// The oldest in front, and its number.
    lists: VecDeque<List>,
    oldest: u32,
}

impl Ages {
    fn new(hint: PageCount) -> Self {
        Self {
            units: Vec::with_capacity(usize::try_from(hint.0).unwrap_or(0)),
            lists: (0..=YOUNG).map(|_| List::default()).collect(),
            oldest: 0,
        }
    }

    fn bytes(&self) -> Bytes {
        let lists: usize = self.lists.iter().map(|list| list.units.capacity()).sum();
        let units = self.units.capacity() * size_of::<Unit>();
        Bytes((units + lists * size_of::<PageId>()) as u64)
    }

    fn grow(&mut self, known: usize) {
        if self.units.len() < known {
            self.units.resize(known, Unit::default());
        }
    }

    /// Begins a generation.
    fn begin(&mut self) {
        self.lists.push_back(List::default());
    }

    /// Takes a unit of the oldest generation out.
    fn pop_oldest(&mut self) -> Option<PageRun> {
        loop {
            let first = self.lists.front_mut()?.units.pop_front()?;
            let unit = self.units[first.index()];
            // A unit that has been listed anew stands in its old list, too.
            if unit.listed == self.oldest + 1 {
                self.unlist(first);
                return Some(PageRun { start: first, pages: u32::from(unit.pages) });
            }
        }
    }

    fn total(&self) -> u64 {
        self.lists.iter().map(|list| list.pages).sum()
    }

    /// Whether access bits have to tell who is old.
    fn is_short_of_old(&self) -> bool {
        let pages = |list: Option<&List>| list.map_or(0, |list| list.pages);
        let (old, young) = (pages(self.lists.front()), pages(self.lists.back()));
        let (total, generations) = (self.total(), YOUNG as u64);
        match self.lists.len().cmp(&(YOUNG + 1)) {
            core::cmp::Ordering::Less => true,
            core::cmp::Ordering::Equal => {
                young * generations > total || old * (generations + 2) < total
            }
            core::cmp::Ordering::Greater => false,
        }
    }

    /// Lists a unit by how many generations are younger.
    fn list(&mut self, first: PageId, pages: u32, younger: usize) {
        self.unlist(first);
        let index = self.lists.len() - 1 - younger.min(self.lists.len() - 1);
        let list = &mut self.lists[index];
        list.units.push_back(first);
        list.pages += u64::from(pages);
        let unit = &mut self.units[first.index()];
        (unit.listed, unit.pages) = (self.oldest + index as u32 + 1, pages as u16);
    }

    fn unlist(&mut self, first: PageId) {
        let unit = &mut self.units[first.index()];
        if let Some(generation) = unit.listed.checked_sub(1) {
            self.lists[(generation - self.oldest) as usize].pages -= u64::from(unit.pages);
            unit.listed = 0;
        }
    }

    fn drop_empty(&mut self) {
        while self.lists.len() > YOUNG && self.lists[0].pages == 0 {
            self.lists.pop_front();
            self.oldest += 1;
        }
    }
}

/// The generations of the fastest tier, and their thread.
#[derive(Clone, Debug)]
pub struct Generations {
    rest: Nanos,
    ages: Ages,
    /// Pages that shall be free; 0 while the thread sleeps.
    target: u64,
    priority: u32,
    /// Pages that the round still looks at, that it has looked at, and that have left.
    left: u64,
    scanned: u64,
    reclaimed: u64,
    /// Units that were taken out, and whether they were accessed.
    isolated: Vec<(PageRun, bool)>,
    /// Whether all pages' bits are being read.
    walks: bool,
    /// Whether moves under way make enough room.
    waits_for_moves: bool,
    /// Units whose access bits are still waited for, since when.
    waiting: u64,
    asked: Nanos,
    resting_until: Nanos,
    moving: Vec<PageId>,
    counters: Counters,
}

impl Generations {
    /// Asleep. `rest` is how long it rests where nothing can be demoted.
    pub fn new(hint: PageCount, rest: Nanos) -> Self {
        Self {
            rest,
            ages: Ages::new(hint),
            target: 0,
            priority: FIRST_PRIORITY,
            left: 0,
            scanned: 0,
            reclaimed: 0,
            isolated: Vec::new(),
            walks: false,
            waits_for_moves: false,
            waiting: 0,
            asked: Nanos::ZERO,
            resting_until: Nanos::ZERO,
            moving: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// Reports what has happened so far.
    pub fn metrics(&self, sink: &mut MetricSink<'_>) {
        let c = &self.counters;
        for (name, value) in [
            ("kswapd_woken_total", c.woken),
            ("kswapd_walks_total", c.walks),
            ("kswapd_checked_total", c.checked),
            ("kswapd_kept_total", c.kept),
            ("kswapd_demoted_pages_total", c.demoted),
            ("kswapd_rests_total", c.rests),
        ] {
            sink(name, value as f64);
        }
    }

    /// Memory held.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.ages.bytes().0 + (self.moving.capacity() * size_of::<PageId>()) as u64)
    }

    /// Asks for `free` pages to be free. A larger wish replaces a smaller one.
    pub fn wake(&mut self, free: u64) {
        self.counters.woken += u64::from(self.target == 0);
        self.target = self.target.max(free);
    }

    /// When [`Self::run`] has something to do; `None` while it sleeps.
    pub fn next_wakeup(&self) -> Option<Nanos> {
        if self.waiting > 0 || self.waits_for_moves {
            Some(self.asked.saturating_add(TIMEOUT))
        } else if self.walks || !self.isolated.is_empty() {
            Some(Nanos::ZERO)
        } else {
            (self.target > 0).then_some(self.resting_until)
        }
    }

    /// Follows what happens to memory. Other events are ignored.
    pub fn observe(&mut self, event: &Event, view: &View<'_>) {
        self.ages.grow(view.pages() as usize);
        match *event {
            Event::Populated { run, .. }
            | Event::Moved { run, .. }
            | Event::Unmapped { run }
            | Event::Freed { run } => self.enter(run, view),
            Event::SplitDone { region, split: true } => self.enter(region.run(), view),
            Event::CollapseDone { region, tier: Some(_) } => self.enter(region.run(), view),
            Event::Remapped { from, to } => {
                self.enter(from, view);
                self.enter(PageRun { start: to, pages: from.pages }, view);
            }
            Event::AccessBits(bits) => self.answer(&bits, view),
            Event::MigrationDone { .. } => self.waits_for_moves = false,
            _ => {}
        }
    }

    /// Goes on: treats what is known of units that were taken out, and takes out more. To be called
    /// in `decide`.
    pub fn run(&mut self, now: Nanos, view: &View<'_>, budget: &mut Budget, plan: &mut Plan) {
        let mut leaving = self.land(view);
        if self.waiting > 0 {
            if now < self.asked.saturating_add(TIMEOUT) {
                return;
            }
            self.waiting = 0;
        }
        self.asked = now;
        if core::mem::take(&mut self.walks) {
            self.ages.begin();
        }
        leaving += self.settle(view, budget, plan);
        if self.waiting > 0 || self.target == 0 || now < self.resting_until {
            return;
        }
        // It sleeps once there is room, not once there will be: promotions take of it meanwhile.
        let free = view.free(TierId::FAST).0;
        self.waits_for_moves = free < self.target && free + leaving >= self.target;
        if self.waits_for_moves {
            return;
        }
        if free >= self.target {
            (self.target, self.priority, self.left) = (0, FIRST_PRIORITY, 0);
            return;
        }
        self.ages.drop_empty();
        if self.left == 0 || self.ages.lists.len() <= YOUNG {
            if !self.next_round(now, leaving) {
                return;
            }
            if self.ages.is_short_of_old() {
                return self.walk(view, plan);
            }
        }
        self.take_out(plan);
    }

    /// Begins a round, which looks at more where the last one saw or found too little; whether
    /// it does, or rests.
    fn next_round(&mut self, now: Nanos, leaving: u64) -> bool {
        let found = self.reclaimed + leaving;
        if self.scanned < self.target || found == 0 {
            if self.priority == 0 {
                self.priority = FIRST_PRIORITY;
                if found == 0 {
                    self.counters.rests += 1;
                    self.resting_until = now.saturating_add(self.rest);
                    return false;
                }
            } else {
                self.priority -= 1;
            }
        }
        self.left = (self.ages.total() >> self.priority).max(BATCH);
        (self.scanned, self.reclaimed) = (0, 0);
        true
    }

    fn walk(&mut self, view: &View<'_>, plan: &mut Plan) {
        let fast = |unit: &PageRun| view.state(unit.start).tier() == Some(TierId::FAST);
        self.ask(units(view).filter(fast).collect(), plan);
        self.counters.walks += 1;
        self.walks = true;
    }

    fn ask(&mut self, units: Vec<PageRun>, plan: &mut Plan) {
        self.waiting += units.len() as u64;
        read(units, Lane::SCAN, plan);
    }

    /// The next batch of the oldest generation.
    fn take_out(&mut self, plan: &mut Plan) {
        let mut taken = 0;
        while taken < BATCH {
            let Some(unit) = self.ages.pop_oldest() else { break };
            self.isolated.push((unit, false));
            taken += u64::from(unit.pages);
        }
        self.scanned += taken;
        self.left = if taken == 0 { 0 } else { self.left.saturating_sub(taken) };
        self.counters.checked += self.isolated.len() as u64;
        self.ask(self.isolated.iter().map(|(unit, _)| *unit).collect(), plan);
    }

    /// Demotes units that were taken out and not accessed; gives the pages proposed to leave.
    fn settle(&mut self, view: &View<'_>, budget: &mut Budget, plan: &mut Plan) -> u64 {
        let to = TierId::FAST.slower();
        let mut room = Room::of(view, to, budget);
        let (mut leaving, mut around) = (0, Vec::new());
        let mut runs = Runs::new(to, Lane::DEMOTE);
        for (unit, accessed) in core::mem::take(&mut self.isolated) {
            let (first, pages) = (unit.start, u64::from(unit.pages));
            let state = view.state(first);
            let here = state.tier() == Some(TierId::FAST) && !state.is_in_flight();
            if !here || view.unit(first) != unit || self.ages.units[first.index()].listed > 0 {
                continue;
            }
            if accessed {
                self.counters.kept += 1;
                let again =
                    core::mem::replace(&mut self.ages.units[first.index()].referenced, true);
                self.ages.list(first, unit.pages, if again { 0 } else { 1 });
                around.push(first);
            } else if room.take(pages) {
                leaving += pages;
                self.moving.push(first);
                runs.push(unit, plan);
            } else {
                self.ages.list(first, unit.pages, self.ages.lists.len() - 1);
            }
        }
        self.counters.demoted += runs.finish(plan);
        self.look_around(&around, plan);
        leaving
    }

    /// Has the access bits of neighbours read, that are of older generations.
    fn look_around(&mut self, accessed: &[PageId], plan: &mut Plan) {
        let youngest = self.ages.oldest + self.ages.lists.len() as u32;
        let mut wanted = Vec::new();
        for page in accessed {
            let start = page.0 / AROUND * AROUND;
            let known = (self.ages.units.len() as u32).min(start + AROUND);
            for first in (start..known).map(PageId) {
                let unit = self.ages.units[first.index()];
                if unit.listed > 0 && unit.listed < youngest && unit.pages == 1 {
                    wanted.push(PageRun::single(first));
                }
            }
        }
        wanted.sort_unstable_by_key(|unit| unit.start);
        wanted.dedup();
        self.ask(wanted, plan);
    }

    /// Takes note of what has moved; gives the pages that still leave.
    fn land(&mut self, view: &View<'_>) -> u64 {
        let mut leaving = 0;
        for first in core::mem::take(&mut self.moving) {
            let (state, unit) = (view.state(first), view.unit(first));
            if state.is_in_flight() {
                leaving += u64::from(unit.pages);
                self.moving.push(first);
            } else if state.tier() == Some(TierId::FAST) {
                self.ages.list(unit.start, unit.pages, self.ages.lists.len() - 2);
            } else {
                self.reclaimed += u64::from(unit.pages);
            }
        }
        leaving
    }

    /// Takes in what a scan has read.
    fn answer(&mut self, bits: &AccessBits, view: &View<'_>) {
        for (start, accessed) in bits.units() {
            self.waiting = self.waiting.saturating_sub(1);
            if !accessed {
                continue;
            }
            let unit = view.unit(start);
            let isolated = self.isolated.iter_mut().find(|(other, _)| other.start == unit.start);
            if let Some((_, accessed)) = isolated {
                *accessed = true;
            } else if self.ages.units.get(unit.start.index()).is_some_and(|unit| unit.listed > 0) {
                self.ages.list(unit.start, unit.pages, 0);
            }
        }
    }

    /// Memory is new here, gone, or of other sizes: what is in fast memory is young.
    fn enter(&mut self, run: PageRun, view: &View<'_>) {
        for page in run.iter().filter(|page| page.index() < view.pages() as usize) {
            self.ages.unlist(page);
            self.ages.units[page.index()].referenced = false;
            let (state, unit) = (view.state(page), view.unit(page));
            if state.is_resident() && state.tier() == Some(TierId::FAST) && unit.start == page {
                self.ages.list(page, unit.pages, 0);
            }
        }
    }
}
