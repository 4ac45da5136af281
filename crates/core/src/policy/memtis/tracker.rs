//! Hotness of pages, huge pages and subpages, and the two histograms over them.

use super::counts::{ACCESS, Counts, Stored};
use crate::hotness::bitmap::Bitmap;
use crate::hotness::histogram::{BINS, Binning, Histogram, TOP};
use crate::types::*;
use alloc::vec::Vec;

const TOP_BIN: usize = BINS - 1;

#[derive(Clone, Copy, Debug, Default)]
struct RegionState {
    /// Hotness of the huge page; meaningless for base pages.
    hotness: u32,
    /// Base pages of it that are tracked.
    tracked: u16,
}

/// What a sample changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sampled {
    /// Hotness of the base page or subpage before, clipped to the top bin.
    pub base_before: u32,
    /// Hotness after, of what would be migrated: the huge page, or the base page (clipped).
    pub unit_hotness: u32,
    /// The same before.
    pub unit_before: u32,
    /// Whether that is a huge page.
    pub huge: bool,
}

/// All hotness that MEMTIS keeps. Histograms are kept in three parts, so that a sample of a base
/// page changes one of them: the page access histogram is base pages and huge pages, the emulated
/// base page histogram is base pages and subpages.
#[derive(Clone, Debug)]
pub(super) struct Tracker {
    counts: Counts,
    regions: Vec<RegionState>,
    /// Regions that are huge pages; apart, because every sample asks.
    huge: Bitmap,
    binning: Binning,
    parts: Parts,
    tracked: u64,
    refill: Refill,
    /// Regions not halved yet since the last cooling, and in no histogram ([`Refill::Lazy`]).
    stale: Bitmap,
    any_stale: bool,
}

/// What a cooling does to the histograms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refill {
    /// They are right at once.
    AtOnce,
    /// They are emptied; regions come back when one of their pages is sampled, or at
    /// [`Tracker::refresh`].
    Lazy,
}

/// The histograms, in parts that do not overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Parts {
    /// Pages by their own bin: those mapped as base pages, and those that are subpages.
    own: [Histogram; 2],
    /// Huge pages by their bin.
    units: Histogram,
}

/// Index into [`Parts::own`].
const BASE: usize = 0;
const SUBPAGE: usize = 1;

impl Tracker {
    pub(super) fn new(binning: Binning, refill: Refill, pages_hint: PageCount) -> Self {
        let pages = pages_hint.0 as usize;
        Self {
            counts: Counts::with_capacity(pages),
            regions: Vec::with_capacity(pages / HUGE_PAGES as usize),
            binning,
            huge: Bitmap::default(),
            parts: Parts::default(),
            tracked: 0,
            refill,
            stale: Bitmap::default(),
            any_stale: false,
        }
    }

    /// Page access histogram: every tracked page in the bin of what it is migrated with.
    pub(super) fn pages(&self) -> Histogram {
        self.parts.own[BASE].sum(&self.parts.units)
    }

    /// Emulated base page histogram: every tracked page in its own bin.
    pub(super) fn base(&self) -> Histogram {
        self.parts.own[BASE].sum(&self.parts.own[SUBPAGE])
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
        self.tracked
    }

    pub(super) fn binning(&self) -> Binning {
        self.binning
    }

