//! `cachelib-cdn`, `cachelib-graph`: a CacheLib cache in memory under its own benchmark.
//!
//! Model: items of 32 B header, key and value in size classes 1.5 apart from 64 B up, cut from
//! slabs of 4 MiB; a chained hash table of 4 B pointers; per class a list in order of use, to
//! whose front an item moves when read, at most once in `refresh`. A miss is followed by a SET, a
//! full class evicts its last. The cache was filled just so from empty, without being seen.
//! Source: CacheLib (Berg et al., OSDI 2020), whose tables of popularity and sizes are in
//! cachelib_tables.rs; HybridTier (Song et al., ASPLOS 2025), Table 2, and its configuration files.
//! Not: CacheLib. One thread, no pool rebalancing, no second tier. HybridTier's files name no
//! popularity table, for which the benchmark falls back to a normal law: `pop=normal`.

use super::cachelib_tables::{CDN, GRAPH, Sizes, TableLaw, Tables};
use super::coin::Coin;
use super::cpu::{Cpu, Marks};
use super::item_cache::{ItemCache, MAX_HEAP, Shape};
use super::made::{Made, Workload};
use super::memory::{Cached, Memory, Untraced};
use super::normal_law::NormalLaw;
use super::page_stream::Loader;
use super::params::{self, Param, Settings};
use super::stage::Stage;
use frostline_core::rng::Rng;
use frostline_core::types::PAGE_BYTES;
use frostline_trace::error::TraceError;
use frostline_trace::event::MapKind;

pub(super) const PARAMS: &[Param] = &[
    params::size("512MiB"),
    params::PAGES,
    params::accesses("24M"),
    Param::text("keys", "", "keys asked for; not set: as many to a byte as HybridTier has"),
    Param::text(
        "pop",
        "table",
        "popularity of keys: table (published) or normal (around the middle, a quarter of the \
         keys as standard deviation)",
    ),
    Param::text(
        "refresh",
        "180M",
        "instructions between two moves of an item to the front of its list; CacheLib waits a \
         minute",
    ),
    Param::text(
        "change",
        "",
        "share of the accesses after which two thirds of the popular keys are others; not set: \
         never",
    ),
    params::gap("30"),
    params::LLC,
    params::MARK,
    params::THINK,
    params::INIT,
    params::EPOCH,
    params::SEED,
];

const OP_GET: u64 = 0;
const OP_LONE_GET: u64 = 1;

#[derive(Debug)]
enum Popularity {
    Table(TableLaw),
    Normal(NormalLaw),
}

/// The cache and who asks it.
#[derive(Debug)]
struct Service {
    cache: ItemCache,
    sizes: Sizes,
    popularity: Popularity,
    keys: u32,
    /// Requests so far for keys that do not come again.
    lone: u32,
    lone_coin: Coin,
    rng: Rng,
    /// Two thirds of the keys have changed places, the popular ones with the unpopular.
    changed: bool,
}

impl Service {
    /// The next key, and whether it is asked for only once.
    fn next(&mut self) -> (u32, bool) {
        if self.lone_coin.throw(&mut self.rng) {
            let key = self.keys + self.lone;
            self.lone = (self.lone + 1) % (u32::MAX - self.keys);
            return (key, true);
        }
        let key = match &mut self.popularity {
            Popularity::Table(law) => law.draw(&mut self.rng),
            Popularity::Normal(law) => law.draw(),
        };
        (if self.changed { self.exchanged(key) } else { key }, false)
    }

    /// Popularity falls with the number of a key: two thirds of the keys, picked by chance, change
    /// places with those that are as far from the other end.
    fn exchanged(&self, key: u32) -> u32 {
        let partner = self.keys - 1 - key;
        let pair = Rng::new(u64::from(key.min(partner))).below(3);
        if pair > 0 { partner } else { key }
    }

    /// A GET, and a SET where it missed.
    fn serve(&mut self, memory: &mut impl Memory, key: u32) {
        if !self.cache.get(memory, key) {
            self.cache.set(memory, key, self.sizes.body(key));
        }
    }

