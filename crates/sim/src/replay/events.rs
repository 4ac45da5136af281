//! Events of the trace become events of the engine.

use super::{Replay, marks};
use crate::address_space::backing;
use frostline_core::event::{Backing, Event, Sample, SampleKind};
use frostline_core::placement::PageState;
use frostline_core::types::*;
use frostline_daemon::TouchKind;
use frostline_trace::TraceEvent;

/// A trace holds every 997th retired store.
pub(super) const STORES_PER_SAMPLE: u64 = 997;

impl Replay<'_> {
    pub(super) fn trace_event(&mut self, event: &TraceEvent) {
        self.space.apply(event);
        match event {
            TraceEvent::Process { process, parent: Some(parent), .. } => {
                self.tell_one(Event::Forked { parent: *parent, child: *process });
            }
            TraceEvent::ProcessExit { process, .. } => {
                self.tell_one(Event::Exited { process: *process });
            }
            TraceEvent::Thread { stream, process, .. } => {
                let index = stream.0 as usize;
                if index >= self.process_of.len() {
                    self.process_of.resize(index + 1, ProcessId(0));
                }
                self.process_of[index] = *process;
                self.live_threads += 1;
                self.set_parallel();
            }
            TraceEvent::ThreadExit { .. } => {
                self.live_threads = self.live_threads.saturating_sub(1);
                self.set_parallel();
            }
            TraceEvent::Map { process, kind, runs, .. } => {
                for &run in runs {
                    self.pending.push(Event::Mapped {
                        run,
                        backing: backing(*kind),
                        process: *process,
                    });
                }
                self.tell();
            }
            TraceEvent::Unmap { runs, .. } => {
                for &run in runs {
                    self.free_run(run);
                    self.tell_one(Event::Unmapped { run });
                }
            }
            TraceEvent::Discard { runs, .. } => {
                for &run in runs {
                    self.free_run(run);
                    self.tell_one(Event::Freed { run });
                }
            }
            TraceEvent::Remap { process, moves, gained, lost, .. } => {
                for &(from, to) in moves {
                    self.remap(from, to);
                }
                for &run in lost {
                    self.free_run(run);
                    self.tell_one(Event::Unmapped { run });
                }
                for &run in gained {
                    let backing = Backing::Anonymous;
                    self.pending.push(Event::Mapped { run, backing, process: *process });
                }
                self.tell();
            }
            TraceEvent::FileOpen { file, .. } => *self.file(file.0) += 1,
            TraceEvent::FileClose { file, .. } => {
                let open = self.file(file.0);
                let last = *open == 1;
                *open = open.saturating_sub(1);
                if last {
                    self.tell_one(Event::FileClosed { file: file.0 });
                }
            }
            TraceEvent::OpBegin { stream, op } => self.operations.begin(stream.0, *op),
            TraceEvent::OpEnd { stream, op } => self.operations.end(stream.0, *op),
            TraceEvent::StoreSamples { samples } => {
                self.sample_stores(samples.len(), |i| (samples[i].0.0, samples[i].1));
            }
            TraceEvent::Touched { regions, .. } => {
                for (region, bits) in regions {
                    self.mark_touched(*region, bits);
                }
            }
            TraceEvent::Process { parent: None, .. }
            | TraceEvent::RegionNamed { .. }
            | TraceEvent::FileRead { .. }
            | TraceEvent::FileWrite { .. } => {}
        }
    }

    /// Something that changes placement: the engine learns it before anything else happens.
    fn tell_one(&mut self, event: Event) {
        self.pending.push(event);
        self.tell();
    }

    fn set_parallel(&mut self) {
        self.parallel = match &self.turn {
            Some(turn) => turn.parallel,
            None => f64::from(self.live_threads.clamp(1, self.machine.cpu.cores)),
        };
    }

    fn file(&mut self, file: u32) -> &mut u32 {
        let index = file as usize;
        if index >= self.open_files.len() {
            self.open_files.resize(index + 1, 0);
        }
        &mut self.open_files[index]
    }

    fn known(&self, run: PageRun) -> PageRun {
        run.intersect(PageRun::between(0, self.marks.len() as u32))
    }

    /// Resident pages of a run lose their frames.
    fn free_run(&mut self, run: PageRun) {
        let run = self.known(run);
        let mut next = run.start.0;
        while next < run.end() {
            let unit = self.unit(PageId(next)).intersect(run);
            next = unit.end();
            if self.engine.view().state(unit.start).is_resident() {
                self.settle_promotion(unit);
            }
        }
        self.free_frames(run);
        self.forget_translations(run);
    }

    pub(super) fn free_frames(&mut self, run: PageRun) {
        for page in run.iter() {
            self.frames.release(page);
            self.marks[page.index()] = marks::USED;
        }
    }

    fn remap(&mut self, from: PageRun, to: PageId) {
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
        self.forget_translations(from);
        self.tell_one(Event::Remapped { from, to });
    }

    fn sample_stores(&mut self, count: usize, sample: impl Fn(usize) -> (u32, PageId)) {
        let mut sampler = self.store_sampler.clone();
        let lost_share = self.options.faults.lost_samples;
        let mut taken = 0;
        sampler.count(count as u64, |at| {
            taken += 1;
            let (stream, page) = sample(at as usize);
            let Some(tier) = self.engine.view().state(page).tier() else {
                self.totals.samples_absent += 1;
                return;
            };
            if lost_share > 0.0 && self.dice.lost.unit_f64() < lost_share {
                self.totals.samples_lost += 1;
                match &mut self.hosted {
                    Some(hosted) => hosted.lose(),
                    None => self.unsaid_lost += 1,
                }
                return;
            }
            if let Some(hosted) = &mut self.hosted {
                let kind = TouchKind::Sample(SampleKind::Store);
                return hosted.see(self.space.address(page), kind);
            }
            let process = self.process_of(stream);
            self.pending.push(Event::Sample(Sample::new(page, SampleKind::Store, tier, process)));
        });
        self.store_sampler = sampler;
        if taken > 0 {
            self.charge_samples(taken);
        }
    }

    /// Touches that a cache kept from the record: they set access bits all the same.
    fn mark_touched(&mut self, region: Region, bits: &[u64; 8]) {
        let first = region.first().index();
        let states = self.engine.states();
        if first >= states.len() {
            return;
        }
        for (word, &bits) in bits.iter().enumerate() {
            let mut left = bits;
            while left != 0 {
                let page = first + word * 64 + left.trailing_zeros() as usize;
                left &= left - 1;
                if PageState(states[page]).is_resident() {
                    self.marks[page] = marks::ALL;
                }
            }
        }
    }

    /// Sets when the next injected exit happens.
    pub(super) fn plan_exit(&mut self) {
        self.next_exit = u64::MAX;
        if self.exits_left > 0 {
            let left = self.footprint.records.saturating_sub(self.records).max(1);
            let span = (2 * left / (u64::from(self.exits_left) + 1)).max(1);
            self.next_exit = self.records + self.dice.exit.below(span);
            self.exits_left -= 1;
        }
    }

    /// A process that has memory ends; all of its memory goes.
    pub(super) fn exit_a_process(&mut self) {
        self.tell();
        let resident = |s: &u8| PageState(*s).is_resident();
        let states = self.engine.states();
        let regions: Vec<Region> = (0..states.len() / HUGE_PAGES as usize)
            .map(|r| Region(r as u32))
            .filter(|r| states[r.run().range()].iter().any(resident))
            .collect();
        if !regions.is_empty() {
            let chosen = regions[self.dice.exit.below(regions.len() as u64) as usize];
            let process = self.space.owner(chosen);
            let before = self.engine.view().resident().0;
            let of_process = |r: &Region| self.space.owner(*r) == process;
            let doomed: Vec<Region> = regions.into_iter().filter(of_process).collect();
            for region in doomed {
                self.free_run(region.run());
                self.pending.push(Event::Unmapped { run: region.run() });
            }
            self.pending.push(Event::Exited { process });
            self.tell();
            self.totals.injected_exits += 1;
            self.totals.exited_pages += before - self.engine.view().resident().0;
        }
        self.plan_exit();
    }
}
