//! Hand that goes around memory, a few regions at a time.
//!
//! It finds what belongs elsewhere, charges rent, and counts pages by density: after each round it is known
//! at which density fast memory is full, the rent.

use super::density::{Densities, Prior};
use super::exchange::Exchange;
use super::granularity::{Found, Granularity};
use super::horizon::Choice;
use super::ranks::{Histogram, bin, least};
use super::tally::Tally;
use super::thrift::Thrift;
use super::walks::Walks;
use crate::placement::{PageState, View};
use crate::types::*;

/// Looks that a folio, or a region without memory, counts for.
const FOLIO: u32 = 16;
/// Samples between two solutions for walks, where rounds are short.
const SAMPLES_BETWEEN_SOLUTIONS: u64 = 512;

/// The density at which fast memory is full.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rent {
    /// The least bin that belongs into fast memory.
    pub bin: usize,
    /// Its least density, in samples a page.
    pub density: f32,
}

impl Rent {
    /// Whether a page of this density belongs into fast memory.
    #[inline]
    pub(super) fn is_paid_by(self, density: f32) -> bool {
        density >= self.density && density > 0.0
    }
}

/// What the hand touches.
pub(super) struct Around<'a> {
    pub view: &'a View<'a>,
    pub densities: &'a mut Densities,
    pub thrift: &'a mut Thrift,
    pub exchange: &'a mut Exchange,
    pub granularity: &'a mut Granularity,
    pub walks: &'a mut Walks,
    pub choice: &'a mut Choice,
    /// What a page of fast memory costs for a sample, at the density 1 (ns).
    pub price: f32,
    pub samples: u64,
}

impl Around<'_> {
    /// The density at which fast memory is full.
    fn rent(&self) -> Rent {
        self.choice.rent(self.densities.horizon)
    }

    /// What is known of a region's pages over the horizon that does not count.
    fn other_prior(&self, region: Region) -> Prior {
        self.densities.prior_over(region, self.densities.horizon.other())
    }
}

/// Where it is, and what it has counted in this round.
#[derive(Debug)]
pub(super) struct Hand {
    next: u32,
    /// By the horizon that counts, and by the other one.
    pages: Histogram,
    other: Histogram,
    half: Histogram,
    half_pages: u64,
    units: Histogram,
    tally: Tally,
    solved: u64,
    pub rounds: u64,
}

impl Hand {
    pub(super) fn new() -> Self {
        Self {
            next: 0,
            pages: Histogram::new(),
            other: Histogram::new(),
            half: Histogram::new(),
            half_pages: 0,
            units: Histogram::new(),
            tally: Tally::new(),
            solved: 0,
            rounds: 0,
        }
    }

    /// Goes on by so many looks, at most once around.
    pub(super) fn go(&mut self, looks: u32, around: &mut Around<'_>) {
        let regions = around.view.pages() / HUGE_PAGES;
        let mut left = looks;
        for _ in 0..regions {
            let cost = self.look(Region(self.next), around);
            self.next += 1;
            if self.next == regions {
                self.end_round(around);
                self.next = 0;
            }
            left = left.saturating_sub(cost);
            if left == 0 {
                break;
            }
        }
    }

    fn look(&mut self, region: Region, around: &mut Around<'_>) -> u32 {
        let states = &around.view.states()[region.run().range()];
        let first = PageState(states[0]);
        match first.is_huge() {
            true => self.look_at_folio(region, first, around),
            false => self.look_at_pages(region, states, around),
        }
    }

    fn look_at_folio(&mut self, region: Region, state: PageState, around: &mut Around<'_>) -> u32 {
        around.densities.tally_folio(region, &mut self.tally);
        around.densities.learn_shape(region, &self.tally);
        let rent = around.rent();
        let density = around.densities.mean(region);
        self.pages.add(bin(density), HUGE_PAGES);
        self.other.add(bin(around.other_prior(region).mean), HUGE_PAGES);
        self.units.add(bin(density * HUGE_PAGES as f32), 1);
        if let Some(half) = around.thrift.tally_folio(region, &mut self.tally) {
            self.half.add(bin(half.mean), HUGE_PAGES);
            self.half_pages += u64::from(HUGE_PAGES);
        }
        if !state.is_in_flight() {
            let fast = state.tier() == Some(TierId::FAST);
            around.exchange.offer(region.first(), fast, density, rent.bin);
        }
        let share = around.granularity.in_use();
        let hot = around.densities.at_least(region, rent.density, share);
        let dense = density >= rent.density;
        let found = Found { region, huge: true, whole: false, hot, dense };
        charge(found, rent, around);
        FOLIO
    }

