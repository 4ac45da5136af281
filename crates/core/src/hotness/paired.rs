//! Two counts of a key in one cache line: a long and a short one, in 4 bits each and probably.
//!
//! Two [`CountingBloom`](super::bloom::CountingBloom)s in blocks cost two cache misses for each key.
//! Here both have a part of the same block, so that one is enough: three quarters for the long
//! count, a quarter for the short one, which forgets sooner and needs to hold fewer keys.

use super::bloom::{HASHES, Increment, Step};
use crate::types::Bytes;
use alloc::vec::Vec;
use core::ops::Range;

/// Largest count.
pub const MAX: u32 = 15;

const LINE_BYTES: usize = 64;
/// Bytes of a line in which one of a key's counters of either kind lies: first those of the long
/// count, then those of the short one.
const PART_BYTES: usize = LINE_BYTES / HASHES;
const LONG_BYTES: usize = 12;
/// Counters of a part, by kind.
const LONG: u64 = 2 * LONG_BYTES as u64;
const SHORT: u64 = 2 * (PART_BYTES - LONG_BYTES) as u64;
/// What remains of two counters when their byte is shifted right by one.
const HALVED: u8 = 0x77;

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line([u8; LINE_BYTES]);

/// One position of eight bits in each sixteen.
const LANES: u64 = 0x00ff_00ff_00ff_00ff;

/// Where a key's counters are in the parts of a line, sixteen bits each.
#[derive(Clone, Copy, Debug)]
struct Places(u64);

/// Counts of keys over a long and over a short time.
#[derive(Clone, Debug)]
pub struct PairedBloom {
    lines: Vec<Line>,
    increment: Increment,
}

impl PairedBloom {
    /// Lines in which are at least so many counters of the long and of the short count.
    pub fn lines_for([long, short]: [u64; 2]) -> [u64; 2] {
        let parts = HASHES as u64;
        [long.div_ceil(parts * LONG), short.div_ceil(parts * SHORT)]
    }

    /// So many lines of counters, all 0; at least one.
    pub fn new(lines: u64, increment: Increment) -> Self {
        let lines = usize::try_from(lines.clamp(1, 1 << 32)).expect("a 64 bit machine");
        Self { lines: alloc::vec![Line([0; LINE_BYTES]); lines], increment }
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
        let line = &self.lines[self.line(hash)];
        let [long, short] = Places::of(hash);
        [long.least(line), short.least(line)]
    }

    /// Counts the key of a hash once, both ways.
    #[inline(always)]
    pub fn increment(&mut self, hash: u64) -> [Step; 2] {
        let at = self.line(hash);
        let (all, line) = (self.increment == Increment::All, &mut self.lines[at]);
        let [long, short] = Places::of(hash);
        [long.raise(line, all), short.raise(line, all)]
    }

    /// Halves every long count, rounding down.
    pub fn halve_long(&mut self) {
        self.halve(0..LONG_BYTES);
    }

    /// Halves every short count, rounding down.
    pub fn halve_short(&mut self) {
        self.halve(LONG_BYTES..PART_BYTES);
    }

    /// These bytes of every part. Inlined, so that the range is constant.
    #[inline(always)]
    fn halve(&mut self, bytes: Range<usize>) {
        for line in &mut self.lines {
            for part in line.0.chunks_exact_mut(PART_BYTES) {
                part[bytes.clone()].iter_mut().for_each(|byte| *byte = (*byte >> 1) & HALVED);
            }
        }
    }

    #[inline(always)]
    fn line(&self, hash: u64) -> usize {
        (((hash >> 32) * self.lines.len() as u64) >> 32) as usize
    }
}

impl Places {
    /// Those of both counts. Bits of the hash that choose the line are the same for all keys in
    /// it; multiplied, every bit below takes part.
    #[inline(always)]
    const fn of(hash: u64) -> [Self; 2] {
        let bits = hash.wrapping_mul(0xd6e8_feb8_6659_fd93);
        let long = ((((bits >> 8) & LANES) * LONG) >> 8) & LANES;
        let short = (((bits & LANES) * SHORT) >> 8) & LANES;
        let short = short + LONG * 0x0001_0001_0001_0001;
        [Self(long), Self(short)]
    }

    /// The byte of a counter, and its lowest bit in that.
    #[inline(always)]
    const fn place(self, part: usize) -> (usize, u32) {
        let counter = (self.0 >> (16 * part)) as usize % 32;
        (part * PART_BYTES + counter / 2, (counter as u32 % 2) * 4)
    }

    #[inline(always)]
    fn values(self, line: &Line) -> [u32; HASHES] {
        let mut values = [0; HASHES];
        for (part, value) in values.iter_mut().enumerate() {
            let (byte, shift) = self.place(part);
            *value = (u32::from(line.0[byte % LINE_BYTES]) >> shift) & MAX;
        }
        values
    }

    #[inline(always)]
    fn least(self, line: &Line) -> u32 {
        least(self.values(line))
    }

    #[inline(always)]
    fn raise(self, line: &mut Line, all: bool) -> Step {
        let values = self.values(line);
        let from = least(values);
        if from == MAX {
            return Step { from, to: from };
        }
        for (part, value) in values.into_iter().enumerate() {
            let (byte, shift) = self.place(part);
            let raised = (value == from) | (all & (value < MAX));
            line.0[byte % LINE_BYTES] += u8::from(raised) << shift;
        }
        Step { from, to: from + 1 }
    }
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

    /// Every counter by itself.
    struct Slow {
        shape: PairedBloom,
        counters: Vec<u32>,
        all: bool,
    }

    impl Slow {
        fn at(&self, hash: u64) -> [[usize; HASHES]; 2] {
            let line = self.shape.line(hash) * LINE_BYTES;
            Places::of(hash).map(|places| {
                [0, 1, 2, 3].map(|part| {
                    let (byte, shift) = places.place(part);
                    (line + byte) * 2 + shift as usize / 4
                })
            })
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
                if (i / 2 % PART_BYTES >= LONG_BYTES) == short {
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
        let mut used = [[0u32; 2 * LINE_BYTES]; 2];
        for key in 0..20_000 {
            let hash = hash(key, 1);
            for (places, used) in Places::of(hash).iter().zip(&mut used) {
                for part in 0..HASHES {
                    let (byte, shift) = places.place(part);
                    assert_eq!(byte / PART_BYTES, part);
                    used[byte * 2 + shift as usize / 4] += 1;
                }
            }
        }
        for (counter, (long, short)) in used[0].iter().zip(&used[1]).enumerate() {
            let is_long = counter / 2 % PART_BYTES < LONG_BYTES;
            let (mine, other) = if is_long { (long, short) } else { (short, long) };
            let expected = 20_000 / if is_long { LONG } else { SHORT } as u32;
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
