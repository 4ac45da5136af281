//! Daemon of the live system, hosted by the modelled machine.
//!
//! The machine's kernel gives memory as one without tiering does and knows nothing of limits. The daemon is the one
//! that runs live: it learns of mappings when it reads them, of pages when it looks them up, and of
//! accesses by samples, and it moves pages by calls. What is modelled here is what a system does for
//! it, and how long that takes. A step takes effect when it begins; then the program waits for its
//! processor time, or the daemon's own core is busy for as long.

use super::kernel::Kernel;
use super::time::Wait;
use crate::options::HostedDaemon;
use frostline_core::Engine;
use frostline_core::event::{Backing, Event, MoveCause, MoveOutcome, SampleKind};
use frostline_core::mappings;
use frostline_core::span::{ExtentChange, Span, push_run};
use frostline_core::types::*;
use frostline_daemon::{
    Assignment, Change, Daemon, Found, INTERRUPTION, Limit, LogEntry, Refreshed, Sampling,
    Settings, Spent, System, Tier, Touch, Unit,
};
use std::collections::BTreeSet;
use std::convert::Infallible;

/// Free memory of the whole machine: what it has beside its tiers is ample.
const AVAILABLE: Bytes = Bytes(1 << 40);

/// A daemon, and what the machine knows of it.
pub(super) struct Hosted {
    daemon: Daemon,
    hands: Hands,
}

/// What the machine does for a daemon.
#[derive(Debug, Default)]
struct Hands {
    managed: BTreeSet<ProcessId>,
    /// Resident pages when they were last found to be another number.
    resident: u64,
    /// Processor time of the daemon, in nanoseconds, by whether it went into moves.
    cpu_ns: [f64; 2],
    /// Part of it that went into taking samples.
    sampler_ns: f64,
}

const LOOKING: usize = 0;
const MOVING: usize = 1;

impl Hosted {
    /// A daemon that has seen nothing decides from now on, with this engine.
    pub(super) fn new(engine: Engine, options: &HostedDaemon, kernel: &mut Kernel<'_>) -> Self {
        let view = engine.view();
        let tiers = (0..view.tiers()).map(|index| {
            let limits = view.limits(TierId(index as u8));
            let limit = (index == 0).then(|| Limit::Size(limits.capacity.bytes()));
            Tier { limit, direct: limits.direct_access }
        });
        let tiers: Vec<Tier> = tiers.collect();
        let swap = tiers.iter().rposition(|tier| !tier.direct);
        let settings = Settings {
            tiers,
            swap: swap.map(|index| TierId(index as u8)),
            cpu_share: options.cpu_share,
            settling_cpu_share: options.settling_cpu_share,
            dry_run: false,
            reclaims: true,
            probes: false,
            answers: false,
            hinted: false,
            wants_samples: engine.facts().needs.load_sample_period > 0,
            counts: engine.facts().needs.counters,
            goal: options.goal,
            node_loads: None,
            interruption: INTERRUPTION,
            seed: kernel.setup.options.seed,
        };
        let mut hands = Hands::default();
        let daemon = Daemon::new(engine, settings, &Modelled { kernel, hands: &mut hands });
        kernel.daemon_due = kernel.setup.machine.costs.start_ns as u64;
        kernel.after_events();
        Self { daemon, hands }
    }

    /// What the daemon does now.
    pub(super) fn step(&mut self, kernel: &mut Kernel<'_>) {
        let now = kernel.now();
        let before = self.hands.cpu_ns;
        let Ok(next) = self.daemon.step(now, &mut Modelled { kernel, hands: &mut self.hands });
        let [looked, moved] = [LOOKING, MOVING].map(|what| self.hands.cpu_ns[what] - before[what]);
        kernel.time.work(Wait::Scan, looked);
        kernel.time.work(Wait::Migrate, moved);
        let taken = Nanos((looked + moved) as u64);
        // Who shares a core with the program has waited for a turn as long as it took one.
        let turns = if kernel.setup.shares_cores() { 2 } else { 1 };
        kernel.daemon_due = next.max(now.saturating_add(Nanos(taken.0 * turns))).0;
        kernel.note_peaks();
        kernel.after_events();
    }

