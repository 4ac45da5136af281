//! `ycsb-c`: point look-ups in a database in memory, as Silo or SQLite keeps it.
//!
//! Model of Silo: records of 128 B (header and 100 B value) and a B+tree of 320 B nodes, 15 entries
//! wide, both filled in key order; each operation walks the tree and reads the record, or with
//! `writes` updates it. Popular keys lie anywhere in key order (YCSB's scrambled Zipf): few pages of
//! a huge page are hot. 151 B for a pair, 145 B in MEMTIS. SQLite's is in `sqlite.rs`.
//! Source: YCSB (Cooper et al., SoCC 2010), Table 2; on Silo in MEMTIS (Lee et al., SOSP 2023),
//! section 6.2.4: 64 B keys, 100 B values. A and B are `redis_hash.rs`.
//! Not: all of Silo. One thread; no key slices of Masstree, transaction buffers, stack or allocator.

use super::coin::Coin;
use super::cpu::{Cpu, Marks};
use super::made::{Made, Workload};
use super::memory::{Cached, Memory};
use super::page_stream::Loader;
use super::params::{self, Param, Settings};
use super::permutation::Permutation;
use super::sqlite::{Database, Shape};
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
    Param::text(
        "engine",
        "silo",
        "whose layout: silo (B+tree and records) or sqlite (table, index)",
    ),
    Param::text("writes", "0%", "share of the operations that update their record; silo only"),
    params::gap("30"),
    params::LLC,
    params::MARK,
    params::THINK,
    params::INIT,
    params::EPOCH,
    params::SEED,
];

const RECORD_BYTES: u64 = 128;
const NODE_BYTES: u64 = 320;
const KEYS_PER_LEAF: u64 = 14;
const FANOUT: u64 = 15;
const OP_READ: u64 = 0;
const OP_UPDATE: u64 = 1;

/// Finds records by key, and updates them.
trait Engine: Send {
    fn serve(&self, memory: &mut impl Memory, key: u64, updates: bool);
}

struct Silo {
    tree: Tree,
    nodes: Area,
    records: Area,
}

struct Ycsb<E> {
    cpu: Cpu,
    marks: Marks,
    loader: Loader,
    before: u64,
    engine: E,
    law: ZipfLaw,
    ranks: ZipfRng,
    key_of: Permutation,
    update: Coin,
    rng: Rng,
}

pub(super) fn build(settings: &Settings) -> Result<Made, TraceError> {
    let footprint = u64::from(settings.pages(64)?) * PAGE_BYTES;
    if settings.choice("engine", &["silo", "sqlite"])? == 1 {
        if settings.share("writes")? > 0.0 {
            return Err(settings.refuse(
                "writes",
                "are not modelled with engine=sqlite",
                "leave one of them out",
            ));
        }
        let rows = Shape::rows_within(footprint).min(1 << 31);
        let shape = Shape::new(rows);
        return open(settings, footprint, rows, shape.bytes(), |areas| Database::new(shape, areas));
    }
    let per_leaf = KEYS_PER_LEAF * RECORD_BYTES + NODE_BYTES * (FANOUT + 1) / FANOUT;
    let keys = (footprint * KEYS_PER_LEAF / per_leaf).min(1 << 31);
    let tree = Tree::new(keys, KEYS_PER_LEAF, FANOUT, None);
    let bytes = [keys * RECORD_BYTES, tree.slots() * NODE_BYTES];
    open(settings, footprint, keys, bytes, |[records, nodes]| Silo { tree, nodes, records })
}

/// Maps two areas, from which `engine` makes a database of so many `keys`.
fn open<E: Engine + 'static>(
    settings: &Settings,
    footprint: u64,
    keys: u64,
    bytes: [u64; 2],
    engine: impl FnOnce([Area; 2]) -> E,
) -> Result<Made, TraceError> {
    let mut rng = settings.rng()?;
    let s = settings.skew()?;
    let update = Coin::new(settings.share("writes")?);
    let init = settings.switch("init")?;
    let marks = Marks::new(settings)?;
    let (cpu, mut stage) = Cpu::open(settings, footprint)?;
    let areas = bytes.map(|bytes| stage.map(bytes, MapKind::Anonymous));
    let loader = Loader::new(init, &areas);
    let before = loader.records();
    stage.expect(before);
    let engine = engine(areas);
    let law = ZipfLaw::new(keys as u32, s);
    let ranks = ZipfRng::new(&mut rng);
    let key_of = Permutation::new(keys as u32, &mut rng);
    let workload = Ycsb { cpu, marks, loader, before, engine, law, ranks, key_of, update, rng };
    Ok(Made { stage, workload: Box::new(workload) })
}

impl<E: Engine> Workload for Ycsb<E> {
    fn step(&mut self, stage: &mut Stage) -> bool {
        if self.loader.step(stage) {
            return true;
        }
        let Self { cpu, marks, engine, update, rng, .. } = self;
        let mut ranks = [0; 64];
        self.law.fill(&mut self.ranks, &mut ranks);
        for rank in ranks {
            if cpu.done(stage, self.before) {
                return false;
            }
            let key = u64::from(self.key_of.apply(rank));
            let updates = update.throw(rng);
            marks.operation(stage, if updates { OP_UPDATE } else { OP_READ }, |stage| {
                engine.serve(&mut Cached { cpu, stage }, key, updates);
            });
        }
        true
    }
}

impl Engine for Silo {
    fn serve(&self, memory: &mut impl Memory, key: u64, updates: bool) {
        let Self { tree, nodes, records } = self;
        tree.descend(key, |slot, _, _| {
            memory.load_all(*nodes, slot * NODE_BYTES, NODE_BYTES);
        });
        memory.load_all(*records, key * RECORD_BYTES, RECORD_BYTES);
        if updates {
            memory.store(*records, key * RECORD_BYTES);
            memory.store(*records, key * RECORD_BYTES + 64);
        }
    }
}

impl Engine for Database {
    fn serve(&self, memory: &mut impl Memory, key: u64, _updates: bool) {
        self.select(memory, key);
    }
}

#[cfg(test)]
mod tests {
    use super::{OP_READ, OP_UPDATE};
    use crate::tests::{check, operations};
    use frostline_core::types::AccessKind;

    #[test]
    fn as_many_operations_update_as_were_asked_for() {
        let ops = operations("ycsb-c:size=16MiB:accesses=200K:mark=1:writes=20%");
        let (reads, updates) = (ops[&OP_READ] as f64, ops[&OP_UPDATE] as f64);
        assert!((updates / (reads + updates) - 0.2).abs() < 0.01, "{reads} {updates}");
        let ops = operations("ycsb-c:size=16MiB:accesses=200K:mark=1");
        assert!(ops.keys().eq([&OP_READ]), "{ops:?}");
    }

    #[test]
    fn look_ups_in_sqlite_write_as_pages_count_their_users() {
        const SPEC: &str = "ycsb-c:engine=sqlite:size=16MiB:accesses=200K:mark=1:llc=256KiB";
        let count = |spec| check(spec).by_kind[AccessKind::WriteBack as usize];
        assert!(operations(SPEC).keys().eq([&OP_READ]));
        assert!(count(SPEC) > 5000, "{}", count(SPEC));
        assert_eq!(count("ycsb-c:size=16MiB:accesses=200K:llc=256KiB:init=off"), 0);
    }
}
