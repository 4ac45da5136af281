//! The engine: checks what a policy proposes and keeps the truth about placement.

mod exchange;
mod in_flight;
mod stats;

#[cfg(test)]
mod contract_tests;
#[cfg(test)]
mod tests;

use crate::action::{Action, Lane, MoveId, Plan};
use crate::budget::RateBudget;
use crate::event::{Event, Fault, MoveOutcome};
pub use crate::placement::MOST_TIER_PAGES;
use crate::placement::{PageState, Placement, TierLimits, View};
use crate::policy::contract::{
    Allocation, BoxedPolicy, FaultDecision, Home, PageSize, Placed, Policy,
};
use crate::policy::entry::Made;
use crate::policy::facts::Facts;
use crate::types::*;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use exchange::Exchanges;
use in_flight::InFlight;
pub use stats::{EngineStats, Rejected};

/// What an engine manages.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct EngineConfig {
    /// Tiers from the fastest to the slowest: at least 2, at most [`MAX_TIERS`].
    pub tiers: Vec<TierLimits>,
    /// Most bytes per second that moves may be approved for; `None` without a limit.
    pub migration_bytes_per_second: Option<Bytes>,
    /// Most bytes that an unused migration rate saves up; at least one folio, or folios never move.
    pub migration_burst: Bytes,
}

impl EngineConfig {
    /// Two directly accessible tiers of these capacities, and no limit on the rate of migration.
    pub fn two_tiers(fast: PageCount, slow: PageCount) -> Self {
        let tier =
            |capacity| TierLimits { capacity, keep_free: PageCount::ZERO, direct_access: true };
        Self {
            tiers: Vec::from([tier(fast), tier(slow)]),
            migration_bytes_per_second: None,
            migration_burst: Bytes(64 << 20),
        }
    }
}

/// An engine cannot be as it is described.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// Too few tiers, or too many.
    #[error("an engine has 2 to {MAX_TIERS} tiers, not {0}")]
    Tiers(usize),
    /// A tier has, or keeps free, more pages than addresses reach.
    #[error("tier {} has or keeps {} pages, and addresses reach {}", tier.0, pages.0, MOST_TIER_PAGES.0)]
    Capacity {
        /// The tier.
        tier: TierId,
        /// Its capacity, or what it keeps free where that is more.
        pages: PageCount,
    },
}

impl EngineConfig {
    /// Refuses what no engine can be.
    ///
    /// # Errors
    /// Where the number of tiers is not between 2 and [`MAX_TIERS`], or a capacity is above
    /// [`MOST_TIER_PAGES`].
    pub fn check(&self) -> Result<(), EngineError> {
        let tiers = self.tiers.len();
        if !(2..=MAX_TIERS).contains(&tiers) {
            return Err(EngineError::Tiers(tiers));
        }
        for (tier, limits) in (0..).map(TierId).zip(&self.tiers) {
            let pages = limits.capacity.max(limits.keep_free);
            if pages > MOST_TIER_PAGES {
                return Err(EngineError::Capacity { tier, pages });
            }
        }
        Ok(())
    }
}

/// Couples one policy to the truth. Sans-I/O: events in, actions out, time as an argument.
pub struct Engine {
    placement: Placement,
    policy: BoxedPolicy,
    facts: Facts,
    name: String,
    budget: RateBudget,
    in_flight: BTreeMap<MoveId, InFlight>,
    /// Exchanges whose second half has not begun.
    exchanges: Exchanges,
    /// Pages of the fastest tier that moves leave free for new memory, by the policy's last wish.
    newborn_room: u64,
    /// Splits and collapses under way; a collapse holds 512 reserved pages in its tier.
    reshaping: BTreeMap<Region, Option<TierId>>,
    /// Populations that the policy has not been told of yet.
    untold: Vec<Event>,
    actions: VecDeque<Action>,
    plan: Plan,
    next_move: u64,
    stats: EngineStats,
}

