//! Two lists of pages for every tier, from which the kernel picks what it reclaims.
//!
//! New pages enter the inactive list at its newer end. Pages at the older end are taken out in
//! batches ([`Lru::isolate`]) whose access bits are read by `Scan` actions; what the answers mean
//! is up to the policy, the kernel's own rule is [`Lru::check`]. A page that changes tiers keeps
//! its kind of list and its mark, as in the kernel. Folios are one unit, kept at their first page.
//!
//! Source: `mm/vmscan.c` (`shrink_inactive_list`, `shrink_active_list`, `folio_check_references`,
//! `inactive_is_low`), `mm/swap.c` (`folio_mark_accessed`), Linux 6.

#[cfg(test)]
mod tests;

use crate::action::{Lane, Plan};
use crate::event::{AccessBits, Event, Level};
use crate::placement::View;
use crate::policy::kernel::scan_units;
use crate::types::*;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// No page.
const NONE: u32 = u32::MAX;

/// Which of a tier's two lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Where pages are that may be reclaimed.
    Inactive,
    /// Where pages are that were accessed repeatedly.
    Active,
}

/// What the kernel does with an inactive page whose access bit it has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Accessed for the second time: to the active list.
    Activate,
    /// Accessed for the first time: once more round the inactive list.
    Keep,
    /// Not accessed.
    Reclaim,
}

/// A unit that was taken out, with its access bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// A page, or the 512 of a folio.
    pub unit: PageRun,
    /// Where it is.
    pub tier: TierId,
    /// The list that it was taken out of.
    pub list: List,
    /// Whether it was accessed since its bit was last cleared.
    pub accessed: bool,
}

/// Bits of [`Node::flags`].
mod flag {
    /// Mask of the tier number.
    pub(super) const TIER: u16 = 7;
    pub(super) const ACTIVE: u16 = 1 << 3;
    /// First page of a unit that is known.
    pub(super) const TRACKED: u16 = 1 << 4;
    /// Linked; otherwise taken out, or moving.
    pub(super) const LISTED: u16 = 1 << 5;
    pub(super) const HUGE: u16 = 1 << 6;
    /// The kernel's `PG_referenced`.
    pub(super) const REFERENCED: u16 = 1 << 7;
    /// Taken out, and the bit has been read.
    pub(super) const ANSWERED: u16 = 1 << 8;
    /// What the bit was.
    pub(super) const ACCESSED: u16 = 1 << 9;
    /// On the way to another tier.
    pub(super) const MOVING: u16 = 1 << 10;
}

#[derive(Clone, Copy, Debug)]
struct Node {
    newer: u32,
    older: u32,
    flags: u16,
}

impl Node {
    const EMPTY: Self = Self { newer: NONE, older: NONE, flags: 0 };

    fn is(self, flags: u16) -> bool {
        self.flags & flags == flags
    }
    fn tier(self) -> TierId {
        TierId((self.flags & flag::TIER) as u8)
    }
    fn list(self) -> List {
        if self.is(flag::ACTIVE) { List::Active } else { List::Inactive }
    }
    fn pages(self) -> u64 {
        if self.is(flag::HUGE) { u64::from(HUGE_PAGES) } else { 1 }
    }
    fn is_isolated(self) -> bool {
        self.is(flag::TRACKED) && self.flags & (flag::LISTED | flag::MOVING) == 0
    }
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    newest: u32,
    oldest: u32,
    pages: u64,
}

/// The lists of all tiers.
#[derive(Clone, Debug)]
pub struct Lru {
    nodes: Vec<Node>,
    lists: [[Ends; 2]; MAX_TIERS],
    /// Units taken out of each tier's lists, in that order.
    isolated: [VecDeque<PageId>; MAX_TIERS],
    /// Units that moves were proposed for.
    moving: Vec<PageId>,
    /// Pages that have been moved out of each tier so.
    departed: [u64; MAX_TIERS],
}

