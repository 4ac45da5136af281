//! Tables of an in-memory database: rows, and the B+trees that lead to them.
//!
//! Nodes have 320 B and 15 entries, 14 of a leaf are in use. Tables that do not grow have their
//! trees computed ([`Tree`]). What is appended at the end of each of many parts (the orders of a
//! district) is in a [`GrowingIndex`], whose nodes are allocated in the order of arrival.

use super::memory::Memory;
use super::page_stream::Loader;
use super::stage::{Area, Stage};
use super::tree::Tree;
use frostline_core::types::PAGE_BYTES;
use frostline_trace::event::MapKind;
use std::collections::VecDeque;

const NODE_BYTES: u64 = 320;
const KEYS_PER_LEAF: u64 = 14;
const FANOUT: u64 = 15;

/// Bytes of a row's share of the nodes above it.
pub(super) const INDEX_BYTES: u64 = NODE_BYTES * (FANOUT + 1) / FANOUT / KEYS_PER_LEAF + 1;

/// A table whose rows are all there from the start, in the order of their keys.
#[derive(Debug)]
pub(super) struct Table {
    tree: Tree,
    nodes: Area,
    rows: Area,
    row_bytes: u64,
}

impl Table {
    pub(super) fn map(stage: &mut Stage, keys: u64, row_bytes: u64) -> Self {
        let tree = Tree::new(keys, KEYS_PER_LEAF, FANOUT, None);
        let rows = stage.map((keys * row_bytes).max(1), MapKind::Anonymous);
        let nodes = stage.map(tree.slots() * NODE_BYTES, MapKind::Anonymous);
        Self { tree, nodes, rows, row_bytes }
    }

    pub(super) fn areas(&self) -> [Area; 2] {
        [self.rows, self.nodes]
    }

    /// Walks the tree.
    #[inline]
    pub(super) fn find(&self, memory: &mut impl Memory, key: u64) {
        self.tree.descend(key, |slot, _, _| {
            memory.load_all(self.nodes, slot * NODE_BYTES, NODE_BYTES);
        });
    }

    #[inline]
    pub(super) fn read(&self, memory: &mut impl Memory, key: u64) {
        self.find(memory, key);
        memory.load_all(self.rows, key * self.row_bytes, self.row_bytes);
    }

    #[inline]
    pub(super) fn update(&self, memory: &mut impl Memory, key: u64) {
        self.read(memory, key);
        memory.store_all(self.rows, key * self.row_bytes, self.row_bytes);
    }
}

/// Rows in the order of arrival, on a ring: what no longer fits replaces the oldest ones.
#[derive(Debug)]
pub(super) struct Ring {
    area: Area,
    row_bytes: u64,
    room: u64,
    /// Rows that have come.
    pub(super) next: u64,
}

impl Ring {
    pub(super) fn map(stage: &mut Stage, room: u64, row_bytes: u64) -> Self {
        let area = stage.map(room * row_bytes, MapKind::Anonymous);
        Self { area, row_bytes, room, next: 0 }
    }

    /// Writes the pages of the rows that have come.
    pub(super) fn loader(&self, on: bool) -> Loader {
        let pages = (self.next.min(self.room) * self.row_bytes).div_ceil(PAGE_BYTES);
        Loader::spaced(on && pages > 0, self.area, pages as u32, 1.0)
    }

    /// Whether a row has not been replaced.
    pub(super) fn holds(&self, row: u64) -> bool {
        row + self.room >= self.next
    }

    /// Where something else of this row is kept, below `room`.
    pub(super) fn place(&self, row: u64) -> usize {
        (row % self.room) as usize
    }

    pub(super) fn append(&mut self, memory: &mut impl Memory) -> u64 {
        memory.store_all(self.area, self.next % self.room * self.row_bytes, self.row_bytes);
        self.next += 1;
        self.next - 1
    }

    pub(super) fn read(&self, memory: &mut impl Memory, row: u64) {
        memory.load_all(self.area, row % self.room * self.row_bytes, self.row_bytes);
    }

    pub(super) fn update(&self, memory: &mut impl Memory, row: u64) {
        self.read(memory, row);
        memory.store_all(self.area, row % self.room * self.row_bytes, self.row_bytes);
    }
}

/// A tree over many parts, each of which grows at its end and shrinks at its start.
#[derive(Debug)]
pub(super) struct GrowingIndex {
    area: Area,
    /// Above the parts; its nodes come first.
    top: Tree,
    parts: Vec<Part>,
    free: Vec<u32>,
    next: u32,
}

/// Slots of the nodes of one part: leaves, and the level above.
#[derive(Clone, Debug, Default)]
struct Part {
    levels: [Level; 2],
}

#[derive(Clone, Debug, Default)]
struct Level {
    first: u64,
    slots: VecDeque<u32>,
}

/// Keys below a node of each level.
const SPANS: [u64; 2] = [KEYS_PER_LEAF, KEYS_PER_LEAF * FANOUT];

