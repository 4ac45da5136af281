//! Densities of pages and regions: samples, of which the older ones count less.
//!
//! A sample counts e times as much as one that is a horizon of samples older. Nothing decays: new samples
//! weigh more instead, by a unit that grows. Of each page two bytes are kept, the logarithm of its samples
//! modulo 2^16; of each region two floats, of a long horizon and of a short one. Over the short horizon, pages
//! share what their region gets as they do over the long one.

use super::ranks::{BINS, least};
use super::tally::Tally;
use crate::placement::PageState;
use crate::types::*;
use alloc::boxed::Box;
use alloc::vec::Vec;
use prefetch_index::prefetch_index;

/// Steps of a score in an octave.
pub(super) const STEPS: i32 = 64;
/// Score of a page without samples, in relation to now: less than any that counts.
pub(super) const NONE: i16 = -48 * STEPS as i16;
/// Scores below this, in relation to now, count as none.
pub(super) const LEAST: i16 = -24 * STEPS as i16;
/// Scores below this, in relation to now, are brought back to [`NONE`], long before they wrap around.
pub(super) const OLD: i16 = -96 * STEPS as i16;
/// Octaves of the table of increments, below and above one sample.
const BELOW: i32 = 8;
const ABOVE: i32 = 16;
/// Weight of a new sample from which on regions are scaled down.
const HEAVY: f64 = 1e20;

/// What is known of a region's pages without looking at one: their rates are gamma distributed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Prior {
    /// Samples of a page in the mean, over the horizon that counts.
    pub mean: f32,
    /// The same over the long horizon.
    long: f32,
    /// Shape of the distribution: small where few pages are much denser than the rest, large where all are
    /// alike.
    shape: f32,
}

impl Prior {
    /// Samples to be expected of a page that had so many: the mean of the posterior.
    #[inline]
    pub(super) fn expected(self, own: f32) -> f32 {
        self.mean * (own + self.shape) / (self.long + self.shape)
    }

    /// Whether nothing was sampled.
    pub(super) fn is_empty(self) -> bool {
        self.mean <= 0.0
    }

    /// The same for pages that are in use, where only this share of them is.
    #[inline]
    pub(super) fn in_use(self, share: f32) -> Self {
        Self { mean: self.mean / share, long: self.long / share, ..self }
    }

    /// The least own samples with which a page has a density.
    #[inline]
    fn least_own(self, density: f32) -> f32 {
        density * (self.long + self.shape) / self.mean - self.shape
    }
}

/// Shape as long as nothing is known, and how much that weighs, in pages of mean 1.
const SHAPE: f32 = 1.0;
const DOUBT: f32 = 32.0;
/// Shapes that are told apart.
const SHAPES: (f32, f32) = (1.0 / 32.0, 32.0);

/// Powers of two in steps of a score, and by how much one more sample raises a score.
struct Tables {
    /// `2^(i/STEPS)`.
    powers: [f32; STEPS as usize],
    /// In 2^-16 of a step, from `BELOW` octaves below one sample on.
    rises: [u32; ((BELOW + ABOVE) * STEPS) as usize],
}

impl Tables {
    fn new() -> Box<Self> {
        let mut tables = Box::new(Self {
            powers: [1.0; STEPS as usize],
            rises: [0; ((BELOW + ABOVE) * STEPS) as usize],
        });
        for (i, power) in tables.powers.iter_mut().enumerate() {
            *power = libm::exp2(i as f64 / f64::from(STEPS)) as f32;
        }
        for (i, rise) in tables.rises.iter_mut().enumerate() {
            let octaves = i as f64 / f64::from(STEPS) - f64::from(BELOW);
            let steps = f64::from(STEPS) * libm::log2(1.0 + libm::exp2(-octaves));
            *rise = (steps * 65536.0) as u32;
        }
        tables
    }

    #[inline]
    fn power(&self, steps: i16) -> f32 {
        let (octaves, rest) =
            (i32::from(steps).div_euclid(STEPS), i32::from(steps).rem_euclid(STEPS));
        let exponent = (127 + octaves.clamp(-126, 127)) as u32;
        f32::from_bits(exponent << 23) * self.powers[rest as usize]
    }

