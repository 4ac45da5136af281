//! Exchange of the densest units of slow memory for the least dense ones of fast memory.
//!
//! A unit is promoted where its density exceeds that of what makes room by a margin: the price of the moves,
//! over what a sample is worth. Base pages whose neighbours move as well share the price of a call.

use super::density::Densities;
use super::ranks::{Queue, bin};
use super::streams::Sweep;
use crate::action::{Lane, Plan};
use crate::budget::Budget;
use crate::hotness::bitmap::Bitmap;
use crate::placement::View;
use crate::types::*;
use alloc::vec::Vec;

/// Pages promoted by a plan.
const MOST: u64 = 4096;
/// Units that are waited for in a queue; those that are promoted or demoted last are dropped beyond.
const QUEUED: usize = 1 << 16;
/// Candidates in a row that find nothing worth leaving for them, after which a plan ends.
const REFUSED: usize = 16;
/// Share of the margin that a unit needs where there is free room.
const FREE: f32 = 0.25;

/// What density a unit needs beyond that of what leaves for it, in samples a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Margin {
    /// A base page that moves alone.
    pub base: f32,
    /// A page of a folio, and the least of a base page.
    pub folio: f32,
}

/// A unit of fast memory that makes room.
#[derive(Clone, Copy, Debug)]
struct Victim {
    density: f32,
    run: PageRun,
}

/// Units that want to change places.
#[derive(Debug)]
pub(super) struct Exchange {
    candidates: Queue,
    victims: Queue,
    /// Chosen for promotion; the next one last.
    waiting: Vec<PageId>,
    /// Base pages that are chosen.
    chosen: Bitmap,
    /// On their way out of fast memory.
    leaving: Vec<PageRun>,
    pub promoted: u64,
    pub demoted: u64,
}

impl Exchange {
    pub(super) fn new() -> Self {
        Self {
            candidates: Queue::new(),
            victims: Queue::new(),
            waiting: Vec::new(),
            chosen: Bitmap::default(),
            leaving: Vec::new(),
            promoted: 0,
            demoted: 0,
        }
    }

    /// Forgets what wants to change places, since densities mean something else now.
    pub(super) fn forget(&mut self) {
        (self.candidates, self.victims) = (Queue::new(), Queue::new());
    }

    /// Sorts a unit in, named by its first page; `rent` is the bin from which on units belong into fast
    /// memory.
    #[inline]
    pub(super) fn offer(&mut self, unit: PageId, fast: bool, density: f32, rent: usize) {
        let bin = bin(density);
        let leaves = fast && bin < rent.max(1);
        let comes = !fast && bin + 1 >= rent && density > 0.0 && !self.chosen.contains(unit.0);
        let queue = if fast { &mut self.victims } else { &mut self.candidates };
        if (leaves || comes) && (queue.len() < QUEUED || queue.place(unit).is_some()) {
            queue.put(unit, bin);
        }
    }

    /// Pages on their way out of fast memory.
    pub(super) fn leaving(&mut self, view: &View<'_>) -> u64 {
        let mut pages = 0;
        self.leaving.retain(|run| {
            let state = view.state(run.start);
            let leaves = state.is_in_flight() && state.tier() == Some(TierId::FAST);
            pages += if leaves { u64::from(run.pages) } else { 0 };
            leaves
        });
        pages
    }

    /// The least dense unit of fast memory that may leave, if there is one that sweeps do not use.
    pub(super) fn least_dense(
        &mut self,
        view: &View<'_>,
        densities: &Densities,
        rent: usize,
        sweeps: &[Sweep],
    ) -> Option<PageRun> {
        self.victim(view, densities, rent, sweeps).map(|victim| victim.run)
    }

    /// The least dense unit of fast memory that may leave.
    fn victim(
        &mut self,
        view: &View<'_>,
        densities: &Densities,
        rent: usize,
        sweeps: &[Sweep],
    ) -> Option<Victim> {
        loop {
            let (unit, label) = self.victims.take_lowest()?;
            let state = view.state(unit);
            let run = view.unit(unit);
            let used = || sweeps.iter().any(|sweep| sweep.uses(run));
            let here = state.tier() == Some(TierId::FAST) && run.start == unit;
            if !here || state.is_in_flight() || used() {
                continue;
            }
            let density = densities.density(unit, state.is_huge());
            let now = bin(density);
            if now <= label + 2 {
                return Some(Victim { density, run });
            }
            if now < rent.max(1) {
                self.victims.put(unit, now);
            }
        }
    }

    /// The densest unit of slow memory that may come.
    fn candidate(
        &mut self,
        view: &View<'_>,
        densities: &Densities,
        rent: usize,
        sweeps: &[Sweep],
    ) -> Option<(f32, PageRun)> {
        loop {
            let (unit, label) = self.candidates.take_highest()?;
            let state = view.state(unit);
            let run = view.unit(unit);
            let slow = state.tier().is_some_and(|tier| tier != TierId::FAST);
            let used = || sweeps.iter().any(|sweep| sweep.uses(run));
            if !slow || state.is_in_flight() || run.start != unit || used() {
                continue;
            }
            let density = densities.density(unit, state.is_huge());
            let now = bin(density);
            if now + 1 < rent || density <= 0.0 {
                continue;
            }
            if now + 2 >= label {
                return Some((density, run));
            }
            self.candidates.put(unit, now);
        }
    }

    /// Candidates and chosen pages among the 16 around a base page, itself included.
    fn company(&self, page: PageId) -> u32 {
        let first = page.0 & !15;
        let goes =
            |page: u32| self.chosen.contains(page) || self.candidates.place(PageId(page)).is_some();
        1 + (first..first + 16).filter(|other| *other != page.0 && goes(*other)).count() as u32
    }

