//! Parts of Redis that all its generators share: the dictionary of keys, and the buffers of a
//! connection.
//!
//! Source: Redis 7.0: dict.c (entries of 24 B, a table of pointers that doubles when it has as many
//! keys), sds.c (short strings have a byte in front and one behind), networking.c (requests are
//! read into one buffer and answered from another one). The tables that were outgrown while loading
//! are not there: slabs took their room. Not: the event loop, timers, expiry, and clients that come
//! and go.

use super::cpu::{Cpu, Marks};
use super::jemalloc::{Heap, MAX_HEAP, Place, most_keys, slabs_for};
use super::made::{Made, Workload};
use super::memory::{Cached, Memory, mix};
use super::page_stream::Loader;
use super::params::Settings;
use super::stage::Stage;
use frostline_core::types::PAGE_BYTES;
use frostline_trace::error::TraceError;
use frostline_trace::event::MapKind;

/// Requests that lie in the buffer at a time, as of a client that does not wait for each answer.
pub(super) const PIPELINE: usize = 16;
/// An object: type, encoding, time of the last use, references, pointer.
pub(super) const OBJECT_BYTES: u64 = 16;
/// An entry of a dictionary: key, value, next.
pub(super) const ENTRY_BYTES: u64 = 24;
const NONE: u32 = u32::MAX;

/// Bytes of a string of `len` characters, below 32, that is a key.
pub(super) const fn key_bytes(len: u64) -> u64 {
    len + 2
}

/// Bytes of a string of `len` characters that is a value and not below 32.
pub(super) const fn value_bytes(len: u64) -> u64 {
    len + match len {
        ..256 => 4,
        256..65_536 => 6,
        _ => 10,
    }
}

/// Pointers in the table of a dictionary with so many keys.
pub(super) fn buckets(keys: u32) -> u64 {
    u64::from(keys).next_power_of_two().max(4)
}

/// Kinds of operations.
pub(super) const OP_READ: u64 = 0;
pub(super) const OP_WRITE: u64 = 1;

/// What is kept under the keys, and what clients ask for.
pub(super) trait Service: Send {
    /// Bytes of the largest request and the largest answer.
    fn largest(&self) -> [u64; 2];
    /// Inserts all keys.
    fn fill(&mut self, heap: &mut Heap);
    /// The next request: its key, and whether it writes.
    fn draw(&mut self) -> (u32, bool);
    /// Bytes of a request.
    fn request(&self, writes: bool) -> u64;
    /// Serves a request; bytes of the answer.
    fn serve(&mut self, memory: &mut impl Memory, heap: &mut Heap, key: u32, writes: bool) -> u64;
}

/// A server with one connection.
struct Redis<S> {
    cpu: Cpu,
    marks: Marks,
    loader: Loader,
    before: u64,
    heap: Heap,
    /// None until keys were inserted.
    client: Option<Client>,
    service: S,
}

/// The most keys that fit the footprint, if there are `least`. `objects` says what so many keys
/// keep in the heap, beside buffers of `largest`, as bytes and counts.
pub(super) fn keys_for(
    settings: &Settings,
    least: u32,
    objects: impl Fn(u32) -> Vec<(u64, u64)>,
) -> Result<Option<u32>, TraceError> {
    let footprint = u64::from(settings.pages(1024)?) * PAGE_BYTES;
    if footprint > MAX_HEAP {
        return Err(settings.refuse("size", "is above 32 GiB", "give at most 32GiB"));
    }
    let heap = footprint - Heap::tree_bytes(footprint);
    Ok(most_keys(heap, objects).filter(|keys| *keys >= least))
}

/// A server with `service` and a heap for `objects`, as bytes and counts.
pub(super) fn serve<S: Service + 'static>(
    settings: &Settings,
    service: S,
    objects: &[(u64, u64)],
) -> Result<Made, TraceError> {
    let bytes = slabs_for(objects);
    let init = settings.switch("init")?;
    let marks = Marks::new(settings)?;
    let (cpu, mut stage) = Cpu::open(settings, bytes)?;
    let [heap, pages] =
        [bytes, Heap::tree_bytes(bytes)].map(|bytes| stage.map(bytes, MapKind::Anonymous));
    let loader = Loader::new(init, &[heap, pages]);
    let before = loader.records();
    stage.expect(before);
    let heap = Heap::new(heap, pages);
    let redis = Redis { cpu, marks, loader, before, heap, client: None, service };
    Ok(Made { stage, workload: Box::new(redis) })
}

