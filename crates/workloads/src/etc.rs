//! `etc`: memcached under the requests of Facebook's ETC pool.
//!
//! Model: 56 B headers, keys and values in chunks of classes 1.25 apart, cut from 1 MiB slabs; a
//! chained hash table; 1024 locks, one of which every request takes; per class a list in order of use, to whose front an item moves when read,
//! at most once in `refresh`. A SET writes a new item, maybe of another class, and frees the old
//! one; a full class evicts its last. Every key is SET once, in an order unlike its popularity.
//! Source: Atikoglu et al., SIGMETRICS 2012: key sizes GEV(30.80, 8.20, 0.0787), value sizes
//! GPareto(0, 214.48, 0.348), 30 GETs for each SET. In HotBox (Bergman et al., ISMM 2022).
//! Not: memcached. One thread, no connections, expiry, deletions or segmented lists. The paper
//! does not say how skewed its popularity is (here YCSB's 0.99), nor how often sizes change.

use super::coin::Coin;
use super::cpu::{Cpu, Marks};
use super::item_cache::{ItemCache, MAX_HEAP, Shape};
use super::made::{Made, Workload};
use super::memory::{Cached, Memory, Untraced, mix};
use super::page_stream::Loader;
use super::params::{self, Param, Settings};
use super::permutation::Permutation;
use super::stage::{Area, Stage};
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
    Param::text("ratio", "30", "GETs for each SET, 0 to 1M"),
    Param::text("resize", "100%", "share of the SETs that draw a new size of the value"),
    Param::text(
        "refresh",
        "180M",
        "instructions between two moves of an item to the front of its list; memcached waits a \
         minute",
    ),
    params::gap("150"),
    params::LLC,
    params::MARK,
    params::THINK,
    params::INIT,
    params::EPOCH,
    params::SEED,
];

const OP_GET: u64 = 0;
const OP_SET: u64 = 1;
/// Largest key of memcached.
const MAX_KEY: f64 = 250.0;
/// A hash bucket for at most so many items, as memcached grows its table.
const ITEMS_PER_BUCKET: f64 = 1.5;
/// Locks of items for one worker; a mutex has 40 bytes.
const LOCKS: u64 = 1 << 10;
const LOCK_BYTES: u64 = 40;
const LOCKS_BYTES: u64 = LOCKS * LOCK_BYTES;

/// Sizes of keys and values.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    salt: u64,
}

impl Sizes {
    /// Bytes of the key, the value and what ends them, in the version after `version` changes.
    fn body(self, key: u32, version: u8) -> u64 {
        let random = |what: u64| unit(mix(self.salt ^ u64::from(key) ^ what << 32));
        let value = generalised_pareto(random(1 + u64::from(version)), 214.48, 0.348);
        let key = generalised_extreme(random(0), 30.80, 8.20, 0.0787).clamp(1.0, MAX_KEY);
        key as u64 + 1 + value.min(1e9) as u64 + 2
    }
}

/// Within 0 and 1, neither included.
fn unit(random: u64) -> f64 {
    ((random >> 12) as f64 + 0.5) / (1u64 << 52) as f64
}

/// The quantile `u` of the generalised Pareto law that begins at 0.
fn generalised_pareto(u: f64, scale: f64, shape: f64) -> f64 {
    scale / shape * ((1.0 - u).powf(-shape) - 1.0)
}

/// The quantile `u` of the generalised extreme value law.
fn generalised_extreme(u: f64, location: f64, scale: f64, shape: f64) -> f64 {
    location + scale / shape * ((-u.ln()).powf(-shape) - 1.0)
}

#[derive(Debug)]
struct Etc {
    cpu: Cpu,
    marks: Marks,
    loader: Loader,
    before: u64,
    cache: ItemCache,
    locks: Area,
    sizes: Sizes,
    /// How often the size of a key's value changed, modulo 256; empty until the cache is filled.
    versions: Vec<u8>,
    keys: u32,
    law: ZipfLaw,
    ranks: ZipfRng,
    key_of: Permutation,
    set: Coin,
    resize: Coin,
    rng: Rng,
}

