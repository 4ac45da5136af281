//! `xgboost`: training of boosted trees on binned features.
//!
//! Model: for each tree, predictions and gradients are computed in order; then, level by level, the
//! histogram of each node's smaller child is built from its rows (index, gradient, bins of all
//! features, one bin's sums for each), its sibling's follows from the parent's, and all are read to
//! find cuts; rows are parted between children by one feature's column, into blocks that are then
//! merged, keeping their order; at the end each leaf's rows learn their position. The rows of a node
//! lie ever farther apart, and differ from tree to tree. In the first tree sums move to a larger
//! array with each level. Where arrays lie says [`super::xgboost_memory`].
//! Source: XGBoost (Chen and Guestrin, KDD 2016), tree method "hist", depth 6, 256 bins; 39 features
//! as the Criteo click logs have them. In HybridTier (248 GB). Bins are there twice, by row and by
//! column, blocks have 2048 rows, places 8 bytes, as in release 3.
//! Not: XGBoost. Nothing is learnt: how a node's rows are parted is drawn, most cuts are made by a
//! third of the features, equally often, and all leaves have the same depth; one thread.

use super::cpu::Cpu;
use super::made::{Made, Workload};
use super::page_stream::Loader;
use super::params::{self, Param, Settings};
use super::stage::{Area, Stage};
use super::xgboost_memory::{Arrays, BLOCK_ROWS, GRADIENT_BYTES, PLACE_BYTES, SIDE_BYTES, Shape};
use frostline_core::rng::Rng;
use frostline_core::types::PAGE_BYTES;
use frostline_trace::error::TraceError;
use frostline_trace::event::{StreamId, TraceEvent};
use std::ops::Range;

pub(super) const PARAMS: &[Param] = &[
    params::size("512MiB"),
    params::PAGES,
    params::accesses("24M"),
    Param::text("features", "39", "features of a row, one byte each, 1 to 4096"),
    Param::text("bins", "256", "bins of a feature, 2 to 256"),
    Param::text("depth", "6", "cuts from the root to a leaf, 1 to 16"),
    Param::text(
        "telling",
        "1/3",
        "share of the features that nearly all cuts are made by, evenly spread",
    ),
    Param::text(
        "parts",
        "0",
        "parts in which rows are loaded, 0 to 1000; arrays lie in what loading left behind; with 0 \
         it leaves nothing, as where arrays have more than 32 MiB",
    ),
    params::gap("5"),
    params::LLC,
    params::INIT,
    params::EPOCH,
    params::SEED,
];

/// Two doubles: sums of gradients and of their derivatives.
const SUMS_BYTES: u64 = 16;
/// Cuts by a feature that tells nothing: of ten trees on data of which every third feature told
/// something, 95 % of the rows that were parted were parted by these.
const NOISE: f64 = 0.05;
const ROWS_PER_STEP: usize = 16;
const LINES_PER_STEP: u64 = 64;
/// Rows that are added to sums at once, after a look at where the bins of the first one begin.
const TASK_ROWS: usize = 256;

