//! Offer of a world to the policy that is made for it.

use super::contract::PolicyError;
use super::oracle::Oracle;
use crate::placement::MOST_TIER_PAGES;
use crate::spec::SpecError;
use crate::types::PageCount;
use alloc::sync::Arc;

/// What a policy is made for.
#[derive(Clone)]
pub struct Offer {
    /// Seed of its random choices.
    pub seed: u64,
    /// Factor, 1 or more, by which footprint and run length are smaller than those that the
    /// policy's constants were chosen for. Divides intervals in samples and in time; 1 keeps the
    /// constants.
    pub scale: f64,
    /// Capacity of the fastest tier.
    pub fast_pages: PageCount,
    /// Pages that will be resident, where known; to size tables, never to decide.
    pub total_pages_hint: PageCount,
    /// How much slower the next tier is: the difference of latencies over that of the fastest.
    pub latency_gap: f64,
    /// Knowledge of the whole trace, for offline policies.
    pub oracle: Option<Arc<dyn Oracle>>,
}

/// Most pages that tables are given room for before there are any.
const MOST_ROOM: u64 = 1 << 20;

impl Offer {
    /// Pages that tables are given room for at once: the hint, up to 4 GiB of pages. Tables grow beyond
    /// it as pages appear.
    pub fn table_pages(&self) -> PageCount {
        PageCount(self.total_pages_hint.0.min(MOST_ROOM))
    }

    /// Refuses what cannot be.
    ///
    /// # Errors
    /// A scale below 1, a latency gap below 0, more pages than addresses reach.
    pub fn check(&self) -> Result<(), PolicyError> {
        if !(self.scale >= 1.0 && self.scale.is_finite()) {
            let error = SpecError::new(
                alloc::format!("the scale {} is not a finite number of at least 1", self.scale),
                "1 keeps the constants of the policy's source",
            );
            return Err(error.into());
        }
        if !(self.latency_gap >= 0.0 && self.latency_gap.is_finite()) {
            let error = SpecError::new(
                alloc::format!(
                    "the latency gap {} is not a number of at least 0",
                    self.latency_gap
                ),
                "it is how much slower the slow tier is: 2.75 for 80 and 300 ns",
            );
            return Err(error.into());
        }
        for (what, pages) in [("fast", self.fast_pages), ("expected", self.total_pages_hint)] {
            if pages > MOST_TIER_PAGES {
                let error = SpecError::new(
                    alloc::format!("{} {what} pages are more than addresses reach", pages.0),
                    alloc::format!("the most is {}", MOST_TIER_PAGES.0),
                );
                return Err(error.into());
            }
        }
        Ok(())
    }
}

impl Default for Offer {
    /// Seed 0, constants unscaled, 80 and 300 ns, no oracle.
    fn default() -> Self {
        Self {
            seed: 0,
            scale: 1.0,
            fast_pages: PageCount::ZERO,
            total_pages_hint: PageCount::ZERO,
            latency_gap: (300.0 - 80.0) / 80.0,
            oracle: None,
        }
    }
}
