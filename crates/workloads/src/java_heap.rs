//! `java-heap`: a database in a Java heap, whose objects lie without regard to their use.
//!
//! Model: one mapping holds eden, two survivor spaces (8:1:1) and the old generation, twice as
//! large, where rows (256 B) and nodes of the tree over them lie in the order of random insertion,
//! garbage between them. An operation looks up rows by Zipf's law, bump-allocates short-lived
//! objects in eden, and replaces some rows by new ones there, marking cards. When eden is full,
//! cards are scanned and live rows copied to a survivor space, the third time to the old
//! generation; when that is full, its objects slide together. All wait meanwhile.
//! Source: PET (Doh et al., EuroSys 2025), Fig. 15: H2 of DaCapo in 100 GB; HotSpot's serial
//! collector and its ratios.
//! Not: HotSpot or H2. Sizes of objects and rates of allocation are choices; no marking phase.

use super::coin::Coin;
use super::cpu::{Cpu, Marks};
use super::made::{Made, Workload};
use super::memory::{Cached, Memory};
use super::page_stream::Loader;
use super::params::{self, Param, Settings};
use super::permutation::Permutation;
use super::stage::{Area, Stage};
use super::tree::Tree;
use super::zipf_law::{ZipfLaw, ZipfRng};
use frostline_core::rng::Rng;
use frostline_core::types::PAGE_BYTES;
use frostline_trace::error::TraceError;
use frostline_trace::event::MapKind;

pub(super) const PARAMS: &[Param] = &[
    params::size("512MiB"),
    params::PAGES,
    params::accesses("24M"),
    params::skew("0.99"),
    Param::text("live", "60%", "share of the old generation in use by live objects, 10% to 80%"),
    Param::text("lookups", "8", "rows looked up by an operation, 1 to 1000"),
    Param::text("writes", "10%", "share of the rows looked up that are replaced"),
    Param::text("garbage", "4KiB", "bytes of short-lived objects for an operation, up to 1MiB"),
    params::gap("150"),
    params::LLC,
    params::MARK,
    params::THINK,
    params::INIT,
    params::EPOCH,
    params::SEED,
];

const OP_READ: u64 = 0;
const OP_UPDATE: u64 = 1;

const ROW_BYTES: u64 = 256;
const NODE_BYTES: u64 = 320;
const KEYS_PER_LEAF: u64 = 14;
const FANOUT: u64 = 15;
/// Bytes for one mark in the card table.
const CARD_BYTES: u64 = 512;
/// Places are counted in these, as objects are aligned.
const UNIT: u64 = 16;
/// Collections that a row lives through before it is promoted.
const TENURE: u8 = 2;
/// Objects copied without looking up.
const SLICE: usize = 256;

/// Where the spaces lie; all starts are offsets in the heap.
#[derive(Clone, Copy, Debug)]
struct Spaces {
    eden_end: u64,
    survivor_bytes: u64,
    old: u64,
    end: u64,
}

impl Spaces {
    fn new(heap_bytes: u64) -> Self {
        let survivor_bytes = (heap_bytes / 30).next_multiple_of(PAGE_BYTES);
        let eden_end = 8 * survivor_bytes;
        Self { eden_end, survivor_bytes, old: eden_end + 2 * survivor_bytes, end: heap_bytes }
    }

    fn survivor(self, which: usize) -> u64 {
        self.eden_end + which as u64 * self.survivor_bytes
    }
}

/// What is going on.
#[derive(Debug)]
enum Phase {
    /// Operations.
    Run,
    /// Copying rows out of the young generation: how many are done.
    Young { done: usize },
    /// Sliding the objects of the old generation: rows below the number of rows, then nodes.
    Full { order: Vec<u32>, done: usize, to: u64 },
}

/// How far the spaces are filled.
#[derive(Clone, Copy, Debug)]
struct Ends {
    eden: u64,
    /// The survivor space in use.
    which: usize,
    survivor: u64,
    old: u64,
}

