//! Injection of faults, seeded.

use crate::options::FaultInjection;
use frostline_core::rng::Rng;

/// One kind of fault that strikes now and then.
#[derive(Debug)]
pub(super) struct Chance {
    /// `[0, 1]`.
    share: f64,
    rng: Rng,
    /// How often it struck.
    pub(super) struck: u64,
}

impl Chance {
    pub(super) fn new(share: f64, rng: Rng) -> Self {
        Self { share, rng, struck: 0 }
    }

    pub(super) fn strikes(&mut self) -> bool {
        let strikes = self.share > 0.0 && self.rng.unit_f64() < self.share;
        self.struck += u64::from(strikes);
        strikes
    }
}

/// Exits of whole processes, at random records.
#[derive(Debug)]
pub(super) struct Exits {
    rng: Rng,
    left: u32,
    /// Record at which the next one is due.
    next: u64,
    pub(super) happened: u64,
    /// Pages that went with them.
    pub(super) pages: u64,
}

impl Exits {
    pub(super) fn new(faults: &FaultInjection, rng: Rng) -> Self {
        Self { rng, left: faults.exits, next: u64::MAX, happened: 0, pages: 0 }
    }

    #[inline]
    pub(super) fn is_due(&self, records: u64) -> bool {
        records >= self.next
    }

    /// Sets when the next one happens, within the records left of a trace.
    pub(super) fn plan(&mut self, records: u64, total: u64) {
        self.next = u64::MAX;
        if self.left > 0 {
            let left = total.saturating_sub(records).max(1);
            let span = (2 * left / (u64::from(self.left) + 1)).max(1);
            self.next = records + self.rng.below(span);
            self.left -= 1;
        }
    }

    /// One of so many.
    pub(super) fn choose(&mut self, count: usize) -> usize {
        self.rng.below(count as u64) as usize
    }
}
