//! A set-associative cache with least-recently-used replacement.

use frostline_trace::header::CacheModel;
use std::ops::Range;

const LINE_BYTES: u64 = 64;

/// What an access to a cache did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lookup {
    /// The line was there.
    Hit,
    /// The line was brought in; the dirty line that it replaced, if so.
    Miss {
        /// Line to be written back.
        dirty: Option<u64>,
    },
}

/// Keeps lines (addresses divided by 64) of at most 2^38, that is 16 TiB.
///
/// Each set is a list of tags from the most to the least recently used one; a tag holds the line
/// without its set number, plus one so that 0 is "empty", shifted by a dirty bit.
#[derive(Clone, Debug)]
pub(super) struct Cache<const WAYS: usize> {
    set_bits: u32,
    sets: Vec<[u32; WAYS]>,
}

impl<const WAYS: usize> Cache<WAYS> {
    /// `size_bytes / 64 / WAYS` must be a power of two; lines must be below that times 2^31.
    pub(super) fn new(size_bytes: u64) -> Self {
        let sets = size_bytes / LINE_BYTES / WAYS as u64;
        debug_assert!(sets.is_power_of_two());
        Self { set_bits: sets.trailing_zeros(), sets: vec![[0; WAYS]; sets as usize] }
    }

    /// For the header of a trace.
    pub(super) fn model(&self) -> CacheModel {
        CacheModel {
            size_bytes: (self.sets.len() * WAYS) as u64 * LINE_BYTES,
            ways: WAYS as u32,
            line_bytes: LINE_BYTES as u32,
        }
    }

    /// Brings a line in or makes it the most recently used one; dirty where `write`.
    #[inline]
    pub(super) fn access(&mut self, line: u64, write: bool) -> Lookup {
        let (set_number, tag) = self.place(line);
        let set = &mut self.sets[set_number];
        let dirty = u32::from(write);
        if set[0] | 1 == tag | 1 {
            set[0] |= dirty;
            return Lookup::Hit;
        }
        // Without branches over the ways: which one hits cannot be predicted.
        let hits = ways_equal(set, tag);
        let way = if hits == 0 { WAYS - 1 } else { hits.trailing_zeros() as usize };
        let old = *set;
        for i in 1..WAYS {
            set[i] = if i <= way { old[i - 1] } else { old[i] };
        }
        if hits != 0 {
            set[0] = old[way] | dirty;
            return Lookup::Hit;
        }
        set[0] = tag | dirty;
        let last = old[WAYS - 1];
        Lookup::Miss { dirty: (last & 1 == 1).then(|| self.line(set_number, last)) }
    }

    /// Marks a line dirty, without making it more recently used; false where it is not there.
    pub(super) fn write_back(&mut self, line: u64) -> bool {
        let (set, tag) = self.place(line);
        let set = &mut self.sets[set];
        let hits = ways_equal(set, tag);
        if hits != 0 {
            set[hits.trailing_zeros() as usize] |= 1;
        }
        hits != 0
    }

    /// Forgets lines without writing them back.
    pub(super) fn discard(&mut self, lines: Range<u64>) {
        for number in 0..self.sets.len() {
            for way in 0..WAYS {
                let tag = self.sets[number][way];
                if tag > 1 && lines.contains(&self.line(number, tag)) {
                    self.sets[number][way] = 0;
                }
            }
        }
    }

    #[inline]
    fn place(&self, line: u64) -> (usize, u32) {
        let set = line & ((1 << self.set_bits) - 1);
        (set as usize, (((line >> self.set_bits) + 1) << 1) as u32)
    }

    fn line(&self, set: usize, tag: u32) -> u64 {
        (u64::from(tag >> 1) - 1) << self.set_bits | set as u64
    }
}

/// Bit `i` is set where way `i` holds the tag, dirty or not.
#[inline]
fn ways_equal<const WAYS: usize>(set: &[u32; WAYS], tag: u32) -> u32 {
    let mut equal = 0;
    for (i, &way) in set.iter().enumerate() {
        equal |= u32::from(way | 1 == tag | 1) << i;
    }
    equal
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_core::rng::Rng;

    /// One list of (line, dirty) per set, written as plainly as possible.
    struct Slow {
        ways: usize,
        sets: Vec<Vec<(u64, bool)>>,
    }

    impl Slow {
        fn access(&mut self, line: u64, write: bool) -> Lookup {
            let sets = self.sets.len() as u64;
            let set = &mut self.sets[(line % sets) as usize];
            let found = set.iter().position(|&(l, _)| l == line).map(|i| set.remove(i));
            set.insert(0, (line, write || found.is_some_and(|(_, dirty)| dirty)));
            if found.is_some() {
                return Lookup::Hit;
            }
            let out = if set.len() > self.ways { set.pop() } else { None };
            Lookup::Miss { dirty: out.and_then(|(line, dirty)| dirty.then_some(line)) }
        }
    }

    #[test]
    fn agrees_with_a_plain_list_per_set() {
        let mut fast = Cache::<4>::new(128 * 4 * 64);
        let mut slow = Slow { ways: 4, sets: vec![Vec::new(); 128] };
        let mut rng = Rng::new(5);
        let (mut hits, mut write_backs) = (0, 0);
        for _ in 0..200_000 {
            let line = rng.below(3) * (1 << 30) + rng.below(300);
            let write = rng.below(4) == 0;
            let expected = slow.access(line, write);
            assert_eq!(fast.access(line, write), expected);
            match expected {
                Lookup::Hit => hits += 1,
                Lookup::Miss { dirty } => write_backs += u32::from(dirty.is_some()),
            }
        }
        assert!(hits > 10_000 && write_backs > 10_000, "{hits} hits, {write_backs} write-backs");
    }

    #[test]
    fn discarded_lines_are_gone_and_not_written_back() {
        let mut cache = Cache::<2>::new(128 * 2 * 64);
        (0..256)
            .for_each(|line| assert_eq!(cache.access(line, true), Lookup::Miss { dirty: None }));
        cache.discard(100..200);
        for line in 0..256 {
            let kept = !(100..200).contains(&line);
            assert_eq!(cache.access(line, false) == Lookup::Hit, kept, "{line}");
        }
        assert_eq!(cache.access(256, false), Lookup::Miss { dirty: Some(0) });
    }

    #[test]
    fn written_back_lines_become_dirty_where_they_are() {
        let mut cache = Cache::<2>::new(128 * 2 * 64);
        assert_eq!(cache.access(7, false), Lookup::Miss { dirty: None });
        assert!(cache.write_back(7) && !cache.write_back(7 + 128));
        cache.access(7 + 128, false);
        assert_eq!(cache.access(7 + 256, false), Lookup::Miss { dirty: Some(7) });
    }
}
