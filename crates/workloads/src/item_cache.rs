//! A cache of items as memcached and CacheLib build it: a chained hash table, slabs cut into
//! chunks of a size class, and a list in order of use for each class.
//!
//! The structure is real: each chunk holds one item or lies on the free list of its class, and
//! every pointer that the program would follow or change is followed or changed in [`Memory`].

use super::memory::{Memory, mix};
use super::stage::Area;

/// No chunk.
const NONE: u32 = u32::MAX;
/// Places are counted in these, as both programs align chunks.
const UNIT: u64 = 8;
/// Times of moves are counted in this many instructions.
const TICK: u64 = 1 << 12;

/// Largest heap: places fit in 32 bits.
pub(super) const MAX_HEAP: u64 = UNIT << 32;

/// What differs between programs.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    /// Bytes of a slab.
    pub(super) slab_bytes: u64,
    /// Bytes of the smallest chunk.
    pub(super) min_chunk: u64,
    /// Size of a class relative to the one below.
    pub(super) factor: f64,
    /// Bytes of the largest chunk.
    pub(super) max_chunk: u64,
    /// Bytes in front of an item's key.
    pub(super) header_bytes: u64,
    /// Bytes of a pointer in the hash table.
    pub(super) pointer_bytes: u64,
    /// Instructions between two moves of an item to the front of its list.
    pub(super) refresh: u64,
}

impl Shape {
    /// Sizes of chunks, ascending.
    pub(super) fn chunk_sizes(&self) -> Vec<u64> {
        let mut sizes = Vec::new();
        let mut size = self.min_chunk;
        while size < self.max_chunk {
            sizes.push(size);
            size = ((size as f64 * self.factor) as u64).next_multiple_of(UNIT);
        }
        sizes.push(self.max_chunk);
        sizes
    }
}

/// A piece of a slab, and the item in it.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    place: u32,
    key: u32,
    /// Bytes of the item with its header; 0 where there is none.
    bytes: u32,
    /// Neighbours in order of use; `next` is also the link of the free list.
    prev: u32,
    next: u32,
    /// Link of the hash chain.
    chain: u32,
    /// When it was last moved to the front.
    moved: u32,
    class: u32,
}

#[derive(Clone, Debug)]
struct Class {
    chunk_bytes: u64,
    first: u32,
    last: u32,
    free: u32,
}

/// The cache.
#[derive(Debug)]
pub(super) struct ItemCache {
    shape: Shape,
    table: Area,
    heap: Area,
    bits: u32,
    heads: Vec<u32>,
    chunks: Vec<Chunk>,
    classes: Vec<Class>,
    slabs: u64,
    slabs_used: u64,
    pub(super) evictions: u64,
}

impl ItemCache {
    /// An empty cache of `slabs` slabs in `heap`; `2^bits` pointers are in `table`.
    pub(super) fn new(shape: Shape, table: Area, bits: u32, heap: Area, slabs: u64) -> Self {
        let classes = shape.chunk_sizes().into_iter().map(|chunk_bytes| Class {
            chunk_bytes,
            first: NONE,
            last: NONE,
            free: NONE,
        });
        Self {
            classes: classes.collect(),
            shape,
            table,
            heap,
            bits,
            heads: vec![NONE; 1 << bits],
            chunks: Vec::new(),
            slabs,
            slabs_used: 0,
            evictions: 0,
        }
    }

    /// Whether every slab belongs to a class.
    pub(super) fn is_full(&self) -> bool {
        self.slabs_used == self.slabs
    }

    /// Reads the item of `key` and makes it recently used; false where there is none.
    #[inline]
    pub(super) fn get(&mut self, memory: &mut impl Memory, key: u32) -> bool {
        let Some(chunk) = self.find(memory, key) else { return false };
        let Chunk { place, bytes, moved, .. } = self.chunks[chunk as usize];
        let at = u64::from(place) * UNIT;
        // The count of references lies in the header.
        memory.store(self.heap, at);
        let now = memory.clock();
        if now >= u64::from(moved) * TICK + self.shape.refresh {
            self.unlink(memory, chunk);
            self.push_front(memory, chunk);
        }
        let header = self.shape.header_bytes.min(u64::from(bytes) - 1);
        memory.load_all(self.heap, at + header, u64::from(bytes) - header);
        memory.store(self.heap, at);
        true
    }

    /// Stores an item of `body` bytes of key and value in place of the one that was there; false
    /// where its class has no chunk and can get none.
    pub(super) fn set(&mut self, memory: &mut impl Memory, key: u32, body: u64) -> bool {
        let bytes = (self.shape.header_bytes + body).min(self.shape.max_chunk);
        let class = self.classes.partition_point(|class| class.chunk_bytes < bytes) as u32;
        let Some(new) = self.allocate(memory, class) else { return false };
        let at = u64::from(self.chunks[new as usize].place) * UNIT;
        memory.store_all(self.heap, at, bytes);
        if let Some(old) = self.find(memory, key) {
            self.remove(memory, old);
        }
        let chunk = &mut self.chunks[new as usize];
        chunk.key = key;
        chunk.bytes = bytes as u32;
        let bucket = self.bucket(key);
        self.chunks[new as usize].chain = self.heads[bucket];
        self.heads[bucket] = new;
        memory.store(self.table, bucket as u64 * self.shape.pointer_bytes);
        self.push_front(memory, new);
        true
    }

