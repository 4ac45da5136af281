//! Hotness of every base page in two bytes, exact.

use crate::types::*;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use prefetch_index::prefetch_index;

/// Hotness that one sampled access of a base page is worth: counts are kept 512-fold so that a
/// base page compares with a huge one, and so that halving loses nothing for nine coolings.
pub(super) const ACCESS: u32 = HUGE_PAGES;

/// From here on a count is in the histogram's open top bin and its upper part is spilled.
const SPILLING: u32 = 1 << 15;
/// What one spilled unit is worth.
const SPILL: u32 = 1 << 14;
/// Values halved together: one cache line of them.
const LINE: usize = 32;
/// Not a count: the page is not tracked.
const UNTRACKED: u16 = u16::MAX;

/// Hotness by base page.
///
/// A stored value below 2^15 is the hotness. Others lie in `[2^15, 2^15 + 2^14)` and mean that
/// the page is in the top bin; its hotness is the value plus 2^14 times what is spilled to a map.
/// At most one page in 64 samples gets there, so the map stays small, and most samples touch two
/// bytes of memory and nothing else.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    values: Vec<u16>,
    spilled: BTreeMap<u32, u32>,
}

/// A stored value: orders pages correctly below the top bin, and all of the top bin above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stored(u16);

impl Stored {
    /// The hotness, exact below the top bin, at least 2^15 in it.
    #[inline]
    pub(super) fn clipped(self) -> u32 {
        u32::from(self.0)
    }
    #[inline]
    pub(super) fn is_tracked(self) -> bool {
        self.0 != UNTRACKED
    }
}

impl Counts {
    pub(super) fn with_capacity(pages: usize) -> Self {
        Self { values: Vec::with_capacity(pages), spilled: BTreeMap::new() }
    }

    pub(super) fn grow(&mut self, pages: usize) {
        if pages > self.values.len() {
            self.values.resize(pages, UNTRACKED);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    #[inline]
    pub(super) fn get(&self, page: u32) -> Stored {
        Stored(self.values.get(page as usize).copied().unwrap_or(UNTRACKED))
    }

    /// Stored values of a run.
    #[inline]
    pub(super) fn stored(&self, run: PageRun) -> impl Iterator<Item = Stored> + '_ {
        self.values[run.range()].iter().map(|v| Stored(*v))
    }

    /// The hotness of a tracked page.
    pub(super) fn exact(&self, page: u32) -> u32 {
        let value = u32::from(self.values[page as usize]);
        if value < SPILLING {
            return value;
        }
        value + self.spilled.get(&page).copied().unwrap_or(0).saturating_mul(SPILL)
    }

    pub(super) fn set(&mut self, page: u32, hotness: u32) {
        self.forget(page);
        let spill = hotness.saturating_sub(SPILLING) / SPILL;
        self.values[page as usize] = (hotness - spill * SPILL) as u16;
        if spill > 0 {
            self.spilled.insert(page, spill);
        }
    }

    pub(super) fn forget(&mut self, page: u32) {
        if u32::from(self.values[page as usize]) >= SPILLING {
            self.spilled.remove(&page);
        }
        self.values[page as usize] = UNTRACKED;
    }

    /// Adds one access. Gives the value before and after; `None`, and nothing done, for pages not
    /// tracked.
    #[inline]
    pub(super) fn access(&mut self, page: u32) -> Option<(Stored, Stored)> {
        let value = self.values.get_mut(page as usize).filter(|v| **v != UNTRACKED)?;
        let before = *value;
        let mut after = u32::from(before) + ACCESS;
        if after >= SPILLING + SPILL {
            after -= SPILL;
            *self.spilled.entry(page).or_insert(0) += 1;
        }
        *value = after as u16;
        Some((Stored(before), Stored(after as u16)))
    }

    /// Halves the hotness of all tracked pages of a region; `still_top` is called for each page
    /// that was in the top bin and remains there.
    pub(super) fn halve(&mut self, region: Region, mut still_top: impl FnMut()) {
        let first = region.first().0;
        for line in (first..first + HUGE_PAGES).step_by(LINE) {
            let values = &mut self.values[line as usize..][..LINE];
            if values.iter().fold(0, |all, v| all | *v) < SPILLING as u16 {
                values.iter_mut().for_each(|v| *v >>= 1);
                continue;
            }
            for page in line..line + LINE as u32 {
                let value = self.values[page as usize];
                if value < SPILLING as u16 {
                    self.values[page as usize] = value >> 1;
                } else if value != UNTRACKED {
                    let half = self.exact(page) / 2;
                    self.set(page, half);
                    if half >= SPILLING {
                        still_top();
                    }
                }
            }
        }
    }

    /// Has what a page's next access needs loaded into the cache, without waiting for it.
    #[inline]
    pub(super) fn prefetch(&self, page: u32) {
        prefetch_index(&self.values, page as usize);
    }

    pub(super) fn bytes(&self) -> Bytes {
        // A B-tree node of 11 pairs is at least half full; 16 B a pair covers it.
        Bytes((self.values.capacity() * 2 + self.spilled.len() * 16) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_top_bin_spills_and_comes_back() {
        let mut counts = Counts::default();
        counts.grow(512);
        assert_eq!(counts.access(3), None);
        counts.set(3, 0);
        for _ in 0..1000 {
            counts.access(3).unwrap();
        }
        assert_eq!(counts.exact(3), 512_000);
        assert!(!counts.spilled.is_empty());
        let mut tops = 0;
        for _ in 0..4 {
            counts.halve(Region(0), || tops += 1);
        }
        assert_eq!(counts.exact(3), 32_000);
        assert_eq!(tops, 3, "512000 stays in the top bin three times");
        assert!(counts.spilled.is_empty());
        assert!(!counts.get(4).is_tracked());
    }

    proptest! {
        #[test]
        fn agrees_with_plain_integers(steps in proptest::collection::vec((0u32..8, 0u32..400), 1..60)) {
            let mut counts = Counts::default();
            counts.grow(512);
            let mut plain = [0u32; 4];
            (0..4).for_each(|p| counts.set(p, 0));
            for (what, n) in steps {
                match what {
                    0 => {
                        counts.halve(Region(0), || ());
                        plain.iter_mut().for_each(|h| *h /= 2);
                    }
                    1 => {
                        counts.set(0, n * 1000);
                        plain[0] = n * 1000;
                    }
                    p => for _ in 0..n {
                        counts.access(p % 4);
                        plain[p as usize % 4] += ACCESS;
                    }
                }
                for p in 0..4 {
                    prop_assert_eq!(counts.exact(p), plain[p as usize]);
                    prop_assert_eq!(counts.get(p).clipped() >= SPILLING, plain[p as usize] >= SPILLING);
                }
            }
        }
    }
}
