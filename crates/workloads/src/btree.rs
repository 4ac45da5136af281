//! `btree`: look-ups in a large B+tree whose heap is bloated by huge pages.
//!
//! Model: 1 KiB nodes, 69 % full (ln 2: random insertion), allocated in the order of splits, so
//! that neighbours in key order lie anywhere. Only `1 - bloat` of the pages are ever touched,
//! evenly spread: with huge pages the rest is zero and resident. Popularity falls on runs of
//! neighbouring keys by Zipf's law. Each operation searches a path and reads a 16 B value.
//! Source: MEMTIS (Lee et al., SOSP 2023), section 6.2.5: 8 B keys, 16 B values; 15.2 GB, but
//! 38.3 GB with huge pages (hence 60 %), 8.3 to 12.5 % of a huge page's pages in use.
//! Not: its allocator; the paper does not say why pages stay untouched, nor how look-ups skew.

use super::coin::Coin;
use super::cpu::{Cpu, Marks};
use super::made::{Made, Workload};
use super::page_stream::Loader;
use super::params::{self, Param, Settings};
use super::permutation::Permutation;
use super::stage::{Area, Stage};
use super::tree::{Tree, search};
use super::zipf_law::{ZipfLaw, ZipfRng};
use frostline_core::rng::Rng;
use frostline_core::types::PAGE_BYTES;
use frostline_trace::error::TraceError;
use frostline_trace::event::MapKind;

pub(super) const PARAMS: &[Param] = &[
    params::size("1GiB"),
    params::PAGES,
    params::accesses("24M"),
    Param::text("bloat", "60%", "share of the footprint that is never touched, up to 99%"),
    params::skew("0.99"),
    Param::text("run", "1024", "neighbouring keys that share their popularity, 1 to 1M"),
    Param::text("writes", "0%", "share of the operations that overwrite the value"),
    params::gap("15"),
    params::LLC,
    params::MARK,
    params::THINK,
    params::INIT,
    params::EPOCH,
    params::SEED,
];

const NODE_BYTES: u64 = 1024;
const NODES_PER_PAGE: u64 = PAGE_BYTES / NODE_BYTES;
/// A node's keys follow its header; then come values of leaves, children of the others.
const KEYS_AT: u64 = 40;
const LEAF_ROOM: u64 = 41;
const INNER_ROOM: u64 = 61;
const KEYS_PER_LEAF: u64 = 28;
const FANOUT: u64 = 42;
const OP_LOOKUP: u64 = 0;
const OP_UPDATE: u64 = 1;

#[derive(Debug)]
struct Btree {
    cpu: Cpu,
    marks: Marks,
    loader: Loader,
    before: u64,
    tree: Tree,
    heap: Heap,
    keys: u64,
    run: u64,
    law: ZipfLaw,
    ranks: ZipfRng,
    run_of: Permutation,
    update: Coin,
    rng: Rng,
}

/// Nodes on those pages of an area that are in use.
#[derive(Clone, Copy, Debug)]
struct Heap {
    area: Area,
    spacing: f64,
}

impl Heap {
    #[inline]
    fn node(&self, slot: u64) -> u64 {
        let page = ((slot / NODES_PER_PAGE) as f64 * self.spacing) as u64;
        page * PAGE_BYTES + slot % NODES_PER_PAGE * NODE_BYTES
    }
}

