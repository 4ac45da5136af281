//! Address spaces of all processes: what is mapped there, which of it has ids, and where its pages
//! are.

use crate::address_map::{AddressMap, by_region};
use crate::context::Cx;
use crate::ids;
use crate::numbering::{DENSE_PAGES, Numbering};
use crate::reconcile::reconcile;
use crate::space::Space;
use crate::system::{Change, System};
use crate::unit::Found;
use crate::window::{window, within};

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use frostline_core::event::{Backing, Event, MoveCause};
use frostline_core::placement::PageState;
use frostline_core::span::{ExtentChange, REGION_PAGES, Span, difference, joined};
use frostline_core::types::*;
use serde::{Deserialize, Serialize};

/// Times that new address space is looked into before the rest is left to the audit. Each finds
/// 16 MiB, or that there is nothing in 4 GiB.
const MOST_LOOKS: usize = 32_768;
/// Events that are collected before the engine is told.
const MOST_EVENTS: usize = 8192;
/// Pages that are found in one go, at most: they take memory of ours, and time.
const FOUND_PAGES: u64 = 4096;

/// Looks into page tables since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audits {
    /// Rounds over all page tables that have ended.
    pub rounds: u64,
    /// Looks into page tables, in rounds and into new memory: each into 4 GiB of address space at
    /// most.
    pub looks: u64,
    /// Pages that they have found.
    pub pages: u64,
}

/// What was looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Looked {
    /// The address space.
    pub(crate) span: Span,
    /// Pages of it that are in a tier.
    pub(crate) pages: u64,
    /// Pages of which the engine knew something else.
    pub(crate) changed: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Spaces {
    pub(crate) processes: BTreeMap<ProcessId, Space>,
    pub(crate) numbering: Numbering,
    pub(crate) audits: Audits,
    /// Address space in which nothing is looked at, ascending and apart.
    left_out: Vec<Span>,
}

impl Spaces {
    /// Takes in what programs have done since the last time.
    pub(crate) fn follow<S: System>(&mut self, cx: &mut Cx<'_, S>) -> Result<(), S::Error> {
        let mut changes = Vec::new();
        cx.system.follow(&mut changes)?;
        let mut events = Vec::new();
        for (process, change) in changes {
            self.change(cx, process, change, &mut events);
        }
        if events.is_empty() { Ok(()) } else { cx.tell(events) }
    }

    /// Finds out who is there, and what they have mapped; looks into what is new.
    pub(crate) fn refresh<S: System>(
        &mut self,
        cx: &mut Cx<'_, S>,
        events: &mut Vec<Event>,
    ) -> Result<(), S::Error> {
        let mut changes = Vec::new();
        let refreshed = cx.system.refresh(&mut changes)?;
        for (process, change) in changes {
            self.change(cx, process, change, events);
        }
        self.left_out = cx.system.left_out();
        if refreshed.changed {
            cx.budget.rounds.wake();
        }
        self.numbering.set_resident(refreshed.resident);
        let known: Vec<ProcessId> = self.processes.keys().copied().collect();
        for process in known {
            self.follow_mappings(cx, process, events)?;
        }
        Ok(())
    }

    /// Tells what is new about a process's mappings, and looks into new memory.
    fn follow_mappings<S: System>(
        &mut self,
        cx: &mut Cx<'_, S>,
        process: ProcessId,
        events: &mut Vec<Event>,
    ) -> Result<(), S::Error> {
        let Some(space) = self.processes.get(&process) else { return Ok(()) };
        let mut changes = Vec::new();
        if !cx.system.mappings(process, space.spans(), &self.left_out, &mut changes)? {
            self.forget(cx, process, events);
            return Ok(());
        }
        for change in changes {
            self.change(cx, process, Change::Extent(change), events);
        }
        self.leave_out(cx, process, events);
        self.look_into_new(cx, process, events)
    }

    fn look_into_new<S: System>(
        &mut self,
        cx: &mut Cx<'_, S>,
        process: ProcessId,
        events: &mut Vec<Event>,
    ) -> Result<(), S::Error> {
        let Some(space) = self.processes.get_mut(&process) else { return Ok(()) };
        let fresh = space.take_fresh();
        if fresh.is_empty() {
            return Ok(());
        }
        let began = cx.system.cpu();
        // What is found is compared with what the engine knows: that must be up to date.
        cx.tell(core::mem::take(events))?;
        let mut at = Vpn(0);
        for _ in 0..MOST_LOOKS {
            let Some(span) = window(&fresh, at) else { break };
            let Some(looked) = self.look(cx, process, span, events)? else {
                // Another program was executed in between.
                self.reopen(cx, process, events);
                break;
            };
            at = looked.span.end();
            cx.budget.rounds.note(looked.pages, looked.changed);
            if events.len() > MOST_EVENTS {
                cx.tell(core::mem::take(events))?;
            }
        }
        // It is done once, and in proportion to what is there.
        cx.budget.refreshes.leave_out(cx.system.cpu().saturating_sub(began));
        Ok(())
    }