    /// The least score, in relation to now, that stands for so many samples.
    fn score(&self, samples: f32) -> i16 {
        if samples <= self.power(LEAST) {
            return LEAST;
        }
        let octaves = (samples.to_bits() >> 23) as i32 - 127;
        let mantissa = f32::from_bits(samples.to_bits() & 0x007f_ffff | 0x3f80_0000);
        let rest = self.powers.partition_point(|power| *power < mantissa) as i32;
        i16::try_from(octaves * STEPS + rest).unwrap_or(i16::MAX)
    }
}

/// Horizon of an average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Horizon {
    Long = 0,
    Short = 1,
}

impl Horizon {
    pub(super) const ALL: [Self; 2] = [Self::Long, Self::Short];

    pub(super) fn other(self) -> Self {
        Self::ALL[1 - self as usize]
    }
}

/// Spans of both horizons (samples).
pub(super) type Spans = [f32; 2];

/// What is known of a region.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// Samples over the long and the short horizon.
    samples: [f32; 2],
    /// Shape of the distribution of its pages.
    shape: f32,
}

/// Samples of pages and regions.
pub(super) struct Densities {
    scores: Vec<u16>,
    regions: Vec<Known>,
    /// Weights of a sample now, as regions count it.
    units: [f64; 2],
    /// The horizon that counts.
    pub horizon: Horizon,
    /// Logarithm of the weight of a sample now, in steps.
    clock: f64,
    /// Its last 16 bits.
    now: u16,
    /// Source of chance for roundings.
    dither: u32,
    /// Shape that all regions have, where it is not learned.
    shape: Option<f32>,
    tables: Box<Tables>,
}

impl Densities {
    pub(super) fn new() -> Self {
        Self::with_shape(None)
    }

    /// Every page is looked at as often as others: what was seen of it says all.
    pub(super) fn of_all_pages() -> Self {
        Self::with_shape(Some(SHAPES.0))
    }

    fn with_shape(shape: Option<f32>) -> Self {
        Self {
            shape,
            scores: Vec::new(),
            regions: Vec::new(),
            units: [1.0; 2],
            horizon: Horizon::Long,
            clock: 0.0,
            now: 0,
            dither: 1,
            tables: Tables::new(),
        }
    }

    /// Makes room for page ids below `pages`, a multiple of 512.
    pub(super) fn grow(&mut self, pages: u32) {
        let pages = pages as usize;
        if pages > self.scores.len() {
            self.scores.resize(pages, self.now.wrapping_add_signed(NONE));
            let nothing = Known { samples: [0.0; 2], shape: self.shape.unwrap_or(SHAPE) };
            self.regions.resize(pages / HUGE_PAGES as usize, nothing);
        }
    }

    /// Has what is known of a page loaded into the cache.
    #[inline]
    pub(super) fn prefetch(&self, page: PageId) {
        prefetch_index(&self.scores, page.index());
        prefetch_index(&self.regions, page.region().index());
    }

    #[inline]
    fn relative(&self, page: PageId) -> i16 {
        self.scores[page.index()].wrapping_sub(self.now) as i16
    }

    /// Samples of a page.
    #[inline]
    pub(super) fn own(&self, page: PageId) -> f32 {
        match self.relative(page) {
            relative if relative < LEAST => 0.0,
            relative => self.tables.power(relative),
        }
    }

    /// Whether samples are counted, rather than densities set.
    pub(super) fn are_counted(&self) -> bool {
        self.shape.is_none()
    }

    /// Samples of a base page, or of a folio, over the long horizon.
    pub(super) fn samples(&self, unit: PageId, huge: bool) -> f32 {
        match huge {
            true => self.regions[unit.region().index()].samples[0] / self.units[0] as f32,
            false => self.own(unit),
        }
    }

    /// Samples of a region over its pages.
    #[inline]
    fn mean_over(&self, region: Region, horizon: Horizon) -> f32 {
        let at = horizon as usize;
        self.regions[region.index()].samples[at] / (self.units[at] as f32 * HUGE_PAGES as f32)
    }

    /// Samples of a region over its pages, over the horizon that counts.
    #[inline]
    pub(super) fn mean(&self, region: Region) -> f32 {
        self.mean_over(region, self.horizon)
    }

    /// What is known of a region's pages over a horizon.
    #[inline]
    pub(super) fn prior_over(&self, region: Region, horizon: Horizon) -> Prior {
        let mean = self.mean_over(region, horizon);
        let long = self.mean_over(region, Horizon::Long);
        Prior { mean, long, shape: self.regions[region.index()].shape }
    }

