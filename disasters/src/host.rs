//! Host of a daemon: a kernel in which things go wrong, at any call.

use crate::disaster::{Disaster, Tally, Without};
use crate::kernel::{HUGE, Kernel, tier_of};
use crate::programs;
use crate::record::Record;
use frostline_core::event::{Backing, MoveOutcome, SampleKind};
use frostline_core::mappings;
use frostline_core::rng::Rng;
use frostline_core::span::{ExtentChange, Span, push_run};
use frostline_core::types::*;
use frostline_daemon::{
    ArmedTouch, Assignment, Change, Found, LogEntry, Refreshed, Sampling, Spent, System, Touch,
    TouchKind, Unit,
};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

/// Pages that can be armed.
const MOST_ARMED: usize = 128;

/// Why a daemon ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Rights were lost.
    NotPermitted,
    /// It did what it must not do.
    Wrong(String),
}

/// Abilities of a host that differ between runs.
#[derive(Clone, Copy, Debug)]
pub struct Abilities {
    /// Calls of processes are told at once.
    pub follows: bool,
    /// The next touch of pages can be told.
    pub arms: bool,
    /// All that is touched in slower tiers is seen.
    pub sees_slower_tiers: bool,
}

/// Injector of disasters, from a seed.
#[derive(Debug)]
pub struct Injector {
    /// For what is done.
    pub rng: Rng,
    /// How often each disaster has happened.
    pub tally: Tally,
    /// Disasters that do not happen.
    pub without: Without,
    /// Nothing goes wrong now.
    pub calm: bool,
}

impl Injector {
    /// Whether a disaster happens, at one chance in `one_in`. The number is drawn in any case, so that the
    /// rest is the same without it.
    pub fn strikes(&mut self, disaster: Disaster, one_in: u64) -> bool {
        let strikes = self.rng.below(one_in) == 0 && !self.calm && !self.without.has(disaster);
        if strikes {
            self.tally.count(disaster);
        }
        strikes
    }
}

/// See the module.
pub struct Host {
    /// The truth.
    pub kernel: Kernel,
    /// What goes wrong.
    pub injector: Injector,
    /// What the daemon was heard to want.
    pub record: Record,
    abilities: Abilities,
    /// Processes that are managed, with the page table that is open.
    managed: BTreeMap<u32, u64>,
    /// Calls that were not told yet.
    calls: Vec<(ProcessId, Change)>,
    armed: BTreeSet<(u32, u64)>,
    armed_touches: Vec<ArmedTouch>,
    destination: Option<(TierId, u64)>,
    touches: Vec<Touch>,
    watched: BTreeSet<(u32, u64)>,
    lost: u64,
    spent: Spent,
    cpu: Cell<u64>,
    /// Does not see slower tiers. Shows that what is wrong is found.
    pub is_blind: bool,
}

impl Host {
    /// Of a kernel.
    pub fn new(kernel: Kernel, injector: Injector, abilities: Abilities) -> Self {
        Self {
            kernel,
            injector,
            record: Record::default(),
            abilities,
            managed: BTreeMap::new(),
            calls: Vec::new(),
            armed: BTreeSet::new(),
            armed_touches: Vec::new(),
            destination: None,
            touches: Vec::new(),
            watched: BTreeSet::new(),
            lost: 0,
            spent: Spent::default(),
            cpu: Cell::new(0),
            is_blind: false,
        }
    }

    /// A daemon has gone; the next one knows nothing.
    pub fn forget_all(&mut self) {
        self.record = Record::default();
        self.managed.clear();
        self.calls.clear();
        self.armed.clear();
        self.armed_touches.clear();
        self.destination = None;
        self.touches.clear();
        self.watched.clear();
    }

    /// Takes note of a call that a process has made, or not.
    pub fn called(&mut self, pid: u32, change: Change) {
        if !self.abilities.follows || !self.managed.contains_key(&pid) {
            return;
        }
        if !self.injector.strikes(Disaster::LostCalls, 64) {
            self.calls.push((ProcessId(pid), change));
        }
    }

