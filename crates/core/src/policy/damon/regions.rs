//! Regions of frames that are taken to be accessed alike.
//!
//! Source: `mm/damon/core.c` (`damon_merge_regions_of`, `kdamond_split_regions`), Linux 6.16.

use crate::rng::Rng;
use alloc::vec::Vec;
use core::ops::Range;

/// Frames accessed about as often as each other.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Area {
    pub frames: Range<u32>,
    /// Samples of this aggregation that found an access.
    pub accesses: u32,
    /// The same of the last one.
    pub last: u32,
    /// Aggregations for which that has hardly changed.
    pub age: u32,
}

impl Area {
    fn fresh(frames: Range<u32>) -> Self {
        Self { frames, accesses: 0, last: 0, age: 0 }
    }

    pub(super) fn len(&self) -> u32 {
        self.frames.end - self.frames.start
    }
}

/// All frames of a tier, in areas.
#[derive(Clone, Debug)]
pub(super) struct Areas {
    areas: Vec<Area>,
    least: u32,
    most: u32,
    /// Number of areas before the last split.
    before: usize,
}

impl Areas {
    /// None yet; later between `least` and `most`, as far as frames and accesses allow.
    pub(super) fn new(least: u32, most: u32) -> Self {
        let least = least.max(3);
        Self { areas: Vec::new(), least, most: most.max(least), before: 0 }
    }

    pub(super) fn iter(&self) -> core::slice::Iter<'_, Area> {
        self.areas.iter()
    }

    fn frames(&self) -> u32 {
        self.areas.last().map_or(0, |area| area.frames.end)
    }

    /// There are so many frames now. New ones begin as areas of their own.
    pub(super) fn cover(&mut self, frames: u32) {
        let known = self.frames();
        if frames > known {
            let pieces = if known == 0 { self.least } else { 1 };
            let step = ((frames - known) / pieces).max(1);
            let mut start = known;
            while start < frames {
                let end = if frames - start < 2 * step { frames } else { start + step };
                self.areas.push(Area::fresh(start..end));
                start = end;
            }
        }
    }

    /// A sample has found an access to a frame.
    pub(super) fn accessed(&mut self, frame: u32) {
        let at = self.areas.partition_point(|area| area.frames.end <= frame);
        if let Some(area) = self.areas.get_mut(at) {
            area.accesses += 1;
        }
    }

    /// Joins neighbours whose counts differ by a tenth of `samples` at most, and by more while there are
    /// too many areas; no area becomes larger than one of the least number.
    pub(super) fn merge(&mut self, samples: u32) {
        let mut threshold = (samples / 10).max(1);
        let largest = (self.frames() / self.least).max(1);
        for area in &mut self.areas {
            let changed = area.accesses.abs_diff(area.last) > threshold;
            let woke = (area.accesses == 0) != (area.last == 0);
            area.age = if changed || woke { 0 } else { area.age + 1 };
        }
        loop {
            let mut joined: Vec<Area> = Vec::with_capacity(self.areas.len());
            for area in self.areas.drain(..) {
                match joined.last_mut() {
                    Some(before)
                        if before.accesses.abs_diff(area.accesses) <= threshold
                            && before.len() + area.len() <= largest =>
                    {
                        join(before, &area);
                    }
                    _ => joined.push(area),
                }
            }
            self.areas = joined;
            if self.areas.len() <= self.most as usize || threshold >= samples {
                break;
            }
            threshold *= 2;
        }
    }

    /// The aggregation is over.
    pub(super) fn reset(&mut self) {
        for area in &mut self.areas {
            area.last = core::mem::take(&mut area.accesses);
        }
    }

    /// Cuts every area in two at random, or in three where that has changed nothing the last time and
    /// areas are few, unless there would be too many.
    pub(super) fn split(&mut self, rng: &mut Rng) {
        let (now, most) = (self.areas.len(), self.most as usize);
        if now > most / 2 {
            return;
        }
        let parts = if self.before == now && now < most / 3 { 3 } else { 2 };
        self.before = now;
        for mut area in core::mem::take(&mut self.areas) {
            for _ in 1..parts {
                // At a tenth to nine tenths.
                let at = u64::from(area.len()) * (1 + rng.below(9)) / 10;
                let at = at as u32;
                if at == 0 || at >= area.len() {
                    break;
                }
                let cut = area.frames.start + at;
                self.areas.push(Area { frames: area.frames.start..cut, ..area.clone() });
                area.frames.start = cut;
            }
            self.areas.push(area);
        }
    }

    pub(super) fn metadata_bytes(&self) -> usize {
        self.areas.capacity() * size_of::<Area>()
    }
}