    /// Chooses what comes and proposes what leaves, but for what sweeps use. `room` is kept free besides
    /// what the tier keeps free.
    pub(super) fn plan(
        &mut self,
        view: &View<'_>,
        densities: &Densities,
        sweeps: &[Sweep],
        (rent, margin, room): (usize, Margin, u64),
        budget: Budget,
        plan: &mut Plan,
    ) {
        for page in core::mem::take(&mut self.waiting) {
            self.chosen.remove(page.0);
            let state = view.state(page);
            let slow = state.tier().is_some_and(|tier| tier != TierId::FAST);
            if slow && !state.is_in_flight() && view.unit(page).start == page {
                self.offer(page, false, densities.density(page, state.is_huge()), rent);
            }
        }
        let limits = view.limits(TierId::FAST);
        let have = view.free(TierId::FAST).0 + self.leaving(view);
        let mut free = have as i64 - (limits.keep_free.0 + room + view.over(TierId::FAST).0) as i64;
        let mut leave = Vec::new();
        while free < 0
            && let Some(victim) = self.victim(view, densities, rent, sweeps)
        {
            free += i64::from(victim.run.pages);
            leave.push(victim.run);
        }
        let mut free = free.max(0) as u64;
        let mut most = MOST.min(budget.remaining.pages().0);
        // The least dense victims that nothing was taken for yet.
        let mut spare: Vec<Victim> = Vec::new();
        let mut refused = Vec::new();
        while most > 0
            && refused.len() < REFUSED
            && let Some((density, run)) = self.candidate(view, densities, rent, sweeps)
        {
            let need = u64::from(run.pages);
            let huge = need > 1;
            let own = if huge {
                margin.folio
            } else {
                (margin.base / self.company(run.start) as f32).max(margin.folio)
            };
            let (mut have, mut taken, mut lost, mut margin_out) = (free, 0, 0.0, 0.0);
            while have < need {
                if taken == spare.len() {
                    let Some(victim) = self.victim(view, densities, rent, sweeps) else { break };
                    spare.push(victim);
                }
                let victim = spare[taken];
                have += u64::from(victim.run.pages);
                lost += victim.density * victim.run.pages as f32;
                margin_out = if victim.run.pages > 1 { margin.folio } else { 0.0 };
                taken += 1;
            }
            if have < need {
                refused.push(run.start);
                break;
            }
            let worth = if taken > 0 {
                density >= lost / (have - free) as f32 + own + margin_out
            } else {
                density >= own * FREE
            };
            if !worth {
                refused.push(run.start);
                continue;
            }
            leave.extend(spare.drain(..taken).map(|victim| victim.run));
            free = have - need;
            most = most.saturating_sub(need);
            self.waiting.push(run.start);
            if !huge {
                self.chosen.insert(run.start.0);
            }
        }
        for victim in spare {
            self.victims.put(victim.run.start, bin(victim.density));
        }
        for unit in refused {
            let density = densities.density(unit, view.state(unit).is_huge());
            self.candidates.put(unit, bin(density));
        }
        // Neighbours go together.
        self.waiting.chunks_mut(512).for_each(|some| some.sort_unstable());
        self.waiting.reverse();
        self.demote(leave, view, plan);
    }

    /// Proposes to demote units.
    pub(super) fn demote(&mut self, mut units: Vec<PageRun>, view: &View<'_>, plan: &mut Plan) {
        units.sort_unstable_by_key(|run| run.start);
        let to = (1..view.tiers() as u8).map(TierId).find(|tier| view.free(*tier).0 > 0);
        let Some(to) = to else { return };
        let mut units = units.into_iter().peekable();
        while let Some(mut run) = units.next() {
            while let Some(more) = units.next_if(|more| joins(run, *more)) {
                run.pages += more.pages;
            }
            plan.migrate(run, to, Lane::DEMOTE);
            self.leaving.push(run);
            self.demoted += u64::from(run.pages);
        }
    }

    /// Proposes promotions for which there is room now, `room` being kept free.
    pub(super) fn land(&mut self, view: &View<'_>, room: u64, plan: &mut Plan) {
        let keep = view.limits(TierId::FAST).keep_free.0 + room;
        let mut free = view.free(TierId::FAST).0.saturating_sub(keep);
        let mut next: Option<PageRun> = None;
        while let Some(&page) = self.waiting.last() {
            let state = view.state(page);
            let run = view.unit(page);
            let slow = state.tier().is_some_and(|tier| tier != TierId::FAST);
            let good = slow && !state.is_in_flight() && run.start == page;
            if good && u64::from(run.pages) > free {
                break;
            }
            self.waiting.pop();
            self.chosen.remove(page.0);
            if !good {
                continue;
            }
            free -= u64::from(run.pages);
            self.promoted += u64::from(run.pages);
            match &mut next {
                Some(before) if joins(*before, run) => before.pages += run.pages,
                _ => {
                    let ready = next.replace(run);
                    ready
                        .into_iter()
                        .for_each(|run| plan.migrate(run, TierId::FAST, Lane::PROMOTE));
                }
            }
        }
        next.into_iter().for_each(|run| plan.migrate(run, TierId::FAST, Lane::PROMOTE));
    }

    pub(super) fn bytes(&self) -> Bytes {
        self.candidates.bytes() + self.victims.bytes() + self.chosen.bytes()
    }
}

/// Whether a run goes on where another one ends, in the same region.
fn joins(before: PageRun, after: PageRun) -> bool {
    before.end() == after.start.0 && before.start.region() == after.start.region()
}
