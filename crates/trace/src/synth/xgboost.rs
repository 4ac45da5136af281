//! `xgboost`: training of boosted trees on binned features.
//!
//! Model: for each tree, predictions and gradients are computed in order; then, level by level, the
//! histogram of each node's smaller child is built from its rows (index, gradient, bins of all
//! features, one bin's sums for each), its sibling's follows from the parent's, and all are read to
//! find cuts; rows are parted between children by one feature's column, into blocks that are then
//! merged, keeping their order; at the end each leaf's rows learn their position. The rows of a node
//! lie ever farther apart, and differ from tree to tree.
//! Source: XGBoost (Chen and Guestrin, KDD 2016), tree method "hist", depth 6, 256 bins; 39 features
//! as the Criteo click logs have them. In HybridTier (248 GB). Bins are there twice, by row and by
//! column, blocks have 2048 rows, places 8 bytes, as in release 3.
//! Not: XGBoost. Nothing is learnt: how a node's rows are parted is drawn, features are cut equally
//! often, and all leaves have the same depth; one thread.

use super::cpu::Cpu;
use super::page_stream::Loader;
use super::params::{self, Param, Settings};
use super::stage::{Area, Stage};
use super::{Made, Workload};
use crate::error::TraceError;
use crate::event::{StreamId, TraceEvent};
use frostline_core::rng::Rng;
use frostline_core::types::PAGE_BYTES;
use std::ops::Range;

pub(super) const PARAMS: &[Param] = &[
    params::size("512MiB"),
    params::PAGES,
    params::accesses("24M"),
    Param::new("features", "39", "features of a row, one byte each, 1 to 4096"),
    Param::new("bins", "256", "bins of a feature, 2 to 256"),
    Param::new("depth", "6", "cuts from the root to a leaf, 1 to 16"),
    params::gap("5"),
    params::LLC,
    params::INIT,
    params::EPOCH,
    params::SEED,
];

/// Two doubles: sums of gradients and of their derivatives.
const SUMS_BYTES: u64 = 16;
/// Place of a row, and in blocks.
const PLACE_BYTES: u64 = 8;
/// Of a row, beside bins: place; gradient and its derivative; prediction; label; position.
const ROW_ARRAYS: [u64; 5] = [PLACE_BYTES, 8, 4, 4, 4];
/// Rows that are parted at once: those of either child have room for all of them.
const BLOCK_ROWS: u64 = 2048;
const SIDE_BYTES: u64 = BLOCK_ROWS * PLACE_BYTES;
const BLOCK_BYTES: u64 = 2 * SIDE_BYTES;
const ROWS_PER_STEP: usize = 16;

/// What is done with the next rows.
#[derive(Clone, Debug)]
enum Phase {
    /// Predictions from the positions that the last tree gave.
    Update(u32),
    /// Gradients from predictions and labels.
    Gradients(u32),
    /// Sums of the smaller of two children, or of the root, from its rows.
    Histogram { node: usize, left: Range<usize> },
    /// Sums of a larger child, and a look at all of a node's.
    Sums(usize),
    /// Rows of a node are dealt to its children, in blocks.
    Part { node: usize, left: Range<usize> },
    /// Rows of a block are written in their new order.
    Merge(usize),
    /// Positions of a leaf's rows.
    Leaf { node: usize, left: Range<usize> },
}

#[derive(Debug)]
struct XgBoost {
    cpu: Cpu,
    loader: Loader,
    training_loader: Loader,
    before: u64,
    bins: Area,
    columns: Area,
    places: Area,
    gradients: Area,
    predictions: Area,
    labels: Area,
    positions: Area,
    histograms: Area,
    blocks_area: Area,
    features: u64,
    bins_per_feature: u64,
    depth: u32,
    /// Rows in the order of the present level's nodes.
    rows: Vec<u32>,
    /// The rows of each node of the level.
    nodes: Vec<Range<usize>>,
    level: u32,
    phase: Phase,
    cut: Cut,
    rng: Rng,
}