    fn look_at_pages(&mut self, region: Region, states: &[u8], around: &mut Around<'_>) -> u32 {
        let prior = around.densities.prior(region);
        let (rent, other) = (around.rent(), around.other_prior(region));
        // Pages of fast memory below the first score want to leave, those of slow memory from the second one
        // on want to come.
        let leave = around.densities.least_score_in(prior, rent.bin.max(1));
        let come = match prior.is_empty() {
            true => i16::MAX,
            false => around.densities.least_score_in(prior, rent.bin.saturating_sub(1)),
        };
        let (mut still, mut wanting) = (0, 0);
        let mut want = [0u16; HUGE_PAGES as usize];
        around.densities.tally(region, states, &mut self.tally, |at, state, score| {
            let fast = state.tier() == Some(TierId::FAST);
            let is_still = !state.is_in_flight();
            still += u32::from(is_still);
            want[wanting] = at as u16;
            let wants = fast && score < leave || !fast && score >= come;
            wanting += usize::from(is_still && wants);
        });
        for at in &want[..wanting] {
            let page = PageId(region.first().0 + u32::from(*at));
            let fast = around.view.state(page).tier() == Some(TierId::FAST);
            let density = prior.expected(around.densities.own(page));
            around.exchange.offer(page, fast, density, rent.bin);
        }
        let mut hot = 0;
        for (own, pages) in around.densities.tallied(&self.tally) {
            let density = prior.expected(own);
            self.pages.add(bin(density), pages);
            self.other.add(bin(other.expected(own)), pages);
            self.units.add(bin(density), pages);
            hot += if density >= rent.density { pages } else { 0 };
        }
        if self.tally.pages() == 0 {
            around.granularity.forget(region);
            return FOLIO;
        }
        around.densities.learn_shape(region, &self.tally);
        if let Some(half) = around.thrift.tally(region, states, &mut self.tally) {
            for (own, pages) in around.densities.tallied(&self.tally) {
                self.half.add(bin(half.expected(own)), pages);
                self.half_pages += u64::from(pages);
            }
        }
        let dense = prior.mean >= rent.density;
        let found = Found { region, huge: false, whole: still == HUGE_PAGES, hot, dense };
        charge(found, rent, around);
        HUGE_PAGES
    }

    fn end_round(&mut self, around: &mut Around<'_>) {
        self.rounds += 1;
        let limits = around.view.limits(TierId::FAST);
        let capacity = limits.capacity.saturating_sub(limits.keep_free).0;
        let rent = |pages: &Histogram, capacity: u64| {
            let bin = pages.fitting(capacity);
            Rent { bin, density: least(bin) }
        };
        let horizon = around.densities.horizon;
        around.choice.rents[horizon as usize] = rent(&self.pages, capacity);
        around.choice.rents[horizon.other() as usize] = rent(&self.other, capacity);
        let resident = around.view.resident().0.max(1);
        let share = capacity as f64 / resident as f64;
        around.thrift.rent = rent(&self.half, (share * self.half_pages as f64) as u64);
        if around.samples - self.solved >= SAMPLES_BETWEEN_SOLUTIONS {
            self.solved = around.samples;
            around.walks.solve(&self.units);
        }
        self.pages.clear();
        self.other.clear();
        self.half.clear();
        self.units.clear();
        self.half_pages = 0;
    }
}

fn charge(found: Found, rent: Rent, around: &mut Around<'_>) {
    let rent = rent.density * around.price;
    around.granularity.charge(found, rent, around.samples as u32);
}