/// The heap and what is in it.
#[derive(Debug)]
struct Heap {
    area: Area,
    cards: Area,
    spaces: Spaces,
    live: f64,
    tree: Tree,
    rows: u32,
    /// Places of rows, then of nodes; empty until the heap is filled.
    places: Vec<u32>,
    /// Collections lived through, for rows in the young generation.
    ages: Vec<u8>,
    /// Rows in the young generation; those replaced again are there more than once.
    young: Vec<u32>,
    kept: Vec<u32>,
    ends: Ends,
    phase: Phase,
    collections: [u64; 2],
}

impl Heap {
    fn new(area: Area, cards: Area, spaces: Spaces, live: f64, rows: u32) -> Self {
        Self {
            area,
            cards,
            spaces,
            live,
            tree: Tree::new(u64::from(rows), KEYS_PER_LEAF, FANOUT, None),
            rows,
            places: Vec::new(),
            ages: Vec::new(),
            young: Vec::new(),
            kept: Vec::new(),
            ends: Ends { eden: 0, which: 0, survivor: spaces.survivor(0), old: spaces.old },
            phase: Phase::Run,
            collections: [0; 2],
        }
    }

    /// Rows and nodes in random order, and garbage between them.
    fn fill(&mut self, rng: &mut Rng) {
        let objects = self.rows + self.tree.slots() as u32;
        self.places = vec![0; objects as usize];
        self.ages = vec![0; self.rows as usize];
        let order = Permutation::new(objects, rng);
        // Four fifths are in use at the start, live or not.
        let spread = 0.8 / self.live;
        for nth in 0..objects {
            let object = order.apply(nth);
            self.places[object as usize] = (self.ends.old / UNIT) as u32;
            let with_garbage =
                (self.bytes(object) as f64 * (spread - 0.5 + rng.unit_f64())).max(0.0);
            let step = (with_garbage as u64).max(self.bytes(object)).next_multiple_of(UNIT);
            self.ends.old = (self.ends.old + step).min(self.spaces.end);
        }
    }

    fn bytes(&self, object: u32) -> u64 {
        if object < self.rows { ROW_BYTES } else { NODE_BYTES }
    }

    #[inline]
    fn place(&self, object: u32) -> u64 {
        u64::from(self.places[object as usize]) * UNIT
    }

    /// Walks the tree to the row and reads it.
    fn read(&self, memory: &mut impl Memory, row: u32) {
        self.tree.descend(u64::from(row), |slot, _, _| {
            memory.load_all(self.area, self.place(self.rows + slot as u32), NODE_BYTES);
        });
        memory.load_all(self.area, self.place(row), ROW_BYTES);
    }

    /// Makes the leaf point at the row's new place; a leaf in the old generation gets its mark.
    fn point(&self, memory: &mut impl Memory, row: u32) {
        let mut leaf = (0, 0);
        self.tree.descend(u64::from(row), |slot, position, _| leaf = (slot, position));
        let at = self.place(self.rows + leaf.0 as u32) + 64 + leaf.1 * 8;
        memory.store(self.area, at);
        memory.store(self.cards, at / CARD_BYTES);
    }

    fn room_in_eden(&self, bytes: u64) -> bool {
        self.ends.eden + bytes <= self.spaces.eden_end
    }

    fn allocate(&mut self, memory: &mut impl Memory, bytes: u64) -> u64 {
        let at = self.ends.eden;
        self.ends.eden += bytes.next_multiple_of(UNIT);
        memory.store_all(self.area, at, bytes);
        at
    }

    fn replace(&mut self, memory: &mut impl Memory, row: u32) {
        let at = self.allocate(memory, ROW_BYTES);
        self.places[row as usize] = (at / UNIT) as u32;
        self.ages[row as usize] = 0;
        self.young.push(row);
        self.point(memory, row);
    }