    /// A process touches a page.
    pub fn touch(&mut self, pid: u32, vpn: Vpn, write: bool) {
        let Some(tier) = self.kernel.touch(pid, vpn) else { return };
        let direct = Some(tier) != self.kernel.swap;
        if self.armed.remove(&(pid, vpn.0)) {
            let mut moved = false;
            if let Some((to, room)) = &mut self.destination
                && *room > 0
                && tier != *to
            {
                moved = self.kernel.move_to(pid, vpn, *to);
                *room -= u64::from(moved);
            }
            self.armed_touches.push(ArmedTouch {
                process: ProcessId(pid),
                page: vpn,
                write,
                moved,
            });
        }
        let kind = match direct {
            false => TouchKind::Refault,
            true if self.watched.contains(&(pid, vpn.0)) => {
                TouchKind::Sample(SampleKind::LoadMiss.into())
            }
            true if tier != TierId::FAST && self.injector.rng.below(4) == 0 => TouchKind::Fault,
            true if self.abilities.sees_slower_tiers => {
                TouchKind::Sample(SampleKind::LoadMiss.into())
            }
            true => return,
        };
        if self.injector.strikes(Disaster::LostSamples, 16) {
            self.lost += 1;
        } else {
            self.touches.push(Touch { pid, page: vpn, kind });
        }
    }

    /// Whether the next touch of a page is told.
    pub fn is_armed(&self, pid: u32, vpn: Vpn) -> bool {
        self.armed.contains(&(pid, vpn.0))
    }

    /// Others move a page. One that is taken out of its place they do not find.
    pub fn moved_by_others(&mut self, pid: u32, vpn: Vpn, to: TierId) {
        if !self.is_armed(pid, vpn) {
            self.kernel.move_to(pid, vpn, to);
        }
    }

    /// Processor time goes to somebody else on the same thread.
    pub fn spend(&mut self, ns: u64) {
        self.cpu.set(self.cpu.get() + ns);
    }

    /// Processor time that the daemon has used.
    pub fn spent(&self) -> u64 {
        self.cpu.get()
    }

    /// Pages of a process that are gone are armed no longer.
    pub fn disarm_gone(&mut self, pid: u32) {
        let Self { armed, kernel, .. } = self;
        let process = kernel.processes.get(&pid);
        armed.retain(|(owner, vpn)| {
            *owner != pid || process.is_some_and(|process| process.page(Vpn(*vpn)) != 0)
        });
    }

    /// Time passes, and something may happen in the middle of a call.
    fn call(&mut self, ns: u64) {
        self.cpu.set(self.cpu.get() + ns);
        if self.injector.strikes(Disaster::Race, 24) {
            programs::act(self);
        }
    }

    /// Whether the page table of a process is the one that is open.
    fn is_open(&self, process: ProcessId) -> bool {
        let table = self.kernel.processes.get(&process.0).map(|process| process.table);
        table.is_some() && self.managed.get(&process.0).copied() == table
    }

    fn forget(&mut self, pid: u32) {
        self.managed.remove(&pid);
        self.calls.retain(|(process, _)| process.0 != pid);
        self.armed.retain(|(owner, _)| *owner != pid);
    }

    fn permitted(&mut self) -> Result<(), End> {
        match self.injector.strikes(Disaster::NotPermitted, 200_000) {
            true => Err(End::NotPermitted),
            false => Ok(()),
        }
    }
}

impl System for Host {
    type Error = End;

    fn cpu(&self) -> Nanos {
        // Asking takes time, too.
        self.cpu.set(self.cpu.get() + 300);
        Nanos(self.cpu.get())
    }

    fn spent(&mut self) -> Result<Option<Spent>, End> {
        self.call(1000);
        let Spent { busy, swap_in, .. } = &mut self.spent;
        *busy = busy.saturating_add(Nanos(1_000_000_000));
        // From nothing to ten times what is allowed.
        *swap_in = swap_in.saturating_add(Nanos(self.injector.rng.below(200_000_000)));
        Ok(Some(self.spent))
    }

    fn follow(&mut self, changes: &mut Vec<(ProcessId, Change)>) -> Result<(), End> {
        self.call(1000);
        changes.append(&mut self.calls);
        for (process, change) in changes {
            if *change != Change::Executed {
                continue;
            }
            if let Some(table) = self.managed.get_mut(&process.0)
                && let Some(process) = self.kernel.processes.get(&process.0)
            {
                *table = process.table;
            }
        }
        Ok(())
    }

