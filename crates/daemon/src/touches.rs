//! Touches of pages in slower nodes, and the loads that they stand for where nobody samples loads.
//!
//! A fault or an access bit tells that a page was touched within a round, and not how often. A page that is rarely
//! touched has few loads in that round: each touch counts as [`LOADS`]. A page that is touched round after round may
//! have any number of them. The policy keeps the hottest pages fast, so that such a page has no more loads than
//! fast ones, and the part of all loads that go to such pages is at most their part of all pages in use. As fast
//! pages count those that are fast now, in use or not: where fast memory is too small for what is hot, all are.

use crate::settings::NodeLoads;
use frostline_core::hotness::bitmap::Bitmap;
use frostline_core::types::*;

/// Loads that miss all caches for a touch of a page that was not touched in the round before: between one and the 64
/// lines of a page, in the middle of both as factors go.
const LOADS: f64 = 8.0;
/// Part of the time on processors that waits for loads, where all pages are fast; at most all of it.
const WAITS: f64 = 0.25;
/// What is estimated is right within this factor.
pub(crate) const WITHIN: f64 = 8.0;
/// Shortest time in which the kernel takes the rights off all slow pages once (s).
const ROUND: f64 = 1.0;
/// Slow memory, and memory at all, that it goes over in that time, at most (bytes): `scan_size_mb` of NUMA balancing, and
/// eight times that for pages that it has nothing to do with.
const SCANNED_SLOW: f64 = (256 << 20) as f64;
const SCANNED: f64 = (2048_u64 << 20) as f64;
/// Rounds that are remembered as one: rounds are not exactly as long as is presumed.
const REMEMBERED: f64 = 2.0;

/// Sums since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Touched {
    /// Touches of pages that had not been touched for a round or two.
    pub(crate) once: f64,
    /// Pages that are touched all the time, in page-seconds.
    pub(crate) constant: f64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct SlowTouches {
    pub(crate) sums: Touched,
    /// Pages that have faulted lately, and before.
    recent: [Bitmap; 2],
    /// Length of a round (s).
    round: f64,
    /// Time between two sweeps of access bits (s).
    sweep: f64,
    /// `recent` is forgotten by and by.
    ages: Nanos,
    /// Page-seconds that an access bit stands for.
    bit: f64,
    /// When pages were last given to be looked at.
    assigned: Option<Nanos>,
}

impl SlowTouches {
    /// The size of slow and of all memory, from which the length of a round follows.
    pub(crate) fn follow(&mut self, now: Nanos, slow: PageCount, all: PageCount) {
        let bytes = |pages: PageCount| pages.bytes().0 as f64;
        self.round =
            ROUND.max(bytes(slow) / SCANNED_SLOW).max(bytes(all) / SCANNED).max(self.sweep);
        if now >= self.ages {
            self.recent.swap(0, 1);
            self.recent[0] = Bitmap::default();
            self.ages = now.saturating_add(seconds(REMEMBERED * self.round));
        }
    }

    /// A fault, which tells of each slow page once in a round.
    pub(crate) fn fault(&mut self, page: PageId, is_huge: bool) {
        let pages = if is_huge { f64::from(HUGE_PAGES) } else { 1.0 };
        self.seen(page, pages * self.round);
    }

    /// An access bit of a slow page, which all are read of in turn, and was cleared so long `before`.
    pub(crate) fn swept(&mut self, page: PageId, before: Nanos) {
        self.sweep = before.as_secs_f64();
        self.seen(page, self.sweep);
    }

    /// Seen so many page-seconds after the last time, where it was seen of late.
    fn seen(&mut self, page: PageId, page_seconds: f64) {
        let again = self.recent.iter().any(|recent| recent.contains(page.0));
        self.recent[0].insert(page.0);
        match again {
            true => self.sums.constant += page_seconds,
            false => self.sums.once += 1.0,
        }
    }

    /// `looked_at` pages of `of` are looked at from now on.
    pub(crate) fn assign(&mut self, now: Nanos, looked_at: u64, of: u64) {
        let turn = self.assigned.map_or(ROUND, |at| now.saturating_sub(at).as_secs_f64());
        self.assigned = Some(now);
        self.bit = of as f64 / looked_at.max(1) as f64 * turn;
    }

    /// One of them is in a slower node, and was touched. Whether it is touched all the time is not known, and presumed.
    pub(crate) fn bit(&mut self) {
        self.sums.constant += self.bit;
    }
}

fn seconds(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9) as u64)
}

