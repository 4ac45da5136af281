//! Daemon: the loop that couples an engine to a system.

use crate::accounts::{Account, Accounts};
use crate::address_map::AddressMap;
use crate::ages::Cold;
use crate::audit::Audit;
use crate::budget::Budget;
use crate::context::Cx;
use crate::goal::Goal;
use crate::heat::Part;
use crate::ledger::{Ledger, Purpose};
use crate::limit::Limit;
use crate::limits::Limits;
use crate::loss::Loss;
use crate::losses::Losses;
use crate::moving::Wanted;
use crate::observer::Observer;
use crate::rush::Rush;
use crate::settings::{REPORT, STEP, Settings};
use crate::space::Space;
use crate::spaces::{Audits, Spaces};
use crate::system::System;
use crate::{arming, folios, touches};
use alloc::vec::Vec;
use frostline_core::Engine;
use frostline_core::action::Action;
use frostline_core::event::{Event, SampleKind};
use frostline_core::types::*;

/// Free memory that must remain when pages are brought back.
const KEPT_FREE: Bytes = Bytes(256 << 20);

/// Manages the memory of processes of a system by what an engine wants.
pub struct Daemon {
    settings: Settings,
    ledger: Ledger,
    budget: Budget,
    spaces: Spaces,
    audit: Audit,
    limits: Limits,
    observer: Observer,
    losses: Losses,
    rush: Rush,
    now: Nanos,
    report_due: Nanos,
}

/// Parts that are given a context.
struct Parts<'a> {
    spaces: &'a mut Spaces,
    audit: &'a mut Audit,
    limits: &'a mut Limits,
    observer: &'a mut Observer,
    losses: &'a mut Losses,
    rush: &'a mut Rush,
}

impl Daemon {
    /// A daemon that has looked at nothing yet.
    pub fn new(engine: Engine, settings: Settings, system: &impl System) -> Self {
        let period = engine.facts().needs.load_sample_period;
        Self {
            losses: Losses::new(settings.goal, period),
            rush: Rush::default(),
            ledger: Ledger::new(engine, &settings),
            budget: Budget::new(&settings, system.cpu()),
            spaces: Spaces::default(),
            audit: Audit::default(),
            limits: Limits::new(&settings),
            observer: Observer::new(&settings, system.watchers()),
            now: Nanos::ZERO,
            report_due: Nanos::ZERO,
            settings,
        }
    }

    /// Does what is due at `now`, in nanoseconds since the daemon began, and returns when it wants
    /// to be called again: at `now` where there is more to do than fits into a step.
    ///
    /// # Errors
    /// Those of the system.
    pub fn step<S: System>(&mut self, now: Nanos, system: &mut S) -> Result<Nanos, S::Error> {
        let passed = now.saturating_sub(self.now);
        self.now = now;
        self.budget.begin(now, system.cpu());
        let reports = now >= self.report_due;
        if reports {
            self.report_due = now.saturating_add(REPORT);
        }
        let limited = self.keep_goal(now, reports, system)?;
        let (cx, Parts { spaces, audit, limits, observer, losses, rush }) = &mut self.parts(system);
        spaces.follow(cx)?;
        let mut events = Vec::new();
        if cx.budget.refreshes.allows(now) {
            cx.budget.refreshes.begin(now, cx.system.cpu());
            spaces.refresh(cx, &mut events)?;
            rush.note(now, &events);
            // Limits are shares of what the engine knows to be there.
            cx.tell(core::mem::take(&mut events))?;
            cx.budget.refreshes.end(cx.system.cpu());
        }
        cx.charge_hearing();
        if reports || limited {
            tell_usage(cx, &mut events)?;
        }
        if reports {
            let (now, view) = (cx.now, cx.ledger.engine.view());
            let slow = view.resident().saturating_sub(view.used(TierId::FAST));
            cx.ledger.slow_touches.follow(now, slow, view.resident());
            observer.report(cx, &mut events);
            arming::arm_again(cx, spaces, &mut events);
        }
        arming::drain_faults(cx, &mut limits.referenced, &mut events)?;
        observer.listen(cx, &mut limits.referenced, &mut events)?;
        cx.system.hear(now, &mut events)?;
        audit.go_on(cx, spaces, &mut events)?;
        rush.note(now, &events);
        cx.tell(events)?;
        cx.charge_hearing();
        rush.bring_in(cx)?;
        work(cx, spaces, observer, losses)?;
        limits.keep(cx)?;
        limits.probe(cx, passed)?;
        arming::allow_moves_at_touch(cx);
        cx.charge();
        observer.assign(cx)?;
        if cx.budget.pacer.ends_turn() {
            return Ok(now);
        }
        let policy = cx.ledger.engine.poll_timeout().unwrap_or(Nanos::MAX);
        let (soonest, step) = (now.saturating_add(Nanos(STEP.0 / 10)), now.saturating_add(STEP));
        // A policy that wants to be called all the time waits where the share is used up: nothing
        // of what it wants would be done.
        let waits = policy < soonest && !cx.budget.pacer.allows();
        Ok(if waits { step } else { policy.max(soonest).min(step) })
    }

