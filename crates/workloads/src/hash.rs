//! `hash`: the hash table of perfbook under its performance test.
//!
//! Model: 56 B buckets (list head and mutex), 56 B elements in an array for each updater, half as
//! many in the table as there are keys: at first the first half of each array. The hash is the key
//! itself. Each reader walks all keys, there or not, with a stride of its own, the n-th prime;
//! readers take turns. Updaters walk their arrays and take out what is in the table or put in
//! what is not, under the bucket's lock; one update in a millisecond is perfbook's default.
//! Source: hash_bkt_rcu.c and hashtorture.h of perfbook (McKenney), which GPAC names in Table 2.
//! Not: its threads, RCU callbacks or warm-up pass. GPAC gives 8.8 GB, but not how the test was
//! started; two keys to a bucket are perfbook's default, as many updaters as readers are a guess.

use super::coin::Coin;
use super::cpu::{Cpu, Marks};
use super::made::{Made, Workload};
use super::memory::{Cached, Memory};
use super::page_stream::Loader;
use super::params::{self, Param, Settings};
use super::stage::{Area, Stage};
use frostline_core::rng::Rng;
use frostline_core::types::PAGE_BYTES;
use frostline_trace::error::TraceError;
use frostline_trace::event::MapKind;

pub(super) const PARAMS: &[Param] = &[
    params::size("512MiB"),
    params::PAGES,
    params::accesses("24M"),
    Param::text("readers", "8", "readers with strides of their own, 1 to 1024"),
    Param::text("updaters", "8", "updaters with elements of their own, 1 to 1024"),
    Param::text("per-bucket", "2", "keys for each bucket, 1 to 64"),
    Param::text("writes", "0.02%", "share of the operations that take out or put in an element"),
    params::gap("15"),
    params::LLC,
    params::MARK,
    params::THINK,
    params::INIT,
    params::EPOCH,
    params::SEED,
];

const OP_LOOKUP: u64 = 0;
const OP_UPDATE: u64 = 1;
/// A list head of 16 B and a mutex of 40 B.
const BUCKET_BYTES: u64 = 56;
const ELEMENT_BYTES: u64 = 56;
/// Links of an element's list, behind 16 B for RCU.
const LINKS_AT: u64 = 16;
const NONE: u32 = u32::MAX;

/// Keys in the order in which a reader asks for them.
#[derive(Clone, Copy, Debug)]
struct Walk {
    at: u64,
    stride: u64,
}

impl Walk {
    fn next(&mut self, keys: u64) -> u32 {
        let key = self.at as u32;
        self.at += self.stride;
        if self.at >= keys {
            // Where the stride divides the number of keys, the next round is one further.
            self.at = self.at % keys + u64::from(keys.is_multiple_of(self.stride));
        }
        key
    }
}

fn primes() -> impl Iterator<Item = u64> {
    (2u64..).filter(|&n| (2..n).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d)))
}

/// Buckets and elements.
#[derive(Debug)]
struct Table {
    buckets: Area,
    elements: Area,
    /// First element of each bucket, and the next one of each element; empty until filled.
    heads: Vec<u32>,
    next: Vec<u32>,
}

impl Table {
    /// Puts in the first half of each `part` keys.
    fn fill(&mut self, buckets: u32, keys: u32, part: u32) {
        self.heads = vec![NONE; buckets as usize];
        self.next = vec![NONE; keys as usize];
        for key in (0..keys).filter(|key| key % part < part / 2) {
            let bucket = self.bucket(key);
            self.next[key as usize] = std::mem::replace(&mut self.heads[bucket], key);
        }
    }

    fn bucket(&self, key: u32) -> usize {
        key as usize % self.heads.len()
    }

    /// The element before the one of the key (none where it is the first), if that is there.
    fn find(&self, memory: &mut impl Memory, key: u32) -> Option<u32> {
        let bucket = self.bucket(key);
        memory.load(self.buckets, bucket as u64 * BUCKET_BYTES);
        let (mut before, mut at) = (NONE, self.heads[bucket]);
        while at != NONE {
            memory.load(self.elements, u64::from(at) * ELEMENT_BYTES + LINKS_AT);
            memory.load(self.elements, u64::from(at) * ELEMENT_BYTES + LINKS_AT + 16);
            if at == key {
                return Some(before);
            }
            (before, at) = (at, self.next[at as usize]);
        }
        None
    }

    /// Takes the element out, or puts it back where it is not there.
    fn update(&mut self, memory: &mut impl Memory, key: u32) {
        let bucket = self.bucket(key);
        let at = bucket as u64 * BUCKET_BYTES;
        memory.store(self.buckets, at + 16);
        let found = self.find(memory, key);
        let link = |element: u32| u64::from(element) * ELEMENT_BYTES + LINKS_AT;
        let neighbours = match found {
            Some(before) => {
                let after = std::mem::replace(&mut self.next[key as usize], NONE);
                match before {
                    NONE => self.heads[bucket] = after,
                    before => self.next[before as usize] = after,
                }
                [before, after]
            }
            None => {
                let after = std::mem::replace(&mut self.heads[bucket], key);
                self.next[key as usize] = after;
                [NONE, after]
            }
        };
        memory.store(self.elements, link(key));
        for neighbour in neighbours {
            if neighbour == NONE {
                memory.store(self.buckets, at);
            } else {
                memory.store(self.elements, link(neighbour));
            }
        }
        memory.store(self.buckets, at + 16);
    }
}

