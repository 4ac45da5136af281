//! `gauss-kv`: Redis under memtier_benchmark with a Gaussian pattern of keys.
//!
//! Model: a hash table of pointers to entries (24 B in 32), names, objects (16 B) and values (1 KiB
//! in 1280 B), each from jemalloc's slabs of its size, filled in the order of insertion. A GET
//! walks the chain, notes the time in the object and copies the value; a SET writes object and
//! value where those of the SET before were freed. Hot keys are neighbours as numbers. A name with
//! six digits has 16 B, one with seven 32 B: they lie densest and are hottest.
//! Source: GPAC, section 5.1: Redis, 1 KB of data, Gaussian requests; memtier's defaults for the
//! rest: mean in the middle, standard deviation a sixth of the keys, 10 GETs for each SET.
//! Not: Redis, see `redis.rs`; one connection. GPAC does not say in which order keys
//! were inserted: `load` is the guess.

use super::coin::Coin;
use super::jemalloc::{Heap, Place};
use super::made::Made;
use super::memory::Memory;
use super::normal_law::NormalLaw;
use super::params::{self, Param, Settings};
use super::permutation::Permutation;
use super::redis::{
    Dict, ENTRY_BYTES, OBJECT_BYTES, PIPELINE, Service, buckets, key_bytes, keys_for, serve,
    value_bytes,
};
use frostline_core::rng::Rng;
use frostline_trace::error::TraceError;

pub(super) const PARAMS: &[Param] = &[
    params::size("512MiB"),
    params::PAGES,
    params::accesses("24M"),
    Param::text("value", "1KiB", "bytes of a value, 64 to 64KiB"),
    Param::text("spread", "16.67%", "standard deviation of the keys asked for, as a share of all"),
    Param::text("ratio", "10", "GETs for each SET, 0 to 1M"),
    Param::text("load", "shuffled", "order in which keys were inserted: shuffled or ordered"),
    params::gap("65"),
    params::LLC,
    params::MARK,
    params::THINK,
    params::INIT,
    params::EPOCH,
    params::SEED,
];

/// What memtier_benchmark puts in front of a key's number.
const PREFIX: &str = "memtier-";
/// Bytes of the answer to a SET.
const OK: u64 = 5;

/// Sizes of what belongs to a key.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    value: u64,
    name: u64,
}

impl Sizes {
    fn new(value: u64, keys: u32) -> Self {
        let digits = u64::from(keys.max(1).ilog10()) + 1;
        Self { value, name: PREFIX.len() as u64 + digits }
    }

    /// What lies in the heap, as bytes and counts.
    fn objects(self, keys: u32) -> Vec<(u64, u64)> {
        let all = u64::from(keys);
        vec![
            (PIPELINE as u64 * self.set(), 1),
            (PIPELINE as u64 * self.got(), 1),
            (8 * buckets(keys), 1),
            (key_bytes(self.name), all),
            (ENTRY_BYTES, all),
            // One more than keys: a SET allocates before it frees.
            (OBJECT_BYTES, all + 1),
            (value_bytes(self.value), all + 1),
        ]
    }

    /// Bytes of a GET: three times a length, a line end, and words with one.
    fn get(self) -> u64 {
        4 + 9 + 7 + self.name
    }

    fn set(self) -> u64 {
        self.get() + self.got()
    }

    /// Bytes of the answer to a GET.
    fn got(self) -> u64 {
        let digits = u64::from(self.value.ilog10()) + 1;
        1 + digits + 2 + self.value + 2
    }
}

#[derive(Debug)]
struct GaussKv {
    sizes: Sizes,
    dict: Dict,
    /// Where a key's object and value lie.
    values: Vec<(Place, Place)>,
    keys: u32,
    gauss: NormalLaw,
    order: Option<Permutation>,
    set: Coin,
    rng: Rng,
}