    /// Brings all that is in swap back into memory, as far as there is free memory for it, and room
    /// where it is counted: what was set up can be taken down then. Calls `progress` with the bytes
    /// that are left, and stops where it answers false.
    ///
    /// # Errors
    /// Those of the system.
    pub fn bring_back<S: System>(
        &mut self,
        system: &mut S,
        mut progress: impl FnMut(Bytes) -> bool,
    ) -> Result<(), S::Error> {
        let Some(swap) = self.settings.swap.filter(|_| !self.settings.dry_run) else {
            return Ok(());
        };
        let (mut cx, _) = self.parts(system);
        let mut left = cx.ledger.engine.view().used(swap);
        let mut next = 0;
        while next < cx.ledger.map.pages() && progress(left.bytes()) {
            let run = Region(next / HUGE_PAGES).run();
            next = run.end();
            let view = cx.ledger.engine.view();
            let out = |page: PageId| view.state(page).tier() == Some(swap);
            let runs: Vec<PageRun> = run.iter().filter(|p| out(*p)).map(PageRun::single).collect();
            let wanted = PageCount(runs.len() as u64);
            let free = cx.system.available()?;
            if free < wanted.bytes().saturating_add(KEPT_FREE) {
                return Ok(());
            }
            cx.migrate(&runs, TierId::FAST, Purpose::Return)?;
            left = left.saturating_sub(wanted);
        }
        Ok(())
    }

    /// Measures what the targets lose, and sets the limit of fast memory by their goal; whether it did.
    fn keep_goal<S: System>(
        &mut self,
        now: Nanos,
        reports: bool,
        system: &mut S,
    ) -> Result<bool, S::Error> {
        let raised = self.losses.step(now, &self.ledger);
        self.budget.rushes = self.rush.follow(now, self.losses.rushes());
        let limit = match reports {
            true => {
                let limit = self.losses.second(now, &self.settings, &mut self.ledger, system)?;
                self.budget.ease = self.losses.ease;
                self.limits.probes = self.losses.probes;
                limit
            }
            false => None,
        };
        let Some(limit) = limit.or(raised) else { return Ok(false) };
        if let Some(fast) = self.settings.tiers.first_mut() {
            fast.limit = Some(limit);
        }
        Ok(true)
    }

