//! Exchange of the densest units of slow memory for the least dense ones of fast memory.
//!
//! A unit is promoted where its density exceeds that of what makes room by a margin: the price of the moves,
//! over what a sample is worth. Base pages whose neighbours move as well share the price of a call.

use super::balance::Balance;
use super::density::Densities;
use super::guard::Purse;
use super::landing::Landing;
use super::margins::{Exchanged, Margins};
use super::ranks::{Queue, bin};
use super::streams::Sweep;
use crate::action::{Lane, Plan};
use crate::budget::Budget;
use crate::hotness::bitmap::Bitmap;
use crate::placement::View;
use crate::policy::runs::{Runs, joined_in_regions};
use crate::types::*;
use alloc::vec::Vec;

/// Pages promoted by a plan.
const MOST: u64 = 4096;
/// Units that are waited for in a queue; those that are promoted or demoted last are dropped beyond.
const QUEUED: usize = 1 << 16;
/// Waiting pages that a plan looks at again for each sample, at most.
const WAITING_PER_SAMPLE: usize = 4;
/// Candidates in a row that find nothing worth leaving for them, after which a plan ends.
const REFUSED: usize = 16;
/// A unit with more than so many times the pages that lack does not leave for what may come: most of its place
/// would stand empty.
const MOST_FOR_ROOM: u64 = 2;
/// Share of the margin that a unit needs where there is free room.
const FREE: f32 = 0.25;

/// What density a unit needs beyond that of what leaves for it, in samples a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Margin {
    /// A base page that moves alone, shared with those that move with it.
    pub base: f32,
    /// A base page besides.
    pub page: f32,
    /// A page of a folio, and the least of a base page.
    pub folio: f32,
    /// A base page that leaves alone, shared with those that leave with it.
    pub leaving: f32,
}

/// What a plan goes by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// The bin from which on units belong into fast memory.
    pub rent: usize,
    pub margin: Margin,
    /// Pages kept free besides what the tier keeps free.
    pub room: u64,
    pub budget: Budget,
    pub purse: Purse,
    /// Samples that all densities together are.
    pub span: f32,
    /// Samples so far.
    pub now: u64,
    /// The sample until which exchanges are watched that the plan decides on.
    pub watch: u64,
}

/// A unit that may change places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    density: f32,
    pub run: PageRun,
}

impl Unit {
    /// Whether most of what it leaves would stand empty, where so many pages lack.
    pub(super) fn is_too_large(self, lack: u64) -> bool {
        u64::from(self.run.pages) > MOST_FOR_ROOM * lack
    }
}

/// Exchange of a group of units for what leaves for them. Room that nothing is brought for is worth nothing.
#[derive(Clone, Copy, Debug)]
struct Deal {
    /// Pages that are free.
    room: i64,
    /// Victims.
    taken: usize,
    /// Samples that are served less, and more, with margins.
    lost: f32,
    won: f32,
    /// The difference, without margins.
    net: f32,
}

impl Deal {
    fn new(room: i64) -> Self {
        Self { room, taken: 0, lost: 0.0, won: 0.0, net: 0.0 }
    }

    fn take(&mut self, victim: Unit, margin: f32) {
        let pages = victim.run.pages as f32;
        self.room += i64::from(victim.run.pages);
        self.lost += (victim.density + margin) * pages;
        self.net -= victim.density * pages;
        self.taken += 1;
    }

    fn bring(&mut self, Unit { density, run }: Unit, gain: f32) {
        self.room -= i64::from(run.pages);
        self.won += gain * run.pages as f32;
        self.net += density * run.pages as f32;
    }

    /// Whether units that gain so much a page would pay if they filled the room.
    fn can_pay(&self, gain: f32) -> bool {
        gain >= 0.0 && self.won + gain * self.room.max(0) as f32 >= self.lost
    }

