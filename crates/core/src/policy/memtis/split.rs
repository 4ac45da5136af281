//! Whether, how many and which huge pages to split (MEMTIS §4.3).

use crate::types::*;
use alloc::vec::Vec;

/// Hits counted between two estimations of the benefit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hits {
    /// Samples.
    pub samples: u64,
    /// Samples served by the fast tier.
    pub fast: u64,
    /// Samples that the fast tier would have served, had all memory been base pages and the
    /// hottest been there.
    pub ideal: u64,
    /// Samples of pages that were hot as they are mapped: those that the fast tier serves once
    /// all migrations are done.
    pub hot: u64,
}

impl Hits {
    /// `(eHR, rHR)`: estimated and real hit ratio, 0 without samples.
    pub(super) fn ratios(&self) -> (f64, f64) {
        (self.ratio(self.ideal), self.ratio(self.fast))
    }

    fn ratio(&self, hits: u64) -> f64 {
        if self.samples == 0 { 0.0 } else { hits as f64 / self.samples as f64 }
    }
}

/// How the benefit is turned into a number of huge pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SplitRule {
    /// Least `eHR - rHR` for which anything is split.
    pub least_benefit: f64,
    /// Factor on `eHR`, below 1 to be careful.
    pub discount: f64,
    /// `(L_cap - L_fast) / L_fast`.
    pub latency_gap: f64,
    /// Scale factor `beta`.
    pub beta: f64,
    /// Whether the number is capped by that of huge pages sampled.
    pub capped: bool,
    /// Whether a low `rHR` counts only as far as finished migrations would leave it low.
    pub patient: bool,
}

impl SplitRule {
    /// Equation 2: the number of huge pages to split, where `sampled` is the number of huge pages
    /// sampled and the sum of their hotness.
    pub(super) fn count(&self, hits: &Hits, sampled: (u64, u64)) -> u64 {
        let (ideal, real) = hits.ratios();
        let settled = if self.patient { real.max(hits.ratio(hits.hot)) } else { real };
        let benefit = ideal * self.discount - settled;
        let (pages, hotness) = sampled;
        if benefit < self.least_benefit || benefit <= 0.0 || pages == 0 || hotness == 0 {
            return 0;
        }
        let average = hotness as f64 / pages as f64;
        let distinct = hits.samples as f64 / average;
        let wanted = benefit * self.latency_gap * distinct * self.beta;
        (if self.capped { wanted.min(distinct) } else { wanted }) as u64
    }
}

/// Fraction bits of a [`skew`].
const SKEW_FRACTION: u32 = 32;

/// Equation 3 in units of 2^-32: the sum of squared subpage hotness over the squared number of
/// subpages with a hotness of at least `hot`; 0 where there is none.
pub(super) fn skew(subpages: impl Iterator<Item = u32>, hot: u32) -> u128 {
    let (mut squares, mut used) = (0u128, 0u64);
    for hotness in subpages {
        squares += u128::from(u64::from(hotness) * u64::from(hotness));
        used += u64::from(hotness >= hot);
    }
    if used == 0 { 0 } else { (squares << SKEW_FRACTION) / u128::from(used * used) }
}

/// Huge pages by skew, one bucket per power of two.
#[derive(Clone, Debug, Default)]
pub(super) struct SkewBuckets {
    buckets: Vec<Vec<u32>>,
}

impl SkewBuckets {
    pub(super) fn clear(&mut self) {
        self.buckets.iter_mut().for_each(Vec::clear);
    }

    /// Files a huge page; one without skew is no candidate.
    pub(super) fn insert(&mut self, region: Region, skew: u128) {
        let Some(bucket) = skew.checked_ilog2() else { return };
        let bucket = bucket as usize;
        if bucket >= self.buckets.len() {
            self.buckets.resize_with(bucket + 1, Vec::new);
        }
        self.buckets[bucket].push(region.0);
    }

    /// Takes at most `count` regions out, highest bucket first.
    pub(super) fn take(&mut self, count: u64, mut give: impl FnMut(Region)) {
        let mut left = count;
        for bucket in self.buckets.iter_mut().rev() {
            let n = left.min(bucket.len() as u64);
            bucket.drain(..n as usize).for_each(|region| give(Region(region)));
            left -= n;
        }
    }

    pub(super) fn bytes(&self) -> Bytes {
        let regions: usize = self.buckets.iter().map(Vec::capacity).sum();
        Bytes((regions * 4 + self.buckets.capacity() * size_of::<Vec<u32>>()) as u64)
    }
}
