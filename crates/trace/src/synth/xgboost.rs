//! `xgboost`: training of boosted trees on binned features.
//!
//! Model: for each tree gradients are computed in order; then, level by level, the histogram of
//! each node's smaller child is built from its rows (index, gradient, bins of all features, one
//! bin's sums for each), and rows are parted between children, keeping their order; at the end
//! predictions are updated. The rows of a node lie ever farther apart, and differ from tree to tree.
//! Source: XGBoost (Chen and Guestrin, KDD 2016), tree method "hist", depth 6, 256 bins; 39 features
//! as the Criteo click logs have them. In HybridTier (248 GB).
//! Not: XGBoost. Nothing is learnt: how a node's rows are parted is drawn, and all leaves have the
//! same depth; one thread.

use super::cpu::Cpu;
use super::page_stream::Loader;
use super::params::{self, Param, Settings};
use super::stage::{Area, Stage};
use super::{Made, Workload};
use crate::error::TraceError;
use crate::event::{MapKind, StreamId, TraceEvent};
use frostline_core::rng::Rng;
use frostline_core::types::PAGE_BYTES;
use std::ops::Range;

pub(super) const PARAMS: &[Param] = &[
    params::size("512MiB"),
    params::PAGES,
    params::accesses("24M"),
    Param::new("features", "39", "features of a row, one byte each, 1 to 4096"),
    Param::new("depth", "6", "levels of a tree, 1 to 16"),
    params::gap("5"),
    params::LLC,
    params::INIT,
    params::EPOCH,
    params::SEED,
];

const BINS: u64 = 256;
/// Two doubles: sums of gradients and of their derivatives.
const SUMS_BYTES: u64 = 16;
/// Index, gradient and its derivative, prediction, label.
const ROW_ARRAYS: [u64; 4] = [8, 8, 4, 4];
const ROWS_PER_STEP: usize = 16;

/// What is done with the next rows.
#[derive(Clone, Debug)]
enum Phase {
    /// Gradients from predictions and labels.
    Gradients(u32),
    /// Sums of one of two children, or of the root, from its rows.
    Histogram { node: usize, left: Range<usize> },
    /// Rows of a node are dealt to its children.
    Part { node: usize, left: Range<usize> },
    /// Rows of a node are written in their new order.
    Reorder { node: usize, left: Range<usize> },
    /// Predictions of a leaf's rows.
    Predict { node: usize, left: Range<usize> },
}

#[derive(Debug)]
struct XgBoost {
    cpu: Cpu,
    loader: Loader,
    before: u64,
    bins: Area,
    indices: Area,
    gradients: Area,
    predictions: Area,
    labels: Area,
    histograms: Area,
    features: u64,
    depth: u32,
    /// Rows in the order of the present level's nodes.
    rows: Vec<u32>,
    /// The rows of each node of the level.
    nodes: Vec<Range<usize>>,
    /// Those of the level below, as far as they are known.
    children: Vec<Range<usize>>,
    level: u32,
    phase: Phase,
    /// How the node at hand is parted.
    cut: Cut,
    rng: Rng,
}

/// A node's rows go to one child or the other by one feature.
#[derive(Debug, Default)]
struct Cut {
    feature: u64,
    /// Share of the rows that goes to the first child.
    share: f64,
    first: Vec<u32>,
    second: Vec<u32>,
}

const STREAM: StreamId = StreamId(0);
const OP: u64 = 0;

pub(super) fn build(settings: &Settings) -> Result<Made, TraceError> {
    let (workload, stage) = make(settings)?;
    Ok(Made { stage, workload: Box::new(workload) })
}

