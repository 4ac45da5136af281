//! `swap-belady`: slow memory as a swap device, and what leaves is what is used last (Belady, 1966).
//!
//! The best that demand paging can do, as HotBox (ISMM '22, section 3.1) compares with. It reads the trace
//! along with the program: an access in between two faults was served by fast memory. A few pages leave
//! ahead of need, so that the program seldom waits for it.
//!
//! Not good for: anything but a bound of swapping; the simulator only. Departs from its source: what is kept
//! free is not used; in memory that was given back and taken again it may miss accesses.

#[cfg(test)]
mod tests;

use super::contract::{Allocation, FaultDecision, Home, MetricSink, PageSize, Policy};
use super::entry::{Entry, Group};
use super::facts::{Facts, Telemetry};
use super::hotbox::marks;
use super::offline::oracle;
use super::oracle::{AccessReader, KnownAccess};
use super::suited;
use crate::action::{Lane, Plan};
use crate::budget::Budget;
use crate::event::{Event, Fault, MoveCause};
use crate::placement::View;
use crate::types::*;
use alloc::boxed::Box;
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;

/// `swap-belady`.
pub const ENTRY: Entry = Entry {
    name: "swap-belady",
    group: Group::Offline,
    summary: "slow memory is a swap device; what is used last leaves",
    citation: "Belady, IBM Systems Journal 1966; HotBox, ISMM '22, section 3.1",
    pages: Some(PageSize::Base),
    params: &[],
    preset: &[],
    suits: suited::anywhere,
    facts: |_| Facts {
        needs: Telemetry { offline: true, faults: true, ..Telemetry::default() },
        swaps: true,
        in_kernel: true,
        ..Facts::default()
    },
    build: |settings, context| {
        let oracle = oracle(settings, context)?;
        Ok(Box::new(SwapBelady::new(oracle.accesses())))
    },
};

/// Entries of the heap for each page known, before it is made anew.
const SLACK: usize = 4;
/// Of pages that were not accessed yet.
const UNKNOWN: u64 = 0;

/// Belady's algorithm; made by [`ENTRY`].
struct SwapBelady {
    accesses: AccessReader,
    /// Next access of each page, as of the place that has been read.
    next: Vec<u64>,
    /// Pages by their next access; an entry holds where it agrees with `next`.
    heap: BinaryHeap<(u64, u32)>,
    /// Named as victims, or proposed to leave; not in the heap.
    leaving: Vec<PageId>,
    /// Faulted or new, and not known to be in fast memory yet: what room is made for is no victim.
    arriving: Option<PageId>,
    /// Below the low watermark.
    is_low: bool,
    read: u64,
    faults: u64,
    evicted: u64,
    waited_for: u64,
}

impl SwapBelady {
    fn new(accesses: AccessReader) -> Self {
        Self {
            accesses,
            next: Vec::new(),
            heap: BinaryHeap::new(),
            leaving: Vec::new(),
            arriving: None,
            is_low: false,
            read: 0,
            faults: 0,
            evicted: 0,
            waited_for: 0,
        }
    }

    /// Reads up to the next access of a page, which is happening now and brings it in.
    fn arrive(&mut self, page: PageId, view: &View<'_>) {
        self.settle(view);
        if self.arriving.replace(page) == Some(page) {
            return;
        }
        while let Some(access) = (self.accesses)() {
            self.note(access);
            if access.page == page {
                return;
            }
        }
    }

    fn note(&mut self, access: KnownAccess) {
        self.read += 1;
        let at = access.page.index();
        if at >= self.next.len() {
            self.next.resize((at + 1).next_multiple_of(HUGE_PAGES as usize), UNKNOWN);
        }
        self.next[at] = access.next;
        if self.heap.len() > SLACK * self.next.len() {
            let heap = core::mem::take(&mut self.heap).into_vec();
            let holds = |entry: &(u64, u32)| self.next.get(entry.1 as usize) == Some(&entry.0);
            self.heap = heap.into_iter().filter(holds).collect();
        }
        self.heap.push((access.next, access.page.0));
    }

    /// The page of fast memory that is used last; it is in the heap no more.
    fn last_used(&mut self, view: &View<'_>) -> Option<PageId> {
        while let Some((next, page)) = self.heap.pop() {
            let state = view.state(PageId(page));
            let there = state.tier() == Some(TierId::FAST) && !state.is_in_flight();
            if there && self.next.get(page as usize).is_none_or(|known| *known == next) {
                self.leaving.push(PageId(page));
                return Some(PageId(page));
            }
        }
        None
    }

    /// What has arrived, and what was to leave and did not, goes into the heap.
    fn settle(&mut self, view: &View<'_>) {
        let there = |page: &PageId| view.state(*page).tier() == Some(TierId::FAST);
        let (heap, next) = (&mut self.heap, &self.next);
        // A world may touch what the trace does not.
        let next = |page: PageId| next.get(page.index()).copied().unwrap_or(UNKNOWN);
        if let Some(page) = self.arriving.take_if(|page| there(page)) {
            heap.push((next(page), page.0));
        }
        self.leaving.retain(|page| {
            let state = view.state(*page);
            if state.tier() == Some(TierId::FAST) && !state.is_in_flight() {
                heap.push((next(*page), page.0));
            }
            state.is_in_flight()
        });
    }
}

impl Policy for SwapBelady {
    fn observe(&mut self, _: Nanos, events: &[Event], view: &View<'_>) {
        for event in events {
            if let Event::Moved { run, cause: MoveCause::Reclaim, .. } = event {
                self.waited_for += u64::from(run.pages);
            }
        }
        self.is_low = view.free(TierId::FAST).0 < marks(view, 0.0).low;
    }

    fn decide(&mut self, _: Nanos, view: &View<'_>, _: Budget, plan: &mut Plan) {
        self.is_low = false;
        self.settle(view);
        let leaving = self.leaving.len() as u64;
        let need = marks(view, 0.0).high.saturating_sub(view.free(TierId::FAST).0 + leaving);
        for _ in 0..need {
            let Some(page) = self.last_used(view) else { break };
            self.evicted += 1;
            plan.migrate(PageRun::single(page), TierId::FAST.slower(), Lane::DEMOTE);
        }
    }

    fn next_wakeup(&self) -> Option<Nanos> {
        self.is_low.then_some(Nanos::ZERO)
    }

    fn place(&mut self, _: Nanos, allocation: &Allocation, view: &View<'_>) -> Home {
        self.arrive(allocation.run.start, view);
        Home::default()
    }

    fn on_fault(&mut self, _: Nanos, fault: &Fault, view: &View<'_>) -> FaultDecision {
        self.faults += 1;
        self.arrive(fault.page, view);
        FaultDecision::Stay
    }

    fn victims(&mut self, _: Nanos, wanted: PageCount, view: &View<'_>, out: &mut Vec<PageId>) {
        self.settle(view);
        let victims = (0..wanted.0).map_while(|_| self.last_used(view));
        out.extend(victims);
    }

    fn metrics(&self, sink: &mut MetricSink<'_>) {
        for (name, value) in [
            ("accesses_read_total", self.read),
            ("faults_total", self.faults),
            ("evictions_proposed_pages_total", self.evicted),
            ("evicted_while_waiting_pages_total", self.waited_for),
        ] {
            sink(name, value as f64);
        }
    }

    fn metadata_bytes(&self) -> Bytes {
        let next = self.next.capacity() * size_of::<u64>();
        let heap = self.heap.capacity() * size_of::<(u64, u32)>();
        let leaving = self.leaving.capacity() * size_of::<PageId>();
        Bytes((next + heap + leaving) as u64)
    }
}
