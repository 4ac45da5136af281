//! Map from pages of a guest's programs to guest frames.

use super::free_frames::FreeFrames;
use frostline_core::types::*;

/// Neither a frame nor a page.
const NONE: u32 = u32::MAX;
/// Of an entry: the page was accessed since its bit was last cleared.
const ACCESSED: u32 = 1 << 31;

/// No region is free as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRegion;

/// A page that changed frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) page: PageId,
    pub(crate) from: u32,
    pub(crate) to: u32,
}

/// The guest's page tables, with the access bits in them.
///
/// Pages are those of the guest's trace. Frames are numbered from 0.
#[derive(Debug)]
pub(crate) struct FrameMap {
    entries: Vec<u32>,
    free: FreeFrames,
    /// Where all memory is mapped by huge pages: the frames of each region of pages.
    huge: Option<Vec<Option<Region>>>,
    mapped: u64,
}

impl FrameMap {
    /// Nothing is mapped. `huge`: by 2 MiB throughout.
    pub(crate) fn new(free: FreeFrames, huge: bool) -> Self {
        Self { entries: Vec::new(), free, huge: huge.then(Vec::new), mapped: 0 }
    }

    /// Whether pages are mapped by 2 MiB.
    pub(crate) fn is_huge(&self) -> bool {
        self.huge.is_some()
    }

    /// Pages that have frames.
    pub(crate) fn mapped(&self) -> u64 {
        self.mapped
    }

    /// Regions of frames.
    pub(crate) fn regions(&self) -> u32 {
        self.free.regions()
    }

    /// The page's frame.
    pub(crate) fn frame(&self, page: PageId) -> Option<u32> {
        self.entries
            .get(page.index())
            .filter(|entry| **entry != NONE)
            .map(|entry| entry & !ACCESSED)
    }

    /// The frames of accessed pages; a page gets its frame when it is first accessed. False, with some
    /// of them replaced, where there is no frame left.
    pub(crate) fn access(&mut self, pages: &mut [u32]) -> bool {
        for page in pages {
            let entry = match self.entries.get(*page as usize) {
                Some(&entry) if entry != NONE => entry,
                _ => match self.map(PageId(*page)) {
                    Some(frame) => frame,
                    None => return false,
                },
            };
            if entry & ACCESSED == 0 {
                self.entries[*page as usize] = entry | ACCESSED;
            }
            *page = entry & !ACCESSED;
        }
        true
    }

    /// An access that the trace tells of without a record: a page without a frame stays so.
    pub(crate) fn mark(&mut self, page: PageId) -> Option<u32> {
        let entry = self.entries.get_mut(page.index()).filter(|entry| **entry != NONE)?;
        *entry |= ACCESSED;
        Some(*entry & !ACCESSED)
    }

    /// Gives the frames of pages back.
    pub(crate) fn unmap(&mut self, run: PageRun) {
        let known = run.intersect(PageRun::between(0, self.entries.len() as u32));
        for page in known.iter() {
            let entry = std::mem::replace(&mut self.entries[page.index()], NONE);
            if entry == NONE {
                continue;
            }
            let frame = entry & !ACCESSED;
            self.mapped -= 1;
            match &mut self.huge {
                None => self.free.give_back(frame),
                Some(huge) => {
                    let run = page.region().run();
                    if self.entries[run.range()].iter().all(|entry| *entry == NONE) {
                        huge[page.region().index()] = None;
                        let frames = PageId(frame).region().run();
                        frames.iter().for_each(|frame| self.free.give_back(frame.0));
                    }
                }
            }
        }
    }

    /// Pages go to other addresses and keep their frames.
    pub(crate) fn rename(&mut self, from: PageRun, to: PageId) {
        self.unmap(PageRun { start: to, pages: from.pages });
        self.grow(PageId(to.0 + from.pages.saturating_sub(1)));
        for (from, to) in from.iter().zip(to.0..) {
            let Some(entry) = self.entries.get_mut(from.index()) else { return };
            let entry = std::mem::replace(entry, NONE);
            self.entries[to as usize] = entry;
        }
    }

