//! Adaptation of the sampling period, which keeps the sampler below its share of a core.

use crate::types::Nanos;

/// How the period moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Steps {
    /// To where the sampler would stay within its limit, if the program went on as it does: its time is
    /// inverse to the period. At least to half of it.
    Proportional,
    /// Through primes, as the published code.
    Primes,
}

/// Load periods between the least and the largest of the published code.
const LOAD_PRIMES: [u32; 30] = [
    199, 293, 401, 499, 599, 701, 797, 907, 997, 1201, 1399, 1601, 1801, 1999, 2203, 2503, 2801,
    3001, 3499, 4001, 4507, 4999, 6007, 7001, 7993, 9001, 10_007, 12_007, 15_013, 19_997,
];

/// A sampler that takes so many times its limit is watched for this part of an interval only.
const FAR: f64 = 1.25;
const HASTE: u64 = 16;

/// Limits of the sampler's processor time.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeriodConfig {
    /// Share of one core.
    pub limit: f64,
    /// Distance below the limit within which nothing changes; in the published code also above it.
    pub hysteresis: f64,
    /// Least span between changes.
    pub interval: Nanos,
    pub least: u32,
    pub most: u32,
    pub steps: Steps,
}

/// Controller of the load period.
#[derive(Clone, Debug)]
pub(super) struct Period {
    config: PeriodConfig,
    period: u32,
    wall: Nanos,
    sampler: Nanos,
    /// Exponential moving average of the sampler's share of a core.
    share: Option<f64>,
    pub changes: u64,
}

impl Period {
    pub(super) fn new(config: PeriodConfig) -> Self {
        Self {
            config,
            period: match config.steps {
                Steps::Proportional => config.least,
                Steps::Primes => LOAD_PRIMES[0],
            },
            wall: Nanos::ZERO,
            sampler: Nanos::ZERO,
            share: None,
            changes: 0,
        }
    }

    pub(super) fn period(&self) -> u32 {
        self.period
    }

    /// Whether the store period follows the load period.
    pub(super) fn drives_stores(&self) -> bool {
        self.config.steps == Steps::Primes
    }

    /// `period` lengthened as much as the load period has been, at most `most`.
    pub(super) fn scaled(&self, period: u32, most: u32) -> u32 {
        let first = u64::from(LOAD_PRIMES[0]);
        let long = u64::from(period) * u64::from(self.period) / first;
        u32::try_from(long).unwrap_or(most).min(most.max(period))
    }

    /// Average share of a core that the sampler takes.
    pub(super) fn share(&self) -> f64 {
        self.share.unwrap_or(0.0)
    }

    /// Takes in processor time; true where the period changes.
    pub(super) fn observe(&mut self, wall: Nanos, sampler: Nanos) -> bool {
        self.wall = self.wall.saturating_add(wall);
        self.sampler = self.sampler.saturating_add(sampler);
        if self.wall == Nanos::ZERO {
            return false;
        }
        let now = self.sampler.0 as f64 / self.wall.0 as f64;
        let far = self.config.steps == Steps::Proportional && now > FAR * self.config.limit;
        if self.wall.0 < if far { self.config.interval.0 / HASTE } else { self.config.interval.0 } {
            return false;
        }
        (self.wall, self.sampler) = (Nanos::ZERO, Nanos::ZERO);
        let before = self.share.filter(|_| !far);
        let share = before.map_or(now, |before| (before + now) / 2.0);
        self.share = Some(share);
        let PeriodConfig { limit, hysteresis, .. } = self.config;
        let aim = limit - hysteresis / 2.0;
        let most = match self.config.steps {
            Steps::Proportional => limit,
            Steps::Primes => limit + hysteresis,
        };
        let next = if share > most {
            self.longer(share / aim)
        } else if share < limit - hysteresis {
            self.shorter(share / aim)
        } else {
            self.period
        };
        if next == self.period {
            return false;
        }
        // What was measured with the old period says little about the new one.
        self.share = Some(share * f64::from(self.period) / f64::from(next));
        self.period = next;
        self.changes += 1;
        true
    }

    fn times(&self, factor: f64) -> u32 {
        (f64::from(self.period) * factor).round() as u32
    }

