//! Bounds between hot, warm and cold: thresholds as bins, and as hotness.

use super::config::Config;
use super::tracker::Tracker;
use crate::hotness::histogram::BINS;
use crate::hotness::threshold::Thresholds;
use crate::types::PageCount;

/// Thresholds of both histograms, and the hotness that follows from them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Of pages as they are mapped.
    pub pages: Thresholds,
    /// Of base pages, were there only such.
    pub base_pages: Thresholds,
    /// Pages from here on are hot.
    pub hot: u32,
    /// Pages below are cold.
    pub cold: u32,
    /// Base pages and subpages from here on would be hot, were there only base pages.
    pub base_hot: u32,
}

impl Bounds {
    /// Those in force before the first adaptation.
    pub(super) fn new(tracker: &Tracker) -> Self {
        let initial = Thresholds::INITIAL;
        Self { pages: initial, base_pages: initial, hot: 0, cold: 0, base_hot: 0 }.floored(tracker)
    }

    /// Those that follow from the histograms where the fast tier has `fast` pages.
    pub(super) fn adapt(
        self,
        tracker: &Tracker,
        fast: PageCount,
        config: &Config,
        cooling: bool,
    ) -> Self {
        let before = self.pages;
        let mut next = Thresholds::adapt(&tracker.pages(), fast, config.alpha);
        let with_warm = config.warm && next.warm < next.hot;
        if config.one_bin_steps {
            let up = if cooling { before.hot } else { before.hot + 1 };
            next.hot = next.hot.clamp((before.hot - 1).max(0), up);
        }
        let pages = Thresholds::from_hot(next.hot, with_warm);
        let base_pages = Thresholds::adapt(&tracker.base(), fast, config.alpha);
        Self { pages, base_pages, ..self }.floored(tracker)
    }

    /// With the least hotness of the thresholds' bins.
    fn floored(self, tracker: &Tracker) -> Self {
        let floor = |bin: i8| match usize::try_from(bin) {
            Ok(bin) => tracker.binning().floor(bin.min(BINS - 1)),
            Err(_) => 0,
        };
        Self {
            hot: floor(self.pages.hot),
            cold: floor(self.pages.cold + 1),
            base_hot: floor(self.base_pages.hot),
            ..self
        }
    }
}
