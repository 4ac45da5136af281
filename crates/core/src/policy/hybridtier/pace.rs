//! Additions of the authors' code to their paper: fewer samples where counters are full, a limit
//! on promotion, and no samples while nothing changes.

use crate::action::{Action, Plan};
use crate::budget::RateBudget;
use crate::event::SampleKind;
use crate::policy::contract::MetricSink;
use crate::types::*;

/// Share of fast samples on full counters above which half as many samples will do.
const FULL: f64 = 0.8;

/// Longest period, in first periods.
const MOST_STRETCH: u32 = 16;

/// Batches in a row that must promote less than [`STABLE`] of fast memory.
const STABLE_BATCHES: u32 = 3;
const STABLE: f64 = 0.001;

/// Points of the hit ratio that are lost before samples are taken again.
const LOSS: f64 = 0.03;

/// Adapts the effort to what it brings. The values that the code leaves open are ours: the longest
/// period, when placement is stable, and how far the hit ratio must fall.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    period: u32,
    stretch: u32,
    /// Samples of the batch in fast memory, and those of them on full counters.
    fast: u64,
    full: u64,
    limit: RateBudget,
    stable: u32,
    /// Hit ratio by true counters since the last batch.
    served: [u64; 2],
    /// Hit ratio when sampling stopped.
    stopped_at: Option<f64>,
    stops: u64,
    halvings: u64,
}

impl Pace {
    /// Samples every `period` events at first; promotes at most `rate` bytes a second.
    pub(super) fn new(period: u32, rate: Bytes) -> Self {
        Self {
            period,
            stretch: 1,
            fast: 0,
            full: 0,
            limit: RateBudget::new(Some(rate), Bytes(rate.0.max(2 << 20))),
            stable: 0,
            served: [0; 2],
            stopped_at: None,
            stops: 0,
            halvings: 0,
        }
    }

    #[inline]
    pub(super) fn sample(&mut self, fast: bool, full: bool) {
        self.fast += u64::from(fast);
        self.full += u64::from(fast && full);
    }

    pub(super) fn counted(&mut self, fast: u64, slow: u64) {
        self.served[0] += fast;
        self.served[1] += slow;
    }

    /// What may be promoted now.
    pub(super) fn allowance(&mut self, now: Nanos) -> Bytes {
        self.limit.refill(now);
        self.limit.remaining().remaining
    }

    /// A batch has ended.
    pub(super) fn batch(&mut self, promoted: PageCount, fast: PageCount, plan: &mut Plan) {
        self.limit.take(promoted.bytes());
        if self.full as f64 > self.fast as f64 * FULL && self.stretch < MOST_STRETCH {
            self.stretch *= 2;
            self.halvings += 1;
            plan.push(self.sampling(self.period.saturating_mul(self.stretch)));
        }
        (self.fast, self.full) = (0, 0);
        let few = (promoted.0 as f64) < fast.0 as f64 * STABLE;
        self.stable = if few { self.stable + 1 } else { 0 };
        if self.stable >= STABLE_BATCHES {
            self.stopped_at = Some(self.ratio());
            self.stops += 1;
            plan.push(self.sampling(0));
        }
        self.served = [0; 2];
    }

    /// Samples again where the hit ratio has fallen since sampling stopped.
    pub(super) fn resume(&mut self, plan: &mut Plan) {
        let Some(before) = self.stopped_at else { return };
        if self.served[0] + self.served[1] > 0 && self.ratio() < before - LOSS {
            self.stopped_at = None;
            (self.stable, self.stretch) = (0, 1);
            plan.push(self.sampling(self.period));
        }
        self.served = [0; 2];
    }

    fn ratio(&self) -> f64 {
        let [fast, slow] = self.served;
        fast as f64 / (fast + slow).max(1) as f64
    }

    fn sampling(&self, period: u32) -> Action {
        Action::SetSampling { kind: SampleKind::LoadMiss, period }
    }

    pub(super) fn metrics(&self, sink: &mut MetricSink<'_>) {
        sink("sampling_halvings_total", self.halvings as f64);
        sink("sampling_stops_total", self.stops as f64);
        sink("sampling_stopped", f64::from(u8::from(self.stopped_at.is_some())));
    }
}
