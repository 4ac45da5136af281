//! Pages whose zeroes are still in the cache.
//!
//! Where nothing overlaps, zeroing a page waits for each of its lines, and leaves them in the cache: the program
//! finds them there. A recording knows nothing of the kernel's work and has a miss for each line that the program
//! touches. Those that come while the page is in the cache did not happen.

use super::setup::Setup;
use crate::machine::LINE_BYTES;
use frostline_core::types::*;
use std::collections::{HashMap, VecDeque};

/// Lines of a page.
const LINES: u8 = (PAGE_BYTES / LINE_BYTES) as u8;

/// The pages that were zeroed last, as many as the recording's cache holds.
#[derive(Debug, Default)]
pub(super) struct Zeroed {
    most: usize,
    order: VecDeque<PageId>,
    /// Lines that the program has not been seen to touch.
    left: HashMap<PageId, u8>,
    /// Lines that came into the cache since the last page did: they take its place.
    since: usize,
    /// Accesses that found one, thinning multiplied out, by tier.
    pub(super) spared: [u64; MAX_TIERS],
}

impl Zeroed {
    /// For a cache of so many bytes; 0 where nobody waits for single lines.
    pub(super) fn new(cache_bytes: u64) -> Self {
        Self { most: (cache_bytes / PAGE_BYTES) as usize, ..Self::default() }
    }

    fn add(&mut self, page: PageId) {
        if self.most == 0 {
            return;
        }
        if self.order.len() >= self.most
            && let Some(oldest) = self.order.pop_front()
        {
            self.left.remove(&oldest);
        }
        self.order.push_back(page);
        self.left.insert(page, LINES);
        self.since = 0;
    }

    /// Whether an access may find a line of them.
    #[inline]
    pub(super) fn is_warm(&self) -> bool {
        !self.order.is_empty()
    }

    /// A run has been zeroed.
    pub(super) fn add_run(&mut self, run: PageRun) {
        run.iter().for_each(|page| self.add(page));
    }

    /// An access in a tier: what it did not wait for, because zeroing had brought the line.
    pub(super) fn spared_ns(
        &mut self,
        setup: &Setup<'_>,
        page: PageId,
        kind: AccessKind,
        tier: TierId,
    ) -> f64 {
        if kind == AccessKind::WriteBack || !self.is_warm() {
            return 0.0;
        }
        self.pass(1);
        if !self.has_line(page) {
            return 0.0;
        }
        self.spared[tier.index()] += u64::from(setup.thinning);
        setup.machine.stall_ns(kind, tier.index())
    }

    /// So many lines have come into the cache.
    fn pass(&mut self, accesses: usize) {
        self.since += accesses;
        if self.since > self.most * usize::from(LINES) {
            self.order.clear();
            self.left.clear();
        }
    }

    /// Whether the line that a recording misses was there.
    fn has_line(&mut self, page: PageId) -> bool {
        let Some(left) = self.left.get_mut(&page).filter(|left| **left > 0) else { return false };
        *left -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_holds_the_last_pages_and_each_line_once() {
        let mut zeroed = Zeroed::new(2 * PAGE_BYTES);
        zeroed.add(PageId(1));
        zeroed.add(PageId(2));
        let lines = (0..100).filter(|_| zeroed.has_line(PageId(1))).count();
        assert_eq!(lines, 64);
        zeroed.add(PageId(3));
        assert!(!zeroed.has_line(PageId(1)) && zeroed.has_line(PageId(2)), "1 is the oldest");
        zeroed.pass(128);
        assert!(zeroed.is_warm() && zeroed.has_line(PageId(3)), "as many lines as there are");
        zeroed.pass(1);
        assert!(!zeroed.is_warm() && !zeroed.has_line(PageId(3)));
        let mut none = Zeroed::new(0);
        none.add(PageId(1));
        assert!(!none.has_line(PageId(1)));
    }
}
