//! Number and choice of huge pages to split (MEMTIS §4.3).

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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RULE: SplitRule = SplitRule {
        least_benefit: 0.05,
        discount: 1.0,
        latency_gap: 2.75,
        beta: 0.4,
        capped: true,
        patient: false,
    };

    fn hits(samples: u64, ideal: u64, fast: u64) -> Hits {
        Hits { samples, fast, ideal, hot: 0 }
    }

    #[test]
    fn nothing_is_split_below_the_least_benefit() {
        assert_eq!(RULE.count(&hits(1000, 549, 500), (100, 100)), 0);
        assert_eq!(RULE.count(&hits(1000, 560, 500), (100, 100)), 66);
        assert_eq!(RULE.count(&hits(1000, 400, 500), (100, 100)), 0);
        assert_eq!(RULE.count(&hits(0, 0, 0), (100, 100)), 0);
        assert_eq!(RULE.count(&hits(1000, 900, 0), (0, 0)), 0, "no huge page was sampled");
        let artifact = SplitRule { least_benefit: 0.0, discount: 0.95, capped: false, ..RULE };
        assert_eq!(artifact.count(&hits(1000, 520, 500), (100, 100)), 0);
        assert_eq!(artifact.count(&hits(1000, 540, 500), (100, 100)), 14);
    }

    #[test]
    fn the_number_is_capped_by_the_huge_pages_sampled() {
        let eager = SplitRule { latency_gap: 100.0, ..RULE };
        assert_eq!(eager.count(&hits(1000, 900, 100), (50, 200)), 250);
        let uncapped = SplitRule { capped: false, ..eager };
        assert_eq!(uncapped.count(&hits(1000, 900, 100), (50, 200)), 8000);
    }

    #[test]
    fn lagging_migration_is_no_reason_to_split() {
        let lagging = Hits { samples: 1000, fast: 100, ideal: 800, hot: 790 };
        assert!(RULE.count(&lagging, (100, 100)) > 0);
        assert_eq!(SplitRule { patient: true, ..RULE }.count(&lagging, (100, 100)), 0);
        let skewed = Hits { hot: 300, ..lagging };
        assert!(SplitRule { patient: true, ..RULE }.count(&skewed, (100, 100)) > 0);
    }

    #[test]
    fn squares_of_the_largest_counts_do_not_overflow() {
        let s = skew([u32::MAX; 512].into_iter(), 1);
        let square = u128::from(u32::MAX) * u128::from(u32::MAX);
        assert_eq!(s, ((512 * square) << SKEW_FRACTION) / (512 * 512));
        assert_eq!(skew([0; 512].into_iter(), 1), 0);
        assert_eq!(skew([7; 512].into_iter(), 8), 0, "no hot subpage, no skew");
    }

    #[test]
    fn the_most_skewed_are_taken_first_and_once() {
        let mut buckets = SkewBuckets::default();
        for (region, skew) in [(1, 1 << 40), (2, 1 << 90), (3, 3 << 40), (4, 0), (5, 5 << 88)] {
            buckets.insert(Region(region), skew);
        }
        let mut taken = Vec::new();
        buckets.take(2, |r| taken.push(r.0));
        taken.sort_unstable();
        assert_eq!(taken, [2, 5]);
        taken.clear();
        buckets.take(100, |r| taken.push(r.0));
        assert_eq!(taken, [3, 1], "without skew a huge page is no candidate");
        buckets.take(1, |_| panic!("empty"));
    }

    proptest! {
        #[test]
        fn the_number_follows_equation_2(
            (samples, ideal, fast) in (1u64..100_000).prop_flat_map(|n| (Just(n), 0..=n, 0..=n)),
            pages in 1u64..500,
            hotness in 1u64..100_000,
            gap in 0.0f64..20.0,
        ) {
            let n = samples as f64;
            let benefit = ideal as f64 / n - fast as f64 / n;
            let average = hotness as f64 / pages as f64;
            let direct = (benefit * gap * (n * 0.4 / average)).min(n / average);
            let direct = if benefit < 0.05 { 0.0 } else { direct };
            let rule = SplitRule { latency_gap: gap, ..RULE };
            let count = rule.count(&hits(samples, ideal, fast), (pages, hotness));
            prop_assert!((count as f64 - direct).abs() <= 1.0 + direct * 1e-9, "{count} {direct}");
        }

        #[test]
        fn skew_follows_equation_3(
            subpages in proptest::collection::vec(0u32..1 << 22, 512),
            hot in 1u32..1 << 20,
        ) {
            let used = subpages.iter().filter(|h| **h >= hot).count() as f64;
            let squares: f64 = subpages.iter().map(|h| f64::from(*h) * f64::from(*h)).sum();
            let direct = if used == 0.0 { 0.0 } else { squares / (used * used) };
            let ours = skew(subpages.into_iter(), hot) as f64 / (1u64 << SKEW_FRACTION) as f64;
            prop_assert!((ours - direct).abs() <= direct * 1e-9 + 1e-9, "{ours} {direct}");
        }
    }
}
