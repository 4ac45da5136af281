//! Page size of new memory: base pages where folios would stand more than half empty.
//!
//! Now and then a region gets base pages where the world would map a folio, only to see how many of them are
//! ever touched. Where that is less than half, a folio takes more than twice the memory that is used, of
//! whichever tier, and saves no more than walks. Where a walk costs more than an access to slow memory, there
//! are no trials.
//!
//! Fast memory that has no room for one folio would stand empty: there, all new memory gets base pages.

use crate::policy::contract::{Allocation, PageSize};
use crate::types::*;
use alloc::vec::Vec;

/// Regions on trial at a time.
const TRIALS: usize = 4;
/// New regions of which one is tried, until the first trial has ended and later.
const EVERY: [u32; 2] = [8, 256];
/// Pages born elsewhere since the last one of a region after which it may count as filled.
const FILLED: u64 = 4 * HUGE_PAGES as u64;
/// Pages of a region of which fewer say little of when the next one comes: so many times as many have to be
/// born elsewhere.
const FEW: u32 = 8;
/// Trials over which the share in use is averaged.
const SPAN: f32 = 4.0;
/// Share of a region's pages below which new ones get base pages.
const SPARSE: f32 = 0.5;

/// A region that got base pages.
#[derive(Clone, Copy, Debug)]
struct Trial {
    region: Region,
    pages: u32,
    /// Births when the last one of its pages came.
    last: u64,
    /// When its first page came, and its last one.
    came: Option<(Nanos, Nanos)>,
}

impl Trial {
    /// Whether no more pages are to be expected: where they come at random, the next one does not take as
    /// long as all before it until next to none lack.
    fn is_filled(&self, births: u64, now: Nanos) -> bool {
        let rests = self
            .came
            .is_some_and(|(first, last)| now.saturating_sub(last) >= last.saturating_sub(first));
        let least = if self.pages < FEW { FILLED * u64::from(FEW) } else { FILLED };
        self.pages >= HUGE_PAGES || births - self.last >= least && rests
    }
}

/// How full new regions become.
#[derive(Debug)]
pub(super) struct Sizes {
    /// Base pages can pay.
    tries: bool,
    trials: Vec<Trial>,
    /// Pages born.
    births: u64,
    /// New regions since one was tried.
    since: u32,
    pub judged: u32,
    in_use: f32,
    /// Regions that were tried and have become full.
    full: Vec<Region>,
}

impl Sizes {
    pub(super) fn new(tries: bool) -> Self {
        Self {
            tries,
            trials: Vec::new(),
            births: 0,
            since: 0,
            judged: 0,
            in_use: 1.0,
            full: Vec::new(),
        }
    }

    /// The size of pages of a region that is about to get a folio, which `fits` into fast memory or does not. A
    /// trial has to be `allowed`.
    pub(super) fn choose(
        &mut self,
        allocation: &Allocation,
        fits: bool,
        allowed: impl FnOnce() -> bool,
    ) -> Option<PageSize> {
        if !allocation.huge || !self.tries {
            return None;
        }
        if !fits {
            return Some(PageSize::Base);
        }
        let region = allocation.run.start.region();
        self.since += 1;
        let sparse = self.is_sparse();
        let every = EVERY[usize::from(self.judged > 0)];
        let is_tried = self.trials.len() < TRIALS && (sparse || self.since >= every && allowed());
        if is_tried {
            self.since = 0;
            self.trials.push(Trial { region, pages: 0, last: self.births, came: None });
        }
        (is_tried || sparse).then_some(PageSize::Base)
    }

    /// Memory was touched first.
    pub(super) fn born(&mut self, run: PageRun, now: Nanos) {
        self.births += u64::from(run.pages);
        let region = run.start.region();
        if let Some(trial) = self.trials.iter_mut().find(|trial| trial.region == region) {
            trial.pages += run.pages;
            trial.last = self.births;
            trial.came = Some((trial.came.map_or(now, |(first, _)| first), now));
        }
        let births = self.births;
        while let Some(at) = self.trials.iter().position(|trial| trial.is_filled(births, now)) {
            let trial = self.trials.swap_remove(at);
            let share = trial.pages as f32 / HUGE_PAGES as f32;
            if trial.pages >= HUGE_PAGES {
                self.full.push(trial.region);
            }
            self.judged += 1;
            self.in_use += (share - self.in_use) / SPAN.min(self.judged as f32);
        }
    }

