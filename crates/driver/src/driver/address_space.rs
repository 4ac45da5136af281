//! What targets have mapped: by their mappings, and where a source follows allocations, in the
//! extents that they asked for.

use super::Driver;
use super::audit::window;
use crate::address_map::AddressMap;
use crate::clock;
use crate::error::DriverError;
use crate::source::Source;
use crate::source::allocations::Allocations;
use frostline_core::event::{Backing, Event};
use frostline_core::types::*;
use frostline_linux::extents::ExtentChange;
use frostline_linux::perf::monotonic_ns;
use frostline_linux::span::{REGION_PAGES, Span, difference};

/// Times that new address space is looked into before the rest is left to the audit. Each finds 16 MiB,
/// or that there is nothing in 4 GiB.
const MOST_LOOKS: usize = 32_768;
/// Events that are collected before the engine is told.
const MOST_EVENTS: usize = 8192;

/// The source that follows allocations, if there is one.
pub(super) fn allocations(sources: &mut [Box<dyn Source>]) -> Option<&mut Allocations> {
    sources.iter_mut().find_map(|source| source.allocations())
}

impl Driver {
    /// Takes in what programs have called since the last time.
    pub(super) fn follow_allocations(&mut self) -> Result<(), DriverError> {
        let Some(allocations) = allocations(&mut self.sources) else { return Ok(()) };
        let mut changes = Vec::new();
        allocations.take(&mut |pid, change| changes.push((pid, change)));
        let executed = allocations.take_executed();
        let mut events = Vec::new();
        for (pid, change) in changes {
            self.change(pid, change, &mut events);
        }
        for pid in executed {
            self.refreshes.hurry();
            if self.watched.get_mut(&pid).is_some_and(|watched| watched.reopen().is_err()) {
                self.forget(pid, &mut events);
            }
        }
        if events.is_empty() { Ok(()) } else { self.tell(events) }
    }