    /// Begins to collect: the young generation, or the old one where that has no room.
    fn start(&mut self, memory: &mut impl Memory) {
        if !self.room_for_promotion() {
            self.young.sort_unstable();
            self.young.dedup();
        }
        if !self.room_for_promotion() {
            return self.start_full();
        }
        // All cards of the old generation are looked at.
        let first = self.spaces.old / CARD_BYTES;
        memory.load_all(self.cards, first, (self.spaces.end - self.spaces.old) / CARD_BYTES);
        self.ends.which = 1 - self.ends.which;
        self.ends.survivor = self.spaces.survivor(self.ends.which);
        self.collections[0] += 1;
        self.phase = Phase::Young { done: 0 };
    }

    /// Collects a little; false where no collection is going on.
    fn collect(&mut self, memory: &mut impl Memory) -> bool {
        self.phase = match std::mem::replace(&mut self.phase, Phase::Run) {
            Phase::Run => return false,
            Phase::Young { done } => self.step_young(memory, done),
            Phase::Full { order, done, to } => self.step_full(memory, order, done, to),
        };
        true
    }

    /// Copies some rows; the next phase where all were.
    fn step_young(&mut self, memory: &mut impl Memory, done: usize) -> Phase {
        let some = done..(done + SLICE).min(self.young.len());
        for nth in some.clone() {
            let row = self.young[nth];
            let from = self.place(row);
            let to_start = self.spaces.survivor(self.ends.which);
            let copied = from >= self.spaces.old
                || (to_start..to_start + self.spaces.survivor_bytes).contains(&from);
            if copied {
                continue;
            }
            let fits = self.ends.survivor + ROW_BYTES <= to_start + self.spaces.survivor_bytes;
            let age = &mut self.ages[row as usize];
            *age += 1;
            let to = if *age > TENURE || !fits {
                self.ends.old += ROW_BYTES;
                self.ends.old - ROW_BYTES
            } else {
                self.ends.survivor += ROW_BYTES;
                self.kept.push(row);
                self.ends.survivor - ROW_BYTES
            };
            memory.load_all(self.area, from, ROW_BYTES);
            memory.store_all(self.area, to, ROW_BYTES);
            self.places[row as usize] = (to / UNIT) as u32;
            self.point(memory, row);
        }
        if some.end < self.young.len() {
            return Phase::Young { done: some.end };
        }
        self.ends.eden = 0;
        self.young.clear();
        std::mem::swap(&mut self.young, &mut self.kept);
        Phase::Run
    }

    /// Whether the old generation takes all that a collection of the young one may promote.
    fn room_for_promotion(&self) -> bool {
        self.ends.old + self.young.len() as u64 * ROW_BYTES <= self.spaces.end
    }

    fn start_full(&mut self) {
        let mut order: Vec<u32> = (0..self.places.len() as u32).collect();
        order.retain(|&object| self.place(object) >= self.spaces.old);
        order.sort_unstable_by_key(|&object| self.places[object as usize]);
        self.collections[1] += 1;
        self.phase = Phase::Full { order, done: 0, to: self.spaces.old };
    }

    /// Slides some objects towards the start; the next phase where all were.
    fn step_full(
        &mut self,
        memory: &mut impl Memory,
        order: Vec<u32>,
        done: usize,
        mut to: u64,
    ) -> Phase {
        let end = (done + SLICE).min(order.len());
        for &object in &order[done..end] {
            let (from, bytes) = (self.place(object), self.bytes(object));
            if from != to {
                memory.load_all(self.area, from, bytes);
                memory.store_all(self.area, to, bytes);
                self.places[object as usize] = (to / UNIT) as u32;
            }
            if object < self.rows {
                self.point(memory, object);
            }
            to += bytes;
        }
        if end < order.len() {
            return Phase::Full { order, done: end, to };
        }
        self.ends.old = to;
        Phase::Run
    }
}

struct JavaHeap {
    cpu: Cpu,
    marks: Marks,
    loader: Loader,
    before: u64,
    heap: Heap,
    lookups: u64,
    garbage: u64,
    law: ZipfLaw,
    ranks: ZipfRng,
    row_of: Permutation,
    write: Coin,
    rng: Rng,
}

