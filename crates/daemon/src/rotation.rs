//! Rotation of a source over pages: evenly spread, each page once before any comes again.

use alloc::vec::Vec;

/// Where the rotation has come to. Page numbers are taken in steps; after a pass the next one
/// begins one number later, so that `step` passes take every page once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rotation {
    step: u64,
    offset: u64,
    at: u64,
}

impl Rotation {
    /// The next `wanted` numbers below `pages` that `pick` makes something of, out of `eligible`
    /// such; fewer only where there are not so many.
    pub fn next<T>(
        &mut self,
        pages: u64,
        eligible: u64,
        wanted: usize,
        mut pick: impl FnMut(u64) -> Option<T>,
    ) -> Vec<T> {
        let step = eligible.div_ceil(wanted.max(1) as u64).max(1);
        // Another number of pages by some is no reason to begin anew.
        if self.step == 0 || step.abs_diff(self.step) * 4 > self.step {
            *self = Self { step, offset: self.offset % step, at: self.offset % step };
        }
        let mut picked = Vec::with_capacity(wanted);
        let mut left = pages;
        while picked.len() < wanted && left > 0 {
            if self.at >= pages {
                self.offset = (self.offset + 1) % self.step;
                self.at = self.offset;
                continue;
            }
            picked.extend(pick(self.at));
            self.at += self.step;
            left -= 1;
        }
        picked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each number was picked in so many turns.
    fn counts(pages: u64, wanted: usize, turns: usize, even: bool) -> Vec<u32> {
        let mut rotation = Rotation::default();
        let mut counts = alloc::vec![0; pages as usize];
        for _ in 0..turns {
            let eligible = if even { pages.div_ceil(2) } else { pages };
            let pick = |page: u64| (!even || page.is_multiple_of(2)).then_some(page);
            let picked = rotation.next(pages, eligible, wanted, pick);
            assert_eq!(picked.len() as u64, eligible.min(wanted as u64));
            picked.into_iter().for_each(|page| counts[page as usize] += 1);
        }
        counts
    }

    #[test]
    fn every_page_is_looked_at_once_before_any_again() {
        let few = counts(1000, 10, 100, false);
        assert!(few.iter().all(|n| *n == 1), "{few:?}");
        let odd = counts(997, 64, 16, false);
        assert!(odd.iter().all(|n| (1..=2).contains(n)), "{odd:?}");
        let all = counts(5, 9, 3, false);
        assert!(all.iter().all(|n| *n == 3), "{all:?}");
    }

    #[test]
    fn pages_that_do_not_count_are_passed_over() {
        let some = counts(1000, 10, 50, true);
        assert!(some.iter().enumerate().all(|(i, n)| *n == u32::from(i % 2 == 0)), "{some:?}");
    }

    #[test]
    fn a_turn_is_spread_over_all_pages() {
        let picked = Rotation::default().next(1000, 1000, 10, Some);
        assert_eq!(picked, [0, 100, 200, 300, 400, 500, 600, 700, 800, 900]);
    }

    #[test]
    fn nothing_is_picked_of_nothing() {
        assert!(Rotation::default().next(0, 0, 10, Some).is_empty());
        assert!(Rotation::default().next(100, 0, 10, |_| None::<u64>).is_empty());
    }
}