    /// Serves requests until all slabs are in use or everything asked for has come.
    fn warm_up(&mut self, most: u64) {
        for _ in 0..most {
            if self.cache.is_full() {
                return;
            }
            let (key, _) = self.next();
            self.serve(&mut Untraced, key);
        }
    }
}

#[derive(Debug)]
struct CacheLib {
    cpu: Cpu,
    marks: Marks,
    loader: Loader,
    before: u64,
    service: Service,
    /// Requests that fill the cache at most; 0 when they were made.
    warm_up: u64,
    /// Records after which popular keys change.
    change: Option<u64>,
}

pub(super) fn build_cdn(settings: &Settings) -> Result<Made, TraceError> {
    build(settings, &CDN)
}

pub(super) fn build_graph(settings: &Settings) -> Result<Made, TraceError> {
    build(settings, &GRAPH)
}

fn build(settings: &Settings, tables: &Tables) -> Result<Made, TraceError> {
    let mut rng = settings.rng()?;
    let footprint = u64::from(settings.pages(1024)?) * PAGE_BYTES;
    if footprint > MAX_HEAP {
        return Err(settings.refuse("size", "is above 32 GiB", "give at most 32GiB"));
    }
    let slab_bytes = (footprint / 64).next_power_of_two().clamp(1 << 16, 4 << 20);
    let shape = Shape {
        slab_bytes,
        min_chunk: 64,
        factor: 1.5,
        max_chunk: slab_bytes.min(1 << 20),
        header_bytes: 32,
        pointer_bytes: 4,
        refresh: settings.count("refresh", 0, 1 << 50)?,
    };
    let keys = match settings.is_given("keys") {
        true => settings.count("keys", 100, 1 << 31)? as u32,
        false => (footprint * tables.keys_per_gb / 1_000_000_000).max(100) as u32,
    };
    let (popularity, keys) = match settings.choice("pop", &["table", "normal"])? {
        0 => {
            let law = TableLaw::new(tables, keys);
            let keys = law.keys();
            (Popularity::Table(law), keys)
        }
        _ => (Popularity::Normal(NormalLaw::new(keys, 0.25, rng.fork())), keys),
    };
    let sizes = Sizes::new(tables, rng.next_u64());
    let mean_bytes = (0..1 << 14).map(|key| sizes.body(key) + 32).sum::<u64>() >> 14;
    // Two buckets for an item, about as in HybridTier's configuration.
    let bits = (footprint * 2 / mean_bytes).next_power_of_two().trailing_zeros().max(1);
    let slabs = (footprint - (shape.pointer_bytes << bits)) / slab_bytes;
    let lone_coin = Coin::new(tables.lone);
    let init = settings.switch("init")?;
    let marks = Marks::new(settings)?;
    let (cpu, mut stage) = Cpu::open(settings, footprint)?;
    let table = stage.map(shape.pointer_bytes << bits, MapKind::Anonymous);
    let heap = stage.map(slabs * slab_bytes, MapKind::Anonymous);
    let loader = Loader::new(init, &[heap, table]);
    let before = loader.records();
    stage.expect(before);
    let change = match settings.is_given("change") {
        true => Some(before + (settings.share("change")? * cpu.limit as f64) as u64),
        false => None,
    };
    let cache = ItemCache::new(shape, table, bits, heap, slabs);
    let service =
        Service { cache, sizes, popularity, keys, lone: 0, lone_coin, rng, changed: false };
    let warm_up = (20 * u64::from(keys)).max(footprint / 64);
    let workload = CacheLib { cpu, marks, loader, before, service, warm_up, change };
    Ok(Made { stage, workload: Box::new(workload) })
}