    /// The engine that decides.
    pub(super) fn engine(&self) -> &Engine {
        self.daemon.engine()
    }

    /// Processor time so far, in nanoseconds.
    pub(super) fn cpu_ns(&self) -> f64 {
        self.hands.cpu_ns.iter().sum()
    }

    /// Pages that the daemon has had moved to make room.
    pub(super) fn reclaimed(&self) -> u64 {
        Bytes(self.daemon.accounts().reclaimed.verified_bytes).pages().0
    }
}

/// The machine as the system of a daemon, for one step.
struct Modelled<'k, 'o> {
    kernel: &'k mut Kernel<'o>,
    hands: &'k mut Hands,
}

impl Modelled<'_, '_> {
    fn spend(&mut self, what: usize, ns: f64) {
        self.hands.cpu_ns[what] += ns;
    }

    /// A call moves the page, and the folio that holds it, to a tier. Gives the pages from there on
    /// of which the outcome is known, at most `most`, and the time that it takes.
    fn move_by_call(&mut self, page: PageId, to: TierId, most: u64) -> (u64, MoveOutcome, f64) {
        let unit = self.kernel.unit(page);
        let pages = u64::from(unit.end() - page.0).min(most);
        let view = self.kernel.engine.view();
        let Some(from) = view.state(page).tier() else { return (1, MoveOutcome::Gone, 0.0) };
        if from == to {
            return (pages, MoveOutcome::Moved, 0.0);
        }
        let has_room = view.free(to).0 >= u64::from(unit.pages);
        if self.kernel.faults.busy.strikes() {
            return (pages, MoveOutcome::Busy, 0.0);
        }
        let has_block = unit.pages == 1 || self.kernel.frames.has_huge(to);
        self.kernel.sums.huge_frame_shortages += u64::from(!has_block);
        if !has_room || !has_block {
            return (pages, MoveOutcome::NoSpace, 0.0);
        }
        let ns = if self.kernel.serves(from) && self.kernel.serves(to) {
            self.kernel.setup.move_ns(unit, from, to)
        } else {
            f64::from(unit.pages) * self.kernel.setup.machine.swap_ns(from.index(), to.index())
        };
        self.kernel.relocate(unit, from, to);
        self.kernel.translations.forget(unit);
        self.kernel.pending.push(Event::Moved { run: unit, to, cause: MoveCause::Unknown });
        self.kernel.tell();
        (pages, MoveOutcome::Moved, ns)
    }

    /// The folio of a region becomes base pages, all of which stay; whether it was one.
    fn split_by_call(&mut self, region: Region) -> bool {
        let state = self.kernel.engine.view().state(region.first());
        let Some(tier) = state.tier().filter(|_| state.is_huge()) else { return false };
        if self.kernel.faults.busy.strikes() {
            return false;
        }
        self.remap_region(region, tier, false);
        true
    }

    /// The pages of a region become a folio, in the tier that holds most of them; whether they did.
    fn collapse_by_call(&mut self, region: Region) -> bool {
        let run = region.run();
        let view = self.kernel.engine.view();
        let tiers: Option<Vec<TierId>> = run.iter().map(|page| view.state(page).tier()).collect();
        let Some(from) = tiers.filter(|_| !view.state(run.start).is_huge()) else { return false };
        let held = |tier: &TierId| from.iter().filter(|held| *held == tier).count();
        let Some(to) = (0..view.tiers() as u8).map(TierId).max_by_key(held) else { return false };
        let others = (from.len() - held(&to)) as u64;
        let can = self.kernel.setup.machine.os.collapse && view.free(to).0 >= others;
        if !can || self.kernel.faults.busy.strikes() || !self.kernel.take_huge_frame(region, to) {
            return false;
        }
        for (page, from) in run.iter().zip(from).filter(|(_, from)| *from != to) {
            self.kernel.account_move(PageRun::single(page), from, to);
        }
        self.remap_region(region, to, true);
        true
    }

