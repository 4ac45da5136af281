//! Kernel of the modelled machine: where memory is, and who is told of it.

use super::background::{Background, Look};
use super::injection::Chance;
use super::marks;
use super::sampling::{Sampling, pick_loads};
use super::setup::{Setup, frames_that_concern};
use super::time::{Time, Wait};
use super::translations::Translations;
use super::units::unit;
use crate::address_space::AddressSpace;
use crate::error::SimError;
use crate::frames::{Frames, HugeFrame};
use frostline_core::Engine;
use frostline_core::action::Action;
use frostline_core::event::{Event, Sample, SampleKind};
use frostline_core::placement::PageState;
use frostline_core::rng::Rng;
use frostline_core::types::*;
use frostline_daemon::{Sampled, TouchKind};
use frostline_trace::event::StreamId;
use frostline_trace::{Batch, Column};

/// Events that are handed to the engine at once.
pub(super) const EVENT_BATCH: usize = 256;

/// Sums over the run, in pages.
#[derive(Debug, Default)]
pub(super) struct KernelSums {
    pub(super) resident_max: [u64; MAX_TIERS],
    pub(super) resident_sum_max: u64,
    pub(super) moved: [[u64; MAX_TIERS]; MAX_TIERS],
    pub(super) promoted: u64,
    /// Promoted, and not touched before they left.
    pub(super) promoted_unused: u64,
    pub(super) compacted: u64,
    /// Folios for which there was no block.
    pub(super) huge_frame_shortages: u64,
}

/// Faults that moves run into.
#[derive(Debug)]
pub(super) struct MoveFaults {
    /// A folio is in use.
    pub(super) busy: Chance,
    /// A whole call finds the node full.
    pub(super) full: Chance,
}

/// Memory of the machine, the engine that keeps it, and everything that changes it.
pub(super) struct Kernel<'a> {
    pub(super) setup: Setup<'a>,
    pub(super) time: Time,
    pub(super) engine: Engine,
    pub(super) space: AddressSpace,
    pub(super) frames: Frames,
    pub(super) marks: Vec<u8>,
    pub(super) translations: Translations,
    pub(super) background: Background,
    pub(super) sampling: Sampling,
    pub(super) faults: MoveFaults,
    /// What the engine has not been told of.
    pub(super) pending: Vec<Event>,
    /// Allocations that the engine has not told the policy of yet, at most.
    populated: usize,
    /// When a daemon is due, where there is one.
    pub(super) daemon_due: u64,
    /// When anything is due.
    pub(super) wake: u64,
    pub(super) sums: KernelSums,
}

impl<'a> Kernel<'a> {
    /// Nothing is mapped. The dice are of a [`frostline_core::rng::Rng`] of the run.
    pub(super) fn new(
        setup: Setup<'a>,
        time: Time,
        engine: Engine,
        translations: Translations,
        dice: &mut Rng,
    ) -> Self {
        let view = engine.view();
        let concerns = frames_that_concern(setup.footprint);
        let capacity = |tier| view.limits(TierId(tier as u8)).capacity.min(concerns);
        let capacities: Vec<PageCount> = (0..view.tiers()).map(capacity).collect();
        let os = &setup.machine.os;
        let mut frames = Frames::new(&capacities, os.fragmentation, &mut dice.fork());
        if let Some(blocks) = setup.options.kernel_blocks {
            frames.limit_whole(TierId::FAST, blocks);
        }
        let faults = &setup.options.faults;
        Self {
            sampling: Sampling::new(&setup, dice.fork()),
            faults: MoveFaults {
                busy: Chance::new(faults.busy_pages, dice.fork()),
                full: Chance::new(faults.full_node, dice.fork()),
            },
            background: Background::new(&setup.machine.cpu, setup.programs),
            space: AddressSpace::default(),
            frames,
            marks: Vec::new(),
            pending: Vec::with_capacity(2 * EVENT_BATCH),
            populated: 0,
            daemon_due: u64::MAX,
            wake: engine.poll_timeout().map_or(u64::MAX, |n| n.0),
            sums: KernelSums::default(),
            setup,
            time,
            engine,
            translations,
        }
    }

    pub(super) fn now(&self) -> Nanos {
        self.time.now()
    }

    /// Fast memory in use.
    pub(super) fn fast_used(&self) -> Bytes {
        self.engine.view().used(TierId::FAST).bytes()
    }

    /// The page, or the whole folio that holds it.
    pub(super) fn unit(&self, page: PageId) -> PageRun {
        unit(&self.engine, page)
    }

