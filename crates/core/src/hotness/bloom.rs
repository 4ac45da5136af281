//! Counting Bloom filters: how often a key was counted, in a few bits and probably.
//!
//! A key has [`HASHES`] counters, shared with other keys. Its count is the least of them, which is
//! never less than the truth as long as nothing was halved or saturated: others can only add.

use crate::types::Bytes;
use alloc::vec::Vec;
use prefetch_index::prefetch_index;

/// Counters of a key, `k`.
pub const HASHES: usize = 4;

/// Bytes of a cache line.
const LINE_BYTES: u64 = 64;
const LINE_WORDS: usize = 8;

/// A cache line of counters.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line([u64; LINE_WORDS]);

/// Where a counter is: line, word in it, lowest bit in that.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    line: usize,
    word: usize,
    shift: u32,
}

impl Slot {
    const fn is(self, other: Self) -> bool {
        self.line == other.line && self.word == other.word && self.shift == other.shift
    }
}

/// Which counters of a key an increment raises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Increment {
    /// Those that equal the least (Estan and Varghese's conservative update): the rest have been
    /// raised by others already.
    Conservative,
    /// All.
    All,
}

/// A key's count before and after an increment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Before.
    pub from: u32,
    /// After: one more, unless saturated.
    pub to: u32,
}

/// Counters per key that make a key that was never counted seem counted with probability `error`,
/// within `(0, 1)`: `r = -k / ln(1 - exp(ln(p) / k))`.
///
/// The formula as printed in HybridTier (ASPLOS '25, 4.2) has lost the sign of the exponent.
pub fn counters_per_key(error: f64) -> f64 {
    let k = HASHES as f64;
    -k / libm::log(1.0 - libm::exp(libm::log(error) / k))
}

/// A filter of counters of `BITS` bits: 4, 8 or 16. Where `BLOCKED`, all counters of a key are in
/// one cache line, and a look-up misses at most once.
#[derive(Clone, Debug)]
pub struct CountingBloom<const BITS: u32, const BLOCKED: bool> {
    lines: Vec<Line>,
    increment: Increment,
}

impl<const BITS: u32, const BLOCKED: bool> CountingBloom<BITS, BLOCKED> {
    /// Largest count.
    pub const MAX: u32 = (1 << BITS) - 1;
    const PER_WORD: u64 = 64 / BITS as u64;
    const PER_LINE: u64 = LINE_BYTES * 8 / BITS as u64;
    /// What remains of a word's counters when it is shifted right by one.
    const HALVED: u64 = u64::MAX / Self::MAX as u64 * (Self::MAX as u64 >> 1);

    /// At least `counters` counters, all 0; at least one line.
    pub fn new(counters: u64, increment: Increment) -> Self {
        const { assert!(BITS == 4 || BITS == 8 || BITS == 16) };
        let lines = counters.div_ceil(Self::PER_LINE).clamp(1, 1 << 32);
        let lines = usize::try_from(lines).expect("a 64 bit machine");
        Self { lines: alloc::vec![Line([0; LINE_WORDS]); lines], increment }
    }

    /// Number of counters.
    pub fn counters(&self) -> u64 {
        self.lines.len() as u64 * Self::PER_LINE
    }