pub(super) fn build(settings: &Settings) -> Result<Made, TraceError> {
    let mut rng = settings.rng()?;
    let footprint = u64::from(settings.pages(1024)?) * PAGE_BYTES;
    if footprint > 32 << 30 {
        return Err(settings.refuse("size", "is above 32 GiB", "give at most 32GiB"));
    }
    let live = settings.share("live")?;
    if !(0.1..=0.8).contains(&live) {
        return Err(settings.refuse("live", "is out of range", "give 10% to 80%"));
    }
    let lookups = settings.count("lookups", 1, 1000)?;
    let garbage = settings.bytes("garbage")?;
    if garbage > 1 << 20 {
        return Err(settings.refuse("garbage", "is too much", "give at most 1MiB"));
    }
    let heap_bytes = footprint / (CARD_BYTES + 1) * CARD_BYTES / PAGE_BYTES * PAGE_BYTES;
    let spaces = Spaces::new(heap_bytes);
    if lookups * ROW_BYTES + garbage > spaces.eden_end {
        return Err(settings.refuse("garbage", "does not fit eden", "give less, or a larger size"));
    }
    let old_bytes = (spaces.end - spaces.old) as f64;
    let per_row =
        ROW_BYTES as f64 + (NODE_BYTES * (FANOUT + 1) / FANOUT) as f64 / KEYS_PER_LEAF as f64;
    let rows = (old_bytes * live / per_row) as u32;
    let s = settings.skew()?;
    let write = Coin::new(settings.share("writes")?);
    let init = settings.switch("init")?;
    let marks = Marks::new(settings)?;
    let (cpu, mut stage) = Cpu::open(settings, footprint)?;
    let area = stage.map(heap_bytes, MapKind::Anonymous);
    let cards = stage.map(heap_bytes / CARD_BYTES, MapKind::Anonymous);
    let loader = Loader::new(init, &[area, cards]);
    let before = loader.records();
    stage.expect(before);
    let heap = Heap::new(area, cards, spaces, live, rows);
    let law = ZipfLaw::new(rows, s);
    let ranks = ZipfRng::new(&mut rng);
    let row_of = Permutation::new(rows, &mut rng);
    let workload = JavaHeap {
        cpu,
        marks,
        loader,
        before,
        heap,
        lookups,
        garbage,
        law,
        ranks,
        row_of,
        write,
        rng,
    };
    Ok(Made { stage, workload: Box::new(workload) })
}

impl JavaHeap {
    /// One operation; false where eden is too full for it.
    fn operate(&mut self, stage: &mut Stage) -> bool {
        let Self { cpu, marks, heap, law, ranks, row_of, write, rng, .. } = self;
        if !heap.room_in_eden(self.garbage + 16 + self.lookups * ROW_BYTES) {
            return false;
        }
        let updates = (0..self.lookups).filter(|_| write.throw(rng)).count() as u64;
        marks.operation(stage, if updates > 0 { OP_UPDATE } else { OP_READ }, |stage| {
            let mut memory = Cached { cpu, stage };
            for nth in 0..self.lookups {
                let row = row_of.apply(law.draw(ranks));
                heap.read(&mut memory, row);
                if nth < updates {
                    heap.replace(&mut memory, row);
                }
            }
            if self.garbage > 0 {
                heap.allocate(&mut memory, self.garbage);
            }
        });
        true
    }
}

