//! Costs and benefits of moves, and how many there is bandwidth for.

use crate::policy::offer::{Offer, TierOffer};
use crate::types::*;

/// Moves that nobody gave a price: of a base page, of a folio (ns).
const MOVE_NS: [f64; 2] = [4_000.0, 270_000.0];
/// Part of idle bandwidth that moves may take.
const PART: f64 = 0.25;
/// Bytes of an access.
const LINE_BYTES: f64 = 64.0;

/// What moves cost and bring.
#[derive(Clone, Copy, Debug)]
pub(super) struct Worth {
    /// What fast memory saves of the accesses that a sample stands for (ns).
    sample_ns: f64,
    /// Of a base page, of a folio.
    move_ns: [f64; 2],
    accesses_per_sample: f64,
    /// Of reads, of fast and slow memory (bytes a second); `None` where one is unknown.
    bandwidths: Option<[f64; 2]>,
}

impl Worth {
    pub(super) fn new(offer: &Offer, period: u32) -> Self {
        let saving = match &*offer.tiers {
            [fast, next, ..] => (next.load_ns - fast.load_ns) / offer.parallelism.unwrap_or(1.0),
            _ => 0.0,
        };
        let bandwidth = |tier: &TierOffer| tier.read_bytes_per_second;
        let bandwidths = match &*offer.tiers {
            [fast, next, ..] => bandwidth(fast).zip(bandwidth(next)).map(<[f64; 2]>::from),
            _ => None,
        };
        let costs = [offer.costs.base_move_ns, offer.costs.folio_move_ns];
        Self {
            sample_ns: saving.max(0.0) * f64::from(period),
            move_ns: [0, 1].map(|size: usize| costs[size].unwrap_or(MOVE_NS[size])),
            accesses_per_sample: period.into(),
            bandwidths,
        }
    }

    /// Whether promoting a unit in place of as many pages of another density pays for both moves, where it
    /// stays as hot for so many intervals.
    pub(super) fn pays(&self, pages: u32, gain: f32, intervals: u8) -> bool {
        let samples = f64::from(gain) * f64::from(pages) * f64::from(intervals);
        samples * self.sample_ns > 2.0 * self.move_ns[usize::from(pages > 1)]
    }

    /// Bytes that may move in an interval with so many samples of both sides; all where bandwidths are
    /// unknown.
    pub(super) fn batch(&self, samples: [u64; 2], interval: Nanos) -> Bytes {
        let Some(bandwidths) = self.bandwidths else { return Bytes::MAX };
        let seconds = interval.0 as f64 / 1e9;
        let idle = [0, 1].map(|side: usize| {
            let used = samples[side] as f64 * self.accesses_per_sample * LINE_BYTES;
            (bandwidths[side] * seconds - used).max(0.0)
        });
        let batch = idle[0].min(idle[1]) * PART;
        // A folio and what makes room for it, or nothing would ever move.
        Bytes((batch as u64).max(2 * Region(0).run().bytes().0))
    }
}
