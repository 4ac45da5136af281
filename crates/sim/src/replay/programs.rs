//! Programs of the trace: what their events do to the machine.

use super::injection::Exits;
use super::kernel::Kernel;
use super::marks;
use crate::address_space::backing;
use crate::operations::Operations;
use frostline_core::event::{Backing, Event};
use frostline_core::placement::PageState;
use frostline_core::types::*;
use frostline_trace::TraceEvent;

/// What is known of processes, threads and files.
#[derive(Debug, Default)]
pub(super) struct Programs {
    /// Process of each stream.
    process_of: Vec<ProcessId>,
    /// How often each file is open.
    open_files: Vec<u32>,
    live_threads: u32,
}

impl Programs {
    /// The process that a stream belongs to.
    pub(super) fn of(&self, stream: u32) -> ProcessId {
        self.process_of.get(stream as usize).copied().unwrap_or_default()
    }

    /// An event of the trace happens.
    pub(super) fn apply(
        &mut self,
        event: &TraceEvent,
        kernel: &mut Kernel<'_>,
        operations: &mut Operations,
    ) {
        kernel.space.apply(event);
        match event {
            TraceEvent::Process { process, parent: Some(parent), .. } => {
                kernel.tell_one(Event::Forked { parent: *parent, child: *process });
            }
            TraceEvent::ProcessExit { process, .. } => {
                kernel.tell_one(Event::Exited { process: *process });
            }
            TraceEvent::Thread { stream, process, .. } => {
                let index = stream.0 as usize;
                if index >= self.process_of.len() {
                    self.process_of.resize(index + 1, ProcessId(0));
                }
                self.process_of[index] = *process;
                self.live_threads += 1;
                self.set_parallel(kernel);
            }
            TraceEvent::ThreadExit { .. } => {
                self.live_threads = self.live_threads.saturating_sub(1);
                self.set_parallel(kernel);
            }
            TraceEvent::Map { process, kind, runs, .. } => {
                for &run in runs {
                    kernel.pending.push(Event::Mapped {
                        run,
                        backing: backing(*kind),
                        process: *process,
                    });
                }
                kernel.tell();
            }
            TraceEvent::Unmap { runs, .. } => {
                for &run in runs {
                    kernel.free_run(run);
                    kernel.tell_one(Event::Unmapped { run });
                }
            }
            TraceEvent::Discard { runs, .. } => {
                for &run in runs {
                    kernel.free_run(run);
                    kernel.tell_one(Event::Freed { run });
                }
            }
            TraceEvent::Remap { process, moves, gained, lost, .. } => {
                for &(from, to) in moves {
                    kernel.remap(from, to);
                }
                for &run in lost {
                    kernel.free_run(run);
                    kernel.tell_one(Event::Unmapped { run });
                }
                for &run in gained {
                    let backing = Backing::Anonymous;
                    kernel.pending.push(Event::Mapped { run, backing, process: *process });
                }
                kernel.tell();
            }
            TraceEvent::FileOpen { file, .. } => *self.file(file.0) += 1,
            TraceEvent::FileClose { file, .. } => {
                let open = self.file(file.0);
                let last = *open == 1;
                *open = open.saturating_sub(1);
                if last {
                    kernel.tell_one(Event::FileClosed { file: file.0 });
                }
            }
            TraceEvent::OpBegin { stream, op } => operations.begin(stream.0, *op),
            TraceEvent::OpEnd { stream, op } => operations.end(stream.0, *op),
            TraceEvent::StoreSamples { samples } => {
                kernel.sample_stores(samples, |stream| self.of(stream));
            }
            TraceEvent::Touched { regions, .. } => {
                for (region, bits) in regions {
                    mark_touched(kernel, *region, bits);
                }
            }
            TraceEvent::Process { parent: None, .. }
            | TraceEvent::RegionNamed { .. }
            | TraceEvent::FileRead { .. }
            | TraceEvent::FileWrite { .. } => {}
        }
    }

    /// Programs that take turns say themselves how many of their threads run.
    fn set_parallel(&self, kernel: &mut Kernel<'_>) {
        if !kernel.setup.takes_turns {
            kernel.time.parallel = kernel.setup.machine.cpu.parallel(self.live_threads);
        }
    }

    fn file(&mut self, file: u32) -> &mut u32 {
        let index = file as usize;
        if index >= self.open_files.len() {
            self.open_files.resize(index + 1, 0);
        }
        &mut self.open_files[index]
    }
}

/// Touches that a cache kept from the record: they set access bits all the same.
fn mark_touched(kernel: &mut Kernel<'_>, region: Region, bits: &[u64; 8]) {
    let first = region.first().index();
    let states = kernel.engine.states();
    if first >= states.len() {
        return;
    }
    for (word, &bits) in bits.iter().enumerate() {
        let mut left = bits;
        while left != 0 {
            let page = first + word * 64 + left.trailing_zeros() as usize;
            left &= left - 1;
            if PageState(states[page]).is_resident() {
                kernel.marks[page] = marks::ALL;
            }
        }
    }
}

/// A process that has memory ends; all of its memory goes.
pub(super) fn exit_a_process(kernel: &mut Kernel<'_>, exits: &mut Exits) {
    kernel.tell();
    let resident = |s: &u8| PageState(*s).is_resident();
    let states = kernel.engine.states();
    let regions: Vec<Region> = (0..states.len() / HUGE_PAGES as usize)
        .map(|r| Region(r as u32))
        .filter(|r| states[r.run().range()].iter().any(resident))
        .collect();
    if !regions.is_empty() {
        let chosen = regions[exits.choose(regions.len())];
        let process = kernel.space.owner(chosen);
        let before = kernel.engine.view().resident().0;
        let of_process = |r: &Region| kernel.space.owner(*r) == process;
        let doomed: Vec<Region> = regions.into_iter().filter(of_process).collect();
        for region in doomed {
            kernel.free_run(region.run());
            kernel.pending.push(Event::Unmapped { run: region.run() });
        }
        kernel.pending.push(Event::Exited { process });
        kernel.tell();
        exits.happened += 1;
        exits.pages += before - kernel.engine.view().resident().0;
    }
}
