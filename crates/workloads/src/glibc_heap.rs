//! Layout of large arrays by glibc's malloc, when its heap cannot grow in one piece.
//!
//! Source: glibc 2.36, malloc/malloc.c. A free chunk is taken by best fit and split; then comes the
//! top, which is the rest of the newest piece. What is larger than a threshold is mapped by itself;
//! else a new piece is mapped, 128 KiB larger than asked for, as malloc does where the break cannot
//! be raised because something lies behind it. The threshold begins at 128 KiB and rises to the
//! largest mapping that was given back, up to 32 MiB; so that programs which come and go through
//! large arrays keep, in pieces, what they no longer use. Holes in the address space are used again,
//! the lowest first. Not: bins of small chunks, of which there are none here; several threads.

use frostline_core::types::PAGE_BYTES;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// What a new piece has beyond what was asked for.
const TOP_PAD: u64 = 128 << 10;
const FIRST_THRESHOLD: u64 = 128 << 10;
const LAST_THRESHOLD: u64 = 32 << 20;
/// The smallest chunk; of the old top, as much stays behind as a fence.
const MIN_CHUNK: u64 = 32;
/// In front of what the program gets of a chunk.
const HEADER: u64 = 16;

/// What malloc handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    start: u64,
    bytes: u64,
    mapped: bool,
}

impl Chunk {
    /// Offset of its first usable byte in the address space.
    pub(super) const fn at(&self) -> u64 {
        self.start + HEADER
    }
}

/// The address space of such a program, from 0.
#[derive(Debug)]
pub(super) struct GlibcHeap {
    by_size: BTreeSet<(u64, u64)>,
    by_start: BTreeMap<u64, u64>,
    top: Range<u64>,
    holes: BTreeMap<u64, u64>,
    end: u64,
    threshold: u64,
    /// Bytes of each piece of the heap.
    pieces: Vec<u64>,
    /// Of each page, whether it was written.
    written: Vec<bool>,
}

impl GlibcHeap {
    /// Nothing allocated yet.
    pub(super) fn new() -> Self {
        Self {
            by_size: BTreeSet::new(),
            by_start: BTreeMap::new(),
            top: 0..0,
            holes: BTreeMap::new(),
            end: 0,
            threshold: FIRST_THRESHOLD,
            pieces: Vec::new(),
            written: Vec::new(),
        }
    }

    /// Bytes of address space.
    pub(super) const fn end(&self) -> u64 {
        self.end
    }

    /// Bytes of each piece in which the heap grew, in order.
    #[cfg(test)]
    pub(super) fn pieces(&self) -> &[u64] {
        &self.pieces
    }

