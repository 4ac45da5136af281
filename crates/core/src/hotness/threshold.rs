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
    /// takes no more than `alpha` of them; never with an `alpha` of 0, always with one of 1 or
    /// more.
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
