//! Size of the memory in use, by looks at some pages in turn.

use super::WorkingSet;
use frostline_core::types::{Nanos, PageCount};

/// Looks that the size rests on, about: it is then within a percent of all memory.
const RESTS_ON: f64 = 16_384.0;
/// Looks before which there is none.
const LEAST: f64 = 1024.0;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Looks {
    looked_at: f64,
    touched: f64,
    /// Pages from which the last ones were drawn.
    of: u64,
    turn: Nanos,
}

impl Looks {
    /// Of `looked_at` pages, `touched` were touched within `turn`. They stand for `of` pages, or for themselves.
    pub(super) fn note(&mut self, of: Option<u64>, looked_at: u64, touched: u64, turn: Nanos) {
        let Some(of) = of else { return };
        let keep = (1.0 - looked_at as f64 / RESTS_ON).max(0.0);
        self.looked_at = self.looked_at * keep + looked_at as f64;
        self.touched = self.touched * keep + touched as f64;
        (self.of, self.turn) = (of, turn);
    }

    pub(super) fn working_set(&self) -> Option<WorkingSet> {
        let pages = self.touched / self.looked_at.max(1.0) * self.of as f64;
        let set = WorkingSet {
            touched_bytes: PageCount(pages as u64).bytes().0,
            resident_bytes: PageCount(self.of).bytes().0,
            within: self.turn,
        };
        (self.looked_at >= LEAST.min(self.of as f64) && self.of > 0).then_some(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_core::rng::Rng;

    #[test]
    fn the_part_of_pages_in_use_is_that_of_all() {
        let (mut looks, mut rng) = (Looks::default(), Rng::new(3));
        let second = Nanos(1_000_000_000);
        let mut turns = |looks: &mut Looks, part: f64, turns: u64| {
            for _ in 0..turns {
                let touched = (0..512).filter(|_| rng.unit_f64() < part).count();
                looks.note(Some(1 << 18), 512, touched as u64, second);
            }
        };
        turns(&mut looks, 0.25, 1);
        assert_eq!(looks.working_set(), None, "too few");
        for part in [0.25, 0.9, 0.0] {
            turns(&mut looks, part, 300);
            let before = looks.working_set();
            looks.note(None, 512, 512, second);
            assert_eq!(looks.working_set(), before, "who is asked about does not stand for all");
            let set = before.expect("many looks");
            assert_eq!((set.resident_bytes, set.within), (1 << 30, second));
            let found = set.touched_bytes as f64 / set.resident_bytes as f64;
            assert!((found - part).abs() < 0.02, "{found} in place of {part}");
        }
    }

    #[test]
    fn few_pages_are_enough_where_there_are_no_more() {
        let mut looks = Looks::default();
        assert_eq!(looks.working_set(), None);
        looks.note(Some(100), 100, 30, Nanos(1));
        let set = looks.working_set().expect("all of them");
        assert_eq!((set.touched_bytes, set.resident_bytes), (30 << 12, 100 << 12));
    }
}
