//! Frequency and momentum of units, in filters or exactly.

use crate::hotness::bloom::{CountingBloom, HASHES, Increment, Step, hash};
use crate::hotness::paired::{self, PairedBloom};
use crate::types::Bytes;
use alloc::vec::Vec;

/// Keeps the two filters' errors apart.
const SEEDS: [u64; 2] = [0x5eed_f4e9, 0x5eed_0303];

/// Both averages of a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Averages {
    pub frequency: u32,
    pub momentum: u32,
}

/// What a sample did: the frequency before and after, and the momentum after.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub frequency: Step,
    pub momentum: u32,
}

/// Counts samples of units, by number.
pub(super) trait Tracker: Send {
    /// What finds a unit's memory.
    type Key: Copy + Default;
    /// Cache lines that a sample needs, at most.
    fn lines(&self) -> usize;
    fn key(unit: u32) -> Self::Key;
    /// Loads a unit's memory, for the cache. The value has no meaning.
    fn touch(&self, key: Self::Key) -> u64;
    /// Counts a sample in both averages.
    fn sample(&mut self, key: Self::Key) -> Seen;
    fn averages(&self, key: Self::Key) -> Averages;
    fn cool_frequency(&mut self);
    fn cool_momentum(&mut self);
    /// Largest value of either.
    fn most(&self) -> u32;
    /// Takes a unit's averages away, where the tracker is able to.
    fn take(&mut self, unit: u32) -> Option<Averages>;
    /// Gives a unit that has none the averages of another, where the tracker is able to.
    fn put(&mut self, unit: u32, averages: Averages);
    fn bytes(&self) -> Bytes;
}

/// Two filters. What they know of a page they cannot forget before it is halved away.
pub(super) struct Filters<const BITS: u32, const BLOCKED: bool> {
    frequency: CountingBloom<BITS, BLOCKED>,
    momentum: CountingBloom<BITS, BLOCKED>,
}

impl<const BITS: u32, const BLOCKED: bool> Filters<BITS, BLOCKED> {
    /// Of so many counters each.
    pub(super) fn new(counters: [u64; 2], increment: Increment) -> Self {
        let [frequency, momentum] = counters.map(|n| CountingBloom::new(n, increment));
        Self { frequency, momentum }
    }
}

impl<const BITS: u32, const BLOCKED: bool> Tracker for Filters<BITS, BLOCKED> {
    type Key = [u64; 2];

    fn lines(&self) -> usize {
        2 * if BLOCKED { 1 } else { HASHES }
    }

    #[inline(always)]
    fn key(unit: u32) -> [u64; 2] {
        SEEDS.map(|seed| hash(unit, seed))
    }

    #[inline(always)]
    fn touch(&self, [frequency, momentum]: [u64; 2]) -> u64 {
        self.frequency.touch(frequency) ^ self.momentum.touch(momentum)
    }

    #[inline(always)]
    fn sample(&mut self, [frequency, momentum]: [u64; 2]) -> Seen {
        let frequency = self.frequency.increment(frequency);
        Seen { frequency, momentum: self.momentum.increment(momentum).to }
    }

    fn averages(&self, [frequency, momentum]: [u64; 2]) -> Averages {
        Averages { frequency: self.frequency.get(frequency), momentum: self.momentum.get(momentum) }
    }

    fn cool_frequency(&mut self) {
        self.frequency.halve();
    }

    fn cool_momentum(&mut self) {
        self.momentum.halve();
    }

    fn most(&self) -> u32 {
        CountingBloom::<BITS, BLOCKED>::MAX
    }

    fn take(&mut self, _: u32) -> Option<Averages> {
        None
    }

    fn put(&mut self, _: u32, _: Averages) {}

    fn bytes(&self) -> Bytes {
        self.frequency.bytes() + self.momentum.bytes()
    }
}

/// Both averages of a unit in one cache line.
impl Tracker for PairedBloom {
    type Key = u64;

    fn lines(&self) -> usize {
        1
    }

    #[inline(always)]
    fn key(unit: u32) -> u64 {
        hash(unit, SEEDS[0])
    }

    #[inline(always)]
    fn touch(&self, key: u64) -> u64 {
        self.touch(key)
    }