    pub(super) fn is_huge(&self, region: Region) -> bool {
        self.huge.contains(region.0)
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
        let region = page.region();
        Some(if self.is_huge(region) { self.huge_hotness(region) } else { stored.clipped() })
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
            let region = run.start.region();
            self.regions[region.index()] =
                RegionState { hotness: initial, tracked: HUGE_PAGES as u16 };
            self.tracked += u64::from(HUGE_PAGES);
            self.huge.insert(region.0);
            run.iter().for_each(|page| self.counts.set(page.0, 0));
            self.parts.own[SUBPAGE].add(0, u64::from(HUGE_PAGES));
            self.parts.units.add(self.binning.bin(initial), u64::from(HUGE_PAGES));
            return;
        }
        for page in run.iter() {
            if !self.counts.get(page.0).is_tracked() {
                self.freshen(page.region());
                self.track(page, initial);
            }
        }
    }

    fn track(&mut self, page: PageId, hotness: u32) {
        self.counts.set(page.0, hotness);
        self.regions[page.region().index()].tracked += 1;
        self.tracked += 1;
        self.parts.own[BASE].add(self.binning.bin(hotness), 1);
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
            self.freshen(region);
            self.split(region);
            for page in run.intersect(region.run()).iter() {
                let stored = self.counts.get(page.0);
                if stored.is_tracked() {
                    self.parts.own[BASE].remove(self.binning.bin(stored.clipped()), 1);
                    self.counts.forget(page.0);
                    self.regions[region.index()].tracked -= 1;
                    self.tracked -= 1;
                }
            }
        }
    }

    /// A huge page becomes base pages, each as hot as it was as a subpage. Nothing for others.
    pub(super) fn split(&mut self, region: Region) {
        if !self.is_huge(region) {
            return;
        }
        self.freshen(region);
        self.huge.remove(region.0);
        let bin = self.binning.bin(self.huge_hotness(region));
        self.parts.units.remove(bin, u64::from(HUGE_PAGES));
        self.refile(region, SUBPAGE, BASE);
    }

    /// Moves a region's pages from one part of the histograms to another.
    fn refile(&mut self, region: Region, from: usize, to: usize) {
        for stored in self.counts.stored(region.run()) {
            let bin = self.binning.bin(stored.clipped());
            self.parts.own[from].remove(bin, 1);
            self.parts.own[to].add(bin, 1);
        }
    }

    /// 512 base pages become a huge page with the accesses of all. Nothing where one is missing.
    pub(super) fn collapse(&mut self, region: Region) {
        if self.is_huge(region) || !self.is_whole(region) {
            return;
        }
        self.freshen(region);
        let accesses: u64 = self.subpages(region).map(u64::from).sum::<u64>() / u64::from(ACCESS);
        let hotness = u32::try_from(accesses).unwrap_or(u32::MAX);
        self.regions[region.index()].hotness = hotness;
        self.huge.insert(region.0);
        self.parts.units.add(self.binning.bin(hotness), u64::from(HUGE_PAGES));
        self.refile(region, BASE, SUBPAGE);
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
        self.parts.units.shift(from, to, u64::from(HUGE_PAGES));
    }

    /// Loads what [`Self::sample`] will need; see [`Counts::touch`].
    #[inline]
    pub(super) fn touch(&self, page: PageId) -> u16 {
        self.counts.touch(page.0)
    }

    /// Counts one sampled access; `None` for pages not tracked.
    #[inline]
    pub(super) fn sample(&mut self, page: PageId) -> Option<Sampled> {
        if self.any_stale {
            self.freshen(page.region());
        }
        let (before, after) = self.counts.access(page.0)?;
        let (before, after) = (before.clipped(), after.clipped());
        let (from, to) = (self.binning.bin(before), self.binning.bin(after));
        let huge = self.huge.contains(page.region().0);
        // Mostly nothing changes bins, but a branch on it would often be mispredicted.
        self.parts.own[usize::from(huge)].shift(from, to, 1);
        if !huge {
            return Some(Sampled {
                base_before: before,
                unit_hotness: after,
                unit_before: before,
                huge,
            });
        }
        let region = &mut self.regions[page.region().index()];
        let unit_before = region.hotness;
        let unit = unit_before.saturating_add(1);
        let (from, to) = (self.binning.bin(unit_before), self.binning.bin(unit));
        region.hotness = unit;
        self.parts.units.shift(from, to, u64::from(HUGE_PAGES));
        Some(Sampled { base_before: before, unit_hotness: unit, unit_before, huge })
    }

    /// Halves all hotness. With [`Refill::AtOnce`] the histograms move along.
    pub(super) fn cool(&mut self) {
        self.refresh();
        if self.refill == Refill::Lazy {
            self.parts = Parts::default();
            for region in 0..self.regions() {
                if !self.is_empty(Region(region)) {
                    self.stale.insert(region);
                }
            }
            self.any_stale = true;
            return;
        }
        self.parts.own.iter_mut().for_each(Histogram::cool);
        self.parts.units.cool();
        for index in 0..self.regions.len() {
            if self.regions[index].tracked == 0 {
                continue;
            }
            let region = Region(index as u32);
            let huge = self.is_huge(region);
            let top = self.halve(region);
            self.parts.own[usize::from(huge)].shift(TOP_BIN - 1, TOP_BIN, top);
            if huge && self.regions[index].hotness >= TOP {
                self.parts.units.shift(TOP_BIN - 1, TOP_BIN, u64::from(HUGE_PAGES));
            }
        }
        if self.binning != Binning::Exact {
            self.parts = self.recount();
        }
    }

    /// Halves a region's hotness; gives how many of its pages remain in the top bin of their own.
    fn halve(&mut self, region: Region) -> u64 {
        let mut top = 0;
        self.counts.halve(region, || top += 1);
        self.regions[region.index()].hotness /= 2;
        top
    }

    /// Halves a region that a lazy cooling left, and puts it into the histograms again.
    fn freshen(&mut self, region: Region) {
        if self.any_stale && self.stale.contains(region.0) {
            self.stale.remove(region.0);
            self.halve(region);
            let mut parts = core::mem::take(&mut self.parts);
            self.enter(region, &mut parts);
            self.parts = parts;
        }
    }

    /// Finishes a lazy cooling.
    pub(super) fn refresh(&mut self) {
        if self.any_stale {
            (0..self.regions()).for_each(|region| self.freshen(Region(region)));
            self.any_stale = false;
        }
    }

    /// The histograms from scratch.
    fn recount(&self) -> Parts {
        let mut parts = Parts::default();
        (0..self.regions()).for_each(|region| self.enter(Region(region), &mut parts));
        parts
    }

    fn enter(&self, region: Region, parts: &mut Parts) {
        let huge = self.is_huge(region);
        for stored in self.stored(region).filter(|s| s.is_tracked()) {
            parts.own[usize::from(huge)].add(self.binning.bin(stored.clipped()), 1);
        }
        if huge {
            let bin = self.binning.bin(self.huge_hotness(region));
            parts.units.add(bin, u64::from(HUGE_PAGES));
        }
    }

    /// Number of huge pages that were sampled, and the sum of their hotness.
    pub(super) fn sampled_huge_pages(&self) -> (u64, u64) {
        let huge = (0..self.regions()).map(Region).filter(|r| self.is_huge(*r));
        let hotness = huge.map(|r| u64::from(self.huge_hotness(r))).filter(|h| *h > 0);
        hotness.fold((0, 0), |(n, sum), h| (n + 1, sum + h))
    }

    pub(super) fn bytes(&self) -> Bytes {
        let regions = self.regions.capacity() * size_of::<RegionState>();
        self.counts.bytes() + self.huge.bytes() + self.stale.bytes() + Bytes(regions as u64)
    }
}
