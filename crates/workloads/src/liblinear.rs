//! `liblinear`: training of a linear classifier by dual coordinate descent.
//!
//! Model: a sparse matrix, 16 bytes for each value and one to end a row, is read row by row in
//! another random order in every round; each value reads its feature's weight, and rows that are
//! not classified well yet update these. A round begins by swapping each place of the order with
//! another one. Features are popular by Zipf's law, popular ones anywhere.
//! Source: LIBLINEAR (Fan et al., JMLR 2008), solver 1; shape of KDD Cup 2012 track 2: 149.6 M rows,
//! 54.7 M features, 11 values in a row. In MEMTIS (67.9 GB), PET, GPAC and HotBox.
//! Memory is as glibc's malloc lays it out: large arrays follow one another, weights, order and
//! signs are on the heap, as they are allocated after a temporary array of their size was freed.
//! Labels, places in the file and a copy of both are idle once the solver runs.
//! Not: LIBLINEAR. Nothing is learnt: which rows update is drawn, rows are never left out for good
//! (shrinking), and a row's features follow one law instead of eleven fields; the passes in which
//! rows are grouped by class, before the solver, are left out.

use super::coin::Coin;
use super::cpu::Cpu;
use super::made::{Made, Workload};
use super::page_stream::Loader;
use super::params::{self, Param, Settings};
use super::permutation::Permutation;
use super::stage::{Area, Stage};
use super::zipf_law::{ZipfLaw, ZipfRng};
use frostline_core::rng::Rng;
use frostline_core::types::{HUGE_PAGES, PAGE_BYTES};
use frostline_trace::error::TraceError;
use frostline_trace::event::MapKind;

pub(super) const PARAMS: &[Param] = &[
    params::size("512MiB"),
    params::PAGES,
    params::accesses("24M"),
    Param::text("values", "11", "values in a row of the matrix, 1 to 4096"),
    params::skew("0.99"),
    Param::text("updates", "50%", "share of the rows that update the weights"),
    params::gap("8"),
    params::LLC,
    params::FILE,
    params::INIT,
    params::EPOCH,
    params::SEED,
];

const VALUE_BYTES: u64 = 16;
/// Features for each row.
const FEATURES: f64 = 54.7 / 149.6;
/// Of a row, read from the file and idle later: label and pointer to its values.
const READ_ARRAYS: [u64; 2] = [8, 8];
/// Of a row, idle: its number in the file, the pointer again, its class.
const IDLE_ARRAYS: [u64; 3] = [4, 8, 8];
/// Of a row, for the solver: pointer to its values, the diagonal of the kernel matrix, `alpha`.
const SOLVER_ARRAYS: [u64; 3] = [8, 8, 8];
/// Of a row, on the heap: place in the random order, sign of its class.
const ORDER_BYTES: u64 = 4;
const SIGN_BYTES: u64 = 1;
/// Of a value in the file, as text: its feature, a colon, the value, a blank.
const TEXT_BYTES: u64 = 10;
/// In front of what malloc gives.
const HEADER_BYTES: u64 = 16;

/// Weights, order and signs: one after the other.
#[derive(Clone, Copy, Debug)]
struct Heap {
    area: Area,
    order: u64,
    signs: u64,
}

#[derive(Debug)]
struct Liblinear {
    cpu: Cpu,
    /// Bytes of the file that is read first, until it has been.
    file: Option<u64>,
    loader: Loader,
    solver_loader: Loader,
    before: u64,
    values: Area,
    solver: [Area; 3],
    heap: Heap,
    rows: u32,
    per_row: u64,
    features: Features,
    round: Round,
    updates: Coin,
    rng: Rng,
}

/// Features of each row: always the same ones.
#[derive(Debug)]
struct Features {
    law: ZipfLaw,
    feature_of: Permutation,
    seed: u64,
}

/// Progress of a round, in places of its random order.
#[derive(Debug)]
struct Round {
    order: Permutation,
    /// Those that were swapped.
    shuffled: u32,
    /// The next one to be trained.
    next: u32,
}