impl<S: Service> Workload for Redis<S> {
    fn step(&mut self, stage: &mut Stage) -> bool {
        if self.loader.step(stage) {
            return true;
        }
        let Self { cpu, marks, heap, client, service, .. } = self;
        let client = client.get_or_insert_with(|| {
            let client = Client::new(heap, service.largest());
            service.fill(heap);
            debug_assert!(heap.used() <= heap.area.len_bytes(), "everything fits");
            client
        });
        let requests: [(u32, bool); PIPELINE] = std::array::from_fn(|_| service.draw());
        let bytes = requests.iter().map(|(_, writes)| service.request(*writes)).sum();
        client.receive(&mut Cached { cpu, stage }, heap, bytes);
        for (key, writes) in requests {
            if cpu.done(stage, self.before) {
                return false;
            }
            let op = if writes { OP_WRITE } else { OP_READ };
            marks.operation(stage, op, |stage| {
                let mut memory = Cached { cpu, stage };
                client.parse(&mut memory, heap, service.request(writes));
                let answer = service.serve(&mut memory, heap, key, writes);
                client.answer(&mut memory, heap, answer);
            });
        }
        client.send(&mut Cached { cpu, stage }, heap);
        true
    }
}

/// A dictionary whose keys are numbered by insertion.
#[derive(Debug)]
pub(super) struct Dict {
    name_bytes: u64,
    bits: u32,
    table: Option<Place>,
    /// Heads of chains and links, as numbers of keys.
    heads: Vec<u32>,
    chain: Vec<u32>,
    /// Where entries and names lie.
    nodes: Vec<(Place, Place)>,
}

impl Dict {
    /// Empty, for so many keys of `name_bytes` each.
    pub(super) fn new(keys: u32, name_bytes: u64) -> Self {
        let bits = buckets(keys).trailing_zeros();
        Self {
            name_bytes,
            bits,
            table: None,
            heads: vec![NONE; 1 << bits],
            chain: Vec::with_capacity(keys as usize),
            nodes: Vec::with_capacity(keys as usize),
        }
    }

    /// The next key. The table appears where its predecessor is full.
    pub(super) fn insert(&mut self, heap: &mut Heap) {
        let key = self.nodes.len() as u32;
        let name = heap.allocate(self.name_bytes);
        if self.table.is_none() && u64::from(key) >= 1 << (self.bits - 1) {
            self.table = Some(heap.allocate(8 << self.bits));
        }
        self.nodes.push((heap.allocate(ENTRY_BYTES), name));
        let bucket = self.bucket(key);
        self.chain.push(std::mem::replace(&mut self.heads[bucket], key));
    }

    fn bucket(&self, key: u32) -> usize {
        (mix(u64::from(key)) >> (64 - self.bits)) as usize
    }

    /// Goes to a key as one that only knows its name; where its entry lies.
    pub(super) fn find(&self, memory: &mut impl Memory, heap: &Heap, key: u32) -> Place {
        let bucket = self.bucket(key);
        if let Some(table) = self.table {
            memory.load(heap.area, table.at() + 8 * bucket as u64);
        }
        let mut at = self.heads[bucket];
        loop {
            let (entry, name) = self.nodes[at as usize];
            memory.load(heap.area, entry.at());
            memory.load(heap.area, name.at());
            if at == key {
                return entry;
            }
            at = self.chain[at as usize];
        }
    }
}

/// The buffers of a connection.
#[derive(Debug)]
struct Client {
    query: Place,
    parsed: u64,
    reply: Place,
    answered: u64,
}

impl Client {
    fn new(heap: &mut Heap, largest: [u64; 2]) -> Self {
        let [query, reply] = largest.map(|bytes| heap.allocate(PIPELINE as u64 * bytes));
        Self { query, parsed: 0, reply, answered: 0 }
    }

    /// The kernel copies requests of so many bytes together to the front of the buffer.
    fn receive(&mut self, memory: &mut impl Memory, heap: &Heap, bytes: u64) {
        self.parsed = 0;
        self.answered = 0;
        memory.store_all(heap.area, self.query.at(), bytes);
    }

    /// Takes the next request apart.
    fn parse(&mut self, memory: &mut impl Memory, heap: &Heap, bytes: u64) {
        memory.load_all(heap.area, self.query.at() + self.parsed, bytes);
        self.parsed += bytes;
    }

    /// Adds to the answers.
    fn answer(&mut self, memory: &mut impl Memory, heap: &Heap, bytes: u64) {
        memory.store_all(heap.area, self.reply.at() + self.answered, bytes);
        self.answered += bytes;
    }

    /// The kernel takes the answers.
    fn send(&mut self, memory: &mut impl Memory, heap: &Heap) {
        memory.load_all(heap.area, self.reply.at(), self.answered);
    }
}
