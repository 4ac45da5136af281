//! `gauss-kv`: Redis under memtier_benchmark with a Gaussian pattern of keys.
//!
//! Model: a hash table of pointers to entries (24 B in 32), keys (32 B), objects (16 B) and values
//! (1 KiB in 1280 B), each from jemalloc slabs of its size, filled in the order of insertion. A
//! GET walks the chain, notes the time in the object and copies the value; a SET writes object and
//! value where those of the SET before were freed. Hot keys are neighbours as numbers.
//! Source: GPAC, section 5.1: Redis, 1 KB of data, Gaussian requests; memtier's defaults for the
//! rest: mean in the middle, standard deviation a sixth of the keys, 10 GETs for each SET.
//! Not: Redis. No event loop, buffers, expiry or rehashing. GPAC does not say in which order keys
//! were inserted: `load` is the guess.

use super::coin::Coin;
use super::cpu::{Cpu, Marks};
use super::memory::{Cached, Memory, mix};
use super::normal_law::NormalLaw;
use super::page_stream::Loader;
use super::params::{self, Param, Settings};
use super::permutation::Permutation;
use super::stage::{Area, Stage};
use super::{Made, Workload};
use crate::error::TraceError;
use crate::event::MapKind;
use frostline_core::rng::Rng;
use frostline_core::types::PAGE_BYTES;

pub(super) const PARAMS: &[Param] = &[
    params::size("512MiB"),
    params::PAGES,
    params::accesses("24M"),
    Param::new("value", "1KiB", "bytes of a value, 64 to 64KiB"),
    Param::new("spread", "16.67%", "standard deviation of the keys asked for, as a share of all"),
    Param::new("ratio", "10", "GETs for each SET, 0 to 1M"),
    Param::new("load", "shuffled", "order in which keys were inserted: shuffled or ordered"),
    params::gap("30"),
    params::LLC,
    params::MARK,
    params::INIT,
    params::EPOCH,
    params::SEED,
];

const OP_GET: u64 = 0;
const OP_SET: u64 = 1;
/// Insertions whose slabs lie together: as many objects as fill a page.
const GROUP: u64 = 256;
const OBJECT_BYTES: u64 = 16;
/// An entry and its key, both of the 32 B class.
const ENTRY_BYTES: u64 = 64;
/// Header of a string, and the zero behind it.
const STRING_BYTES: u64 = 6;
const NONE: u32 = u32::MAX;

/// The size class of jemalloc: four to each doubling.
fn size_class(bytes: u64) -> u64 {
    if bytes <= 128 {
        return bytes.next_multiple_of(16);
    }
    bytes.next_multiple_of(1 << ((bytes - 1).ilog2() - 2))
}

/// Where what was allocated n-th lies in the heap.
#[derive(Clone, Copy, Debug)]
struct Layout {
    value_bytes: u64,
    chunk_bytes: u64,
    group_bytes: u64,
}

impl Layout {
    fn new(value_bytes: u64) -> Self {
        let chunk_bytes = size_class(value_bytes + STRING_BYTES);
        let small = GROUP * (OBJECT_BYTES + ENTRY_BYTES);
        let group_bytes = small + (GROUP * chunk_bytes).next_multiple_of(PAGE_BYTES);
        Self { value_bytes: value_bytes + STRING_BYTES, chunk_bytes, group_bytes }
    }

    #[inline]
    fn object(self, nth: u32) -> u64 {
        let nth = u64::from(nth);
        nth / GROUP * self.group_bytes + nth % GROUP * OBJECT_BYTES
    }

    #[inline]
    fn entry(self, nth: u32) -> u64 {
        let nth = u64::from(nth);
        nth / GROUP * self.group_bytes + GROUP * OBJECT_BYTES + nth % GROUP * ENTRY_BYTES
    }

    #[inline]
    fn value(self, nth: u32) -> u64 {
        let nth = u64::from(nth);
        let small = GROUP * (OBJECT_BYTES + ENTRY_BYTES);
        nth / GROUP * self.group_bytes + small + nth % GROUP * self.chunk_bytes
    }
}