/// What is done with the next rows.
#[derive(Clone, Debug)]
enum Phase {
    /// Predictions from the positions that the last tree gave.
    Update(u32),
    /// Gradients from predictions and labels.
    Gradients(u32),
    /// Sums move to where those of a further level have room; the next one of its lines.
    Grow(u64),
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
    loaders: Vec<Loader>,
    before: u64,
    arrays: Arrays,
    /// Which of the arrays of sums is in use.
    histogram: usize,
    features: u64,
    /// Features that tell something.
    telling: u64,
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
    let telling = (settings.share("telling")? * features as f64).ceil() as u64;
    let shape = Shape {
        features,
        depth,
        sums_bytes: features * bins_per_feature * SUMS_BYTES,
        spare_blocks: 1 << (depth - 1),
        parts: settings.count("parts", 0, 1000)?,
    };
    let rows = shape.most_rows(footprint);
    if !(1024..=1 << 31).contains(&rows) {
        let what =
            format!("leaves {rows} rows beside {} MiB of sums", shape.histogram_bytes(depth) >> 20);
        return Err(settings.refuse("size", &what, "give more memory, fewer features or levels"));
    }
    let init = settings.switch("init")?;
    let (cpu, mut stage) = Cpu::open(settings, footprint)?;
    let arrays = shape.map(&mut stage, rows);
    let loaders: Vec<_> = arrays.loading.iter().map(|areas| Loader::new(init, areas)).collect();
    let before = loaders.iter().map(Loader::records).sum();
    stage.expect(before);
    let workload = XgBoost {
        cpu,
        loaders,
        before,
        arrays,
        histogram: 0,
        features,
        telling: telling.clamp(1, features),
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
            self.cpu.load(stage, self.arrays.positions, row * 4);
            self.cpu.load(stage, self.arrays.predictions, row * 4);
            self.cpu.store(stage, self.arrays.predictions, row * 4);
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
            self.cpu.load(stage, self.arrays.predictions, row * 4);
            self.cpu.load(stage, self.arrays.labels, row * 4);
            self.cpu.store(stage, self.arrays.gradients, row * GRADIENT_BYTES);
            self.cpu.store(stage, self.arrays.places, row * PLACE_BYTES);
        }
        self.phase = Phase::Gradients(to);
        if to == self.row_count() {
            self.level = 0;
            self.nodes.clear();
            self.nodes.push(0..self.rows.len());
            self.begin_histogram(0);
        }
    }

    /// Where the sums of a node of this level lie, or of its parent.
    fn sums_of(&self, level: u32, node: usize) -> u64 {
        ((1 << level) - 1 + node as u64) * self.sums_bytes()
    }

    fn begin_level(&mut self) {
        let grows = self.histogram < self.level as usize
            && self.histogram + 1 < self.arrays.histograms.len();
        if grows {
            self.phase = Phase::Grow(0);
        } else {
            self.begin_histogram(0);
        }
    }

    fn grow(&mut self, stage: &mut Stage, from: u64) {
        let [old, new] = [0, 1].map(|nth| self.arrays.histograms[self.histogram + nth]);
        let to = (from + LINES_PER_STEP).min(new.len_bytes().div_ceil(64));
        for at in (from..to).map(|line| line * 64) {
            if at < old.len_bytes() {
                self.cpu.load(stage, old, at);
            }
            self.cpu.store(stage, new, at);
        }
        self.phase = Phase::Grow(to);
        if to * 64 >= new.len_bytes() {
            self.histogram += 1;
            self.begin_histogram(0);
        }
    }

    fn histogram(&self) -> Area {
        self.arrays.histograms[self.histogram]
    }

    fn sums_bytes(&self) -> u64 {
        self.features * self.bins_per_feature * SUMS_BYTES
    }

    fn add_to_histogram(&mut self, stage: &mut Stage, node: usize, place: usize) {
        let row = u64::from(self.rows[place]);
        self.cpu.load(stage, self.arrays.places, place as u64 * PLACE_BYTES);
        self.cpu.load(stage, self.arrays.gradients, row * GRADIENT_BYTES);
        if (place - self.nodes[node].start).is_multiple_of(TASK_ROWS) {
            self.cpu.load(stage, self.arrays.starts, row * PLACE_BYTES);
        }
        self.cpu.load_all(stage, self.arrays.bins, row * self.features, self.features);
        let base = self.sums_of(self.level, node);
        let mut random = Rng::new(row);
        for feature in 0..self.features {
            // Low bins are popular, as with counts and rare categories; always the same bin.
            let unit = random.unit_f64();
            let bin = (unit * unit * self.bins_per_feature as f64) as u64;
            let at = base + (feature * self.bins_per_feature + bin) * SUMS_BYTES;
            self.cpu.load(stage, self.histogram(), at);
            self.cpu.store(stage, self.histogram(), at);
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
                self.cpu.load(stage, self.histogram(), parent + line);
                self.cpu.load(stage, self.histogram(), sibling + line);
                self.cpu.store(stage, self.histogram(), here + line);
            }
        }
        self.cpu.load_all(stage, self.histogram(), here, bytes);
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
        self.cut.feature = if self.rng.unit_f64() < NOISE {
            self.rng.below(self.features)
        } else {
            self.rng.below(self.telling) * self.features / self.telling
        };
        self.cut.second.clear();
        self.phase = Phase::Part { node, left: self.nodes[node].clone() };
    }

    fn part(&mut self, stage: &mut Stage, node: usize, place: usize) {
        let row = self.rows[place];
        self.cpu.load(stage, self.arrays.places, place as u64 * PLACE_BYTES);
        let column = self.cut.feature * self.rows.len() as u64;
        self.cpu.load(stage, self.arrays.columns, column + u64::from(row));
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
        let nth = cut.blocks.len() - 1;
        let block = &mut cut.blocks[nth];
        let at = side as u64 * SIDE_BYTES + block.counts[side] * PLACE_BYTES;
        block.counts[side] += 1;
        self.cpu.store(stage, self.arrays.blocks[nth], at);
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
            let from = side as u64 * SIDE_BYTES;
            for row in 0..counts[side] {
                self.cpu.load(stage, self.arrays.blocks[nth], from + row * PLACE_BYTES);
                self.cpu.store(stage, self.arrays.places, (to[side] + row) * PLACE_BYTES);
            }
        }
        self.phase = Phase::Merge(nth + 1);
        if nth + 1 == self.cut.blocks.len() {
            std::mem::swap(&mut self.rows, &mut self.cut.rows);
            std::mem::swap(&mut self.nodes, &mut self.cut.children);
            self.level += 1;
            if self.level < self.depth {
                self.begin_level();
            } else {
                self.phase = Phase::Leaf { node: 0, left: self.nodes[0].clone() };
            }
        }
    }

    fn tell_position(&mut self, stage: &mut Stage, place: usize) {
        self.cpu.load(stage, self.arrays.places, place as u64 * PLACE_BYTES);
        let row = u64::from(self.rows[place]);
        // Rows without weight are told by it.
        self.cpu.load(stage, self.arrays.gradients, row * GRADIENT_BYTES);
        self.cpu.store(stage, self.arrays.positions, row * 4);
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
        if self.loaders.iter_mut().any(|loader| loader.step(stage)) {
            return true;
        }
        if self.cpu.done(stage, self.before) {
            return false;
        }
        let mut phase = self.phase.clone();
        match &mut phase {
            Phase::Update(from) => self.update(stage, *from),
            Phase::Gradients(from) => self.compute_gradients(stage, *from),
            Phase::Grow(from) => self.grow(stage, *from),
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
    use crate::tests::check;

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
    fn sums_grow_with_the_levels_of_the_first_tree_only() {
        let spec = "xgboost:size=12MiB:features=8:depth=4:init=off:parts=4";
        let given = frostline_core::spec::Spec::parse(spec).unwrap();
        let (mut trees, mut stage) = make(&Settings::new(given, PARAMS).unwrap()).unwrap();
        let mut grown = Vec::new();
        for _ in 0..2 {
            let mut lines = 0;
            while !matches!(trees.phase, Phase::Leaf { .. }) {
                lines += u64::from(matches!(trees.phase, Phase::Grow(_))) * LINES_PER_STEP;
                assert!(trees.step(&mut stage));
            }
            while matches!(trees.phase, Phase::Leaf { .. }) {
                assert!(trees.step(&mut stage));
            }
            grown.push(lines * 64);
        }
        let sums = trees.sums_bytes();
        let all_levels = (3 + 7 + 15) * sums;
        assert!(
            (all_levels..all_levels + 3 * 64 * LINES_PER_STEP).contains(&grown[0]),
            "{grown:?}"
        );
        assert_eq!((grown[1], trees.histogram), (0, 3));
    }

    #[test]
    fn most_cuts_are_made_by_telling_features() {
        let given = frostline_core::spec::Spec::parse("xgboost:size=16MiB:init=off").unwrap();
        let (mut trees, _) = make(&Settings::new(given, PARAMS).unwrap()).unwrap();
        trees.nodes.push(0..1);
        let mut cuts = [0; 39];
        for _ in 0..10_000 {
            trees.begin_part(0);
            cuts[trees.cut.feature as usize] += 1;
        }
        let telling: u32 = cuts.iter().step_by(3).sum();
        assert!((9550..9750).contains(&telling), "{telling}: 95 %, and a third of the others");
        assert!(cuts.iter().all(|&n| n > 0));
    }

    #[test]
    fn trees_are_marked() {
        let summary = check("xgboost:size=4MiB:features=8:depth=3:accesses=600K");
        assert!(summary.marks > 1, "{}", summary.marks);
    }
}