    /// What calls have told of memory that is left out before that was known.
    fn leave_out<S: System>(
        &mut self,
        cx: &mut Cx<'_, S>,
        process: ProcessId,
        events: &mut Vec<Event>,
    ) {
        let Some(space) = self.processes.get(&process) else { return };
        let kept = difference(space.spans(), &self.left_out);
        for span in difference(space.spans(), &kept) {
            self.change(cx, process, Change::Extent(ExtentChange::Unmapped { span }), events);
        }
    }

    fn change<S: System>(
        &mut self,
        cx: &mut Cx<'_, S>,
        process: ProcessId,
        change: Change,
        events: &mut Vec<Event>,
    ) {
        let change = match change {
            Change::Began => {
                self.processes.entry(process).or_default();
                return;
            }
            Change::Executed => return cx.budget.refreshes.hurry(),
            Change::Ended => return self.forget(cx, process, events),
            Change::Extent(change) => change,
        };
        let Some(space) = self.processes.get_mut(&process) else { return };
        let ids = &mut cx.ledger.map;
        match change {
            ExtentChange::Mapped { span, backing } => {
                for span in difference(&[span], &self.left_out) {
                    space.add(span);
                    map_new(ids, &self.numbering, process, span, backing, events);
                }
            }
            ExtentChange::Unmapped { span } => {
                space.remove(span);
                ids::unmap(ids, process, &[span], space.spans(), events);
            }
            ExtentChange::Remapped { from, to } => {
                space.remove(from);
                // What is found there has ids by then, or gets them.
                space.add(Span::new(to, from.pages));
                ids::remap(ids, process, from, to, space.spans(), events);
            }
        }
    }

    fn forget<S: System>(
        &mut self,
        cx: &mut Cx<'_, S>,
        process: ProcessId,
        events: &mut Vec<Event>,
    ) {
        if let Some(space) = self.processes.remove(&process) {
            ids::unmap(&mut cx.ledger.map, process, space.spans(), &[], events);
            events.push(Event::Exited { process });
        }
    }

    /// A process executed another program, or has ended: what was mapped is gone.
    pub(crate) fn reopen<S: System>(
        &mut self,
        cx: &mut Cx<'_, S>,
        process: ProcessId,
        events: &mut Vec<Event>,
    ) {
        let Some(space) = self.processes.get_mut(&process) else { return };
        let space = core::mem::take(space);
        ids::unmap(&mut cx.ledger.map, process, space.spans(), &[], events);
        if !cx.system.reopen(process) {
            self.processes.remove(&process);
            events.push(Event::Exited { process });
        }
        cx.budget.refreshes.hurry();
    }

    /// Looks up the pages at the beginning of a span and tells the engine what it did not know. A
    /// whole region is looked at in one go. `None` where the page table is gone.
    pub(crate) fn look<S: System>(
        &mut self,
        cx: &mut Cx<'_, S>,
        process: ProcessId,
        span: Span,
        events: &mut Vec<Event>,
    ) -> Result<Option<Looked>, S::Error> {
        // Before the page table is read: what is put back in between is found there.
        let out = cx.system.pages_out(process, span);
        if !self.processes.contains_key(&process) {
            return Ok(Some(Looked { span, ..Looked::default() }));
        }
        let mut runs: Vec<(Span, Found)> = Vec::new();
        let Some(span) = cx.system.find(process, span, FOUND_PAGES, &mut runs)? else {
            return Ok(None);
        };
        let runs = within(&runs, self.processes[&process].spans());
        self.number(cx, process, &runs, events);
        let before = events.len();
        let view = cx.ledger.engine.view();
        let mut next = 0;
        let mut found: Vec<Option<Found>> = Vec::new();
        cx.ledger.map.known(process, span, |piece, run| {
            found.clear();
            found.resize(piece.pages as usize, None);
            while next < runs.len() && runs[next].0.end() <= piece.start {
                next += 1;
            }
            for (span, what) in runs[next..].iter().take_while(|(s, _)| s.start < piece.end()) {
                let part = span.intersect(piece);
                let from = (part.start.0 - piece.start.0) as usize;
                found[from..from + part.pages as usize].fill(Some(*what));
            }
            let first = out.partition_point(|page| *page < piece.start);
            for page in out[first..].iter().take_while(|page| **page < piece.end()) {
                let at = (page.0 - piece.start.0) as usize;
                let tier = view.state(PageId(run.start.0 + at as u32)).tier();
                let there = tier.map(|tier| Found { tier, huge: false });
                found[at] = found[at].or(there);
            }
            let direct = |tier| cx.settings.is_direct(tier);
            reconcile(|page| view.state(page), run.start, &found, direct, events);
        });
        let mut changed = 0;
        let accounts = &mut cx.ledger.accounts;
        for event in &events[before..] {
            match event {
                Event::Moved { run, cause, .. } => {
                    let pages = u64::from(run.pages);
                    changed += pages;
                    match cause {
                        MoveCause::Refault => accounts.refaults += pages,
                        _ => accounts.moved_by_others += pages,
                    }
                }
                Event::Populated { run, .. } | Event::Freed { run } => {
                    changed += u64::from(run.pages);
                }
                _ => {}
            }
        }
        let pages = runs.iter().map(|(span, _)| span.pages).sum();
        self.audits.looks += 1;
        self.audits.pages += pages;
        Ok(Some(Looked { span, pages, changed }))
    }

