//! Programs and guests that take turns: what the replay does for them, and they for it.

use super::{Replay, Wait, marks};
use crate::error::SimError;
use crate::guest::{Done, Moved, Program, Together};
use crate::tlb::{Lookup, Tlb};
use frostline_core::placement::PageState;
use frostline_core::types::*;
use frostline_trace::{Batch, TraceSource};

/// Threads of a guest whose translation buffers are modelled; more threads share.
const TLBS: u32 = 16;
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
pub(super) struct Alone<'s>(pub(super) &'s mut dyn TraceSource);

impl Feed for Alone<'_> {
    fn next(&mut self, _: &mut Replay<'_>, batch: &mut Batch) -> Result<bool, SimError> {
        Ok(self.0.next_batch(batch)?)
    }
}

/// What a replay knows of the programs that take turns.
#[derive(Debug)]
pub(super) struct Turn {
    /// Whose it is, and since when.
    program: usize,
    began_ns: f64,
    programs: u32,
    /// Threads of all that run at the same time.
    pub(super) parallel: f64,
    /// Pages of the batch as a guest knows them; none where programs are in no guests.
    own_pages: Option<Vec<u32>>,
    /// Whether guests map by 2 MiB.
    huge: bool,
    /// Where each program's page ids begin.
    bases: Vec<u32>,
}

impl Turn {
    pub(super) fn new(together: &Together) -> Self {
        let guest = together.programs.first().and_then(|program| program.guest.as_ref());
        Self {
            program: 0,
            began_ns: 0.0,
            programs: together.programs.len() as u32,
            parallel: 1.0,
            own_pages: guest.map(|_| Vec::new()),
            huge: guest.is_some_and(|guest| guest.map.is_huge()),
            bases: together.programs.iter().map(|program| program.shift.base).collect(),
        }
    }

    /// How many there are.
    pub(super) fn programs(&self) -> u32 {
        self.programs
    }

    /// Of the programs that run, the part that an interruption by a move of one's page stops.
    pub(super) fn interrupted(&self) -> f64 {
        1.0 / f64::from(self.programs)
    }
}

