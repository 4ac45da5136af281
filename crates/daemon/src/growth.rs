//! Growth of resident memory, and the time that a policy is given to make room.

use frostline_core::types::Nanos;

/// How long a policy is given to make room before that is done for it.
const GRACE: Nanos = Nanos(600_000_000);
/// The same while memory grows: what comes next finds no room in fast memory meanwhile, and is more
/// likely to be used than what has been there for longest.
const GROWING_GRACE: Nanos = Nanos(100_000_000);
/// Memory has grown where it is larger than within the last [`GRACE`] by one part in so many.
const GROWN_PART: u64 = 128;

/// Whether memory grows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Growth {
    resident: u64,
    until: Nanos,
}

impl Growth {
    /// So many pages are there now; how long the policy is given.
    pub fn grace(&mut self, now: Nanos, resident: u64) -> Nanos {
        if resident > self.resident + self.resident / GROWN_PART {
            self.until = now.saturating_add(GRACE);
            self.resident = resident;
        }
        self.resident = self.resident.min(resident);
        if now < self.until { GROWING_GRACE } else { GRACE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_has_less_time_while_memory_grows() {
        let mut growth = Growth::default();
        let ms = |ms: u64| Nanos(ms * 1_000_000);
        assert_eq!(growth.grace(ms(0), 12_800), GROWING_GRACE);
        assert_eq!(growth.grace(ms(599), 12_900), GROWING_GRACE);
        assert_eq!(growth.grace(ms(600), 12_900), GRACE, "not by a 128th");
        assert_eq!(growth.grace(ms(700), 12_901), GROWING_GRACE, "little by little");
        assert_eq!(growth.grace(ms(1200), 10_000), GROWING_GRACE);
        assert_eq!(growth.grace(ms(1300), 10_000), GRACE);
        assert_eq!(growth.grace(ms(1400), 10_100), GROWING_GRACE, "what was lost comes again");
    }
}