pub(super) fn build(settings: &Settings) -> Result<Made, TraceError> {
    let mut rng = settings.rng()?;
    let footprint = u64::from(settings.pages(64)?) * PAGE_BYTES;
    let per_row = settings.count("values", 1, 4096)?;
    let arrays = [&READ_ARRAYS[..], &IDLE_ARRAYS, &SOLVER_ARRAYS].concat();
    let row_bytes =
        (per_row + 1) * VALUE_BYTES + arrays.iter().sum::<u64>() + ORDER_BYTES + SIGN_BYTES;
    let rows = (footprint as f64 / (row_bytes as f64 + 8.0 * FEATURES)) as u64;
    if !(2..=1 << 31).contains(&rows) {
        let what = format!("leaves {rows} rows");
        return Err(settings.refuse("size", &what, "give another size, or other values"));
    }
    let features = ((rows as f64 * FEATURES) as u32).max(1);
    let updates = Coin::new(settings.share("updates")?);
    let skew = settings.skew()?;
    let init = settings.switch("init")?;
    let (cpu, mut stage) = Cpu::open(settings, footprint)?;
    let order = u64::from(features) * 8;
    let signs = order + rows * ORDER_BYTES;
    let area = stage.map(signs + rows * SIGN_BYTES, MapKind::Heap);
    let heap = Heap { area, order, signs };
    let [a, b] = READ_ARRAYS.map(|bytes| rows * bytes);
    let [c, d, e] = IDLE_ARRAYS.map(|bytes| rows * bytes);
    let [f, g, h] = SOLVER_ARRAYS.map(|bytes| rows * bytes);
    let matrix = HEADER_BYTES + rows * (per_row + 1) * VALUE_BYTES;
    let [a, b, values, c, d, e, solver @ ..] = stage.map_adjacent([a, b, matrix, c, d, e, f, g, h]);
    // What is read from the file comes first.
    let loader = Loader::new(init, &[a, b, values]);
    let [f, g, h] = solver;
    let solver_loader = Loader::new(init, &[c, d, e, f, g, h, area]);
    let file = settings.switch("file")?.then_some(rows * per_row * TEXT_BYTES);
    let read = file.map_or(0, |bytes| bytes.div_ceil(PAGE_BYTES));
    let before = loader.records() + solver_loader.records() + read;
    stage.expect(before);
    if let Some(bytes) = file {
        // It is mapped at the first step: an upper limit, with what is lost to alignment.
        let regions = (footprint + bytes) / (PAGE_BYTES * u64::from(HUGE_PAGES)) + 8;
        stage.header.expected_pages = Some(regions as u32 * HUGE_PAGES);
    }
    let rows = rows as u32;
    let (law, feature_of) = (ZipfLaw::new(features, skew), Permutation::new(features, &mut rng));
    let round = Round { order: Permutation::new(rows, &mut rng), shuffled: 0, next: 0 };
    let features = Features { law, feature_of, seed: rng.next_u64() };
    let workload = Liblinear {
        cpu,
        file,
        loader,
        solver_loader,
        before,
        values,
        solver,
        heap,
        rows,
        per_row,
        features,
        round,
        updates,
        rng,
    };
    Ok(Made { stage, workload: Box::new(workload) })
}

impl Features {
    /// The `count` features of a row, ascending. None is there twice, unless there are hardly as many.
    fn of(&self, row: u32, count: u64) -> Vec<u64> {
        let mut rng = Rng::new(self.seed ^ u64::from(row).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut ranks = ZipfRng::new(&mut rng);
        let mut features = Vec::with_capacity(count as usize);
        for draws in 0.. {
            if features.len() as u64 == count {
                break;
            }
            let feature = u64::from(self.feature_of.apply(self.law.draw(&mut ranks)));
            if draws > 8 * count || !features.contains(&feature) {
                features.push(feature);
            }
        }
        features.sort_unstable();
        features
    }
}

impl Liblinear {
    /// Swaps the next place of the order with one of those behind it.
    fn shuffle(&mut self, stage: &mut Stage) {
        let Heap { area, order, .. } = self.heap;
        let here = u64::from(self.round.shuffled);
        let there = here + self.rng.below(u64::from(self.rows) - here);
        let [here, there] = [here, there].map(|place| order + place * ORDER_BYTES);
        self.cpu.load(stage, area, here);
        self.cpu.load(stage, area, there);
        self.cpu.store(stage, area, here);
        self.cpu.store(stage, area, there);
        self.round.shuffled += 1;
    }

