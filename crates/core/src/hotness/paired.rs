//! Two counts of a key in one cache line: a long and a short one, in 4 bits each and probably.
//!
//! Two [`CountingBloom`](super::bloom::CountingBloom)s in blocks cost two cache misses for each key.
//! Here both have a part of the same block, so that one is enough: three quarters for the long
//! count, a quarter for the short one, which forgets sooner and needs to hold fewer keys.

use super::bloom::{HASHES, Increment, Step};
use crate::types::Bytes;
use alloc::vec::Vec;

/// Largest count.
pub const MAX: u32 = 15;

const LINE_BYTES: usize = 64;
const WORDS: usize = LINE_BYTES / size_of::<u32>();
/// Counters of a word, by kind: first those of the long count, then those of the short one.
const LONG: u64 = 6;
const SHORT: u64 = 2;
/// Bits of the short counters in a word.
const SHORT_BITS: u32 = 0xff00_0000;
/// What remains of the counters when a word is shifted right by one.
const HALVED: u32 = 0x7777_7777;

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line([u32; WORDS]);

/// The lowest bit of each sixteen.
const ONES: u64 = 0x0001_0001_0001_0001;
/// First word of each part.
const PARTS: u64 = 0x000c_0008_0004_0000;

/// Where a key's counters are, sixteen bits for each part.
#[derive(Clone, Copy, Debug)]
struct Places {
    words: u64,
    /// Lowest bits of the counters in their words.
    long: u64,
    short: u64,
}

/// Counts of keys over a long and over a short time.
#[derive(Clone, Debug)]
pub struct PairedBloom {
    lines: Vec<Line>,
    /// The largest counter that is raised, by the least of a key's counters. Looked up, as what
    /// that is depends on the sample and is hard to foresee.
    last: [u32; 1 + MAX as usize],
}

impl PairedBloom {
    /// Lines in which are at least so many counters of the long and of the short count.
    pub fn lines_for([long, short]: [u64; 2]) -> [u64; 2] {
        let words = WORDS as u64;
        [long.div_ceil(words * LONG), short.div_ceil(words * SHORT)]
    }

    /// So many lines of counters, all 0; at least one.
    pub fn new(lines: u64, increment: Increment) -> Self {
        let lines = usize::try_from(lines.clamp(1, 1 << 32)).expect("a 64 bit machine");
        let last = core::array::from_fn(|least| match increment {
            Increment::Conservative => (least as u32).min(MAX - 1),
            Increment::All => MAX - 1,
        });
        Self { lines: alloc::vec![Line([0; WORDS]); lines], last }
    }

    /// Memory of the counters.
    pub fn bytes(&self) -> Bytes {
        Bytes((self.lines.capacity() * LINE_BYTES) as u64)
    }

    /// Loads memory of a key's counters and does nothing, as
    /// [`CountingBloom::touch`](super::bloom::CountingBloom::touch) does.
    #[inline(always)]
    pub fn touch(&self, hash: u64) -> u64 {
        self.lines[self.line(hash)].0[0].into()
    }

    /// The long and the short count of the key of a hash, at most [`MAX`].
    #[inline]
    pub fn get(&self, hash: u64) -> [u32; 2] {
        let (line, places) = (&self.lines[self.line(hash)], Places::of(hash));
        let words = core::array::from_fn(|part| line.0[places.word(part)]);
        [places.long, places.short].map(|bits| least(counters(words, bits)))
    }

    /// Counts the key of a hash once, both ways.
    #[inline(always)]
    pub fn increment(&mut self, hash: u64) -> [Step; 2] {
        let at = self.line(hash);
        let last = &self.last;
        let line = &mut self.lines[at];
        let places = Places::of(hash);
        let mut words = core::array::from_fn(|part| line.0[places.word(part)]);
        let [long, short] = [places.long, places.short].map(|bits| counters(words, bits));
        let steps = [
            raise(&mut words, long, places.long, last),
            raise(&mut words, short, places.short, last),
        ];
        for (part, word) in words.into_iter().enumerate() {
            line.0[places.word(part)] = word;
        }
        steps
    }