impl Engine {
    /// An engine with all memory free.
    ///
    /// # Errors
    /// As [`EngineConfig::check`].
    pub fn new(config: EngineConfig, made: Made) -> Result<Self, EngineError> {
        config.check()?;
        Ok(Self {
            placement: Placement::new(config.tiers),
            policy: made.policy,
            facts: made.facts,
            name: made.name,
            budget: RateBudget::new(config.migration_bytes_per_second, config.migration_burst),
            in_flight: BTreeMap::new(),
            exchanges: Exchanges::default(),
            newborn_room: 0,
            reshaping: BTreeMap::new(),
            untold: Vec::new(),
            actions: VecDeque::new(),
            plan: Plan::default(),
            next_move: 1,
            stats: EngineStats::default(),
        })
    }

    /// Takes in what happened, oldest first, tells the policy, and lets it decide where its time
    /// has come.
    pub fn handle_events(&mut self, now: Nanos, events: &[Event]) {
        for event in events {
            self.apply(event);
        }
        self.tell_untold(now);
        if !events.is_empty() {
            self.policy.observe(now, events, &self.placement.view());
            self.placement.forget_freed();
        }
        self.handle_timeout(now);
    }

    /// Lets the policy decide where its time has come.
    pub fn handle_timeout(&mut self, now: Nanos) {
        if self.policy.next_wakeup().is_none_or(|due| due > now) {
            return;
        }
        self.tell_untold(now);
        self.budget.refill(now);
        let mut plan = core::mem::take(&mut self.plan);
        plan.clear();
        self.policy.decide(now, &self.placement.view(), self.budget.remaining(), &mut plan);
        if let Some(room) = plan.newborn_room() {
            self.newborn_room = room.0;
        }
        for at in 0..=plan.len() {
            plan.exchanges_after(at).for_each(|exchange| self.consider_exchange(exchange));
            plan.iter().skip(at).take(1).for_each(|proposal| self.consider(proposal));
        }
        self.plan = plan;
    }

