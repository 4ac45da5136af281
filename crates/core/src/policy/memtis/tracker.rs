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
    /// Pages gone over one by one since somebody asked.
    passed: u64,
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
            passed: 0,
        }
    }

    /// Notes that so many pages were gone over one by one.
    pub(super) fn note_pass(&mut self, pages: u64) {
        self.passed += pages;
    }

    /// Pages gone over one by one since the last call.
    pub(super) fn take_passed(&mut self) -> u64 {
        core::mem::take(&mut self.passed)
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
        self.refresh();
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

    /// Has what [`Self::sample`] will need loaded into the cache.
    #[inline]
    pub(super) fn prefetch(&self, page: PageId) {
        self.counts.prefetch(page.0);
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
        self.note_pass(self.tracked);
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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    fn tracker(refill: Refill) -> Tracker {
        Tracker::new(Binning::Exact, refill, PageCount::ZERO)
    }

    #[test]
    fn cooling_moves_every_page_exactly_one_bin() {
        let mut t = tracker(Refill::AtOnce);
        t.populate(PageRun::between(0, 512), true, 8);
        t.populate(PageRun::between(512, 522), false, 4);
        t.sample(PageId(512));
        assert_eq!(t.pages().bins()[3], 512, "a huge page counts as 512 pages");
        assert_eq!((t.pages().bins()[2], t.pages().bins()[9]), (9, 1));
        t.cool();
        assert_eq!(t.pages().bins()[2], 512);
        assert_eq!((t.pages().bins()[1], t.pages().bins()[8]), (9, 1));
        assert_eq!(t.base().bins()[0], 512, "subpages of a new huge page start at 0");
        // One scaled access takes nine coolings to the bottom, an unscaled one would take one.
        (0..7).for_each(|_| t.cool());
        assert_eq!(t.pages().bins()[1], 1);
        t.cool();
        assert_eq!(t.pages().bins()[0], 522);
    }

    #[test]
    fn the_top_bin_is_left_only_when_hotness_says_so() {
        let mut t = tracker(Refill::AtOnce);
        t.populate(PageRun::between(0, 2), false, 0);
        for _ in 0..64 {
            t.sample(PageId(0));
        }
        for _ in 0..128 {
            t.sample(PageId(1));
        }
        assert_eq!(t.base().bins()[15], 2);
        t.cool();
        assert_eq!((t.base().bins()[15], t.base().bins()[14]), (1, 1));
        t.populate(PageRun::between(512, 1024), true, 1 << 17);
        t.cool();
        assert_eq!(t.pages().bins()[15], 512);
        t.cool();
        t.cool();
        assert_eq!((t.pages().bins()[15], t.pages().bins()[14]), (0, 512));
    }

    #[test]
    fn splitting_keeps_subpages_and_collapsing_their_sum() {
        let mut t = tracker(Refill::AtOnce);
        t.populate(PageRun::between(0, 512), true, 0);
        for p in 0..512 {
            t.sample(PageId(p));
        }
        for _ in 0..100 {
            t.sample(PageId(7));
        }
        assert_eq!(t.huge_hotness(Region(0)), 612);
        t.split(Region(0));
        assert_eq!(t.unit_hotness(PageId(8)), Some(512));
        assert_eq!(t.pages(), t.base(), "only base pages are left");
        t.collapse(Region(0));
        assert_eq!(t.huge_hotness(Region(0)), 612);
        t.split(Region(0));
        t.forget(PageRun::single(PageId(3)));
        t.collapse(Region(0));
        assert!(!t.is_huge(Region(0)), "511 pages make no huge page");
    }

    #[test]
    fn a_lazy_cooling_empties_the_histograms_and_fills_them_region_by_region() {
        let mut t = tracker(Refill::Lazy);
        t.populate(PageRun::between(0, 1024), false, 64);
        t.cool();
        assert_eq!((t.pages().total(), t.tracked()), (0, 1024));
        t.sample(PageId(600));
        assert_eq!(t.pages().total(), 512, "the sampled region is back, halved");
        assert_eq!((t.pages().bins()[5], t.unit_hotness(PageId(600))), (511, Some(32 + ACCESS)));
        t.cool();
        assert_eq!(t.pages().total(), 0);
        t.refresh();
        assert_eq!((t.pages().bins()[4], t.pages().total()), (1023, 1024));
    }

    /// The same rules over plain maps.
    #[derive(Default)]
    struct Plain {
        pages: BTreeMap<u32, u64>,
        huge: BTreeMap<u32, u64>,
    }

    impl Plain {
        fn populate(&mut self, run: PageRun, huge: bool, initial: u64) {
            if huge {
                self.forget(run);
                self.huge.insert(run.start.region().0, initial);
            }
            for page in run.range() {
                let start = if huge { 0 } else { initial };
                self.pages.entry(page as u32).or_insert(start);
            }
        }
        fn forget(&mut self, run: PageRun) {
            for page in run.range() {
                self.huge.remove(&PageId(page as u32).region().0);
                self.pages.remove(&(page as u32));
            }
        }
        fn sample(&mut self, page: u32) {
            if let Some(h) = self.pages.get_mut(&page) {
                *h += 512;
                if let Some(h) = self.huge.get_mut(&(page / 512)) {
                    *h += 1;
                }
            }
        }
        fn collapse(&mut self, region: Region) {
            let pages: Vec<u64> =
                region.run().iter().filter_map(|p| self.pages.get(&p.0).copied()).collect();
            if pages.len() == 512 && !self.huge.contains_key(&region.0) {
                self.huge.insert(region.0, pages.iter().sum::<u64>() / 512);
            }
        }
        fn remap(&mut self, from: PageRun, to: u32) {
            let moved: Vec<(u32, u64)> = from
                .iter()
                .filter_map(|p| Some((p.0 - from.start.0 + to, *self.pages.get(&p.0)?)))
                .collect();
            let whole: Vec<(u32, u64)> = self
                .huge
                .iter()
                .filter(|(r, _)| from.intersect(Region(**r).run()).pages == 512)
                .filter(|_| from.start.0 % 512 == to % 512)
                .map(|(r, h)| ((r * 512 - from.start.0 + to) / 512, *h))
                .collect();
            self.forget(from);
            self.forget(PageRun { start: PageId(to), pages: from.pages });
            self.pages.extend(moved);
            self.huge.extend(whole);
        }
        fn histograms(&self) -> (Histogram, Histogram) {
            let (mut pages, mut base) = (Histogram::default(), Histogram::default());
            let bin = |h: u64| Binning::Exact.bin(h as u32);
            for (page, h) in &self.pages {
                base.add(bin(*h), 1);
                pages.add(bin(*self.huge.get(&(page / 512)).unwrap_or(h)), 1);
            }
            (pages, base)
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Populate { region: u32, offset: u32, pages: u32, huge: bool, initial: u32 },
        Forget { start: u32, pages: u32 },
        Sample { page: u32, times: u32 },
        Split(u32),
        Collapse(u32),
        Remap { from: u32, pages: u32, to: u32 },
        Cool,
        Refresh,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let page = || 0..4 * HUGE_PAGES;
        let step = prop_oneof![
            3 => (0..4u32, 0..512u32, 1..600u32, any::<bool>(), 0..40_000u32).prop_map(
                |(region, offset, pages, huge, initial)| Step::Populate {
                    region, offset, pages, huge, initial
                }
            ),
            2 => (page(), 1..700u32).prop_map(|(start, pages)| Step::Forget { start, pages }),
            8 => (page(), 1..200u32).prop_map(|(page, times)| Step::Sample { page, times }),
            1 => (0..5u32).prop_map(Step::Split),
            1 => (0..5u32).prop_map(Step::Collapse),
            1 => (0..4u32, 1..1200u32, 0..4u32, any::<bool>(), 0..512u32).prop_map(
                |(from, pages, to, aligned, off)| Step::Remap {
                    from: from * 512,
                    pages: if aligned { pages.next_multiple_of(512) } else { pages },
                    to: 6 * 512 + to * 512 + if aligned { 0 } else { off },
                }
            ),
            2 => Just(Step::Cool),
            1 => Just(Step::Refresh),
        ];
        proptest::collection::vec(step, 1..40)
    }

    fn agree(refill: Refill, steps: &[Step]) -> Result<(), TestCaseError> {
        let (mut t, mut plain) = (tracker(refill), Plain::default());
        for step in steps {
            match *step {
                Step::Populate { region, offset, pages, huge, initial } => {
                    let run = if huge {
                        Region(region).run()
                    } else {
                        PageRun { start: PageId(region * 512 + offset), pages }
                    };
                    t.populate(run, huge, initial);
                    plain.populate(run, huge, u64::from(initial));
                }
                Step::Forget { start, pages } => {
                    let run = PageRun { start: PageId(start), pages };
                    let inside = run.intersect(PageRun::between(0, t.regions() * 512));
                    t.forget(run);
                    plain.forget(inside);
                }
                Step::Sample { page, times } => {
                    for _ in 0..times {
                        t.sample(PageId(page));
                        plain.sample(page);
                    }
                }
                Step::Split(region) => {
                    t.split(Region(region));
                    plain.huge.remove(&region);
                }
                Step::Collapse(region) => {
                    t.collapse(Region(region));
                    plain.collapse(Region(region));
                }
                Step::Remap { from, pages, to } => {
                    let run = PageRun { start: PageId(from), pages };
                    t.remap(run, PageId(to));
                    plain.remap(run, to);
                }
                Step::Cool => {
                    t.cool();
                    plain.pages.values_mut().for_each(|h| *h /= 2);
                    plain.huge.values_mut().for_each(|h| *h /= 2);
                }
                Step::Refresh => t.refresh(),
            }
            if refill == Refill::AtOnce {
                prop_assert_eq!((t.pages(), t.base()), plain.histograms(), "{:?}", step);
                prop_assert_eq!(&t.recount(), &t.parts);
            }
        }
        t.refresh();
        prop_assert_eq!((t.pages(), t.base()), plain.histograms());
        prop_assert_eq!(t.tracked(), plain.pages.len() as u64);
        for (page, h) in &plain.pages {
            prop_assert_eq!(u64::from(t.counts.exact(*page)), *h);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn histograms_are_those_of_a_recount(steps in steps()) {
            agree(Refill::AtOnce, &steps)?;
        }

        #[test]
        fn lazy_cooling_ends_where_eager_cooling_does(steps in steps()) {
            agree(Refill::Lazy, &steps)?;
        }
    }
}
