//! Hotness of pages, huge pages and subpages, and the two histograms over them.

use super::counts::{ACCESS, Counts, Stored};
use crate::hotness::histogram::{BINS, Binning, Histogram};
use crate::types::*;
use alloc::vec::Vec;

const TOP_BIN: usize = BINS - 1;

#[derive(Clone, Copy, Debug, Default)]
struct RegionState {
    /// Hotness of the huge page; meaningless for base pages.
    hotness: u32,
    /// Base pages of it that are tracked.
    tracked: u16,
    huge: bool,
}

/// What a sample changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sampled {
    /// Hotness of the base page or subpage before, clipped to the top bin.
    pub base_before: u32,
    /// Hotness after, of what would be migrated: the huge page, or the base page (clipped).
    pub unit_hotness: u32,
    /// Whether that is a huge page.
    pub huge: bool,
}

/// All hotness that MEMTIS keeps, and its invariants: the page access histogram counts every
/// tracked page in the bin of its unit (huge page or base page), the base histogram every tracked
/// page in its own.
#[derive(Clone, Debug)]
pub(super) struct Tracker {
    counts: Counts,
    regions: Vec<RegionState>,
    binning: Binning,
    /// Page access histogram.
    pub pages: Histogram,
    /// Emulated base page histogram.
    pub base: Histogram,
}

impl Tracker {
    pub(super) fn new(binning: Binning, pages_hint: PageCount) -> Self {
        let pages = pages_hint.0 as usize;
        Self {
            counts: Counts::with_capacity(pages),
            regions: Vec::with_capacity(pages / HUGE_PAGES as usize),
            binning,
            pages: Histogram::default(),
            base: Histogram::default(),
        }
    }

    pub(super) fn grow(&mut self, pages: u32) {
        let pages = (pages as usize).next_multiple_of(HUGE_PAGES as usize);
        if pages > self.counts.len() {
            self.counts.grow(pages);
            self.regions.resize(pages / HUGE_PAGES as usize, RegionState::default());
        }
    }

    /// Number of regions known.
    pub(super) fn regions(&self) -> u32 {
        self.regions.len() as u32
    }

    /// Pages tracked.
    pub(super) fn tracked(&self) -> u64 {
        self.base.total()
    }

    pub(super) fn binning(&self) -> Binning {
        self.binning
    }

    pub(super) fn is_huge(&self, region: Region) -> bool {
        self.regions.get(region.index()).is_some_and(|r| r.huge)
    }

    pub(super) fn is_empty(&self, region: Region) -> bool {
        self.regions.get(region.index()).is_none_or(|r| r.tracked == 0)
    }

    /// Whether all 512 pages are tracked.
    pub(super) fn is_whole(&self, region: Region) -> bool {
        self.regions.get(region.index()).is_some_and(|r| u32::from(r.tracked) == HUGE_PAGES)
    }

    /// Hotness of a huge page.
    pub(super) fn huge_hotness(&self, region: Region) -> u32 {
        self.regions[region.index()].hotness
    }

    /// Hotness of a huge page's or base page's unit, clipped to the top bin; `None` where the
    /// page is not tracked.
    pub(super) fn unit_hotness(&self, page: PageId) -> Option<u32> {
        let stored = self.counts.get(page.0);
        if !stored.is_tracked() {
            return None;
        }
        let region = &self.regions[page.region().index()];
        Some(if region.huge { region.hotness } else { stored.clipped() })
    }