    fn train(&mut self, stage: &mut Stage, nth: u32) {
        let row = self.round.order.apply(nth);
        let r = u64::from(row);
        let Heap { area, order, signs } = self.heap;
        let [pointers, diagonals, alphas] = self.solver;
        self.cpu.load(stage, area, order + u64::from(nth) * ORDER_BYTES);
        self.cpu.load(stage, area, signs + r * SIGN_BYTES);
        self.cpu.load(stage, pointers, r * 8);
        let start = HEADER_BYTES + r * (self.per_row + 1) * VALUE_BYTES;
        let features = self.features.of(row, self.per_row);
        for (i, feature) in features.iter().enumerate() {
            self.cpu.load(stage, self.values, start + i as u64 * VALUE_BYTES);
            self.cpu.load(stage, area, feature * 8);
        }
        self.cpu.load(stage, self.values, start + self.per_row * VALUE_BYTES);
        self.cpu.load(stage, alphas, r * 8);
        if !self.updates.throw(&mut self.rng) {
            return;
        }
        self.cpu.load(stage, diagonals, r * 8);
        self.cpu.store(stage, alphas, r * 8);
        for (i, feature) in features.iter().enumerate() {
            self.cpu.load(stage, self.values, start + i as u64 * VALUE_BYTES);
            self.cpu.store(stage, area, feature * 8);
        }
    }
}

impl Workload for Liblinear {
    fn step(&mut self, stage: &mut Stage) -> bool {
        if let Some(bytes) = self.file.take() {
            stage.read_file(bytes);
            return true;
        }
        if self.loader.step(stage) || self.solver_loader.step(stage) {
            return true;
        }
        for _ in 0..16 {
            if self.cpu.done(stage, self.before) {
                return false;
            }
            if self.round.shuffled < self.rows {
                self.shuffle(stage);
                continue;
            }
            self.train(stage, self.round.next);
            self.round.next += 1;
            if self.round.next == self.rows {
                self.round.next = 0;
                self.round.shuffled = 0;
                self.round.order = Permutation::new(self.rows, &mut self.rng);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::check;

    #[test]
    fn the_file_is_read_first() {
        let [without, with] = ["off", "on"]
            .map(|file| check(&format!("liblinear:size=16MiB:accesses=300K:file={file}")));
        let more = with.pages.len() - without.pages.len();
        // 110 bytes of a row's 260.
        assert!((more as f64 / 4096.0 - 11.0 / 26.0).abs() < 0.02, "{more}");
        assert_eq!((with.files_closed, without.files_closed), (1, 0));
    }

    #[test]
    fn weights_are_hot_and_rows_are_alike() {
        let summary = check("liblinear:size=64MiB:accesses=2M:init=off:llc=128KiB");
        let mut pages: Vec<(u32, u64)> = summary.pages.iter().map(|(p, n)| (*p, *n)).collect();
        pages.sort_unstable();
        // The weights are what comes first: 54.7 / 149.6 * 8 of 260 bytes.
        let weights = (64 * 256) * 29 / 2600;
        let end = pages[0].0 + weights;
        let mean = |of: &[(u32, u64)]| {
            of.iter().map(|(_, n)| n).sum::<u64>() as f64 / of.len().max(1) as f64
        };
        let at = pages.partition_point(|(page, _)| *page < end);
        let (hot, rows) = pages.split_at(at);
        assert!(mean(hot) > 10.0 * mean(rows), "{} against {}", mean(hot), mean(rows));
        assert!(summary.by_kind[3] > 1000, "updates are written back");
    }
}
