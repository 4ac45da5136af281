//! `stencil`: sweeps over three-dimensional grids, with buffers that live for one time step.
//!
//! Model: each step reads a grid with its six neighbours in space, writes a buffer that was mapped
//! just before, then reads the buffer into the next grid, and gives the buffer back. Grids take
//! turns. Huge pages are densely used; memory for short-lived data is needed again and again.
//! Source: 603.bwaves and 654.roms of SPEC CPU 2017 as MEMTIS describes them (Lee et al., SOSP 2023,
//! section 6.2.6): long-lived and short-lived data, 11.1 and 10.3 GB.
//! Not: either program. All grids are alike; the buffer's share of the memory is a choice.

use super::cpu::Cpu;
use super::made::{Made, Workload};
use super::page_stream::Loader;
use super::params::{self, Param, Settings};
use super::stage::{Area, Stage};
use frostline_core::types::PAGE_BYTES;
use frostline_trace::error::TraceError;
use frostline_trace::event::{MapKind, StreamId, TraceEvent};

pub(super) const PARAMS: &[Param] = &[
    params::size("512MiB"),
    params::PAGES,
    params::accesses("24M"),
    Param::text("grids", "8", "grids that stay, 2 to 64"),
    Param::text("buffer", "15%", "share of the memory that lives for one step only"),
    params::gap("6"),
    params::LLC,
    params::INIT,
    params::EPOCH,
    params::SEED,
];

const LINE: u64 = 64;
const LINES_PER_STEP: u64 = 64;
const STREAM: StreamId = StreamId(0);
const OP: u64 = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The buffer is written from the grid and its neighbours.
    Sweep,
    /// The next grid is written from the buffer.
    Copy,
}

#[derive(Debug)]
struct Stencil {
    cpu: Cpu,
    loader: Loader,
    before: u64,
    grids: Vec<Area>,
    buffer: Area,
    buffer_mapped: bool,
    lines: u64,
    /// Lines from a cell to its neighbours in the second and third dimension.
    strides: [u64; 2],
    turn: usize,
    phase: Phase,
    next: u64,
}

pub(super) fn build(settings: &Settings) -> Result<Made, TraceError> {
    let footprint = u64::from(settings.pages(256)?) * PAGE_BYTES;
    let grids = settings.count("grids", 2, 64)?;
    let share = settings.share("buffer")?;
    let buffer_bytes = ((footprint as f64 * share) as u64).next_multiple_of(PAGE_BYTES);
    let grid_bytes = footprint.saturating_sub(buffer_bytes) / grids / LINE * LINE;
    if grid_bytes < 8 * PAGE_BYTES || buffer_bytes < 8 * PAGE_BYTES {
        let what =
            format!("of {share} leaves {buffer_bytes} bytes, and {grid_bytes} for each grid");
        return Err(settings.refuse("buffer", &what, "give each of them 32 KiB at least"));
    }
    let init = settings.switch("init")?;
    let (cpu, mut stage) = Cpu::open(settings, footprint)?;
    let areas: Vec<Area> = (0..grids).map(|_| stage.map(grid_bytes, MapKind::Anonymous)).collect();
    // Mapped to have its pages in the header; the program has not begun.
    let buffer = stage.map(buffer_bytes, MapKind::Anonymous);
    let loader = Loader::new(init, &areas);
    let before = loader.records();
    stage.expect(before);
    let lines = grid_bytes / LINE;
    let side = (lines as f64).cbrt().max(1.0) as u64;
    let strides = [side, side * side];
    let (grids, buffer_mapped) = (areas, true);
    let workload = Stencil {
        cpu,
        loader,
        before,
        grids,
        buffer,
        buffer_mapped,
        lines,
        strides,
        turn: 0,
        phase: Phase::Sweep,
        next: 0,
    };
    Ok(Made { stage, workload: Box::new(workload) })
}

impl Stencil {
    /// Place in the buffer, which is smaller than a grid: it holds some planes at a time.
    fn in_buffer(&self, line: u64) -> u64 {
        line * LINE % (self.buffer.len_bytes() / LINE * LINE)
    }

    fn sweep(&mut self, stage: &mut Stage, line: u64) {
        let from = self.grids[self.turn];
        self.cpu.load(stage, from, line * LINE);
        for stride in self.strides {
            self.cpu.load(stage, from, line.saturating_sub(stride) * LINE);
            self.cpu.load(stage, from, (line + stride).min(self.lines - 1) * LINE);
        }
        self.cpu.store(stage, self.buffer, self.in_buffer(line));
    }

    fn copy(&mut self, stage: &mut Stage, line: u64) {
        let to = self.grids[(self.turn + 1) % self.grids.len()];
        self.cpu.load(stage, self.buffer, self.in_buffer(line));
        self.cpu.load(stage, to, line * LINE);
        self.cpu.store(stage, to, line * LINE);
    }
}

impl Workload for Stencil {
    fn step(&mut self, stage: &mut Stage) -> bool {
        if self.loader.step(stage) {
            return true;
        }
        if self.cpu.done(stage, self.before) {
            return false;
        }
        if self.next == 0 && self.phase == Phase::Sweep {
            if !self.buffer_mapped {
                stage.map_again(self.buffer);
            }
            self.buffer_mapped = true;
            stage.event(TraceEvent::OpBegin { stream: STREAM, op: OP });
        }
        let some = self.next..(self.next + LINES_PER_STEP).min(self.lines);
        self.next = some.end;
        for line in some {
            match self.phase {
                Phase::Sweep => self.sweep(stage, line),
                Phase::Copy => self.copy(stage, line),
            }
        }
        if self.next == self.lines {
            self.next = 0;
            if self.phase == Phase::Sweep {
                self.phase = Phase::Copy;
            } else {
                stage.event(TraceEvent::OpEnd { stream: STREAM, op: OP });
                self.cpu.discard(self.buffer);
                stage.unmap(self.buffer);
                self.buffer_mapped = false;
                self.phase = Phase::Sweep;
                self.turn = (self.turn + 1) % self.grids.len();
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::from_spec;
    use crate::tests::check;
    use frostline_trace::batch::Batch;
    use frostline_trace::event::TraceEvent;

    #[test]
    fn buffers_come_and_go_at_the_same_pages() {
        let spec = "stencil:size=4MiB:accesses=600K:init=off";
        let mut source = from_spec(spec).expect("a good description");
        let (mut batch, mut maps, mut unmaps) = (Batch::new(), Vec::new(), Vec::new());
        while source.next_batch(&mut batch).expect("no error") {
            for event in &batch.events {
                match &event.event {
                    TraceEvent::Map { runs, .. } => maps.push(runs.clone()),
                    TraceEvent::Unmap { runs, .. } => unmaps.push(runs.clone()),
                    _ => {}
                }
            }
        }
        let steps = unmaps.len() - 8;
        assert!(steps > 3, "{steps}");
        assert!(maps[9..].iter().all(|runs| *runs == maps[8]), "always the same pages");
        assert!(unmaps[..steps - 1].iter().all(|runs| *runs == maps[8]));
    }

    #[test]
    fn all_lines_of_the_grids_are_used() {
        let summary = check("stencil:size=4MiB:accesses=600K:init=off:llc=off");
        let grids: Vec<u64> =
            summary.pages.iter().filter(|(p, _)| **p < 8 * 512).map(|(_, n)| *n).collect();
        let most = grids.iter().max().expect("pages");
        let alike = grids.iter().filter(|n| **n * 3 > *most).count();
        assert!(alike * 10 > grids.len() * 9, "{alike} of {}", grids.len());
    }
}
