//! Quota of a scheme's moves, which follows the use of fast memory.
//!
//! Source: `mm/damon/core.c` (`damon_feed_loop_next_input`, `damos_set_effective_quota`), Linux 6.16.

use crate::types::Bytes;

/// A score that says that the goal is reached exactly.
pub(super) const REACHED: u64 = 10_000;
/// Least quota, in ten-thousandths of a byte.
const LEAST: u64 = 10_000;

/// Quota of one scheme.
#[derive(Clone, Debug)]
pub(super) struct Quota {
    most: u64,
    /// Ten-thousandths of a byte that may be moved in an interval.
    tuned: u64,
    left: u64,
}

impl Quota {
    /// At most so much in an interval; one byte at first, or, where `full`, as much as that.
    pub(super) fn new(most: Bytes, full: bool) -> Self {
        let tuned = if full { most.0.saturating_mul(10_000).max(LEAST) } else { LEAST };
        Self { most: most.0, tuned, left: 0 }
    }

    /// A new interval begins; `score` says how near the goal is, in ten-thousandths.
    pub(super) fn renew(&mut self, score: u64) {
        let off = u128::from(REACHED.abs_diff(score));
        let step = u128::from(self.tuned) * off / u128::from(REACHED);
        let step = u64::try_from(step).unwrap_or(u64::MAX);
        self.tuned = if score > REACHED {
            self.tuned.saturating_sub(step).max(LEAST)
        } else {
            self.tuned.saturating_add(step)
        };
        self.left = (self.tuned / 10_000).min(self.most);
    }

    /// What may still be moved.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// Takes so much of it, or all that is left; gives what was taken.
    pub(super) fn take(&mut self, bytes: u64) -> u64 {
        let taken = bytes.min(self.left);
        self.left -= taken;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quota_doubles_while_nothing_is_reached_up_to_the_most() {
        let mut quota = Quota::new(Bytes(1000), false);
        let mut left = || {
            quota.renew(0);
            quota.left()
        };
        assert_eq!([left(), left(), left()], [2, 4, 8]);
        assert_eq!((0..10).map(|_| left()).last(), Some(1000));
    }

    #[test]
    fn it_shrinks_by_what_the_goal_is_exceeded_and_stays_where_it_is_reached() {
        let mut quota = Quota::new(Bytes(1 << 40), false);
        (0..20).for_each(|_| quota.renew(0));
        let full = quota.left();
        quota.renew(REACHED);
        assert_eq!(quota.left(), full);
        quota.renew(REACHED * 3 / 2);
        assert_eq!(quota.left(), full / 2);
        quota.renew(REACHED * 4);
        assert_eq!(quota.left(), 1);
    }

    #[test]
    fn no_more_is_taken_than_there_is() {
        let mut quota = Quota::new(Bytes(100), true);
        quota.renew(REACHED);
        assert_eq!((quota.take(70), quota.take(70), quota.left()), (70, 30, 0));
    }
}
