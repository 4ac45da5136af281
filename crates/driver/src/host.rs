//! Linux as the system of a daemon: targets, sources of knowledge about accesses, places, control
//! groups.

use crate::closed_files::ClosedFiles;
use crate::error::DriverError;
use crate::groups::{Groups, Way};
use crate::incompressible::Sifted;
use crate::journal::{Entry, Journal};
use crate::left_alone::LeftAlone;
use crate::place::{Carried, Place, Places};
use crate::source::Source;
use crate::source::allocations::Allocations;
use crate::spending::Spending;
use crate::watched::{Selection, Watched};
use frostline_core::event::{Backing, Event, MoveOutcome, SampleKind};
use frostline_core::span::{ExtentChange, Span, difference, joined};
use frostline_core::types::*;
use frostline_daemon::{
    Account, ArmedTouch, Assignment, Change, Found, LogEntry, Refreshed, Sampling, Spent, System,
    Touch, Unit,
};
use frostline_inprocess::next_touch::{Destination, MOST_PAGES, NextTouch};
use frostline_linux::groups::{Ceiling, Trees};
use frostline_linux::moves::advise::bring_in_verified;
use frostline_linux::perf::monotonic_ns;
use frostline_linux::process::Target;
use frostline_linux::process::clock;
use frostline_linux::{LinuxError, Root};
use std::collections::{BTreeMap, BTreeSet};

/// All of an address space.
const EVERYWHERE: Span = Span::between(Vpn(0), Vpn(u64::MAX));

/// See the module.
pub(crate) struct Linux {
    pub(crate) root: Root,
    pub(crate) selection: Selection,
    /// The process that the selection names; another one may get its number later.
    pub(crate) chosen: Option<Target>,
    pub(crate) watched: BTreeMap<u32, Watched>,
    /// Why a process that belongs to the selection is left alone.
    pub(crate) refused: BTreeMap<u32, String>,
    pub(crate) places: Places,
    /// Trees of control groups.
    pub(crate) trees: Trees,
    /// Where pages go to swap: what control groups allow.
    pub(crate) groups: Option<Groups>,
    pub(crate) sources: Vec<Box<dyn Source>>,
    /// Asked for the memory of a driver that manages its own process.
    pub(crate) own: Option<fn() -> Vec<Span>>,
    /// What takes armed pages out of their places, in the program's own process.
    pub(crate) next_touch: Option<NextTouch>,
    /// Files that targets have closed, where the policy wants to know.
    pub(crate) closed_files: Option<ClosedFiles>,
    pub(crate) journal: Option<Journal>,
    /// What the targets spend on pages that come back; `None` where nothing is moved.
    pub(crate) spending: Option<Spending>,
    /// Nothing is moved.
    pub(crate) dry_run: bool,
}

/// The source that follows allocations, if there is one.
fn allocations(sources: &mut [Box<dyn Source>]) -> Option<&mut Allocations> {
    sources.iter_mut().find_map(|source| source.allocations())
}

impl Linux {
    /// The next touch of pages of a process, where that can be told: of our own.
    fn next_touch_of(&self, process: ProcessId) -> Option<&NextTouch> {
        self.next_touch.as_ref().filter(|_| process.0 == std::process::id())
    }

    /// Manages a process no longer.
    fn forget(&mut self, pid: u32) {
        self.watched.remove(&pid);
        if let Some(allocations) = allocations(&mut self.sources) {
            allocations.forget(pid, false);
        }
    }

    /// Processes that run and belong to the selection no longer, and those that have become what is
    /// left alone.
    fn leaving(&self, pids: &BTreeSet<u32>) -> Vec<u32> {
        let inside = self.own.is_some();
        let leaves = |pid: &u32| {
            // Whose parent has ended may have another frostline as its next one.
            let itself = || matches!(LeftAlone::when_named(&self.root, *pid), Ok(Some(_)));
            !inside && !pids.contains(pid) && (self.selection.lets_go() || itself())
        };
        self.watched.keys().copied().filter(leaves).collect()
    }