    fn pays(&self) -> bool {
        self.won >= self.lost
    }
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
    landing: Landing,
    pub margins: Margins,
    pub balance: Balance,
    /// Whether pages that are touched come by themselves, so that nothing leaves for those that are brought.
    comes_by_touches: bool,
    /// Whether fast memory was over its limit in the last plan and nothing was known to leave, where pages come by
    /// themselves.
    pub lacks: bool,
    pub promoted: u64,
    pub demoted: u64,
}

impl Exchange {
    pub(super) fn new(balance: Balance, comes_by_touches: bool) -> Self {
        Self {
            balance,
            comes_by_touches,
            lacks: false,
            candidates: Queue::new(),
            victims: Queue::new(),
            waiting: Vec::new(),
            chosen: Bitmap::default(),
            leaving: Vec::new(),
            landing: Landing::default(),
            margins: Margins::default(),
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
        let comes = !fast && bin + 1 >= rent && density > 0.0 && !self.is_chosen(unit);
        let queue = if fast { &mut self.victims } else { &mut self.candidates };
        if (leaves || comes) && (queue.len() < QUEUED || queue.place(unit).is_some()) {
            queue.put(unit, bin);
        }
    }

    /// A folio has come, or was refused though there was room in pieces.
    pub(super) fn landed(&mut self, came: bool) {
        self.landing.tried(came);
    }

    fn is_chosen(&self, unit: PageId) -> bool {
        !self.waiting.is_empty() && self.chosen.contains(unit.0)
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
    pub(super) fn victim(
        &mut self,
        view: &View<'_>,
        densities: &Densities,
        rent: usize,
        sweeps: &[Sweep],
    ) -> Option<Unit> {
        loop {
            let (unit, label) = self.victims.take_lowest()?;
            let Some(run) = movable(view, unit, true).filter(|run| !is_used(sweeps, *run)) else {
                continue;
            };
            let density = densities.density(unit, run.pages > 1);
            let now = bin(density);
            if now <= label + 2 {
                return Some(Unit { density, run });
            }
            if now < rent.max(1) {
                self.victims.put(unit, now);
            }
        }
    }

    /// Gives a victim back.
    pub(super) fn spare(&mut self, victim: Unit) {
        self.victims.put(victim.run.start, bin(victim.density));
    }

    /// The densest unit of slow memory that may come, if there is one that sweeps do not use.
    fn candidate(
        &mut self,
        view: &View<'_>,
        densities: &Densities,
        rent: usize,
        sweeps: &[Sweep],
    ) -> Option<Unit> {
        loop {
            let (unit, label) = self.candidates.take_highest()?;
            let Some(run) = movable(view, unit, false).filter(|run| !is_used(sweeps, *run)) else {
                continue;
            };
            let density = densities.density(unit, run.pages > 1);
            let now = bin(density);
            if now + 1 < rent || density <= 0.0 {
                continue;
            }
            if now + 2 >= label {
                return Some(Unit { density, run });
            }
            self.candidates.put(unit, now);
        }
    }

    /// What a victim costs beside its samples, a page.
    fn cost_of_leaving(
        &self,
        margin: Margin,
        victim: Unit,
        view: &View<'_>,
        densities: &Densities,
    ) -> f32 {
        if victim.run.pages > 1 {
            return margin.folio;
        }
        if margin.leaving <= 0.0 {
            return 0.0;
        }
        // Who is as cold leaves, too, or does already.
        let (page, first) = (victim.run.start.0, victim.run.start.0 & !15);
        let leaves = |other: &u32| {
            let state = view.state(PageId(*other));
            let fast = state.tier() == Some(TierId::FAST) && !state.is_huge();
            fast && densities.density(PageId(*other), false) <= victim.density
        };
        let others = (first..first + 16).filter(|other| *other != page).filter(leaves).count();
        margin.leaving / (1 + others) as f32
    }

    /// Candidates and chosen pages among the 16 around a base page, itself included.
    fn company(&self, page: PageId) -> u32 {
        let first = page.0 & !15;
        let goes =
            |page: u32| self.chosen.contains(page) || self.candidates.place(PageId(page)).is_some();
        1 + (first..first + 16).filter(|other| *other != page.0 && goes(*other)).count() as u32
    }

    /// Samples after which a plan is worth its time: it looks again at all that waits for room.
    pub(super) fn least_tick(&self) -> u64 {
        (self.waiting.len() / WAITING_PER_SAMPLE) as u64
    }

    /// Chooses what comes and proposes what leaves, but for what sweeps use.
    pub(super) fn plan(
        &mut self,
        view: &View<'_>,
        densities: &Densities,
        sweeps: &[Sweep],
        terms: Terms,
        plan: &mut Plan,
    ) {
        let Terms { rent, margin, mut purse, span, .. } = terms;
        for page in core::mem::take(&mut self.waiting) {
            self.chosen.remove(page.0);
            if let Some(run) = movable(view, page, false) {
                self.offer(page, false, densities.density(page, run.pages > 1), rent);
            }
        }
        self.landing.pass();
        self.margins.judge(terms.now, densities);
        let scale = self.margins.scale();
        let limits = view.limits(TierId::FAST);
        let have = view.free(TierId::FAST).0 + self.leaving(view);
        let soft = (limits.keep_free.0 + terms.room) as i64;
        let mut free = have as i64 - view.over(TierId::FAST).0 as i64 - soft;
        let mut leave = Vec::new();
        while free < 0
            && let Some(victim) = self.victim(view, densities, rent, sweeps)
        {
            if free + soft >= 0 && victim.is_too_large(free.unsigned_abs()) {
                self.spare(victim);
                break;
            }
            free += i64::from(victim.run.pages);
            leave.push(victim.run);
        }
        self.lacks = self.comes_by_touches && free < 0 && view.over(TierId::FAST).0 > 0;
        let mut most = MOST.min(terms.budget.remaining.pages().0);
        // The least dense victims that nothing was taken for yet, and what their leaving costs.
        let mut spare: Vec<(Unit, f32)> = Vec::new();
        let mut refused = Vec::new();
        // Candidates that pay for what leaves for them only together.
        let mut group: Vec<Unit> = Vec::new();
        let mut deal = Deal::new(free);
        while most > 0
            && refused.len() < REFUSED
            && let Some(unit) = self.candidate(view, densities, rent, sweeps)
        {
            let Unit { density, run } = unit;
            let need = i64::from(run.pages);
            let company = if need > 1 { 1 } else { self.company(run.start) };
            let own = match need > 1 {
                true => margin.folio,
                false => (margin.base / company as f32 + margin.page).max(margin.folio),
            };
            let before = deal;
            while deal.room < need && !self.comes_by_touches {
                if deal.taken == spare.len() {
                    let Some(victim) = self.victim(view, densities, rent, sweeps) else { break };
                    let cost = self.cost_of_leaving(margin, victim, view, densities);
                    spare.push((victim, cost));
                }
                let (victim, cost) = spare[deal.taken];
                deal.take(victim, scale * cost);
            }
            if deal.room < need {
                refused.push(unit);
                break;
            }
            if let ([], [(victim, cost)]) = (&*group, &spare[..deal.taken])
                && victim.run.pages == run.pages
            {
                let pages = run.pages as f32;
                let exchanged = Exchanged {
                    comes: run.start,
                    leaves: victim.run.start,
                    huge: run.pages > 1,
                    gain: (density - victim.density) * pages,
                    price: (own + cost) * pages,
                };
                self.margins.watch(exchanged, terms.watch, densities);
            }
            let own = own * if deal.taken > 0 { scale } else { FREE };
            let chance = if need > 1 { self.landing.chance() } else { 1.0 };
            let gain = density * chance - own;
            let share = f64::from((deal.net + density * need as f32) / span);
            if !deal.can_pay(gain) || share > self.balance.may_come() || !purse.take(run, company) {
                deal = before;
                refused.push(unit);
                continue;
            }
            deal.bring(unit, gain);
            group.push(unit);
            if !deal.pays() {
                continue;
            }
            leave.extend(spare.drain(..deal.taken).map(|(victim, _)| victim.run));
            self.balance.moved(f64::from(deal.net / span));
            deal = Deal::new(deal.room);
            for Unit { run, .. } in group.drain(..) {
                most = most.saturating_sub(u64::from(run.pages));
                self.waiting.push(run.start);
                if run.pages == 1 {
                    self.chosen.insert(run.start.0);
                }
            }
        }
        spare.into_iter().for_each(|(victim, _)| self.spare(victim));
        for unit in refused.into_iter().chain(group) {
            self.candidates.put(unit.run.start, bin(unit.density));
        }
        // Neighbours go together.
        self.waiting.chunks_mut(512).for_each(|some| some.sort_unstable());
        self.waiting.reverse();
        self.shed(view, densities, span, &mut leave);
        self.demote(leave, view, plan);
    }

    /// Has units leave whose accesses the next tier serves as well, since fast memory is too busy.
    fn shed(
        &mut self,
        view: &View<'_>,
        densities: &Densities,
        span: f32,
        leave: &mut Vec<PageRun>,
    ) {
        while let Some((unit, most)) = self.balance.next_to_shed() {
            let Some(run) = movable(view, unit, true).filter(|run| !leave.contains(run)) else {
                continue;
            };
            let density = densities.density(unit, run.pages > 1);
            let share = f64::from(density * run.pages as f32 / span);
            if share <= most {
                self.balance.moved(-share);
                self.balance.shed += u64::from(run.pages);
                leave.push(run);
            }
        }
    }

    /// Proposes to demote units.
    pub(super) fn demote(&mut self, mut units: Vec<PageRun>, view: &View<'_>, plan: &mut Plan) {
        units.sort_unstable_by_key(|run| run.start);
        let to = (1..view.tiers() as u8).map(TierId).find(|tier| view.free(*tier).0 > 0);
        let Some(to) = to else { return };
        for run in joined_in_regions(units.into_iter()) {
            plan.migrate(run, to, Lane::DEMOTE);
            self.leaving.push(run);
            self.demoted += u64::from(run.pages);
        }
    }

    /// Proposes promotions for which there is room now, `room` being kept free.
    pub(super) fn land(&mut self, view: &View<'_>, room: u64, plan: &mut Plan) {
        let keep = view.limits(TierId::FAST).keep_free.0 + room;
        let mut free = view.free(TierId::FAST).0.saturating_sub(keep);
        let mut runs = Runs::new(TierId::FAST, Lane::PROMOTE);
        while let Some(&page) = self.waiting.last() {
            let come = movable(view, page, false);
            if come.is_some_and(|run| u64::from(run.pages) > free) {
                break;
            }
            self.waiting.pop();
            self.chosen.remove(page.0);
            let Some(run) = come else { continue };
            free -= u64::from(run.pages);
            bring(&mut runs, run, plan);
        }
        self.promoted += runs.finish(plan);
    }

    pub(super) fn bytes(&self) -> Bytes {
        self.candidates.bytes() + self.victims.bytes() + self.chosen.bytes()
    }
}

/// The unit that begins at a page, where it is in fast memory, or outside, and nothing moves it.
pub(super) fn movable(view: &View<'_>, first: PageId, fast: bool) -> Option<PageRun> {
    let (state, run) = (view.state(first), view.unit(first));
    let is_there = state.tier().is_some_and(|tier| (tier == TierId::FAST) == fast);
    (is_there && !state.is_in_flight() && run.start == first).then_some(run)
}

/// Whether sweeps use some of these pages now.
pub(super) fn is_used(sweeps: &[Sweep], run: PageRun) -> bool {
    sweeps.iter().any(|sweep| sweep.uses(run))
}

/// Proposes a unit together with those before it in its region.
pub(super) fn bring(runs: &mut Runs, run: PageRun, plan: &mut Plan) {
    if run.start.offset() == 0 {
        runs.close(plan);
    }
    runs.push(run, plan);
}
