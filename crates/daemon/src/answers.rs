//! Answers to policies that ask for access bits, from touches that were seen.
//!
//! A page counts as accessed where it was touched since it was last asked about, or in the last round over all pages:
//! a policy may ask more often than there are rounds.

use frostline_core::hotness::bitmap::Bitmap;
use frostline_core::types::{Nanos, PageId};

/// Rounds that may be missed before nothing counts as touched in the last one.
const MISSED: u64 = 2;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// Touched since they were last asked about.
    since: Bitmap,
    /// Touched in the round that goes on, and in the one before.
    rounds: [Bitmap; 2],
    /// When the round that goes on was first heard of, and the time from the one before to it, by which it is known.
    heard: Nanos,
    interval: Nanos,
}

impl Answers {
    /// A page was touched.
    pub(crate) fn touched(&mut self, page: PageId) {
        self.since.insert(page.0);
    }

    /// A round over all pages, which began so long after the one before, has found it touched.
    pub(crate) fn found(&mut self, now: Nanos, page: PageId, interval: Nanos) {
        if interval != self.interval {
            self.rounds.swap(0, 1);
            self.rounds[0] = Bitmap::default();
            (self.heard, self.interval) = (now, interval);
        }
        self.rounds[0].insert(page.0);
    }

    /// Whether it was accessed, as who asks now is told.
    pub(crate) fn is_accessed(&mut self, now: Nanos, page: PageId) -> bool {
        let since = self.since.contains(page.0);
        self.since.remove(page.0);
        // No page at all was touched since.
        if now.saturating_sub(self.heard) > Nanos(self.interval.0 * MISSED) {
            self.rounds = Default::default();
        }
        since || self.rounds.iter().any(|round| round.contains(page.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: [PageId; 2] = [PageId(3), PageId(4)];

    fn asked(answers: &mut Answers, now: u64) -> [bool; 2] {
        PAGES.map(|page| answers.is_accessed(Nanos(now), page))
    }

    #[test]
    fn a_touch_is_told_once() {
        let mut answers = Answers::default();
        assert_eq!(asked(&mut answers, 0), [false, false]);
        answers.touched(PAGES[1]);
        assert_eq!(asked(&mut answers, 1), [false, true]);
        assert_eq!(asked(&mut answers, 2), [false, false]);
    }

    #[test]
    fn who_asks_between_two_rounds_hears_of_the_last_one() {
        let mut answers = Answers::default();
        let round = |answers: &mut Answers, now, interval, pages: &[PageId]| {
            for page in pages {
                answers.touched(*page);
                answers.found(Nanos(now), *page, Nanos(interval));
            }
        };
        round(&mut answers, 100, 50, &PAGES);
        for now in [101, 120, 149] {
            assert_eq!(asked(&mut answers, now), [true, true]);
        }
        // The page that was not found in this round may be yet.
        round(&mut answers, 151, 51, &PAGES[..1]);
        assert_eq!(asked(&mut answers, 152), [true, true]);
        round(&mut answers, 203, 52, &PAGES[..1]);
        assert_eq!(asked(&mut answers, 204), [true, false]);
        // Rounds of a program that sleeps find nothing.
        assert_eq!(asked(&mut answers, 203 + 105), [false, false]);
    }
}