impl Feed for Together {
    fn next(&mut self, replay: &mut Replay<'_>, batch: &mut Batch) -> Result<bool, SimError> {
        while let Some(index) = self.behind() {
            let program = &mut self.programs[index];
            replay.guest_acts(program)?;
            let mut own = replay.turn.as_mut().and_then(|turn| turn.own_pages.take());
            let mut unused = Vec::new();
            let more =
                program.next_batch(batch, own.as_mut().unwrap_or(&mut unused), &mut self.clock);
            let ended = !more?;
            if ended {
                program.tally.seconds = program.seconds();
            }
            let parallel = self.parallel(replay.machine.cpu.cores);
            if let Some(turn) = &mut replay.turn {
                turn.own_pages = own;
                (turn.program, turn.began_ns) = (index, replay.now_ns);
                turn.parallel = parallel;
            }
            replay.parallel = parallel;
            if !ended {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn ran(&mut self, replay: &mut Replay<'_>) {
        let Some(turn) = &replay.turn else { return };
        let program = &mut self.programs[turn.program];
        let span_ns = replay.now_ns - turn.began_ns;
        let own = program.parallel(replay.machine.cpu.cores);
        program.time_ns += span_ns * turn.parallel / own.max(1.0);
        let thinning = u64::from(replay.thinning);
        let served = &replay.states[..replay.served];
        let fast = served.iter().filter(|s| *s & PageState::TIER == 0).count() as u64;
        let served = served.len() as u64;
        program.tally.accesses += served * thinning;
        program.tally.fast_accesses += fast * thinning;
        program.until_count = program.until_count.saturating_sub(served);
        if program.until_count == 0 {
            program.until_count = program.records_of_part(COUNTS);
            replay.count_fast(program);
        }
    }

    fn report(&self, put: &mut dyn FnMut(&str, f64)) {
        Self::report(self, put);
    }
}

impl Replay<'_> {
    /// Fast memory of a program, since it was counted last.
    fn count_fast(&self, program: &mut Program) {
        let known = program.run().intersect(PageRun::between(0, self.engine.view().pages()));
        let states = &self.engine.states()[known.range()];
        let fast = |s: &&u8| PageState(**s).tier() == Some(TierId::FAST);
        let pages = states.iter().filter(fast).count() as u64;
        let span_ns = program.time_ns - std::mem::replace(&mut program.counted_ns, program.time_ns);
        let late = program.is_late();
        program.tally.add_fast(pages, span_ns, late);
        let resident = match &program.guest {
            Some(guest) => guest.map.mapped(),
            None => states.iter().filter(|s| PageState(**s).is_resident()).count() as u64,
        };
        program.tally.resident_max = program.tally.resident_max.max(resident);
    }

    /// What a guest does of itself when it is due: it looks at access bits, and gathers hot pages.
    fn guest_acts(&mut self, program: &mut Program) -> Result<(), SimError> {
        let (now_ns, late) = (self.now_ns, program.is_late());
        let (base, process) = (program.shift.base, program.process());
        let tally = &mut program.tally;
        let Some(guest) = program.guest.as_mut().filter(|guest| guest.is_due(now_ns)) else {
            return Ok(());
        };
        let (what, ns) = match guest.act(now_ns, late, tally) {
            Done::Nothing => return Ok(()),
            Done::Scanned(bits) => {
                let ns = bits as f64 * self.machine.costs.scan_ns;
                tally.scan_ns += ns;
                (Wait::Scan, ns)
            }
            Done::Consolidated(moved) => {
                let ns = self.gather(&moved, base, process)?;
                tally.consolidation_ns += ns;
                (Wait::Migrate, ns)
            }
        };
        guest.busy(ns);
        self.totals.guest_cpu += ns;
        self.work(what, ns);
        Ok(())
    }

    /// Pages of a guest change frames: each is blocked and flushed before it is copied, lest stores
    /// are lost, and then mapped where the copy is. The time of a processor of the guest.
    fn gather(&mut self, moved: &[Moved], base: u32, process: ProcessId) -> Result<f64, SimError> {
        let costs = &self.machine.costs;
        let page_ns = costs.arm_ns + costs.migrate_base_ns;
        let shootdown_ns = costs.shootdown_ns * moved.len() as f64;
        let mut ns = page_ns * moved.len() as f64 + shootdown_ns;
        for one in moved {
            let from = self.touch_by_guest(PageId(base + one.from), process)?;
            let to = self.touch_by_guest(PageId(base + one.to), process)?;
            ns += self.machine.move_page_ns(from.index(), to.index());
            self.clock.copied(from, to, PAGE_BYTES);
            self.flush_in_guest(base, one.page);
        }
        self.totals.shootdowns += moved.len() as u64;
        if !self.shares_cores() {
            self.interrupt(Wait::Migrate, shootdown_ns);
        }
        Ok(ns)
    }

    /// The guest's kernel reads or writes a page of the host.
    fn touch_by_guest(&mut self, page: PageId, process: ProcessId) -> Result<TierId, SimError> {
        if !self.engine.view().state(page).is_resident() {
            self.first_touch(page, process)?;
        }
        if self.engine.view().state(page).0 & PageState::ATTENTION != 0 {
            self.fault(page, true, process.0)?;
        }
        self.marks[page.index()] = marks::ALL;
        Ok(self.engine.view().state(page).tier().unwrap_or(TierId::FAST))
    }

    /// A guest flushes one of its own pages.
    fn flush_in_guest(&mut self, base: u32, page: PageId) {
        for tlb in self.tlbs_of(PageId(base)) {
            tlb.flush_base(page.0);
        }
    }

    /// The host changed what stands behind a guest's memory: all of the guest's translations go, as
    /// `INVEPT` has it.
    pub(super) fn flush_guest(&mut self, page: PageId) {
        self.tlbs_of(page).iter_mut().for_each(Tlb::flush_all);
    }

    /// Whether translations are those of guests.
    pub(super) fn is_nested(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.own_pages.is_some())
    }

    fn tlbs_of(&mut self, page: PageId) -> &mut [Tlb] {
        let bases = self.turn.as_ref().map(|turn| turn.bases.as_slice()).unwrap_or_default();
        let program = bases.partition_point(|base| *base <= page.0).saturating_sub(1);
        let (all, tlbs) = (self.tlbs.len(), TLBS as usize);
        &mut self.tlbs[(program * tlbs).min(all)..((program + 1) * tlbs).min(all)]
    }

    /// As [`Self::translate`], through both page tables of a guest.
    pub(super) fn translate_nested(&mut self, batch: &Batch) -> f64 {
        let Some(turn) = &self.turn else { return 0.0 };
        let Some(own_pages) = &turn.own_pages else { return 0.0 };
        let end = (turn.program + 1) * TLBS as usize;
        if self.tlbs.len() < end {
            self.tlbs.resize_with(end, || Tlb::new(&self.machine.tlb));
        }
        let model = &self.machine.tlb;
        let mut found = [0u64; 3];
        let mut walks = 0.0;
        for (i, (page, state)) in own_pages.iter().zip(&self.states).enumerate() {
            let thread = batch.streams.get(i) / turn.programs % TLBS;
            let tlb = &mut self.tlbs[turn.program * TLBS as usize + thread as usize];
            let host_huge = PageState(*state).is_huge();
            let lookup = tlb.translate(*page, host_huge && turn.huge);
            found[lookup as usize] += 1;
            if lookup == Lookup::Walk {
                walks += match (turn.huge, host_huge) {
                    (true, true) => 1.0,
                    (false, false) => model.nested_host_base,
                    _ => model.nested_host_huge,
                };
            }
        }
        (0..3).for_each(|i| self.totals.tlb_lookups[i] += found[i]);
        let l2 = found[Lookup::L2 as usize] as f64;
        (l2 * model.l2_hit_ns + walks * model.nested_ns) * f64::from(self.thinning)
    }
}