    fn remap_region(&mut self, region: Region, tier: TierId, huge: bool) {
        let run = region.run();
        self.kernel.shootdown_by_worker(run, 1);
        self.kernel.pending.push(Event::Freed { run });
        self.kernel.pending.push(Event::Populated { run, tier, huge });
        self.kernel.tell();
    }
}

impl System for Modelled<'_, '_> {
    type Error = Infallible;

    fn cpu(&self) -> Nanos {
        Nanos(self.hands.cpu_ns.iter().sum::<f64>() as u64)
    }

    /// The modelled time, of which all is lost that it would not take with all memory fast.
    fn spent(&mut self) -> Result<Option<Spent>, Infallible> {
        let time = &self.kernel.time;
        let [fast_ns, _] = time.references_ns();
        let lost = Nanos((time.ns - fast_ns).max(0.0) as u64);
        let busy = Nanos(time.ns as u64);
        Ok(Some(Spent { busy, swap_in: lost, kernel: lost, ..Spent::default() }))
    }

    fn follow(&mut self, _: &mut Vec<(ProcessId, Change)>) -> Result<(), Infallible> {
        // Nothing is told at once. What every step costs is counted here.
        self.spend(LOOKING, self.kernel.setup.machine.costs.step_ns);
        Ok(())
    }

    fn refresh(&mut self, changes: &mut Vec<(ProcessId, Change)>) -> Result<Refreshed, Infallible> {
        let running: BTreeSet<ProcessId> = self.kernel.space.running().collect();
        let managed = std::mem::replace(&mut self.hands.managed, running);
        let running = &self.hands.managed;
        changes.extend(managed.difference(running).map(|process| (*process, Change::Ended)));
        changes.extend(running.difference(&managed).map(|process| (*process, Change::Began)));
        let resident = self.kernel.engine.view().resident();
        let changed = Refreshed::is_other_size(self.hands.resident, resident.0);
        if changed {
            self.hands.resident = resident.0;
        }
        Ok(Refreshed { resident: PageCount(self.hands.resident), changed })
    }

    fn mappings(
        &mut self,
        process: ProcessId,
        known: &[Span],
        left_out: &[Span],
        changes: &mut Vec<ExtentChange>,
    ) -> Result<bool, Infallible> {
        changes.extend(mappings::changes(self.kernel.space.private(process), known, left_out));
        Ok(self.hands.managed.contains(&process))
    }

    fn backing(&self, process: ProcessId, parts: &[Span]) -> Vec<(Span, Backing)> {
        mappings::backing(self.kernel.space.private(process), parts)
    }

    fn reopen(&mut self, process: ProcessId) -> bool {
        self.hands.managed.contains(&process)
    }

    fn find(
        &mut self,
        process: ProcessId,
        span: Span,
        most: u64,
        runs: &mut Vec<(Span, Found)>,
    ) -> Result<Option<Span>, Infallible> {
        if !self.hands.managed.contains(&process) {
            return Ok(None);
        }
        let view = self.kernel.engine.view();
        let (mut found, mut entries, mut end) = (0, 0u64, span.end());
        for (start, run) in self.kernel.space.pages(process, span) {
            if found >= most {
                end = start;
                break;
            }
            for (vpn, page) in (start.0..).map(Vpn).zip(run.iter()) {
                let state = view.state(page);
                let Some(tier) = state.tier() else { continue };
                let huge = state.is_huge();
                found += 1;
                entries += u64::from(!huge || page == run.start);
                push_run(runs, Span::single(vpn), Found { tier, huge });
            }
        }
        self.spend(LOOKING, entries as f64 * self.kernel.setup.machine.costs.lookup_ns);
        Ok(Some(Span::between(span.start, end)))
    }

