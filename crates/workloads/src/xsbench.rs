//! `xsbench`: look-ups of cross-sections as a Monte Carlo simulation of a reactor makes them.
//!
//! Model: 355 nuclides with grids of 48-byte points, the sorted energies of all grids, and for each
//! of these an index into every grid. A look-up draws an energy and one of twelve materials,
//! bisects the energies, reads the row of indices of the material's nuclides, and two points each.
//! Source: XSBench (Tramm et al., PHYSOR 2014), unionized grid, problem "large": shares of
//! materials and numbers of their nuclides. In MEMTIS (63.4 GB) and PET.
//! Not: XSBench. The same nuclide's grids have even steps, so that positions need not be stored;
//! which nuclides a material has is drawn; fewer grid points, as the size says.

use super::cpu::{Cpu, Marks};
use super::made::{Made, Workload};
use super::page_stream::Loader;
use super::params::{self, Param, Settings};
use super::permutation::Permutation;
use super::stage::{Area, Stage};
use frostline_core::rng::Rng;
use frostline_core::types::PAGE_BYTES;
use frostline_trace::error::TraceError;
use frostline_trace::event::MapKind;

pub(super) const PARAMS: &[Param] = &[
    params::size("512MiB"),
    params::PAGES,
    params::accesses("24M"),
    params::gap("20"),
    params::LLC,
    params::MARK,
    params::THINK,
    params::INIT,
    params::EPOCH,
    params::SEED,
];

const NUCLIDES: u64 = 355;
/// An energy and five cross-sections.
const POINT_BYTES: u64 = 48;
const ENERGY_BYTES: u64 = 8;
const INDEX_BYTES: u64 = 4;
/// All three, for one more point in each grid.
const BYTES_PER_STEP: u64 = NUCLIDES * (POINT_BYTES + ENERGY_BYTES + NUCLIDES * INDEX_BYTES);
/// Nuclides from which materials other than fuel are made.
const COMMON: u32 = 68;
/// Per mille of the look-ups, and nuclides, of each material; the first one is fuel.
const MATERIALS: [(u64, u32); 12] = [
    (140, 321),
    (52, 5),
    (275, 4),
    (134, 4),
    (154, 27),
    (64, 21),
    (66, 21),
    (55, 21),
    (8, 21),
    (15, 21),
    (25, 9),
    (13, 9),
];

#[derive(Debug)]
struct XsBench {
    cpu: Cpu,
    marks: Marks,
    loader: Loader,
    before: u64,
    grids: Area,
    energies: Area,
    indices: Area,
    /// Points of each grid.
    points: u64,
    materials: Vec<Vec<u32>>,
    rng: Rng,
}

pub(super) fn build(settings: &Settings) -> Result<Made, TraceError> {
    let mut rng = settings.rng()?;
    let footprint = u64::from(settings.pages(16 * BYTES_PER_STEP / PAGE_BYTES)?) * PAGE_BYTES;
    let points = footprint / BYTES_PER_STEP;
    let init = settings.switch("init")?;
    let marks = Marks::new(settings)?;
    let (cpu, mut stage) = Cpu::open(settings, footprint)?;
    let mut array = |bytes: u64| stage.map(NUCLIDES * points * bytes, MapKind::Anonymous);
    let [grids, energies, indices] =
        [POINT_BYTES, ENERGY_BYTES, NUCLIDES * INDEX_BYTES].map(&mut array);
    let loader = Loader::new(init, &[grids, energies, indices]);
    let before = loader.records();
    stage.expect(before);
    let materials = MATERIALS.iter().map(|&(_, nuclides)| material(nuclides, &mut rng)).collect();
    let workload =
        XsBench { cpu, marks, loader, before, grids, energies, indices, points, materials, rng };
    Ok(Made { stage, workload: Box::new(workload) })
}

/// Draws the nuclides of a material, in the order in which they are looked up.
fn material(nuclides: u32, rng: &mut Rng) -> Vec<u32> {
    let order = Permutation::new(COMMON, rng);
    let rare = COMMON..NUCLIDES as u32;
    let common = nuclides.saturating_sub(if nuclides > COMMON { rare.len() as u32 } else { 0 });
    let mut all: Vec<u32> = (0..common).map(|nth| order.apply(nth)).collect();
    if nuclides > COMMON {
        all.extend(rare);
    }
    all
}