impl Lru {
    /// Empty lists with room for `hint` pages.
    pub fn new(hint: PageCount) -> Self {
        let empty = Ends { newest: NONE, oldest: NONE, pages: 0 };
        Self {
            nodes: Vec::with_capacity(usize::try_from(hint.0).unwrap_or(0)),
            lists: [[empty; 2]; MAX_TIERS],
            isolated: Default::default(),
            moving: Vec::new(),
            departed: [0; MAX_TIERS],
        }
    }

    /// Pages of a tier that are in another one since [`Self::land`].
    pub fn departed(&self, tier: TierId) -> u64 {
        self.departed[tier.index()]
    }

    /// Pages in a list; those that were taken out of it do not count.
    pub fn pages(&self, tier: TierId, list: List) -> u64 {
        self.lists[tier.index()][list as usize].pages
    }

    /// Whether the inactive list of a tier is short of pages: below the active one divided by
    /// `sqrt(10 x GiB of both)`, at least 1. `scale` is by how much the tier is smaller than what
    /// it stands for.
    pub fn inactive_is_low(&self, tier: TierId, scale: f64) -> bool {
        let (inactive, active) = (self.pages(tier, List::Inactive), self.pages(tier, List::Active));
        let bytes = PageCount(inactive + active).bytes().0 as f64 * scale;
        let gib = (bytes / f64::from(1 << 30)) as u64;
        let ratio = if gib == 0 { 1 } else { gib.saturating_mul(10).isqrt() };
        inactive.saturating_mul(ratio) < active
    }

    /// The known unit that holds a page.
    pub fn unit(&self, page: PageId) -> Option<PageRun> {
        self.first_of(page).map(|first| self.run(first))
    }

    /// The list to which a known page belongs, whether or not it has been taken out.
    pub fn list_of(&self, page: PageId) -> Option<List> {
        self.first_of(page).map(|first| self.nodes[first.index()].list())
    }

    /// The unit that has been in a list for longest.
    pub fn oldest(&self, tier: TierId, list: List) -> Option<PageRun> {
        let oldest = self.lists[tier.index()][list as usize].oldest;
        (oldest != NONE).then(|| self.run(PageId(oldest)))
    }

    /// Units of a list, the one that has been there for longest first.
    pub fn from_oldest(&self, tier: TierId, list: List) -> impl Iterator<Item = PageRun> {
        let mut next = self.lists[tier.index()][list as usize].oldest;
        core::iter::from_fn(move || {
            let first = (next != NONE).then_some(PageId(next))?;
            next = self.nodes[first.index()].newer;
            Some(self.run(first))
        })
    }

    /// Notes an access that the kernel saw itself, in a fault: the first one marks the page, the
    /// second makes it active (`folio_mark_accessed`), unless it has been taken out. Unknown pages
    /// are ignored.
    pub fn touch(&mut self, page: PageId) {
        let Some(first) = self.first_of(page) else { return };
        let node = &mut self.nodes[first.index()];
        if node.is(flag::REFERENCED | flag::LISTED) && !node.is(flag::ACTIVE) {
            node.flags &= !flag::REFERENCED;
            self.file(first, List::Active);
        } else {
            node.flags |= flag::REFERENCED;
        }
    }

    /// Puts the unit of a page at the newer end of a list of its tier, wherever it was. Unknown
    /// pages are ignored.
    pub fn file(&mut self, page: PageId, list: List) {
        let Some(first) = self.first_of(page) else { return };
        self.unlink(first);
        self.set_list(first, list);
        self.link_newest(first);
    }

    /// The kernel's rule for an inactive page whose access bit has been read; marks the page.
    pub fn check(&mut self, page: PageId, accessed: bool) -> Verdict {
        let Some(first) = self.first_of(page) else { return Verdict::Keep };
        let node = &mut self.nodes[first.index()];
        let marked = node.is(flag::REFERENCED);
        node.flags &= !flag::REFERENCED;
        match (accessed, marked) {
            (true, true) => Verdict::Activate,
            (true, false) => {
                node.flags |= flag::REFERENCED;
                Verdict::Keep
            }
            (false, _) => Verdict::Reclaim,
        }
    }

