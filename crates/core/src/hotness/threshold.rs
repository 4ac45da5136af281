//! Thresholds that make the hot set as large as the fast tier: Algorithm 1 of MEMTIS (SOSP '23).

use super::histogram::{BINS, Histogram};
use crate::types::PageCount;

/// Classes of hotness, as bins of a [`Histogram`]: hot from `hot` on, cold up to `cold`, warm in
/// between. Below 0 where every page belongs to the class above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Least bin of hot pages, `0..16`.
    pub hot: i8,
    /// `hot`, or one less where the hot set leaves fast memory over.
    pub warm: i8,
    /// Largest bin of cold pages: one below `warm`.
    pub cold: i8,
}

impl Thresholds {
    /// Before the first adaptation.
    pub const INITIAL: Self = Self { hot: 1, warm: 1, cold: 0 };

    /// The largest hot set that fits into `fast` pages. A warm class exists where the hot set
    /// takes no more than the share `alpha` of them.
    ///
    /// Where not even the top bin fits, that bin is the hot set all the same: thresholds name
    /// bins, and a hot set of nothing would leave arbitrary pages in fast memory.
    pub fn adapt(histogram: &Histogram, fast: PageCount, alpha: f64) -> Self {
        let mut size = 0;
        let mut hot = BINS as i8;
        for (bin, pages) in histogram.bins().iter().enumerate().rev() {
            if size + pages > fast.0 {
                break;
            }
            size += pages;
            hot = bin as i8;
        }
        let filled = size as f64 > fast.0 as f64 * alpha;
        Self::from_hot(hot.min(BINS as i8 - 1), !filled)
    }

    /// Classes with a given hot threshold.
    pub const fn from_hot(hot: i8, with_warm: bool) -> Self {
        let warm = if with_warm { hot - 1 } else { hot };
        Self { hot, warm, cold: warm - 1 }
    }

    /// The class of a bin.
    pub const fn class(&self, bin: usize) -> Class {
        let bin = bin as i8;
        if bin >= self.hot {
            Class::Hot
        } else if bin > self.cold {
            Class::Warm
        } else {
            Class::Cold
        }
    }

    /// Pages by class: hot, warm, cold.
    pub fn sizes(&self, histogram: &Histogram) -> [u64; 3] {
        let hot = histogram.at_least(self.hot);
        let not_cold = histogram.at_least(self.cold + 1);
        [hot, not_cold - hot, histogram.total() - not_cold]
    }
}

/// What a page's hotness means for its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Belongs into the fast tier.
    Hot,
    /// Stays where it is.
    Warm,
    /// Makes room for others.
    Cold,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_warm_class_takes_what_the_hot_set_leaves() {
        let mut bins = [0; BINS];
        bins[12] = 80;
        bins[11] = 30;
        bins[3] = 1000;
        let histogram = Histogram::new(bins);
        let t = Thresholds::adapt(&histogram, PageCount(100), 0.9);
        assert_eq!((t.hot, t.warm, t.cold), (12, 11, 10));
        assert_eq!(t.sizes(&histogram), [80, 30, 1000]);
        let t = Thresholds::adapt(&histogram, PageCount(88), 0.9);
        assert_eq!((t.hot, t.warm, t.cold), (12, 12, 11), "80 is more than 0.9 x 88");
        assert_eq!(t.sizes(&histogram), [80, 0, 1030]);
    }

    #[test]
    fn everything_is_hot_where_everything_fits() {
        let t = Thresholds::adapt(&Histogram::new([5; BINS]), PageCount(80), 0.9);
        assert_eq!((t.hot, t.class(0)), (0, Class::Hot));
        let t = Thresholds::adapt(&Histogram::new([5; BINS]), PageCount(1000), 0.9);
        assert_eq!((t.hot, t.warm, t.cold), (0, -1, -2));
        assert_eq!(t.sizes(&Histogram::new([5; BINS])), [80, 0, 0]);
    }

    #[test]
    fn a_top_bin_that_does_not_fit_is_hot_all_the_same() {
        let t = Thresholds::adapt(&Histogram::new([5; BINS]), PageCount(4), 0.9);
        assert_eq!((t.hot, t.warm, t.cold), (15, 14, 13));
    }

    proptest! {
        #[test]
        fn agrees_with_trying_every_threshold(
            bins in proptest::array::uniform16(0u64..50),
            fast in 0u64..900,
            alpha in 0.0f64..1.0,
        ) {
            let histogram = Histogram::new(bins);
            let size = |hot: usize| bins[hot.min(BINS)..].iter().sum::<u64>();
            let best = (0..=BINS).find(|hot| size(*hot) <= fast).unwrap();
            let t = Thresholds::adapt(&histogram, PageCount(fast), alpha);
            prop_assert_eq!(t.hot as usize, best.min(BINS - 1));
            let warm = size(best) as f64 <= fast as f64 * alpha;
            prop_assert_eq!(t.hot - t.warm, i8::from(warm));
            prop_assert_eq!(t.cold, t.warm - 1);
            let mut sizes = [0; 3];
            for (bin, pages) in bins.iter().enumerate() {
                sizes[t.class(bin) as usize] += pages;
            }
            prop_assert_eq!(t.sizes(&histogram), sizes);
        }
    }
}
