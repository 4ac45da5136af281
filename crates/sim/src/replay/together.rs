//! Programs and guests that take turns: what the replay does for them, and they for it.

use super::kernel::Kernel;
use super::setup::Setup;
use super::time::Wait;
use super::{Replay, marks};
use crate::error::SimError;
use crate::guest::{Done, Moved, Program, Together};
use frostline_core::placement::PageState;
use frostline_core::types::*;
use frostline_trace::{Batch, TraceSource};

/// Times that a program's fast memory is counted in its run.
const COUNTS: u64 = 256;

/// Where batches come from.
pub(super) trait Feed {
    /// The next one; false at the end of all.
    fn next(&mut self, replay: &mut Replay<'_>, batch: &mut Batch) -> Result<bool, SimError>;
    /// It has been replayed.
    fn ran(&mut self, replay: &mut Replay<'_>) {
        let _ = replay;
    }
    /// All is over: counters of its own.
    fn report(&self, put: &mut dyn FnMut(&str, f64)) {
        let _ = put;
    }
}

/// A trace by itself.
pub(super) struct SingleTrace<'s>(pub(super) &'s mut dyn TraceSource);

impl Feed for SingleTrace<'_> {
    fn next(&mut self, _: &mut Replay<'_>, batch: &mut Batch) -> Result<bool, SimError> {
        Ok(self.0.next_batch(batch)?)
    }
}

/// What a replay knows of the programs that take turns.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Whose it is, and since when.
    pub(super) program: usize,
    began_ns: f64,
    /// Processor time of guests, for what they do about their own memory.
    pub(super) guest_cpu_ns: f64,
}

impl Feed for Together {
    fn next(&mut self, replay: &mut Replay<'_>, batch: &mut Batch) -> Result<bool, SimError> {
        while let Some(index) = self.behind() {
            let program = &mut self.programs[index];
            guest_acts(replay, program)?;
            let mut unused = Vec::new();
            let kernel = &mut replay.kernel;
            let own = kernel.translations.guests.as_mut().map(|guests| &mut guests.own_pages);
            let ended = !program.next_batch(batch, own.unwrap_or(&mut unused), &mut self.clock)?;
            if ended {
                program.tally.seconds = program.seconds();
            }
            kernel.time.parallel = self.parallel(&kernel.setup.machine.cpu);
            if let Some(turn) = &mut replay.turn {
                (turn.program, turn.began_ns) = (index, kernel.time.ns);
            }
            if !ended {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn ran(&mut self, replay: &mut Replay<'_>) {
        let Some(turn) = &replay.turn else { return };
        let program = &mut self.programs[turn.program];
        let Setup { machine, thinning, .. } = replay.kernel.setup;
        let span_ns = replay.kernel.time.ns - turn.began_ns;
        let own = program.parallel(&machine.cpu);
        program.time_ns += span_ns * replay.kernel.time.parallel / own.max(1.0);
        let thinning = u64::from(thinning);
        let served = replay.served.last();
        let fast = served.iter().filter(|s| *s & PageState::TIER == 0).count() as u64;
        let served = served.len() as u64;
        program.tally.accesses += served * thinning;
        program.tally.fast_accesses += fast * thinning;
        program.counted.until = program.counted.until.saturating_sub(served);
        if program.counted.until == 0 {
            program.counted.until = program.records_of_part(COUNTS);
            count_fast(&replay.kernel, program);
        }
    }

    fn report(&self, put: &mut dyn FnMut(&str, f64)) {
        Self::report(self, put);
    }
}

/// Fast memory of a program, since it was counted last.
fn count_fast(kernel: &Kernel<'_>, program: &mut Program) {
    let known = program.run().intersect(PageRun::between(0, kernel.engine.view().pages()));
    let states = &kernel.engine.states()[known.range()];
    let fast = |s: &&u8| PageState(**s).tier() == Some(TierId::FAST);
    let pages = states.iter().filter(fast).count() as u64;
    let span_ns = program.time_ns - std::mem::replace(&mut program.counted.at_ns, program.time_ns);
    let late = program.is_late();
    program.tally.add_fast(pages, span_ns, late);
    let resident = match &program.guest {
        Some(guest) => guest.map.mapped(),
        None => states.iter().filter(|s| PageState(**s).is_resident()).count() as u64,
    };
    program.tally.resident_max = program.tally.resident_max.max(resident);
}

/// What a guest does of itself when it is due: it looks at access bits, and gathers hot pages.
fn guest_acts(replay: &mut Replay<'_>, program: &mut Program) -> Result<(), SimError> {
    let (now_ns, late) = (replay.kernel.time.ns, program.is_late());
    let (base, process) = (program.shift.base, program.process());
    let tally = &mut program.tally;
    let Some(guest) = program.guest.as_mut().filter(|guest| guest.is_due(now_ns)) else {
        return Ok(());
    };
    let (what, ns) = match guest.act(now_ns, late, tally) {
        Done::Nothing => return Ok(()),
        Done::Scanned(bits) => {
            let ns = bits as f64 * replay.kernel.setup.machine.costs.scan_ns;
            tally.consolidation.scan_ns += ns;
            (Wait::Scan, ns)
        }
        Done::Consolidated(moved) => {
            let ns = gather(replay, &moved, base, process)?;
            tally.consolidation.ns += ns;
            (Wait::Migrate, ns)
        }
    };
    guest.busy(ns);
    if let Some(turn) = &mut replay.turn {
        turn.guest_cpu_ns += ns;
    }
    replay.kernel.time.work(what, ns);
    Ok(())
}

/// Pages of a guest change frames: each is blocked and flushed before it is copied, lest stores
/// are lost, and then mapped where the copy is. The time of a processor of the guest.
fn gather(
    replay: &mut Replay<'_>,
    moved: &[Moved],
    base: u32,
    process: ProcessId,
) -> Result<f64, SimError> {
    let machine = replay.kernel.setup.machine;
    let costs = &machine.costs;
    let page_ns = costs.arm_ns + costs.migrate_base_ns;
    let shootdown_ns = costs.shootdown_ns * moved.len() as f64;
    let mut ns = page_ns * moved.len() as f64 + shootdown_ns;
    for one in moved {
        let from = touch_by_guest(replay, PageId(base + one.from), process)?;
        let to = touch_by_guest(replay, PageId(base + one.to), process)?;
        ns += machine.move_page_ns(from.index(), to.index());
        replay.kernel.time.memory.copied(from, to, PAGE_BYTES);
        replay.kernel.translations.flush_in_guest(base, one.page);
    }
    let kernel = &mut replay.kernel;
    kernel.translations.shootdowns += moved.len() as u64;
    kernel.time.interrupt_by_worker(Wait::Migrate, shootdown_ns);
    Ok(ns)
}

/// The guest's kernel reads or writes a page of the host.
fn touch_by_guest(
    replay: &mut Replay<'_>,
    page: PageId,
    process: ProcessId,
) -> Result<TierId, SimError> {
    if !replay.kernel.engine.view().state(page).is_resident() {
        replay.faults.first_touch(&mut replay.kernel, page, process)?;
    }
    if replay.kernel.engine.view().state(page).0 & PageState::ATTENTION != 0 {
        replay.fault(page, true, process.0)?;
    }
    replay.kernel.marks[page.index()] = marks::ALL;
    Ok(replay.kernel.engine.view().state(page).tier().unwrap_or(TierId::FAST))
}
