//! Histogram of counts, fine enough for a threshold that is itself a count.

use alloc::vec::Vec;

/// Counts below this have a bin each.
const LINEAR: u32 = 16;
/// Bins of each power of two from there on.
const PER_OCTAVE: u32 = LINEAR / 2;

/// How many keys have a count of at least so much: a bin for each count below 16, eight for each power
/// of two above. A count that grows changes one bin, and halving every count moves whole bins, so that
/// nothing need be counted again.
#[derive(Clone, Debug)]
pub struct CountHistogram {
    /// Keys in a bin or one above it, as far as they were seen to come there. An approximate counter
    /// is raised by other keys, too, and may skip some: what is in a bin is what any above it holds.
    reached: Vec<u64>,
}

impl CountHistogram {
    /// For counts up to `max`; nothing counted.
    pub fn new(max: u32) -> Self {
        Self { reached: alloc::vec![0; bin(max) + 1] }
    }

    /// A key's count has gone from one value to the next, or stayed, at the largest.
    #[inline(always)]
    pub fn step(&mut self, from: u32, to: u32, keys: u64) {
        // Without a branch: whether a count still grows is hard to foresee.
        self.reached[bin(to)] += if bin(from) != bin(to) { keys } else { 0 };
    }

    /// A key with this count is gone. What is not there is not taken.
    pub fn leave(&mut self, count: u32, keys: u64) {
        for reached in &mut self.reached[1..=bin(count)] {
            *reached = reached.saturating_sub(keys);
        }
    }

    /// Every count is halved.
    pub fn halve(&mut self) {
        for b in 1..self.reached.len() {
            let twice = if b < PER_OCTAVE as usize { 2 * b } else { b + PER_OCTAVE as usize };
            self.reached[b] = self.most_from(twice);
        }
    }

    /// Keys that were counted at least once.
    pub fn counted(&self) -> u64 {
        self.at_least(1)
    }

    /// Keys whose count is at least `least`, of at least 1, as far as bins tell.
    pub fn at_least(&self, least: u32) -> u64 {
        self.most_from(bin(least))
    }

    fn most_from(&self, bin: usize) -> u64 {
        self.reached.iter().skip(bin).copied().max().unwrap_or(0)
    }

    /// Least count, of at least 1, from which on at most `room` keys are; the largest that there
    /// is where even those are more.
    pub fn threshold(&self, room: u64) -> u32 {
        let fitting = self.reached[1..].iter().rev().take_while(|reached| **reached <= room);
        let least = self.reached.len() - fitting.count();
        floor(least.min(self.reached.len() - 1))
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

    /// Every count was reached by steps of one.
    fn grown(max: u32, counts: &[u32]) -> CountHistogram {
        let mut histogram = CountHistogram::new(max);
        for count in counts {
            (0..*count).for_each(|from| histogram.step(from, from + 1, 1));
        }
        histogram
    }

    fn at_least(counts: &[u32], least: u32) -> u64 {
        counts.iter().filter(|count| **count >= least).count() as u64
    }

    proptest! {
        #[test]
        fn halving_moves_what_halving_every_count_moves(
            mut counts in proptest::collection::vec(0u32..2000, 0..100),
            halvings in 1u32..4,
        ) {
            let mut histogram = grown(2000, &counts);
            for _ in 0..halvings {
                histogram.halve();
                counts.iter_mut().for_each(|count| *count /= 2);
            }
            prop_assert_eq!(&histogram.reached[1..], &grown(2000, &counts).reached[1..]);
            for bin in 1..histogram.reached.len() {
                let least = floor(bin);
                prop_assert_eq!(histogram.at_least(least), at_least(&counts, least));
            }
        }

        #[test]
        fn the_threshold_agrees_with_trying_every_count(
            counts in proptest::collection::vec(1u32..16, 0..100),
            gone in 0usize..100,
            room in 0u64..120,
        ) {
            let mut histogram = grown(15, &counts);
            let gone = gone.min(counts.len());
            counts[..gone].iter().for_each(|count| histogram.leave(*count, 1));
            let left = &counts[gone..];
            let expected = (1..16).find(|least| at_least(left, *least) <= room).unwrap_or(15);
            prop_assert_eq!(histogram.threshold(room), expected);
            prop_assert_eq!(histogram.counted(), left.len() as u64);
        }
    }

    #[test]
    fn what_is_not_there_is_not_taken() {
        let mut histogram = CountHistogram::new(15);
        histogram.step(3, 4, 1);
        histogram.leave(3, 1);
        assert_eq!((histogram.counted(), histogram.threshold(0)), (1, 5));
    }

    #[test]
    fn a_key_that_others_raised_takes_the_place_of_one_below() {
        let mut histogram = grown(15, &[1, 1]);
        histogram.step(1, 2, 1);
        histogram.step(1, 2, 1);
        histogram.step(1, 2, 1);
        assert_eq!([1, 2].map(|least| histogram.at_least(least)), [3, 3]);
    }
}