    /// Halves every long count, rounding down.
    pub fn halve_long(&mut self) {
        self.halve(!SHORT_BITS);
    }

    /// Halves every short count, rounding down.
    pub fn halve_short(&mut self) {
        self.halve(SHORT_BITS);
    }

    /// Not inlined: with the bits known, it would be done byte by byte.
    #[inline(never)]
    fn halve(&mut self, bits: u32) {
        for word in self.lines.iter_mut().flat_map(|line| &mut line.0) {
            *word = ((*word >> 1) & HALVED & bits) | (*word & !bits);
        }
    }

    #[inline(always)]
    fn line(&self, hash: u64) -> usize {
        (((hash >> 32) * self.lines.len() as u64) >> 32) as usize
    }
}

impl Places {
    /// Bits of the hash that choose the line are the same for all keys in it; multiplied, every bit
    /// below takes part.
    #[inline(always)]
    const fn of(hash: u64) -> Self {
        let bits = hash.wrapping_mul(0xd6e8_feb8_6659_fd93);
        let first_short = 4 * LONG * ONES;
        Self {
            words: PARTS | ((bits >> 14) & (3 * ONES)),
            long: (((bits & (0xff * ONES)) * (4 * LONG)) >> 8) & (0x1c * ONES),
            short: first_short | ((bits >> 6) & (4 * ONES)),
        }
    }

    #[inline(always)]
    const fn word(self, part: usize) -> usize {
        (self.words >> (16 * part)) as usize % WORDS
    }
}

/// The counters of a count, which begin at these bits of the words.
#[inline(always)]
fn counters(words: [u32; HASHES], bits: u64) -> [u32; HASHES] {
    core::array::from_fn(|part| words[part].wrapping_shr((bits >> (16 * part)) as u32) & MAX)
}

/// Raises those that are to be, of the counters that begin at these bits.
#[inline(always)]
fn raise(
    words: &mut [u32; HASHES],
    counters: [u32; HASHES],
    bits: u64,
    last: &[u32; 1 + MAX as usize],
) -> Step {
    let from = least(counters);
    let last = last[(from & MAX) as usize];
    for (part, word) in words.iter_mut().enumerate() {
        let raised = u32::from(counters[part] <= last);
        *word += raised.wrapping_shl((bits >> (16 * part)) as u32);
    }
    Step { from, to: from + u32::from(from < MAX) }
}

#[inline(always)]
fn least([a, b, c, d]: [u32; HASHES]) -> u32 {
    a.min(b).min(c.min(d))
}

#[cfg(test)]
mod tests {
    use super::super::bloom::{counters_per_key, hash};
    use super::*;
    use proptest::prelude::*;

    /// Counters of a word.
    const COUNTERS: usize = (LONG + SHORT) as usize;

    fn is_short(counter: usize) -> bool {
        counter % COUNTERS >= LONG as usize
    }

    impl Places {
        /// Counters of the line, by kind.
        fn counters(self) -> [[usize; HASHES]; 2] {
            [self.long, self.short].map(|bits| {
                core::array::from_fn(|part| {
                    let bit = (bits >> (16 * part)) as usize % 32;
                    self.word(part) * COUNTERS + bit / 4
                })
            })
        }
    }

    /// Every counter by itself.
    struct Slow {
        shape: PairedBloom,
        counters: Vec<u32>,
        all: bool,
    }

