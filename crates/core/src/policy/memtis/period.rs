//! Keeps the sampler below its share of a core by adapting the sampling period.

use crate::types::Nanos;

/// How the period moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Steps {
    /// By a tenth: one step changes the sampler's time by less than the hysteresis band is wide,
    /// so that it cannot jump across.
    Tenth,
    /// Through primes, as the published code.
    Primes,
}

/// Load periods between the least and the largest of the published code.
const LOAD_PRIMES: [u32; 30] = [
    199, 293, 401, 499, 599, 701, 797, 907, 997, 1201, 1399, 1601, 1801, 1999, 2203, 2503, 2801,
    3001, 3499, 4001, 4507, 4999, 6007, 7001, 7993, 9001, 10_007, 12_007, 15_013, 19_997,
];

/// Limits of the sampler's processor time.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeriodConfig {
    /// Share of one core.
    pub limit: f64,
    /// Distance from the limit within which nothing changes.
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
                Steps::Tenth => config.least,
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

    /// Takes in processor time; gives the new period where it changes.
    pub(super) fn observe(&mut self, wall: Nanos, sampler: Nanos) -> Option<u32> {
        self.wall = self.wall.saturating_add(wall);
        self.sampler = self.sampler.saturating_add(sampler);
        if self.wall < self.config.interval || self.wall == Nanos::ZERO {
            return None;
        }
        let now = self.sampler.0 as f64 / self.wall.0 as f64;
        (self.wall, self.sampler) = (Nanos::ZERO, Nanos::ZERO);
        let share = self.share.map_or(now, |before| (before + now) / 2.0);
        self.share = Some(share);
        let next = if share > self.config.limit + self.config.hysteresis {
            self.longer()
        } else if share < self.config.limit - self.config.hysteresis {
            self.shorter()
        } else {
            self.period
        };
        if next == self.period {
            return None;
        }
        // What was measured with the old period says little about the new one.
        self.share = Some(share * f64::from(self.period) / f64::from(next));
        self.period = next;
        self.changes += 1;
        Some(next)
    }

    fn longer(&self) -> u32 {
        match self.config.steps {
            Steps::Tenth => (self.period + self.period.div_ceil(10)).min(self.config.most),
            Steps::Primes => {
                LOAD_PRIMES.into_iter().find(|p| *p > self.period).unwrap_or(self.period)
            }
        }
    }

    fn shorter(&self) -> u32 {
        match self.config.steps {
            Steps::Tenth => (self.period - self.period.div_ceil(11)).max(self.config.least),
            Steps::Primes => {
                LOAD_PRIMES.into_iter().rev().find(|p| *p < self.period).unwrap_or(self.period)
            }
        }
    }
}
