//! Distance between two profiles.

use crate::profile::{Profile, RegionUse};
use frostline_core::types::HUGE_PAGES;
use serde::Serialize;

/// The smallest memory of the curves compared: 1/256 of the pages.
const OCTAVES: i32 = 8;
/// Sizes from one to its double.
const STEPS: i32 = 8;

/// Distances of two profiles, each from 0 (alike) to 1. Sizes are shares of the pages that each of
/// the two touches, so that a small run can be held against a large one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Distance {
    /// Mean difference of the miss ratios over the sizes of [`curve_shares`].
    pub miss_curve: f64,
    /// Largest of these differences.
    pub miss_curve_max: f64,
    /// Largest difference of the shares of accesses that the hottest pages take, over all numbers
    /// of pages (the statistic of Kolmogorov and Smirnov).
    pub popularity: f64,
    /// How huge pages are used: the larger of the next two.
    pub utilisation: f64,
    /// Area between the two distributions of touched pages in a region, over accesses: by how much
    /// of a huge page accesses must be shifted to make one into the other (Wasserstein's distance).
    pub touched: f64,
    /// The same for busy pages: the fewest that take 90 % of a region's accesses.
    pub busy: f64,
    /// Largest difference of the distributions of touched pages (Kolmogorov and Smirnov). 1 where
    /// all regions of one have 511 pages and all of the other 512: read it with `touched`.
    pub touched_largest: f64,
    /// The same for busy pages.
    pub busy_largest: f64,
}

/// Sizes at which miss-ratio curves are compared: shares of the pages touched from 1/256 to 1,
/// eight to the octave. On a logarithmic scale, because fast memories are half, a ninth, a
/// seventeenth of a footprint; below 1/256 hardly any machine has so little, and above 1
/// everything fits.
pub fn curve_shares() -> impl Iterator<Item = f64> {
    (-OCTAVES * STEPS..=0).map(|i| (f64::from(i) / f64::from(STEPS)).exp2())
}

impl Distance {
    /// The distances of two profiles; which comes first makes no difference.
    pub fn between(a: &Profile, b: &Profile) -> Self {
        let differences: Vec<f64> = curve_shares()
            .map(|share| (a.miss_ratio_at(share) - b.miss_ratio_at(share)).abs())
            .collect();
        let (touched, touched_largest) = over_regions(a, b, |region| region.touched_pages);
        let (busy, busy_largest) = over_regions(a, b, |region| region.busy_pages);
        Self {
            miss_curve: differences.iter().sum::<f64>() / differences.len() as f64,
            miss_curve_max: differences.into_iter().fold(0.0, f64::max),
            popularity: popularity(a, b),
            utilisation: touched.max(busy),
            touched,
            busy,
            touched_largest,
            busy_largest,
        }
    }

    /// The largest of the three that are shown first.
    pub fn worst(&self) -> f64 {
        self.miss_curve.max(self.popularity).max(self.utilisation)
    }
}

/// Between whole pages both curves are straight: their difference is largest where one has a page.
fn popularity(a: &Profile, b: &Profile) -> f64 {
    let at_pages_of = |of: &Profile| {
        let pages = of.pages();
        let shares = (0..=pages).map(|i| i as f64 / pages.max(1) as f64);
        shares.map(|x| (a.popularity(x) - b.popularity(x)).abs()).fold(0.0, f64::max)
    };
    at_pages_of(a).max(at_pages_of(b))
}

/// Area between two distributions of accesses over what `of` says of their regions, with the axis
/// of 0 to 512 pages taken as 1, and their largest difference.
fn over_regions(a: &Profile, b: &Profile, of: fn(&RegionUse) -> u16) -> (f64, f64) {
    let distribution = |profile: &Profile| {
        let mut accesses = vec![0u64; HUGE_PAGES as usize + 1];
        for region in profile.regions() {
            accesses[usize::from(of(region))] += region.accesses;
        }
        let all = profile.records().max(1) as f64;
        let mut sum = 0;
        accesses.into_iter().map(move |n| {
            sum += n;
            sum as f64 / all
        })
    };
    let differences = distribution(a).zip(distribution(b)).map(|(x, y)| (x - y).abs());
    let (sum, largest) = differences.fold((0.0, 0.0f64), |(sum, max), d| (sum + d, max.max(d)));
    (sum / f64::from(HUGE_PAGES), largest)
}