pub(super) fn build(settings: &Settings) -> Result<Made, TraceError> {
    let mut rng = settings.rng()?;
    let footprint = u64::from(settings.pages(1024)?) * PAGE_BYTES;
    if footprint > MAX_HEAP {
        return Err(settings.refuse("size", "is above 32 GiB", "give at most 32GiB"));
    }
    let slab_bytes = (footprint / 64).next_power_of_two().clamp(1 << 16, 1 << 20);
    let shape = Shape {
        slab_bytes,
        min_chunk: 96,
        factor: 1.25,
        max_chunk: slab_bytes / 2,
        header_bytes: 56,
        pointer_bytes: 8,
        refresh: settings.count("refresh", 0, 1 << 50)?,
    };
    let sizes = Sizes { salt: rng.next_u64() };
    let chunks = shape.chunk_sizes();
    let chunk_of = |key| {
        let bytes = (shape.header_bytes + sizes.body(key, 0)).min(shape.max_chunk);
        chunks[chunks.partition_point(|&chunk| chunk < bytes)]
    };
    let mean_chunk = (0..1 << 14).map(chunk_of).sum::<u64>() as f64 / f64::from(1 << 14);
    let buckets = footprint as f64 / mean_chunk / ITEMS_PER_BUCKET;
    let bits = (buckets as u64).next_power_of_two().trailing_zeros().max(1);
    let slabs = (footprint - (shape.pointer_bytes << bits) - LOCKS_BYTES) / slab_bytes;
    // On average, half a slab of each class is empty.
    let room = slabs.saturating_sub(chunks.len() as u64 / 2).max(1) * slab_bytes;
    let keys = (room as f64 / mean_chunk) as u32;
    let ratio = settings.count("ratio", 0, 1_000_000)?;
    let set = Coin::new(1.0 / (ratio + 1) as f64);
    let resize = Coin::new(settings.share("resize")?);
    let s = settings.skew()?;
    let init = settings.switch("init")?;
    let marks = Marks::new(settings)?;
    let (cpu, mut stage) = Cpu::open(settings, footprint)?;
    let table = stage.map(shape.pointer_bytes << bits, MapKind::Anonymous);
    let heap = stage.map(slabs * slab_bytes, MapKind::Anonymous);
    let locks = stage.map(LOCKS_BYTES, MapKind::Anonymous);
    let loader = Loader::new(init, &[heap, table, locks]);
    let before = loader.records();
    stage.expect(before);
    let cache = ItemCache::new(shape, table, bits, heap, slabs);
    let law = ZipfLaw::new(keys, s);
    let ranks = ZipfRng::new(&mut rng);
    let key_of = Permutation::new(keys, &mut rng);
    let workload = Etc {
        cpu,
        marks,
        loader,
        before,
        cache,
        locks,
        sizes,
        versions: Vec::new(),
        keys,
        law,
        ranks,
        key_of,
        set,
        resize,
        rng,
    };
    Ok(Made { stage, workload: Box::new(workload) })
}

impl Etc {
    fn fill(&mut self) {
        self.versions = vec![0; self.keys as usize];
        for key in 0..self.keys {
            self.cache.set(&mut Untraced, key, self.sizes.body(key, 0));
        }
    }
}