    /// Reads a process's mappings, tells what is new about them, and looks into new memory.
    pub(super) fn follow_mappings(
        &mut self,
        pid: u32,
        events: &mut Vec<Event>,
    ) -> Result<(), DriverError> {
        let Some(watched) = self.watched.get_mut(&pid) else { return Ok(()) };
        let at_ns = monotonic_ns();
        let mappings = match watched.read_mappings() {
            Ok(mappings) => mappings,
            Err(error) if error.is_gone() => {
                self.forget(pid, events);
                return Ok(());
            }
            // It runs a program of another user by now.
            Err(error) if error.is_denied() => {
                self.forget(pid, events);
                self.refused.insert(pid, error.to_string());
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let mut changes = Vec::new();
        match allocations(&mut self.sources) {
            Some(allocations) => {
                allocations.compare(pid, mappings, at_ns, |change| changes.push(change));
            }
            None => changes = watched.changes(&self.left_out),
        }
        for change in changes {
            self.change(pid, change, events);
        }
        self.leave_out(pid, events);
        self.look_into_new(pid, events)
    }

    fn look_into_new(&mut self, pid: u32, events: &mut Vec<Event>) -> Result<(), DriverError> {
        let Some(watched) = self.watched.get_mut(&pid) else { return Ok(()) };
        let fresh = std::mem::take(&mut watched.fresh);
        if fresh.is_empty() {
            return Ok(());
        }
        let began = clock::thread_cpu();
        // What is found is compared with what the engine knows: that must be up to date.
        self.tell(std::mem::take(events))?;
        let mut at = Vpn(0);
        for _ in 0..MOST_LOOKS {
            let Some(span) = window(&fresh, at) else { break };
            match self.places_of(pid, span, events) {
                // Another program was executed in between: the old page table is gone.
                Err(error) if error.is_gone() => {
                    self.reopen(pid, events);
                    break;
                }
                looked => {
                    let looked = looked?;
                    at = looked.span.end();
                    self.rounds.note(looked.pages, looked.changed);
                }
            }
            if events.len() > MOST_EVENTS {
                self.tell(std::mem::take(events))?;
            }
        }
        // It is done once, and in proportion to what is there.
        self.refreshes.leave_out(clock::thread_cpu().saturating_sub(began));
        Ok(())
    }

    /// What calls have told of our own memory before we did.
    fn leave_out(&mut self, pid: u32, events: &mut Vec<Event>) {
        let Some(watched) = self.watched.get(&pid) else { return };
        let kept = difference(&watched.spans, &self.left_out);
        for span in difference(&watched.spans, &kept) {
            self.change(pid, ExtentChange::Unmapped { span }, events);
        }
    }

    /// Takes note of new address space; its blocks have ids where some had them before, or where
    /// they get them in advance.
    fn map_new(&mut self, pid: u32, span: Span, backing: Backing, events: &mut Vec<Event>) {
        let ahead = self.numbers_ahead(span);
        let Some(watched) = self.watched.get_mut(&pid) else { return };
        let process = watched.id();
        watched.add(span);
        if ahead {
            map(&mut self.map, process, span, backing, events);
        } else {
            let push = |_, run| events.push(Event::Mapped { run, backing, process });
            self.map.known(process, span, push);
        }
    }

    fn change(&mut self, pid: u32, change: ExtentChange, events: &mut Vec<Event>) {
        let Some(watched) = self.watched.get_mut(&pid) else { return };
        let id = watched.id();
        match change {
            ExtentChange::Mapped { span, backing } => {
                for span in difference(&[span], &self.left_out) {
                    self.map_new(pid, span, backing, events);
                }
            }
            ExtentChange::Unmapped { span } => {
                watched.remove(span);
                unmap(&mut self.map, id, &[span], &watched.spans, events);
            }
            ExtentChange::Remapped { from, to } => {
                watched.remove(from);
                // What is found there has ids by then, or gets them.
                watched.add(Span::new(to, from.pages));
                remap(&mut self.map, id, from, to, &watched.spans, events);
            }
        }
    }
}

/// Gives new address space ids; one event for each run of them.
pub(super) fn map(
    ids: &mut AddressMap,
    process: ProcessId,
    span: Span,
    backing: Backing,
    events: &mut Vec<Event>,
) {
    let mut whole: Option<PageRun> = None;
    let mut push = |run: PageRun| events.push(Event::Mapped { run, backing, process });
    ids.map(process, span, |_, run| match &mut whole {
        Some(before) if before.end() == run.start.0 => before.pages += run.pages,
        _ => {
            if let Some(before) = whole.replace(run) {
                push(before);
            }
        }
    });
    if let Some(run) = whole {
        push(run);
    }
}

/// Takes address space out of the map; blocks in which nothing of `left`, ascending, lies are
/// given back.
pub(super) fn unmap(
    ids: &mut AddressMap,
    process: ProcessId,
    spans: &[Span],
    left: &[Span],
    events: &mut Vec<Event>,
) {
    for span in spans {
        ids.known(process, *span, |_, run| events.push(Event::Unmapped { run }));
    }
    release(ids, process, spans, left);
}

/// Gives back the blocks of `spans` in which nothing of `left` lies.
fn release(ids: &mut AddressMap, process: ProcessId, spans: &[Span], left: &[Span]) {
    let mut released = Vec::new();
    for span in spans {
        ids.known(process, *span, |piece, run| {
            let block = Span::region_of(piece.start);
            let next = left.partition_point(|span| span.end() <= block.start);
            if left.get(next).is_none_or(|span| span.start >= block.end()) {
                released.push(run.start.region());
            }
        });
    }
    // Not before all of them have been looked up: several may lie in one block.
    for region in released {
        ids.release(region);
    }
}

/// Moves address space: what is known of its pages goes with them.
fn remap(
    ids: &mut AddressMap,
    process: ProcessId,
    from: Span,
    to: Vpn,
    left: &[Span],
    events: &mut Vec<Event>,
) {
    let in_block = |page: Vpn| REGION_PAGES - page.0 % REGION_PAGES;
    let mut moved = Vec::new();
    ids.known(process, from, |piece, run| moved.push((piece, run)));
    for (piece, old) in moved {
        let target = Span::new(Vpn(to.0 + (piece.start.0 - from.start.0)), piece.pages);
        let mut done = 0;
        while done < piece.pages {
            let new = Vpn(target.start.0 + done);
            let pages = in_block(new).min(piece.pages - done);
            let part = Span::new(new, pages);
            let from = PageRun { start: PageId(old.start.0 + done as u32), pages: pages as u32 };
            done += pages;
            let mut target = None;
            ids.map(process, part, |_, run| target = Some(run));
            events.push(match target {
                Some(run) => Event::Remapped { from, to: run.start },
                // There are no more ids.
                None => Event::Unmapped { run: from },
            });
        }
    }
    release(ids, process, &[from], left);
}