impl XsBench {
    fn draw_material(&mut self) -> usize {
        let mut left = self.rng.below(MATERIALS.iter().map(|(share, _)| share).sum());
        MATERIALS
            .iter()
            .position(|&(share, _)| {
                let here = left < share;
                left = left.saturating_sub(share);
                here
            })
            .unwrap_or(0)
    }

    fn look_up(&mut self, stage: &mut Stage, material: usize) {
        let all = NUCLIDES * self.points;
        let energy = self.rng.below(all);
        let (mut low, mut high) = (0, all);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            self.cpu.load(stage, self.energies, middle * ENERGY_BYTES);
            if middle <= energy { low = middle } else { high = middle }
        }
        for &nuclide in &self.materials[material] {
            let nuclide = u64::from(nuclide);
            self.cpu.load(stage, self.indices, (energy * NUCLIDES + nuclide) * INDEX_BYTES);
            // Grids of even steps, each shifted by one place among the energies of all.
            let point = ((energy + nuclide) / NUCLIDES).min(self.points - 2);
            let at = (nuclide * self.points + point) * POINT_BYTES;
            self.cpu.load_all(stage, self.grids, at, 2 * POINT_BYTES);
        }
    }
}

impl Workload for XsBench {
    fn step(&mut self, stage: &mut Stage) -> bool {
        if self.loader.step(stage) {
            return true;
        }
        if self.cpu.done(stage, self.before) {
            return false;
        }
        let material = self.draw_material();
        let mut marks = self.marks;
        marks.operation(stage, material as u64, |stage| self.look_up(stage, material));
        self.marks = marks;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::chi_square_ok;
    use crate::tests::check;
    use std::collections::BTreeSet;

    #[test]
    fn materials_have_their_shares_and_nuclides() {
        let mut rng = Rng::new(2);
        for (_, nuclides) in MATERIALS {
            let list = material(nuclides, &mut rng);
            assert_eq!(list.len(), nuclides as usize);
            assert_eq!(list.iter().collect::<BTreeSet<_>>().len(), list.len(), "no one twice");
            assert!(list.iter().all(|&n| u64::from(n) < NUCLIDES));
        }
        let settings = Settings::new(frostline_core::spec::Spec::parse("xsbench").unwrap(), PARAMS);
        let settings = settings.unwrap();
        let (cpu, mut stage) = Cpu::open(&settings, 1 << 20).unwrap();
        let area = stage.map(4096, MapKind::Anonymous);
        let (marks, loader) = (Marks::new(&settings).unwrap(), Loader::new(false, &[]));
        let [grids, energies, indices] = [area; 3];
        let materials = Vec::new();
        let (before, points) = (0, 16);
        let mut workload = XsBench {
            cpu,
            marks,
            loader,
            before,
            grids,
            energies,
            indices,
            points,
            materials,
            rng,
        };
        let mut counts = [0; 12];
        (0..200_000).for_each(|_| counts[workload.draw_material()] += 1);
        chi_square_ok(&counts, &MATERIALS.map(|(share, _)| share as f64));
    }

    #[test]
    fn the_grids_are_hot_and_the_indices_are_not() {
        let summary = check("xsbench:size=64MiB:accesses=400K:init=off");
        let points = (64 << 20) / BYTES_PER_STEP;
        let grid_pages = (NUCLIDES * points * POINT_BYTES).div_ceil(PAGE_BYTES) as u32;
        let in_grids: u64 =
            summary.pages.iter().filter(|(page, _)| **page < grid_pages).map(|(_, n)| n).sum();
        let share_of_pages = f64::from(grid_pages) * 4096.0 / f64::from(64 << 20);
        let share = in_grids as f64 / summary.records as f64;
        assert!(share > 5.0 * share_of_pages, "{share} of the misses on {share_of_pages}");
    }
}
