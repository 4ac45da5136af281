//! Thrift: as few samples as tell nearly as much.
//!
//! Some regions are watched twice, with all samples and with every second one. What is hit less by the latter
//! is what half of the samples would lose; what a sample costs is what they would save.

use super::density::{Densities, Horizon, Prior, Spans};
use super::hand::Rent;
use super::tally::Tally;
use crate::types::*;

/// Regions that are watched twice.
const WATCHED: u32 = 1024;
/// Samples over which hits are averaged.
const SPAN: f64 = 4096.0;
/// Watched samples before the period changes again.
const LEAST: u32 = 2048;
/// Longest period over the shortest.
const LONGEST: u32 = 16;

/// The sampling period, and what half of the samples would tell.
pub(super) struct Thrift {
    period: u32,
    least: u32,
    /// What a sample costs (ns), and what an access saves that fast memory serves.
    sample_ns: f64,
    saving_ns: f64,
    /// One region in so many is watched.
    stride: u32,
    half: Densities,
    odd: bool,
    /// The density at which fast memory would be full, by half of the samples.
    pub rent: Rent,
    watched: f64,
    hits: [f64; 2],
    since: u32,
    /// Doublings that were asked for.
    forced: u32,
}

impl Thrift {
    pub(super) fn new(period: u32, sample_ns: f64, saving_ns: f64) -> Self {
        Self {
            period,
            least: period,
            sample_ns,
            saving_ns,
            stride: 1,
            half: Densities::new(),
            odd: false,
            rent: Rent::default(),
            watched: 0.0,
            hits: [0.0; 2],
            since: 0,
            forced: 0,
        }
    }

    /// Accesses for one sample.
    pub(super) fn period(&self) -> u32 {
        self.period
    }

    pub(super) fn grow(&mut self, pages: u32) {
        let regions = pages / HUGE_PAGES;
        if regions > WATCHED * self.stride {
            while regions > WATCHED * self.stride {
                self.stride *= 2;
            }
            let horizon = self.half.horizon;
            self.half = Densities::new();
            self.half.horizon = horizon;
            self.begin_again();
        }
        self.half.grow(regions.div_ceil(self.stride) * HUGE_PAGES);
    }

    /// Goes by another horizon.
    pub(super) fn go_by(&mut self, horizon: Horizon) {
        self.half.horizon = horizon;
        self.begin_again();
    }

    fn begin_again(&mut self) {
        (self.watched, self.hits, self.since) = (0.0, [0.0; 2], 0);
    }

    /// What stands for a page among those watched.
    fn seat(&self, page: PageId) -> Option<PageId> {
        let region = page.region().0;
        let is_watched = region.is_multiple_of(self.stride);
        is_watched.then(|| PageId(region / self.stride * HUGE_PAGES + page.offset()))
    }

    /// Compares what both say of a sampled page, before they count it.
    pub(super) fn sample(&mut self, page: PageId, huge: bool, hit: bool, spans: Spans) {
        let Some(seat) = self.seat(page) else { return };
        let density = self.half.density(seat, huge);
        let half_hit = self.rent.is_paid_by(density);
        let keep = 1.0 - 1.0 / SPAN;
        self.watched = self.watched * keep + 1.0;
        for (hits, hit) in self.hits.iter_mut().zip([hit, half_hit]) {
            *hits = *hits * keep + f64::from(u8::from(hit));
        }
        self.since += 1;
        self.odd = !self.odd;
        if self.odd {
            let spans = spans.map(|span| (span / (2 * self.stride) as f32).max(32.0));
            self.half.add(seat, spans);
        }
    }

    /// Has pages expected to be worth the rent, for want of samples.
    pub(super) fn presume(&mut self, run: PageRun) {
        self.in_each_seat(run, |half, seats, rent| half.presume(seats, [rent.density; 2]));
    }

    pub(super) fn forget(&mut self, run: PageRun) {
        self.in_each_seat(run, |half, seats, _| half.forget(seats));
    }

    /// Does something with what stands for each watched part of a run.
    fn in_each_seat(&mut self, run: PageRun, mut does: impl FnMut(&mut Densities, PageRun, Rent)) {
        let mut next = run.start;
        while next.0 < run.end() {
            let part = run.intersect(next.region().run());
            if let Some(start) = self.seat(part.start) {
                does(&mut self.half, PageRun { start, ..part }, self.rent);
            }
            next = PageId(part.end());
        }
    }

    /// Tallies a watched region's pages by half of the samples; what is known of them, unless it is not
    /// watched.
    pub(super) fn tally(
        &mut self,
        region: Region,
        states: &[u8],
        tally: &mut Tally,
    ) -> Option<Prior> {
        let seat = self.seat(region.first())?.region();
        self.half.tally(seat, states, tally, |_, _, _| ());
        Some(self.half.prior(seat))
    }

    /// The same of a folio.
    pub(super) fn tally_folio(&mut self, region: Region, tally: &mut Tally) -> Option<Prior> {
        let seat = self.seat(region.first())?.region();
        self.half.tally_folio(seat, tally);
        Some(self.half.prior(seat))
    }

    /// The share of watched samples that fast memory would serve.
    pub(super) fn hit_share(&self) -> f64 {
        self.hits[0] / self.watched.max(1.0)
    }

    fn doubled(&self) -> u32 {
        self.period.saturating_mul(2).min(self.least.saturating_mul(LONGEST))
    }

    /// Doubles the period, where it is not the longest yet.
    pub(super) fn lengthen(&mut self) -> Option<u32> {
        let new = self.doubled();
        let is_longer = new > self.period;
        self.forced += u32::from(is_longer);
        self.period = new;
        is_longer.then_some(new)
    }

    /// Takes back what [`Self::lengthen`] did last.
    pub(super) fn shorten(&mut self) -> Option<u32> {
        self.forced = self.forced.checked_sub(1)?;
        let new = (self.period / 2).max(self.least);
        let is_shorter = new < self.period;
        self.period = new;
        is_shorter.then_some(new)
    }

    /// Doubles or halves the period, where that pays; `settled` forbids to double it.
    pub(super) fn adapt(&mut self, settled: bool) -> Option<u32> {
        if self.since < LEAST {
            return None;
        }
        let lost = (self.hits[0] - self.hits[1]) / self.watched.max(1.0) * self.saving_ns;
        let costs = self.sample_ns / f64::from(self.period);
        let new = if lost < costs / 2.0 && settled {
            self.doubled()
        } else if lost > 2.0 * costs {
            (self.period / 2).max(self.least)
        } else {
            self.period
        };
        if new == self.period {
            return None;
        }
        self.period = new;
        self.since = 0;
        Some(new)
    }

    pub(super) fn bytes(&self) -> Bytes {
        self.half.bytes()
    }
}