    /// The context of a step, and the parts that are not in it.
    fn parts<'a, S: System>(&'a mut self, system: &'a mut S) -> (Cx<'a, S>, Parts<'a>) {
        let Self {
            settings,
            ledger,
            budget,
            spaces,
            audit,
            limits,
            observer,
            losses,
            rush,
            now,
            ..
        } = self;
        let cx = Cx { now: *now, settings, system, ledger, budget };
        (cx, Parts { spaces, audit, limits, observer, losses, rush })
    }

    /// Another limit of fast memory, which is one above that of the goal where there is one, and `least` the one below;
    /// takes effect within a second.
    pub fn set_fast(&mut self, fast: Limit, least: Option<Limit>) {
        match (&mut self.losses.controller, self.settings.tiers.first_mut()) {
            (Some(controller), _) => {
                let most_loss = controller.goal().most_loss;
                controller.set_goal(Goal { most_loss, floor: least, ceiling: Some(fast) });
            }
            (None, Some(tier)) => tier.limit = Some(fast),
            (None, None) => {}
        }
    }

    /// Slowdown that is kept to.
    pub fn goal(&self) -> Option<Goal> {
        Some(self.losses.controller.as_ref()?.goal())
    }

    /// What the targets have lost since the start; `None` where it is not measured, and in the first seconds.
    pub fn loss(&self) -> Option<Loss> {
        self.losses.meter.loss().map(|loss| self.as_known(loss))
    }

    /// The same, of the last half minute.
    pub fn latest_loss(&self) -> Option<Loss> {
        self.losses.meter.latest_loss().map(|loss| self.as_known(loss))
    }

    /// Pages that could be in swap, more of them by each entry, and what that would cost: as far as all memory is swept for
    /// access bits, and there is no slow memory but swap.
    pub fn cold(&self) -> &[Cold] {
        &self.losses.cold
    }

    /// Whether loads from slow memory are estimated from touches of pages.
    pub fn estimates_loads(&self) -> bool {
        self.settings.node_loads.is_some_and(|loads| !loads.sampled)
    }

    fn as_known(&self, loss: Loss) -> Loss {
        if self.estimates_loads() { loss.within(touches::WITHIN) } else { loss }
    }

    /// Whether what is seen shall be kept until it is [taken](Self::take_touch_log).
    pub fn set_touch_log(&mut self, on: bool) {
        self.observer.set_touch_log(on);
    }

    /// Pages of all processes that were touched since the last time.
    pub fn take_touch_log(&mut self) -> Vec<Vpn> {
        self.observer.take_touch_log()
    }

    /// Gives up room that buffers do not use.
    pub fn release_buffers(&mut self) {
        self.ledger.queue.shrink();
    }

    /// Appends an action to those that wait to be carried out.
    pub fn want(&mut self, action: Action) {
        self.ledger.queue.push(action);
    }

    /// Actions that wait to be carried out.
    pub fn waiting(&self) -> u64 {
        self.ledger.queue.len() as u64
    }

    /// Settings that are in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The engine that decides.
    pub fn engine(&self) -> &Engine {
        &self.ledger.engine
    }

    /// Ids of pages.
    pub fn map(&self) -> &AddressMap {
        &self.ledger.map
    }

    /// Where memory is touched: all of it, ascending by address, in at most so many parts.
    pub fn heat(&self, most: usize) -> Vec<Part> {
        self.ledger.heat.parts(&self.ledger.map, most)
    }

    /// Processes that are managed, and their address space.
    pub fn spaces(&self) -> impl Iterator<Item = (ProcessId, &Space)> {
        self.spaces.processes.iter().map(|(process, space)| (*process, space))
    }

    /// All moves since the start.
    pub fn accounts(&self) -> Accounts {
        self.ledger.accounts
    }

    /// Moves towards each tier since the start.
    pub fn arrivals(&self) -> &[Account] {
        &self.ledger.arrivals
    }

    /// Looks into page tables since the start.
    pub fn audits(&self) -> Audits {
        self.spaces.audits
    }

    /// Pages that lie so scattered that they were left where they are, in the last round.
    pub fn scattered(&self) -> PageCount {
        self.spaces.numbering.left_alone()
    }

    /// For how long fast memory has been exceeded by more than 2 %.
    pub fn over_limit(&self) -> Nanos {
        self.budget.over_limit(self.now)
    }

    /// Time of the last step.
    pub fn now(&self) -> Nanos {
        self.now
    }
}

/// Carries out what the policy wants, as far as the daemon's share of a core goes.
fn work<S: System>(
    cx: &mut Cx<'_, S>,
    spaces: &mut Spaces,
    observer: &mut Observer,
    losses: &mut Losses,
) -> Result<(), S::Error> {
    while cx.budget.pacer.allows() {
        let Some(action) = cx.ledger.queue.pop() else { return Ok(()) };
        let (mut events, mut arrived) = (Vec::new(), Vec::new());
        match action {
            Action::Migrate { id, run, to, lane } => {
                (arrived, events) = cx.migrate_wanted(Wanted { id, run, to, lane })?;
            }
            Action::Split { region, .. } => events = folios::split(cx, spaces, region)?,
            Action::Collapse { region, to, .. } => events = folios::collapse(cx, region, to)?,
            Action::SetSampling { kind, period } => {
                if kind == SampleKind::LoadMiss {
                    losses.set_period(period);
                }
                cx.system.set_period(kind, period);
            }
            Action::Scan { scan, lane } => {
                observer.scans.push(scan, lane, cx.ledger.map.pages());
                // To ask for the time takes longer, and a policy may want hundreds at a time.
                continue;
            }
            Action::Arm { run, .. } => arming::arm_next(cx, spaces, run),
            Action::Disarm { run, .. } => arming::disarm(cx, run),
            Action::DemoteFile { file, lane } => {
                if !cx.system.demote_file(file, &mut cx.ledger.accounts.files)? {
                    cx.ledger.queue.push_front(Action::DemoteFile { file, lane });
                }
            }
        }
        cx.tell(events)?;
        arming::arm(cx, spaces, &arrived);
        cx.charge();
    }
    Ok(())
}

/// Tells the sizes of tiers that have changed.
fn tell_usage<S: System>(cx: &Cx<'_, S>, events: &mut Vec<Event>) -> Result<(), S::Error> {
    let view = cx.ledger.engine.view();
    let footprint = view.resident().bytes();
    for (index, settings) in cx.settings.tiers.iter().enumerate() {
        let tier = TierId(index as u8);
        let used = view.used(tier);
        let most = settings.limit.map_or(Bytes::MAX, |limit| limit.bytes(footprint)).pages();
        let capacity = used.saturating_add(cx.system.free(tier, used)?).min(most);
        if view.limits(tier).capacity != capacity {
            events.push(Event::TierUsage { tier, capacity });
        }
    }
    Ok(())
}
