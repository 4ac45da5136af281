//! LRU over dense page ids, as a log of accesses instead of a linked list.
//!
//! Every access appends its page to a log and notes the position as the page's last one. An entry
//! counts only while it is its page's last; the oldest such entry is the least recently used page.
//! A hit therefore costs one random memory access (a list costs three, dependent on one another),
//! and the log is swept of outdated entries when it is full. Exact, not an approximation.

use crate::PageCache;

/// Position of pages that are not in the cache.
const ABSENT: u32 = u32::MAX;
/// Log entries per page of capacity: more are swept less often, but fill the processor's caches.
const LOG_FACTOR: usize = 4;

/// A cache that evicts the least recently used page.
#[derive(Debug)]
pub struct Lru {
    capacity: usize,
    resident: usize,
    misses: u64,
    /// Pages in the order of access; entries before `oldest` no longer count.
    log: Vec<u32>,
    oldest: usize,
    /// Per page, the position of its last access in the log, or `ABSENT`.
    last: Vec<u32>,
}

impl Lru {
    /// An empty cache of `capacity` pages, for page ids below `pages`.
    ///
    /// # Panics
    /// Where the capacity is 0 or needs a log of more than 2^32 entries.
    pub fn new(capacity: usize, pages: usize) -> Self {
        let entries = (capacity * LOG_FACTOR).max(1 << 12);
        assert!(capacity > 0 && entries < ABSENT as usize, "no LRU of {capacity} pages");
        Self {
            capacity,
            resident: 0,
            misses: 0,
            log: Vec::with_capacity(entries),
            oldest: 0,
            last: vec![ABSENT; pages],
        }
    }

    #[inline]
    fn access(&mut self, page: u32) {
        let position = self.log.len() as u32;
        self.log.push(page);
        let last = &mut self.last[page as usize];
        let before = *last;
        *last = position;
        if before == ABSENT {
            self.misses += 1;
            if self.resident < self.capacity {
                self.resident += 1;
            } else {
                self.evict();
            }
        }
    }

    #[inline]
    fn evict(&mut self) {
        loop {
            let position = self.oldest;
            let last = &mut self.last[self.log[position] as usize];
            self.oldest += 1;
            if *last == position as u32 {
                *last = ABSENT;
                return;
            }
        }
    }

    /// Drops outdated entries from the log.
    #[cold]
    fn sweep(&mut self) {
        let mut kept = 0;
        for position in self.oldest..self.log.len() {
            let page = self.log[position];
            let last = &mut self.last[page as usize];
            // Without a branch: whether an entry is outdated is unpredictable. The slot at `kept`
            // is overwritten by the next entry where this one does not count.
            let counts = *last == position as u32;
            self.log[kept] = page;
            *last = if counts { kept as u32 } else { *last };
            kept += usize::from(counts);
        }
        self.log.truncate(kept);
        self.oldest = 0;
    }
}

impl PageCache for Lru {
    fn access_all(&mut self, pages: &[u32]) {
        for pages in pages.chunks(crate::GROUP) {
            if self.log.capacity() - self.log.len() < pages.len() {
                self.sweep();
            }
            crate::touch(&self.last, pages);
            for &page in pages {
                self.access(page);
            }
        }
    }

    fn misses(&self) -> u64 {
        self.misses
    }

    fn resident(&self) -> usize {
        self.resident
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// The definition: a queue in the order of last use.
    fn misses_by_definition(capacity: usize, pages: &[u32]) -> u64 {
        let mut queue: VecDeque<u32> = VecDeque::new();
        let mut misses = 0;
        for &page in pages {
            match queue.iter().position(|&p| p == page) {
                Some(at) => drop(queue.remove(at)),
                None => {
                    misses += 1;
                    if queue.len() == capacity {
                        queue.pop_front();
                    }
                }
            }
            queue.push_back(page);
        }
        misses
    }

    #[test]
    fn the_least_recently_used_page_goes() {
        let mut lru = Lru::new(2, 3);
        lru.access_all(&[0, 1, 0, 2, 0, 1]);
        assert_eq!(lru.misses(), 4, "1 went for 2, 2 for 1, 0 stayed");
        assert_eq!(lru.resident(), 2);
    }

    #[test]
    fn sweeping_the_log_changes_nothing() {
        let pages: Vec<u32> =
            (0..100_000_u32).map(|i| i.wrapping_mul(2_654_435_761) % 97).collect();
        let mut lru = Lru::new(50, 97);
        let entries = lru.log.capacity();
        lru.access_all(&pages);
        assert!(pages.len() > 10 * entries, "the log was swept many times");
        assert_eq!(lru.log.capacity(), entries, "and never grew");
        assert_eq!(lru.misses(), misses_by_definition(50, &pages));
    }

    proptest! {
        #[test]
        fn misses_as_by_definition(
            capacity in 1_usize..40,
            pages in prop::collection::vec(0_u32..64, 0..6000),
        ) {
            let mut lru = Lru::new(capacity, 64);
            lru.access_all(&pages);
            prop_assert_eq!(lru.misses(), misses_by_definition(capacity, &pages));
            let live = lru.last.iter().filter(|&&at| at != ABSENT).count();
            prop_assert_eq!(live, lru.resident());
        }
    }
}
