//! What targets have mapped: by their mappings, and where a source follows allocations, in the
//! extents that they asked for.

use super::Driver;
use crate::address_map::AddressMap;
use crate::error::DriverError;
use crate::source::Source;
use crate::source::allocations::Allocations;
use frostline_core::event::{Backing, Event};
use frostline_core::types::*;
use frostline_linux::extents::ExtentChange;
use frostline_linux::perf::monotonic_ns;
use frostline_linux::span::{REGION_PAGES, Span, difference};

/// Pages whose places are looked up in one go: what is found takes memory of ours.
const LOOKED_UP_PAGES: u64 = 16_384;
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
            self.refresh_due = Nanos::ZERO;
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
        // What is found is compared with what the engine knows: that must be up to date.
        if !fresh.is_empty() && !events.is_empty() {
            self.tell(std::mem::take(events))?;
        }
        for piece in fresh.into_iter().flat_map(|span| span.pieces(LOOKED_UP_PAGES)) {
            match self.places_of(pid, piece, events) {
                // Another program was executed in between: the old page table is gone.
                Err(error) if error.is_gone() => {
                    self.reopen(pid, events);
                    return Ok(());
                }
                found => self.rounds.note(piece.pages, found?),
            }
            if events.len() > MOST_EVENTS {
                self.tell(std::mem::take(events))?;
            }
        }
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

    fn change(&mut self, pid: u32, change: ExtentChange, events: &mut Vec<Event>) {
        let Some(watched) = self.watched.get_mut(&pid) else { return };
        let id = watched.id();
        match change {
            ExtentChange::Mapped { span, backing } => {
                for span in difference(&[span], &self.left_out) {
                    watched.add(span);
                    map(&mut self.map, id, span, backing, events);
                }
            }
            ExtentChange::Unmapped { span } => {
                watched.remove(span);
                unmap(&mut self.map, id, &[span], &watched.spans, events);
            }
            ExtentChange::Remapped { from, to } => {
                watched.remove(from);
                watched.add(Span::new(to, from.pages));
                remap(&mut self.map, id, from, to, &watched.spans, events);
            }
        }
    }
}

/// Gives new address space ids; one event for each run of them.
fn map(
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
    ids.map(process, Span::new(to, from.pages), |_, _| {});
    let mut done = 0;
    while done < from.pages {
        let (old, new) = (Vpn(from.start.0 + done), Vpn(to.0 + done));
        let pages = in_block(old).min(in_block(new)).min(from.pages - done);
        done += pages;
        let run = |start| PageRun { start, pages: pages as u32 };
        match (ids.page(process, old), ids.page(process, new)) {
            (Some(old), Some(new)) => events.push(Event::Remapped { from: run(old), to: new }),
            // There are no more ids.
            (Some(old), None) => events.push(Event::Unmapped { run: run(old) }),
            (None, Some(new)) => {
                let backing = Backing::Anonymous;
                events.push(Event::Mapped { run: run(new), backing, process });
            }
            (None, None) => {}
        }
    }
    release(ids, process, &[from], left);
}
