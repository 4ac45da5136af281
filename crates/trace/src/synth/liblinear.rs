//! `liblinear`: training of a linear classifier by dual coordinate descent.
//!
//! Model: a sparse matrix, 16 bytes for each value and one to end a row, is read row by row in
//! another random order in every round; each value reads its feature's weight, and rows that are
//! not classified well yet update these. Features are popular by Zipf's law, popular ones anywhere.
//! Source: LIBLINEAR (Fan et al., JMLR 2008), solver 1; shape of KDD Cup 2012 track 2: 149.6 M rows,
//! 54.7 M features, 11 values in a row. In MEMTIS (67.9 GB), PET, GPAC and HotBox.
//! Not: LIBLINEAR. Nothing is learnt: which rows update is drawn, rows are never left out for good
//! (shrinking), and a row's features follow one law instead of eleven fields.

use super::coin::Coin;
use super::cpu::Cpu;
use super::page_stream::Loader;
use super::params::{self, Param, Settings};
use super::permutation::Permutation;
use super::stage::{Area, Stage};
use super::zipf_law::{ZipfLaw, ZipfRng};
use super::{Made, Workload};
use crate::error::TraceError;
use crate::event::MapKind;
use frostline_core::rng::Rng;
use frostline_core::types::PAGE_BYTES;

pub(super) const PARAMS: &[Param] = &[
    params::size("512MiB"),
    params::PAGES,
    params::accesses("24M"),
    Param::new("values", "11", "values in a row of the matrix, 1 to 4096"),
    params::skew("0.99"),
    Param::new("updates", "50%", "share of the rows that update the weights"),
    params::gap("6"),
    params::LLC,
    params::INIT,
    params::EPOCH,
    params::SEED,
];

const VALUE_BYTES: u64 = 16;
/// Features for each row.
const FEATURES: f64 = 54.7 / 149.6;
/// Of a row, beside its values: pointer, `alpha` and the diagonal of the kernel matrix, place in
/// the random order, label.
const ROW_ARRAYS: [u64; 5] = [8, 8, 8, 4, 1];

#[derive(Debug)]
struct Liblinear {
    cpu: Cpu,
    loader: Loader,
    before: u64,
    values: Area,
    arrays: [Area; 5],
    weights: Area,
    rows: u32,
    per_row: u64,
    law: ZipfLaw,
    feature_of: Permutation,
    order: Permutation,
    next: u32,
    updates: Coin,
    seed: u64,
    rng: Rng,
}

pub(super) fn build(settings: &Settings) -> Result<Made, TraceError> {
    let mut rng = settings.rng()?;
    let footprint = u64::from(settings.pages(64)?) * PAGE_BYTES;
    let per_row = settings.count("values", 1, 4096)?;
    let row_bytes = (per_row + 1) * VALUE_BYTES + ROW_ARRAYS.iter().sum::<u64>();
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
    let values = stage.map(rows * (per_row + 1) * VALUE_BYTES, MapKind::Anonymous);
    let arrays = ROW_ARRAYS.map(|bytes| stage.map(rows * bytes, MapKind::Anonymous));
    let weights = stage.map(u64::from(features) * 8, MapKind::Anonymous);
    let [first, rest @ ..] = arrays;
    // The matrix and its pointers are read from a file; the solver's arrays come later.
    let mut areas = vec![values, first];
    areas.extend(rest);
    areas.push(weights);
    let loader = Loader::new(init, &areas);
    let before = loader.records();
    stage.expect(before);
    let rows = rows as u32;
    let workload = Liblinear {
        cpu,
        loader,
        before,
        values,
        arrays,
        weights,
        rows,
        per_row,
        law: ZipfLaw::new(features, skew),
        feature_of: Permutation::new(features, &mut rng),
        order: Permutation::new(rows, &mut rng),
        next: 0,
        updates,
        seed: rng.next_u64(),
        rng,
    };
    Ok(Made { stage, workload: Box::new(workload) })
}

impl Liblinear {
    /// The features of a row: always the same ones.
    fn features(&self, row: u32) -> impl Iterator<Item = u64> + use<'_> {
        let mut rng = Rng::new(self.seed ^ u64::from(row).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut ranks = ZipfRng::new(&mut rng);
        (0..self.per_row).map(move |_| u64::from(self.feature_of.apply(self.law.draw(&mut ranks))))
    }

    fn train(&mut self, stage: &mut Stage, nth: u32) {
        let row = self.order.apply(nth);
        let r = u64::from(row);
        let [pointers, alphas, diagonals, order, labels] = self.arrays;
        self.cpu.load(stage, order, u64::from(nth) * 4);
        self.cpu.load(stage, labels, r);
        self.cpu.load(stage, pointers, r * 8);
        let start = r * (self.per_row + 1) * VALUE_BYTES;
        let features: Vec<u64> = self.features(row).collect();
        for (i, feature) in features.iter().enumerate() {
            self.cpu.load(stage, self.values, start + i as u64 * VALUE_BYTES);
            self.cpu.load(stage, self.weights, feature * 8);
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
            self.cpu.store(stage, self.weights, feature * 8);
        }
    }
}

impl Workload for Liblinear {
    fn step(&mut self, stage: &mut Stage) -> bool {
        if self.loader.step(stage) {
            return true;
        }
        for _ in 0..16 {
            if self.cpu.done(stage, self.before) {
                return false;
            }
            if self.next == self.rows {
                self.next = 0;
                self.order = Permutation::new(self.rows, &mut self.rng);
            }
            self.train(stage, self.next);
            self.next += 1;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::synth::tests::check;

    #[test]
    fn weights_are_hot_and_rows_are_alike() {
        let summary = check("liblinear:size=64MiB:accesses=600K:init=off:llc=128KiB");
        let mut pages: Vec<(u32, u64)> = summary.pages.iter().map(|(p, n)| (*p, *n)).collect();
        pages.sort_unstable();
        // The weights are the last mapping: 54.7 / 149.6 * 8 of 223 bytes.
        let weights = (64 * 256) * 3 / 223;
        let split = pages.last().expect("pages").0 - weights;
        let mean = |of: &[(u32, u64)]| {
            of.iter().map(|(_, n)| n).sum::<u64>() as f64 / of.len().max(1) as f64
        };
        let at = pages.partition_point(|(page, _)| *page <= split);
        let (rows, hot) = pages.split_at(at);
        assert!(mean(hot) > 10.0 * mean(rows), "{} against {}", mean(hot), mean(rows));
        assert!(summary.by_kind[3] > 1000, "updates are written back");
    }
}
