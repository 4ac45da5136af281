//! `ocean`: eddies on a grid, relaxed by multigrid.
//!
//! Model: some 25 two-dimensional grids of doubles, rows allocated one by one; each time step sweeps
//! five-point stencils over several of them and then solves an elliptic equation by red-black
//! relaxation on ever coarser grids and back. Half of the grids are used in each step.
//! Source: Ocean, non-contiguous partitions, of SPLASH-2 (Woo et al., ISCA 1995), as in GPAC,
//! section 5.1 (Ocean_ncp, 5.5 GB).
//! Not: Ocean. Nothing is computed, the number of relaxations is fixed, one thread.

use super::cpu::Cpu;
use super::made::{Made, Workload};
use super::page_stream::Loader;
use super::params::{self, Param, Settings};
use super::stage::{Area, Stage};
use frostline_core::rng::Rng;
use frostline_core::types::PAGE_BYTES;
use frostline_trace::error::TraceError;
use frostline_trace::event::{MapKind, StreamId, TraceEvent};

pub(super) const PARAMS: &[Param] = &[
    params::size("512MiB"),
    params::PAGES,
    params::accesses("24M"),
    Param::text("grids", "25", "grids of full size, 4 to 256"),
    Param::text("relaxations", "3", "sweeps over each level, down and up, 1 to 100"),
    params::gap("9"),
    params::LLC,
    params::INIT,
    params::EPOCH,
    params::SEED,
];

const LINE: u64 = 64;
const CELL_BYTES: u64 = 8;
/// Least side of the coarsest grid.
const COARSEST: u64 = 16;
const STREAM: StreamId = StreamId(0);
const OP: u64 = 0;

/// A sweep over one grid, which may read another one.
#[derive(Clone, Copy, Debug)]
struct Sweep {
    writes: usize,
    reads: usize,
    level: usize,
}

#[derive(Debug)]
struct Ocean {
    cpu: Cpu,
    loader: Loader,
    before: u64,
    /// Full grids, then the unknowns and right sides of each coarser level.
    grids: Vec<Area>,
    full: usize,
    /// Side of the grids of each level, in cells.
    sides: Vec<u64>,
    relaxations: usize,
    /// Sweeps of this time step that are left, the next one last.
    sweeps: Vec<Sweep>,
    row: u64,
    rng: Rng,
}

pub(super) fn build(settings: &Settings) -> Result<Made, TraceError> {
    let rng = settings.rng()?;
    let footprint = u64::from(settings.pages(256)?) * PAGE_BYTES;
    let full = settings.count("grids", 4, 256)?;
    let relaxations = settings.count("relaxations", 1, 100)? as usize;
    // Two of the grids have coarser ones, a third more.
    let cells = footprint as f64 / CELL_BYTES as f64 / (full as f64 + 2.0 / 3.0);
    let side = cells.sqrt() as u64 / 8 * 8;
    if side < 2 * COARSEST {
        let what = format!("leaves grids of {side} cells a side");
        return Err(settings.refuse("size", &what, "give more memory, or fewer grids"));
    }
    let init = settings.switch("init")?;
    let (cpu, mut stage) = Cpu::open(settings, footprint)?;
    let mut sides = vec![side];
    while sides[sides.len() - 1] / 2 >= COARSEST {
        sides.push(sides[sides.len() - 1] / 2);
    }
    let coarse = sides[1..].iter().flat_map(|side| [*side; 2]);
    let all = std::iter::repeat_n(side, full as usize).chain(coarse);
    let grids: Vec<Area> =
        all.map(|side| stage.map(side * side * CELL_BYTES, MapKind::Anonymous)).collect();
    let loader = Loader::new(init, &grids);
    let before = loader.records();
    stage.expect(before);
    let full = full as usize;
    let (sweeps, row) = (Vec::new(), 0);
    let workload = Ocean { cpu, loader, before, grids, full, sides, relaxations, sweeps, row, rng };
    Ok(Made { stage, workload: Box::new(workload) })
}

impl Ocean {
    /// The sweeps of a time step, the first one last.
    fn plan(&mut self) {
        let mut sweeps = Vec::new();
        for _ in 0..self.full / 2 {
            let pick = |rng: &mut Rng| rng.below(self.full as u64) as usize;
            let (writes, reads) = (pick(&mut self.rng), pick(&mut self.rng));
            sweeps.push(Sweep { writes, reads, level: 0 });
        }
        let levels = self.sides.len();
        for level in (0..levels).chain((0..levels - 1).rev()) {
            let (unknown, right) = self.of_level(level);
            let sweep = Sweep { writes: unknown, reads: right, level };
            sweeps.extend(std::iter::repeat_n(sweep, self.relaxations));
        }
        sweeps.reverse();
        self.sweeps = sweeps;
    }

    /// Unknowns and right sides.
    fn of_level(&self, level: usize) -> (usize, usize) {
        if level == 0 { (0, 1) } else { (self.full + 2 * level - 2, self.full + 2 * level - 1) }
    }

    fn sweep_row(&mut self, stage: &mut Stage, sweep: Sweep) {
        let side = self.sides[sweep.level];
        let (to, from) = (self.grids[sweep.writes], self.grids[sweep.reads]);
        let at = |row: u64, offset: u64| row * side * CELL_BYTES + offset;
        for offset in (0..side * CELL_BYTES).step_by(LINE as usize) {
            self.cpu.load(stage, from, at(self.row, offset));
            self.cpu.load(stage, to, at(self.row.saturating_sub(1), offset));
            self.cpu.load(stage, to, at((self.row + 1).min(side - 1), offset));
            self.cpu.store(stage, to, at(self.row, offset));
        }
    }
}

impl Workload for Ocean {
    fn step(&mut self, stage: &mut Stage) -> bool {
        if self.loader.step(stage) {
            return true;
        }
        if self.cpu.done(stage, self.before) {
            return false;
        }
        let Some(&sweep) = self.sweeps.last() else {
            self.plan();
            stage.event(TraceEvent::OpBegin { stream: STREAM, op: OP });
            return true;
        };
        self.sweep_row(stage, sweep);
        self.row += 1;
        if self.row == self.sides[sweep.level] {
            self.row = 0;
            self.sweeps.pop();
            if self.sweeps.is_empty() {
                stage.event(TraceEvent::OpEnd { stream: STREAM, op: OP });
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::check;

    #[test]
    fn the_grids_of_the_solver_are_hotter_than_the_others() {
        let summary = check("ocean:size=16MiB:accesses=1500K:init=off:llc=128KiB");
        assert!(summary.marks > 2);
        let side = ((16 << 20) as f64 / 8.0 / 25.667).sqrt() as u32 / 8 * 8;
        let pages = (side * side * 8).div_ceil(4096);
        let regions = pages.div_ceil(512) * 512;
        let of = |grid: u32| -> u64 {
            let first = grid * regions;
            (first..first + pages).map(|page| summary.pages.get(&page).copied().unwrap_or(0)).sum()
        };
        let others = (2..25).map(of).sum::<u64>() / 23;
        assert!(of(0) > 3 * others, "{} against {others}", of(0));
    }
}
