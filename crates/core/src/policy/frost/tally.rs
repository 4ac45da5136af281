//! Tally of a region's pages by score, made in one pass: all that is asked of single pages is asked of it.

use super::density::{LEAST, NONE, OLD, STEPS};
use crate::placement::PageState;
use alloc::boxed::Box;

/// Scores that are counted together, as a power of two: a sixteenth of an octave.
const SHIFT: u32 = STEPS.ilog2() - 4;
/// Octaves of samples that are told apart, from [`LEAST`] on.
const OCTAVES: usize = 56;
const BUCKETS: usize = OCTAVES * 16;
/// Pages of a folio that are looked at together.
const TOGETHER: usize = 16;

/// See the module.
#[derive(Debug)]
pub(super) struct Tally {
    counts: Box<[u16; BUCKETS]>,
    filled: Filled,
    /// Pages without samples.
    pub none: u32,
}

/// The least and the largest bucket that is filled.
#[derive(Clone, Copy, Debug)]
struct Filled {
    low: usize,
    high: usize,
}

impl Filled {
    const NOTHING: Self = Self { low: BUCKETS, high: 0 };
}

/// Counts a page that was sampled.
#[inline]
fn count(counts: &mut [u16; BUCKETS], filled: &mut Filled, relative: i16) {
    let bucket = (((relative - LEAST) >> SHIFT) as usize).min(BUCKETS - 1);
    counts[bucket] += 1;
    (filled.low, filled.high) = (filled.low.min(bucket), filled.high.max(bucket));
}

/// A score in relation to now. It is brought back where it is about to wrap around.
#[inline]
fn relative(score: &mut u16, now: u16) -> i16 {
    let relative = score.wrapping_sub(now) as i16;
    if relative < OLD {
        *score = now.wrapping_add_signed(NONE);
    }
    relative
}

impl Tally {
    pub(super) fn new() -> Self {
        Self { counts: Box::new([0; BUCKETS]), filled: Filled::NOTHING, none: 0 }
    }

    fn clear(&mut self) {
        let Filled { low, high } = core::mem::replace(&mut self.filled, Filled::NOTHING);
        if low <= high {
            self.counts[low..=high].fill(0);
        }
        self.none = 0;
    }

    /// Counts the resident ones of a region's pages by their scores, as they are at score `now`. Each of these
    /// is shown to `see`, by its number, state and score in relation to now.
    #[inline]
    pub(super) fn take(
        &mut self,
        scores: &mut [u16],
        now: u16,
        states: &[u8],
        mut see: impl FnMut(usize, PageState, i16),
    ) {
        self.clear();
        let mut filled = Filled::NOTHING;
        for (at, (score, state)) in scores.iter_mut().zip(states).enumerate() {
            let relative = relative(score, now);
            let state = PageState(*state);
            if !state.is_resident() {
                continue;
            }
            if relative < LEAST {
                self.none += 1;
            } else {
                count(&mut self.counts, &mut filled, relative);
            }
            see(at, state, relative);
        }
        self.filled = filled;
    }

    /// Counts the pages of a folio, all of which are resident, by their scores. Most have no samples.
    pub(super) fn take_folio(&mut self, scores: &mut [u16], now: u16) {
        self.clear();
        let mut filled = Filled::NOTHING;
        for some in scores.chunks_mut(TOGETHER) {
            let (least, most) = some.iter().fold((i16::MAX, i16::MIN), |(least, most), score| {
                let relative = score.wrapping_sub(now) as i16;
                (least.min(relative), most.max(relative))
            });
            if least >= OLD && most < LEAST {
                self.none += some.len() as u32;
                continue;
            }
            for score in some {
                match relative(score, now) {
                    relative if relative < LEAST => self.none += 1,
                    relative => count(&mut self.counts, &mut filled, relative),
                }
            }
        }
        self.filled = filled;
    }

    /// The score in the middle of each bucket, in relation to now, and the pages there.
    pub(super) fn scored(&self) -> impl Iterator<Item = (i16, u32)> {
        let Filled { low, high } = self.filled;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::testing::World;
    use crate::rng::Rng;
    use crate::types::*;
    use alloc::vec::Vec;

    #[test]
    fn a_folio_is_tallied_as_its_pages_are() {
        let mut world = World::new(1024, "first-touch");
        world.populate(PageRun::between(0, HUGE_PAGES), true);
        let view = world.engine.view();
        let states = &view.states()[..HUGE_PAGES as usize];
        let mut rng = Rng::new(3);
        let (mut one, mut other) = (Tally::new(), Tally::new());
        for round in 0..200u16 {
            let now = round.wrapping_mul(997);
            // From none to all of them have samples; some are about to wrap around.
            let sampled = u64::from(round % 9).pow(3);
            let mut scores: Vec<u16> = (0..HUGE_PAGES)
                .map(|_| match rng.below(512) {
                    0 => now.wrapping_add_signed(OLD - 1),
                    drawn if drawn <= sampled => {
                        now.wrapping_add_signed(LEAST - 100 + rng.below(2600) as i16)
                    }
                    _ => now.wrapping_add_signed(NONE),
                })
                .collect();
            let mut same = scores.clone();
            one.take(&mut scores, now, states, |_, _, _| ());
            other.take_folio(&mut same, now);
            assert_eq!(scores, same);
            assert_eq!((one.none, one.pages()), (other.none, HUGE_PAGES));
            let all = |tally: &Tally| tally.scored().collect::<Vec<_>>();
            assert_eq!(all(&one), all(&other));
        }
    }
}
