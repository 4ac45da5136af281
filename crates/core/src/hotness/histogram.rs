//! Histogram of page hotness over exponential bins.

/// Number of bins.
pub const BINS: usize = 16;
/// Hotness from which on a page is in the last, open bin.
pub const TOP: u32 = 1 << (BINS - 1);

/// How hotness maps to a bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Binning {
    /// Bin `n` is `[2^n, 2^(n+1))`, bin 0 is `[0, 2)`: halving moves a page exactly one bin down.
    #[default]
    Exact,
    /// `floor(log2(H + 1))`, as in the code published with MEMTIS (SOSP '23): a page just below a
    /// power of two counts for the next bin.
    PlusOne,
}

impl Binning {
    /// The bin of a hotness, `0..16`.
    #[inline]
    pub const fn bin(self, hotness: u32) -> usize {
        let shifted = match self {
            Self::Exact => hotness,
            Self::PlusOne => hotness.saturating_add(1),
        };
        let log = (shifted | 1).ilog2() as usize;
        if log < BINS { log } else { BINS - 1 }
    }

    /// The least hotness of a bin.
    pub const fn floor(self, bin: usize) -> u32 {
        match (bin, self) {
            (0, _) => 0,
            (_, Self::Exact) => 1 << bin,
            (_, Self::PlusOne) => (1 << bin) - 1,
        }
    }
}

/// Pages per bin, in units of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    bins: [u64; BINS],
}

impl Histogram {
    /// From counts by bin.
    pub const fn new(bins: [u64; BINS]) -> Self {
        Self { bins }
    }

    /// Pages by bin.
    pub const fn bins(&self) -> &[u64; BINS] {
        &self.bins
    }

    /// Pages in all bins.
    pub fn total(&self) -> u64 {
        self.bins.iter().sum()
    }

    /// Pages in the bins from `bin` on; negative bins hold nothing.
    pub fn at_least(&self, bin: i8) -> u64 {
        self.bins.iter().skip(bin.max(0) as usize).sum()
    }

    /// Bin by bin.
    pub fn sum(&self, other: &Self) -> Self {
        Self { bins: core::array::from_fn(|bin| self.bins[bin] + other.bins[bin]) }
    }

    /// Adds pages.
    #[inline]
    pub fn add(&mut self, bin: usize, pages: u64) {
        self.bins[bin % BINS] += pages;
    }

    /// Takes pages out.
    #[inline]
    pub fn remove(&mut self, bin: usize, pages: u64) {
        self.bins[bin % BINS] -= pages;
    }

    /// Moves pages between bins.
    #[inline]
    pub fn shift(&mut self, from: usize, to: usize, pages: u64) {
        self.remove(from, pages);
        self.add(to, pages);
    }

    /// What halving every page's hotness does to [`Binning::Exact`] bins: each goes one to the
    /// left. Pages of the open top bin that remain there are corrected by the caller.
    pub fn cool(&mut self) {
        let lowest = self.bins[0];
        self.bins.copy_within(1.., 0);
        self.bins[0] += lowest;
        self.bins[BINS - 1] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bin_boundaries() {
        for n in 1..BINS {
            let floor = 1u32 << n;
            assert_eq!(Binning::Exact.bin(floor), n);
            assert_eq!(Binning::Exact.bin(floor - 1), n - 1);
            assert_eq!(Binning::PlusOne.bin(floor - 1), n);
            assert_eq!(Binning::PlusOne.bin(floor - 2), n - 1);
        }
        for binning in [Binning::Exact, Binning::PlusOne] {
            assert_eq!(binning.bin(0), 0);
            assert_eq!(binning.bin(u32::MAX), 15);
        }
        assert_eq!(Binning::Exact.bin(1), 0);
        assert_eq!(Binning::PlusOne.bin(1), 1);
    }

    #[test]
    fn a_floor_is_the_least_of_its_bin() {
        for binning in [Binning::Exact, Binning::PlusOne] {
            for bin in 1..BINS {
                assert_eq!(binning.bin(binning.floor(bin)), bin);
                assert_eq!(binning.bin(binning.floor(bin) - 1), bin - 1);
            }
        }
    }

    #[test]
    fn one_scaled_access_halves_by_one_bin() {
        // An unscaled count of 1 would fall from its bin to the lowest one at once.
        let hotness = HUGE;
        assert_eq!(Binning::Exact.bin(hotness), 9);
        assert_eq!(Binning::Exact.bin(hotness / 2), 8);
        assert_eq!(Binning::Exact.bin((hotness / HUGE / 2) * HUGE), 0);
    }
    const HUGE: u32 = crate::types::HUGE_PAGES;

    proptest! {
        #[test]
        fn halving_moves_one_bin_left(hotness in proptest::collection::vec(0..u32::from(u16::MAX), 1..200)) {
            let mut cooled = Histogram::default();
            let mut recount = Histogram::default();
            let bin = |h| Binning::Exact.bin(h);
            for &h in &hotness {
                cooled.add(bin(h), 1);
                recount.add(bin(h / 2), 1);
            }
            cooled.cool();
            prop_assert_eq!(cooled, recount);
            prop_assert_eq!(cooled.total(), hotness.len() as u64);
        }
    }
}
