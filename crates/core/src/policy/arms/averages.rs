//! Two moving averages of the samples of every unit, a folio or a base page, by intervals.

use crate::placement::View;
use crate::types::*;
use alloc::vec::Vec;

/// Samples an interval of a page below which it is forgotten.
const LEAST: f32 = 1e-4;

/// What is known of a unit; kept at its first page.
#[derive(Clone, Copy, Debug, Default)]
struct Unit {
    /// Averages, of samples an interval.
    short: f32,
    long: f32,
    /// Samples of this interval.
    count: u16,
    /// Intervals in a row in which it was among the hottest.
    rounds: u8,
    /// In the list of those that were sampled.
    known: bool,
}

/// Parts that both averages, the short and the long one, have in a score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Weights {
    pub short: f32,
    pub long: f32,
}

/// A unit that was sampled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ranked {
    pub page: PageId,
    pub pages: u32,
    /// Score of one of its pages.
    pub density: f32,
}

/// All units.
#[derive(Clone, Debug)]
pub(super) struct Averages {
    /// Parts of the last interval in both averages.
    alphas: Weights,
    units: Vec<Unit>,
    /// Those that were sampled and are not forgotten.
    known: Vec<PageId>,
}

impl Averages {
    pub(super) fn new(alphas: Weights, hint: PageCount) -> Self {
        let hint = usize::try_from(hint.0).unwrap_or(0);
        Self { alphas, units: Vec::with_capacity(hint), known: Vec::new() }
    }

    pub(super) fn bytes(&self) -> Bytes {
        let known = self.known.capacity() * size_of::<PageId>();
        Bytes((self.units.capacity() * size_of::<Unit>() + known) as u64)
    }

    pub(super) fn grow(&mut self, pages: u32) {
        if pages as usize > self.units.len() {
            self.units.resize(pages as usize, Unit::default());
        }
    }

    /// Counts a sample of a page that is resident.
    pub(super) fn sample(&mut self, page: PageId, view: &View<'_>) {
        let first = view.unit(page).start;
        let unit = &mut self.units[first.index()];
        unit.count = unit.count.saturating_add(1);
        self.know(first);
    }

    fn know(&mut self, page: PageId) {
        let unit = &mut self.units[page.index()];
        if !core::mem::replace(&mut unit.known, true) {
            self.known.push(page);
        }
    }

    /// Whether a unit was sampled and is not forgotten.
    pub(super) fn knows(&self, page: PageId) -> bool {
        self.units.get(page.index()).is_some_and(|unit| unit.known)
    }

    /// Ends an interval: gives every unit that was sampled, by scores of these weights.
    pub(super) fn end_interval(&mut self, weights: Weights, view: &View<'_>) -> Vec<Ranked> {
        let (units, alphas) = (&mut self.units, self.alphas);
        let mut ranked = Vec::with_capacity(self.known.len());
        self.known.retain(|&page| {
            let unit = &mut units[page.index()];
            let count = f32::from(core::mem::take(&mut unit.count));
            unit.short += alphas.short * (count - unit.short);
            unit.long += alphas.long * (count - unit.long);
            let run = view.unit(page);
            let there = view.state(page).is_resident() && run.start == page;
            let pages = run.pages as f32;
            if !there || unit.short.max(unit.long) < LEAST * pages {
                *unit = Unit::default();
                return false;
            }
            let density = (weights.short * unit.short + weights.long * unit.long) / pages;
            ranked.push(Ranked { page, pages: run.pages, density });
            true
        });
        ranked
    }

    /// Notes whether a unit is among the hottest; gives for how many intervals it has been by now.
    pub(super) fn note_rank(&mut self, page: PageId, hot: bool) -> u8 {
        let rounds = &mut self.units[page.index()].rounds;
        *rounds = if hot { rounds.saturating_add(1) } else { 0 };
        *rounds
    }

    /// Pages are gone.
    pub(super) fn forget(&mut self, run: PageRun) {
        let run = run.intersect(PageRun::between(0, self.units.len() as u32));
        for unit in &mut self.units[run.range()] {
            // It leaves the list at the end of the interval.
            *unit = Unit { known: unit.known, ..Unit::default() };
        }
    }

    /// A folio has become base pages, which share its samples.
    pub(super) fn split(&mut self, region: Region) {
        self.grow(region.run().end());
        let unit = self.units[region.first().index()];
        let part = 1.0 / HUGE_PAGES as f32;
        for page in region.run().iter().filter(|_| unit.known) {
            let known = self.units[page.index()].known;
            let (short, long) = (unit.short * part, unit.long * part);
            self.units[page.index()] = Unit { short, long, rounds: unit.rounds, known, count: 0 };
            self.know(page);
        }
    }

    /// Base pages have become a folio, which has all their samples.
    pub(super) fn collapse(&mut self, region: Region) {
        self.grow(region.run().end());
        let mut sum = Unit::default();
        for unit in &self.units[region.run().range()] {
            sum.short += unit.short;
            sum.long += unit.long;
            sum.count = sum.count.saturating_add(unit.count);
            sum.rounds = sum.rounds.max(unit.rounds);
        }
        self.forget(region.run());
        let first = region.first();
        let known = self.units[first.index()].known;
        self.units[first.index()] = Unit { known, ..sum };
        self.know(first);
    }
}
