//! Scale of the margins, by what exchanges near them have come to.
//!
//! A margin keeps chance out: what was sampled often is less dense than it seems. How much chance there is depends
//! on the program. Where interest moves, two samples of a folio tell enough; where it does not, they were luck. So
//! exchanges of one unit for another that nearly pay, or pay by little, are watched over the short horizon, whether
//! they are made or not. Where the unit that comes was sampled more by then than the one that leaves, by the whole
//! margin, margins shrink; otherwise they grow again, to what they were at the beginning.

use super::density::Densities;
use crate::types::*;
use alloc::collections::VecDeque;

/// Exchanges watched at a time.
const WATCHED: usize = 64;
/// Octaves by which an exchange without doubt changes the scale.
const STEP: f32 = 1.0 / 16.0;
/// Octaves of the least scale.
const LEAST: f32 = -4.0;
/// An exchange is near the margin where one so many times as large, or as small, would decide otherwise.
const NEAR: f32 = 2.0;

/// An exchange of a unit for another one of its size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchanged {
    pub comes: PageId,
    pub leaves: PageId,
    pub huge: bool,
    /// Samples that the first has more, by its density.
    pub gain: f32,
    /// The same that it has to have, with whole margins.
    pub price: f32,
}

#[derive(Clone, Copy, Debug)]
struct Watch {
    exchanged: Exchanged,
    /// The sample at which it is judged.
    until: u64,
    /// Samples of what comes and of what leaves, at the beginning.
    before: [f32; 2],
}

impl Watch {
    fn samples(exchanged: Exchanged, densities: &Densities) -> [f32; 2] {
        [exchanged.comes, exchanged.leaves].map(|unit| densities.samples(unit, exchanged.huge))
    }

    /// By how many standard deviations the exchange was worth its price, `[-1, 1]`.
    fn verdict(&self, densities: &Densities) -> f32 {
        let now = Self::samples(self.exchanged, densities);
        let [came, left] = [0, 1].map(|at| (now[at] - self.before[at]).max(0.0));
        let beyond = came - left - self.exchanged.price;
        (beyond / (1.0 + libm::sqrtf(came + left))).clamp(-1.0, 1.0)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Margins {
    watched: VecDeque<Watch>,
    octaves: f32,
    pub judged: u64,
}

impl Margins {
    /// By what margins are multiplied, `(0, 1]`.
    pub(super) fn scale(&self) -> f32 {
        libm::exp2f(self.octaves)
    }

    /// Begins to watch an exchange until sample `until`, where it is near the margin.
    pub(super) fn watch(&mut self, exchanged: Exchanged, until: u64, densities: &Densities) {
        let least = exchanged.price * self.scale();
        let is_near = (least / NEAR..=least * NEAR).contains(&exchanged.gain);
        if is_near && self.watched.len() < WATCHED && densities.are_counted() {
            let before = Watch::samples(exchanged, densities);
            self.watched.push_back(Watch { exchanged, until, before });
        }
    }

    /// Judges what was to be watched until sample `now`.
    pub(super) fn judge(&mut self, now: u64, densities: &Densities) {
        while let Some(watch) = self.watched.pop_front_if(|watch| watch.until <= now) {
            self.octaves = (self.octaves - STEP * watch.verdict(densities)).clamp(LEAST, 0.0);
            self.judged += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPANS: [f32; 2] = [1e6, 100.0];

    /// The scale after folios were exchanged, each of which is sampled so often before it is judged, as is what left.
    fn after(exchanges: u64, came: u32, left: u32) -> f32 {
        let mut densities = Densities::new();
        densities.grow(2 * HUGE_PAGES);
        let mut margins = Margins::default();
        let [comes, leaves] = [0, HUGE_PAGES].map(PageId);
        let near = Exchanged { comes, leaves, huge: true, gain: 0.0, price: 8.0 };
        for sample in 0..exchanges {
            let gain = near.price * margins.scale();
            margins.watch(Exchanged { gain, ..near }, sample, &densities);
            (0..came).for_each(|i| densities.add(PageId(i), SPANS));
            (0..left).for_each(|i| densities.add(PageId(HUGE_PAGES + i), SPANS));
            margins.judge(sample, &densities);
        }
        assert_eq!(margins.judged, exchanges);
        margins.scale()
    }

    #[test]
    fn margins_shrink_where_exchanges_bring_more_than_they_cost() {
        assert!(after(16, 40, 1) < 0.6);
        assert_eq!(after(200, 40, 1), libm::exp2f(LEAST));
    }

    #[test]
    fn margins_stay_where_exchanges_bring_less_than_they_cost() {
        assert_eq!(after(100, 0, 0), 1.0);
        assert_eq!(after(100, 10, 10), 1.0);
        assert_eq!(after(100, 5, 0), 1.0);
    }

    #[test]
    fn margins_grow_again() {
        let mut margins = Margins { octaves: LEAST, ..Margins::default() };
        let mut densities = Densities::new();
        densities.grow(2 * HUGE_PAGES);
        let near = Exchanged {
            comes: PageId(0),
            leaves: PageId(1),
            huge: false,
            gain: 1.0 / 16.0,
            price: 1.0,
        };
        for sample in 0..2000 {
            let gain = near.price * margins.scale();
            margins.watch(Exchanged { gain, ..near }, sample, &densities);
            margins.judge(sample, &densities);
        }
        assert_eq!((margins.scale(), margins.judged), (1.0, 2000));
    }

    #[test]
    fn exchanges_that_the_margin_does_not_decide_are_not_watched() {
        let mut densities = Densities::new();
        densities.grow(HUGE_PAGES);
        let mut margins = Margins::default();
        let near =
            Exchanged { comes: PageId(0), leaves: PageId(1), huge: false, gain: 0.0, price: 4.0 };
        for gain in [0.0, 1.9, 8.1, 100.0] {
            margins.watch(Exchanged { gain, ..near }, 0, &densities);
        }
        assert!(margins.watched.is_empty());
        for _ in 0..2 * WATCHED {
            margins.watch(Exchanged { gain: 5.0, ..near }, 9, &densities);
        }
        assert_eq!(margins.watched.len(), WATCHED);
        margins.judge(8, &densities);
        assert_eq!(margins.judged, 0);
        margins.judge(9, &densities);
        assert_eq!(margins.judged, WATCHED as u64);
        // Densities that are measured tell nothing of how often a page is sampled.
        let mut measured = Densities::of_all_pages();
        measured.grow(HUGE_PAGES);
        margins.watch(Exchanged { gain: 5.0, ..near }, 9, &measured);
        assert!(margins.watched.is_empty());
    }
}
