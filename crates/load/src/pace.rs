//! Pace of repeated work, as a rate.

/// Most that is caught up with in one go, after a stall.
const MOST_AT_ONCE: u64 = 1024;

/// Says how often something is due, so that on average it happens at a rate.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    per_second: f64,
    done: u64,
}

impl Pace {
    /// So often per second; 0 for never.
    pub fn new(per_second: f64) -> Self {
        Self { per_second, done: 0 }
    }

    /// How often it is due by now, `seconds` after the start; taken to be done.
    pub fn due(&mut self, seconds: f64) -> u64 {
        let due = ((self.per_second * seconds) as u64).saturating_sub(self.done).min(MOST_AT_ONCE);
        self.done += due;
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_kept_on_average() {
        let mut pace = Pace::new(2.5);
        let due: Vec<u64> = [0.0, 0.3, 0.4, 0.5, 1.0, 2.0].map(|t| pace.due(t)).to_vec();
        assert_eq!(due, [0, 0, 1, 0, 1, 3]);
        assert_eq!(Pace::new(0.0).due(1e9), 0);
    }

    #[test]
    fn what_was_missed_is_caught_up_with_in_portions() {
        let mut pace = Pace::new(1500.0);
        assert_eq!([pace.due(1.0), pace.due(1.0), pace.due(1.0)], [1024, 476, 0]);
    }
}