    #[inline(always)]
    fn sample(&mut self, key: u64) -> Seen {
        let [frequency, momentum] = self.increment(key);
        Seen { frequency, momentum: momentum.to }
    }

    fn averages(&self, key: u64) -> Averages {
        let [frequency, momentum] = self.get(key);
        Averages { frequency, momentum }
    }

    fn cool_frequency(&mut self) {
        self.halve_long();
    }

    fn cool_momentum(&mut self) {
        self.halve_short();
    }

    fn most(&self) -> u32 {
        paired::MAX
    }

    fn take(&mut self, _: u32) -> Option<Averages> {
        None
    }

    fn put(&mut self, _: u32, _: Averages) {}

    fn bytes(&self) -> Bytes {
        self.bytes()
    }
}

/// Both averages in one word of 8 bits (4 and 4) or 32 (16 and 16).
pub(super) trait Cell: Copy + Send {
    const NEW: Self;
    const MOST: u32;
    fn pack(averages: Averages) -> Self;
    fn unpack(self) -> Averages;
}

impl Cell for u8 {
    const NEW: Self = 0;
    const MOST: u32 = 15;
    #[inline(always)]
    fn pack(averages: Averages) -> Self {
        (averages.frequency | averages.momentum << 4) as u8
    }
    #[inline(always)]
    fn unpack(self) -> Averages {
        Averages { frequency: u32::from(self & 15), momentum: u32::from(self >> 4) }
    }
}

impl Cell for u32 {
    const NEW: Self = 0;
    const MOST: u32 = u16::MAX as u32;
    #[inline(always)]
    fn pack(averages: Averages) -> Self {
        averages.frequency | averages.momentum << 16
    }
    #[inline(always)]
    fn unpack(self) -> Averages {
        Averages { frequency: self & Self::MOST, momentum: self >> 16 }
    }
}

/// Every unit's averages, in an array.
#[derive(Default)]
pub(super) struct Exact<C> {
    cells: Vec<C>,
}

impl<C: Cell> Exact<C> {
    fn cell(&mut self, unit: u32) -> &mut C {
        let unit = unit as usize;
        if unit >= self.cells.len() {
            self.cells.resize(unit + 1, C::NEW);
        }
        &mut self.cells[unit]
    }

    fn update(&mut self, change: impl Fn(Averages) -> Averages) {
        self.cells.iter_mut().for_each(|cell| *cell = C::pack(change(cell.unpack())));
    }
}

impl<C: Cell> Tracker for Exact<C> {
    type Key = u32;

    fn lines(&self) -> usize {
        1
    }

    #[inline(always)]
    fn key(unit: u32) -> u32 {
        unit
    }

    #[inline(always)]
    fn touch(&self, unit: u32) -> u64 {
        self.averages(unit).frequency.into()
    }

    #[inline(always)]
    fn sample(&mut self, unit: u32) -> Seen {
        let cell = self.cell(unit);
        let before = cell.unpack();
        let one_more = |value: u32| if value < C::MOST { value + 1 } else { value };
        let after =
            Averages { frequency: one_more(before.frequency), momentum: one_more(before.momentum) };
        *cell = C::pack(after);
        let frequency = Step { from: before.frequency, to: after.frequency };
        Seen { frequency, momentum: after.momentum }
    }

    #[inline(always)]
    fn averages(&self, unit: u32) -> Averages {
        self.cells.get(unit as usize).map_or(Averages::default(), |cell| cell.unpack())
    }

    fn cool_frequency(&mut self) {
        self.update(|a| Averages { frequency: a.frequency / 2, ..a });
    }

    fn cool_momentum(&mut self) {
        self.update(|a| Averages { momentum: a.momentum / 2, ..a });
    }

    fn most(&self) -> u32 {
        C::MOST
    }

    fn take(&mut self, unit: u32) -> Option<Averages> {
        let cell = self.cells.get_mut(unit as usize)?;
        Some(core::mem::replace(cell, C::NEW).unpack())
    }

    fn put(&mut self, unit: u32, averages: Averages) {
        *self.cell(unit) = C::pack(averages);
    }

    fn bytes(&self) -> Bytes {
        Bytes((self.cells.capacity() * size_of::<C>()) as u64)
    }
}