/// How a level's rows are parted.
#[derive(Debug, Default)]
struct Cut {
    feature: u64,
    /// Share of the node's rows that goes to the first child.
    share: f64,
    /// The rows in their new order, of nodes that are parted and of this one's first child.
    rows: Vec<u32>,
    /// Of this node's second child.
    second: Vec<u32>,
    blocks: Vec<Block>,
    children: Vec<Range<usize>>,
}

/// Rows of a node that were parted together: how many went to each side, and where those go.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    node: usize,
    counts: [u64; 2],
    to: [u64; 2],
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
    let bins_per_feature = settings.count("bins", 2, 256)?;
    let depth = settings.count("depth", 1, 16)? as u32;
    let histogram_bytes = features * bins_per_feature * SUMS_BYTES * ((1 << depth) - 1);
    // The last block of each node is not full.
    let spare_bytes = BLOCK_BYTES << (depth - 1);
    let row_bytes = 2 * features + ROW_ARRAYS.iter().sum::<u64>() + 2 * PLACE_BYTES;
    let rows = footprint.saturating_sub(histogram_bytes + spare_bytes) / row_bytes;
    if !(1024..=1 << 31).contains(&rows) {
        let what = format!("leaves {rows} rows beside {} MiB of sums", histogram_bytes >> 20);
        return Err(settings.refuse("size", &what, "give more memory, fewer features or levels"));
    }
    let init = settings.switch("init")?;
    let (cpu, mut stage) = Cpu::open(settings, footprint)?;
    let [a, b, c, d, e] = ROW_ARRAYS.map(|bytes| rows * bytes);
    let blocks_bytes = rows.div_ceil(BLOCK_ROWS) * BLOCK_BYTES + spare_bytes;
    let matrix = rows * features;
    let areas = stage.map_adjacent([a, b, c, d, e, matrix, matrix, histogram_bytes, blocks_bytes]);
    let [places, gradients, predictions, labels, positions, ..] = areas;
    let [.., bins, columns, histograms, blocks_area] = areas;
    let loader = Loader::new(init, &[bins, columns, labels]);
    let training = [places, gradients, predictions, positions, histograms, blocks_area];
    let training_loader = Loader::new(init, &training);
    let before = loader.records() + training_loader.records();
    stage.expect(before);
    let workload = XgBoost {
        cpu,
        loader,
        training_loader,
        before,
        bins,
        columns,
        places,
        gradients,
        predictions,
        labels,
        positions,
        histograms,
        blocks_area,
        features,
        bins_per_feature,
        depth,
        rows: (0..rows as u32).collect(),
        nodes: Vec::new(),
        level: 0,
        phase: Phase::Update(0),
        cut: Cut::default(),
        rng,
    };
    Ok((workload, stage))
}

impl XgBoost {
    fn row_count(&self) -> u32 {
        self.rows.len() as u32
    }

