//! Regions of 2 MiB that are worth emptying of their hot pages (GPAC, section 4.3.1).

use crate::spec::SpecError;
use crate::types::HUGE_PAGES;
use core::fmt;

/// Two regions or more become one only where fewer than half of their pages are hot.
const AUTO_MOST: u32 = HUGE_PAGES / 2;

/// GPAC's consolidation limit: regions with fewer hot pages than that are emptied of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum ConsolidationLimit {
    /// What the distribution of hot pages over regions suggests.
    #[default]
    Auto,
    /// So many, 1 to 512.
    Pages(u32),
}

impl ConsolidationLimit {
    /// Reads `auto` or a number.
    ///
    /// # Errors
    /// Anything else.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        match text.parse() {
            _ if text == "auto" => Ok(Self::Auto),
            Ok(pages @ 1..=HUGE_PAGES) => Ok(Self::Pages(pages)),
            _ => Err(SpecError::new(
                alloc::format!("`{text}` is no number of hot pages in a region"),
                "give 1 to 512, or auto",
            )),
        }
    }

    /// The limit in effect where so many pages are hot in each region, at most 512 each.
    ///
    /// The automatic one takes the regions with no more than the mean of those that have any. Of all
    /// limits, the mean is where the share of hot regions taken exceeds the share of hot pages copied
    /// by most: the next region would cost more than it brings. At most 256: from there on, two
    /// regions no longer fit into one.
    pub fn of(self, hot: impl Iterator<Item = u32>) -> u32 {
        match self {
            Self::Pages(pages) => pages,
            Self::Auto => {
                let (mut regions, mut pages) = (0_u64, 0);
                for hot in hot.filter(|hot| *hot > 0) {
                    regions += 1;
                    pages += u64::from(hot);
                }
                let mean = pages.checked_div(regions).unwrap_or(0);
                AUTO_MOST.min(mean as u32 + 1)
            }
        }
    }
}

impl fmt::Display for ConsolidationLimit {
    /// As [`Self::parse`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Pages(pages) => write!(f, "{pages}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    fn auto(hot: &[u32]) -> u32 {
        ConsolidationLimit::Auto.of(hot.iter().copied())
    }

    #[test]
    fn the_automatic_limit_takes_sparse_regions_and_leaves_dense_ones() {
        assert_eq!(auto(&[0, 1, 1, 1]), 2, "one hot page each: all of them");
        assert_eq!(auto(&[10, 10, 10, 500]), 133);
        assert_eq!(auto(&[512; 4]), 256, "nothing to gain");
        assert_eq!((auto(&[]), auto(&[0; 9])), (1, 1));
        assert_eq!(ConsolidationLimit::Pages(50).of([512; 4].into_iter()), 50);
    }

    #[test]
    fn no_other_limit_sets_regions_free_at_a_better_price() {
        let mut rng = Rng::new(3);
        for _ in 0..50 {
            let most = rng.below(250) + 1;
            let hot: Vec<u32> = (0..200).map(|_| rng.below(most) as u32 + 1).collect();
            let (regions, pages) = (hot.len() as f64, f64::from(hot.iter().sum::<u32>()));
            let gain = |limit: u32| {
                let few = hot.iter().filter(|hot| **hot < limit);
                few.map(|hot| 1.0 / regions - f64::from(*hot) / pages).sum::<f64>()
            };
            let best = (1..=HUGE_PAGES).map(gain).fold(f64::MIN, f64::max);
            assert!(gain(auto(&hot)) > best - 1e-9);
        }
    }

    #[test]
    fn limits_are_read_and_written() {
        use ConsolidationLimit::{Auto, Pages};
        for (text, limit) in [("auto", Auto), ("290", Pages(290)), ("1", Pages(1))] {
            assert_eq!(ConsolidationLimit::parse(text), Ok(limit));
            assert_eq!(limit.to_string(), text);
        }
        for text in ["", "0", "513", "-1", "all"] {
            let error = ConsolidationLimit::parse(text).unwrap_err().to_string();
            assert!(error.contains("hint: "), "{text}");
        }
    }
}
