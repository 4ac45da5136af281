//! Choice between the long horizon and the short one: the one by which more samples would have been hits.

use super::density::{Horizon, Spans};
use super::hand::Rent;

/// Samples over which hits are averaged.
const SPAN: f32 = 4096.0;
/// Share of hits by which the other one has to lead.
const LEAD: f32 = 0.01;

/// Hits by either horizon.
#[derive(Debug)]
pub(super) struct Choice {
    hits: [f32; 2],
    pub spans: Spans,
    /// Densities at which fast memory is full, by either horizon.
    pub rents: [Rent; 2],
}

impl Choice {
    pub(super) fn new(spans: Spans) -> Self {
        Self { hits: [0.0; 2], spans, rents: [Rent::default(); 2] }
    }

    /// Takes in a sample: the density of its page by either horizon, before it counts.
    #[inline]
    pub(super) fn sample(&mut self, densities: [f32; 2]) {
        for ((hits, rent), density) in self.hits.iter_mut().zip(&self.rents).zip(densities) {
            *hits = *hits * (1.0 - 1.0 / SPAN) + f32::from(u8::from(rent.is_paid_by(density)));
        }
    }

    /// The density at which fast memory is full, by a horizon.
    pub(super) fn rent(&self, horizon: Horizon) -> Rent {
        self.rents[horizon as usize]
    }

    /// The horizon to go by, where `now` is the present one.
    pub(super) fn best(&self, now: Horizon) -> Horizon {
        let other = now.other();
        let leads = self.hits[other as usize] > self.hits[now as usize] + LEAD * SPAN;
        if leads { other } else { now }
    }
}
