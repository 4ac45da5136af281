//! Walks of page tables, expected from densities.
//!
//! An entry of the translation buffer stays for about as many samples as it takes to fill the buffer. A page
//! that is sampled once in that time, in the mean, is missing with probability 1/e.

use super::ranks::Histogram;
use crate::event::Sample;
use crate::policy::offer::Translation;

/// Walks expected before those that samples report count for half.
const DOUBT: f32 = 32.0;
/// Samples over which walks are averaged.
const SPAN: f32 = 4096.0;

/// Whether accesses walk.
#[derive(Debug)]
pub(super) struct Walks {
    translation: Option<Translation>,
    /// One over the density of a unit that is missing with probability 1/e.
    stay: f32,
    /// Of sampled base pages.
    seen: f32,
    expected: f32,
}

/// `exp(-x)`, near enough.
#[inline]
fn missing(x: f32) -> f32 {
    let mut y = 1.0 / (1.0 + x / 32.0);
    for _ in 0..5 {
        y *= y;
    }
    y
}

impl Walks {
    pub(super) fn new(translation: Option<Translation>) -> Self {
        Self { translation, stay: f32::MAX, seen: 0.0, expected: 0.0 }
    }

    /// Solves for the time that entries stay: in it, as many units are sampled as there are entries.
    pub(super) fn solve(&mut self, units: &Histogram) {
        let Some(translation) = self.translation else { return };
        let filled = |stay: f32| -> f32 {
            units.filled().map(|(density, n)| n as f32 * (1.0 - missing(density * stay))).sum()
        };
        let (mut low, mut high) = (1e-6f32, 1e9f32);
        if filled(high) > translation.entries as f32 {
            while high / low > 1.02 {
                let middle = libm::sqrtf(low * high);
                if filled(middle) > translation.entries as f32 {
                    high = middle
                } else {
                    low = middle
                }
            }
        }
        self.stay = high;
    }

    /// What walks take that an access to a base page, and to a folio, of such densities is expected to
    /// make (ns). What is accessed in the order of addresses walks once a page, which is next to nothing.
    /// A sample that tells whether it walked stands for its own page size.
    pub(super) fn cost(
        &mut self,
        sample: &Sample,
        huge: bool,
        densities: (f32, f32),
        ordered: bool,
    ) -> (f32, f32) {
        let Some(translation) = self.translation else { return (0.0, 0.0) };
        let expected = |density: f32| if ordered { 0.0 } else { missing(density * self.stay) };
        let (base, folio) = (expected(densities.0), expected(densities.1));
        let factor = (self.seen + DOUBT) / (self.expected + DOUBT);
        let walked = sample.walked.map(|walked| f32::from(u8::from(walked)));
        if let Some(walked) = walked.filter(|_| !huge) {
            let keep = 1.0 - 1.0 / SPAN;
            (self.seen, self.expected) = (self.seen * keep + walked, self.expected * keep + base);
        }
        let base = walked.filter(|_| !huge).unwrap_or(base * factor);
        let folio = walked.filter(|_| huge).unwrap_or(folio * factor);
        (base * translation.base_walk_ns as f32, folio * translation.folio_walk_ns as f32)
    }
}
