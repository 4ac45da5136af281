//! Ranks of densities: bins of a sixteenth of an octave, a histogram and a queue by them.

use crate::types::*;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hash::{BuildHasherDefault, Hasher};
use hashbrown::HashMap;

/// Number of bins: from 2^-24 to 2^40.
pub(super) const BINS: usize = 1024;
/// Bits of a float that bins do not tell apart.
const SHIFT: u32 = 23 - 4;
/// Upper bits of the float at which bin 0 ends.
const FIRST: u32 = (127 - 24) << 4;

/// Bin of a density; 0 for next to nothing.
#[inline]
pub(super) fn bin(density: f32) -> usize {
    ((density.to_bits() >> SHIFT).saturating_sub(FIRST) as usize).min(BINS - 1)
}

/// The least density of a bin.
pub(super) fn least(bin: usize) -> f32 {
    if bin == 0 { 0.0 } else { f32::from_bits((bin as u32 + FIRST) << SHIFT) }
}

/// Stale entries of a queue that are kept.
const SLACK: usize = 1024;

/// Something counted by density.
#[derive(Clone, Debug)]
pub(super) struct Histogram(Box<[u32; BINS]>);

impl Histogram {
    pub(super) fn new() -> Self {
        Self(Box::new([0; BINS]))
    }

    #[inline]
    pub(super) fn add(&mut self, bin: usize, amount: u32) {
        self.0[bin] = self.0[bin].saturating_add(amount);
    }

    pub(super) fn clear(&mut self) {
        self.0.fill(0);
    }

    /// The least bin from which on no more than this is counted.
    pub(super) fn fitting(&self, most: u64) -> usize {
        let mut above = 0u64;
        for bin in (0..BINS).rev() {
            above += u64::from(self.0[bin]);
            if above > most {
                return bin + 1;
            }
        }
        0
    }

    /// The least density of each bin, and what is counted there, where that is more than nothing.
    pub(super) fn filled(&self) -> impl Iterator<Item = (f32, u32)> + Clone {
        let filled = self.0.iter().enumerate().filter(|(_, amount)| **amount > 0);
        filled.map(|(bin, amount)| (least(bin), *amount))
    }
}