fn make(settings: &Settings) -> Result<(XgBoost, Stage), TraceError> {
    let rng = settings.rng()?;
    let footprint = u64::from(settings.pages(256)?) * PAGE_BYTES;
    let features = settings.count("features", 1, 4096)?;
    let depth = settings.count("depth", 1, 16)? as u32;
    let histogram_bytes = (features * BINS * SUMS_BYTES) << (depth - 1);
    let row_bytes = features + ROW_ARRAYS.iter().sum::<u64>();
    let rows = footprint.saturating_sub(histogram_bytes) / row_bytes;
    if !(1024..=1 << 31).contains(&rows) {
        let what = format!("leaves {rows} rows beside {} MiB of sums", histogram_bytes >> 20);
        return Err(settings.refuse("size", &what, "give more memory, fewer features or levels"));
    }
    let init = settings.switch("init")?;
    let (cpu, mut stage) = Cpu::open(settings, footprint)?;
    let bins = stage.map(rows * features, MapKind::Anonymous);
    let [indices, gradients, predictions, labels] =
        ROW_ARRAYS.map(|bytes| stage.map(rows * bytes, MapKind::Anonymous));
    let histograms = stage.map(histogram_bytes, MapKind::Anonymous);
    let areas = [bins, labels, predictions, gradients, indices, histograms];
    let loader = Loader::new(init, &areas);
    let before = loader.records();
    stage.expect(before);
    let workload = XgBoost {
        cpu,
        loader,
        before,
        bins,
        indices,
        gradients,
        predictions,
        labels,
        histograms,
        features,
        depth,
        rows: (0..rows as u32).collect(),
        nodes: Vec::new(),
        children: Vec::new(),
        level: 0,
        phase: Phase::Gradients(0),
        cut: Cut::default(),
        rng,
    };
    Ok((workload, stage))
}

impl XgBoost {
    fn row_count(&self) -> u32 {
        self.rows.len() as u32
    }

    fn compute_gradients(&mut self, stage: &mut Stage, from: u32) {
        if from == 0 {
            stage.event(TraceEvent::OpBegin { stream: STREAM, op: OP });
            self.rows.sort_unstable();
        }
        let to = (from + ROWS_PER_STEP as u32).min(self.row_count());
        for row in u64::from(from)..u64::from(to) {
            self.cpu.load(stage, self.predictions, row * 4);
            self.cpu.load(stage, self.labels, row * 4);
            self.cpu.store(stage, self.gradients, row * 8);
            self.cpu.store(stage, self.indices, row * 8);
        }
        self.phase = Phase::Gradients(to);
        if to == self.row_count() {
            self.level = 0;
            self.nodes.clear();
            self.nodes.push(0..self.rows.len());
            self.children.clear();
            self.phase = Phase::Histogram { node: 0, left: 0..self.rows.len() };
        }
    }

    fn add_to_histogram(&mut self, stage: &mut Stage, node: usize, place: usize) {
        let row = u64::from(self.rows[place]);
        self.cpu.load(stage, self.indices, place as u64 * 8);
        self.cpu.load(stage, self.gradients, row * 8);
        self.cpu.load_all(stage, self.bins, row * self.features, self.features);
        let base = node as u64 * self.features * BINS;
        let mut random = Rng::new(row);
        for feature in 0..self.features {
            // Low bins are popular, as with counts and rare categories; always the same bin.
            let unit = random.unit_f64();
            let bin = (unit * unit * BINS as f64) as u64;
            let at = (base + feature * BINS + bin) * SUMS_BYTES;
            self.cpu.load(stage, self.histograms, at);
            self.cpu.store(stage, self.histograms, at);
        }
    }

    /// Goes on to the next node, level or tree.
    fn next_node(&mut self, stage: &mut Stage, node: usize) {
        let next = node + 1;
        if next < self.nodes.len() {
            self.begin(next);
            return;
        }
        if self.level + 1 < self.depth {
            self.level += 1;
            self.nodes = std::mem::take(&mut self.children);
            self.begin(0);
        } else {
            stage.event(TraceEvent::OpEnd { stream: STREAM, op: OP });
            self.phase = Phase::Gradients(0);
        }
    }

    /// What is done first with a node: only the smaller one of two children needs its rows looked
    /// at, the other's sums are what is left.
    fn begin(&mut self, node: usize) {
        let rows = self.nodes[node].clone();
        let sibling = self.nodes.get(node ^ 1).map_or(0, |other| other.len());
        let smaller = rows.len() < sibling || (rows.len() == sibling && node.is_multiple_of(2));
        if self.level > 0 && !smaller {
            self.after_histogram(node);
        } else {
            self.phase = Phase::Histogram { node, left: rows };
        }
    }

    fn after_histogram(&mut self, node: usize) {
        let left = self.nodes[node].clone();
        if self.level + 1 == self.depth {
            self.phase = Phase::Predict { node, left };
            return;
        }
        self.cut.share = 0.1 + 0.8 * self.rng.unit_f64();
        self.cut.feature = self.rng.below(self.features);
        self.cut.first.clear();
        self.cut.second.clear();
        self.phase = Phase::Part { node, left };
    }

