//! Intervals between two looks at targets and their mappings: a second, and more where that takes long because of their
//! number.

use frostline_core::types::Nanos;

/// From one time to the next.
const INTERVAL: Nanos = Nanos(1_000_000_000);
/// Longest time from one to the next, whatever it takes.
const MOST: Nanos = Nanos(60_000_000_000);
/// Part of our share of a core that goes into it.
const PART: f64 = 0.5;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Refreshes {
    share: f64,
    due: Nanos,
    /// Not before then, whatever has happened.
    least: Nanos,
    began: Nanos,
    /// Processor time when it began, less what does not count.
    cpu: Nanos,
}

impl Refreshes {
    /// The first one is due, for a share of a core.
    pub fn new(share: f64) -> Self {
        let zero = Nanos::ZERO;
        Self { share: share * PART, due: zero, least: zero, began: zero, cpu: zero }
    }

    /// Whether it is time.
    pub fn allows(&self, now: Nanos) -> bool {
        now >= self.due
    }

    /// Something has happened that makes it worth to look as soon as may be.
    pub fn hurry(&mut self) {
        self.due = self.due.min(self.least);
    }

    /// One begins at `now`, `cpu` being the thread's processor time. Who hurries from now on does so
    /// for the next one.
    pub fn begin(&mut self, now: Nanos, cpu: Nanos) {
        (self.began, self.cpu) = (now, cpu);
        (self.due, self.least) = (Nanos::MAX, Nanos::ZERO);
    }

    /// So much of what it takes does not count.
    pub fn leave_out(&mut self, cpu: Nanos) {
        self.cpu = self.cpu.saturating_add(cpu);
    }

    /// It has ended.
    pub fn end(&mut self, cpu: Nanos) {
        let hurried = self.due == Nanos::ZERO;
        let took = cpu.saturating_sub(self.cpu).0 as f64;
        let rest = Nanos((took / self.share) as u64).min(MOST);
        self.least = self.began.saturating_add(rest);
        self.due =
            if hurried { self.least } else { self.least.max(self.began.saturating_add(INTERVAL)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Nanos {
        Nanos(ms * 1_000_000)
    }

    /// When the next one is due after one that took so long, and after a hurry.
    fn due(took: Nanos, left_out: Nanos) -> (Nanos, Nanos) {
        let mut refreshes = Refreshes::new(0.02);
        assert!(refreshes.allows(Nanos::ZERO));
        refreshes.begin(ms(5000), ms(70));
        refreshes.leave_out(left_out);
        refreshes.end(ms(70).saturating_add(took));
        let due = refreshes.due;
        refreshes.hurry();
        (due, refreshes.due)
    }

    #[test]
    fn what_takes_long_is_done_less_often_even_in_a_hurry() {
        assert_eq!(due(ms(1), ms(0)), (ms(6000), ms(5100)));
        assert_eq!(due(ms(50), ms(0)), (ms(10_000), ms(10_000)));
        assert_eq!(due(ms(50), ms(49)), (ms(6000), ms(5100)), "new memory does not count");
        assert_eq!(due(ms(5000), ms(0)), (ms(65_000), ms(65_000)));
    }

    #[test]
    fn a_hurry_meanwhile_is_for_the_next_one() {
        let mut refreshes = Refreshes::new(0.02);
        refreshes.begin(ms(5000), ms(70));
        refreshes.hurry();
        refreshes.end(ms(71));
        assert_eq!(refreshes.due, ms(5100));
    }
}
