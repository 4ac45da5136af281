//! `ycsb-a`, `ycsb-b`: Redis under YCSB, whose client keeps each record as a hash.
//!
//! Model: a record is a name in the dictionary of keys, an object, and a dictionary of its own with
//! ten fields of 100 B (104 in 112); all names are in one sorted index too (a skip list and a third
//! dictionary), which loading writes and nobody reads. Everything comes from jemalloc's slabs in
//! the order in which records are inserted. A read fetches all fields; an update frees one and
//! writes it anew, to the same place. A hash still has two tables after its ninth field: each update moves a
//! bucket to the larger. Popular records lie anywhere (YCSB's scrambled Zipf).
//! Source: YCSB (Cooper et al., SoCC 2010), Table 2: A updates in half of the operations, B in 5 %;
//! its client for Redis (HMSET, ZADD to `_indices`, HGETALL). With Redis in PET (Doh et al.,
//! EuroSys 2025), section 5.1. Redis 7.0: t_hash.c, t_zset.c (values above 64 B make it a table).
//! Not: Redis, see `redis.rs`; one connection.

use super::coin::Coin;
use super::jemalloc::{Heap, Place};
use super::made::Made;
use super::memory::{Memory, Untraced, mix};
use super::params::{self, Param, Settings};
use super::permutation::Permutation;
use super::redis::{
    Dict, ENTRY_BYTES, OBJECT_BYTES, PIPELINE, Service, buckets, key_bytes, keys_for, serve,
    value_bytes,
};
use super::zipf_law::{ZipfLaw, ZipfRng};
use frostline_core::rng::Rng;
use frostline_trace::error::TraceError;

pub(super) const PARAMS_A: &[Param] = &parameters("50%");
pub(super) const PARAMS_B: &[Param] = &parameters("5%");

const fn parameters(writes: &'static str) -> [Param; 12] {
    [
        params::size("512MiB"),
        params::PAGES,
        params::accesses("24M"),
        params::skew("0.99"),
        Param::text("writes", writes, "share of the operations that update a field"),
        params::gap("150"),
        params::LLC,
        params::MARK,
        params::THINK,
        params::INIT,
        params::EPOCH,
        params::SEED,
    ]
}

const FIELDS: usize = 10;
/// "user" and a number of 63 bits.
const NAME: u64 = 4 + 19;
/// "field0".
const FIELD: u64 = 6;
const VALUE: u64 = 100;
/// A dictionary without its tables.
const DICT_BYTES: u64 = 56;
/// A node of a skip list without the pointers of its levels, and those of one level.
const NODE_BYTES: u64 = 24;
const LEVEL_BYTES: u64 = 16;
/// Levels that may be counted on; one node of 65536 has more, and gets no more here.
const LEVELS: u64 = 8;
/// Sizes of a hash's tables, in pointers: the first fills up while loading, the second with the
/// eighth field.
const TABLES: [u64; 3] = [4, 8, 16];
const GET_BYTES: u64 = 4 + 13 + 7 + NAME;
const SET_BYTES: u64 = 4 + 11 + 7 + NAME + FIELD_WORDS;
/// A field's name and value, with their lengths in front and line ends.
const FIELD_WORDS: u64 = 4 + FIELD + 2 + 6 + VALUE + 2;
const GOT_BYTES: u64 = 5 + FIELDS as u64 * FIELD_WORDS;
const OK: u64 = 5;

/// What lies in the heap, as bytes and counts.
fn objects(keys: u32) -> Vec<(u64, u64)> {
    let all = u64::from(keys);
    let fields = all * FIELDS as u64;
    let mut objects = vec![
        (PIPELINE as u64 * SET_BYTES, 1),
        (PIPELINE as u64 * GOT_BYTES, 1),
        (8 * buckets(keys), 2),
        (OBJECT_BYTES, all),
        // In the dictionary of keys and in the index, which have an entry each.
        (key_bytes(NAME), 2 * all),
        (ENTRY_BYTES, 2 * all + fields),
        (DICT_BYTES, all),
        (8 * TABLES[0], 1),
        (8 * TABLES[1], all),
        (8 * TABLES[2], all),
        (key_bytes(FIELD), fields),
        // The request's copy of an update, too.
        (value_bytes(VALUE), fields + 1),
    ];
    objects.extend((1..=LEVELS).map(|levels| {
        let share = 0.25f64.powi(levels as i32 - 1) * if levels < LEVELS { 0.75 } else { 1.0 };
        // Levels are random: four standard deviations more.
        let nodes = all as f64 * share + 4.0 * (all as f64 * share).sqrt() + 4.0;
        (NODE_BYTES + LEVEL_BYTES * levels, nodes as u64)
    }));
    objects
}