#[derive(Debug)]
struct Hash {
    cpu: Cpu,
    marks: Marks,
    loader: Loader,
    before: u64,
    table: Table,
    buckets: u32,
    keys: u32,
    walks: Vec<Walk>,
    /// Keys of one updater; how far each of them is; whose turn it is.
    part: u32,
    updaters: Vec<u32>,
    turn: usize,
    update: Coin,
    rng: Rng,
}

pub(super) fn build(settings: &Settings) -> Result<Made, TraceError> {
    let rng = settings.rng()?;
    let footprint = u64::from(settings.pages(256)?) * PAGE_BYTES;
    let per_bucket = settings.count("per-bucket", 1, 64)?;
    let readers = settings.count("readers", 1, 1024)? as usize;
    let update = Coin::new(settings.share("writes")?);
    let updaters = settings.count("updaters", 1, 1024)? as u32;
    let buckets = (footprint / (per_bucket * ELEMENT_BYTES + BUCKET_BYTES)).min(1 << 24) as u32;
    let part = (u64::from(buckets) * per_bucket) as u32 / updaters;
    let keys = part * updaters;
    let init = settings.switch("init")?;
    let marks = Marks::new(settings)?;
    let (cpu, mut stage) = Cpu::open(settings, footprint)?;
    let bucket_area = stage.map(u64::from(buckets) * BUCKET_BYTES, MapKind::Anonymous);
    let elements = stage.map(u64::from(keys) * ELEMENT_BYTES, MapKind::Anonymous);
    let loader = Loader::new(init, &[bucket_area, elements]);
    let before = loader.records();
    stage.expect(before);
    let table = Table { buckets: bucket_area, elements, heads: Vec::new(), next: Vec::new() };
    let walks = primes().take(readers).map(|stride| Walk { at: 0, stride }).collect();
    let workload = Hash {
        cpu,
        marks,
        loader,
        before,
        table,
        buckets,
        keys,
        walks,
        part,
        updaters: vec![0; updaters as usize],
        turn: 0,
        update,
        rng,
    };
    Ok(Made { stage, workload: Box::new(workload) })
}

impl Workload for Hash {
    fn step(&mut self, stage: &mut Stage) -> bool {
        if self.table.heads.is_empty() {
            self.table.fill(self.buckets, self.keys, self.part);
        }
        if self.loader.step(stage) {
            return true;
        }
        let Self { cpu, marks, table, walks, updaters, turn, update, rng, .. } = self;
        for walk in walks {
            if cpu.done(stage, self.before) {
                return false;
            }
            let updates = update.throw(rng);
            marks.operation(stage, if updates { OP_UPDATE } else { OP_LOOKUP }, |stage| {
                let mut memory = Cached { cpu, stage };
                if updates {
                    *turn = (*turn + 1) % updaters.len();
                    let at = &mut updaters[*turn];
                    let key = *turn as u32 * self.part + *at;
                    *at = (*at + 1) % self.part;
                    table.update(&mut memory, key);
                } else {
                    table.find(&mut memory, walk.next(u64::from(self.keys)));
                }
            });
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

    #[test]
    fn readers_come_to_every_key() {
        assert!(primes().take(6).eq([2, 3, 5, 7, 11, 13]));
        for (keys, stride) in [(10, 3), (12, 3), (97, 2), (1000, 7), (14, 7)] {
            let mut walk = Walk { at: 0, stride };
            let mut seen = vec![false; keys as usize];
            for _ in 0..2 * keys {
                seen[walk.next(keys) as usize] = true;
            }
            assert!(seen.into_iter().all(|seen| seen), "{keys} {stride}");
        }
    }

    #[test]
    fn chains_stay_whole_under_updates() {
        let mut stage = Stage::new(TraceHeader::named("t"), 1);
        let [buckets, elements] = [50 * 56, 150 * 56].map(|b| stage.map(b, MapKind::Anonymous));
        let mut table = Table { buckets, elements, heads: Vec::new(), next: Vec::new() };
        table.fill(50, 150, 30);
        let mut there: Vec<bool> = (0..150).map(|key| key % 30 < 15).collect();
        let mut rng = Rng::new(2);
        for _ in 0..5000 {
            let key = rng.below(150) as u32;
            table.update(&mut Untraced, key);
            there[key as usize] = !there[key as usize];
        }
        for (key, there) in (0..).zip(there.iter().copied()) {
            assert_eq!(table.find(&mut Untraced, key).is_some(), there, "{key}");
        }
        assert!(there.contains(&true) && there.contains(&false));
    }

    #[test]
    fn buckets_and_half_of_the_elements_are_read_evenly() {
        let spec = "hash:size=8MiB:accesses=300K:init=off:llc=256KiB:readers=1:updaters=1:writes=0";
        let summary = check(spec);
        // Of 168 B for a bucket and two keys, 56 B are never read.
        let read = summary.pages.len() as f64 / 2048.0;
        assert!((read - 2.0 / 3.0).abs() < 0.02, "{read} of the pages");
        let mean = summary.records as f64 / summary.pages.len() as f64;
        let even = summary.pages.values().filter(|&&n| (n as f64 / mean - 1.0).abs() < 0.5);
        let even = even.count();
        assert!(even * 10 > summary.pages.len() * 9, "{even} of {}", summary.pages.len());
    }

    #[test]
    fn updates_have_their_share() {
        let ops = operations("hash:size=8MiB:accesses=100K:writes=25%:mark=1");
        let share = ops[&OP_UPDATE] as f64 / (ops[&OP_UPDATE] + ops[&OP_LOOKUP]) as f64;
        assert!((share - 0.25).abs() < 0.01, "{share}");
    }
}