pub(super) fn build(settings: &Settings) -> Result<Made, TraceError> {
    let mut rng = settings.rng()?;
    let pages = settings.pages(64)?;
    let bloat = settings.share("bloat")?;
    if bloat > 0.99 {
        return Err(settings.refuse("bloat", "leaves no pages for nodes", "give at most 99%"));
    }
    let used = (f64::from(pages) * (1.0 - bloat)) as u64;
    // All levels together have F / (F - 1) as many nodes as the leaves.
    let leaves = (used * NODES_PER_PAGE * (FANOUT - 1) / FANOUT).saturating_sub(FANOUT + 1);
    let keys = leaves.max(1) * KEYS_PER_LEAF;
    let run = settings.count("run", 1, 1_000_000)?.min(keys);
    let s = settings.skew()?;
    let update = Coin::new(settings.share("writes")?);
    let init = settings.switch("init")?;
    let marks = Marks::new(settings)?;
    let tree = Tree::new(keys, KEYS_PER_LEAF, FANOUT, Some(&mut rng));
    let used = tree.slots().div_ceil(NODES_PER_PAGE);
    let (cpu, mut stage) = Cpu::open(settings, u64::from(pages) * PAGE_BYTES)?;
    let spacing = (f64::from(pages) / used as f64).max(1.0);
    let extent = (used as f64 * spacing).ceil() as u64;
    let area = stage.map(extent.max(u64::from(pages)) * PAGE_BYTES, MapKind::Anonymous);
    let loader = Loader::spaced(init, area, used as u32, spacing);
    let before = loader.records();
    stage.expect(before);
    let runs = (keys / run) as u32;
    let law = ZipfLaw::new(runs, s);
    let ranks = ZipfRng::new(&mut rng);
    let run_of = Permutation::new(runs, &mut rng);
    let heap = Heap { area, spacing };
    let workload = Btree {
        cpu,
        marks,
        loader,
        before,
        tree,
        heap,
        keys,
        run,
        law,
        ranks,
        run_of,
        update,
        rng,
    };
    Ok(Made { stage, workload: Box::new(workload) })
}

impl Workload for Btree {
    fn step(&mut self, stage: &mut Stage) -> bool {
        if self.loader.step(stage) {
            return true;
        }
        let Self { cpu, marks, tree, heap, update, rng, .. } = self;
        let mut ranks = [0; 64];
        self.law.fill(&mut self.ranks, &mut ranks);
        for rank in ranks {
            if cpu.done(stage, self.before) {
                return false;
            }
            let first = u64::from(self.run_of.apply(rank)) * self.run;
            let key = (first + rng.below(self.run)).min(self.keys - 1);
            let updates = update.throw(rng);
            marks.operation(stage, if updates { OP_UPDATE } else { OP_LOOKUP }, |stage| {
                tree.descend(key, |slot, position, leaf| {
                    let node = heap.node(slot);
                    let (filled, room, width) =
                        if leaf { (KEYS_PER_LEAF, LEAF_ROOM, 16) } else { (FANOUT, INNER_ROOM, 8) };
                    cpu.load(stage, heap.area, node);
                    search(filled, position, |probe| {
                        cpu.load(stage, heap.area, node + KEYS_AT + 8 * probe);
                    });
                    let entry = node + KEYS_AT + 8 * room + width * position;
                    if leaf && updates {
                        cpu.store(stage, heap.area, entry);
                    } else {
                        cpu.load(stage, heap.area, entry);
                    }
                });
            });
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::check;
    use std::collections::HashSet;

    #[test]
    fn bloat_leaves_its_share_of_every_region_untouched() {
        let summary = check("btree:size=64MiB:accesses=200K:bloat=60%");
        let used = summary.pages.len() as f64 / 16384.0;
        assert!((used - 0.4).abs() < 0.005, "{used} of the pages are initialised");
        let regions: HashSet<u32> = summary.pages.keys().map(|page| page / 512).collect();
        assert_eq!(regions.len(), 32);
        for region in regions {
            let used = summary.pages.keys().filter(|&page| page / 512 == region).count();
            assert!((200..=210).contains(&used), "{used} of 512 pages");
        }
    }

    #[test]
    fn hot_runs_lie_on_few_pages() {
        let summary = check("btree:size=256MiB:accesses=1M:init=off:llc=256KiB");
        let mut counts: Vec<u64> = summary.pages.values().copied().collect();
        counts.sort_unstable_by_key(|&n| std::cmp::Reverse(n));
        let tenth: u64 = counts[..counts.len() / 10].iter().sum();
        let share = tenth as f64 / summary.records as f64;
        assert!((0.35..0.95).contains(&share), "a tenth of the pages gets {share:.3}");
    }
}