/// Where a record's parts lie.
#[derive(Clone, Debug)]
struct Record {
    object: Place,
    dict: Place,
    tables: [Place; 2],
    /// Buckets that moved to the larger table.
    moved: u8,
    entries: [Place; FIELDS],
    fields: [Place; FIELDS],
    values: [Place; FIELDS],
}

/// Which field is in which bucket: the same in all hashes, as they hash alike.
#[derive(Clone, Copy, Debug)]
struct Buckets {
    hash: [u64; FIELDS],
}

impl Buckets {
    fn new(seed: u64) -> Self {
        Self { hash: std::array::from_fn(|field| mix(seed ^ field as u64)) }
    }

    /// Buckets in use in a table of `size` with the first `size` fields.
    fn used(self, size: u64) -> Vec<u64> {
        let mut used: Vec<u64> =
            self.hash.iter().take(size as usize).map(|hash| hash % size).collect();
        used.sort_unstable();
        used.dedup();
        used
    }

    /// The fields of a bucket of a table with the first `size` fields.
    fn fields(self, size: u64, bucket: u64) -> impl Iterator<Item = usize> {
        (0..FIELDS.min(size as usize)).filter(move |field| self.hash[*field] % size == bucket)
    }
}

#[derive(Debug)]
struct RedisHash {
    keys: u32,
    dict: Dict,
    records: Vec<Record>,
    buckets: Buckets,
    /// Of the second table, those in use, in the order in which they move.
    moves: Vec<u64>,
    law: ZipfLaw,
    ranks: ZipfRng,
    key_of: Permutation,
    update: Coin,
    rng: Rng,
}

pub(super) fn build(settings: &Settings) -> Result<Made, TraceError> {
    let mut rng = settings.rng()?;
    let Some(keys) = keys_for(settings, 256, objects)? else {
        return Err(settings.refuse("size", "is too small", "give at least 4MiB"));
    };
    let s = settings.skew()?;
    let update = Coin::new(settings.share("writes")?);
    let redis = RedisHash::new(keys, s, update, &mut rng);
    serve(settings, redis, &objects(keys))
}

impl RedisHash {
    fn new(keys: u32, s: f64, update: Coin, rng: &mut Rng) -> Self {
        let buckets = Buckets::new(rng.next_u64());
        Self {
            keys,
            dict: Dict::new(keys, key_bytes(NAME)),
            records: Vec::new(),
            buckets,
            moves: buckets.used(TABLES[1]),
            law: ZipfLaw::new(keys, s),
            ranks: ZipfRng::new(rng),
            key_of: Permutation::new(keys, rng),
            update,
            rng: rng.fork(),
        }
    }

    /// HMSET of all fields.
    fn insert(&mut self, heap: &mut Heap) {
        let object = heap.allocate(OBJECT_BYTES);
        self.dict.insert(heap);
        let dict = heap.allocate(DICT_BYTES);
        let first = heap.allocate(8 * TABLES[0]);
        let mut tables = [first; 2];
        let [mut entries, mut fields, mut values] = [[first; FIELDS]; 3];
        // After the fifth field, each one moves two buckets of the first table, one when looked for
        // and one when added; then the table is freed.
        let freed = TABLES[0] as usize + self.buckets.used(TABLES[0]).len().div_ceil(2);
        for field in 0..FIELDS {
            fields[field] = heap.allocate(key_bytes(FIELD));
            values[field] = heap.allocate(value_bytes(VALUE));
            if field == freed {
                heap.free(&mut Untraced, first, 8 * TABLES[0]);
            }
            for (table, full) in tables.iter_mut().zip(TABLES) {
                if field as u64 == full {
                    *table = heap.allocate(16 * full);
                }
            }
            entries[field] = heap.allocate(ENTRY_BYTES);
        }
        let moved = self.moves.len().min(2) as u8;
        self.records.push(Record { object, dict, tables, moved, entries, fields, values });
    }

    fn get(&self, memory: &mut impl Memory, heap: &Heap, key: u32) {
        self.dict.find(memory, heap, key);
        let record = &self.records[key as usize];
        memory.load(heap.area, record.object.at());
        memory.store(heap.area, record.object.at());
        memory.load(heap.area, record.dict.at());
        if !self.is_moved(record) {
            memory.load(heap.area, record.tables[0].at());
        }
        memory.load_all(heap.area, record.tables[1].at(), 8 * TABLES[2]);
        for field in 0..FIELDS {
            memory.load(heap.area, record.entries[field].at());
            memory.load(heap.area, record.fields[field].at());
            memory.load_all(heap.area, record.values[field].at(), value_bytes(VALUE));
        }
    }

    fn is_moved(&self, record: &Record) -> bool {
        usize::from(record.moved) == self.moves.len()
    }

