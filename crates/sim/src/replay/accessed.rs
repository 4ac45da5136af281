//! Number of base pages of fast memory that are accessed within a while: the measure of HotBox
//! (ISMM '22,
//! section 3.2.2) for how well fast memory is used.
//!
//! There, access bits of all base pages are counted every second. Here, so that a replay takes no longer, a
//! while of that length (divided by the scale, as intervals of policies are) is looked at in the middle of
//! each of [`PARTS`] parts of the trace, at most one in [`MOST`] of its records.

use super::marks;
use frostline_core::placement::PageState;
use frostline_core::types::*;

/// Parts of a trace.
const PARTS: u64 = 8;
/// Of a trace, the longest while.
const MOST: u64 = 128;
/// What the paper's second is, unscaled.
const WHILE_NS: f64 = 1e9;

/// Sums over the whiles looked at.
#[derive(Debug)]
pub(super) struct Accessed {
    part_records: u64,
    most_records: u64,
    while_ns: f64,
    /// Once so many records have been replayed, the next while begins, or the one under way ends.
    next: u64,
    /// When the one under way ends at the latest; never where there is none.
    ends_ns: f64,
    whiles: u64,
    fast: u64,
    best: u64,
}

impl Accessed {
    pub(super) fn new(records: u64, scale: f64) -> Self {
        let part_records = (records / PARTS).max(1);
        Self {
            part_records,
            most_records: (records / MOST).max(1),
            while_ns: WHILE_NS / scale,
            next: part_records / 2,
            ends_ns: f64::INFINITY,
            whiles: 0,
            fast: 0,
            best: 0,
        }
    }

    /// Whether [`Self::look`] has something to do.
    #[inline]
    pub(super) fn is_due(&self, records: u64, now_ns: f64) -> bool {
        records >= self.next || now_ns >= self.ends_ns
    }

    /// Pages of fast memory accessed in a while, on average.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.whiles > 0).then(|| self.fast as f64 / self.whiles as f64)
    }

    /// By how much that is below what base pages could have: all that is accessed, or all of fast
    /// memory.
    pub(super) fn fragmentation(&self) -> Option<f64> {
        (self.best > 0).then(|| 1.0 - self.fast as f64 / self.best as f64)
    }

    /// A while begins, or the one under way ends. `limit` is what fast memory may hold.
    #[cold]
    pub(super) fn look(
        &mut self,
        (records, now_ns): (u64, f64),
        states: &[u8],
        marks: &mut [u8],
        limit: PageCount,
    ) {
        if self.ends_ns.is_finite() {
            self.count(records, states, marks, limit);
            return;
        }
        self.next = records + self.most_records;
        self.ends_ns = now_ns + self.while_ns;
        marks::clear(marks, marks::COUNTED);
    }

    /// The while under way has ended, or the trace.
    fn count(&mut self, records: u64, states: &[u8], marks: &mut [u8], limit: PageCount) {
        let (mut fast, mut all) = (0, 0);
        for (state, mark) in states.iter().zip(marks) {
            let state = PageState(*state);
            if *mark & marks::COUNTED != 0 && state.is_resident() {
                all += 1;
                fast += u64::from(state.tier() == Some(TierId::FAST));
            }
            // Accesses to pages without every mark take longer.
            *mark |= marks::COUNTED;
        }
        self.whiles += 1;
        self.fast += fast;
        self.best += all.min(limit.0);
        self.ends_ns = f64::INFINITY;
        let part = self.part_records;
        self.next = (records.saturating_sub(part / 2) / part + 1) * part + part / 2;
    }

    /// The trace has ended: a while that it cut short counts where there was no other.
    pub(super) fn settle(
        &mut self,
        records: u64,
        states: &[u8],
        marks: &mut [u8],
        limit: PageCount,
    ) {
        if self.whiles == 0 && self.ends_ns.is_finite() {
            self.count(records, states, marks, limit);
        }
    }
}