impl GrowingIndex {
    /// For at most `room` keys at a time in `parts` parts.
    pub(super) fn map(stage: &mut Stage, parts: u64, room: u64) -> Self {
        let top = Tree::new(parts, KEYS_PER_LEAF, FANOUT, None);
        let nodes = |span: u64| room / span + 2 * parts;
        let slots = top.slots() + SPANS.map(nodes).iter().sum::<u64>();
        let area = stage.map(slots * NODE_BYTES, MapKind::Anonymous);
        let next = top.slots() as u32;
        let parts = vec![Part::default(); parts as usize];
        Self { area, top, parts, free: Vec::new(), next }
    }

    /// Writes the pages of the nodes that are there.
    pub(super) fn loader(&self, on: bool) -> Loader {
        let pages = (u64::from(self.next) * NODE_BYTES).div_ceil(PAGE_BYTES);
        Loader::spaced(on, self.area, pages as u32, 1.0)
    }

    /// Walks to a key that is there.
    pub(super) fn find(&self, memory: &mut impl Memory, part: u64, key: u64) {
        self.top.descend(part, |slot, _, _| {
            memory.load_all(self.area, slot * NODE_BYTES, NODE_BYTES);
        });
        for level in [1, 0] {
            memory.load_all(self.area, self.node(part, level, key), NODE_BYTES);
        }
    }

    fn node(&self, part: u64, level: usize, key: u64) -> u64 {
        let nodes = &self.parts[part as usize].levels[level];
        u64::from(nodes.slots[(key / SPANS[level] - nodes.first) as usize]) * NODE_BYTES
    }

    /// Adds the key after the part's last one.
    pub(super) fn append(&mut self, memory: &mut impl Memory, part: u64, key: u64) {
        for (level, span) in SPANS.into_iter().enumerate() {
            let nodes = &mut self.parts[part as usize].levels[level];
            if nodes.slots.is_empty() {
                nodes.first = key / span;
            }
            if key / span < nodes.first + nodes.slots.len() as u64 {
                break;
            }
            let slot = self.free.pop().unwrap_or_else(|| {
                self.next += 1;
                self.next - 1
            });
            nodes.slots.push_back(slot);
            memory.store_all(self.area, u64::from(slot) * NODE_BYTES, NODE_BYTES);
        }
        self.find(memory, part, key);
        self.touch(memory, part, key);
    }

    /// Changes the leaf of a key just found: the entry or its absence.
    pub(super) fn touch(&self, memory: &mut impl Memory, part: u64, key: u64) {
        memory.store(self.area, self.node(part, 0, key) + key % KEYS_PER_LEAF * 16 + 64);
    }

    /// Nothing below `key` is needed any more: frees nodes that hold nothing else.
    pub(super) fn trim(&mut self, part: u64, key: u64) {
        for (level, span) in SPANS.into_iter().enumerate() {
            let nodes = &mut self.parts[part as usize].levels[level];
            while nodes.slots.len() > 1 && (nodes.first + 1) * span <= key {
                nodes.first += 1;
                self.free.extend(nodes.slots.pop_front());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Untraced;
    use frostline_core::rng::Rng;
    use frostline_trace::header::TraceHeader;
    use std::collections::HashSet;

    #[test]
    fn every_node_of_a_growing_index_has_a_slot_of_its_own() {
        let mut stage = Stage::new(TraceHeader::named("t"), 1);
        let mut index = GrowingIndex::map(&mut stage, 30, 3000);
        let slots = index.area.run.pages as u64 * PAGE_BYTES / NODE_BYTES;
        let mut rng = Rng::new(1);
        let mut ends = [(0u64, 0u64); 30];
        for _ in 0..50_000 {
            let part = rng.below(30) as usize;
            let (first, end) = &mut ends[part];
            index.append(&mut Untraced, part as u64, *end);
            *end += 1;
            if *end - *first > 100 {
                *first += 1 + rng.below(50);
                index.trim(part as u64, *first);
            }
            index.find(&mut Untraced, part as u64, *first);
        }
        let mut seen: HashSet<u32> = index.free.iter().copied().collect();
        assert_eq!(seen.len(), index.free.len());
        assert!(!seen.is_empty(), "nodes were freed");
        for level in index.parts.iter().flat_map(|part| &part.levels) {
            for &slot in &level.slots {
                assert!(u64::from(slot) >= index.top.slots() && seen.insert(slot));
            }
        }
        assert_eq!(seen.len() as u64, u64::from(index.next) - index.top.slots(), "none was lost");
        assert!(u64::from(index.next) <= slots);
    }

    #[test]
    fn a_ring_forgets_its_oldest_rows() {
        let mut stage = Stage::new(TraceHeader::named("t"), 1);
        let mut ring = Ring::map(&mut stage, 10, 100);
        for row in 0..25 {
            assert_eq!(ring.append(&mut Untraced), row);
        }
        assert!(!ring.holds(14) && ring.holds(15));
        assert_eq!(ring.place(15), 5);
    }
}
