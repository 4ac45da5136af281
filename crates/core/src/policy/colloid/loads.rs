//! Latencies of fast memory and of all other memory under the load that there is.

use crate::policy::offer::TierOffer;
use crate::types::*;

/// Part that the last interval has in the averages.
const WEIGHT: f64 = 0.5;

/// Reads, and what they waited for together (ns).
#[derive(Clone, Copy, Debug, Default)]
struct Reads {
    count: f64,
    waited_ns: f64,
}

/// Fast memory and other memory, in this order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Loads {
    /// Since the last look.
    new: [Reads; 2],
    averages: [Reads; 2],
    /// Of a read where nothing queues.
    unloaded_ns: [f64; 2],
    seen: bool,
}

/// What both sides do in a mean interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Loaded {
    /// Share of reads that fast memory serves.
    pub share: f64,
    pub fast_ns: f64,
    pub slow_ns: f64,
    /// Reads of both.
    pub reads: f64,
}

impl Loads {
    pub(super) fn new(tiers: &[TierOffer]) -> Self {
        let unloaded = |at: usize| tiers.get(at).map_or(0.0, |tier| tier.load_ns);
        Self { unloaded_ns: [unloaded(0), unloaded(1)], ..Self::default() }
    }

    pub(super) fn add(&mut self, tier: TierId, reads: u64, waited: Nanos) {
        let new = &mut self.new[usize::from(tier != TierId::FAST)];
        new.count += reads as f64;
        new.waited_ns += waited.0 as f64;
    }

    /// Ends an interval; `None` where nothing was read in it.
    pub(super) fn look(&mut self) -> Option<Loaded> {
        let new = core::mem::take(&mut self.new);
        if new.iter().all(|reads| reads.count == 0.0) {
            return None;
        }
        let weight = if core::mem::replace(&mut self.seen, true) { WEIGHT } else { 1.0 };
        for (average, new) in self.averages.iter_mut().zip(new) {
            average.count += weight * (new.count - average.count);
            average.waited_ns += weight * (new.waited_ns - average.waited_ns);
        }
        let [fast, slow] = self.averages;
        let [fast_ns, slow_ns] = [0, 1].map(|side: usize| {
            let Reads { count, waited_ns } = self.averages[side];
            // What is hardly read is as slow as it is idle.
            if count < 1.0 { self.unloaded_ns[side] } else { waited_ns / count }
        });
        let reads = fast.count + slow.count;
        Some(Loaded { share: fast.count / reads, fast_ns, slow_ns, reads })
    }
}