    /// HMSET of one field.
    fn set(&mut self, memory: &mut impl Memory, heap: &mut Heap, key: u32, field: usize) {
        let bytes = value_bytes(VALUE);
        let asked = heap.allocate(bytes);
        memory.store_all(heap.area, asked.at(), bytes);
        self.dict.find(memory, heap, key);
        let object = self.records[key as usize].object;
        memory.load(heap.area, object.at());
        memory.store(heap.area, object.at());
        self.move_bucket(memory, heap, key);
        self.find_field(memory, heap, key, field);
        let record = &mut self.records[key as usize];
        let value = &mut record.values[field];
        memory.load(heap.area, value.at());
        heap.free(memory, *value, bytes);
        // The same place, as it was freed last.
        *value = heap.allocate(bytes);
        memory.load_all(heap.area, asked.at(), bytes);
        memory.store_all(heap.area, value.at(), bytes);
        memory.store(heap.area, record.entries[field].at());
        heap.free(memory, asked, bytes);
    }

    /// Moves the next bucket of the smaller table, and frees the table with its last.
    fn move_bucket(&mut self, memory: &mut impl Memory, heap: &mut Heap, key: u32) {
        let record = &mut self.records[key as usize];
        memory.load(heap.area, record.dict.at());
        let Some(&bucket) = self.moves.get(usize::from(record.moved)) else { return };
        let [small, large] = record.tables;
        memory.load(heap.area, small.at());
        for field in self.buckets.fields(TABLES[1], bucket) {
            memory.load(heap.area, record.fields[field].at());
            memory.store(heap.area, record.entries[field].at());
            memory.store(heap.area, large.at() + self.buckets.hash[field] % TABLES[2] * 8);
        }
        memory.store(heap.area, small.at());
        memory.store(heap.area, record.dict.at());
        record.moved += 1;
        if usize::from(record.moved) == self.moves.len() {
            heap.free(memory, small, 8 * TABLES[1]);
        }
    }

    /// Goes to a field as one that only knows its name: by the smaller table, then the larger.
    fn find_field(&self, memory: &mut impl Memory, heap: &Heap, key: u32, field: usize) {
        let record = &self.records[key as usize];
        for (table, size) in record.tables.into_iter().zip([TABLES[1], TABLES[2]]) {
            if size == TABLES[1] && self.is_moved(record) {
                continue;
            }
            let bucket = self.buckets.hash[field] % size;
            memory.load(heap.area, table.at() + bucket * 8);
            for other in self.buckets.fields(size, bucket) {
                if self.is_in_small(record, other) != (size == TABLES[1]) {
                    continue;
                }
                memory.load(heap.area, record.entries[other].at());
                memory.load(heap.area, record.fields[other].at());
                if other == field {
                    return;
                }
            }
        }
    }

    fn is_in_small(&self, record: &Record, field: usize) -> bool {
        let left = &self.moves[usize::from(record.moved)..];
        (field as u64) < TABLES[1] && left.contains(&(self.buckets.hash[field] % TABLES[1]))
    }
}

impl Service for RedisHash {
    fn largest(&self) -> [u64; 2] {
        [SET_BYTES, GOT_BYTES]
    }

    fn fill(&mut self, heap: &mut Heap) {
        let asked = heap.allocate(value_bytes(VALUE));
        let mut index = 0;
        for key in 0..self.keys {
            self.insert(heap);
            // ZADD: a name, a node of the skip list and an entry, which nobody looks at again.
            heap.allocate(key_bytes(NAME));
            let levels = u64::from(self.rng.next_u64().trailing_zeros() / 2) + 1;
            heap.allocate(NODE_BYTES + LEVEL_BYTES * levels.min(LEVELS));
            if index == 0 && u64::from(key) >= buckets(self.keys) / 2 {
                index = 8 * buckets(self.keys);
                heap.allocate(index);
            }
            heap.allocate(ENTRY_BYTES);
        }
        heap.free(&mut Untraced, asked, value_bytes(VALUE));
    }

    fn draw(&mut self) -> (u32, bool) {
        let rank = self.law.draw(&mut self.ranks);
        (self.key_of.apply(rank), self.update.throw(&mut self.rng))
    }

    fn request(&self, writes: bool) -> u64 {
        if writes { SET_BYTES } else { GET_BYTES }
    }

