//! Counts of what was proposed, tried, and found moved.

use frostline_core::event::MoveOutcome;
use frostline_core::types::PAGE_BYTES;
use serde::{Deserialize, Serialize};

/// Pages of one direction between tiers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// The kernel was asked to move them.
    pub attempted_bytes: u64,
    /// Looked up afterwards and found where they belong.
    pub verified_bytes: u64,
    /// Pinned, locked, or under I/O.
    pub busy_bytes: u64,
    /// The destination was full.
    pub no_space_bytes: u64,
    /// No longer mapped.
    pub gone_bytes: u64,
    /// Mapped by several processes.
    pub shared_bytes: u64,
}

impl Account {
    /// Counts the end of an attempt.
    pub fn count(&mut self, pages: u64, outcome: MoveOutcome) {
        let bytes = pages * PAGE_BYTES;
        self.attempted_bytes += bytes;
        *match outcome {
            MoveOutcome::Moved => &mut self.verified_bytes,
            MoveOutcome::Busy => &mut self.busy_bytes,
            MoveOutcome::NoSpace => &mut self.no_space_bytes,
            MoveOutcome::Gone => &mut self.gone_bytes,
            MoveOutcome::Shared => &mut self.shared_bytes,
        } += bytes;
    }
}

/// More bytes than are ever moved: an exbibyte.
const MOST_BYTES: u64 = 1 << 60;
/// More pages than are ever counted.
const MOST_PAGES: u64 = MOST_BYTES / PAGE_BYTES;

/// All moves since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accounts {
    /// Towards faster tiers, by the policy, or ahead of touches in a rush.
    pub promotions: Account,
    /// Towards slower tiers, by the policy.
    pub demotions: Account,
    /// Towards slower tiers to keep the budget, beyond what the policy proposed.
    pub reclaimed: Account,
    /// Towards a slower tier to see whether the page comes back.
    pub probes: Account,
    /// Cached pages of files that nobody holds open, out of fast memory. They belong to no tier's
    /// figures.
    #[serde(default)]
    pub files: Account,
    /// Times that the kernel had no room to tell of closed files.
    #[serde(default)]
    pub lost_closings: u64,
    /// Folios split, and found split.
    pub splits: u64,
    /// Attempts that left the folio whole.
    pub failed_splits: u64,
    /// Folios rebuilt, and found rebuilt.
    pub collapses: u64,
    /// Attempts that changed nothing.
    pub failed_collapses: u64,
    /// Pages in nodes that were taken out of their places, so that their next touch is known.
    #[serde(default)]
    pub armed: u64,
    /// Of them, pages that were touched.
    #[serde(default)]
    pub armed_touched: u64,
    /// Of those, pages that were moved to fast memory before whoever touched them went on.
    #[serde(default)]
    pub moved_at_touch: u64,
    /// Pages that came back from a slower tier because the program touched them.
    pub refaults: u64,
    /// Touches of pages in slower nodes that faults reported: hint faults, and writes to pages that
    /// are being looked at for writes.
    #[serde(default)]
    pub hint_faults: u64,
    /// Accesses that were sampled, other than refaults.
    pub sampled: u64,
    /// Of them, to fast memory.
    pub sampled_fast: u64,
    /// Pages found elsewhere than we had left them, other than by refault.
    pub moved_by_others: u64,
}

impl Accounts {
    /// Whether a run can have come to these numbers: sums of them and sizes in bytes then fit 64 bits.
    pub fn can_be(&self) -> bool {
        let by_bytes = [self.promotions, self.demotions, self.reclaimed, self.probes, self.files];
        let bytes = by_bytes.iter().all(|account| {
            let Account { attempted_bytes, verified_bytes, busy_bytes, .. } = *account;
            let others = [account.no_space_bytes, account.gone_bytes, account.shared_bytes];
            let first = [attempted_bytes, verified_bytes, busy_bytes];
            first.iter().chain(&others).all(|bytes| *bytes <= MOST_BYTES)
        });
        let counts = [self.refaults, self.hint_faults, self.sampled, self.moved_by_others];
        bytes
            && counts.iter().all(|pages| *pages <= MOST_PAGES)
            && self.sampled_fast <= self.sampled
    }

    /// Moved towards slower tiers and found there, for whatever reason.
    pub fn demoted_bytes(&self) -> u64 {
        let accounts = [self.demotions, self.reclaimed, self.probes];
        accounts.iter().map(|account| account.verified_bytes).sum()
    }
}