impl Workload for Etc {
    fn step(&mut self, stage: &mut Stage) -> bool {
        if self.versions.is_empty() {
            self.fill();
        }
        if self.loader.step(stage) {
            return true;
        }
        let Self { cpu, marks, cache, locks, sizes, versions, set, resize, rng, .. } = self;
        let locks = *locks;
        let mut ranks = [0; 64];
        self.law.fill(&mut self.ranks, &mut ranks);
        for rank in ranks {
            if cpu.done(stage, self.before) {
                return false;
            }
            let key = self.key_of.apply(rank);
            let sets = set.throw(rng);
            marks.operation(stage, if sets { OP_SET } else { OP_GET }, |stage| {
                let mut memory = Cached { cpu, stage };
                let lock = mix(u64::from(key)) % LOCKS * LOCK_BYTES;
                memory.load(locks, lock);
                memory.store(locks, lock);
                if sets {
                    let version = &mut versions[key as usize];
                    *version = version.wrapping_add(u8::from(resize.throw(rng)));
                    cache.set(&mut memory, key, sizes.body(key, *version));
                } else {
                    cache.get(&mut memory, key);
                }
                memory.store(locks, lock);
            });
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::chi_square_ok;
    use crate::tests::{check, operations};
    use frostline_trace::header::TraceHeader;

    fn twenty(quantile: impl Fn(f64) -> f64, cdf: impl Fn(f64) -> f64) {
        let mut counts = [0u64; 20];
        let mut rng = Rng::new(9);
        for _ in 0..200_000 {
            let x = quantile(unit(rng.next_u64()));
            counts[(cdf(x) * 20.0) as usize] += 1;
        }
        chi_square_ok(&counts, &[1.0; 20]);
    }

    #[test]
    fn sizes_follow_the_laws_of_the_paper() {
        twenty(
            |u| generalised_pareto(u, 214.48, 0.348),
            |x| 1.0 - (1.0 + 0.348 * x / 214.48).powf(-1.0 / 0.348),
        );
        twenty(
            |u| generalised_extreme(u, 30.80, 8.20, 0.0787),
            |x| (-(1.0 + 0.0787 * (x - 30.80) / 8.20).powf(-1.0 / 0.0787)).exp(),
        );
        // Means: 214.48 / (1 - 0.348) = 329 B; 30.80 + 8.20 (gamma(0.9213) - 1) / 0.0787 = 36 B;
        // both rounded down, and 3 B.
        let sizes = Sizes { salt: 1 };
        let mean = (0..400_000).map(|key| sizes.body(key, 0)).sum::<u64>() as f64 / 4e5;
        assert!((mean - (329.0 + 36.2 + 3.0 - 1.0)).abs() < 5.0, "{mean}");
    }

    #[test]
    fn gets_and_sets_keep_their_ratio() {
        let ops = operations("etc:size=16MiB:accesses=400K:mark=1:llc=off");
        let (gets, sets) = (ops[&OP_GET] as f64, ops[&OP_SET] as f64);
        assert!(gets + sets > 20_000.0);
        assert!((sets / (gets + sets) - 1.0 / 31.0).abs() < 0.005, "{gets} {sets}");
    }

    #[test]
    fn the_cache_is_full_and_whole_after_many_sets() {
        let mut stage = Stage::new(TraceHeader::named("t"), 1);
        let table = stage.map(1 << 16, MapKind::Anonymous);
        let heap = stage.map(15 << 20, MapKind::Anonymous);
        let shape = Shape {
            slab_bytes: 1 << 17,
            min_chunk: 96,
            factor: 1.25,
            max_chunk: 1 << 16,
            header_bytes: 56,
            pointer_bytes: 8,
            refresh: 0,
        };
        let mut cache = ItemCache::new(shape, table, 13, heap, 120);
        let sizes = Sizes { salt: 2 };
        for round in 0..4 {
            for key in 0..40_000 {
                cache.set(&mut Untraced, key, sizes.body(key, round));
            }
        }
        let items = cache.audit();
        assert!(cache.is_full() && cache.evictions > 100, "{}", cache.evictions);
        assert!(items.len() > 20_000, "{}", items.len());
    }

    #[test]
    fn every_request_takes_one_of_the_locks() {
        let summary = check("etc:size=32MiB:accesses=200K:init=off:llc=256KiB");
        // They are mapped last, in a huge page of their own.
        let last = summary.pages.keys().map(|page| page / 512).max().unwrap();
        let locks: Vec<u64> =
            summary.pages.iter().filter(|(page, _)| *page / 512 == last).map(|(_, n)| *n).collect();
        assert_eq!(locks.len() as u64, LOCKS_BYTES / PAGE_BYTES);
        let (least, most) = (locks.iter().min().unwrap(), locks.iter().max().unwrap());
        assert!(*least > 1000 && most < &(least * 3 / 2), "all alike: {least} to {most}");
    }

    #[test]
    fn moving_items_to_the_front_costs_stores() {
        let stores = |refresh: &str| {
            let spec = format!("etc:size=16MiB:accesses=200K:init=off:ratio=1M:refresh={refresh}");
            check(&spec).by_kind[frostline_core::types::AccessKind::WriteBack as usize]
        };
        assert!(stores("0") > stores("1T") + 5000);
    }
}