    /// What is known of a region's pages.
    #[inline]
    pub(super) fn prior(&self, region: Region) -> Prior {
        self.prior_over(region, self.horizon)
    }

    /// Samples that are to be expected of a base page, or of the mean page of a folio.
    #[inline]
    pub(super) fn density(&self, page: PageId, huge: bool) -> f32 {
        let prior = self.prior(page.region());
        if huge { prior.mean } else { prior.expected(self.own(page)) }
    }

    /// Samples that a score stands for, in relation to now.
    #[inline]
    fn samples_of(&self, relative: i16) -> f32 {
        self.tables.power(relative)
    }

    /// The least score, in relation to now, with which a page has a density. All have it where that is the
    /// least number, and none where it is the largest.
    fn least_score(&self, prior: Prior, density: f32) -> i16 {
        if prior.is_empty() {
            return if density <= 0.0 { i16::MIN } else { i16::MAX };
        }
        match prior.least_own(density) {
            own if own <= 0.0 => i16::MIN,
            own => self.tables.score(own),
        }
    }

    /// The same with which a page is in a bin, or in a denser one.
    pub(super) fn least_score_in(&self, prior: Prior, bin: usize) -> i16 {
        if bin < BINS { self.least_score(prior, least(bin)) } else { i16::MAX }
    }

    /// Tallies a region's pages, each of which is shown to `see`. To be called more often than in 400 times the
    /// logarithm of 2 of a horizon, or scores wrap around.
    #[inline]
    pub(super) fn tally(
        &mut self,
        region: Region,
        states: &[u8],
        tally: &mut Tally,
        see: impl FnMut(usize, PageState, i16),
    ) {
        tally.take(&mut self.scores[region.run().range()], self.now, states, see);
    }

    /// Tallies the pages of a folio, as often.
    pub(super) fn tally_folio(&mut self, region: Region, tally: &mut Tally) {
        tally.take_folio(&mut self.scores[region.run().range()], self.now);
    }

    /// Samples of tallied pages, near enough, and of how many.
    pub(super) fn tallied(&self, tally: &Tally) -> impl Iterator<Item = (f32, u32)> {
        let scored = tally.scored().map(|(score, pages)| (self.samples_of(score), pages));
        core::iter::once((0.0, tally.none)).chain(scored)
    }

    /// Learns how different the pages of a region are: by how much their samples vary beyond chance.
    pub(super) fn learn_shape(&mut self, region: Region, tally: &Tally) {
        if self.shape.is_some() {
            return;
        }
        let mean = self.mean_over(region, Horizon::Long);
        let squares: f32 = self.tallied(tally).map(|(own, pages)| own * own * pages as f32).sum();
        let pages = HUGE_PAGES as f32;
        let beyond_chance = (squares - pages * (mean * mean + mean)).max(0.0);
        let shape = (pages * mean * mean + DOUBT * SHAPE) / (beyond_chance + DOUBT);
        self.regions[region.index()].shape = shape.clamp(SHAPES.0, SHAPES.1);
    }

    /// Counts a sample.
    #[inline]
    pub(super) fn add(&mut self, page: PageId, spans: Spans) {
        let relative = i32::from(self.relative(page));
        let score = if relative < -BELOW * STEPS {
            self.now
        } else {
            let at = (relative + BELOW * STEPS) as usize;
            let rise = self.tables.rises[at.min(self.tables.rises.len() - 1)];
            self.dither = self.dither.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let up = (rise & 0xffff) > self.dither >> 16;
            self.scores[page.index()].wrapping_add((rise >> 16) as u16 + u16::from(up))
        };
        self.scores[page.index()] = score;
        let Known { samples, .. } = &mut self.regions[page.region().index()];
        samples[0] += self.units[0] as f32;
        samples[1] += self.units[1] as f32;
        self.pass(spans);
    }

    /// Has what is known of a page be that it has so many samples, over both horizons.
    pub(super) fn set(&mut self, page: PageId, density: f32, spans: Spans) {
        let own = self.own(page);
        self.scores[page.index()] = self.now.wrapping_add_signed(self.tables.score(density));
        let Known { samples, .. } = &mut self.regions[page.region().index()];
        for (unit, samples) in self.units.iter().zip(samples) {
            *samples = (*samples + (density - own) * *unit as f32).max(0.0);
        }
        self.pass(spans);
    }

