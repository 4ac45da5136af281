//! A hardware sampler that counts one kind of event.

/// Takes every `period`-th event.
#[derive(Clone, Debug)]
pub(crate) struct Countdown {
    period: u64,
    left: u64,
}

impl Countdown {
    /// A period of 0 takes nothing.
    pub(crate) fn new(period: u64) -> Self {
        Self { period, left: period }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.period > 0
    }

    pub(crate) fn period(&self) -> u64 {
        self.period
    }

    /// Changes the period; events counted so far stay counted.
    pub(crate) fn set_period(&mut self, period: u64) {
        let counted = self.period.saturating_sub(self.left);
        self.left = period.saturating_sub(counted).max(u64::from(period > 0));
        self.period = period;
    }

    /// Counts a share of the events until the next sample as having passed.
    pub(crate) fn skip(&mut self, share: f64) {
        self.left -= (self.left.saturating_sub(1) as f64 * share) as u64;
    }

    /// Counts `events`; calls `take` with the position, from 0, of each one that is sampled.
    #[inline]
    pub(crate) fn count(&mut self, events: u64, mut take: impl FnMut(u64)) {
        if self.left > events || self.period == 0 {
            self.left = self.left.saturating_sub(events);
            return;
        }
        let mut position = self.left;
        while position <= events {
            take(position - 1);
            position += self.period;
        }
        self.left = position - events;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_every_nth_over_any_batches() {
        let mut sampler = Countdown::new(7);
        let (mut before, mut taken) = (0, Vec::new());
        for batch in [1, 0, 30, 256, 3, 7, 6, 1] {
            sampler.count(batch, |at| taken.push(before + at));
            before += batch;
        }
        let expected: Vec<u64> = (0..before).filter(|i| i % 7 == 6).collect();
        assert_eq!(taken, expected);
    }

    #[test]
    fn off_takes_nothing_and_can_be_switched_on() {
        let mut sampler = Countdown::new(0);
        sampler.count(1000, |_| panic!("off"));
        sampler.set_period(10);
        let mut taken = Vec::new();
        sampler.count(25, |at| taken.push(at));
        assert_eq!(taken, [9, 19]);
        sampler.set_period(3);
        sampler.count(3, |at| taken.push(at));
        assert_eq!(taken, [9, 19, 0,], "5 were counted already: the next one is due");
    }
}
