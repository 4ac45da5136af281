//! Frequency and momentum of units, in filters or exactly.

use crate::hotness::bloom::{CountingBloom, HASHES, Increment, Step, hash};
use crate::hotness::paired::{self, PairedBloom, Place};
use crate::types::Bytes;
use alloc::vec::Vec;
use prefetch_index::prefetch_index;

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
    fn key(&self, unit: u32) -> Self::Key;
    /// Has a unit's memory loaded into the cache, without waiting for it.
    fn prefetch(&self, key: Self::Key);
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
    fn key(&self, unit: u32) -> [u64; 2] {
        SEEDS.map(|seed| hash(unit, seed))
    }

    #[inline(always)]
    fn prefetch(&self, [frequency, momentum]: [u64; 2]) {
        self.frequency.prefetch(frequency);
        self.momentum.prefetch(momentum);
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
    type Key = Place;

    fn lines(&self) -> usize {
        1
    }

    #[inline(always)]
    fn key(&self, unit: u32) -> Place {
        self.place(hash(unit, SEEDS[0]))
    }

    #[inline(always)]
    fn prefetch(&self, key: Place) {
        self.prefetch(key);
    }

    #[inline(always)]
    fn sample(&mut self, key: Place) -> Seen {
        let [frequency, momentum] = self.increment(key);
        Seen { frequency, momentum: momentum.to }
    }

    fn averages(&self, key: Place) -> Averages {
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
    /// One more in both, as far as they go.
    fn next(self) -> Self;
}

/// Of a cell of 8 bits, what comes next.
static NEXT: [u8; 256] = {
    let mut next = [0; 256];
    let mut cell = 0;
    while cell < next.len() {
        let (frequency, momentum) = (cell & 15, cell >> 4);
        let more = (frequency < 15) as usize + (((momentum < 15) as usize) << 4);
        next[cell] = (cell + more) as u8;
        cell += 1;
    }
    next
};

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
    #[inline(always)]
    fn next(self) -> Self {
        NEXT[usize::from(self)]
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
    #[inline(always)]
    fn next(self) -> Self {
        let Averages { frequency, momentum } = self.unpack();
        self + u32::from(frequency < Self::MOST) + (u32::from(momentum < Self::MOST) << 16)
    }
}

/// Every unit's averages, in an array.
#[derive(Default)]
pub(super) struct Exact<C> {
    cells: Vec<C>,
}

impl<C: Cell> Exact<C> {
    #[inline(always)]
    fn cell(&mut self, unit: u32) -> &mut C {
        if unit as usize >= self.cells.len() {
            self.grow(unit);
        }
        &mut self.cells[unit as usize]
    }

    #[cold]
    fn grow(&mut self, unit: u32) {
        self.cells.resize(unit as usize + 1, C::NEW);
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
    fn key(&self, unit: u32) -> u32 {
        unit
    }

    #[inline(always)]
    fn prefetch(&self, unit: u32) {
        prefetch_index(&self.cells, unit as usize);
    }

    #[inline(always)]
    fn sample(&mut self, unit: u32) -> Seen {
        let cell = self.cell(unit);
        let before = cell.unpack();
        *cell = cell.next();
        let after = cell.unpack();
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