    /// Whether programs can load and store in a tier, by the machine and the policy.
    pub(super) fn serves(&self, tier: TierId) -> bool {
        self.engine.view().limits(tier).direct_access
    }

    /// Whether nothing of a region is resident.
    pub(super) fn is_empty(&self, region: Region) -> bool {
        let states = self.engine.states();
        let range = region.run().range();
        let empty = |s: &[u8]| s.iter().all(|&s| !PageState(s).is_resident());
        states.get(range).is_none_or(empty)
    }

    pub(super) fn full(&self, pages: u64) -> SimError {
        SimError::OutOfMemory {
            resident_bytes: self.engine.view().resident().bytes().0,
            wanted_bytes: PageCount(pages).bytes().0,
        }
    }

    /// Hands all pending events to the engine.
    pub(super) fn tell(&mut self) {
        self.pending.extend(self.sampling.take_lost());
        if !self.pending.is_empty() {
            self.tell_all();
        }
    }

    /// As [`Self::tell`], also where the engine itself has something that the policy does not know.
    pub(super) fn tell_all(&mut self) {
        let now = self.now();
        self.engine.handle_events(now, &self.pending);
        self.pending.clear();
        self.populated = 0;
        self.collect_actions();
    }

    /// Something that changes placement: the engine learns it before anything else happens.
    pub(super) fn tell_one(&mut self, event: Event) {
        self.pending.push(event);
        self.tell();
    }

    /// Takes over what the engine wants done.
    pub(super) fn collect_actions(&mut self) {
        while let Some(action) = self.engine.poll_action() {
            if let Action::SetSampling { kind, period } = action {
                self.sampling.set_period(kind, period);
                continue;
            }
            let look = Look { setup: &self.setup, engine: &self.engine, marks: &self.marks };
            self.background.start(action, look, &self.time);
        }
        let entries_ns = self.engine.take_entries() as f64 * self.setup.machine.costs.entry_ns;
        self.sampling.work(entries_ns, &mut self.time);
        self.after_events();
    }

    /// The engine's arrays may have grown, and its next wish may have changed.
    pub(super) fn after_events(&mut self) {
        let known = self.engine.states().len();
        if self.marks.len() < known {
            self.marks.resize(known, 0);
        }
        let timeout = self.engine.poll_timeout().map_or(u64::MAX, |n| n.0);
        self.wake = timeout.min(self.background.next_end()).min(self.daemon_due);
    }

    /// Memory was allocated.
    pub(super) fn note_allocation(&mut self) {
        self.populated += 1;
        if self.populated >= EVENT_BATCH {
            self.tell_all();
        }
        self.note_peaks();
    }

    pub(super) fn note_peaks(&mut self) {
        let view = self.engine.view();
        let mut sum = 0;
        for (t, max) in self.sums.resident_max.iter_mut().enumerate().take(view.tiers()) {
            let used = view.used(TierId(t as u8)).0;
            *max = used.max(*max);
            sum += used;
        }
        self.sums.resident_sum_max = self.sums.resident_sum_max.max(sum);
    }

    /// Gives a folio a block of frames; pays for compaction. False where there is none.
    pub(super) fn take_huge_frame(&mut self, region: Region, tier: TierId) -> bool {
        match self.frames.place_huge(region, tier) {
            HugeFrame::Free => true,
            HugeFrame::Compacted(pages) => {
                self.sums.compacted += u64::from(pages);
                let machine = self.setup.machine;
                let page_ns = machine.costs.migrate_base_ns
                    + machine.move_page_ns(tier.index(), tier.index());
                self.time.wait(Wait::Migrate, f64::from(pages) * page_ns);
                true
            }
            HugeFrame::None => {
                self.sums.huge_frame_shortages += 1;
                false
            }
        }
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
        self.time.memory.copied(from, to, unit.bytes().0);
        self.sums.moved[from.index()][to.index()] += u64::from(unit.pages);
        if to < from {
            self.sums.promoted += u64::from(unit.pages);
            marks::clear(&mut self.marks[unit.range()], marks::USED);
        } else {
            self.settle_promotion(unit);
        }
    }

    /// A unit leaves: where it was promoted and not touched since, that promotion was for nothing.
    pub(super) fn settle_promotion(&mut self, unit: PageRun) {
        let marks = &mut self.marks[unit.range()];
        if !marks::any(marks, marks::USED) {
            self.sums.promoted_unused += u64::from(unit.pages);
        }
        marks::set(marks, marks::USED);
    }

    /// Promoted pages that are still there and were never touched count as unused.
    pub(super) fn settle_promotions(&mut self, run: PageRun) {
        let mut next = run.start.0;
        while next < run.end() {
            let unit = self.unit(PageId(next)).intersect(run);
            next = unit.end();
            if self.engine.view().state(unit.start).is_resident() {
                self.settle_promotion(unit);
            }
        }
    }