    /// `times` what the sampler may take.
    fn longer(&self, times: f64) -> u32 {
        match self.config.steps {
            Steps::Proportional => self.times(times).min(self.config.most),
            Steps::Primes => {
                LOAD_PRIMES.into_iter().find(|p| *p > self.period).unwrap_or(self.period)
            }
        }
    }

    fn shorter(&self, times: f64) -> u32 {
        match self.config.steps {
            Steps::Proportional => self.times(times.max(0.5)).max(self.config.least),
            Steps::Primes => {
                LOAD_PRIMES.into_iter().rev().find(|p| *p < self.period).unwrap_or(self.period)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn config(steps: Steps) -> PeriodConfig {
        PeriodConfig {
            limit: 0.03,
            hysteresis: 0.005,
            interval: Nanos(1_000_000_000),
            least: 200,
            most: 1400,
            steps,
        }
    }

    /// A second of a program that causes `events` sampled events, 1 us of sampler time each.
    fn second(period: &mut Period, events: u64) -> bool {
        let samples = events / u64::from(period.period());
        period.observe(Nanos(1_000_000_000), Nanos(samples * 1000))
    }

    #[test]
    fn a_busy_program_is_sampled_less_and_a_calm_one_more() {
        let mut period = Period::new(config(Steps::Proportional));
        assert!(!second(&mut period, 6_000_000), "3 % is within the band");
        for _ in 0..60 {
            second(&mut period, 30_000_000);
        }
        assert!((850..=1200).contains(&period.period()), "{}", period.period());
        assert!(period.changes > 0);
        for _ in 0..60 {
            second(&mut period, 1_000_000);
        }
        assert_eq!(period.period(), 200);
        for _ in 0..60 {
            second(&mut period, 900_000_000);
        }
        assert_eq!(period.period(), 1400);
    }

    #[test]
    fn short_spans_are_gathered() {
        let mut period = Period::new(config(Steps::Proportional));
        for _ in 0..9 {
            assert!(!period.observe(Nanos(100_000_000), Nanos(3_300_000)));
        }
        assert!(period.observe(Nanos(100_000_000), Nanos(3_300_000)));
        assert_eq!(period.period(), 240, "3.3 % of a core, where 2.75 are the middle of the band");
        assert!(!period.observe(Nanos::ZERO, Nanos::ZERO));
    }

    #[test]
    fn a_sampler_far_over_its_limit_is_slowed_down_at_once() {
        let mut period = Period::new(config(Steps::Proportional));
        assert!(!period.observe(Nanos(60_000_000), Nanos(12_000_000)));
        assert!(period.observe(Nanos(60_000_000), Nanos(12_000_000)));
        assert_eq!(period.period(), 1400, "20 % of a core");
    }

    #[test]
    fn primes_are_stepped_through_and_stores_follow() {
        let mut period = Period::new(config(Steps::Primes));
        assert_eq!((period.period(), period.scaled(100_003, 1_500_003)), (199, 100_003));
        assert!(second(&mut period, 30_000_000));
        assert_eq!(period.period(), 293);
        assert_eq!(period.scaled(100_003, 1_500_003), 147_240);
        for _ in 0..100 {
            second(&mut period, 1 << 40);
        }
        assert_eq!((period.period(), period.scaled(100_003, 1_500_003)), (19_997, 1_500_003));
        for _ in 0..100 {
            second(&mut period, 0);
        }
        assert_eq!(period.period(), 199);
    }

    #[test]
    fn the_list_is_prime_and_ascending() {
        let prime = |n: u32| (2..n).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d));
        assert!(LOAD_PRIMES.iter().all(|n| prime(*n)));
        assert!(LOAD_PRIMES.is_sorted());
    }

    proptest! {
        #[test]
        fn settles_within_the_band_or_at_an_end(events in 0u64..100_000_000) {
            let mut period = Period::new(config(Steps::Proportional));
            for _ in 0..100 {
                second(&mut period, events);
            }
            let settled = period.changes;
            for _ in 0..20 {
                second(&mut period, events);
            }
            prop_assert_eq!(period.changes, settled, "oscillates around {}", period.period());
            let share = period.share();
            prop_assert!(share <= 0.03 + 1e-9 || period.period() == 1400, "{}", share);
            prop_assert!(share >= 0.025 - 1e-9 || period.period() == 200, "{}", share);
        }
    }
}