    /// Begins to manage a process, unless it has ended; whether it has begun.
    fn take_on(&mut self, pid: u32, child: bool) -> Result<bool, LinuxError> {
        let attached = Watched::open(&self.root, pid).and_then(|watched| {
            for source in &mut self.sources {
                source.attach(&self.root, pid, child)?;
            }
            if let Some(files) = &mut self.closed_files {
                files.attach(&self.root, pid);
            }
            Ok(watched)
        });
        match attached {
            Ok(watched) => {
                self.watched.insert(pid, watched);
                Ok(true)
            }
            Err(error) if error.is_gone() || error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Begins to manage those of `pids` that are not.
    fn take_all(
        &mut self,
        pids: BTreeSet<u32>,
        changes: &mut Vec<(ProcessId, Change)>,
    ) -> Result<(), DriverError> {
        let first = self.watched.is_empty();
        let mut refusal = None;
        for pid in pids {
            if self.watched.contains_key(&pid) || self.refused.contains_key(&pid) {
                continue;
            }
            match self.take_on(pid, !first) {
                Ok(true) => changes.push((ProcessId(pid), Change::Began)),
                Ok(false) => {}
                Err(error) => {
                    self.refused.insert(pid, error.to_string());
                    refusal = refusal.or(Some((pid, error)));
                }
            }
        }
        match refusal {
            Some((pid, error)) if self.watched.is_empty() => Err(with_hint(pid, error).into()),
            _ => Ok(()),
        }
    }

    /// Reads what control groups allow now.
    fn read_groups(&mut self) {
        if let Some(groups) = &mut self.groups {
            groups.refresh(self.watched.keys().copied());
        }
    }

    /// Room in the control groups of all targets together.
    fn room(&self, way: Way) -> PageCount {
        let room = self.groups.as_ref().map(|groups| groups.room(way));
        room.and_then(Ceiling::bytes).unwrap_or(Bytes::MAX).pages()
    }

    /// What of a process's pages compresses, where they shall be; the others stay, and come back where some are out.
    fn sift(&mut self, pid: u32, units: &[Unit], to: TierId) -> (Vec<Unit>, Vec<Span>) {
        let compressed =
            self.places.compresses() && self.places.swap() == Some(to) && !self.dry_run;
        let room = self.room(Way::In);
        let Some(watched) = self.watched.get_mut(&pid).filter(|_| compressed) else {
            return (units.to_vec(), Vec::new());
        };
        let Watched { probes, target, pagemap, .. } = watched;
        let Sifted { fit, unfit, found } = probes.sift(target, units, clock::monotonic());
        let mut out = 0;
        for span in &found {
            // What cannot be told comes back when it is touched, as does what is not brought in.
            let _ = pagemap.for_each(*span, |_, entry| out += u64::from(entry.swapped()));
        }
        if (1..room.0).contains(&out)
            && bring_in_verified(target, pagemap, &found).is_ok()
            && let Some(groups) = &mut self.groups
        {
            groups.moved(pid, Way::In, out);
        }
        (fit, unfit)
    }

    /// What of a process's pages its control group allows to be moved.
    fn admit(&self, pid: u32, units: &[Unit], to: TierId) -> Admitted {
        let (Some(groups), Some(swap)) = (&self.groups, self.places.swap()) else {
            return Admitted { units: units.to_vec(), held: vec![], way: None, counted: 0 };
        };
        let way = if to == swap { Way::Out } else { Way::In };
        let counts = |unit: &Unit| way == Way::Out || unit.from == Some(swap);
        let (units, held) = groups.admit(pid, way, units, counts);
        let counted = units.iter().filter(|unit| counts(unit)).map(|unit| unit.span.pages).sum();
        Admitted { units, held, way: Some(way), counted }
    }
}

impl System for Linux {
    type Error = DriverError;

    fn cpu(&self) -> Nanos {
        clock::thread_cpu()
    }

    fn spent(&mut self) -> Result<Option<Spent>, DriverError> {
        let Self { spending, watched, .. } = self;
        Ok(spending.as_mut().map(|spending| spending.spent(watched)))
    }

    fn follow(&mut self, changes: &mut Vec<(ProcessId, Change)>) -> Result<(), DriverError> {
        let Some(allocations) = allocations(&mut self.sources) else { return Ok(()) };
        let mut push = |pid, change| changes.push((ProcessId(pid), Change::Extent(change)));
        allocations.take(&mut push);
        for pid in allocations.take_executed() {
            changes.push((ProcessId(pid), Change::Executed));
            if self.watched.get_mut(&pid).is_some_and(|watched| watched.reopen().is_err()) {
                self.forget(pid);
                changes.push((ProcessId(pid), Change::Ended));
            }
        }
        Ok(())
    }

    fn refresh(
        &mut self,
        changes: &mut Vec<(ProcessId, Change)>,
    ) -> Result<Refreshed, DriverError> {
        let ended = self.chosen.as_ref().is_some_and(|chosen| !chosen.is_alive());
        let pids = match self.selection.pids(&self.root) {
            Ok(_) if ended => BTreeSet::new(),
            Ok(pids) => pids,
            Err(error) if error.is_gone() || error.is_not_found() => BTreeSet::new(),
            Err(error) => return Err(error.into()),
        };
        let ended = self.watched.iter().filter(|(_, watched)| !watched.target.is_alive());
        let ended: Vec<u32> = ended.map(|(pid, _)| *pid).collect();
        for pid in ended {
            self.forget(pid);
            changes.push((ProcessId(pid), Change::Ended));
        }
        for pid in self.leaving(&pids) {
            self.forget(pid);
            changes.push((ProcessId(pid), Change::Ended));
            self.sources.iter_mut().for_each(|source| source.detach(&self.root, pid));
        }
        self.refused.retain(|pid, _| pids.contains(pid));
        self.take_all(pids, changes)?;
        let mut refreshed = Refreshed::default();
        for watched in self.watched.values_mut() {
            refreshed.changed |= watched.has_changed();
        }
        let memory = self.watched.values().map(|watched| watched.memory().0).sum();
        refreshed.resident = Bytes(memory).pages();
        self.read_groups();
        Ok(refreshed)
    }

    fn left_out(&self) -> Vec<Span> {
        let Some(own) = self.own else { return Vec::new() };
        let mut spans = own();
        spans.extend(self.next_touch.iter().flat_map(NextTouch::own_memory));
        spans.sort_unstable_by_key(|span| span.start);
        joined(spans.into_iter())
    }

    fn mappings(
        &mut self,
        process: ProcessId,
        known: &[Span],
        left_out: &[Span],
        changes: &mut Vec<ExtentChange>,
    ) -> Result<bool, DriverError> {
        let pid = process.0;
        let Some(watched) = self.watched.get_mut(&pid) else { return Ok(false) };
        let at_ns = monotonic_ns();
        match (watched.read_mappings(), allocations(&mut self.sources)) {
            (Ok(mappings), Some(allocations)) => {
                allocations.compare(pid, mappings, at_ns, |change| changes.push(change));
            }
            (Ok(_), None) => changes.extend(watched.changes(known, left_out)),
            (Err(error), _) if error.is_gone() => {
                self.forget(pid);
                return Ok(false);
            }
            // It runs a program of another user by now.
            (Err(error), _) if error.is_denied() => {
                self.forget(pid);
                self.refused.insert(pid, error.to_string());
                return Ok(false);
            }
            (Err(error), _) => return Err(error.into()),
        }
        Ok(true)
    }

    fn backing(&self, process: ProcessId, parts: &[Span]) -> Vec<(Span, Backing)> {
        self.watched.get(&process.0).map_or_else(Vec::new, |watched| watched.backing(parts))
    }

    fn reopen(&mut self, process: ProcessId) -> bool {
        let pid = process.0;
        let Some(watched) = self.watched.get_mut(&pid) else { return false };
        let alive = watched.target.is_alive() && watched.reopen().is_ok();
        if let Some(allocations) = allocations(&mut self.sources) {
            allocations.forget(pid, alive);
        }
        if !alive {
            self.watched.remove(&pid);
        }
        alive
    }

    fn find(
        &mut self,
        process: ProcessId,
        span: Span,
        most: u64,
        runs: &mut Vec<(Span, Found)>,
    ) -> Result<Option<Span>, DriverError> {
        let Some(watched) = self.watched.get_mut(&process.0) else { return Ok(None) };
        match self.places.find(&watched.target, &mut watched.pagemap, span, most, runs) {
            Err(error) if error.is_gone() => Ok(None),
            looked => Ok(Some(looked?)),
        }
    }

    fn pages_out(&self, process: ProcessId, span: Span) -> Vec<Vpn> {
        self.next_touch_of(process).map_or_else(Vec::new, |next_touch| next_touch.pages_out(span))
    }

    fn move_to(
        &mut self,
        process: ProcessId,
        units: &[Unit],
        to: TierId,
        taken: PageCount,
        outcomes: &mut Vec<(Span, MoveOutcome)>,
    ) -> Result<(), DriverError> {
        let pid = process.0;
        // The kernel moves what is in its place.
        if let Some(next_touch) = self.next_touch_of(process) {
            units.iter().for_each(|unit| next_touch.put_back(unit.span));
        }
        let (units, incompressible) = self.sift(pid, units, to);
        outcomes.extend(incompressible.into_iter().map(|span| (span, MoveOutcome::Busy)));
        let Admitted { units, held, way, counted } = self.admit(pid, &units, to);
        let all = |outcome| (units.iter().map(|unit| (unit.span, outcome)).collect(), 0);
        let done = match self.watched.get_mut(&pid) {
            _ if self.dry_run => Ok(all(MoveOutcome::Busy)),
            None => Err(LinuxError::Gone { pid }),
            Some(_) if units.is_empty() => Ok(Carried::default()),
            Some(w) => self.places.move_to(&w.target, &mut w.pagemap, &units, to, taken),
        };
        let (done, interruptions): Carried = match done {
            Ok(done) => done,
            Err(error) if error.is_gone() => all(MoveOutcome::Gone),
            Err(error) => return Err(error.into()),
        };
        if let Some(spending) = &mut self.spending {
            spending.interrupted(interruptions);
        }
        if let (Some(groups), Some(way)) = (&mut self.groups, way) {
            let moved = done.iter().filter(|(_, outcome)| *outcome == MoveOutcome::Moved);
            let moved: u64 = moved.map(|(span, _)| span.pages).sum();
            groups.moved(pid, way, moved.min(counted));
        }
        outcomes.extend(done);
        outcomes.extend(held.into_iter().map(|span| (span, MoveOutcome::NoSpace)));
        Ok(())
    }

    fn reshape(&mut self, process: ProcessId, page: Vpn, split: bool) -> Result<bool, DriverError> {
        // A folio is built beside the pages that it is made of, and takes in those that are in swap.
        let takes = PageCount(HUGE_PAGES.into());
        let allows = |groups: &Groups| split || groups.allows(process.0, Way::In, takes);
        if !self.groups.as_ref().is_none_or(allows) {
            return Ok(false);
        }
        let Some(watched) = self.watched.get_mut(&process.0) else { return Ok(false) };
        match crate::place::reshape(&watched.target, &mut watched.pagemap, page, split) {
            Err(error) if error.is_gone() => Ok(false),
            other => Ok(other?),
        }
    }

    fn free(&self, tier: TierId, used: PageCount) -> Result<PageCount, DriverError> {
        let place = self.places.tiers[tier.index()];
        Ok(match place {
            // What is brought back counts in its group. Between nodes, that changes nothing.
            Place::Memory => self.room(Way::In),
            Place::Node(_) if tier == TierId::FAST => PageCount(u64::MAX),
            _ => {
                let free = self.places.free(&self.root, tier, used)?.pages();
                if place == Place::Swap { free.min(self.room(Way::Out)) } else { free }
            }
        })
    }

    fn available(&mut self) -> Result<Bytes, DriverError> {
        self.read_groups();
        Ok(frostline_linux::process::available_memory(&self.root)?)
    }

    fn poll(&mut self, touches: &mut Vec<Touch>) -> Result<(), DriverError> {
        for source in &mut self.sources {
            source.poll(&self.root, &mut |touch| touches.push(touch))?;
        }
        Ok(())
    }

    fn sampling(&self) -> Sampling {
        let mut sampling = Sampling::default();
        for stats in self.sources.iter().map(|source| source.stats()) {
            sampling.cpu = sampling.cpu.saturating_add(stats.cpu);
            sampling.lost += stats.lost;
        }
        sampling.swept = self.sources.iter().find_map(|source| source.swept());
        sampling
    }

    fn set_period(&mut self, kind: SampleKind, period: u32) {
        self.sources.iter_mut().for_each(|source| source.set_period(kind, period));
    }

    fn watchers(&self) -> usize {
        self.sources.len()
    }

    fn wants_pages(&self, watcher: usize, now: Nanos) -> usize {
        self.sources[watcher].wants_pages(now)
    }

    fn watch(
        &mut self,
        watcher: usize,
        now: Nanos,
        assigned: Assignment<'_>,
    ) -> Result<(), DriverError> {
        Ok(self.sources[watcher].watch(now, assigned)?)
    }

    fn sees_slower_tiers(&self) -> bool {
        self.sources.iter().any(|source| source.sees_slower_tiers())
    }

    fn hear(&mut self, now: Nanos, events: &mut Vec<Event>) -> Result<(), DriverError> {
        let Some(files) = &mut self.closed_files else { return Ok(()) };
        Ok(files.hear(&self.root, &self.watched, now, events)?)
    }

    fn demote_file(&mut self, file: u32, account: &mut Account) -> Result<bool, DriverError> {
        let Some(files) = &mut self.closed_files else { return Ok(true) };
        let node = match self.places.tiers.get(1) {
            Some(Place::Node(node)) => Some(*node),
            _ => None,
        };
        Ok(files.demote(&self.root, &self.watched, file, node, account)?)
    }

    fn most_armed(&self) -> usize {
        self.next_touch.as_ref().map_or(0, |_| MOST_PAGES)
    }

    fn arm(&mut self, process: ProcessId, pages: &[Vpn], known: &[Span]) -> u64 {
        let Some(next_touch) = self.next_touch_of(process) else { return 0 };
        let Some(watched) = self.watched.get(&process.0) else { return 0 };
        // Read anew: a thread that takes out pages which it needs itself would never wake up.
        let own = self.left_out();
        let is_theirs = |mapping: &Span| difference(&[*mapping], &own) == [*mapping];
        let mut spans: Vec<(Span, Span)> = Vec::new();
        for &page in pages {
            match spans.last_mut() {
                Some((span, mapping)) if span.end() == page && mapping.contains(page) => {
                    span.pages += 1;
                }
                _ => {
                    let mapping = watched.separate_mapping(page, known).filter(is_theirs);
                    spans.extend(mapping.map(|mapping| (Span::single(page), mapping)));
                }
            }
        }
        if spans.is_empty() { 0 } else { next_touch.take_out(&spans) }
    }

    fn disarm(&mut self, process: ProcessId, span: Span) {
        if let Some(next_touch) = self.next_touch_of(process) {
            next_touch.put_back(span);
        }
    }

    fn tend(&mut self) -> Vec<(ProcessId, Vpn)> {
        let Some(next_touch) = &self.next_touch else { return Vec::new() };
        next_touch.tend();
        let own = ProcessId(std::process::id());
        next_touch.pages_out(EVERYWHERE).into_iter().map(|page| (own, page)).collect()
    }

    fn touched(&mut self, touches: &mut Vec<ArmedTouch>) -> u64 {
        let Some(next_touch) = &mut self.next_touch else { return 0 };
        let process = ProcessId(std::process::id());
        let (touched, lost) = next_touch.touched();
        touches.extend(touched.iter().map(|touch| ArmedTouch {
            process,
            page: touch.page,
            write: touch.write,
            moved: touch.moved,
        }));
        lost
    }

    fn set_destination(&mut self, to: Option<(TierId, PageCount)>) {
        let Some(next_touch) = &self.next_touch else { return };
        let destination = to.and_then(|(tier, room)| {
            let Place::Node(node) = self.places.tiers[tier.index()] else { return None };
            Some(Destination { node, room: room.0 })
        });
        next_touch.set_destination(destination);
    }

    fn record(&mut self, told: LogEntry<'_>) -> Result<(), DriverError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        journal.write(&match told {
            LogEntry::Events(now, events) => Entry::Events(now, events.to_vec()),
            LogEntry::Timeout(now) => Entry::Timeout(now),
            LogEntry::Actions(actions) => Entry::Actions(actions.to_vec()),
            LogEntry::Fault(now, fault) => Entry::Fault(now, fault),
        })
    }
}

/// Pages that may be moved, and the rest.
struct Admitted {
    units: Vec<Unit>,
    held: Vec<Span>,
    way: Option<Way>,
    /// How many of `units` take room.
    counted: u64,
}

/// Says what helps, where rights to look into a process are missing.
fn with_hint(pid: u32, error: LinuxError) -> LinuxError {
    if !error.is_denied() {
        return error;
    }
    let hint = format!("run as root, or as the user of process {pid}");
    LinuxError::Unsupported { what: error.to_string(), hint }
}