    /// Translations of a run are gone from every buffer; every core that runs the program is
    /// interrupted `times` times.
    pub(super) fn shootdown(&mut self, run: PageRun, times: u64) {
        let ns = self.flush(run, times);
        self.time.interrupt(Wait::Migrate, ns);
    }

    /// The end of a worker's change to page tables.
    pub(super) fn shootdown_by_worker(&mut self, run: PageRun, times: u64) {
        let ns = self.flush(run, times);
        self.time.interrupt_by_worker(Wait::Migrate, ns);
    }

    /// Translations of a run go; what that takes from a core that is interrupted.
    fn flush(&mut self, run: PageRun, times: u64) -> f64 {
        self.translations.shootdowns += times;
        self.translations.forget(run);
        times as f64 * self.setup.machine.costs.shootdown_ns
    }

    /// Resident pages of a run lose their frames.
    pub(super) fn free_run(&mut self, run: PageRun) {
        let run = run.intersect(PageRun::between(0, self.marks.len() as u32));
        self.settle_promotions(run);
        self.free_frames(run);
        self.translations.forget(run);
    }

    pub(super) fn free_frames(&mut self, run: PageRun) {
        for page in run.iter() {
            self.frames.release(page);
            self.marks[page.index()] = marks::USED;
        }
    }

    /// Pages of a run move to other addresses.
    pub(super) fn remap(&mut self, from: PageRun, to: PageId) {
        let target = PageRun { start: to, pages: from.pages };
        self.free_run(target);
        let known = from.end().max(target.end()) as usize;
        if self.marks.len() < known {
            self.marks.resize(known.next_multiple_of(HUGE_PAGES as usize), 0);
        }
        for (from, to) in from.iter().zip(target.iter()) {
            self.frames.rename(from, to);
            self.marks[to.index()] = std::mem::replace(&mut self.marks[from.index()], marks::USED);
        }
        self.translations.forget(from);
        self.tell_one(Event::Remapped { from, to });
    }

    /// Samples the loads of a batch, of which there are so many, by the states of its accesses.
    pub(super) fn sample_loads(
        &mut self,
        batch: &Batch,
        (kinds, loads): (&Column, u64),
        states: &[u8],
        process_of: impl Fn(u32) -> ProcessId,
    ) {
        if !self.sampling.loads.is_on() {
            return;
        }
        let mut sampler = self.sampling.loads.clone();
        let mut taken = 0;
        let len = batch.len();
        pick_loads(&mut sampler, (kinds, len), loads, self.setup.careful, |i| {
            taken += 1;
            let Some(tier) = PageState(states[i]).tier() else { return };
            self.sample(Sample {
                page: PageId(batch.pages[i]),
                kind: SampleKind::LoadMiss,
                tier,
                process: process_of(batch.streams.get(i)),
                missed: Some(true),
                gap_ms: None,
                walked: self.translations.walked(i),
            });
        });
        self.sampling.loads = sampler;
        self.charge_samples(taken);
    }

    /// Samples stores, of which a recording has sampled so many: stream and page of each.
    pub(super) fn sample_stores(
        &mut self,
        stores: &[(StreamId, PageId)],
        process_of: impl Fn(u32) -> ProcessId,
    ) {
        let mut sampler = self.sampling.stores.clone();
        let mut taken = 0;
        sampler.count(stores.len() as u64, |at| {
            taken += 1;
            let (stream, page) = stores[at as usize];
            match self.engine.view().state(page).tier() {
                Some(tier) => {
                    let process = process_of(stream.0);
                    self.sample(Sample::new(page, SampleKind::Store, tier, process));
                }
                None => self.sampling.sums.absent += 1,
            }
        });
        self.sampling.stores = sampler;
        self.charge_samples(taken);
    }

    /// A sample is lost, or goes to who decides.
    fn sample(&mut self, sample: Sample) {
        let Sample { page, kind, missed, walked, .. } = sample;
        let address = || self.space.address(page);
        let seen = TouchKind::Sample(Sampled { kind, missed, walked });
        if !self.sampling.is_lost() && !self.sampling.see(seen, address) {
            self.pending.push(Event::Sample(sample));
        }
    }

    fn charge_samples(&mut self, taken: u64) {
        if taken == 0 {
            return;
        }
        self.sampling.charge(taken, &self.setup, &mut self.time);
        if self.pending.len() >= EVENT_BATCH {
            self.tell();
        }
    }
}
