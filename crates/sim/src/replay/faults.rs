//! Faults: first touches, armed pages, tiers without direct access.

use super::kernel::Kernel;
use super::marks;
use super::reclaim::Reclaim;
use super::setup::Setup;
use super::time::Wait;
use super::zeroed::Zeroed;
use crate::error::SimError;
use frostline_core::event::{Event, Fault, MoveCause};
use frostline_core::policy::{Allocation, FaultDecision, Placed};
use frostline_core::rng::Rng;
use frostline_core::types::*;
use frostline_daemon::TouchKind;

/// Whoever serves faults.
#[derive(Debug)]
pub(super) struct Faults {
    /// Tiers that are below their watermark.
    low: Vec<bool>,
    /// Draws which of the threads faults that a thread of the trace stands for.
    lane: Rng,
    pub(super) zeroed: Zeroed,
    pub(super) reclaim: Reclaim,
    pub(super) base_faults: u64,
    pub(super) huge_faults: u64,
    pub(super) hint_faults: u64,
    pub(super) refaults: u64,
}

impl Faults {
    /// For a recording whose cache holds so much.
    pub(super) fn new(setup: &Setup<'_>, cache: Bytes) -> Self {
        let waits = setup.machine.costs.zero_line_stalls > 0.0;
        Self {
            low: vec![false; setup.tiers()],
            lane: Rng::new(setup.options.seed).fork(),
            zeroed: Zeroed::new(if waits { cache.0 } else { 0 }),
            reclaim: Reclaim::default(),
            base_faults: 0,
            huge_faults: 0,
            hint_faults: 0,
            refaults: 0,
        }
    }

    pub(super) fn first_touch(
        &mut self,
        kernel: &mut Kernel<'_>,
        page: PageId,
        process: ProcessId,
    ) -> Result<(), SimError> {
        let region = page.region();
        // A kernel without tiering, on which a daemon builds, asks no policy.
        let base = kernel.engine.facts().base_pages && !kernel.setup.is_hosted();
        let huge = kernel.setup.machine.os.thp && !base;
        if huge && kernel.space.allows_huge(region) && kernel.is_empty(region) {
            let run = region.run();
            let allocation = Allocation { run, huge: true, may_be_huge: false, process };
            if self.populate_huge(kernel, region, &allocation) {
                return Ok(());
            }
        }
        let may_be_huge = may_be_huge(kernel, region);
        let run = PageRun::single(page);
        let mut allocation = Allocation { run, huge: false, may_be_huge, process };
        let placed = match allocate(kernel, &allocation) {
            Some(Placed { tier, huge: true }) => {
                if self.map_folio(kernel, region, tier) {
                    return Ok(());
                }
                allocation.may_be_huge = false;
                allocate(kernel, &allocation)
            }
            placed => placed,
        };
        let Placed { tier, .. } = match placed {
            Some(placed) => placed,
            None => {
                self.reclaim.make_room(kernel, TierId::FAST, 1);
                allocation.may_be_huge = false;
                allocate(kernel, &allocation).ok_or_else(|| kernel.full(1))?
            }
        };
        kernel.frames.place(page, tier);
        kernel.marks[page.index()] = marks::USED;
        self.base_faults += 1;
        let ns = kernel.setup.machine.costs.fault_base_ns + kernel.setup.zero_ns(PAGE_BYTES, tier);
        kernel.time.wait_anyway(ns);
        self.zeroed.add_run(PageRun::single(page));
        self.allocated(kernel);
        Ok(())
    }

    fn populate_huge(
        &mut self,
        kernel: &mut Kernel<'_>,
        region: Region,
        allocation: &Allocation,
    ) -> bool {
        let tiers = kernel.setup.tiers() as u8;
        if !kernel.setup.machine.os.thp_remote && !has_block_nearby(kernel) {
            return false;
        }
        if !(0..tiers).any(|t| kernel.frames.has_huge(TierId(t))) {
            kernel.sums.huge_frame_shortages += 1;
            return false;
        }
        let Some(Placed { tier, .. }) = allocate(kernel, allocation) else { return false };
        self.map_folio(kernel, region, tier)
    }