    /// Moves at most 512 pages, those of them that are mapped, into one region that was free: each gets
    /// a frame there, in their order, and gives its old one back. What they do not need of the region
    /// is free.
    ///
    /// # Errors
    /// Where no region is free as a whole; nothing has changed then.
    pub(crate) fn consolidate(&mut self, pages: &[PageId]) -> Result<Vec<Moved>, NoRegion> {
        let region = self.free.take_region().ok_or(NoRegion)?;
        let mut to = region.run().iter();
        let mut moved = Vec::with_capacity(pages.len());
        for &page in pages {
            let Some(from) = self.frame(page) else { continue };
            let Some(to) = to.next() else { break };
            let accessed = self.entries[page.index()] & ACCESSED;
            self.entries[page.index()] = to.0 | accessed;
            self.free.give_back(from);
            moved.push(Moved { page, from, to: to.0 });
        }
        to.rev().for_each(|rest| self.free.give_back(rest.0));
        Ok(moved)
    }

    /// Accessed pages by region of frames.
    pub(crate) fn accessed_by_region(&self) -> Vec<u16> {
        let mut counts = vec![0; self.regions() as usize];
        for frame in self.accessed().map(|(_, frame)| frame) {
            counts[PageId(frame).region().index()] += 1;
        }
        counts
    }

    /// Accessed pages and their frames, by page.
    pub(crate) fn accessed(&self) -> impl Iterator<Item = (PageId, u32)> {
        let set = |entry: &u32| *entry != NONE && entry & ACCESSED != 0;
        let pages = self.entries.iter().enumerate().filter(move |(_, entry)| set(entry));
        pages.map(|(page, entry)| (PageId(page as u32), entry & !ACCESSED))
    }

    /// Clears all access bits.
    pub(crate) fn clear_accessed(&mut self) {
        let mapped = self.entries.iter_mut().filter(|entry| **entry != NONE);
        mapped.for_each(|entry| *entry &= !ACCESSED);
    }

    fn grow(&mut self, page: PageId) {
        if page.index() >= self.entries.len() {
            self.entries.resize(page.region().run().end() as usize, NONE);
        }
    }