    /// Takes units of at least `pages` pages out of the older end of a list, or all, and proposes
    /// to read and clear their access bits. Gives the pages.
    pub fn isolate(
        &mut self,
        tier: TierId,
        list: List,
        pages: u64,
        lane: Lane,
        plan: &mut Plan,
    ) -> u64 {
        let (mut taken, mut units) = (0, Vec::new());
        while taken < pages {
            let Some(unit) = self.oldest(tier, list) else { break };
            self.unlink(unit.start);
            self.isolated[tier.index()].push_back(unit.start);
            units.push(unit);
            taken += u64::from(unit.pages);
        }
        read(units, lane, plan);
        taken
    }

    /// Units of a tier that are taken out and wait for their access bit, or to be asked for.
    pub fn isolated(&self, tier: TierId) -> usize {
        self.isolated[tier.index()].len()
    }

    /// Takes in what a scan has read.
    pub fn answer(&mut self, bits: &AccessBits) {
        for (start, accessed) in bits.units() {
            let Some(first) = self.first_of(start) else { continue };
            let node = &mut self.nodes[first.index()];
            let alike = node.is(flag::HUGE) || bits.level == Level::Base;
            if alike && node.is_isolated() {
                node.flags |= flag::ANSWERED | if accessed { flag::ACCESSED } else { 0 };
            }
        }
    }

    /// The unit of a tier that was taken out first of those that still are, once its bit is known. The caller puts it into a list, or [`Self::depart`]s it.
    pub fn next_answered(&self, tier: TierId) -> Option<Answer> {
        let first = *self.isolated[tier.index()].front()?;
        let node = self.nodes[first.index()];
        let answer = Answer {
            unit: self.run(first),
            tier: node.tier(),
            list: node.list(),
            accessed: node.is(flag::ACCESSED),
        };
        node.is(flag::ANSWERED).then_some(answer)
    }

    /// Puts everything that was taken out of a tier's lists back to their older ends, answered or
    /// not: nobody reads access bits any more. Gives the units.
    pub fn abandon(&mut self, tier: TierId) -> usize {
        let isolated = core::mem::take(&mut self.isolated[tier.index()]);
        for first in isolated.iter().rev() {
            self.unlink(*first);
            self.link_oldest(*first);
        }
        isolated.len()
    }

    /// A move of the unit has been proposed: it is in no list until [`Self::land`].
    pub fn depart(&mut self, page: PageId) {
        let Some(first) = self.first_of(page) else { return };
        if !self.nodes[first.index()].is(flag::MOVING) {
            self.unlink(first);
            self.nodes[first.index()].flags |= flag::MOVING;
            self.moving.push(first);
        }
    }

    /// Puts what does not move any more at the newer end of its list, in the tier where it is now.
    /// Gives the pages that still move out of `from`.
    pub fn land(&mut self, from: TierId, view: &View<'_>) -> u64 {
        let mut leaving = 0;
        let mut moving = core::mem::take(&mut self.moving);
        moving.retain(|&first| {
            let node = self.nodes[first.index()];
            if view.state(first).is_in_flight() {
                leaving += if node.tier() == from { node.pages() } else { 0 };
                return true;
            }
            self.refile(first, view);
            if self.nodes[first.index()].tier() != node.tier() {
                self.departed[node.tier().index()] += node.pages();
            }
            false
        });
        self.moving = moving;
        leaving
    }

    /// Follows what happens to memory. Other events are ignored.
    pub fn observe(&mut self, event: &Event, view: &View<'_>) {
        match *event {
            Event::Populated { run, tier, huge } => self.populate(run, huge, tier),
            Event::Unmapped { run } | Event::Freed { run } => self.forget(run),
            Event::Remapped { from, to } => self.remap(from, to),
            Event::SplitDone { region, split: true } => self.split(region),
            Event::CollapseDone { region, tier: Some(_) } => self.collapse(region, view),
            Event::Moved { run, .. } => self.moved(run, view),
            Event::AccessBits(bits) => self.answer(&bits),
            _ => {}
        }
    }

