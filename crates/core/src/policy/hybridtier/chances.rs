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
    /// Whether it was sampled since, where its frequency was at its most and could not grow.
    pub sampled: bool,
}

impl Chance {
    /// Of a unit that was not sampled since.
    pub(super) fn new(unit: u32, frequency: u32) -> Self {
        Self { unit, frequency, sampled: false }
    }
}

/// Second chances, each unit's once, in the order of their time.
#[derive(Default)]
pub(super) struct Chances {
    queue: VecDeque<Chance>,
    /// When the next ones are over, and how many are then: those of a decision have one time.
    ends: VecDeque<(Nanos, usize)>,
    units: Bitmap,
    sampled: Bitmap,
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

    /// A unit whose frequency cannot grow was sampled.
    #[inline]
    pub(super) fn sampled(&mut self, unit: u32) {
        if self.units.contains(unit) {
            self.sampled.insert(unit);
        }
    }

    /// Takes out those that are over.
    pub(super) fn over(&mut self, now: Nanos) -> Vec<Chance> {
        let ended = self.ends.partition_point(|(end, _)| *end <= now);
        let count: usize = self.ends.drain(..ended).map(|(_, count)| count).sum();
        let mut over: Vec<Chance> = self.queue.drain(..count).collect();
        for chance in &mut over {
            chance.sampled = self.sampled.contains(chance.unit);
            self.sampled.remove(chance.unit);
            self.units.remove(chance.unit);
        }
        over
    }

    pub(super) fn bytes(&self) -> Bytes {
        let queue = self.queue.capacity() * size_of::<Chance>();
        let ends = self.ends.capacity() * size_of::<(Nanos, usize)>();
        Bytes((queue + ends) as u64) + self.units.bytes() + self.sampled.bytes()
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
            let mut sampled = Vec::new();
            let mut now = 0;
            for (unit, wait) in given {
                now += wait;
                let over = chances.over(Nanos(now));
                for chance in &over {
                    prop_assert_eq!(chance.sampled, sampled.contains(&chance.unit));
                    sampled.retain(|unit| *unit != chance.unit);
                }
                let over: Vec<u32> = over.iter().map(|chance| chance.unit).collect();
                let (ended, left): (Vec<_>, Vec<_>) =
                    expected.iter().copied().partition(|(_, end)| *end <= now);
                prop_assert_eq!(over, ended.iter().map(|(unit, _)| *unit).collect::<Vec<_>>());
                expected = left;
                let has_one = expected.iter().any(|(other, _)| *other == unit);
                let given = chances.give(Chance::new(unit, 0), Nanos(now + 20));
                prop_assert_eq!(given, !has_one);
                if given {
                    expected.push((unit, now + 20));
                }
                // Every other unit, whether it has a chance or not.
                let other = (unit + wait as u32) % 50;
                chances.sampled(other);
                if expected.iter().any(|(unit, _)| *unit == other) {
                    sampled.push(other);
                }
            }
        }
    }
}