    /// Lets time pass by a sample.
    #[inline]
    fn pass(&mut self, spans: Spans) {
        let shares = spans.map(|span| f64::from(1.0 / span));
        self.clock += f64::from(STEPS) * core::f64::consts::LOG2_E * shares[0];
        self.now = self.clock as u64 as u16;
        for (at, share) in shares.into_iter().enumerate() {
            self.units[at] *= 1.0 + share + share * share / 2.0;
            if self.units[at] > HEAVY {
                let scale = (1.0 / self.units[at]) as f32;
                self.regions.iter_mut().for_each(|known| known.samples[at] *= scale);
                self.units[at] = 1.0;
            }
        }
    }

    /// Has pages expected to be sampled as much as this over both horizons, for want of samples.
    pub(super) fn presume(&mut self, run: PageRun, densities: [f32; 2]) {
        if densities[0] > 0.0 {
            let score = self.now.wrapping_add_signed(self.tables.score(densities[0]));
            self.scores[run.range()].fill(score);
        }
        for page in run.iter() {
            let Known { samples, .. } = &mut self.regions[page.region().index()];
            for (at, samples) in samples.iter_mut().enumerate() {
                *samples += self.units[at] as f32 * densities[at];
            }
        }
    }

    /// Forgets what is known of pages.
    pub(super) fn forget(&mut self, run: PageRun) {
        let run = run.intersect(PageRun::between(0, self.scores.len() as u32));
        for page in run.iter() {
            let own = self.own(page);
            let [long, short] = &mut self.regions[page.region().index()].samples;
            let left = (*long - own * self.units[0] as f32).max(0.0);
            // What the region had of late went to its pages as all of it did.
            *short *= if *long > 0.0 { left / *long } else { 0.0 };
            *long = left;
            self.scores[page.index()] = self.now.wrapping_add_signed(NONE);
        }
    }

    /// Pages of a folio that would have at least this density as base pages, where this share of them is in
    /// use.
    pub(super) fn at_least(&self, region: Region, density: f32, share: f32) -> u32 {
        let least = self.least_score(self.prior(region).in_use(share), density);
        if least == i16::MIN {
            return (HUGE_PAGES as f32 * share) as u32;
        }
        let now = self.now;
        let scores = &self.scores[region.run().range()];
        scores.iter().map(|score| u32::from(score.wrapping_sub(now) as i16 >= least)).sum()
    }