/// Counts and ages by size.
fn join(into: &mut Area, area: &Area) {
    let (a, b) = (u64::from(into.len()), u64::from(area.len()));
    let mean = |x: u32, y: u32| ((u64::from(x) * a + u64::from(y) * b) / (a + b)) as u32;
    into.accesses = mean(into.accesses, area.accesses);
    into.last = mean(into.last, area.last);
    into.age = mean(into.age, area.age);
    into.frames.end = area.frames.end;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use proptest::prelude::*;

    fn areas(list: &[(u32, u32, u32)], least: u32, most: u32) -> Areas {
        let mut start = 0;
        let mut all = Areas::new(least, most);
        for (len, accesses, last) in list {
            all.areas.push(Area {
                accesses: *accesses,
                last: *last,
                ..Area::fresh(start..start + len)
            });
            start += len;
        }
        all
    }

    #[test]
    fn neighbours_that_are_alike_become_one_area_but_none_too_large() {
        let mut all = areas(&[(10, 4, 4), (30, 6, 6), (10, 9, 9), (50, 9, 9)], 3, 100);
        all.merge(20);
        // A third of all frames at most: the first two are too large together.
        let lens: Vec<_> = all.iter().map(|a| (a.len(), a.accesses)).collect();
        assert_eq!(lens, [(10, 4), (30, 6), (10, 9), (50, 9)]);
        let mut all = areas(&[(10, 4, 4), (20, 7, 7), (10, 5, 5), (100, 20, 20)], 3, 100);
        all.merge(30);
        let lens: Vec<_> = all.iter().map(|a| (a.len(), a.accesses)).collect();
        assert_eq!(lens, [(40, 5), (100, 20)]);
    }

    #[test]
    fn ages_begin_anew_where_accesses_change_begin_or_end() {
        let mut all = areas(&[(10, 9, 8), (10, 12, 8), (10, 0, 1), (10, 1, 0), (10, 0, 0)], 5, 9);
        all.areas.iter_mut().for_each(|area| area.age = 5);
        all.merge(20);
        let ages: Vec<_> = all.iter().map(|area| area.age).collect();
        assert_eq!(ages, [6, 0, 0, 0, 6]);
    }

    #[test]
    fn too_many_areas_are_joined_though_they_differ() {
        let list: Vec<_> = (0..100).map(|i| (10, if i % 2 == 0 { 0 } else { 15 }, 0)).collect();
        let mut all = areas(&list, 10, 50);
        all.merge(20);
        assert!(all.areas.len() <= 50, "{}", all.areas.len());
    }

    #[test]
    fn areas_are_cut_in_two_then_in_three_and_never_beyond_the_most() {
        let mut rng = Rng::new(1);
        let mut all = areas(&[(1000, 0, 0), (1000, 9, 9)], 3, 20);
        all.split(&mut rng);
        assert_eq!(all.areas.len(), 4);
        all.before = 4;
        all.split(&mut rng);
        assert_eq!(all.areas.len(), 12);
        all.split(&mut rng);
        assert_eq!(all.areas.len(), 12);
    }

    proptest! {
        #[test]
        fn areas_cover_all_frames_once(
            steps in proptest::collection::vec((0u8..4, 0u32..5000), 1..60),
            most in 3u32..50,
        ) {
            let mut rng = Rng::new(7);
            let mut all = Areas::new(3, most);
            let mut frames = 0;
            for (what, n) in steps {
                match what {
                    0 => {
                        frames = frames.max(n);
                        all.cover(frames);
                    }
                    1 => all.accessed(n),
                    2 => {
                        all.merge(20);
                        all.reset();
                    }
                    _ => all.split(&mut rng),
                }
                let mut next = 0;
                for area in all.iter() {
                    prop_assert_eq!(area.frames.start, next);
                    prop_assert!(area.len() > 0);
                    next = area.frames.end;
                }
                prop_assert_eq!(next, frames);
            }
        }
    }
}
