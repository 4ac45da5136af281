//! Touches that are no plain accesses: first touches, armed pages, tiers without direct access.

use super::{EVENT_BATCH, Replay, Wait, marks};
use crate::clock::Counts;
use crate::error::SimError;
use crate::frames::HugeFrame;
use frostline_core::event::{Event, Fault, MoveCause};
use frostline_core::placement::PageState;
use frostline_core::policy::{Allocation, FaultDecision, Placed};
use frostline_core::types::*;
use frostline_daemon::TouchKind;
use frostline_trace::Batch;

/// Pages that the kernel's reclaim evicts at once (`SWAP_CLUSTER_MAX`).
const RECLAIM_PAGES: u64 = 32;

impl Replay<'_> {
    /// The batch again, one access after the other; leaves in `states` how each was served.
    #[cold]
    pub(super) fn touch_batch(&mut self, batch: &Batch) -> Result<(), SimError> {
        self.states.resize(batch.len(), 0);
        let mut spared_ns = 0.0;
        for i in 0..batch.len() {
            let page = PageId(batch.pages[i]);
            let mut state = self.engine.view().state(page);
            if state.0 & PageState::ATTENTION != 0 {
                let stream = batch.streams.get(i);
                if !state.is_resident() {
                    self.first_touch(page, self.process_of(stream))?;
                    state = self.engine.view().state(page);
                }
                if state.0 & PageState::ATTENTION != 0 {
                    self.fault(page, batch.kind(i).is_write(), stream)?;
                    state = self.engine.view().state(page);
                }
            }
            // Again, after the batch's pass: a folio mapped meanwhile came without marks.
            self.marks[page.index()] = marks::ALL;
            self.states[i] = state.0;
            if let Some(tier) = state.tier() {
                spared_ns += self.spared_ns(page, batch.kind(i), tier);
            }
        }
        if spared_ns > 0.0 {
            self.first_touch_wait(-spared_ns * f64::from(self.thinning));
        }
        Ok(())
    }

    pub(super) fn first_touch(&mut self, page: PageId, process: ProcessId) -> Result<(), SimError> {
        let region = page.region();
        let huge = self.machine.os.thp && !self.engine.facts().base_pages;
        if huge && self.space.allows_huge(region) && self.is_empty(region) {
            let run = region.run();
            let allocation = Allocation { run, huge: true, may_be_huge: false, process };
            if self.populate_huge(region, &allocation) {
                return Ok(());
            }
        }
        let may_be_huge = self.may_be_huge(region);
        let run = PageRun::single(page);
        let mut allocation = Allocation { run, huge: false, may_be_huge, process };
        let placed = match self.allocate(&allocation) {
            Some(Placed { tier, huge: true }) => {
                if self.map_folio(region, tier) {
                    return Ok(());
                }
                allocation.may_be_huge = false;
                self.allocate(&allocation)
            }
            placed => placed,
        };
        let Placed { tier, .. } = match placed {
            Some(placed) => placed,
            None => {
                self.reclaim(TierId::FAST, 1);
                allocation.may_be_huge = false;
                self.allocate(&allocation).ok_or_else(|| self.full(1))?
            }
        };
        self.frames.place(page, tier);
        self.marks[page.index()] = marks::USED;
        self.totals.base_faults += 1;
        let ns = self.machine.costs.fault_base_ns + self.zero_ns(PAGE_BYTES, tier);
        self.first_touch_wait(ns);
        self.note_zeroed(PageRun::single(page));
        self.allocated();
        Ok(())
    }

    /// Where the policy wants new memory, or where there is room for it.
    fn allocate(&mut self, allocation: &Allocation) -> Option<Placed> {
        let placed = self.engine.populate(self.now(), allocation);
        self.after_events();
        if self.hosted.is_some() {
            self.space.note_use(allocation.run.start);
        }
        placed
    }

    fn populate_huge(&mut self, region: Region, allocation: &Allocation) -> bool {
        let tiers = self.machine.tiers.len() as u8;
        if !self.machine.os.thp_remote && !self.has_block_nearby() {
            return false;
        }
        if !(0..tiers).any(|t| self.frames.has_huge(TierId(t))) {
            self.totals.huge_frame_shortages += 1;
            return false;
        }
        let Some(Placed { tier, .. }) = self.allocate(allocation) else { return false };
        self.map_folio(region, tier)
    }

    /// Whether a base page that is about to be mapped can be a folio instead, where the system maps
    /// none by itself and the program has not refused them.
    fn may_be_huge(&mut self, region: Region) -> bool {
        let os = &self.machine.os;
        let offered = !os.thp && os.collapse && self.hosted.is_none();
        let tiers = self.machine.tiers.len() as u8;
        offered
            && !self.engine.facts().base_pages
            && self.space.allows_huge(region)
            && self.is_empty(region)
            && (0..tiers).any(|tier| self.frames.has_huge(TierId(tier)))
    }

    /// A folio that was populated is mapped, or freed again where no block is free for it.
    fn map_folio(&mut self, region: Region, tier: TierId) -> bool {
        if !self.take_huge_frame(region, tier) {
            self.pending.push(Event::Freed { run: region.run() });
            self.tell();
            return false;
        }
        self.marks[region.run().range()].fill(marks::USED);
        self.totals.huge_faults += 1;
        let ns = self.machine.costs.fault_huge_ns + self.zero_ns(region.run().bytes().0, tier);
        self.first_touch_wait(ns);
        self.note_zeroed(region.run());
        self.allocated();
        true
    }

    /// Whether tier 0 has room for a folio, and a free block.
    fn has_block_nearby(&mut self) -> bool {
        let view = self.engine.view();
        let (used, room) = (view.used(TierId::FAST), view.limits(TierId::FAST).capacity);
        used.0 + u64::from(HUGE_PAGES) <= room.0 && self.frames.has_whole(TierId::FAST)
    }

    /// Gives a folio a block of frames; pays for compaction. False where there is none.
    pub(super) fn take_huge_frame(&mut self, region: Region, tier: TierId) -> bool {
        match self.frames.place_huge(region, tier) {
            HugeFrame::Free => true,
            HugeFrame::Compacted(pages) => {
                self.totals.compacted += u64::from(pages);
                let costs = &self.machine.costs;
                let page_ns =
                    costs.migrate_base_ns + self.machine.move_page_ns(tier.index(), tier.index());
                self.wait(Wait::Migrate, f64::from(pages) * page_ns);
                true
            }
            HugeFrame::None => {
                self.totals.huge_frame_shortages += 1;
                false
            }
        }
    }

    fn first_touch_wait(&mut self, ns: f64) {
        self.waiting_anyway_ns += ns / self.parallel;
        self.wait(Wait::Fault, ns);
    }

    fn is_empty(&self, region: Region) -> bool {
        let states = self.engine.states();
        let range = region.run().range();
        let empty = |s: &[u8]| s.iter().all(|&s| !PageState(s).is_resident());
        states.get(range).is_none_or(empty)
    }

    fn full(&self, pages: u64) -> SimError {
        SimError::OutOfMemory {
            resident_bytes: self.engine.view().resident().bytes().0,
            wanted_bytes: PageCount(pages).bytes().0,
        }
    }

    /// Memory was allocated: notes peaks, and tells of tiers that fell below their watermark.
    pub(super) fn allocated(&mut self) {
        self.populated += 1;
        if self.populated >= EVENT_BATCH {
            self.tell_all();
        }
        self.note_peaks();
        for t in 0..self.low.len() {
            let tier = TierId(t as u8);
            let view = self.engine.view();
            let low = view.free(tier) < view.limits(tier).keep_free;
            if low && !self.low[t] {
                self.pending.push(Event::Pressure { tier });
            }
            self.low[t] = low;
        }
    }

    pub(super) fn note_peaks(&mut self) {
        let view = self.engine.view();
        let mut sum = 0;
        for (t, max) in self.totals.resident_max.iter_mut().enumerate().take(view.tiers()) {
            let used = view.used(TierId(t as u8)).0;
            *max = used.max(*max);
            sum += used;
        }
        self.totals.resident_sum_max = self.totals.resident_sum_max.max(sum);
    }

    /// An armed page, or one in a tier without direct access, is touched.
    pub(super) fn fault(&mut self, page: PageId, write: bool, stream: u32) -> Result<(), SimError> {
        let process = self.process_of(stream);
        let state = self.engine.view().state(page);
        let Some(tier) = state.tier() else { return Ok(()) };
        let direct = self.serves(tier);
        if state.is_armed() {
            self.totals.hint_faults += 1;
            self.wait(Wait::Fault, self.machine.costs.hint_fault_ns);
        }
        if !direct {
            self.totals.refaults += 1;
            if let Some(hosted) = &mut self.hosted {
                hosted.see(self.space.address(page), TouchKind::Refault);
            }
        }
        let fault = Fault { page, tier, write, process, thread: stream };
        let decision = self.engine.on_fault(self.now(), &fault);
        self.pending.push(Event::Fault(fault));
        let cause = if direct { MoveCause::FaultDecision } else { MoveCause::Refault };
        match decision {
            FaultDecision::MoveHere(to) if self.serves(to) => {
                self.move_now(page, to, cause);
            }
            FaultDecision::Exchange(other) => self.exchange(page, other, cause),
            _ => {}
        }
        if let Some(tier) = self.engine.view().state(page).tier()
            && !self.serves(tier)
        {
            self.bring_in(page)?;
        }
        self.after_events();
        if self.now().0 >= self.wake {
            self.work_meanwhile(stream);
        }
        Ok(())
    }

    /// Whether programs can load and store in a tier, by the machine and the policy.
    pub(super) fn serves(&self, tier: TierId) -> bool {
        self.engine.view().limits(tier).direct_access
    }

    /// Background work goes on while a thread waits for its fault.
    fn work_meanwhile(&mut self, stream: u32) {
        let span_ns = self.advance(0.0, 0.0, &Counts::default());
        if self.operations.is_open() {
            self.operations.run(stream, span_ns * self.parallel);
        }
        self.serve();
    }

    /// A page that cannot be accessed where it is goes to the fastest tier, whoever must leave.
    fn bring_in(&mut self, page: PageId) -> Result<(), SimError> {
        let unit = self.unit(page);
        let pages = u64::from(unit.pages);
        let has_room = |replay: &Self, t: usize| {
            let tier = TierId(t as u8);
            replay.serves(tier) && replay.engine.view().free(tier).0 >= pages
        };
        let tiers = self.machine.tiers.len();
        if !(0..tiers).any(|t| has_room(self, t)) {
            self.reclaim(TierId::FAST, pages);
        }
        let to = (0..tiers).find(|&t| has_room(self, t)).ok_or_else(|| self.full(pages))?;
        self.move_now(page, TierId(to as u8), MoveCause::Refault);
        Ok(())
    }

    /// The page, or the whole folio that holds it.
    pub(super) fn unit(&self, page: PageId) -> PageRun {
        if self.engine.view().state(page).is_huge() {
            page.region().run()
        } else {
            PageRun::single(page)
        }
    }

    /// Moves a unit while the program waits.
    fn move_now(&mut self, page: PageId, to: TierId, cause: MoveCause) {
        let unit = self.unit(page);
        let Some(from) = self.engine.view().state(page).tier() else { return };
        if from == to {
            return;
        }
        let mapped = self.serves(from);
        let ns = if mapped {
            self.machine.move_in_fault_ns(from.index(), to.index(), unit.pages)
        } else {
            f64::from(unit.pages) * self.machine.page_in_ns(from.index(), to.index())
        };
        let what = if cause == MoveCause::Reclaim { Wait::Migrate } else { Wait::Fault };
        self.wait(what, ns);
        self.relocate(unit, from, to);
        if mapped {
            self.shootdown(unit, 1);
        }
        self.pending.push(Event::Moved { run: unit, to, cause });
        self.tell();
        self.note_peaks();
    }

    /// Two units swap places and frames while the program waits.
    fn exchange(&mut self, page: PageId, other: PageId, cause: MoveCause) {
        let view = self.engine.view();
        let (Some(here), Some(there)) = (view.state(page).tier(), view.state(other).tier()) else {
            return;
        };
        let (a, b) = (self.unit(page), self.unit(other));
        if here == there || a.pages != b.pages || !self.serves(there) {
            return;
        }
        let (from, to) = (here.index(), there.index());
        let ns = if self.serves(here) {
            self.machine.move_in_fault_ns(from, to, a.pages)
                + self.machine.move_in_fault_ns(to, from, a.pages)
        } else {
            f64::from(a.pages)
                * (self.machine.page_in_ns(from, to) + self.machine.swap_ns(to, from))
        };
        self.wait(Wait::Fault, ns);
        for (a, b) in a.iter().zip(b.iter()) {
            self.frames.swap(a, b);
        }
        self.account_move(b, there, here);
        self.account_move(a, here, there);
        self.shootdown(a, 1);
        self.forget_translations(b);
        self.pending.push(Event::Moved { run: b, to: here, cause });
        self.pending.push(Event::Moved { run: a, to: there, cause });
        self.tell();
    }

    /// Frames, marks and counts of a unit that changes tiers; the engine is told by the caller.
    pub(super) fn relocate(&mut self, unit: PageRun, from: TierId, to: TierId) {
        let huge = unit.pages == HUGE_PAGES && self.engine.view().state(unit.start).is_huge();
        if !huge || !self.take_huge_frame(unit.start.region(), to) {
            for page in unit.iter() {
                self.frames.place(page, to);
            }
        }
        self.account_move(unit, from, to);
    }

    pub(super) fn account_move(&mut self, unit: PageRun, from: TierId, to: TierId) {
        self.clock.copied(from, to, unit.bytes().0);
        self.totals.moved_pages[from.index()][to.index()] += u64::from(unit.pages);
        if to < from {
            self.totals.promoted_pages += u64::from(unit.pages);
            self.marks[unit.range()].iter_mut().for_each(|m| *m &= !marks::USED);
        } else {
            self.settle_promotion(unit);
        }
    }

    /// A unit leaves: where it was promoted and not touched since, that promotion was for nothing.
    pub(super) fn settle_promotion(&mut self, unit: PageRun) {
        let marks = &mut self.marks[unit.range()];
        if marks.iter().all(|m| m & marks::USED == 0) {
            self.totals.promoted_unused += u64::from(unit.pages);
        }
        marks.iter_mut().for_each(|m| *m |= marks::USED);
    }

    /// Kernel reclaim: makes room for `pages` and a few more in a tier, into the next slower tiers with
    /// room. The policy's victims go first, then others by second chance in the order of page ids.
    fn reclaim(&mut self, tier: TierId, pages: u64) {
        let wanted = pages.max(RECLAIM_PAGES);
        if tier == TierId::FAST {
            for page in self.engine.victims(self.now(), PageCount(wanted)) {
                let unit = self.unit(page);
                let there = self.engine.view().state(page).tier() == Some(tier);
                if self.engine.view().free(tier).0 >= wanted || there && !self.evict(unit, tier) {
                    break;
                }
            }
        }
        let known = self.engine.view().pages();
        let mut looked = 0u64;
        while self.engine.view().free(tier).0 < wanted && looked < 2 * u64::from(known) {
            if self.clock_hand >= known {
                self.clock_hand = 0;
            }
            let page = PageId(self.clock_hand);
            let unit = self.unit(page);
            self.clock_hand = unit.end();
            looked += u64::from(unit.pages);
            let state = self.engine.view().state(page);
            if state.tier() != Some(tier) || state.is_in_flight() {
                continue;
            }
            let marks = &mut self.marks[unit.range()];
            let referenced = marks.iter().any(|m| m & marks::REFERENCED != 0);
            marks.iter_mut().for_each(|m| *m &= !marks::REFERENCED);
            if referenced {
                continue;
            }
            if !self.evict(unit, tier) {
                return;
            }
        }
    }

    fn evict(&mut self, unit: PageRun, from: TierId) -> bool {
        let tiers = self.machine.tiers.len() as u8;
        let view = self.engine.view();
        let room = |t: &TierId| view.free(*t).0 >= u64::from(unit.pages);
        let Some(to) = (from.0 + 1..tiers).map(TierId).find(room) else { return false };
        let page_ns = self.machine.swap_ns(from.index(), to.index());
        self.wait(Wait::Migrate, f64::from(unit.pages) * page_ns);
        self.relocate(unit, from, to);
        self.shootdown(unit, 1);
        self.totals.reclaimed += u64::from(unit.pages);
        self.pending.push(Event::Moved { run: unit, to, cause: MoveCause::Reclaim });
        self.tell();
        true
    }

    /// Translations of a run are gone from every buffer; every core that runs the program is
    /// interrupted `times` times.
    pub(super) fn shootdown(&mut self, run: PageRun, times: u64) {
        self.totals.shootdowns += times;
        self.interrupt(Wait::Migrate, times as f64 * self.machine.costs.shootdown_ns);
        self.forget_translations(run);
    }

    pub(super) fn forget_translations(&mut self, run: PageRun) {
        if run.pages == 0 {
            return;
        }
        if self.is_nested() {
            return self.flush_guest(run.start);
        }
        for tlb in &mut self.tlbs {
            run.iter().for_each(|page| tlb.flush_base(page.0));
            for region in run.start.region().0..=PageId(run.end() - 1).region().0 {
                tlb.flush_huge(region);
            }
        }
    }
}