/// The dictionary and its values.
#[derive(Debug)]
struct Store {
    table: Area,
    heap: Area,
    layout: Layout,
    bits: u32,
    /// Heads of chains and links, as numbers of entries; empty until filled.
    heads: Vec<u32>,
    chain: Vec<u32>,
    /// Where an entry's object and value lie: numbers of allocations.
    slots: Vec<u32>,
    /// What the SET before freed.
    free: u32,
}

impl Store {
    fn fill(&mut self, keys: u32) {
        self.heads = vec![NONE; 1 << self.bits];
        self.chain = vec![NONE; keys as usize];
        self.slots = (0..keys).collect();
        self.free = keys;
        for entry in 0..keys {
            let bucket = self.bucket(entry);
            self.chain[entry as usize] = self.heads[bucket];
            self.heads[bucket] = entry;
        }
    }

    #[inline]
    fn bucket(&self, entry: u32) -> usize {
        (mix(u64::from(entry)) >> (64 - self.bits)) as usize
    }

    /// Goes to the entry as one that only knows its key.
    fn find(&self, memory: &mut impl Memory, entry: u32) {
        let bucket = self.bucket(entry);
        memory.load(self.table, 8 * bucket as u64);
        let mut at = self.heads[bucket];
        loop {
            memory.load(self.heap, self.layout.entry(at));
            memory.load(self.heap, self.layout.entry(at) + ENTRY_BYTES / 2);
            if at == entry {
                return;
            }
            at = self.chain[at as usize];
        }
    }

    fn get(&self, memory: &mut impl Memory, entry: u32) {
        self.find(memory, entry);
        let slot = self.slots[entry as usize];
        memory.load(self.heap, self.layout.object(slot));
        memory.store(self.heap, self.layout.object(slot));
        memory.load_all(self.heap, self.layout.value(slot), self.layout.value_bytes);
    }

    fn set(&mut self, memory: &mut impl Memory, entry: u32) {
        let new = self.free;
        memory.store_all(self.heap, self.layout.value(new), self.layout.value_bytes);
        memory.store(self.heap, self.layout.object(new));
        self.find(memory, entry);
        memory.store(self.heap, self.layout.entry(entry));
        self.free = std::mem::replace(&mut self.slots[entry as usize], new);
        memory.load(self.heap, self.layout.object(self.free));
    }
}

#[derive(Debug)]
struct GaussKv {
    cpu: Cpu,
    marks: Marks,
    loader: Loader,
    before: u64,
    store: Store,
    keys: u32,
    gauss: NormalLaw,
    order: Option<Permutation>,
    set: Coin,
    rng: Rng,
}

pub(super) fn build(settings: &Settings) -> Result<Made, TraceError> {
    let mut rng = settings.rng()?;
    let footprint = u64::from(settings.pages(1024)?) * PAGE_BYTES;
    let value = settings.bytes("value")?;
    if !(64..=64 << 10).contains(&value) {
        return Err(settings.refuse("value", "has a size out of range", "give 64 to 64KiB"));
    }
    let layout = Layout::new(value);
    let pair = layout.group_bytes / GROUP;
    let bits = (footprint / (pair + 12)).next_power_of_two().trailing_zeros();
    let groups = footprint.saturating_sub(8 << bits) / layout.group_bytes;
    if groups == 0 {
        return Err(settings.refuse("value", "is too large", "give less, or a larger size"));
    }
    let keys = (groups * GROUP - 1).min(1 << 30) as u32;
    let deviation = settings.share("spread")?;
    if deviation < 1e-6 {
        return Err(settings.refuse("spread", "is too small", "give at least 0.0001%"));
    }
    let ratio = settings.count("ratio", 0, 1_000_000)?;
    let set = Coin::new(1.0 / (ratio + 1) as f64);
    let ordered = settings.choice("load", &["shuffled", "ordered"])? == 1;
    let init = settings.switch("init")?;
    let marks = Marks::new(settings)?;
    let (cpu, mut stage) = Cpu::open(settings, footprint)?;
    let table = stage.map(8 << bits, MapKind::Anonymous);
    let heap = stage.map(groups * layout.group_bytes, MapKind::Anonymous);
    let loader = Loader::new(init, &[heap, table]);
    let before = loader.records();
    stage.expect(before);
    let gauss = NormalLaw::new(keys, deviation, rng.fork());
    let order = (!ordered).then(|| Permutation::new(keys, &mut rng));
    let (heads, chain, slots) = (Vec::new(), Vec::new(), Vec::new());
    let store = Store { table, heap, layout, bits, heads, chain, slots, free: 0 };
    let workload = GaussKv { cpu, marks, loader, before, store, keys, gauss, order, set, rng };
    Ok(Made { stage, workload: Box::new(workload) })
}

