//! Search for the share of reads at which both sides of memory are equally slow.
//!
//! A binary search whose marks follow what is seen: the share at which fast memory was still the faster
//! one is the lower mark, the one at which it was slower the upper mark. Where both have met and the
//! latencies still differ, the program has changed, and the mark on that side is taken back.

/// Which way reads have to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// To fast memory.
    Up,
    /// To slow memory.
    Down,
}

/// What has to change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shift {
    pub direction: Direction,
    /// Share of all reads, `[0, 1]`.
    pub share: f64,
}

/// The search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Balance {
    /// Difference of latencies, as a part of that of fast memory, below which they are balanced.
    delta: f64,
    /// Distance of the marks below which they have met.
    epsilon: f64,
    low: f64,
    high: f64,
    /// How often a mark was taken back.
    pub resets: u64,
}

impl Balance {
    pub(super) fn new(delta: f64, epsilon: f64) -> Self {
        Self { delta, epsilon, low: 0.0, high: 1.0, resets: 0 }
    }

    /// What has to change where this share of reads is served by fast memory, in so many ns each; `None`
    /// where latencies are balanced.
    pub(super) fn shift(&mut self, share: f64, fast_ns: f64, slow_ns: f64) -> Option<Shift> {
        if (fast_ns - slow_ns).abs() <= self.delta * fast_ns {
            return None;
        }
        let direction = if fast_ns < slow_ns { Direction::Up } else { Direction::Down };
        match direction {
            Direction::Up => self.low = share,
            Direction::Down => self.high = share,
        }
        if self.high < self.low + self.epsilon {
            self.resets += 1;
            match direction {
                Direction::Up => self.high = 1.0,
                Direction::Down => self.low = 0.0,
            }
        }
        let share = (f64::midpoint(self.low, self.high) - share).abs();
        Some(Shift { direction, share })
    }
}
