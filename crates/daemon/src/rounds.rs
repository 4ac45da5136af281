//! Schedule of rounds over all pages, which look for what has changed unnoticed.

use frostline_core::types::Nanos;

/// Shortest and longest time between rounds that find nothing.
const RESTS: [Nanos; 2] = [Nanos(1_000_000_000), Nanos(8_000_000_000)];
/// A round finds nothing where less than one page in so many was not where it was known to be.
const FEW: u64 = 1024;

/// When to look over everything again: at once while that finds something new, else less and less
/// often.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rounds {
    pages: u64,
    found: u64,
    rest: Nanos,
    due: Nanos,
}

impl Rounds {
    /// Whether a round goes on, or is to begin.
    pub fn allows(&self, now: Nanos) -> bool {
        now >= self.due
    }

    /// Of `pages` that were looked at, so many were `found` to be elsewhere.
    pub fn note(&mut self, pages: u64, found: u64) {
        self.pages += pages;
        self.found += found;
    }

    /// The round is over.
    pub fn end(&mut self, now: Nanos) {
        let (pages, found) = (core::mem::take(&mut self.pages), core::mem::take(&mut self.found));
        self.rest = match found * FEW < pages || found == 0 {
            true => Nanos(self.rest.0 * 2).clamp(RESTS[0], RESTS[1]),
            false => Nanos::ZERO,
        };
        self.due = now.saturating_add(self.rest);
    }

    /// Something has changed: the next round begins at once.
    pub fn wake(&mut self) {
        (self.rest, self.due) = (Nanos::ZERO, Nanos::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_that_find_nothing_come_less_often() {
        let second = |n: u64| Nanos(n * 1_000_000_000);
        let mut rounds = Rounds::default();
        assert!(rounds.allows(second(0)));
        rounds.note(100_000, 50);
        rounds.note(100_000, 150);
        rounds.end(second(0));
        assert!(rounds.allows(second(0)), "one in a thousand was elsewhere");
        let mut now = second(0);
        for rest in [1, 2, 4, 8, 8] {
            rounds.note(100_000, 90);
            rounds.end(now);
            assert!(!rounds.allows(Nanos(now.0 + second(rest).0 - 1)));
            now = now.saturating_add(second(rest));
            assert!(rounds.allows(now));
        }
        rounds.end(now);
        rounds.wake();
        assert!(rounds.allows(now));
        rounds.end(now);
        assert!(rounds.allows(now.saturating_add(second(1))), "begins anew");
    }

    #[test]
    fn one_page_in_a_thousand_is_enough_to_go_on() {
        let mut rounds = Rounds::default();
        let now = Nanos(7_000_000_000);
        let mut rests = [0; 7];
        for (found, rest) in [0, 90, 0, 0, 0, 150, 0].into_iter().zip(&mut rests) {
            rounds.note(100_000, found);
            rounds.end(now);
            *rest = rounds.due.saturating_sub(now).0 / 1_000_000_000;
        }
        assert_eq!(rests, [1, 2, 4, 8, 8, 0, 1]);
    }
}
