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
    /// Units that have one.
    given: Vec<u64>,
    /// Those of them that were not sampled since: one bit for each unit by itself, since it is looked
    /// at for every sample of a full counter.
    unsampled: Vec<u64>,
    /// Units that were sampled last, which `unsampled` does not know yet. They are few.
    waiting: Vec<u32>,
}

impl Chances {
    /// Gives a chance that is over at `end`, which is not before those given earlier; false, and
    /// nothing is given, where the unit has one.
    pub(super) fn give(&mut self, chance: Chance, end: Nanos) -> bool {
        let (at, bit) = place(chance.unit);
        if at >= self.given.len() {
            self.given.resize(at + 1, 0);
            self.unsampled.resize(at + 1, 0);
        }
        if self.given[at] & bit != 0 {
            return false;
        }
        self.note();
        self.given[at] |= bit;
        self.unsampled[at] |= bit;
        self.queue.push_back(chance);
        match self.ends.back_mut() {
            Some((last, count)) if *last == end => *count += 1,
            _ => self.ends.push_back((end, 1)),
        }
        true
    }

    /// Units whose frequency cannot grow were sampled. That is noted when the next ones come, or when
    /// it matters: until then memory is on its way.
    pub(super) fn sampled(&mut self, units: &[u32]) {
        if self.queue.is_empty() {
            return;
        }
        units.iter().for_each(|unit| prefetch_index(&self.unsampled, place(*unit).0));
        self.note();
        self.waiting.extend_from_slice(units);
    }

    fn note(&mut self) {
        for unit in self.waiting.drain(..) {
            let (at, bit) = place(unit);
            // Most are seen already, and their memory stays as it was.
            if let Some(unsampled) =
                self.unsampled.get_mut(at).filter(|unsampled| **unsampled & bit != 0)
            {
                *unsampled &= !bit;
            }
        }
    }

    /// Takes out the first of those that are over, as many as `over` has room for, in place of what
    /// it holds; false where there are none.
    pub(super) fn over(&mut self, now: Nanos, over: &mut Vec<Over>) -> bool {
        over.clear();
        self.note();
        let mut room = over.capacity();
        while room > 0
            && let Some((end, left)) = self.ends.front_mut()
            && *end <= now
        {
            let count = room.min(*left);
            room -= count;
            *left -= count;
            if *left == 0 {
                self.ends.pop_front();
            }
        }
        for chance in self.queue.drain(..over.capacity() - room) {
            let (at, bit) = place(chance.unit);
            over.push(Over { chance, sampled: self.unsampled[at] & bit == 0 });
            self.given[at] &= !bit;
            self.unsampled[at] &= !bit;
        }
        !over.is_empty()
    }

    pub(super) fn bytes(&self) -> Bytes {
        let queue = self.queue.capacity() * size_of::<Chance>();
        let ends = self.ends.capacity() * size_of::<(Nanos, usize)>();
        let units = (self.given.capacity() + self.unsampled.capacity()) * size_of::<u64>();
        Bytes((queue + ends + units) as u64)
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
                let (mut over, mut part) = (Vec::new(), Vec::with_capacity(3));
                while chances.over(Nanos(now), &mut part) {
                    over.append(&mut part);
                }
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