    /// Memory of all lists.
    pub fn bytes(&self) -> Bytes {
        let nodes = self.nodes.capacity() * size_of::<Node>();
        let isolated: usize = self.isolated.iter().map(VecDeque::capacity).sum();
        let waiting = (isolated + self.moving.capacity()) * size_of::<PageId>();
        Bytes((nodes + waiting) as u64)
    }

    /// First page of the known unit that holds a page.
    fn first_of(&self, page: PageId) -> Option<PageId> {
        let region = page.region().first();
        let at = |page: PageId| self.nodes.get(page.index()).filter(|n| n.is(flag::TRACKED));
        match at(region) {
            Some(node) if node.is(flag::HUGE) => Some(region),
            _ => at(page).map(|_| page),
        }
    }

    fn run(&self, first: PageId) -> PageRun {
        if self.nodes[first.index()].is(flag::HUGE) {
            first.region().run()
        } else {
            PageRun::single(first)
        }
    }

    fn set_list(&mut self, first: PageId, list: List) {
        let flags = &mut self.nodes[first.index()].flags;
        match list {
            List::Active => *flags |= flag::ACTIVE,
            List::Inactive => *flags &= !flag::ACTIVE,
        }
    }

    /// Puts a unit at the newer end of its list, in the tier where it is now.
    fn refile(&mut self, first: PageId, view: &View<'_>) {
        self.unlink(first);
        let Some(tier) = view.state(first).tier() else {
            self.nodes[first.index()] = Node::EMPTY;
            return;
        };
        let flags = &mut self.nodes[first.index()].flags;
        *flags = *flags & !flag::TIER | u16::from(tier.0);
        self.link_newest(first);
    }

    /// Takes a unit out of wherever it is.
    fn unlink(&mut self, first: PageId) {
        let node = self.nodes[first.index()];
        self.nodes[first.index()].flags &=
            !(flag::LISTED | flag::MOVING | flag::ANSWERED | flag::ACCESSED);
        if !node.is(flag::LISTED) {
            // Mostly the first one.
            let isolated = &mut self.isolated[node.tier().index()];
            if let Some(at) = isolated.iter().position(|page| *page == first) {
                isolated.remove(at);
            } else if let Some(at) = self.moving.iter().position(|page| *page == first) {
                self.moving.remove(at);
            }
            return;
        }
        let ends = &mut self.lists[node.tier().index()][node.list() as usize];
        ends.pages -= node.pages();
        match node.newer {
            NONE => ends.newest = node.older,
            newer => self.nodes[newer as usize].older = node.older,
        }
        match node.older {
            NONE => ends.oldest = node.newer,
            older => self.nodes[older as usize].newer = node.newer,
        }
    }

    fn link_newest(&mut self, first: PageId) {
        let node = self.nodes[first.index()];
        let ends = &mut self.lists[node.tier().index()][node.list() as usize];
        let older = core::mem::replace(&mut ends.newest, first.0);
        ends.pages += node.pages();
        match older {
            NONE => ends.oldest = first.0,
            older => self.nodes[older as usize].newer = first.0,
        }
        let flags = node.flags | flag::LISTED;
        self.nodes[first.index()] = Node { newer: NONE, older, flags };
    }

    fn link_oldest(&mut self, first: PageId) {
        let node = self.nodes[first.index()];
        let ends = &mut self.lists[node.tier().index()][node.list() as usize];
        let newer = core::mem::replace(&mut ends.oldest, first.0);
        ends.pages += node.pages();
        match newer {
            NONE => ends.newest = first.0,
            newer => self.nodes[newer as usize].older = first.0,
        }
        let flags = node.flags | flag::LISTED;
        self.nodes[first.index()] = Node { newer, older: NONE, flags };
    }

    /// New units, inactive.
    fn populate(&mut self, run: PageRun, huge: bool, tier: TierId) {
        self.forget(run);
        let end = (run.end() as usize).next_multiple_of(HUGE_PAGES as usize);
        if end > self.nodes.len() {
            self.nodes.resize(end, Node::EMPTY);
        }
        let step = if huge { HUGE_PAGES } else { 1 } as usize;
        let size = if huge { flag::HUGE } else { 0 };
        for start in run.range().step_by(step) {
            self.track(PageId(start as u32), size | u16::from(tier.0));
        }
    }

