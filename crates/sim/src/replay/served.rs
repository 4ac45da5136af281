//! Accesses of a batch as they were served, and their sums.

use crate::clock::{Counts, MemoryClock};
use frostline_core::placement::PageState;
use frostline_core::types::*;
use frostline_trace::Batch;

/// How accesses were served.
#[derive(Debug, Default)]
pub(super) struct Served {
    /// State byte of each access of the batch.
    pub(super) states: Vec<u8>,
    /// Accesses of the last step.
    pub(super) len: usize,
    /// By tier and kind, thinning multiplied out.
    pub(super) accesses: [[u64; 4]; MAX_TIERS],
}

impl Served {
    pub(super) fn add(&mut self, counts: &Counts) {
        for (total, counts) in self.accesses.iter_mut().zip(counts) {
            (0..4).for_each(|kind| total[kind] += u64::from(counts[kind]));
        }
    }

    /// States of the last step's accesses.
    pub(super) fn last(&self) -> &[u8] {
        &self.states[..self.len]
    }

    /// Accesses served by tier 0, and all.
    pub(super) fn sums(&self) -> (u64, u64) {
        let sum = |tier: &[u64; 4]| tier.iter().sum::<u64>();
        (sum(&self.accesses[0]), self.accesses.iter().map(sum).sum())
    }

    /// The time of a batch goes to the threads that ran: in shares of their stalls. `run` is told of
    /// each thread's part of `span_ns`.
    pub(super) fn share_time(
        &self,
        batch: &Batch,
        memory: &MemoryClock,
        span_ns: f64,
        mut run: impl FnMut(u32, f64),
    ) {
        if let Some(stream) = batch.streams.constant() {
            return run(stream, span_ns);
        }
        let weight = |i: usize| {
            1.0 + memory.access_ns(batch.kind(i), usize::from(self.states[i] & PageState::TIER))
        };
        let sum: f64 = (0..batch.len()).map(weight).sum();
        for i in 0..batch.len() {
            run(batch.streams.get(i), span_ns * weight(i) / sum);
        }
    }
}
