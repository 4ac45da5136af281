//! Tally of a region's pages by score, made in one pass: all that is asked of single pages is asked of it.

use super::density::{LEAST, NONE, OLD, STEPS};
use crate::placement::PageState;
use alloc::boxed::Box;

/// Scores that are counted together, as a power of two: a sixteenth of an octave.
const SHIFT: u32 = STEPS.ilog2() - 4;
/// Octaves of samples that are told apart, from [`LEAST`] on.
const OCTAVES: usize = 56;
const BUCKETS: usize = OCTAVES * 16;

/// See the module.
#[derive(Debug)]
pub(super) struct Tally {
    counts: Box<[u16; BUCKETS]>,
    /// The least and the largest bucket that is filled.
    filled: (usize, usize),
    /// Pages without samples.
    pub none: u32,
}

impl Tally {
    pub(super) fn new() -> Self {
        Self { counts: Box::new([0; BUCKETS]), filled: (BUCKETS, 0), none: 0 }
    }

    /// Counts the resident ones of a region's pages by their scores, as they are at score `now`. Each of these
    /// is shown to `see`, by its number, state and score in relation to now. Scores that are about to wrap
    /// around are brought back.
    #[inline]
    pub(super) fn take(
        &mut self,
        scores: &mut [u16],
        now: u16,
        states: &[u8],
        mut see: impl FnMut(usize, PageState, i16),
    ) {
        let (mut low, mut high) = self.filled;
        if low <= high {
            self.counts[low..=high].fill(0);
        }
        (low, high, self.none) = (BUCKETS, 0, 0);
        for (at, (score, state)) in scores.iter_mut().zip(states).enumerate() {
            let relative = score.wrapping_sub(now) as i16;
            if relative < OLD {
                *score = now.wrapping_add_signed(NONE);
            }
            let state = PageState(*state);
            if !state.is_resident() {
                continue;
            }
            if relative < LEAST {
                self.none += 1;
            } else {
                let bucket = (((relative - LEAST) >> SHIFT) as usize).min(BUCKETS - 1);
                self.counts[bucket] += 1;
                (low, high) = (low.min(bucket), high.max(bucket));
            }
            see(at, state, relative);
        }
        self.filled = (low, high);
    }

    /// The score in the middle of each bucket, in relation to now, and the pages there.
    pub(super) fn scored(&self) -> impl Iterator<Item = (i16, u32)> {
        let (low, high) = self.filled;
        let filled = (low..=high).map(|bucket| (bucket, self.counts[bucket]));
        filled.filter(|(_, pages)| *pages > 0).map(|(bucket, pages)| {
            (LEAST + (((bucket << SHIFT) + (1 << SHIFT) / 2) as i16), u32::from(pages))
        })
    }

    /// Resident pages.
    pub(super) fn pages(&self) -> u32 {
        self.none + self.scored().map(|(_, pages)| pages).sum::<u32>()
    }
}