    fn serve(&mut self, memory: &mut impl Memory, heap: &mut Heap, key: u32, writes: bool) -> u64 {
        if !writes {
            self.get(memory, heap, key);
            return GOT_BYTES;
        }
        let field = self.rng.below(FIELDS as u64) as usize;
        self.set(memory, heap, key, field);
        OK
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jemalloc::slabs_for;
    use crate::redis::{OP_READ, OP_WRITE};
    use crate::stage::{Area, Stage};
    use crate::tests::{check, operations};
    use frostline_trace::event::MapKind;
    use frostline_trace::header::TraceHeader;
    use std::collections::BTreeSet;

    /// Remembers the lines loaded and stored.
    #[derive(Default)]
    struct Seen {
        loads: BTreeSet<u64>,
        stores: BTreeSet<u64>,
    }

    impl Memory for Seen {
        fn clock(&self) -> u64 {
            0
        }

        fn load(&mut self, area: Area, offset: u64) {
            self.loads.insert(area.at(offset) / 64);
        }

        fn load_all(&mut self, area: Area, offset: u64, len: u64) {
            self.loads.extend(area.at(offset) / 64..=area.at(offset + len - 1) / 64);
        }

        fn store(&mut self, area: Area, offset: u64) {
            self.stores.insert(area.at(offset) / 64);
        }

        fn store_all(&mut self, area: Area, offset: u64, len: u64) {
            self.stores.extend(area.at(offset) / 64..=area.at(offset + len - 1) / 64);
        }
    }

    fn filled(keys: u32) -> (RedisHash, Heap) {
        let bytes = slabs_for(&objects(keys));
        let mut stage = Stage::new(TraceHeader::named("t"), 1);
        let [area, pages] =
            [bytes, Heap::tree_bytes(bytes)].map(|bytes| stage.map(bytes, MapKind::Anonymous));
        let mut heap = Heap::new(area, pages);
        let mut redis = RedisHash::new(keys, 0.99, Coin::new(0.5), &mut Rng::new(5));
        heap.allocate(PIPELINE as u64 * SET_BYTES);
        heap.allocate(PIPELINE as u64 * GOT_BYTES);
        redis.fill(&mut heap);
        assert!(heap.used() <= bytes && heap.used() > bytes / 100 * 97, "{}", heap.used());
        (redis, heap)
    }

    #[test]
    fn a_record_takes_two_kilobytes_as_in_redis() {
        // Redis 7.0 with 32,000 records touches 15.9 K pages in all.
        let pages = slabs_for(&objects(32_000)) / 4096;
        assert!((15_500..16_000).contains(&pages), "{pages}");
        filled(5000);
    }

    #[test]
    fn parts_lie_in_the_order_of_insertion() {
        let (redis, _) = filled(1000);
        assert!(redis.records.is_sorted_by_key(|record| record.object));
        assert!(redis.records.is_sorted_by_key(|record| record.dict));
        let values = redis.records.iter().flat_map(|record| record.values);
        assert!(values.is_sorted_by(|a, b| a.at() + 112 <= b.at()));
    }

    #[test]
    fn a_read_loads_every_field_and_stores_the_time_only() {
        let (mut redis, mut heap) = filled(1000);
        let mut seen = Seen::default();
        redis.serve(&mut seen, &mut heap, 500, false);
        // 1120 B of values are 18 lines, 320 B of entries 5 or 6, 80 B of names 2 or 3.
        assert!((30..45).contains(&seen.loads.len()), "{:?}", seen.loads);
        assert_eq!(seen.stores.len(), 1);
        assert!(seen.loads.is_superset(&seen.stores));
    }

    #[test]
    fn updates_write_in_place_and_empty_the_smaller_table() {
        let (mut redis, mut heap) = filled(1000);
        let before = redis.records[7].clone();
        for round in 0..10 {
            let mut seen = Seen::default();
            redis.set(&mut seen, &mut heap, 7, round);
            let field = heap.area.at(before.fields[round].at()) / 64;
            assert!(seen.loads.contains(&field), "field {round} is found");
            let value = heap.area.at(before.values[round].at()) / 64;
            assert!(seen.stores.contains(&value), "field {round} is written");
        }
        let after = &redis.records[7];
        assert_eq!(after.values, before.values);
        assert!(redis.is_moved(after) && !redis.is_moved(&redis.records[8]));
        assert_eq!(heap.allocate(8 * TABLES[1]), before.tables[0], "the smaller table was freed");
    }

    #[test]
    fn the_mixes_update_as_often_as_ycsb_says() {
        for (name, updates) in [("ycsb-a", 0.5), ("ycsb-b", 0.05)] {
            let ops = operations(&format!("{name}:size=16MiB:accesses=400K:mark=1"));
            let (reads, writes) = (ops[&OP_READ] as f64, ops[&OP_WRITE] as f64);
            let share = writes / (reads + writes);
            assert!((share - updates).abs() < 0.01, "{name}: {share}");
        }
    }

    #[test]
    fn updates_and_nothing_else_sets_the_mixes_apart() {
        let [a, b] = ["ycsb-a:writes=10%", "ycsb-b:writes=10%"]
            .map(|name| check(&format!("{name}:size=16MiB:accesses=100K")));
        assert_eq!(a.pages, b.pages);
    }
}