    /// Memory is not there any more: what was tried there says nothing.
    pub(super) fn forget(&mut self, run: PageRun) {
        self.trials.retain(|trial| trial.region.run().intersect(run).pages == 0);
    }

    /// Regions that were tried and have become full: a folio takes no more than their pages do.
    pub(super) fn take_full(&mut self) -> Vec<Region> {
        core::mem::take(&mut self.full)
    }

    fn is_sparse(&self) -> bool {
        self.judged > 0 && self.in_use < SPARSE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regions are filled one after the other with so many pages each; those that got folios.
    fn folios(regions: core::ops::Range<u32>, pages: u32, sizes: &mut Sizes) -> usize {
        let fill = |region: u32| {
            let now = Nanos(u64::from(region) * 1000);
            let run = Region(region).run();
            let allocation =
                Allocation { run, huge: true, may_be_huge: false, process: ProcessId::default() };
            let base = sizes.choose(&allocation, true, || true) == Some(PageSize::Base);
            match base {
                false => sizes.born(run, now),
                true => run
                    .iter()
                    .take(pages as usize)
                    .for_each(|p| sizes.born(PageRun::single(p), now)),
            }
            !base
        };
        regions.map(fill).filter(|folio| *folio).count()
    }

    #[test]
    fn new_memory_gets_base_pages_where_folios_would_stand_empty() {
        let mut sizes = Sizes::new(true);
        let before = folios(0..64, 200, &mut sizes);
        assert!((8..40).contains(&before), "{before}");
        assert_eq!(folios(64..200, 200, &mut sizes), 0);
        assert!(sizes.judged >= 4 && sizes.trials.len() <= TRIALS);
        // The program fills its memory from now on.
        assert!(folios(200..300, 512, &mut sizes) > 80);
    }

    #[test]
    fn memory_that_is_filled_has_folios() {
        let mut sizes = Sizes::new(true);
        let folios = folios(0..1000, 512, &mut sizes);
        assert!(folios > 970 && folios < 1000, "a few are tried: {folios}");
    }

    #[test]
    fn what_is_touched_at_random_is_not_filled_yet() {
        let mut sizes = Sizes::new(true);
        let allocation = |region: u32| {
            let (run, process) = (Region(region).run(), ProcessId::default());
            Allocation { run, huge: true, may_be_huge: false, process }
        };
        let tried =
            (0..).find(|region| sizes.choose(&allocation(*region), true, || true).is_some());
        let first = Region(tried.unwrap()).first().0;
        // A folio a microsecond elsewhere, and a page of the region every ten.
        for at in 0..600u32 {
            let now = Nanos(u64::from(at) * 1000);
            sizes.born(Region(1000 + at).run(), now);
            if at % 10 == 0 && at < 300 {
                sizes.born(PageRun::single(PageId(first + at / 10)), now);
            }
            assert_eq!(sizes.judged, u32::from(at >= 580), "rests as long as it was filled: {at}");
        }
    }

    #[test]
    fn new_memory_gets_base_pages_where_no_folio_fits() {
        let (run, process) = (Region(3).run(), ProcessId::default());
        let allocation = Allocation { run, huge: true, may_be_huge: false, process };
        let charged = || panic!("no trial");
        assert_eq!(Sizes::new(true).choose(&allocation, false, charged), Some(PageSize::Base));
        let small = Allocation { huge: false, ..allocation };
        assert_eq!(Sizes::new(true).choose(&small, false, charged), None);
        assert_eq!(Sizes::new(false).choose(&allocation, false, charged), None, "walks cost more");
    }

    #[test]
    fn what_was_unmapped_says_nothing() {
        let mut sizes = Sizes::new(true);
        for region in 0..100 {
            folios(region..region + 1, 10, &mut sizes);
            sizes.forget(Region(region).run());
        }
        assert_eq!((sizes.judged, sizes.trials.len()), (0, 0));
    }
}
