//! Histogram of counts, fine enough for a threshold that is itself a count.

use alloc::vec::Vec;

/// Counts below this have a bin each.
const LINEAR: u32 = 16;
/// Bins of each power of two from there on.
const PER_OCTAVE: u32 = LINEAR / 2;

/// Keys by count: a bin for each count below 16, eight for each power of two above. Halving every
/// count moves whole bins, so that nothing need be counted again.
#[derive(Clone, Debug)]
pub struct CountHistogram {
    keys: Vec<u64>,
}

impl CountHistogram {
    /// For counts up to `max`; nothing counted.
    pub fn new(max: u32) -> Self {
        Self { keys: alloc::vec![0; bin(max) + 1] }
    }

    /// A key's count has gone from one value to another. Its old bin may have been emptied by
    /// errors of an approximate counter: it then stays at 0.
    #[inline]
    pub fn step(&mut self, from: u32, to: u32, keys: u64) {
        // Without a branch: whether a count still grows is hard to foresee.
        let keys = if bin(from) != bin(to) { keys } else { 0 };
        self.leave(from, keys);
        self.keys[bin(to)] += keys;
    }

    /// A key with this count is gone. As [`Self::step`], what is not there is not taken.
    #[inline]
    pub fn leave(&mut self, count: u32, keys: u64) {
        let at = &mut self.keys[bin(count)];
        *at = at.saturating_sub(keys);
    }

    /// Every count is halved.
    pub fn halve(&mut self) {
        for b in 1..self.keys.len() {
            let keys = core::mem::take(&mut self.keys[b]);
            self.keys[if b < LINEAR as usize { b / 2 } else { b - PER_OCTAVE as usize }] += keys;
        }
    }

    /// Keys that were counted at least once.
    pub fn counted(&self) -> u64 {
        self.keys[1..].iter().sum()
    }

    /// Keys whose count is at least `least`, as far as bins tell.
    pub fn at_least(&self, least: u32) -> u64 {
        self.keys.iter().skip(bin(least)).sum()
    }

    /// Least count, of at least 1, from which on at most `room` keys are; the largest that there
    /// is where even those are more.
    pub fn threshold(&self, room: u64) -> u32 {
        let mut keys = 0;
        let mut least = self.keys.len() - 1;
        for b in (1..self.keys.len()).rev() {
            keys += self.keys[b];
            if keys > room {
                break;
            }
            least = b;
        }
        floor(least)
    }
}

const fn bin(count: u32) -> usize {
    if count < LINEAR {
        return count as usize;
    }
    let octave = count.ilog2() - PER_OCTAVE.ilog2();
    (octave * PER_OCTAVE + (count >> octave)) as usize
}

/// The least count of a bin.
const fn floor(bin: usize) -> u32 {
    let bin = bin as u32;
    if bin < LINEAR {
        return bin;
    }
    (bin % PER_OCTAVE + PER_OCTAVE) << (bin / PER_OCTAVE - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bins_are_in_order_and_begin_where_they_say() {
        assert_eq!((bin(15), bin(16), bin(17), bin(18), bin(32)), (15, 16, 16, 17, 24));
        for count in 0..70_000 {
            assert!(floor(bin(count)) <= count && count < floor(bin(count) + 1), "{count}");
        }
        assert_eq!((bin(15), bin(255), bin(65_535)), (15, 47, 111));
    }

    proptest! {
        #[test]
        fn halving_moves_what_halving_every_count_moves(
            counts in proptest::collection::vec(0u32..70_000, 0..200),
        ) {
            let mut histogram = CountHistogram::new(70_000);
            counts.iter().for_each(|count| histogram.step(0, *count, 1));
            histogram.halve();
            let mut expected = CountHistogram::new(70_000);
            counts.iter().for_each(|count| expected.step(0, count / 2, 1));
            prop_assert_eq!(&histogram.keys[1..], &expected.keys[1..]);
        }

        #[test]
        fn the_threshold_agrees_with_trying_every_count(
            counts in proptest::collection::vec(1u32..16, 0..100),
            room in 0u64..120,
        ) {
            let mut histogram = CountHistogram::new(15);
            counts.iter().for_each(|count| histogram.step(0, *count, 1));
            let from = |least: u32| counts.iter().filter(|count| **count >= least).count() as u64;
            let expected = (1..16).find(|least| from(*least) <= room).unwrap_or(15);
            prop_assert_eq!(histogram.threshold(room), expected);
        }
    }

    #[test]
    fn what_is_not_there_is_not_taken() {
        let mut histogram = CountHistogram::new(15);
        histogram.step(3, 4, 1);
        histogram.leave(3, 1);
        assert_eq!((histogram.counted(), histogram.threshold(0)), (1, 5));
    }
}