    #[cold]
    fn map(&mut self, page: PageId) -> Option<u32> {
        self.grow(page);
        let frame = match &mut self.huge {
            None => self.free.take()?,
            Some(huge) => {
                let region = page.region();
                if region.index() >= huge.len() {
                    huge.resize(region.index() + 1, None);
                }
                let frames = match huge[region.index()] {
                    Some(frames) => frames,
                    None => self.free.take_region()?,
                };
                huge[region.index()] = Some(frames);
                frames.first().0 + page.offset()
            }
        };
        self.entries[page.index()] = frame;
        self.mapped += 1;
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_core::rng::Rng;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn map(regions: u32, aged: f64, seed: u64) -> FrameMap {
        FrameMap::new(FreeFrames::new(regions, aged, &mut Rng::new(seed)), false)
    }

    /// Every page has one frame and every frame one page, and a frame is free or mapped, not both.
    fn check(map: &FrameMap, expected: &BTreeSet<u32>, others: &BTreeSet<u32>) {
        let (mut pages, mut taken) = (BTreeSet::new(), BTreeSet::new());
        for page in 0..map.entries.len() as u32 {
            if let Some(frame) = map.frame(PageId(page)) {
                assert!(taken.insert(frame), "{frame} has one page");
                assert!(!map.free.is_free(frame));
                pages.insert(page);
            }
        }
        assert_eq!(&pages, expected, "no page is lost, none appears");
        assert_eq!(map.mapped(), pages.len() as u64);
        assert_eq!(taken.len(), pages.len());
        for frame in 0..map.regions() * HUGE_PAGES {
            let free = map.free.is_free(frame);
            assert_eq!(free, !taken.contains(&frame) && !others.contains(&frame), "{frame}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn pages_and_frames_stay_one_to_one(
            seed: u64,
            aged in 0.0..0.6,
            steps in proptest::collection::vec((0u8..8, 0u32..1200, 1u32..600), 1..60),
        ) {
            let mut map = map(8, aged, seed);
            let others: BTreeSet<u32> = (0..8 * 512).filter(|f| !map.free.is_free(*f)).collect();
            let mut expected = BTreeSet::new();
            let mut consolidated = 0;
            for (what, start, pages) in steps {
                let run = PageRun { start: PageId(start), pages };
                match what {
                    0..=2 => {
                        for page in run.iter() {
                            if map.access(&mut [page.0]) {
                                expected.insert(page.0);
                            }
                        }
                    }
                    3 => {
                        map.unmap(run);
                        run.iter().for_each(|page| { expected.remove(&page.0); });
                    }
                    4 => {
                        let to = PageId(start + 2000);
                        map.rename(run, to);
                        let gone: Vec<u32> = (to.0..to.0 + pages).collect();
                        gone.iter().for_each(|page| { expected.remove(page); });
                        for page in run.iter() {
                            if expected.remove(&page.0) {
                                expected.insert(page.0 + 2000);
                            }
                        }
                    }
                    _ => {
                        let hot: Vec<PageId> = run.iter().step_by(3).take(512).collect();
                        let before: BTreeMap<u32, Option<u32>> =
                            expected.iter().map(|p| (*p, map.frame(PageId(*p)))).collect();
                        match map.consolidate(&hot) {
                            Ok(moved) => {
                                consolidated += 1;
                                let mapped = hot.iter().filter(|p| expected.contains(&p.0));
                                prop_assert_eq!(moved.len(), mapped.count());
                                let regions: BTreeSet<u32> =
                                    moved.iter().map(|m| m.to / 512).collect();
                                prop_assert!(regions.len() <= 1);
                            }
                            Err(NoRegion) => for (page, frame) in before {
                                prop_assert_eq!(map.frame(PageId(page)), frame);
                            },
                        }
                    }
                }
                check(&map, &expected, &others);
            }
            prop_assert!(consolidated < 60);
        }
    }

    #[test]
    fn without_a_free_region_nothing_changes() {
        let mut map = map(2, 0.0, 1);
        let mut pages: Vec<u32> = (0..520).collect();
        assert!(map.access(&mut pages));
        let before = map.entries.clone();
        let hot: Vec<PageId> = (0..10).map(PageId).collect();
        assert_eq!(map.consolidate(&hot), Err(NoRegion), "both regions are in use");
        assert_eq!(map.entries, before);
        map.unmap(PageRun::between(0, 512));
        let moved = map.consolidate(&[PageId(515), PageId(3), PageId(512)]).unwrap();
        assert_eq!(moved.len(), 2, "a page that was unmapped meanwhile is left out");
        assert_eq!(moved.iter().map(|m| m.to % 512).collect::<Vec<_>>(), [0, 1]);
        assert!(map.access(&mut [9000]), "the rest of the region can be used");
    }

    #[test]
    fn access_bits_are_the_pages_own_and_move_with_them() {
        let mut map = map(8, 0.3, 2);
        let mut pages = [5, 900, 5];
        assert!(map.access(&mut pages));
        assert_eq!((pages[0], pages[0] == pages[1]), (pages[2], false));
        map.clear_accessed();
        assert_eq!(map.accessed().count(), 0);
        assert_eq!(map.mark(PageId(7)), None, "no frame, no bit");
        map.mark(PageId(900));
        map.consolidate(&[PageId(5), PageId(900)]).unwrap();
        let accessed: Vec<_> = map.accessed().collect();
        assert_eq!(accessed, [(PageId(900), map.frame(PageId(900)).unwrap())]);
        let counts = map.accessed_by_region();
        assert_eq!(counts.iter().map(|n| u32::from(*n)).sum::<u32>(), 1);
        assert_eq!(counts[accessed[0].1 as usize / 512], 1);
    }

    #[test]
    fn huge_pages_stay_together() {
        let mut map = FrameMap::new(FreeFrames::new(3, 0.0, &mut Rng::new(1)), true);
        let mut pages = [512, 1023, 3, 600];
        assert!(map.access(&mut pages));
        assert_eq!(pages, [0, 511, 515, 88]);
        map.unmap(PageRun::between(512, 1024));
        assert!(map.access(&mut [2048]) && map.access(&mut [4096]), "its region is free again");
        assert!(!map.access(&mut [8192]));
    }
}