    fn part(&mut self, stage: &mut Stage, place: usize) {
        let row = self.rows[place];
        self.cpu.load(stage, self.indices, place as u64 * 8);
        self.cpu.load(stage, self.bins, u64::from(row) * self.features + self.cut.feature);
        let first = self.rng.unit_f64() < self.cut.share;
        if first { self.cut.first.push(row) } else { self.cut.second.push(row) }
    }

    fn after_part(&mut self, node: usize) {
        let all = self.nodes[node].clone();
        let middle = all.start + self.cut.first.len();
        self.rows[all.start..middle].copy_from_slice(&self.cut.first);
        self.rows[middle..all.end].copy_from_slice(&self.cut.second);
        self.children.extend([all.start..middle, middle..all.end]);
        self.phase = Phase::Reorder { node, left: all };
    }

    fn predict(&mut self, stage: &mut Stage, place: usize) {
        self.cpu.load(stage, self.indices, place as u64 * 8);
        let row = u64::from(self.rows[place]);
        self.cpu.load(stage, self.predictions, row * 4);
        self.cpu.store(stage, self.predictions, row * 4);
    }
}

/// Takes the next rows out of those that are left.
fn some(left: &mut Range<usize>) -> Range<usize> {
    let some = left.start..(left.start + ROWS_PER_STEP).min(left.end);
    left.start = some.end;
    some
}

impl Workload for XgBoost {
    fn step(&mut self, stage: &mut Stage) -> bool {
        if self.loader.step(stage) {
            return true;
        }
        if self.cpu.done(stage, self.before) {
            return false;
        }
        let mut phase = self.phase.clone();
        match &mut phase {
            Phase::Gradients(from) => {
                self.compute_gradients(stage, *from);
                return true;
            }
            Phase::Histogram { node, left } => {
                some(left).for_each(|place| self.add_to_histogram(stage, *node, place));
            }
            Phase::Part { left, .. } => some(left).for_each(|place| self.part(stage, place)),
            Phase::Reorder { left, .. } => {
                some(left).for_each(|place| self.cpu.store(stage, self.indices, place as u64 * 8));
            }
            Phase::Predict { left, .. } => some(left).for_each(|place| self.predict(stage, place)),
        }
        match phase {
            Phase::Histogram { node, left } if left.is_empty() => self.after_histogram(node),
            Phase::Part { node, left } if left.is_empty() => self.after_part(node),
            Phase::Reorder { node, left } | Phase::Predict { node, left } if left.is_empty() => {
                self.next_node(stage, node);
            }
            unfinished => self.phase = unfinished,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::tests::check;

    #[test]
    fn a_tree_deals_every_row_to_one_leaf() {
        let given =
            frostline_core::spec::Spec::parse("xgboost:size=2MiB:depth=4:init=off").unwrap();
        let (mut trees, mut stage) = make(&Settings::new(given, PARAMS).unwrap()).unwrap();
        let rows = trees.rows.len();
        assert!(rows > 3000, "{rows}");
        let mut looked_at = 0;
        while !matches!(trees.phase, Phase::Predict { .. }) {
            if let Phase::Histogram { left, .. } = &trees.phase {
                looked_at += left.len().min(ROWS_PER_STEP);
            }
            assert!(trees.step(&mut stage));
        }
        assert_eq!((trees.level, trees.nodes.len()), (3, 8));
        let ends: Vec<usize> = trees.nodes.iter().flat_map(|node| [node.start, node.end]).collect();
        assert!(ends[1..15].chunks(2).all(|pair| pair[0] == pair[1]) && ends[15] == rows);
        assert!(trees.nodes.iter().all(|node| trees.rows[node.clone()].is_sorted()));
        let mut all = trees.rows.clone();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..rows as u32));
        // All rows at the root, then half of them at most.
        let expected = rows..=rows * 5 / 2 + 100;
        assert!(expected.contains(&looked_at), "{looked_at} of {rows}");
    }

    #[test]
    fn trees_are_marked() {
        let summary = check("xgboost:size=4MiB:features=8:depth=3:accesses=600K");
        assert!(summary.marks > 1, "{}", summary.marks);
    }
}
