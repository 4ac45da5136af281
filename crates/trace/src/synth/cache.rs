//! A set-associative cache with least-recently-used replacement.

use crate::header::CacheModel;

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
pub(super) struct Cache {
    ways: usize,
    set_bits: u32,
    tags: Vec<u32>,
}

impl Cache {
    /// `size_bytes / 64 / ways` must be a power of two of at least 128.
    pub(super) fn new(size_bytes: u64, ways: usize) -> Self {
        let lines = size_bytes / LINE_BYTES;
        let sets = lines / ways as u64;
        debug_assert!(sets.is_power_of_two() && sets * ways as u64 == lines);
        Self { ways, set_bits: sets.trailing_zeros(), tags: vec![0; lines as usize] }
    }

    /// For the header of a trace.
    pub(super) fn model(&self) -> CacheModel {
        CacheModel {
            size_bytes: self.tags.len() as u64 * LINE_BYTES,
            ways: self.ways as u32,
            line_bytes: LINE_BYTES as u32,
        }
    }

    /// Brings a line in or makes it the most recently used one; dirty where `write`.
    #[inline]
    pub(super) fn access(&mut self, line: u64, write: bool) -> Lookup {
        let (set, tag) = self.place(line);
        let ways = &mut self.tags[set * self.ways..][..self.ways];
        let dirty = u32::from(write);
        if ways[0] | 1 == tag | 1 {
            ways[0] |= dirty;
            return Lookup::Hit;
        }
        match ways.iter().position(|&way| way | 1 == tag | 1) {
            Some(way) => {
                let found = ways[way] | dirty;
                ways.copy_within(..way, 1);
                ways[0] = found;
                Lookup::Hit
            }
            None => {
                let last = ways[self.ways - 1];
                ways.copy_within(..self.ways - 1, 1);
                ways[0] = tag | dirty;
                Lookup::Miss { dirty: (last & 1 == 1).then(|| self.line(set, last)) }
            }
        }
    }

    /// Marks a line dirty, without making it more recently used; false where it is not there.
    pub(super) fn write_back(&mut self, line: u64) -> bool {
        let (set, tag) = self.place(line);
        let ways = &mut self.tags[set * self.ways..][..self.ways];
        match ways.iter_mut().find(|way| **way | 1 == tag | 1) {
            Some(way) => {
                *way |= 1;
                true
            }
            None => false,
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
        let mut fast = Cache::new(128 * 4 * 64, 4);
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
    fn written_back_lines_become_dirty_where_they_are() {
        let mut cache = Cache::new(128 * 2 * 64, 2);
        assert_eq!(cache.access(7, false), Lookup::Miss { dirty: None });
        assert!(cache.write_back(7) && !cache.write_back(7 + 128));
        cache.access(7 + 128, false);
        assert_eq!(cache.access(7 + 256, false), Lookup::Miss { dirty: Some(7) });
    }
}