    /// Next action to carry out.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When [`Self::handle_timeout`] wants to be called, at the latest.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        self.policy.next_wakeup()
    }

    /// Chooses tier and page size of new memory and makes it resident there. What falls through to
    /// another tier than the policy's choice goes where it can be accessed. `None` where no such tier
    /// has room, and where the policy wants base pages instead of the folio that was to be allocated:
    /// nothing has changed then. For worlds that allocate; others report `Populated`.
    pub fn populate(&mut self, now: Nanos, allocation: &Allocation) -> Option<Placed> {
        let Home { tier: wanted, leave_free, size } =
            self.policy.place(now, allocation, &self.placement.view());
        let folio = PageRun { pages: HUGE_PAGES, start: allocation.run.start.region().first() };
        let (run, huge) = match size {
            Some(PageSize::Base) if allocation.huge => return None,
            Some(PageSize::Folio) if allocation.may_be_huge => (folio, true),
            _ => (allocation.run, allocation.huge),
        };
        let pages = u64::from(run.pages);
        let tiers = self.view().tiers() as u8;
        let fits = |tier: TierId, headroom: u64| {
            let serves = tier == wanted || self.view().limits(tier).direct_access;
            serves && self.placement.free(tier).0 >= pages + headroom
        };
        let headroom = |tier: TierId| {
            if tier != TierId::FAST {
                return 0;
            }
            let capacity = self.view().limits(tier).capacity.0;
            (leave_free * capacity as f64) as u64
        };
        let tier = (wanted.0..tiers)
            .map(TierId)
            .find(|&t| fits(t, headroom(t)))
            .or_else(|| (0..tiers).map(TierId).find(|&t| fits(t, 0)))?;
        let event = Event::Populated { run, tier, huge };
        self.apply(&event);
        self.untold.push(event);
        Some(Placed { tier, huge })
    }

    /// Asks the policy about a touch that cannot be served by a plain access; the program waits.
    /// The world carries the answer out, reports `Moved` for what it moved, and the page is no
    /// longer armed. An answer that there is no room for becomes `Stay`.
    pub fn on_fault(&mut self, now: Nanos, fault: &Fault) -> FaultDecision {
        self.tell_untold(now);
        let state = self.placement.state(fault.page);
        self.disarm(fault.page);
        let decision = self.policy.on_fault(now, fault, &self.placement.view());
        let unit = |state: PageState| if state.is_huge() { HUGE_PAGES } else { 1 };
        let movable =
            |page: PageId| self.placement.state(page).is_resident() && !self.is_unit_busy(page);
        let checked = match decision {
            FaultDecision::Stay => return decision,
            FaultDecision::MoveHere(to) => self
                .check_tier(to)
                .and_then(|()| if movable(fault.page) { Ok(()) } else { Err(Rejected::InFlight) })
                .and_then(|()| self.check_room(to, unit(state))),
            FaultDecision::Exchange(other) => {
                let partner = self.placement.state(other);
                if !movable(fault.page) || !movable(other) {
                    Err(Rejected::InFlight)
                } else if unit(state) != unit(partner) {
                    Err(Rejected::PartialFolio)
                } else {
                    Ok(())
                }
            }
        };
        match checked {
            Ok(()) => decision,
            Err(reason) => {
                self.reject(reason, 1);
                FaultDecision::Stay
            }
        }
    }

    /// Asks the policy what shall leave the fastest tier at once to make room for about `wanted` pages;
    /// the program waits. Gives pages of that tier that are not being moved, the first one first. The
    /// world moves them, and reports `Moved`.
    pub fn victims(&mut self, now: Nanos, wanted: PageCount) -> Vec<PageId> {
        self.tell_untold(now);
        let mut victims = Vec::new();
        self.policy.victims(now, wanted, &self.placement.view(), &mut victims);
        victims.retain(|page| {
            self.placement.state(*page).tier() == Some(TierId::FAST) && !self.is_unit_busy(*page)
        });
        victims
    }

    /// A read-only view of placement.
    pub fn view(&self) -> View<'_> {
        self.placement.view()
    }

    /// The placement's state bytes, for a replay's hot loop.
    #[inline]
    pub fn states(&self) -> &[u8] {
        self.placement.states()
    }

    /// The policy.
    pub fn policy(&self) -> &dyn Policy {
        &*self.policy
    }

    /// What the world has to know of the policy.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// See [`Policy::take_entries`].
    pub fn take_entries(&mut self) -> u64 {
        self.policy.take_entries()
    }

    /// The policy's name with the parameters that differ from their defaults.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Counters since the start.
    pub fn stats(&self) -> &EngineStats {
        &self.stats
    }

    /// Whether an approved move still waits for a page. It does not where the page has gone since, and
    /// its id may belong to other memory by now: that page is reported as gone, and left alone.
    pub fn waits_for(&self, id: MoveId, page: PageId) -> bool {
        self.in_flight.get(&id).is_some_and(|entry| entry.waits_for(page))
    }

    /// Pages of approved moves that have not ended.
    pub fn pages_in_flight(&self) -> PageCount {
        PageCount(self.in_flight.values().map(|m| u64::from(m.remaining())).sum())
    }

    /// Bytes of per-page state: the engine's own and the policy's.
    pub fn metadata_bytes(&self) -> Bytes {
        self.placement.metadata_bytes() + self.policy.metadata_bytes()
    }

    fn tell_untold(&mut self, now: Nanos) {
        if !self.untold.is_empty() {
            // What was freed belongs to the batch that is told next.
            let freed = self.placement.take_freed();
            self.policy.observe(now, &self.untold, &self.placement.view());
            self.placement.restore_freed(freed);
            self.untold.clear();
        }
    }

    fn apply(&mut self, event: &Event) {
        match *event {
            Event::Mapped { run, .. } => self.placement.grow(run.end()),
            Event::Populated { run, tier, huge } => {
                if self.check_tier(tier).is_err() {
                    self.stats.anomalies += 1;
                    return;
                }
                self.placement.grow(run.end());
                for page in run.iter() {
                    self.placement.put(page, Some(tier));
                    if huge {
                        self.placement.set_flag(page, PageState::HUGE, true);
                    }
                }
            }
            Event::Unmapped { run } | Event::Freed { run } => self.free_run(run),
            Event::Remapped { from, to } => self.remap(from, to),
            Event::Moved { run, to, cause } => {
                if self.check_tier(to).is_err() {
                    self.stats.anomalies += 1;
                    return;
                }
                for page in run.iter() {
                    match self.placement.state(page).tier() {
                        None => self.stats.anomalies += 1,
                        Some(from) => {
                            self.stats.count_move(from, to);
                            self.stats.moved_by_others[cause as usize] += 1;
                            self.placement.put(page, Some(to));
                        }
                    }
                }
            }
            Event::MigrationDone { id, run, outcome } => self.finish_move(id, run, outcome),
            Event::SplitDone { region, split } => self.finish_split(region, split),
            Event::CollapseDone { region, tier } => self.finish_collapse(region, tier),
            Event::TierUsage { tier, capacity } => {
                if self.check_tier(tier).is_ok() {
                    self.placement.set_capacity(tier, capacity);
                }
            }
            Event::Fault(fault) => self.disarm(fault.page),
            Event::Disarmed { run } => self.known(run).iter().for_each(|page| self.disarm(page)),
            Event::Sample(_)
            | Event::AccessBits(_)
            | Event::Forked { .. }
            | Event::Exited { .. }
            | Event::SamplesLost { .. }
            | Event::Counters { .. }
            | Event::ReadLatency { .. }
            | Event::CpuUsage { .. }
            | Event::Running { .. }
            | Event::Pressure { .. }
            | Event::FileClosed { .. }
            | Event::Epoch { .. } => {}
        }
    }

    /// Frees pages; a folio that loses a part is from then on mapped by base pages.
    fn free_run(&mut self, run: PageRun) {
        let run = self.known(run);
        if run.pages == 0 {
            return;
        }
        for edge in [run.start, PageId(run.end() - 1)] {
            if self.placement.state(edge).is_huge() {
                for page in edge.region().run().iter().filter(|p| !run.contains(*p)) {
                    self.placement.set_flag(page, PageState::HUGE, false);
                }
            }
        }
        for page in run.iter() {
            let state = self.placement.state(page);
            if state.is_in_flight() {
                self.cancel(page);
            }
            if let Some(tier) = state.tier() {
                self.placement.put(page, None);
                self.placement.note_freed(page, tier);
            }
        }
    }

    fn remap(&mut self, from: PageRun, to: PageId) {
        let target = PageRun { start: to, pages: from.pages };
        self.placement.grow(target.end());
        let old: Vec<PageState> = from.iter().map(|p| self.placement.state(p)).collect();
        self.free_run(from);
        self.free_run(target);
        let aligned = from.start.offset() == to.offset();
        for (page, state) in target.iter().zip(old) {
            if let Some(tier) = state.tier() {
                self.placement.put(page, Some(tier));
                let whole = target.intersect(page.region().run()).pages == HUGE_PAGES;
                if state.is_huge() && aligned && whole {
                    self.placement.set_flag(page, PageState::HUGE, true);
                }
            }
        }
    }

    /// The page under a move has gone: the move's outcome for it no longer matters.
    fn cancel(&mut self, page: PageId) {
        for entry in self.in_flight.values_mut() {
            if entry.cancel(page) {
                return;
            }
        }
    }

    fn finish_move(&mut self, id: MoveId, run: PageRun, outcome: MoveOutcome) {
        let Some(entry) = self.in_flight.get_mut(&id) else {
            self.stats.anomalies += u64::from(run.pages);
            return;
        };
        for page in run.iter() {
            match entry.finish(page) {
                in_flight::Finish::NotPending => {
                    self.stats.anomalies += 1;
                    continue;
                }
                in_flight::Finish::Cancelled => self.placement.unreserve(entry.to, 1),
                in_flight::Finish::Ended => {
                    self.placement.unreserve(entry.to, 1);
                    self.placement.set_flag(page, PageState::IN_FLIGHT, false);
                    if outcome == MoveOutcome::Moved
                        && let Some(from) = self.placement.state(page).tier()
                    {
                        self.stats.count_move(from, entry.to);
                        self.placement.put(page, Some(entry.to));
                    }
                }
            }
            self.stats.outcomes[outcome as usize] += 1;
        }
        if entry.remaining() == 0 {
            self.in_flight.remove(&id);
            self.go_on_after(id);
        }
    }

    fn finish_split(&mut self, region: Region, split: bool) {
        if !matches!(self.reshaping.remove(&region), Some(None)) {
            self.stats.anomalies += 1;
            return;
        }
        for page in region.run().iter() {
            self.placement.set_flag(page, PageState::IN_FLIGHT, false);
            if split {
                self.placement.set_flag(page, PageState::HUGE, false);
            }
        }
        self.stats.splits += u64::from(split);
        self.stats.failed_splits += u64::from(!split);
    }

    fn finish_collapse(&mut self, region: Region, tier: Option<TierId>) {
        let Some(Some(reserved)) = self.reshaping.remove(&region) else {
            self.stats.anomalies += 1;
            return;
        };
        self.placement.unreserve(reserved, HUGE_PAGES);
        let whole = region.run().iter().all(|p| self.placement.state(p).is_resident());
        for page in region.run().iter() {
            self.placement.set_flag(page, PageState::IN_FLIGHT, false);
        }
        match tier {
            Some(to) if whole && self.check_tier(to).is_ok() => {
                for page in region.run().iter() {
                    if let Some(from) = self.placement.state(page).tier() {
                        self.stats.count_move(from, to);
                    }
                    self.placement.put(page, Some(to));
                    self.placement.set_flag(page, PageState::HUGE, true);
                }
                self.stats.collapses += 1;
            }
            Some(_) => self.stats.anomalies += 1,
            None => self.stats.failed_collapses += 1,
        }
    }

    fn consider(&mut self, proposal: &Action) {
        match *proposal {
            Action::Migrate { run, to, lane, .. } => self.consider_migration(run, to, lane),
            Action::Split { region, .. } => match self.check_split(region) {
                Ok(()) => {
                    self.reshaping.insert(region, None);
                    self.mark_in_flight(region.run());
                    self.actions.push_back(*proposal);
                }
                Err(reason) => self.reject(reason, 1),
            },
            Action::Collapse { region, to, .. } => match self.check_collapse(region, to) {
                Ok(()) => {
                    self.placement.reserve(to, HUGE_PAGES);
                    self.reshaping.insert(region, Some(to));
                    self.mark_in_flight(region.run());
                    self.actions.push_back(*proposal);
                }
                Err(reason) => self.reject(reason, 1),
            },
            Action::Arm { run, .. } => self.arm(run, true, *proposal),
            Action::Disarm { run, .. } => self.arm(run, false, *proposal),
            Action::Scan { .. } | Action::SetSampling { .. } | Action::DemoteFile { .. } => {
                self.actions.push_back(*proposal)
            }
        }
    }

    /// An armed page has been touched; a folio has one entry in the page table.
    fn disarm(&mut self, page: PageId) {
        let state = self.placement.state(page);
        if state.is_armed() {
            let folio = page.region().run();
            let unit = if state.is_huge() { folio } else { PageRun::single(page) };
            unit.iter().for_each(|p| self.placement.set_flag(p, PageState::ARMED, false));
        }
    }

    fn arm(&mut self, run: PageRun, on: bool, action: Action) {
        for page in self.known(run).iter() {
            if self.placement.state(page).is_resident() {
                self.placement.set_flag(page, PageState::ARMED, on);
            }
        }
        self.actions.push_back(action);
    }

    /// The part of a run that has states.
    fn known(&self, run: PageRun) -> PageRun {
        run.intersect(PageRun::between(0, self.view().pages()))
    }

    fn mark_in_flight(&mut self, run: PageRun) {
        for page in run.iter() {
            self.placement.set_flag(page, PageState::IN_FLIGHT, true);
        }
    }

    /// Approves what can be moved of a run, by maximal stretches; the rest is counted as rejected.
    fn consider_migration(&mut self, run: PageRun, to: TierId, lane: Lane) {
        if let Err(reason) = self.check_tier(to) {
            self.reject(reason, run.pages);
            return;
        }
        let mut stretch: Option<PageRun> = None;
        let mut next = run.start.0;
        while next < run.end() {
            let page = PageId(next);
            let state = self.placement.state(page);
            let folio = page.region().run();
            let (unit, checked) = if !state.is_huge() {
                (PageRun::single(page), self.check_move(page, to, 1))
            } else if run.intersect(folio) == folio {
                (folio, self.check_move(page, to, HUGE_PAGES))
            } else {
                (run.intersect(PageRun::between(next, folio.end())), Err(Rejected::PartialFolio))
            };
            next = unit.end();
            match checked {
                Ok(()) => {
                    self.placement.reserve(to, unit.pages);
                    self.mark_in_flight(unit);
                    match &mut stretch {
                        Some(s) => s.pages += unit.pages,
                        None => stretch = Some(unit),
                    }
                }
                Err(reason) => {
                    self.reject(reason, unit.pages);
                    self.start_move(stretch.take(), to, lane);
                }
            }
        }
        self.start_move(stretch, to, lane);
    }

    fn start_move(&mut self, run: Option<PageRun>, to: TierId, lane: Lane) {
        let Some(run) = run else { return };
        let id = MoveId(self.next_move);
        self.next_move += 1;
        self.stats.approved_pages += u64::from(run.pages);
        self.in_flight.insert(id, InFlight::new(run, to));
        self.actions.push_back(Action::Migrate { id, run, to, lane });
    }

    fn check_tier(&self, tier: TierId) -> Result<(), Rejected> {
        if tier.index() < self.view().tiers() { Ok(()) } else { Err(Rejected::UnknownTier) }
    }

    /// Whether an approved action waits for the page. Memory that was freed and allocated anew has
    /// lost its flag, yet the report about its region is still to come.
    fn is_busy(&self, page: PageId) -> bool {
        self.placement.state(page).is_in_flight()
            || !self.reshaping.is_empty() && self.reshaping.contains_key(&page.region())
    }

    /// Whether an approved action waits for a page that moves with this one. A folio that others have
    /// built since may hold a page that is being moved by itself.
    fn is_unit_busy(&self, page: PageId) -> bool {
        let in_flight = |page| self.placement.state(page).is_in_flight();
        self.is_busy(page)
            || self.placement.state(page).is_huge() && page.region().run().iter().any(in_flight)
    }

    fn check_room(&self, to: TierId, pages: u32) -> Result<(), Rejected> {
        let newborn = if to == TierId::FAST { self.newborn_room } else { 0 };
        let keep_free = self.view().limits(to).keep_free.0.saturating_add(newborn);
        let room = self.placement.free(to).0 >= keep_free.saturating_add(pages.into());
        if room { Ok(()) } else { Err(Rejected::NoRoom) }
    }

    fn check_move(&mut self, page: PageId, to: TierId, pages: u32) -> Result<(), Rejected> {
        let state = self.placement.state(page);
        let from = state.tier().ok_or(Rejected::NotResident)?;
        if self.is_unit_busy(page) {
            return Err(Rejected::InFlight);
        }
        if from == to {
            return Err(Rejected::AlreadyThere);
        }
        self.check_room(to, pages)?;
        let bytes = PageCount(u64::from(pages)).bytes();
        if self.budget.take(bytes) { Ok(()) } else { Err(Rejected::RateBudget) }
    }

    fn check_split(&self, region: Region) -> Result<(), Rejected> {
        let state = self.placement.state(region.first());
        if !state.is_huge() {
            Err(Rejected::NotHuge)
        } else if self.is_unit_busy(region.first()) {
            Err(Rejected::InFlight)
        } else {
            Ok(())
        }
    }

    fn check_collapse(&self, region: Region, to: TierId) -> Result<(), Rejected> {
        self.check_tier(to)?;
        for page in region.run().iter() {
            let state = self.placement.state(page);
            if !state.is_resident() {
                return Err(Rejected::NotResident);
            }
            if state.is_huge() {
                return Err(Rejected::AlreadyThere);
            }
            if self.is_busy(page) {
                return Err(Rejected::InFlight);
            }
        }
        self.check_room(to, HUGE_PAGES)
    }

    fn reject(&mut self, reason: Rejected, pages: u32) {
        self.stats.rejected[reason as usize] += u64::from(pages);
    }
}