    /// Memory of the counters.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.lines.capacity() as u64 * LINE_BYTES)
    }

    /// Has a key's counters loaded into the cache, without waiting for them: a caller that knows the
    /// next keys lets the cache misses of several overlap with its work.
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        if BLOCKED {
            return prefetch_index(&self.lines, self.block(hash));
        }
        self.slots(hash).iter().for_each(|slot| prefetch_index(&self.lines, slot.line));
    }

    /// How often the key of a hash was counted, at most [`Self::MAX`].
    #[inline]
    pub fn get(&self, hash: u64) -> u32 {
        let mut least = Self::MAX;
        for slot in self.slots(hash) {
            least = least.min(self.value(slot));
        }
        least
    }

    /// Counts the key of a hash once.
    #[inline(always)]
    pub fn increment(&mut self, hash: u64) -> Step {
        let slots = self.slots(hash);
        let mut values = [0; HASHES];
        let mut from = Self::MAX;
        for (value, slot) in values.iter_mut().zip(slots) {
            *value = self.value(slot);
            from = from.min(*value);
        }
        if from == Self::MAX {
            return Step { from, to: from };
        }
        let all = self.increment == Increment::All;
        for (i, (slot, value)) in slots.into_iter().zip(values).enumerate() {
            // Only outside blocks may two counters of a key be the same one.
            let again = !BLOCKED && slots[..i].iter().any(|other| other.is(slot));
            let raised = (all || value == from) & (value < Self::MAX) & !again;
            self.lines[slot.line].0[slot.word % LINE_WORDS] += u64::from(raised) << slot.shift;
        }
        Step { from, to: from + 1 }
    }

    /// Halves every counter, rounding down.
    pub fn halve(&mut self) {
        for line in &mut self.lines {
            line.0.iter_mut().for_each(|word| *word = (*word >> 1) & Self::HALVED);
        }
    }

    #[inline(always)]
    fn value(&self, slot: Slot) -> u32 {
        (self.lines[slot.line].0[slot.word % LINE_WORDS] >> slot.shift) as u32 & Self::MAX
    }

    #[inline(always)]
    fn block(&self, hash: u64) -> usize {
        (((hash >> 32) * self.lines.len() as u64) >> 32) as usize
    }

    /// A key's counters. In a block each has a quarter of the line for itself, so that no two are
    /// the same. Else they are where Kirsch and Mitzenmacher's double hashing has them (2008).
    #[inline(always)]
    fn slots(&self, hash: u64) -> [Slot; HASHES] {
        let mut slots = [Slot::default(); HASHES];
        if BLOCKED {
            let line = self.block(hash);
            let quarter = Self::PER_LINE / HASHES as u64;
            for (i, slot) in slots.iter_mut().enumerate() {
                let counter = (hash >> (8 * i)) % quarter;
                let word = i * LINE_WORDS / HASHES + (counter / Self::PER_WORD) as usize;
                *slot = Slot { line, word, shift: Self::shift(counter) };
            }
        } else {
            let (step, counters) = (hash.rotate_right(32) | 1, self.counters());
            for (i, slot) in slots.iter_mut().enumerate() {
                let point = hash.wrapping_add(step.wrapping_mul(i as u64));
                let counter = ((u128::from(point) * u128::from(counters)) >> 64) as u64;
                let word = (counter % Self::PER_LINE / Self::PER_WORD) as usize;
                let line = (counter / Self::PER_LINE) as usize;
                *slot = Slot { line, word, shift: Self::shift(counter) };
            }
        }
        slots
    }

    const fn shift(counter: u64) -> u32 {
        (counter % Self::PER_WORD) as u32 * BITS
    }
}

