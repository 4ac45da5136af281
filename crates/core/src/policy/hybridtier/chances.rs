//! Units that are to be looked at again.

use crate::hotness::bitmap::Bitmap;
use crate::types::{Bytes, Nanos};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// A unit, and the frequency that it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chance {
    pub unit: u32,
    pub frequency: u32,
}

/// Second chances, each unit's once, in the order of their time.
#[derive(Default)]
pub(super) struct Chances {
    queue: VecDeque<Chance>,
    /// When the next ones are over, and how many are then: those of a decision have one time.
    ends: VecDeque<(Nanos, usize)>,
    units: Bitmap,
}

impl Chances {
    /// Gives a chance that is over at `end`, which is not before those given earlier; false, and
    /// nothing is given, where the unit has one.
    pub(super) fn give(&mut self, chance: Chance, end: Nanos) -> bool {
        if self.units.contains(chance.unit) {
            return false;
        }
        self.units.insert(chance.unit);
        self.queue.push_back(chance);
        match self.ends.back_mut() {
            Some((last, count)) if *last == end => *count += 1,
            _ => self.ends.push_back((end, 1)),
        }
        true
    }

    /// Takes out those that are over.
    pub(super) fn over(&mut self, now: Nanos) -> Vec<Chance> {
        let ended = self.ends.partition_point(|(end, _)| *end <= now);
        let count: usize = self.ends.drain(..ended).map(|(_, count)| count).sum();
        let over: Vec<Chance> = self.queue.drain(..count).collect();
        over.iter().for_each(|chance| self.units.remove(chance.unit));
        over
    }

    pub(super) fn bytes(&self) -> Bytes {
        let queue = self.queue.capacity() * size_of::<Chance>();
        let ends = self.ends.capacity() * size_of::<(Nanos, usize)>();
        Bytes((queue + ends) as u64) + self.units.bytes()
    }
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
            let mut now = 0;
            for (unit, wait) in given {
                now += wait;
                let over: Vec<u32> = chances.over(Nanos(now)).iter().map(|c| c.unit).collect();
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
            }
        }
    }
}