    /// A folio that was populated is mapped, or freed again where no block is free for it.
    fn map_folio(&mut self, kernel: &mut Kernel<'_>, region: Region, tier: TierId) -> bool {
        if !kernel.take_huge_frame(region, tier) {
            kernel.pending.push(Event::Freed { run: region.run() });
            kernel.tell();
            return false;
        }
        kernel.marks[region.run().range()].fill(marks::USED);
        self.huge_faults += 1;
        let ns = kernel.setup.machine.costs.fault_huge_ns
            + kernel.setup.zero_ns(region.run().bytes().0, tier);
        kernel.time.wait_anyway(ns);
        self.zeroed.add_run(region.run());
        self.allocated(kernel);
        true
    }

    /// Memory was allocated: notes peaks, and tells of tiers that fell below their watermark.
    fn allocated(&mut self, kernel: &mut Kernel<'_>) {
        kernel.note_allocation();
        for t in 0..self.low.len() {
            let tier = TierId(t as u8);
            let view = kernel.engine.view();
            let low = view.free(tier) < view.limits(tier).keep_free;
            if low && !self.low[t] {
                kernel.pending.push(Event::Pressure { tier });
            }
            self.low[t] = low;
        }
    }

    /// One of the threads for which a thread of the trace stands: any of them, since they do the same.
    fn thread_of(&mut self, stream: u32, lanes: u32) -> u32 {
        if lanes == 1 {
            return stream;
        }
        stream.wrapping_mul(lanes).wrapping_add(self.lane.below(u64::from(lanes)) as u32)
    }

    /// An armed page, or one in a tier without direct access, is touched.
    pub(super) fn fault(
        &mut self,
        kernel: &mut Kernel<'_>,
        page: PageId,
        write: bool,
        (process, stream): (ProcessId, u32),
    ) -> Result<(), SimError> {
        let state = kernel.engine.view().state(page);
        let Some(tier) = state.tier() else { return Ok(()) };
        let direct = kernel.serves(tier);
        if state.is_armed() {
            self.hint_faults += 1;
            kernel.time.wait(Wait::Fault, kernel.setup.machine.costs.hint_fault_ns);
        }
        if !direct {
            self.refaults += 1;
            kernel.sampling.see(TouchKind::Refault, || kernel.space.address(page));
        }
        let thread = self.thread_of(stream, kernel.setup.machine.cpu.lanes);
        let fault = Fault { page, tier, write, process, thread };
        let decision = kernel.engine.on_fault(kernel.now(), &fault);
        kernel.pending.push(Event::Fault(fault));
        let cause = if direct { MoveCause::FaultDecision } else { MoveCause::Refault };
        match decision {
            FaultDecision::MoveHere(to) if kernel.serves(to) => {
                move_now(kernel, page, to, cause);
            }
            FaultDecision::Exchange(other) => exchange(kernel, page, other, cause),
            _ => {}
        }
        if let Some(tier) = kernel.engine.view().state(page).tier()
            && !kernel.serves(tier)
        {
            self.bring_in(kernel, page)?;
        }
        kernel.after_events();
        Ok(())
    }

    /// A page that cannot be accessed where it is goes to the fastest tier, whoever must leave.
    fn bring_in(&mut self, kernel: &mut Kernel<'_>, page: PageId) -> Result<(), SimError> {
        let unit = kernel.unit(page);
        let pages = u64::from(unit.pages);
        let with_room = |kernel: &Kernel<'_>| {
            let has_room =
                |tier: &TierId| kernel.serves(*tier) && kernel.engine.view().free(*tier).0 >= pages;
            (0..kernel.setup.tiers() as u8).map(TierId).find(has_room)
        };
        if with_room(kernel).is_none() {
            self.reclaim.make_room(kernel, TierId::FAST, pages);
        }
        let to = with_room(kernel).ok_or_else(|| kernel.full(pages))?;
        move_now(kernel, page, to, MoveCause::Refault);
        Ok(())
    }
}