impl Workload for JavaHeap {
    fn step(&mut self, stage: &mut Stage) -> bool {
        if self.heap.places.is_empty() {
            self.heap.fill(&mut self.rng);
        }
        if self.loader.step(stage) {
            return true;
        }
        if self.cpu.done(stage, self.before) {
            return false;
        }
        if self.heap.collect(&mut Cached { cpu: &mut self.cpu, stage }) {
            return true;
        }
        if !self.operate(stage) {
            self.heap.start(&mut Cached { cpu: &mut self.cpu, stage });
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Untraced;
    use crate::tests::{check, operations};
    use frostline_trace::header::TraceHeader;
    use std::collections::HashMap;

    fn heap(live: f64) -> Heap {
        let mut stage = Stage::new(TraceHeader::named("t"), 1);
        let area = stage.map(1 << 20, MapKind::Anonymous);
        let cards = stage.map(1 << 11, MapKind::Anonymous);
        let spaces = Spaces::new(1 << 20);
        let rows = ((spaces.end - spaces.old) as f64 * live / 281.0) as u32;
        let mut heap = Heap::new(area, cards, spaces, live, rows);
        heap.fill(&mut Rng::new(1));
        heap
    }

    fn audit(heap: &Heap) {
        let objects = 0..heap.places.len() as u32;
        let mut places: Vec<_> = objects.map(|o| (heap.place(o), heap.bytes(o))).collect();
        places.sort_unstable();
        for pair in places.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0, "objects do not overlap: {pair:?}");
        }
        let (last, bytes) = places[places.len() - 1];
        assert!(last + bytes <= heap.spaces.end);
    }

    #[test]
    fn objects_never_overlap_wherever_they_are_copied() {
        for live in [0.1, 0.5, 0.8] {
            let mut heap = heap(live);
            audit(&heap);
            let mut rng = Rng::new(7);
            for step in 0..60_000 {
                if heap.room_in_eden(ROW_BYTES + 1024) {
                    heap.replace(&mut Untraced, rng.below(u64::from(heap.rows)) as u32);
                    heap.allocate(&mut Untraced, rng.below(1024));
                } else {
                    heap.start(&mut Untraced);
                    while heap.collect(&mut Untraced) {}
                }
                if step % 1000 == 0 {
                    audit(&heap);
                }
            }
            let [young, full] = heap.collections;
            assert!(young > 50 && full > 1, "{young} and {full} collections with {live} live");
        }
    }

    #[test]
    fn rows_are_promoted_after_three_collections() {
        let mut heap = heap(0.5);
        heap.replace(&mut Untraced, 5);
        let mut spaces = Vec::new();
        for _ in 0..3 {
            assert!(heap.place(5) < heap.spaces.old);
            spaces.push(heap.place(5) / heap.spaces.survivor_bytes);
            heap.start(&mut Untraced);
            while heap.collect(&mut Untraced) {}
        }
        assert!(heap.place(5) >= heap.spaces.old);
        assert_eq!(spaces, [0, 9, 8], "eden, then one survivor space and the other");
    }

    #[test]
    fn hot_pages_lie_all_over_the_old_generation() {
        let spec = "java-heap:size=64MiB:accesses=600K:init=off:garbage=0:writes=0";
        let summary = check(spec);
        let mut pages: Vec<(u64, u32)> = summary.pages.iter().map(|(&p, &n)| (n, p)).collect();
        pages.sort_unstable_by_key(|&(n, _)| std::cmp::Reverse(n));
        let mut regions: HashMap<u32, u32> = HashMap::new();
        let tenth = pages.len() / 10;
        for &(_, page) in &pages[..tenth] {
            *regions.entry(page / 512).or_insert(0) += 1;
        }
        // Four fifths of twenty thirtieths of the heap.
        assert!(regions.len() >= 16, "{} regions", regions.len());
        let most = *regions.values().max().expect("some");
        assert!(most < 3 * tenth as u32 / 16, "{most} of {tenth} hot pages in one region");
    }

    #[test]
    fn updates_have_their_share_and_eden_is_swept() {
        let ops = operations("java-heap:size=16MiB:accesses=300K:mark=1");
        let share = ops[&OP_UPDATE] as f64 / (ops[&OP_UPDATE] + ops[&OP_READ]) as f64;
        let expected = 1.0 - 0.9f64.powi(8);
        assert!((share - expected).abs() < 0.03, "{share} and {expected}");
        let summary = check("java-heap:size=16MiB:accesses=600K:init=off");
        let eden = Spaces::new((16 << 20) / 513 * 512 / 4096 * 4096).eden_end / PAGE_BYTES;
        // The last page may be too small for an operation.
        assert!((0..eden as u32 - 1).all(|page| summary.pages.contains_key(&page)));
    }
}
