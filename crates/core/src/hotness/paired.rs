//! Two counts of a key in one cache line: a long and a short one, in 4 bits each and probably.
//!
//! Two [`CountingBloom`](super::bloom::CountingBloom)s in blocks cost two cache misses for each key.
//! Here both have a part of the same block, so that one is enough: three quarters for the long
//! count, a quarter for the short one, which forgets sooner and needs to hold fewer keys.

use super::bloom::{HASHES, Increment, Step};
use crate::types::Bytes;
use alloc::vec::Vec;
use prefetch_index::prefetch_index;

/// Largest count.
pub const MAX: u32 = 15;

const LINE_BYTES: usize = 64;
/// Sixteen bits: three counters of the long count, then one of the short count.
type Cell = u16;
/// Cells of a part of a line. A key has one cell in each part.
const PART: usize = LINE_BYTES / size_of::<Cell>() / HASHES;
/// Long counters of a cell.
const LONG: usize = 3;
/// Bits of the short counter.
const SHORT_BITS: Cell = 0xf000;
/// What remains of the counters when a cell is shifted right by one.
const HALVED: Cell = 0x7777;

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line([[Cell; PART]; HASHES]);

/// The lowest bit of each cell, where a key's four are side by side.
const ONES: u64 = 0x0001_0001_0001_0001;
/// The highest bit of each byte.
const TOPS: u64 = 0x8080 * ONES;

/// Ways to choose one of the long counters in each of a key's cells.
const CHOICES: usize = LONG.pow(HASHES as u32);

/// The lowest bits of the long counters, by choice.
static CHOSEN: [u64; CHOICES] = {
    let mut chosen = [0; CHOICES];
    let mut choice = 0;
    while choice < CHOICES {
        let (mut part, mut rest) = (0, choice);
        while part < HASHES {
            chosen[choice] |= 1 << (16 * part + 4 * (rest % LONG));
            rest /= LONG;
            part += 1;
        }
        choice += 1;
    }
    chosen
};

/// Where a key's counters are: its line, and what chooses those in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    line: u32,
    bits: u32,
}

/// Counts of keys over a long and over a short time.
#[derive(Clone, Debug)]
pub struct PairedBloom {
    lines: Vec<Line>,
    /// All of [`TOPS`] where every counter of a key is raised, not the least alone.
    all: u64,
}

impl PairedBloom {
    /// Lines in which are at least so many counters of the long and of the short count.
    pub fn lines_for([long, short]: [u64; 2]) -> [u64; 2] {
        let cells = (PART * HASHES) as u64;
        [long.div_ceil(cells * LONG as u64), short.div_ceil(cells)]
    }

    /// So many lines of counters, all 0; at least one.
    pub fn new(lines: u64, increment: Increment) -> Self {
        let lines = usize::try_from(lines.clamp(1, 1 << 32)).expect("a 64 bit machine");
        let all = if increment == Increment::All { TOPS } else { 0 };
        Self { lines: alloc::vec![Line([[0; PART]; HASHES]); lines], all }
    }

    /// Memory of the counters.
    pub fn bytes(&self) -> Bytes {
        Bytes((self.lines.capacity() * LINE_BYTES) as u64)
    }

    /// Where the counters of the key of a hash are. The upper half of the hash chooses the line,
    /// the lower half what is in it.
    #[inline(always)]
    pub fn place(&self, hash: u64) -> Place {
        let line = ((hash >> 32) * self.lines.len() as u64) >> 32;
        Place { line: line as u32, bits: hash as u32 }
    }

    /// Has a key's counters loaded into the cache, without waiting for them.
    #[inline(always)]
    pub fn prefetch(&self, place: Place) {
        prefetch_index(&self.lines, place.line as usize);
    }

    /// The long and the short count of a key, at most [`MAX`].
    #[inline]
    pub fn get(&self, place: Place) -> [u32; 2] {
        let word = place.word(&self.lines[place.line as usize]);
        counts(least(counters(word, place.chosen())))
    }

    /// Counts a key once, both ways.
    #[inline(always)]
    pub fn increment(&mut self, place: Place) -> [Step; 2] {
        let line = &mut self.lines[place.line as usize];
        let (word, chosen) = (place.word(line), place.chosen());
        let counters = counters(word, chosen);
        let least = least(counters);
        let is_least = TOPS - (counters ^ least);
        let is_full = counters + (0x80 - u64::from(MAX)) * 0x0101 * ONES;
        let raised = ((is_least | self.all) & !is_full & TOPS) >> 7;
        let long = ((raised & ONES) * 0x111) & chosen;
        let short = (raised & (ONES << 8)) << 4;
        let word = word + long + short;
        for part in 0..HASHES {
            line.0[part][place.cell(part)] = (word >> (16 * part)) as Cell;
        }
        counts(least).map(|from| Step { from, to: from + u32::from(from < MAX) })
    }