    #[inline]
    fn bucket(&self, key: u32) -> usize {
        (mix(u64::from(key)) >> (64 - self.bits)) as usize
    }

    #[inline]
    fn header(&self, chunk: u32) -> u64 {
        u64::from(self.chunks[chunk as usize].place) * UNIT
    }

    /// Follows the chain of the key's bucket; headers and keys are compared on the way.
    #[inline]
    fn find(&self, memory: &mut impl Memory, key: u32) -> Option<u32> {
        let bucket = self.bucket(key);
        memory.load(self.table, bucket as u64 * self.shape.pointer_bytes);
        let mut chunk = self.heads[bucket];
        while chunk != NONE {
            let Chunk { place, key: found, chain, .. } = self.chunks[chunk as usize];
            let at = u64::from(place) * UNIT;
            memory.load(self.heap, at);
            memory.load(self.heap, at + self.shape.header_bytes);
            if found == key {
                return Some(chunk);
            }
            chunk = chain;
        }
        None
    }

    /// A chunk that holds nothing: a free one, one of a new slab, or that of the item least
    /// recently used.
    fn allocate(&mut self, memory: &mut impl Memory, class: u32) -> Option<u32> {
        if self.classes[class as usize].free == NONE && !self.is_full() {
            self.take_slab(class);
        }
        let free = self.classes[class as usize].free;
        if free != NONE {
            memory.load(self.heap, self.header(free));
            self.classes[class as usize].free = self.chunks[free as usize].next;
            return Some(free);
        }
        let last = self.classes[class as usize].last;
        if last == NONE {
            return None;
        }
        self.evictions += 1;
        self.remove(memory, last);
        self.allocate(memory, class)
    }

    fn take_slab(&mut self, class: u32) {
        let Class { chunk_bytes, .. } = self.classes[class as usize];
        let start = self.slabs_used * self.shape.slab_bytes;
        self.slabs_used += 1;
        for i in (0..self.shape.slab_bytes / chunk_bytes).rev() {
            let id = self.chunks.len() as u32;
            self.chunks.push(Chunk {
                place: ((start + i * chunk_bytes) / UNIT) as u32,
                key: 0,
                bytes: 0,
                prev: NONE,
                next: self.classes[class as usize].free,
                chain: NONE,
                moved: 0,
                class,
            });
            self.classes[class as usize].free = id;
        }
    }

    /// Takes an item out of its chain and its list, and frees its chunk.
    fn remove(&mut self, memory: &mut impl Memory, chunk: u32) {
        let bucket = self.bucket(self.chunks[chunk as usize].key);
        let chain = self.chunks[chunk as usize].chain;
        memory.load(self.table, bucket as u64 * self.shape.pointer_bytes);
        if self.heads[bucket] == chunk {
            self.heads[bucket] = chain;
            memory.store(self.table, bucket as u64 * self.shape.pointer_bytes);
        } else {
            let mut before = self.heads[bucket];
            memory.load(self.heap, self.header(before));
            while self.chunks[before as usize].chain != chunk {
                before = self.chunks[before as usize].chain;
                memory.load(self.heap, self.header(before));
            }
            self.chunks[before as usize].chain = chain;
            memory.store(self.heap, self.header(before));
        }
        self.unlink(memory, chunk);
        let class = &mut self.classes[self.chunks[chunk as usize].class as usize];
        let freed = &mut self.chunks[chunk as usize];
        freed.bytes = 0;
        freed.next = class.free;
        class.free = chunk;
        memory.store(self.heap, self.header(chunk));
    }

    /// Takes a chunk out of the list of its class.
    fn unlink(&mut self, memory: &mut impl Memory, chunk: u32) {
        let Chunk { prev, next, class, .. } = self.chunks[chunk as usize];
        memory.load(self.heap, self.header(chunk));
        for (neighbour, is_prev) in [(prev, true), (next, false)] {
            if neighbour == NONE {
                let ends = &mut self.classes[class as usize];
                if is_prev {
                    ends.first = next;
                } else {
                    ends.last = prev;
                }
                continue;
            }
            memory.store(self.heap, self.header(neighbour));
            let neighbour = &mut self.chunks[neighbour as usize];
            if is_prev {
                neighbour.next = next;
            } else {
                neighbour.prev = prev;
            }
        }
    }