    fn move_to(
        &mut self,
        process: ProcessId,
        units: &[Unit],
        to: TierId,
        _: PageCount,
        outcomes: &mut Vec<(Span, MoveOutcome)>,
    ) -> Result<(), Infallible> {
        let full = self.kernel.faults.full.strikes();
        let (mut folios, mut ns) = (0u32, 0.0);
        for unit in units {
            let mut next = unit.span.start;
            while next < unit.span.end() {
                let left = unit.span.end().0 - next.0;
                let (pages, outcome, taken_ns) = match self.kernel.space.page(process, next) {
                    None => (1, MoveOutcome::Gone, 0.0),
                    Some(_) if full => (1, MoveOutcome::NoSpace, 0.0),
                    Some(page) => self.move_by_call(page, to, left),
                };
                folios += 1;
                ns += taken_ns;
                push_run(outcomes, Span::new(next, pages), outcome);
                next = Vpn(next.0 + pages);
            }
        }
        let costs = &self.kernel.setup.machine.costs;
        ns += f64::from(folios.div_ceil(costs.migrate_call_folios)) * costs.migrate_call_ns;
        if ns > 0.0 {
            let nothing = PageRun { start: PageId(0), pages: 0 };
            ns += if self.kernel.setup.shares_cores() { costs.shootdown_ns } else { 0.0 };
            self.kernel.shootdown_by_worker(nothing, 1);
        }
        self.spend(MOVING, ns);
        Ok(())
    }

    fn reshape(&mut self, process: ProcessId, page: Vpn, split: bool) -> Result<bool, Infallible> {
        let Some(page) = self.kernel.space.page(process, page) else { return Ok(false) };
        let costs = &self.kernel.setup.machine.costs;
        self.spend(MOVING, if split { costs.split_ns } else { costs.collapse_ns });
        Ok(match split {
            true => self.split_by_call(page.region()),
            false => self.collapse_by_call(page.region()),
        })
    }

    fn free(&self, tier: TierId, _: PageCount) -> Result<PageCount, Infallible> {
        // As live, where the policy's limit alone counts: what the kernel has left does not go with what is known of
        // the program so far.
        Ok(match tier {
            TierId::FAST => PageCount(u64::MAX),
            _ => self.kernel.engine.view().free(tier),
        })
    }

    fn available(&mut self) -> Result<Bytes, Infallible> {
        Ok(AVAILABLE)
    }

    fn poll(&mut self, touches: &mut Vec<Touch>) -> Result<(), Infallible> {
        let taken = self.kernel.sampling.take_touches();
        let ns = taken.len() as f64 * self.kernel.setup.machine.costs.sample_cpu_ns;
        self.hands.sampler_ns += ns;
        self.kernel.sampling.sums.sampler_cpu += ns;
        self.spend(LOOKING, ns);
        touches.extend(taken);
        Ok(())
    }

    fn sampling(&self) -> Sampling {
        Sampling {
            cpu: Nanos(self.hands.sampler_ns as u64),
            lost: self.kernel.sampling.lost_by_daemon(),
            ..Sampling::default()
        }
    }

    fn set_period(&mut self, kind: SampleKind, period: u32) {
        self.kernel.sampling.set_period(kind, period);
    }

    fn watchers(&self) -> usize {
        0
    }

    fn wants_pages(&self, _: usize, _: Nanos) -> usize {
        0
    }

    fn watch(&mut self, _: usize, _: Nanos, _: Assignment<'_>) -> Result<(), Infallible> {
        Ok(())
    }

    fn record(&mut self, told: LogEntry<'_>) -> Result<(), Infallible> {
        let LogEntry::Events(_, events) = told else { return Ok(()) };
        let costs = &self.kernel.setup.machine.costs;
        let ns = |event: &Event| match event {
            Event::Populated { run, .. } => f64::from(run.pages) * costs.found_ns,
            Event::Sample(_) => costs.sample_policy_ns,
            _ => 0.0,
        };
        let ns = events.iter().map(ns).sum();
        self.spend(LOOKING, ns);
        Ok(())
    }
}