/// Spreads a key over 64 bits (the finalizer of SplitMix64). Filters that shall err independently
/// take different seeds.
#[inline(always)]
pub const fn hash(key: u32, seed: u64) -> u64 {
    let mut z = (key as u64 ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 32)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 29)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every counter by itself, as one would write it first.
    struct Slow<const BITS: u32, const BLOCKED: bool> {
        counters: Vec<u32>,
        shape: CountingBloom<BITS, BLOCKED>,
    }

    impl<const BITS: u32, const BLOCKED: bool> Slow<BITS, BLOCKED> {
        fn at(&self, hash: u64) -> [usize; HASHES] {
            self.shape.slots(hash).map(|slot| {
                (slot.line * LINE_WORDS + slot.word) * (64 / BITS as usize)
                    + (slot.shift / BITS) as usize
            })
        }
        fn get(&self, hash: u64) -> u32 {
            self.at(hash).iter().map(|&i| self.counters[i]).min().unwrap()
        }
        fn increment(&mut self, hash: u64) {
            let least = self.get(hash);
            let mut at = self.at(hash).to_vec();
            at.sort_unstable();
            at.dedup();
            for i in at {
                let all = self.shape.increment == Increment::All;
                if (all || self.counters[i] == least) && self.counters[i] < (1 << BITS) - 1 {
                    self.counters[i] += 1;
                }
            }
        }
    }

    fn agrees<const BITS: u32, const BLOCKED: bool>(
        size: u64,
        increment: Increment,
        keys: &[u32],
        halve_every: usize,
    ) {
        let mut filter = CountingBloom::<BITS, BLOCKED>::new(size, increment);
        let counters = alloc::vec![0; filter.counters() as usize];
        let mut slow = Slow { counters, shape: filter.clone() };
        for (i, key) in keys.iter().enumerate() {
            let hash = hash(*key, 7);
            let before = slow.get(hash);
            slow.increment(hash);
            let step = filter.increment(hash);
            assert_eq!(step, Step { from: before, to: slow.get(hash) });
            if i % halve_every == halve_every - 1 {
                filter.halve();
                slow.counters.iter_mut().for_each(|c| *c /= 2);
            }
            assert_eq!(filter.get(hash), slow.get(hash));
        }
    }

    proptest! {
        #[test]
        fn equals_plain_counters(
            keys in proptest::collection::vec(0u32..60, 1..400),
            size in 1u64..2000,
            halve_every in 20usize..200,
        ) {
            for increment in [Increment::Conservative, Increment::All] {
                agrees::<4, true>(size, increment, &keys, halve_every);
                agrees::<8, true>(size, increment, &keys, halve_every);
                agrees::<16, true>(size, increment, &keys, halve_every);
                agrees::<4, false>(size, increment, &keys, halve_every);
                agrees::<8, false>(size, increment, &keys, halve_every);
                agrees::<16, false>(size, increment, &keys, halve_every);
            }
        }

        #[test]
        fn never_less_than_the_truth(keys in proptest::collection::vec(0u32..500, 1..2000)) {
            let mut filter = CountingBloom::<16, true>::new(600, Increment::Conservative);
            let mut truth = alloc::collections::BTreeMap::new();
            for key in keys {
                filter.increment(hash(key, 0));
                *truth.entry(key).or_insert(0u32) += 1;
            }
            for (key, count) in truth {
                prop_assert!(filter.get(hash(key, 0)) >= count);
            }
        }
    }

    #[test]
    fn as_large_as_the_formula_says() {
        assert!((counters_per_key(0.001) - 20.43).abs() < 0.005, "{}", counters_per_key(0.001));
        let filter = CountingBloom::<4, true>::new(1000, Increment::All);
        assert_eq!((filter.counters(), filter.bytes()), (1024, Bytes(512)));
    }

    /// Share of 100000 keys never counted that seem counted, after 20000 others were.
    fn false_positives<const BLOCKED: bool>() -> f64 {
        let size = (20_000.0 * counters_per_key(0.001)) as u64;
        let mut filter = CountingBloom::<4, BLOCKED>::new(size, Increment::Conservative);
        (0..20_000).for_each(|key| {
            filter.increment(hash(key, 3));
        });
        let wrong = (20_000..120_000).filter(|key| filter.get(hash(*key, 3)) > 0).count();
        wrong as f64 / 100_000.0
    }

    #[test]
    fn errs_as_rarely_as_it_was_sized_for() {
        let standard = false_positives::<false>();
        assert!((0.0005..0.0015).contains(&standard), "{standard}");
        // Blocks are filled unevenly: that costs some precision (Putze, Sanders, Singler 2007).
        let blocked = false_positives::<true>();
        assert!((0.0005..0.003).contains(&blocked), "{blocked}");
    }

    #[test]
    fn saturates_and_halves() {
        let mut filter = CountingBloom::<4, true>::new(1, Increment::Conservative);
        let key = hash(9, 0);
        let steps: Vec<Step> = (0..17).map(|_| filter.increment(key)).collect();
        assert_eq!(steps[14], Step { from: 14, to: 15 });
        assert_eq!(steps[16], Step { from: 15, to: 15 });
        filter.halve();
        assert_eq!(filter.get(key), 7);
    }

    #[test]
    fn conservative_increments_err_less() {
        let over = |increment| {
            let mut filter = CountingBloom::<4, true>::new(4000, increment);
            (0..3000u32).for_each(|i| {
                filter.increment(hash(i % 1000, 0));
            });
            (0..1000).filter(|key| filter.get(hash(*key, 0)) > 3).count()
        };
        let (conservative, all) = (over(Increment::Conservative), over(Increment::All));
        assert!(conservative * 2 < all, "{conservative} and {all} of 1000 too high");
    }
}