    fn track(&mut self, first: PageId, flags: u16) {
        let kept = flag::TIER | flag::ACTIVE | flag::HUGE | flag::REFERENCED;
        let flags = flags & kept | flag::TRACKED;
        self.nodes[first.index()] = Node { flags, ..Node::EMPTY };
        self.link_newest(first);
    }

    /// Flags of a unit that is known no longer; 0 where it was not.
    fn untrack(&mut self, first: PageId) -> u16 {
        let flags = self.nodes[first.index()].flags;
        if flags & flag::TRACKED == 0 {
            return 0;
        }
        self.unlink(first);
        self.nodes[first.index()] = Node::EMPTY;
        flags
    }

    fn known(&self, run: PageRun) -> PageRun {
        run.intersect(PageRun::between(0, self.nodes.len() as u32))
    }

    /// Pages are gone. Those left of a folio are base pages.
    fn forget(&mut self, run: PageRun) {
        let run = self.known(run);
        self.break_edges(run);
        for page in run.iter() {
            self.untrack(page);
        }
    }

    /// Splits folios that lie only in part in a run.
    fn break_edges(&mut self, run: PageRun) {
        if run.pages == 0 {
            return;
        }
        for page in [run.start, PageId(run.end() - 1)] {
            let region = page.region();
            if region.run().intersect(run) != region.run() {
                self.split(region);
            }
        }
    }

    fn split(&mut self, region: Region) {
        let first = region.first();
        if self.nodes.get(first.index()).is_some_and(|n| n.is(flag::TRACKED | flag::HUGE)) {
            let flags = self.untrack(first) & !flag::HUGE;
            region.run().iter().for_each(|page| self.track(page, flags));
        }
    }

    /// Base pages have become a folio: active where one of them was.
    fn collapse(&mut self, region: Region, view: &View<'_>) {
        let run = region.run();
        if self.known(run) != run || !run.iter().all(|p| self.nodes[p.index()].is(flag::TRACKED)) {
            return;
        }
        let mut flags = flag::HUGE;
        for page in run.iter() {
            flags |= self.untrack(page) & (flag::ACTIVE | flag::REFERENCED);
        }
        let tier = view.state(region.first()).tier().unwrap_or(TierId::FAST);
        self.track(region.first(), flags | u16::from(tier.0));
    }

    /// Pages have other numbers. Whole folios stay such where the new place is aligned.
    fn remap(&mut self, from: PageRun, to: PageId) {
        let target = PageRun { start: to, pages: from.pages };
        let from = self.known(from);
        self.break_edges(from);
        if from.start.offset() != to.offset() {
            let regions = from.start.region().0..from.end().div_ceil(HUGE_PAGES);
            regions.for_each(|region| self.split(Region(region)));
        }
        let units: Vec<(u32, u16)> = from
            .iter()
            .map(|page| (page.0 - from.start.0, self.untrack(page)))
            .filter(|(_, flags)| *flags != 0)
            .collect();
        self.forget(target);
        let end = (target.end() as usize).next_multiple_of(HUGE_PAGES as usize);
        if end > self.nodes.len() {
            self.nodes.resize(end, Node::EMPTY);
        }
        for (offset, flags) in units {
            self.track(PageId(to.0 + offset), flags);
        }
    }

    /// Somebody moved pages: in a fault, or behind our back.
    fn moved(&mut self, run: PageRun, view: &View<'_>) {
        for page in self.known(run).iter() {
            if self.first_of(page) == Some(page) {
                self.refile(page, view);
            }
        }
    }
}

/// Proposes to read and clear the access bits of units, neighbours together.
pub fn read(mut units: Vec<PageRun>, lane: Lane, plan: &mut Plan) {
    units.sort_unstable_by_key(|unit| unit.start);
    scan_units(units.into_iter(), lane, plan);
}