    pub(super) fn bytes(&self) -> Bytes {
        Bytes((self.scores.capacity() * 2 + self.regions.capacity() * 12) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::frost::ranks::bin;
    use crate::rng::Rng;

    /// The same in floats, page by page.
    #[test]
    fn scores_follow_exact_averages() {
        const PAGES: u32 = 1024;
        const HORIZON: f32 = 3000.0;
        let spans = [HORIZON, 500.0];
        let mut densities = Densities::new();
        densities.grow(PAGES);
        let mut exact = [0.0f64; PAGES as usize];
        let mut rng = Rng::new(7);
        for _ in 0..200_000 {
            // Some pages a hundred times as often as others.
            let page = rng.below(16) * rng.below(u64::from(PAGES) / 16);
            densities.add(PageId(page as u32), spans);
            exact[page as usize] += 1.0;
            exact.iter_mut().for_each(|one| *one *= libm::exp(-1.0 / f64::from(HORIZON)));
        }
        let (mut off, mut sum) = (0.0, 0.0);
        for page in 0..PAGES {
            off += libm::fabs(f64::from(densities.own(PageId(page))) - exact[page as usize]);
            sum += exact[page as usize];
        }
        assert!(off / sum < 0.06, "{}", off / sum);
        for region in 0..2 {
            let range = Region(region).run().range();
            let mean: f64 = exact[range].iter().sum::<f64>() / 512.0;
            let ratio = f64::from(densities.mean(Region(region))) / mean;
            assert!(libm::fabs(ratio - 1.0) < 0.01, "{ratio}");
        }
    }

    #[test]
    fn what_is_set_is_known_of_page_and_region() {
        let mut densities = Densities::new();
        densities.grow(1024);
        let mut sum = 0.0;
        for page in 512..1024 {
            densities.add(PageId(page), [1e9; 2]);
            let density = (page % 7) as f32 * 1000.0;
            densities.set(PageId(page), density, [1e9; 2]);
            let own = densities.own(PageId(page));
            assert!((own - density).abs() <= density / 32.0 + 1e-6, "{own} for {density}");
            sum += own;
        }
        let mean = densities.mean(Region(1));
        assert!((mean / (sum / 512.0) - 1.0).abs() < 0.01, "{mean}");
        assert_eq!(densities.mean(Region(0)), 0.0);
    }

    #[test]
    fn scores_never_wrap_around() {
        let mut densities = Densities::new();
        densities.grow(512);
        for _ in 0..20 {
            densities.add(PageId(3), [64.0; 2]);
        }
        let (states, mut tally) = ([PageState::RESIDENT; 512], Tally::new());
        // 2000 octaves, four times as many as scores tell apart.
        for i in 0..64 * 1400 {
            densities.add(PageId(5), [64.0; 2]);
            if i % 4096 == 0 {
                densities.tally(Region(0), &states, &mut tally, |_, _, _| ());
            }
        }
        assert_eq!((densities.own(PageId(3)), densities.own(PageId(4))), (0.0, 0.0));
        let own = densities.own(PageId(5));
        assert!((own / 64.0 - 1.0).abs() < 0.1, "{own}");
    }

    #[test]
    fn pages_at_least_so_dense_are_those_that_looking_at_each_finds() {
        let mut densities = Densities::new();
        densities.grow(512);
        let mut rng = Rng::new(1);
        for _ in 0..600 {
            densities.add(PageId((rng.below(23) * rng.below(23)) as u32), [1e6; 2]);
        }
        for density in [0.0, 0.1, 0.6, 1.0, 1.5, 2.0, 5.0, 100.0] {
            let each = Region(0).run().iter().filter(|p| densities.density(*p, false) >= density);
            let (found, each) = (densities.at_least(Region(0), density, 1.0), each.count() as u32);
            assert_eq!(found, each, "{density}");
        }
    }

    #[test]
    fn tallies_are_what_counting_each_page_gives() {
        let mut densities = Densities::new();
        densities.grow(512);
        let mut rng = Rng::new(3);
        for _ in 0..2000 {
            densities.add(PageId((rng.below(20) * rng.below(20)) as u32), [300.0; 2]);
        }
        let mut states = [PageState::RESIDENT; 512];
        states[64..128].fill(PageState::ABSENT.0);
        let (mut tally, mut seen) = (Tally::new(), Vec::new());
        for _ in 0..2 {
            seen.clear();
            densities.tally(Region(0), &states, &mut tally, |at, _, relative| {
                seen.push((at as u32, relative))
            });
            let own =
                |relative| if relative < LEAST { 0.0 } else { densities.samples_of(relative) };
            assert!(seen.len() == 448 && seen.iter().all(|(at, _)| !(64..128).contains(at)));
            assert!(seen.iter().all(|(at, score)| own(*score) == densities.own(PageId(*at))));
            let none = seen.iter().filter(|(_, score)| own(*score) == 0.0).count() as u32;
            assert!(none > 50 && none < 400 && tally.none == none && tally.pages() == 448);
            let tallied: f32 = tally.scored().map(|(score, pages)| own(score) * pages as f32).sum();
            let each: f32 = seen.iter().map(|(_, score)| own(*score)).sum();
            assert!((tallied / each - 1.0).abs() < 0.02, "{tallied} {each}");
        }
        for density in [0.01, 0.5, 2.0, 9.0] {
            let prior = densities.prior(Region(0));
            let least = densities.least_score_in(prior, bin(density));
            for &(at, score) in &seen {
                let is_denser = bin(densities.density(PageId(at), false)) >= bin(density);
                assert_eq!(score >= least, is_denser, "{at} {density}");
            }
        }
    }

    #[test]
    fn what_is_forgotten_leaves_nothing() {
        let mut densities = Densities::new();
        densities.grow(512);
        densities.presume(PageRun::between(8, 16), [3.0; 2]);
        let own = densities.own(PageId(9));
        assert!((3.0..3.05).contains(&own) && densities.mean(Region(0)) > 0.0);
        densities.forget(PageRun::between(0, 512));
        assert_eq!(densities.own(PageId(9)), 0.0);
        assert!(densities.mean(Region(0)) < 1e-3);
    }
}