    fn refresh(&mut self, changes: &mut Vec<(ProcessId, Change)>) -> Result<Refreshed, End> {
        self.call(5000);
        self.permitted()?;
        let gone: Vec<u32> = self
            .managed
            .keys()
            .copied()
            .filter(|pid| !self.kernel.processes.contains_key(pid))
            .collect();
        for pid in gone {
            self.forget(pid);
            changes.push((ProcessId(pid), Change::Ended));
        }
        for (pid, process) in &self.kernel.processes {
            if !self.managed.contains_key(pid) {
                self.managed.insert(*pid, process.table);
                changes.push((ProcessId(*pid), Change::Began));
            }
        }
        let resident = self.kernel.tiers.iter().map(|tier| tier.used).sum();
        Ok(Refreshed { resident: PageCount(resident), changed: self.injector.rng.below(8) == 0 })
    }

    fn mappings(
        &mut self,
        process: ProcessId,
        known: &[Span],
        left_out: &[Span],
        changes: &mut Vec<ExtentChange>,
    ) -> Result<bool, End> {
        self.call(2000);
        let is_there = self.kernel.processes.contains_key(&process.0);
        if !is_there || self.injector.strikes(Disaster::Gone, 2000) {
            self.forget(process.0);
            return Ok(false);
        }
        // What was called until now is seen.
        self.calls.retain(|(other, _)| *other != process);
        let mappings: Vec<(Span, Backing)> = self.kernel.processes[&process.0].mappings().collect();
        changes.extend(mappings::changes(mappings.into_iter(), known, left_out));
        Ok(true)
    }

    fn backing(&self, process: ProcessId, parts: &[Span]) -> Vec<(Span, Backing)> {
        let Some(process) = self.kernel.processes.get(&process.0) else { return Vec::new() };
        mappings::backing(process.mappings(), parts)
    }

    fn reopen(&mut self, process: ProcessId) -> bool {
        self.call(1000);
        let table = self.kernel.processes.get(&process.0).map(|process| process.table);
        self.forget(process.0);
        if let Some(table) = table {
            self.managed.insert(process.0, table);
        }
        table.is_some()
    }

    fn find(
        &mut self,
        process: ProcessId,
        span: Span,
        most: u64,
        runs: &mut Vec<(Span, Found)>,
    ) -> Result<Option<Span>, End> {
        self.call(2000);
        self.permitted()?;
        if !self.is_open(process) {
            return Ok(None);
        }
        let most = if self.injector.rng.below(16) == 0 { 1 } else { most };
        let mut found = 0;
        let mut end = span.end();
        for (start, area) in &self.kernel.processes[&process.0].areas {
            let area_span = Span::new(Vpn(*start), area.pages.len() as u64);
            for block in area_span.intersect(span).iter() {
                // A region is looked at as a whole.
                if found >= most && block.0.is_multiple_of(512) {
                    end = end.min(block);
                }
                if block >= end {
                    break;
                }
                let page = area.pages[(block.0 - start) as usize];
                let Some(tier) = tier_of(page) else { continue };
                if self.is_blind && tier != TierId::FAST {
                    continue;
                }
                if !self.armed.is_empty() && self.is_armed(process.0, block) {
                    continue;
                }
                found += 1;
                push_run(runs, Span::single(block), Found { tier, huge: page & HUGE != 0 });
            }
        }
        self.cpu.set(self.cpu.get() + 20 * found);
        let looked = Span::between(span.start, end);
        self.record.found(process, looked, runs)?;
        Ok(Some(looked))
    }

    fn pages_out(&self, process: ProcessId, span: Span) -> Vec<Vpn> {
        let range = (process.0, span.start.0)..(process.0, span.end().0);
        self.armed.range(range).map(|(_, vpn)| Vpn(*vpn)).collect()
    }