    /// Exact hotness of the 512 subpages of a huge page, or of the tracked base pages of a region.
    pub(super) fn subpages(&self, region: Region) -> impl Iterator<Item = u32> + '_ {
        let run = region.run();
        let tracked = run.iter().zip(self.counts.stored(run)).filter(|(_, s)| s.is_tracked());
        tracked.map(|(page, _)| self.counts.exact(page.0))
    }

    /// Stored values of a region's pages.
    #[inline]
    pub(super) fn stored(&self, region: Region) -> impl Iterator<Item = Stored> + '_ {
        self.counts.stored(region.run())
    }

    /// Starts to track pages that are not yet; a huge page starts with hotness `initial` and
    /// subpages never accessed, base pages start with `initial` each.
    pub(super) fn populate(&mut self, run: PageRun, huge: bool, initial: u32) {
        self.grow(run.end());
        let whole = huge && run == run.start.region().run();
        if whole {
            self.forget(run);
            let region = &mut self.regions[run.start.region().index()];
            *region = RegionState { hotness: initial, tracked: HUGE_PAGES as u16, huge: true };
            run.iter().for_each(|page| self.counts.set(page.0, 0));
            self.base.add(0, u64::from(HUGE_PAGES));
            self.pages.add(self.binning.bin(initial), u64::from(HUGE_PAGES));
            return;
        }
        for page in run.iter() {
            if !self.counts.get(page.0).is_tracked() {
                self.track(page, initial);
            }
        }
    }

    fn track(&mut self, page: PageId, hotness: u32) {
        let bin = self.binning.bin(hotness);
        self.counts.set(page.0, hotness);
        self.regions[page.region().index()].tracked += 1;
        self.base.add(bin, 1);
        self.pages.add(bin, 1);
    }

    /// Stops to track pages; what remains of a huge page is base pages.
    pub(super) fn forget(&mut self, run: PageRun) {
        let run = run.intersect(PageRun::between(0, self.counts.len() as u32));
        if run.pages == 0 {
            return;
        }
        for region in run.start.region().0..=PageId(run.end() - 1).region().0 {
            let region = Region(region);
            if self.is_empty(region) {
                continue;
            }
            self.split(region);
            for page in run.intersect(region.run()).iter() {
                let stored = self.counts.get(page.0);
                if stored.is_tracked() {
                    let bin = self.binning.bin(stored.clipped());
                    self.base.remove(bin, 1);
                    self.pages.remove(bin, 1);
                    self.counts.forget(page.0);
                    self.regions[region.index()].tracked -= 1;
                }
            }
        }
    }

    /// A huge page becomes base pages, each as hot as it was as a subpage. Nothing for others.
    pub(super) fn split(&mut self, region: Region) {
        if !self.is_huge(region) {
            return;
        }
        let state = &mut self.regions[region.index()];
        state.huge = false;
        self.pages.remove(self.binning.bin(state.hotness), u64::from(HUGE_PAGES));
        for stored in self.counts.stored(region.run()) {
            self.pages.add(self.binning.bin(stored.clipped()), 1);
        }
    }

    /// 512 base pages become a huge page with the accesses of all. Nothing where one is missing.
    pub(super) fn collapse(&mut self, region: Region) {
        let Some(state) = self.regions.get_mut(region.index()) else { return };
        if state.huge || u32::from(state.tracked) != HUGE_PAGES {
            return;
        }
        let run = region.run();
        let sum: u64 = run.iter().map(|page| u64::from(self.counts.exact(page.0))).sum();
        state.huge = true;
        state.hotness = u32::try_from(sum / u64::from(ACCESS)).unwrap_or(u32::MAX);
        let bin = self.binning.bin(state.hotness);
        for stored in self.counts.stored(run) {
            self.pages.remove(self.binning.bin(stored.clipped()), 1);
        }
        self.pages.add(bin, u64::from(HUGE_PAGES));
    }

    /// `mremap`: hotness goes along; whole huge pages that stay aligned stay huge.
    pub(super) fn remap(&mut self, from: PageRun, to: PageId) {
        let target = PageRun { start: to, pages: from.pages };
        self.grow(from.end().max(target.end()));
        let aligned = from.start.offset() == to.offset();
        let old: Vec<(Option<u32>, Option<u32>)> = from
            .iter()
            .map(|page| {
                let tracked = self.counts.get(page.0).is_tracked();
                let huge = aligned && from.intersect(page.region().run()).pages == HUGE_PAGES;
                (
                    tracked.then(|| self.counts.exact(page.0)),
                    (huge && self.is_huge(page.region())).then(|| self.huge_hotness(page.region())),
                )
            })
            .collect();
        self.forget(from);
        self.forget(target);
        for (page, (hotness, _)) in target.iter().zip(&old) {
            if let Some(hotness) = hotness {
                self.track(page, *hotness);
            }
        }
        for (page, (_, huge)) in target.iter().zip(&old) {
            if let Some(hotness) = huge
                && page.offset() == 0
            {
                self.collapse(page.region());
                self.set_huge_hotness(page.region(), *hotness);
            }
        }
    }

    fn set_huge_hotness(&mut self, region: Region, hotness: u32) {
        let state = &mut self.regions[region.index()];
        let before = core::mem::replace(&mut state.hotness, hotness);
        let (from, to) = (self.binning.bin(before), self.binning.bin(hotness));
        self.pages.shift(from, to, u64::from(HUGE_PAGES));
    }

    /// Loads what [`Self::sample`] will need; see [`Counts::touch`].
    #[inline]
    pub(super) fn touch(&self, page: PageId) -> u16 {
        self.counts.touch(page.0)
    }

    /// Counts one sampled access; `None` for pages not tracked.
    #[inline]
    pub(super) fn sample(&mut self, page: PageId) -> Option<Sampled> {
        let (before, after) = self.counts.access(page.0)?;
        let (before, after) = (before.clipped(), after.clipped());
        let (from, to) = (self.binning.bin(before), self.binning.bin(after));
        let region = &mut self.regions[page.region().index()];
        if from != to {
            self.base.shift(from, to, 1);
            if !region.huge {
                self.pages.shift(from, to, 1);
            }
        }
        if !region.huge {
            return Some(Sampled { base_before: before, unit_hotness: after, huge: false });
        }
        let unit = region.hotness.saturating_add(1);
        let (from, to) = (self.binning.bin(region.hotness), self.binning.bin(unit));
        region.hotness = unit;
        if from != to {
            self.pages.shift(from, to, u64::from(HUGE_PAGES));
        }
        Some(Sampled { base_before: before, unit_hotness: unit, huge: true })
    }

    /// Halves all hotness and moves the histograms along.
    pub(super) fn cool(&mut self) {
        self.pages.cool();
        self.base.cool();
        for index in 0..self.regions.len() {
            let state = self.regions[index];
            if state.tracked == 0 {
                continue;
            }
            let region = Region(index as u32);
            let mut top = 0;
            self.counts.halve(region, || top += 1);
            self.base.shift(TOP_BIN - 1, TOP_BIN, top);
            if state.huge {
                let half = state.hotness / 2;
                self.regions[index].hotness = half;
                if self.binning.bin(half) == TOP_BIN {
                    self.pages.shift(TOP_BIN - 1, TOP_BIN, u64::from(HUGE_PAGES));
                }
            } else {
                self.pages.shift(TOP_BIN - 1, TOP_BIN, top);
            }
        }
        if self.binning != Binning::Exact {
            (self.pages, self.base) = self.recount();
        }
    }

    /// Both histograms from scratch.
    pub(super) fn recount(&self) -> (Histogram, Histogram) {
        let (mut pages, mut base) = (Histogram::default(), Histogram::default());
        for (index, state) in self.regions.iter().enumerate().filter(|(_, s)| s.tracked > 0) {
            let region = Region(index as u32);
            for stored in self.stored(region).filter(|s| s.is_tracked()) {
                let bin = self.binning.bin(stored.clipped());
                base.add(bin, 1);
                if !state.huge {
                    pages.add(bin, 1);
                }
            }
            if state.huge {
                pages.add(self.binning.bin(state.hotness), u64::from(HUGE_PAGES));
            }
        }
        (pages, base)
    }

    /// Number of huge pages that were sampled, and the sum of their hotness.
    pub(super) fn sampled_huge_pages(&self) -> (u64, u64) {
        let sampled = self.regions.iter().filter(|r| r.huge && r.hotness > 0);
        sampled.fold((0, 0), |(n, sum), r| (n + 1, sum + u64::from(r.hotness)))
    }

    pub(super) fn bytes(&self) -> Bytes {
        let regions = self.regions.capacity() * size_of::<RegionState>();
        self.counts.bytes() + Bytes(regions as u64)
    }
}