/// Spreads page numbers over a table, the same way in every run: what memory a table takes depends on it.
#[derive(Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }
    fn write_u32(&mut self, number: u32) {
        let product = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

/// Units by density, each in one bin: that in which it was put last. Entries of other bins are stale, and
/// thrown away when they come up.
#[derive(Debug)]
pub(super) struct Queue {
    bins: Vec<Vec<u32>>,
    /// A bit for each bin that is not empty.
    filled: [u64; BINS / 64],
    /// Bins of the units that are in it.
    places: HashMap<u32, u16, BuildHasherDefault<Spread>>,
    /// Entries, stale ones included.
    entries: usize,
}

impl Queue {
    pub(super) fn new() -> Self {
        let bins = (0..BINS).map(|_| Vec::new()).collect();
        Self { bins, filled: [0; BINS / 64], places: HashMap::default(), entries: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// The bin of a unit, named by its first page.
    #[inline]
    pub(super) fn place(&self, unit: PageId) -> Option<usize> {
        self.places.get(&unit.0).map(|bin| usize::from(*bin))
    }

    /// Puts a unit into a bin, and out of the one where it was.
    pub(super) fn put(&mut self, unit: PageId, bin: usize) {
        if self.places.insert(unit.0, bin as u16) == Some(bin as u16) {
            return;
        }
        if self.entries > 2 * self.places.len() + SLACK {
            self.drop_stale();
        }
        self.bins[bin].push(unit.0);
        self.filled[bin / 64] |= 1 << (bin % 64);
        self.entries += 1;
    }

    fn drop_stale(&mut self) {
        for (bin, units) in self.bins.iter_mut().enumerate() {
            units.retain(|unit| self.places.get(unit) == Some(&(bin as u16)));
            units.dedup();
            if units.is_empty() {
                self.filled[bin / 64] &= !(1 << (bin % 64));
            }
        }
        self.entries = self.bins.iter().map(Vec::len).sum();
    }

    /// Takes a unit of the least bin out, with the bin.
    pub(super) fn take_lowest(&mut self) -> Option<(PageId, usize)> {
        loop {
            let word = self.filled.iter().position(|word| *word != 0)?;
            let bin = word * 64 + self.filled[word].trailing_zeros() as usize;
            if let Some(unit) = self.take(bin) {
                return Some((unit, bin));
            }
        }
    }

    /// Takes a unit of the largest bin out, with the bin.
    pub(super) fn take_highest(&mut self) -> Option<(PageId, usize)> {
        loop {
            let word = self.filled.iter().rposition(|word| *word != 0)?;
            let bin = word * 64 + 63 - self.filled[word].leading_zeros() as usize;
            if let Some(unit) = self.take(bin) {
                return Some((unit, bin));
            }
        }
    }

    /// The last unit of a bin, unless its entry is stale.
    fn take(&mut self, bin: usize) -> Option<PageId> {
        let unit = self.bins[bin].pop();
        self.entries -= usize::from(unit.is_some());
        if self.bins[bin].is_empty() {
            self.filled[bin / 64] &= !(1 << (bin % 64));
        }
        let unit = unit.filter(|unit| self.places.get(unit) == Some(&(bin as u16)))?;
        self.places.remove(&unit);
        Some(PageId(unit))
    }

    pub(super) fn bytes(&self) -> Bytes {
        let units: usize = self.bins.iter().map(Vec::capacity).sum();
        Bytes((units * 4 + self.places.capacity() * 8) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_as_wide_as_they_say() {
        for density in [1e-6f32, 0.001, 0.3, 1.0, 1.06, 7.7, 1e6] {
            let bin = bin(density);
            assert!(least(bin) <= density && density < least(bin + 1), "{density}");
            assert!(least(bin + 1) / least(bin) < 1.07);
        }
        assert_eq!((bin(0.0), bin(1e-9), bin(f32::MAX)), (0, 0, BINS - 1));
        assert_eq!(least(0), 0.0);
    }

    #[test]
    fn what_fits_is_what_is_densest() {
        let mut histogram = Histogram::new();
        for (density, pages) in [(4.0, 10), (2.0, 10), (0.0, 80)] {
            histogram.add(bin(density), pages);
        }
        assert_eq!(histogram.fitting(100), 0);
        assert_eq!(histogram.fitting(99), 1);
        assert_eq!(histogram.fitting(20), 1);
        assert_eq!(histogram.fitting(19), bin(2.0) + 1);
        assert_eq!(histogram.fitting(9), bin(4.0) + 1);
    }

    #[test]
    fn units_leave_by_the_density_that_they_had_last() {
        let mut queue = Queue::new();
        for (unit, bin) in [(7, 100), (8, 3), (9, 1000), (8, 500), (8, 500)] {
            queue.put(PageId(unit), bin);
        }
        assert_eq!((queue.len(), queue.place(PageId(8))), (3, Some(500)));
        assert_eq!(queue.take_lowest(), Some((PageId(7), 100)));
        assert_eq!(queue.take_highest(), Some((PageId(9), 1000)));
        assert_eq!(queue.take_highest(), Some((PageId(8), 500)));
        assert_eq!((queue.take_lowest(), queue.take_highest(), queue.len()), (None, None, 0));
    }

    #[test]
    fn a_queue_does_not_grow_with_what_is_put_in_again() {
        let mut queue = Queue::new();
        for i in 0..100_000 {
            queue.put(PageId(i % 64), (i as usize * 7) % BINS);
        }
        assert_eq!(queue.len(), 64);
        assert!(queue.entries <= 2 * 64 + SLACK + 1, "{}", queue.entries);
        let mut bins = Vec::new();
        while let Some((_, bin)) = queue.take_lowest() {
            bins.push(bin);
        }
        assert!(bins.len() == 64 && bins.is_sorted());
    }
}