    /// Runs of pages that were written and are still there.
    pub(super) fn written(&self) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for page in (0..).zip(&self.written).filter_map(|(page, &yes)| yes.then_some(page)) {
            match runs.last_mut() {
                Some(run) if run.end == page => run.end += 1,
                _ => runs.push(page..page + 1),
            }
        }
        runs
    }

    /// An array of so many bytes, which is written in full.
    pub(super) fn allocate(&mut self, bytes: u64) -> Chunk {
        let size = (bytes + HEADER / 2).next_multiple_of(16).max(MIN_CHUNK);
        let chunk = self.take_free(size).unwrap_or_else(|| self.take_new(bytes, size));
        self.write(chunk.at()..chunk.at() + bytes);
        chunk
    }

    /// Gives it back.
    pub(super) fn free(&mut self, chunk: Chunk) {
        let Chunk { start, bytes, mapped } = chunk;
        if !mapped {
            return self.put(start, bytes);
        }
        if bytes <= LAST_THRESHOLD {
            self.threshold = self.threshold.max(bytes);
        }
        self.unmap(start, bytes);
    }

    fn unmap(&mut self, start: u64, bytes: u64) {
        let pages = start / PAGE_BYTES..(start + bytes) / PAGE_BYTES;
        self.written[pages.start as usize..pages.end as usize].fill(false);
        let (mut start, mut bytes) = (start, bytes);
        if let Some(after) = self.holes.remove(&(start + bytes)) {
            bytes += after;
        }
        if let Some((&before, &len)) = self.holes.range(..start).next_back()
            && before + len == start
        {
            (start, bytes) = (before, len + bytes);
        }
        self.holes.insert(start, bytes);
    }

    /// The array moves to where it can be larger.
    pub(super) fn grow(&mut self, chunk: Chunk, bytes: u64) -> Chunk {
        if chunk.mapped {
            // The kernel moves pages of mappings, so that both are never there; nor is this a free.
            self.unmap(chunk.start, chunk.bytes);
            return self.map_chunk(bytes);
        }
        let larger = self.allocate(bytes);
        self.free(chunk);
        larger
    }

    fn take_free(&mut self, size: u64) -> Option<Chunk> {
        let (bytes, start) = *self.by_size.range((size, 0)..).next()?;
        self.forget(start, bytes);
        let rest = bytes - size;
        let bytes = if rest < MIN_CHUNK { bytes } else { size };
        if rest >= MIN_CHUNK {
            self.put(start + size, rest);
        }
        Some(Chunk { start, bytes, mapped: false })
    }

    fn take_new(&mut self, asked: u64, size: u64) -> Chunk {
        if self.top.end - self.top.start < size + MIN_CHUNK {
            if size >= self.threshold {
                return self.map_chunk(asked);
            }
            let piece = (size + TOP_PAD + MIN_CHUNK).next_multiple_of(PAGE_BYTES);
            let start = self.map(piece);
            let old = std::mem::replace(&mut self.top, start..start + piece);
            let rest = (old.end - old.start).saturating_sub(MIN_CHUNK);
            if rest >= MIN_CHUNK {
                self.put(old.start, rest);
            }
            self.pieces.push(piece);
        }
        let start = self.top.start;
        self.top.start += size;
        Chunk { start, bytes: size, mapped: false }
    }

    fn map_chunk(&mut self, asked: u64) -> Chunk {
        let bytes = (asked + HEADER).next_multiple_of(PAGE_BYTES);
        let chunk = Chunk { start: self.map(bytes), bytes, mapped: true };
        self.write(chunk.at()..chunk.at() + asked);
        chunk
    }

    /// A free chunk becomes one with those beside it.
    fn put(&mut self, mut start: u64, mut bytes: u64) {
        if let Some((&before, &len)) = self.by_start.range(..start).next_back()
            && before + len == start
        {
            self.forget(before, len);
            (start, bytes) = (before, bytes + len);
        }
        if let Some(&len) = self.by_start.get(&(start + bytes)) {
            self.forget(start + bytes, len);
            bytes += len;
        }
        if start + bytes == self.top.start {
            self.top.start = start;
        } else {
            self.by_start.insert(start, bytes);
            self.by_size.insert((bytes, start));
        }
    }

    fn forget(&mut self, start: u64, bytes: u64) {
        self.by_start.remove(&start);
        self.by_size.remove(&(bytes, start));
    }

    fn map(&mut self, bytes: u64) -> u64 {
        let hole = self.holes.iter().find(|(_, len)| **len >= bytes).map(|(at, len)| (*at, *len));
        let Some((start, len)) = hole else {
            let last = self.holes.last_key_value().map(|(at, len)| (*at, *len));
            let start = match last {
                Some((at, len)) if at + len == self.end => {
                    self.holes.remove(&at);
                    at
                }
                _ => self.end,
            };
            self.end = start + bytes;
            self.written.resize((self.end / PAGE_BYTES) as usize, false);
            return start;
        };
        self.holes.remove(&start);
        if len > bytes {
            self.holes.insert(start + bytes, len - bytes);
        }
        start
    }

    fn write(&mut self, bytes: Range<u64>) {
        let pages = bytes.start / PAGE_BYTES..bytes.end.div_ceil(PAGE_BYTES);
        self.written[pages.start as usize..pages.end as usize].fill(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    #[test]
    fn the_first_large_array_is_mapped_the_next_gets_a_piece() {
        let mut heap = GlibcHeap::new();
        let first = heap.allocate(1000 * KIB);
        assert!(first.mapped && heap.pieces().is_empty());
        heap.free(first);
        let second = heap.allocate(990 * KIB);
        assert!(!second.mapped);
        assert_eq!(heap.pieces(), [1120 * KIB], "128 KiB more, in whole pages");
        assert!(heap.allocate(1010 * KIB).mapped, "larger than what was given back");
        let huge = heap.allocate(33 << 20);
        heap.free(huge);
        assert!(heap.allocate(33 << 20).mapped, "above the last threshold for good");
    }

    #[test]
    fn free_chunks_are_taken_by_best_fit_and_become_one_again() {
        let mut heap = GlibcHeap::new();
        let threshold = heap.allocate(4096 * KIB);
        heap.free(threshold);
        let chunks: Vec<Chunk> = [900, 500, 700, 500].map(|k| heap.allocate(k * KIB)).to_vec();
        let [large, fence, middle, last] = <[Chunk; 4]>::try_from(chunks).unwrap();
        assert_eq!(heap.pieces().len(), 4);
        heap.free(large.clone());
        heap.free(middle.clone());
        let best = heap.allocate(600 * KIB);
        assert_eq!(best.start, middle.start, "not the first of the two, but the smaller one");
        heap.free(best);
        assert_eq!(heap.allocate(710 * KIB).start, middle.start, "with the rest of its piece");
        assert_eq!(heap.allocate(1000 * KIB).start, large.start);
        assert!(heap.allocate(1100 * KIB).start > last.start);
        assert!(!fence.mapped);
    }

    #[test]
    fn nothing_overlaps_whatever_comes_and_goes() {
        let mut heap = GlibcHeap::new();
        let mut random = frostline_core::rng::Rng::new(5);
        let mut held: Vec<(Chunk, u64)> = Vec::new();
        for _ in 0..2000 {
            if held.len() > 20 {
                let (chunk, _) = held.swap_remove(random.below(20) as usize);
                heap.free(chunk);
            }
            let bytes = 1 + random.below(300 * KIB);
            held.push((heap.allocate(bytes), bytes));
            let mut all: Vec<_> = held.iter().map(|(c, n)| (c.start, c.at() + n - 8)).collect();
            all.sort_unstable();
            assert!(all.windows(2).all(|two| two[0].1 <= two[1].0));
            let (newest, bytes) = held.last().unwrap();
            let pages = newest.at() / PAGE_BYTES..(newest.at() + bytes).div_ceil(PAGE_BYTES);
            assert!(pages.clone().all(|page| heap.written().iter().any(|run| run.contains(&page))));
        }
        assert!(heap.pieces().len() > 5 && heap.end() < 60 << 20, "{}", heap.end() >> 20);
    }
}