    fn update(&mut self, stage: &mut Stage, from: u32) {
        let to = (from + ROWS_PER_STEP as u32).min(self.row_count());
        for row in u64::from(from)..u64::from(to) {
            self.cpu.load(stage, self.positions, row * 4);
            self.cpu.load(stage, self.predictions, row * 4);
            self.cpu.store(stage, self.predictions, row * 4);
        }
        let all = to == self.row_count();
        self.phase = if all { Phase::Gradients(0) } else { Phase::Update(to) };
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
            self.cpu.store(stage, self.places, row * PLACE_BYTES);
        }
        self.phase = Phase::Gradients(to);
        if to == self.row_count() {
            self.level = 0;
            self.nodes.clear();
            self.nodes.push(0..self.rows.len());
            self.phase = Phase::Histogram { node: 0, left: 0..self.rows.len() };
        }
    }

    /// Where the sums of a node of this level lie, or of its parent.
    fn sums_of(&self, level: u32, node: usize) -> u64 {
        ((1 << level) - 1 + node as u64) * self.sums_bytes()
    }

    fn sums_bytes(&self) -> u64 {
        self.features * self.bins_per_feature * SUMS_BYTES
    }

    fn add_to_histogram(&mut self, stage: &mut Stage, node: usize, place: usize) {
        let row = u64::from(self.rows[place]);
        self.cpu.load(stage, self.places, place as u64 * PLACE_BYTES);
        self.cpu.load(stage, self.gradients, row * 8);
        self.cpu.load_all(stage, self.bins, row * self.features, self.features);
        let base = self.sums_of(self.level, node);
        let mut random = Rng::new(row);
        for feature in 0..self.features {
            // Low bins are popular, as with counts and rare categories; always the same bin.
            let unit = random.unit_f64();
            let bin = (unit * unit * self.bins_per_feature as f64) as u64;
            let at = base + (feature * self.bins_per_feature + bin) * SUMS_BYTES;
            self.cpu.load(stage, self.histograms, at);
            self.cpu.store(stage, self.histograms, at);
        }
    }

    /// Whether only the sibling's rows need be looked at.
    fn is_larger(&self, node: usize) -> bool {
        let sibling = self.nodes.get(node ^ 1).map_or(0, |other| other.len());
        let rows = self.nodes[node].len();
        self.level > 0 && (rows > sibling || (rows == sibling && !node.is_multiple_of(2)))
    }

    /// The histogram of the first node from here on that needs its rows looked at.
    fn begin_histogram(&mut self, from: usize) {
        let next = (from..self.nodes.len()).find(|node| !self.is_larger(*node));
        self.phase = match next {
            Some(node) => Phase::Histogram { node, left: self.nodes[node].clone() },
            None => Phase::Sums(0),
        };
    }

    fn look_at_sums(&mut self, stage: &mut Stage, node: usize) {
        let (bytes, here) = (self.sums_bytes(), self.sums_of(self.level, node));
        if self.is_larger(node) {
            let parent = self.sums_of(self.level - 1, node / 2);
            let sibling = self.sums_of(self.level, node ^ 1);
            for line in (0..bytes).step_by(64) {
                self.cpu.load(stage, self.histograms, parent + line);
                self.cpu.load(stage, self.histograms, sibling + line);
                self.cpu.store(stage, self.histograms, here + line);
            }
        }
        self.cpu.load_all(stage, self.histograms, here, bytes);
        if node + 1 < self.nodes.len() {
            self.phase = Phase::Sums(node + 1);
        } else {
            self.cut.rows.clear();
            self.cut.blocks.clear();
            self.cut.children.clear();
            self.begin_part(0);
        }
    }

    fn begin_part(&mut self, node: usize) {
        self.cut.share = 0.1 + 0.8 * self.rng.unit_f64();
        self.cut.feature = self.rng.below(self.features);
        self.cut.second.clear();
        self.phase = Phase::Part { node, left: self.nodes[node].clone() };
    }

    fn part(&mut self, stage: &mut Stage, node: usize, place: usize) {
        let row = self.rows[place];
        self.cpu.load(stage, self.places, place as u64 * PLACE_BYTES);
        let column = self.cut.feature * self.rows.len() as u64;
        self.cpu.load(stage, self.columns, column + u64::from(row));
        let cut = &mut self.cut;
        if (place - self.nodes[node].start).is_multiple_of(BLOCK_ROWS as usize) {
            cut.blocks.push(Block { node, ..Block::default() });
        }
        let side = usize::from(self.rng.unit_f64() >= cut.share);
        if side == 0 {
            cut.rows.push(row)
        } else {
            cut.second.push(row)
        }
        let nth = cut.blocks.len() as u64 - 1;
        let block = &mut cut.blocks[nth as usize];
        let at = nth * BLOCK_BYTES + side as u64 * SIDE_BYTES + block.counts[side] * PLACE_BYTES;
        block.counts[side] += 1;
        self.cpu.store(stage, self.blocks_area, at);
    }

    fn after_part(&mut self, node: usize) {
        let (all, cut) = (self.nodes[node].clone(), &mut self.cut);
        let middle = cut.rows.len();
        cut.rows.append(&mut cut.second);
        cut.children.extend([all.start..middle, middle..all.end]);
        let mut to = [all.start as u64, middle as u64];
        for block in cut.blocks.iter_mut().filter(|block| block.node == node) {
            block.to = to;
            to = [to[0] + block.counts[0], to[1] + block.counts[1]];
        }
        if node + 1 < self.nodes.len() {
            self.begin_part(node + 1);
        } else {
            self.phase = Phase::Merge(0);
        }
    }

    fn merge(&mut self, stage: &mut Stage, nth: usize) {
        let Block { counts, to, .. } = self.cut.blocks[nth];
        for side in [0, 1] {
            let from = nth as u64 * BLOCK_BYTES + side as u64 * SIDE_BYTES;
            for row in 0..counts[side] {
                self.cpu.load(stage, self.blocks_area, from + row * PLACE_BYTES);
                self.cpu.store(stage, self.places, (to[side] + row) * PLACE_BYTES);
            }
        }
        self.phase = Phase::Merge(nth + 1);
        if nth + 1 == self.cut.blocks.len() {
            std::mem::swap(&mut self.rows, &mut self.cut.rows);
            std::mem::swap(&mut self.nodes, &mut self.cut.children);
            self.level += 1;
            if self.level < self.depth {
                self.begin_histogram(0);
            } else {
                self.phase = Phase::Leaf { node: 0, left: self.nodes[0].clone() };
            }
        }
    }

    fn tell_position(&mut self, stage: &mut Stage, place: usize) {
        self.cpu.load(stage, self.places, place as u64 * PLACE_BYTES);
        let row = u64::from(self.rows[place]);
        // Rows without weight are told by it.
        self.cpu.load(stage, self.gradients, row * 8);
        self.cpu.store(stage, self.positions, row * 4);
    }

    fn after_leaf(&mut self, stage: &mut Stage, node: usize) {
        if node + 1 < self.nodes.len() {
            self.phase = Phase::Leaf { node: node + 1, left: self.nodes[node + 1].clone() };
        } else {
            stage.event(TraceEvent::OpEnd { stream: STREAM, op: OP });
            self.phase = Phase::Update(0);
        }
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
        if self.loader.step(stage) || self.training_loader.step(stage) {
            return true;
        }
        if self.cpu.done(stage, self.before) {
            return false;
        }
        let mut phase = self.phase.clone();
        match &mut phase {
            Phase::Update(from) => self.update(stage, *from),
            Phase::Gradients(from) => self.compute_gradients(stage, *from),
            Phase::Sums(node) => self.look_at_sums(stage, *node),
            Phase::Merge(block) => self.merge(stage, *block),
            Phase::Histogram { node, left } => {
                some(left).for_each(|place| self.add_to_histogram(stage, *node, place));
            }
            Phase::Part { node, left } => {
                some(left).for_each(|place| self.part(stage, *node, place));
            }
            Phase::Leaf { left, .. } => {
                some(left).for_each(|place| self.tell_position(stage, place))
            }
        }
        match phase {
            Phase::Histogram { node, left } if left.is_empty() => self.begin_histogram(node + 1),
            Phase::Part { node, left } if left.is_empty() => self.after_part(node),
            Phase::Leaf { node, left } if left.is_empty() => self.after_leaf(stage, node),
            Phase::Histogram { .. } | Phase::Part { .. } | Phase::Leaf { .. } => self.phase = phase,
            _ => {}
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
            frostline_core::spec::Spec::parse("xgboost:size=8MiB:depth=4:init=off").unwrap();
        let (mut trees, mut stage) = make(&Settings::new(given, PARAMS).unwrap()).unwrap();
        let rows = trees.rows.len();
        assert!(rows > 3000, "{rows}");
        let mut looked_at = 0;
        while !matches!(trees.phase, Phase::Leaf { .. }) {
            if let Phase::Histogram { left, .. } = &trees.phase {
                looked_at += left.len().min(ROWS_PER_STEP);
            }
            assert!(trees.step(&mut stage));
        }
        assert_eq!((trees.level, trees.nodes.len()), (4, 16));
        let ends: Vec<usize> = trees.nodes.iter().flat_map(|node| [node.start, node.end]).collect();
        assert!(ends[1..31].chunks(2).all(|pair| pair[0] == pair[1]) && ends[31] == rows);
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