impl Workload for GaussKv {
    fn step(&mut self, stage: &mut Stage) -> bool {
        if self.store.heads.is_empty() {
            self.store.fill(self.keys);
        }
        if self.loader.step(stage) {
            return true;
        }
        let Self { cpu, marks, store, gauss, order, set, rng, .. } = self;
        for _ in 0..64 {
            if cpu.done(stage, self.before) {
                return false;
            }
            let key = gauss.draw();
            let entry = order.as_ref().map_or(key, |order| order.apply(key));
            let sets = set.throw(rng);
            marks.operation(stage, if sets { OP_SET } else { OP_GET }, |stage| {
                let mut memory = Cached { cpu, stage };
                if sets {
                    store.set(&mut memory, entry);
                } else {
                    store.get(&mut memory, entry);
                }
            });
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::TraceHeader;
    use crate::synth::memory::Unseen;
    use crate::synth::tests::{check, operations};

    #[test]
    fn size_classes_are_those_of_jemalloc() {
        for (bytes, class) in
            [(16, 16), (17, 32), (128, 128), (129, 160), (1030, 1280), (2048, 2048)]
        {
            assert_eq!(size_class(bytes), class, "{bytes}");
        }
    }

    #[test]
    fn nothing_overlaps_and_each_value_has_its_place() {
        let layout = Layout::new(1024);
        let mut bytes = vec![false; 3 * layout.group_bytes as usize];
        for nth in 0..3 * GROUP as u32 {
            for (at, len) in [
                (layout.object(nth), OBJECT_BYTES),
                (layout.entry(nth), ENTRY_BYTES),
                (layout.value(nth), layout.value_bytes),
            ] {
                for byte in &mut bytes[at as usize..(at + len) as usize] {
                    assert!(!std::mem::replace(byte, true));
                }
            }
        }
        let mut stage = Stage::new(TraceHeader::named("t"), 1);
        let [table, heap] = [8 << 8, layout.group_bytes].map(|b| stage.map(b, MapKind::Anonymous));
        let (heads, chain, slots) = (Vec::new(), Vec::new(), Vec::new());
        let mut store = Store { table, heap, layout, bits: 8, heads, chain, slots, free: 0 };
        store.fill(255);
        let mut rng = Rng::new(8);
        for _ in 0..10_000 {
            store.set(&mut Unseen, rng.below(255) as u32);
        }
        let mut places: Vec<u32> = store.slots.iter().copied().chain([store.free]).collect();
        places.sort_unstable();
        assert!(places.into_iter().eq(0..256));
        assert!(!store.slots.iter().copied().eq(0..255), "values have moved");
    }

    #[test]
    fn one_of_eleven_operations_is_a_set() {
        let ops = operations("gauss-kv:size=16MiB:accesses=400K:mark=1");
        let (gets, sets) = (ops[&OP_GET] as f64, ops[&OP_SET] as f64);
        assert!((sets / (gets + sets) - 1.0 / 11.0).abs() < 0.01, "{gets} {sets}");
    }

    #[test]
    fn the_order_of_insertion_decides_where_hot_values_lie() {
        let share = |load: &str| {
            let spec = format!("gauss-kv:size=64MiB:accesses=400K:init=off:load={load}");
            let pages = check(&spec).pages;
            let middle = pages.iter().filter(|&(&page, _)| (4096..12288).contains(&page));
            let middle: u64 = middle.map(|(_, n)| n).sum();
            middle as f64 / pages.values().sum::<u64>() as f64
        };
        // Half of the keys, 1.5 deviations to either side: 87 % of the requests.
        let (ordered, shuffled) = (share("ordered"), share("shuffled"));
        assert!(ordered > 0.8, "{ordered}");
        assert!((0.4..0.6).contains(&shuffled), "{shuffled}");
    }
}