    impl Slow {
        fn at(&self, hash: u64) -> [[usize; HASHES]; 2] {
            let line = self.shape.line(hash) * WORDS;
            Places::of(hash).counters().map(|places| places.map(|place| line * COUNTERS + place))
        }
        fn get(&self, hash: u64) -> [u32; 2] {
            self.at(hash).map(|at| at.map(|i| self.counters[i]).into_iter().min().unwrap())
        }
        fn increment(&mut self, hash: u64) {
            let before = self.get(hash);
            for (at, least) in self.at(hash).into_iter().zip(before) {
                for i in at {
                    let count = &mut self.counters[i];
                    if least < MAX && (self.all || *count == least) && *count < MAX {
                        *count += 1;
                    }
                }
            }
        }
        fn halve(&mut self, short: bool) {
            for (i, count) in self.counters.iter_mut().enumerate() {
                if is_short(i) == short {
                    *count /= 2;
                }
            }
        }
    }

    proptest! {
        #[test]
        fn equals_plain_counters(
            keys in proptest::collection::vec(0u32..60, 1..500),
            lines in 1u64..8,
            every in 20usize..200,
            all: bool,
        ) {
            let increment = if all { Increment::All } else { Increment::Conservative };
            let mut filter = PairedBloom::new(lines, increment);
            let counters = alloc::vec![0; filter.bytes().0 as usize * 2];
            let mut slow = Slow { shape: filter.clone(), counters, all };
            for (i, key) in keys.iter().enumerate() {
                let hash = hash(*key, 7);
                let before = slow.get(hash);
                slow.increment(hash);
                let steps = filter.increment(hash);
                prop_assert_eq!(steps.map(|step| step.from), before);
                prop_assert_eq!(steps.map(|step| step.to), slow.get(hash));
                if i % every == every / 2 {
                    filter.halve_short();
                    slow.halve(true);
                }
                if i % every == every - 1 {
                    filter.halve_long();
                    slow.halve(false);
                }
                prop_assert_eq!(filter.get(hash), slow.get(hash));
            }
        }
    }

    #[test]
    fn counters_of_a_key_differ_and_use_their_room() {
        let mut used = [[0u32; WORDS * COUNTERS]; 2];
        for key in 0..20_000 {
            let places = Places::of(hash(key, 1)).counters();
            for (places, used) in places.iter().zip(&mut used) {
                for (part, counter) in places.iter().enumerate() {
                    assert_eq!(counter / COUNTERS / (WORDS / HASHES), part);
                    used[*counter] += 1;
                }
            }
        }
        for (counter, (long, short)) in used[0].iter().zip(&used[1]).enumerate() {
            let (mine, other, kind) =
                if is_short(counter) { (short, long, SHORT) } else { (long, short, LONG) };
            let expected = 20_000 / (kind as u32 * (WORDS / HASHES) as u32);
            assert_eq!(*other, 0);
            assert!(mine.abs_diff(expected) < expected / 4, "counter {counter}: {mine}");
        }
    }

    #[test]
    fn errs_as_rarely_as_it_was_sized_for() {
        let counters = (20_000.0 * counters_per_key(0.001)) as u64;
        let [lines, _] = PairedBloom::lines_for([counters, 0]);
        let mut filter = PairedBloom::new(lines, Increment::Conservative);
        (0..20_000).for_each(|key| {
            filter.increment(hash(key, 3));
        });
        let wrong = (20_000..120_000).filter(|key| filter.get(hash(*key, 3))[0] > 0).count();
        let wrong = wrong as f64 / 100_000.0;
        assert!((0.0005..0.003).contains(&wrong), "{wrong}");
    }

    #[test]
    fn saturates_and_halves_each_by_itself() {
        let mut filter = PairedBloom::new(1, Increment::Conservative);
        let key = hash(9, 0);
        let steps: Vec<[Step; 2]> = (0..17).map(|_| filter.increment(key)).collect();
        assert_eq!(steps[14], [Step { from: 14, to: 15 }; 2]);
        assert_eq!(steps[16], [Step { from: 15, to: 15 }; 2]);
        filter.halve_short();
        assert_eq!(filter.get(key), [15, 7]);
        filter.halve_long();
        assert_eq!(filter.get(key), [7, 7]);
        assert_eq!(filter.increment(key), [Step { from: 7, to: 8 }; 2]);
    }
}