    fn push_front(&mut self, memory: &mut impl Memory, chunk: u32) {
        let class = &mut self.classes[self.chunks[chunk as usize].class as usize];
        let next = std::mem::replace(&mut class.first, chunk);
        if next == NONE {
            class.last = chunk;
        } else {
            memory.store(self.heap, self.header(next));
            self.chunks[next as usize].prev = chunk;
        }
        memory.store(self.heap, self.header(chunk));
        let chunk = &mut self.chunks[chunk as usize];
        chunk.prev = NONE;
        chunk.next = next;
        chunk.moved = (memory.clock() / TICK) as u32;
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::memory::Untraced;
    use crate::stage::Stage;
    use frostline_core::rng::Rng;
    use frostline_trace::event::MapKind;
    use frostline_trace::header::TraceHeader;
    use std::collections::HashMap;

    impl ItemCache {
        /// Every chunk on exactly one list, every item in exactly one chain; what is in it.
        pub(crate) fn audit(&self) -> HashMap<u32, u32> {
            let mut seen = vec![0; self.chunks.len()];
            let mut items = HashMap::new();
            for (number, class) in self.classes.iter().enumerate() {
                let (mut at, mut before) = (class.first, NONE);
                while at != NONE {
                    let chunk = self.chunks[at as usize];
                    assert_eq!((chunk.prev, chunk.class), (before, number as u32));
                    assert!(chunk.bytes > 0 && u64::from(chunk.bytes) <= class.chunk_bytes);
                    assert!(
                        number == 0
                            || u64::from(chunk.bytes) > self.classes[number - 1].chunk_bytes
                    );
                    seen[at as usize] += 1;
                    (before, at) = (at, chunk.next);
                }
                assert_eq!(class.last, before);
                at = class.free;
                while at != NONE {
                    assert_eq!(self.chunks[at as usize].bytes, 0);
                    seen[at as usize] += 1;
                    at = self.chunks[at as usize].next;
                }
            }
            assert!(seen.iter().all(|&times| times == 1), "each chunk is on one list");
            for (bucket, &head) in self.heads.iter().enumerate() {
                let mut at = head;
                while at != NONE {
                    let chunk = self.chunks[at as usize];
                    assert_eq!(self.bucket(chunk.key), bucket);
                    assert!(chunk.bytes > 0, "no free chunk is in a chain");
                    assert!(items.insert(chunk.key, chunk.bytes).is_none(), "a key is there once");
                    at = chunk.chain;
                }
            }
            let listed = self.chunks.iter().filter(|chunk| chunk.bytes > 0).count();
            assert_eq!(items.len(), listed, "what is on the lists is in the table");
            items
        }
    }

    fn small(slabs: u64) -> ItemCache {
        let shape = Shape {
            slab_bytes: 4096,
            min_chunk: 96,
            factor: 1.25,
            max_chunk: 4096,
            header_bytes: 56,
            pointer_bytes: 8,
            refresh: 0,
        };
        let mut stage = Stage::new(TraceHeader::named("t"), 1);
        let table = stage.map(8 << 6, MapKind::Anonymous);
        let heap = stage.map(slabs * 4096, MapKind::Anonymous);
        ItemCache::new(shape, table, 6, heap, slabs)
    }

    #[test]
    fn every_item_is_in_one_place_whatever_happens() {
        let mut cache = small(40);
        let mut expected: HashMap<u32, u64> = HashMap::new();
        let mut rng = Rng::new(4);
        let (mut hits, mut misses, mut failures) = (0, 0, 0);
        for step in 0..20_000 {
            let key = rng.below(600) as u32;
            if rng.below(3) == 0 {
                let body = 1 + rng.below(10) * rng.below(60);
                if cache.set(&mut Untraced, key, body) {
                    expected.insert(key, 56 + body);
                } else {
                    failures += 1;
                }
            } else if cache.get(&mut Untraced, key) {
                hits += 1;
            } else {
                misses += 1;
            }
            if step % 500 == 0 {
                for (key, bytes) in cache.audit() {
                    assert_eq!(expected[&key], u64::from(bytes), "the last value set");
                }
            }
        }
        assert!(hits > 1000 && misses > 1000 && cache.evictions > 100, "{hits} {misses}");
        assert!(failures < 3000, "{failures}");
    }

    #[test]
    fn the_item_least_recently_used_makes_room() {
        let mut cache = small(1);
        let fits =
            (0..).take_while(|&key| cache.set(&mut Untraced, key, 40) && cache.evictions == 0);
        let fits = fits.count() as u32;
        assert_eq!(fits, 4096 / 96);
        let mut cache = small(1);
        for key in 0..fits {
            assert!(cache.set(&mut Untraced, key, 40));
        }
        assert!(cache.get(&mut Untraced, 0), "used again, so that 1 is the oldest");
        assert!(cache.set(&mut Untraced, fits, 40));
        let kept = cache.audit();
        assert!(kept.contains_key(&0) && !kept.contains_key(&1) && kept.contains_key(&fits));
        assert!(!cache.set(&mut Untraced, 1000, 400), "no slab is left for another class");
    }
}
