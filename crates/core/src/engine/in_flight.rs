//! One approved move until its last page has ended.

use crate::types::*;
use alloc::vec::Vec;

/// How a report about a page of a move is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    /// The move does not wait for this page (any more).
    NotPending,
    /// It does, but the page went away meanwhile.
    Cancelled,
    /// It does.
    Ended,
}

/// Pages of a move: each is pending until reported once, and may be cancelled before.
#[derive(Clone, Debug)]
pub(super) struct InFlight {
    pub(super) to: TierId,
    run: PageRun,
    remaining: u32,
    pending: Vec<u64>,
    /// Empty until the first cancellation.
    cancelled: Vec<u64>,
}

impl InFlight {
    pub(super) fn new(run: PageRun, to: TierId) -> Self {
        let words = run.pages.div_ceil(64) as usize;
        let mut pending = Vec::new();
        pending.resize(words, u64::MAX);
        Self { to, run, remaining: run.pages, pending, cancelled: Vec::new() }
    }

    pub(super) fn remaining(&self) -> u32 {
        self.remaining
    }

    fn position(&self, page: PageId) -> Option<(usize, u64)> {
        let i = page.0.checked_sub(self.run.start.0).filter(|&i| i < self.run.pages)?;
        Some((i as usize / 64, 1 << (i % 64)))
    }

    /// Whether the page was pending here; it counts as cancelled from now on.
    pub(super) fn cancel(&mut self, page: PageId) -> bool {
        let Some((word, bit)) = self.position(page) else { return false };
        if self.cancelled.is_empty() {
            self.cancelled.resize(self.pending.len(), 0);
        }
        let hit = self.pending[word] & bit != 0 && self.cancelled[word] & bit == 0;
        if hit {
            self.cancelled[word] |= bit;
        }
        hit
    }

    /// Whether the move still waits for the page, which has not gone.
    pub(super) fn waits_for(&self, page: PageId) -> bool {
        self.position(page).is_some_and(|(word, bit)| {
            let cancelled = self.cancelled.get(word).copied().unwrap_or(0);
            self.pending[word] & !cancelled & bit != 0
        })
    }

    pub(super) fn finish(&mut self, page: PageId) -> Finish {
        match self.position(page) {
            Some((word, bit)) if self.pending[word] & bit != 0 => {
                self.pending[word] &= !bit;
                self.remaining -= 1;
                match self.cancelled.get(word) {
                    Some(cancelled) if cancelled & bit != 0 => Finish::Cancelled,
                    _ => Finish::Ended,
                }
            }
            _ => Finish::NotPending,
        }
    }
}
