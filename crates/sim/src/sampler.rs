//! A hardware sampler that counts one kind of event.

use frostline_core::rng::Rng;

/// Takes every `period`-th event; where counters of many threads run, one of every `period` at random:
/// each counts its own events, and which of all these are its own has no order.
#[derive(Clone, Debug)]
pub(crate) struct Countdown {
    period: u64,
    left: u64,
    /// Events between the next sample and the end of its period.
    rest: u64,
    /// Of many threads.
    dice: Option<Rng>,
}

impl Countdown {
    /// Takes nothing yet. `dice` for the counters of many threads.
    pub(crate) fn new(dice: Option<Rng>) -> Self {
        Self { period: 0, left: 0, rest: 0, dice }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.period > 0
    }

    pub(crate) fn period(&self) -> u64 {
        self.period
    }

    /// Changes the period, 0 for none; events counted so far stay counted.
    pub(crate) fn set_period(&mut self, period: u64) {
        let counted = self.period.saturating_sub(self.left);
        self.left = period.saturating_sub(counted).max(u64::from(period > 0));
        self.period = period;
        self.rest = 0;
    }

    /// Counts a share of the events until the next sample as having passed.
    pub(crate) fn skip(&mut self, share: f64) {
        self.left -= (self.left.saturating_sub(1) as f64 * share) as u64;
    }

    /// Events from a sample to the next one.
    fn gap(&mut self) -> u64 {
        let Some(dice) = &mut self.dice else { return self.period };
        let before = self.rest;
        self.rest = dice.below(self.period);
        before + self.period - self.rest
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
            position += self.gap();
        }
        self.left = position - events;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_every_nth_over_any_batches() {
        let mut sampler = Countdown::new(None);
        sampler.set_period(7);
        let (mut before, mut taken) = (0, Vec::new());
        for batch in [1, 0, 30, 256, 3, 7, 6, 1] {
            sampler.count(batch, |at| taken.push(before + at));
            before += batch;
        }
        let expected: Vec<u64> = (0..before).filter(|i| i % 7 == 6).collect();
        assert_eq!(taken, expected);
    }

    #[test]
    fn counters_of_many_threads_take_one_of_every_period_anywhere_in_it() {
        const PERIOD: u64 = 200;
        let mut sampler = Countdown::new(Some(Rng::new(7)));
        sampler.set_period(PERIOD);
        let (mut before, mut taken) = (0, Vec::new());
        while before < 1_000_000 {
            sampler.count(257, |at| taken.push(before + at));
            before += 257;
        }
        // The first counts from the beginning of its period.
        for (sample, next) in taken.iter().skip(1).zip(2u64..) {
            let period = (next - 1) * PERIOD..next * PERIOD;
            assert!(period.contains(sample), "{sample} in {period:?}");
        }
        let lines: std::collections::BTreeSet<u64> = taken.iter().map(|at| at % 64).collect();
        assert_eq!(lines.len(), 64, "a period of 200 alone finds every eighth");
    }

    #[test]
    fn off_takes_nothing_and_can_be_switched_on() {
        let mut sampler = Countdown::new(None);
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
