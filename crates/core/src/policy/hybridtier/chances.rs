//! Units that are to be looked at again.

use crate::types::{Bytes, Nanos};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use prefetch_index::prefetch_index;

/// A unit, and the frequency that it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chance {
    pub unit: u32,
    pub frequency: u32,
}

/// A chance that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Over {
    pub chance: Chance,
    /// Whether the unit was sampled since, where its frequency was at its most and could not grow.
    pub sampled: bool,
}

/// Second chances, each unit's once, in the order of their time.
#[derive(Default)]
pub(super) struct Chances {
    queue: VecDeque<Chance>,
    /// When the next ones are over, and how many are then: those of a decision have one time.
    ends: VecDeque<(Nanos, usize)>,
    /// A bit for each unit that has one, and beside 64 of these another for each that was sampled
    /// since.
    marks: Vec<[u64; 2]>,
}

impl Chances {
    /// Gives a chance that is over at `end`, which is not before those given earlier; false, and
    /// nothing is given, where the unit has one.
    pub(super) fn give(&mut self, chance: Chance, end: Nanos) -> bool {
        let (at, bit) = place(chance.unit);
        if at >= self.marks.len() {
            self.marks.resize(at + 1, [0; 2]);
        }
        let [has, _] = &mut self.marks[at];
        if *has & bit != 0 {
            return false;
        }
        *has |= bit;
        self.queue.push_back(chance);
        match self.ends.back_mut() {
            Some((last, count)) if *last == end => *count += 1,
            _ => self.ends.push_back((end, 1)),
        }
        true
    }

    /// Units whose frequency cannot grow were sampled.
    pub(super) fn sampled(&mut self, units: &[u32]) {
        if self.queue.is_empty() {
            return;
        }
        units.iter().for_each(|unit| prefetch_index(&self.marks, place(*unit).0));
        for unit in units {
            let (at, bit) = place(*unit);
            // Without a branch: which hot unit has a chance is hard to foresee.
            if let Some([has, sampled]) = self.marks.get_mut(at) {
                *sampled |= *has & bit;
            }
        }
    }

    /// Takes out those that are over.
    pub(super) fn over(&mut self, now: Nanos) -> Vec<Over> {
        let ended = self.ends.partition_point(|(end, _)| *end <= now);
        let count: usize = self.ends.drain(..ended).map(|(_, count)| count).sum();
        let mut end = |chance: Chance| {
            let (at, bit) = place(chance.unit);
            let [has, sampled] = &mut self.marks[at];
            let over = Over { chance, sampled: *sampled & bit != 0 };
            *has &= !bit;
            *sampled &= !bit;
            over
        };
        self.queue.drain(..count).map(&mut end).collect()
    }

    pub(super) fn bytes(&self) -> Bytes {
        let queue = self.queue.capacity() * size_of::<Chance>();
        let ends = self.ends.capacity() * size_of::<(Nanos, usize)>();
        let marks = self.marks.capacity() * size_of::<[u64; 2]>();
        Bytes((queue + ends + marks) as u64)
    }
}

/// Where a unit's bits are.
const fn place(unit: u32) -> (usize, u64) {
    (unit as usize / 64, 1 << (unit % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_is_over_once_and_in_time(
            given in proptest::collection::vec((0u32..50, 0u64..4), 1..300),
        ) {
            let mut chances = Chances::default();
            let mut expected: Vec<(u32, u64)> = Vec::new();
            let mut sampled = Vec::new();
            let mut now = 0;
            for (unit, wait) in given {
                now += wait;
                let over = chances.over(Nanos(now));
                let seen: Vec<bool> = over.iter().map(|over| over.sampled).collect();
                let over: Vec<u32> = over.iter().map(|over| over.chance.unit).collect();
                for (unit, seen) in over.iter().zip(seen) {
                    prop_assert_eq!(seen, sampled.contains(unit));
                    sampled.retain(|other| other != unit);
                }
                let (ended, left): (Vec<_>, Vec<_>) =
                    expected.iter().copied().partition(|(_, end)| *end <= now);
                prop_assert_eq!(over, ended.iter().map(|(unit, _)| *unit).collect::<Vec<_>>());
                expected = left;
                let has_one = expected.iter().any(|(other, _)| *other == unit);
                let given = chances.give(Chance { unit, frequency: 0 }, Nanos(now + 20));
                prop_assert_eq!(given, !has_one);
                if given {
                    expected.push((unit, now + 20));
                }
                // Every other unit, whether it has a chance or not.
                let other = (unit + wait as u32) % 50;
                chances.sampled(&[other]);
                if expected.iter().any(|(unit, _)| *unit == other) {
                    sampled.push(other);
                }
            }
        }
    }
}