/// Where the policy wants new memory, or where there is room for it.
fn allocate(kernel: &mut Kernel<'_>, allocation: &Allocation) -> Option<Placed> {
    let placed = kernel.engine.populate(kernel.now(), allocation);
    kernel.after_events();
    if kernel.setup.is_hosted() {
        kernel.space.note_use(allocation.run.start);
    }
    placed
}

/// Whether a base page that is about to be mapped can be a folio instead, where the system maps
/// none by itself and the program has not refused them.
fn may_be_huge(kernel: &mut Kernel<'_>, region: Region) -> bool {
    let os = &kernel.setup.machine.os;
    let offered = !os.thp && os.collapse && !kernel.setup.is_hosted();
    let tiers = kernel.setup.tiers() as u8;
    offered
        && !kernel.engine.facts().base_pages
        && kernel.space.allows_huge(region)
        && kernel.is_empty(region)
        && (0..tiers).any(|tier| kernel.frames.has_huge(TierId(tier)))
}

/// Whether tier 0 has room for a folio, and a free block.
fn has_block_nearby(kernel: &mut Kernel<'_>) -> bool {
    let view = kernel.engine.view();
    let (used, room) = (view.used(TierId::FAST), view.limits(TierId::FAST).capacity);
    used.0 + u64::from(HUGE_PAGES) <= room.0 && kernel.frames.has_whole(TierId::FAST)
}

/// Moves a unit while the program waits.
fn move_now(kernel: &mut Kernel<'_>, page: PageId, to: TierId, cause: MoveCause) {
    let unit = kernel.unit(page);
    let Some(from) = kernel.engine.view().state(page).tier() else { return };
    if from == to {
        return;
    }
    let mapped = kernel.serves(from);
    let ns = if mapped {
        kernel.setup.machine.move_in_fault_ns(from.index(), to.index(), unit.pages)
    } else {
        f64::from(unit.pages) * kernel.setup.machine.page_in_ns(from.index(), to.index())
    };
    let what = if cause == MoveCause::Reclaim { Wait::Migrate } else { Wait::Fault };
    kernel.time.wait(what, ns);
    kernel.relocate(unit, from, to);
    if mapped {
        kernel.shootdown(unit, 1);
    }
    kernel.pending.push(Event::Moved { run: unit, to, cause });
    kernel.tell();
    kernel.note_peaks();
}

/// Two units swap places and frames while the program waits.
fn exchange(kernel: &mut Kernel<'_>, page: PageId, other: PageId, cause: MoveCause) {
    let view = kernel.engine.view();
    let (Some(here), Some(there)) = (view.state(page).tier(), view.state(other).tier()) else {
        return;
    };
    let (a, b) = (kernel.unit(page), kernel.unit(other));
    if here == there || a.pages != b.pages || !kernel.serves(there) {
        return;
    }
    let (from, to) = (here.index(), there.index());
    let ns = if kernel.serves(here) {
        kernel.setup.machine.move_in_fault_ns(from, to, a.pages)
            + kernel.setup.machine.move_in_fault_ns(to, from, a.pages)
    } else {
        f64::from(a.pages)
            * (kernel.setup.machine.page_in_ns(from, to) + kernel.setup.machine.swap_ns(to, from))
    };
    kernel.time.wait(Wait::Fault, ns);
    for (a, b) in a.iter().zip(b.iter()) {
        kernel.frames.swap(a, b);
    }
    kernel.account_move(b, there, here);
    kernel.account_move(a, here, there);
    kernel.shootdown(a, 1);
    kernel.translations.forget(b);
    kernel.pending.push(Event::Moved { run: b, to: here, cause });
    kernel.pending.push(Event::Moved { run: a, to: there, cause });
    kernel.tell();
}