    /// Halves every long count, rounding down.
    pub fn halve_long(&mut self) {
        self.halve(!SHORT_BITS);
    }

    /// Halves every short count, rounding down.
    pub fn halve_short(&mut self) {
        self.halve(SHORT_BITS);
    }

    fn halve(&mut self, bits: Cell) {
        for line in &mut self.lines {
            line.0 =
                line.0.map(|part| part.map(|cell| ((cell >> 1) & HALVED & bits) | (cell & !bits)));
        }
    }
}

impl Place {
    #[inline(always)]
    const fn cell(self, part: usize) -> usize {
        (self.bits >> (3 * part)) as usize % PART
    }

    /// The key's cells, side by side.
    #[inline(always)]
    fn word(self, line: &Line) -> u64 {
        (0..HASHES)
            .fold(0, |word, part| word | u64::from(line.0[part][self.cell(part)]) << (16 * part))
    }

    /// The lowest bits of the long counters in the key's cells.
    #[inline(always)]
    const fn chosen(self) -> u64 {
        CHOSEN[((self.bits >> 16) as usize * CHOICES) >> 16]
    }
}

/// A key's counters: in each part its long count in one byte, its short one in the next.
#[inline(always)]
const fn counters(word: u64, chosen: u64) -> u64 {
    let long = word & (chosen * 15);
    ((long | long >> 4 | long >> 8) & (15 * ONES)) | (word >> 4 & ((15 * ONES) << 8))
}

/// The least of the long and of the short counters, in each part.
#[inline(always)]
const fn least(counters: u64) -> u64 {
    let pairs = lesser(counters, counters.rotate_left(32));
    lesser(pairs, pairs.rotate_left(16))
}

/// The lesser one of each byte. Both are below 128.
#[inline(always)]
const fn lesser(a: u64, b: u64) -> u64 {
    let is_more = ((a | TOPS) - b) & TOPS;
    a ^ ((a ^ b) & (is_more - (is_more >> 7)))
}

/// The long and the short count, of all that are least.
#[inline(always)]
const fn counts(least: u64) -> [u32; 2] {
    [least as u32 & MAX, (least >> 8) as u32 & MAX]
}

#[cfg(test)]
mod tests {
    use super::super::bloom::{counters_per_key, hash};
    use super::*;
    use proptest::prelude::*;

    /// Counters of a cell, and of a line.
    const COUNTERS: usize = LONG + 1;
    const OF_A_LINE: usize = COUNTERS * PART * HASHES;

    fn is_short(counter: usize) -> bool {
        counter % COUNTERS == LONG
    }

    impl Place {
        /// Counters of the line, by kind.
        fn counters(self) -> [[usize; HASHES]; 2] {
            let cell = |part| (part * PART + self.cell(part)) * COUNTERS;
            let long = |part| (self.chosen() >> (16 * part)) as u16;
            [
                core::array::from_fn(|part| cell(part) + long(part).ilog2() as usize / 4),
                core::array::from_fn(|part| cell(part) + LONG),
            ]
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
            let place = self.shape.place(hash);
            let line = place.line as usize * OF_A_LINE;
            place.counters().map(|counters| counters.map(|counter| line + counter))
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
            let counters = alloc::vec![0; filter.lines.len() * OF_A_LINE];
            let mut slow = Slow { shape: filter.clone(), counters, all };
            for (i, key) in keys.iter().enumerate() {
                let hash = hash(*key, 7);
                let before = slow.get(hash);
                slow.increment(hash);
                let steps = filter.increment(filter.place(hash));
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
                prop_assert_eq!(filter.get(filter.place(hash)), slow.get(hash));
            }
        }
    }

    #[test]
    fn counters_of_a_key_differ_and_use_their_room() {
        let filter = PairedBloom::new(1, Increment::Conservative);
        let mut used = [[0u32; OF_A_LINE]; 2];
        for key in 0..20_000 {
            let counters = filter.place(hash(key, 1)).counters();
            for (counters, used) in counters.iter().zip(&mut used) {
                for (part, counter) in counters.iter().enumerate() {
                    assert_eq!(counter / COUNTERS / PART, part);
                    used[*counter] += 1;
                }
            }
        }
        for (counter, (long, short)) in used[0].iter().zip(&used[1]).enumerate() {
            let (mine, other, of_a_cell) =
                if is_short(counter) { (short, long, 1) } else { (long, short, LONG) };
            let expected = 20_000 / (of_a_cell * PART) as u32;
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
            filter.increment(filter.place(hash(key, 3)));
        });
        let wrong =
            (20_000..120_000).filter(|key| filter.get(filter.place(hash(*key, 3)))[0] > 0).count();
        let wrong = wrong as f64 / 100_000.0;
        assert!((0.0005..0.003).contains(&wrong), "{wrong}");
    }

    #[test]
    fn saturates_and_halves_each_by_itself() {
        let mut filter = PairedBloom::new(1, Increment::Conservative);
        let key = filter.place(hash(9, 0));
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