impl Touched {
    /// Time lost to loads from slow memory since `before`, `passed` ago, of `busy` on processors (ns), with `fast` pages
    /// in fast memory.
    pub(crate) fn lost(
        self,
        before: Self,
        loads: NodeLoads,
        (passed, busy): (Nanos, f64),
        fast: PageCount,
    ) -> f64 {
        let once = (self.once - before.once) * LOADS * (loads.slow_ns - loads.fast_ns);
        let slow = (self.constant - before.constant) / passed.as_secs_f64().max(1e-3);
        if slow <= 0.0 {
            return once.min(busy);
        }
        let share = slow / (slow + fast.0 as f64);
        let slower = share * WAITS * (loads.slow_ns / loads.fast_ns - 1.0);
        (once + busy * slower / (1.0 + slower)).min(busy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use frostline_core::rng::Rng;
    use proptest::prelude::*;

    const LATENCIES: NodeLoads = NodeLoads { fast_ns: 80.0, slow_ns: 280.0, sampled: false };

    fn lost(of: Touched, busy_s: f64, fast: u64) -> f64 {
        let times = (Nanos(1_000_000_000), busy_s * 1e9);
        of.lost(Touched::default(), LATENCIES, times, PageCount(fast)) / (busy_s * 1e9)
    }

    #[test]
    fn a_page_that_comes_rarely_costs_some_loads_and_one_that_always_comes_its_part_of_all() {
        let mut touches = SlowTouches::default();
        let second = |n: u64| Nanos(n * 1_000_000_000);
        for now in 0..100 {
            touches.follow(second(now), PageCount(1000), PageCount(2000));
            // The 500 hot ones each second, one of the others in ten.
            (0..500).for_each(|page| touches.fault(PageId(page), false));
            (0..500).filter(|page| page % 10 == now as u32 % 10).for_each(|page| {
                touches.fault(PageId(500 + page), false);
            });
        }
        assert_eq!(touches.sums.once, 500.0 + 5000.0, "each of the hot ones came once first");
        assert_eq!(touches.sums.constant, 99.0 * 500.0);
        let rare = lost(Touched { once: 1000.0, constant: 0.0 }, 1.0, 500);
        assert!((rare - 1000.0 * 8.0 * 200e-9).abs() < 1e-9, "{rare}");
        // Half of what is in use is slow: half of the loads take 3.5 times as long, in a quarter of the time.
        let half = lost(Touched { once: 0.0, constant: 500.0 }, 1.0, 500);
        assert!((half / (1.0 - half) - 0.5 * 0.25 * 2.5).abs() < 1e-9, "{half}");
    }

    #[test]
    fn bits_of_a_part_stand_for_all_and_a_huge_page_for_all_of_its_pages() {
        let mut touches = SlowTouches::default();
        touches.assign(Nanos(0), 100, 1000);
        touches.assign(Nanos(1_500_000_000), 100, 1000);
        (0..10).for_each(|_| touches.bit());
        assert_eq!(touches.sums.constant, 10.0 * 10.0 * 1.5);
        touches.follow(Nanos(0), PageCount(1), PageCount(1));
        touches.fault(PageId(0), true);
        touches.fault(PageId(0), true);
        assert_eq!(touches.sums, Touched { once: 1.0, constant: 150.0 + 512.0 });
    }

    #[test]
    fn large_memory_takes_longer_to_go_over() {
        let mut touches = SlowTouches::default();
        let pages = |gib: u64| PageCount(gib << 18);
        touches.follow(Nanos(0), pages(0), pages(1));
        assert_eq!(touches.round, 1.0);
        touches.follow(Nanos(0), pages(1), pages(2));
        assert_eq!(touches.round, 4.0);
        touches.follow(Nanos(0), pages(1), pages(100));
        assert_eq!(touches.round, 50.0);
    }

    proptest! {
        /// Programs with pages of any rates, the hottest of them fast: what is estimated from faults, one a round, is the
        /// truth within the factor that is said, where each touch is a load or the page's 64 lines.
        #[test]
        fn the_estimate_holds_the_truth(
            seed in any::<u64>(),
            slow in 100_u32..2000,
            lines in 1_u32..=64,
            rate in 0.005_f64..0.3,
        ) {
            let mut rng = Rng::new(seed);
            let mut touches = SlowTouches::default();
            let rates: Vec<f64> = (0..slow).map(|_| rate * rng.unit_f64()).collect();
            let (mut real, seconds) = (0_u64, 60);
            for now in 0..seconds {
                let count = PageCount(slow.into());
                touches.follow(Nanos(now * 1_000_000_000), count, count);
                for (page, rate) in (0..).zip(&rates) {
                    if rng.unit_f64() < *rate {
                        real += u64::from(lines);
                        touches.fault(PageId(page), false);
                    }
                }
            }
            let truth = real as f64 * 200.0 / (seconds as f64 * 1e9);
            let mut second = touches.sums;
            (second.once, second.constant) =
                (second.once / seconds as f64, second.constant / seconds as f64);
            // All of the loads of fast pages fill a quarter of the time.
            let fast = 20_000;
            let known = lost(Touched { constant: 0.0, ..second }, 1.0, fast);
            prop_assert!(known <= truth * WITHIN * 1.001, "{known} {truth}");
            let all = lost(second, 1.0, fast);
            prop_assert!(all >= known && all < 1.0);
            // What comes again is taken to be hot, which is what it may be.
            prop_assert!(all * WITHIN >= truth, "{all} {truth}");
        }
    }

    #[test]
    fn no_more_is_lost_than_there_is() {
        for constant in [0.0, 1e3, 1e12] {
            for once in [0.0, 1e3, 1e12] {
                for busy in [0.0, 1.0] {
                    let times = (Nanos(1_000_000_000), busy * 1e9);
                    let touched = Touched { once, constant };
                    let lost = touched.lost(Touched::default(), LATENCIES, times, PageCount(1));
                    assert!((0.0..=busy * 1e9).contains(&lost), "{constant} {once} {busy}: {lost}");
                }
            }
        }
    }
}