pub(super) fn build(settings: &Settings) -> Result<Made, TraceError> {
    let mut rng = settings.rng()?;
    let value = settings.bytes("value")?;
    if !(64..=64 << 10).contains(&value) {
        return Err(settings.refuse("value", "has a size out of range", "give 64 to 64KiB"));
    }
    let objects = |keys| Sizes::new(value, keys).objects(keys);
    let Some(keys) = keys_for(settings, 256, objects)? else {
        return Err(settings.refuse("value", "is too large", "give less, or a larger size"));
    };
    let deviation = settings.share("spread")?;
    if deviation < 1e-6 {
        return Err(settings.refuse("spread", "is too small", "give at least 0.0001%"));
    }
    let ratio = settings.count("ratio", 0, 1_000_000)?;
    let set = Coin::new(1.0 / (ratio + 1) as f64);
    let ordered = settings.choice("load", &["shuffled", "ordered"])? == 1;
    let gauss = NormalLaw::new(keys, deviation, rng.fork());
    let order = (!ordered).then(|| Permutation::new(keys, &mut rng));
    let sizes = Sizes::new(value, keys);
    let dict = Dict::new(keys, key_bytes(sizes.name));
    let kv = GaussKv { sizes, dict, values: Vec::new(), keys, gauss, order, set, rng };
    serve(settings, kv, &objects(keys))
}

impl Service for GaussKv {
    fn largest(&self) -> [u64; 2] {
        [self.sizes.set(), self.sizes.got()]
    }

    fn fill(&mut self, heap: &mut Heap) {
        for _ in 0..self.keys {
            let object = heap.allocate(OBJECT_BYTES);
            self.values.push((object, heap.allocate(value_bytes(self.sizes.value))));
            self.dict.insert(heap);
        }
    }

    fn draw(&mut self) -> (u32, bool) {
        let key = self.gauss.draw();
        let nth = self.order.as_ref().map_or(key, |order| order.apply(key));
        (nth, self.set.throw(&mut self.rng))
    }

    fn request(&self, writes: bool) -> u64 {
        if writes { self.sizes.set() } else { self.sizes.get() }
    }

    fn serve(&mut self, memory: &mut impl Memory, heap: &mut Heap, key: u32, writes: bool) -> u64 {
        if writes { self.set(memory, heap, key) } else { self.get(memory, heap, key) }
    }
}

impl GaussKv {
    fn get(&self, memory: &mut impl Memory, heap: &Heap, key: u32) -> u64 {
        self.dict.find(memory, heap, key);
        let (object, value) = self.values[key as usize];
        memory.load(heap.area, object.at());
        memory.store(heap.area, object.at());
        memory.load_all(heap.area, value.at(), value_bytes(self.sizes.value));
        self.sizes.got()
    }

    fn set(&mut self, memory: &mut impl Memory, heap: &mut Heap, key: u32) -> u64 {
        let bytes = value_bytes(self.sizes.value);
        let new = (heap.allocate(OBJECT_BYTES), heap.allocate(bytes));
        memory.store_all(heap.area, new.1.at(), bytes);
        memory.store(heap.area, new.0.at());
        let entry = self.dict.find(memory, heap, key);
        let (object, value) = std::mem::replace(&mut self.values[key as usize], new);
        memory.load(heap.area, object.at());
        memory.store(heap.area, object.at());
        memory.store(heap.area, entry.at());
        memory.load(heap.area, value.at());
        heap.free(memory, value, bytes);
        heap.free(memory, object, OBJECT_BYTES);
        OK
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Untraced;
    use crate::redis::{OP_READ, OP_WRITE};
    use crate::stage::Stage;
    use crate::tests::{check, operations};
    use frostline_trace::event::MapKind;
    use frostline_trace::header::TraceHeader;

    #[test]
    fn each_value_has_its_place_after_many_sets() {
        let mut stage = Stage::new(TraceHeader::named("t"), 1);
        let [area, pages] = [1 << 20, 1 << 11].map(|b| stage.map(b, MapKind::Anonymous));
        let mut heap = Heap::new(area, pages);
        let (sizes, mut rng) = (Sizes::new(1024, 255), Rng::new(8));
        let mut kv = GaussKv {
            sizes,
            dict: Dict::new(255, key_bytes(sizes.name)),
            values: Vec::new(),
            keys: 255,
            gauss: NormalLaw::new(255, 0.1, rng.fork()),
            order: None,
            set: Coin::new(0.5),
            rng: rng.fork(),
        };
        kv.fill(&mut heap);
        let before = kv.values.clone();
        for _ in 0..10_000 {
            kv.set(&mut Untraced, &mut heap, rng.below(255) as u32);
        }
        assert_ne!(kv.values, before, "values have moved");
        let mut places: Vec<Place> = kv.values.iter().map(|(_, value)| *value).collect();
        places.push(heap.allocate(1030));
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 256);
    }

    #[test]
    fn one_of_eleven_operations_is_a_set() {
        let ops = operations("gauss-kv:size=16MiB:accesses=400K:mark=1");
        let (gets, sets) = (ops[&OP_READ] as f64, ops[&OP_WRITE] as f64);
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
