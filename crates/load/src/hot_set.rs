//! Hot set of pages, over time.

use frostline_core::HUGE_PAGES;
use frostline_core::rng::Rng;
use std::ops::Range;

/// How hot pages lie among the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Scatter {
    /// Every page is hot or cold by itself
    Page,
    /// The 512 pages of an aligned block of 2 MiB are hot or cold together
    Block,
    /// The first pages are hot: those that are filled first
    First,
    /// The last pages are hot: those that are filled last
    Last,
    /// One page of each aligned block of 2 MiB is hot before a second one of any is
    Sparse,
}

/// The hot pages of each generation. A generation's hot set is disjoint from the one before where
/// at most half of the memory is hot.
#[derive(Clone, Debug)]
pub struct HotSet {
    /// By unit: its place in a random order.
    rank: Vec<u32>,
    hot_units: u32,
    unit_pages: u32,
    pages: u32,
}

impl HotSet {
    /// `share` of `pages` (at least 1), rounded to whole units, at least one of them.
    pub fn new(pages: u32, share: f64, scatter: Scatter, rng: &mut Rng) -> Self {
        let unit_pages = match scatter {
            Scatter::Page | Scatter::First | Scatter::Last | Scatter::Sparse => 1,
            Scatter::Block => HUGE_PAGES,
        };
        let units = pages.div_ceil(unit_pages);
        let hot_units = (f64::from(units) * share).round().clamp(1.0, f64::from(units)) as u32;
        let rank = match scatter {
            Scatter::First => (0..units).collect(),
            Scatter::Last => (0..units).rev().collect(),
            Scatter::Page | Scatter::Block => permutation(units, rng),
            Scatter::Sparse => sparse(units),
        };
        Self { rank, hot_units, unit_pages, pages }
    }

    /// Whether the page, which must be one of them, is hot in this generation.
    #[inline]
    pub fn is_hot(&self, page: u32, generation: u32) -> bool {
        let units = self.rank.len() as u64;
        let start = u64::from(generation) * u64::from(self.hot_units) % units;
        let rank = u64::from(self.rank[(page / self.unit_pages) as usize]);
        (rank + units - start) % units < u64::from(self.hot_units)
    }

    /// The hot pages of a generation as ranges, ascending, with cold pages between them.
    pub fn ranges(&self, generation: u32) -> Vec<Range<u32>> {
        let mut ranges: Vec<Range<u32>> = Vec::new();
        for page in (0..self.pages).filter(|page| self.is_hot(*page, generation)) {
            match ranges.last_mut() {
                Some(last) if last.end == page => last.end += 1,
                _ => ranges.push(page..page + 1),
            }
        }
        ranges
    }
}

/// Places of pages: those of each block begin somewhere else in it, so that pages dealt out in turn
/// are hot ones for everybody.
fn sparse(pages: u32) -> Vec<u32> {
    let mut order: Vec<u32> = (0..pages).collect();
    let within = |page: u32| (page + HUGE_PAGES - page / HUGE_PAGES % HUGE_PAGES) % HUGE_PAGES;
    order.sort_by_key(|page| (within(*page), *page));
    let mut rank = vec![0; pages as usize];
    (0..).zip(order).for_each(|(place, page)| rank[page as usize] = place);
    rank
}

/// The numbers below `n` in random order.
fn permutation(n: u32, rng: &mut Rng) -> Vec<u32> {
    let mut order: Vec<u32> = (0..n).collect();
    rng.shuffle(&mut order);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_holds_every_number_once() {
        for n in [0, 1, 2, 100, 1000] {
            let mut order = permutation(n, &mut Rng::new(3));
            assert!(n < 100 || order.windows(2).any(|pair| pair[0] > pair[1]), "not in order");
            order.sort_unstable();
            assert!(order.into_iter().eq(0..n));
        }
    }

    #[test]
    fn the_share_of_hot_pages_is_the_one_asked_for() {
        let count = |set: &HotSet, generation| {
            set.ranges(generation).iter().map(ExactSizeIterator::len).sum::<usize>()
        };
        let pages = HotSet::new(1000, 0.2, Scatter::Page, &mut Rng::new(1));
        assert!((0..7).all(|generation| count(&pages, generation) == 200));
        assert!(pages.ranges(0).len() > 100, "scattered");
        let blocks = HotSet::new(10 * 512, 0.2, Scatter::Block, &mut Rng::new(1));
        for range in blocks.ranges(0) {
            assert_eq!((range.start % 512, range.end % 512), (0, 0));
        }
        assert_eq!(count(&blocks, 0), 1024);
        let sparse = HotSet::new(8 * 512, 1.0 / 512.0, Scatter::Sparse, &mut Rng::new(1));
        let one_each: Vec<_> = (0..8).map(|block| block * 513..block * 513 + 1).collect();
        assert_eq!(sparse.ranges(0), one_each);
        let last = HotSet::new(1000, 0.2, Scatter::Last, &mut Rng::new(1));
        for (generation, hot) in [(0, 800..1000), (1, 600..800)] {
            assert_eq!(last.ranges(generation), [hot]);
        }
        let first = HotSet::new(900, 1.0 / 3.0, Scatter::First, &mut Rng::new(1));
        for (generation, hot) in [(0, 0..300), (1, 300..600), (2, 600..900), (3, 0..300)] {
            assert_eq!(first.ranges(generation), [hot]);
        }
        assert_eq!(count(&HotSet::new(3, 0.0, Scatter::Page, &mut Rng::new(1)), 0), 1);
        assert_eq!(count(&HotSet::new(700, 1.0, Scatter::Block, &mut Rng::new(1)), 0), 700);
    }

    #[test]
    fn generations_are_disjoint_and_visit_every_page() {
        let set = HotSet::new(1000, 0.25, Scatter::Page, &mut Rng::new(9));
        let generations = |page| (0..4).filter(|generation| set.is_hot(page, *generation)).count();
        assert!((0..1000).all(|page| generations(page) == 1));
        assert_eq!(set.ranges(0), set.ranges(4));
    }
}