    fn move_to(
        &mut self,
        process: ProcessId,
        units: &[Unit],
        to: TierId,
        taken: PageCount,
        outcomes: &mut Vec<(Span, MoveOutcome)>,
    ) -> Result<(), End> {
        self.record.moves(process, units, to, taken)?;
        self.call(3000);
        self.permitted()?;
        for unit in units {
            if self.injector.strikes(Disaster::Race, 64) {
                programs::act(self);
            }
            let gone = !self.is_open(process) || self.injector.strikes(Disaster::Gone, 500);
            for vpn in unit.span.iter() {
                self.armed.remove(&(process.0, vpn.0));
                self.cpu.set(self.cpu.get() + 500);
                let page = match gone {
                    true => 0,
                    false => self.kernel.processes[&process.0].page(vpn),
                };
                let outcome = if page == 0 {
                    MoveOutcome::Gone
                } else if self.injector.strikes(Disaster::Busy, 32) {
                    MoveOutcome::Busy
                } else if self.injector.strikes(Disaster::Shared, 64) {
                    MoveOutcome::Shared
                } else if self.injector.strikes(Disaster::NoMemory, 64)
                    || !self.kernel.move_to(process.0, vpn, to)
                {
                    MoveOutcome::NoSpace
                } else {
                    MoveOutcome::Moved
                };
                match outcomes.last_mut() {
                    Some((last, same)) if last.end() == vpn && *same == outcome => last.pages += 1,
                    _ => outcomes.push((Span::single(vpn), outcome)),
                }
            }
        }
        Ok(())
    }

    fn reshape(&mut self, process: ProcessId, page: Vpn, split: bool) -> Result<bool, End> {
        self.call(20_000);
        if !self.is_open(process) || self.injector.strikes(Disaster::Busy, 8) {
            return Ok(false);
        }
        Ok(match split {
            true => self.kernel.split(process.0, page),
            false => self.kernel.collapse(process.0, page),
        })
    }

    fn free(&self, tier: TierId, _: PageCount) -> Result<PageCount, End> {
        Ok(PageCount(match tier {
            TierId::FAST => u64::MAX,
            _ => self.kernel.room(tier),
        }))
    }

    fn available(&mut self) -> Result<Bytes, End> {
        self.call(1000);
        Ok(Bytes(1 << 40))
    }

    fn poll(&mut self, touches: &mut Vec<Touch>) -> Result<(), End> {
        self.call(500);
        touches.append(&mut self.touches);
        Ok(())
    }

    fn sampling(&self) -> Sampling {
        Sampling { cpu: Nanos(self.cpu.get() / 10), lost: self.lost, ..Sampling::default() }
    }

    fn set_period(&mut self, _: SampleKind, _: u32) {}

    fn watchers(&self) -> usize {
        2
    }

    fn wants_pages(&self, watcher: usize, now: Nanos) -> usize {
        if watcher == 1 && (now.0 / 100_000_000).is_multiple_of(2) { 64 } else { 0 }
    }

    fn watch(&mut self, watcher: usize, _: Nanos, assigned: Assignment<'_>) -> Result<(), End> {
        self.call(1000);
        if watcher == 1 {
            self.watched = assigned.pages.iter().map(|(pid, vpn)| (*pid, vpn.0)).collect();
        }
        Ok(())
    }

    fn sees_slower_tiers(&self) -> bool {
        self.abilities.sees_slower_tiers
    }

    fn most_armed(&self) -> usize {
        if self.abilities.arms { MOST_ARMED } else { 0 }
    }

    fn arm(&mut self, process: ProcessId, pages: &[Vpn], known: &[Span]) -> u64 {
        self.call(1000);
        if !self.is_open(process) {
            return 0;
        }
        let mut armed = 0;
        for vpn in pages.iter().filter(|vpn| known.iter().any(|span| span.contains(**vpn))) {
            let page = self.kernel.processes[&process.0].page(*vpn);
            let plain = page != 0 && page & HUGE == 0 && tier_of(page) != self.kernel.swap;
            if plain && self.armed.len() < MOST_ARMED {
                armed += u64::from(self.armed.insert((process.0, vpn.0)));
            }
        }
        armed
    }

    fn disarm(&mut self, process: ProcessId, span: Span) {
        self.armed.retain(|(pid, vpn)| *pid != process.0 || !span.contains(Vpn(*vpn)));
    }

    fn tend(&mut self) -> Vec<(ProcessId, Vpn)> {
        self.armed.iter().map(|(pid, vpn)| (ProcessId(*pid), Vpn(*vpn))).collect()
    }

    fn touched(&mut self, touches: &mut Vec<ArmedTouch>) -> u64 {
        touches.append(&mut self.armed_touches);
        0
    }

    fn set_destination(&mut self, to: Option<(TierId, PageCount)>) {
        self.destination = to.map(|(tier, room)| (tier, room.0));
    }

    fn record(&mut self, told: LogEntry<'_>) -> Result<(), End> {
        self.record.told(told)
    }
}