impl Workload for CacheLib {
    fn step(&mut self, stage: &mut Stage) -> bool {
        self.service.warm_up(std::mem::take(&mut self.warm_up));
        if self.loader.step(stage) {
            return true;
        }
        let Self { cpu, marks, service, .. } = self;
        service.changed = self.change.is_some_and(|at| stage.records() >= at);
        for _ in 0..16 {
            if cpu.done(stage, self.before) {
                return false;
            }
            let (key, lone) = service.next();
            marks.operation(stage, if lone { OP_LONE_GET } else { OP_GET }, |stage| {
                service.serve(&mut Cached { cpu, stage }, key);
            });
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{check, operations, pages_of};
    use frostline_trace::header::TraceHeader;

    #[test]
    fn requests_that_come_once_have_their_share() {
        for (name, lone) in [("cachelib-cdn", CDN.lone), ("cachelib-graph", GRAPH.lone)] {
            let ops = operations(&format!("{name}:size=32MiB:accesses=2M:mark=1"));
            let (once, all) = (ops[&OP_LONE_GET] as f64, ops.values().sum::<u64>() as f64);
            let slack = 5.0 * (lone / all).sqrt();
            assert!(all > 2000.0 && (once / all - lone).abs() < slack, "{name}: {once} of {all}");
        }
    }

    #[test]
    fn a_warm_cache_is_full_and_whole_and_keeps_popular_keys() {
        let mut stage = Stage::new(TraceHeader::named("t"), 1);
        let table = stage.map(4 << 16, MapKind::Anonymous);
        let heap = stage.map(16 << 20, MapKind::Anonymous);
        let shape = Shape {
            slab_bytes: 1 << 18,
            min_chunk: 64,
            factor: 1.5,
            max_chunk: 1 << 18,
            header_bytes: 32,
            pointer_bytes: 4,
            refresh: 0,
        };
        let law = TableLaw::new(&GRAPH, 2000);
        let keys = law.keys();
        let mut service = Service {
            cache: ItemCache::new(shape, table, 16, heap, 64),
            sizes: Sizes::new(&GRAPH, 1),
            popularity: Popularity::Table(law),
            keys,
            lone: 0,
            lone_coin: Coin::new(GRAPH.lone),
            rng: Rng::new(1),
            changed: false,
        };
        service.warm_up(1 << 22);
        assert!(service.cache.is_full());
        for _ in 0..200_000 {
            let (key, _) = service.next();
            service.serve(&mut Untraced, key);
        }
        let items = service.cache.audit();
        assert!(service.cache.evictions > 1000, "{}", service.cache.evictions);
        let popular = (0..100).filter(|key| items.contains_key(key)).count();
        assert!(popular > 80, "{popular} of the 100 most popular keys");
        assert!(items.keys().any(|&key| key >= keys), "and some that were asked for once");
    }

    #[test]
    fn two_thirds_of_what_is_hot_change_once() {
        let kept = |more: &str| {
            let spec = format!("cachelib-graph:size=32MiB:accesses=2M:init=off:refresh=0{more}");
            let all = pages_of(&spec);
            let hot = |pages: &[u32]| {
                let mut counts = std::collections::HashMap::new();
                pages.iter().for_each(|page| *counts.entry(*page).or_insert(0u32) += 1);
                let mut hot: Vec<u32> = counts.keys().copied().collect();
                hot.sort_by_key(|page| (std::cmp::Reverse(counts[page]), *page));
                hot.truncate(100);
                hot
            };
            let (first, second) = all.split_at(all.len() / 2);
            let after = hot(second);
            hot(first).iter().filter(|page| after.contains(page)).count()
        };
        assert!(kept("") > 70, "{}", kept(""));
        assert!((10..60).contains(&kept(":change=50%")), "{}", kept(":change=50%"));
    }

    #[test]
    fn popularity_is_chosen() {
        let pages = |pop: &str| {
            let spec = format!("cachelib-graph:size=32MiB:accesses=200K:init=off:pop={pop}");
            check(&spec).pages
        };
        let (table, normal) = (pages("table"), pages("normal"));
        // The normal law is far flatter.
        assert!(table.len() * 11 < normal.len() * 10, "{} and {}", table.len(), normal.len());
    }
}