    /// Gives ids to blocks in which something was found and that have none.
    fn number<S: System>(
        &mut self,
        cx: &mut Cx<'_, S>,
        process: ProcessId,
        runs: &[(Span, Found)],
        events: &mut Vec<Event>,
    ) {
        let Some(space) = self.processes.get(&process) else { return };
        let ids = &mut cx.ledger.map;
        let mut found: Vec<(Span, u64)> = Vec::new();
        for piece in runs.iter().flat_map(|(span, _)| by_region(*span)) {
            let block = Span::region_of(piece.start);
            match found.last_mut() {
                Some((last, pages)) if *last == block => *pages += piece.pages,
                _ if ids.has(process, piece.start) => {}
                _ => found.push((block, piece.pages)),
            }
        }
        let mut blocks = ids.blocks();
        found.retain(|(_, pages)| {
            let takes = self.numbering.takes(*pages, blocks);
            blocks += u64::from(takes);
            takes
        });
        for span in joined(found.into_iter().map(|(block, _)| block)) {
            // All of them first: numbers in a row are one run where nothing lies between.
            ids.map(process, span, |_, _| {});
            for (part, backing) in cx.system.backing(process, &space.inside(span)) {
                ids::map(ids, process, part, backing, events);
            }
        }
    }

    /// Takes back the ids of blocks in which nothing is, and of those with few pages, where more
    /// have ids than may. What is in these stays where it is.
    pub(crate) fn give_back<S: System>(
        &mut self,
        cx: &mut Cx<'_, S>,
        events: &mut Vec<Event>,
    ) -> Result<(), S::Error> {
        if cx.ledger.map.blocks() <= self.numbering.most_ahead() {
            return Ok(());
        }
        // What is looked at below must be up to date.
        cx.tell(core::mem::take(events))?;
        let states = cx.ledger.engine.view().states();
        let used = |region: Region| {
            let states = states.get(region.run().range()).unwrap_or_default();
            let used = PageState::RESIDENT | PageState::IN_FLIGHT;
            states.iter().filter(|state| **state & used != 0).count() as u64
        };
        let mut blocks = cx.ledger.map.blocks();
        let mut unused = Vec::new();
        for region in cx.ledger.map.regions() {
            let pages = used(region);
            let gives = match pages {
                0 => blocks > self.numbering.most_ahead(),
                1..DENSE_PAGES => blocks > self.numbering.most(),
                _ => false,
            };
            if gives {
                blocks -= 1;
                unused.push(region);
            }
        }
        for region in unused {
            events.push(Event::Unmapped { run: region.run() });
            cx.ledger.map.release(region);
        }
        cx.tell(core::mem::take(events))
    }
}

/// Tells of new address space; its blocks have ids where some had them before, or where they get
/// them in advance.
fn map_new(
    ids: &mut AddressMap,
    numbering: &Numbering,
    process: ProcessId,
    span: Span,
    backing: Backing,
    events: &mut Vec<Event>,
) {
    let blocks = span.end().0.div_ceil(REGION_PAGES) - span.start.0 / REGION_PAGES;
    if ids.blocks() + blocks <= numbering.most_ahead() {
        ids::map(ids, process, span, backing, events);
    } else {
        let push = |_, run| events.push(Event::Mapped { run, backing, process });
        ids.known(process, span, push);
    }
}
