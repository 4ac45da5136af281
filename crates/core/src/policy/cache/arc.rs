//! The adaptive replacement cache (Megiddo and Modha, FAST '03, figure 4), by pages.

use super::{Cache, Replacement};
use crate::policy::contract::MetricSink;
use crate::types::*;

/// Sampled once lately, sampled again, and the ghosts of both.
const T1: usize = 0;
const T2: usize = 1;
const B1: usize = 2;
const B2: usize = 3;

/// ARC.
#[derive(Debug, Default)]
pub(super) struct Arc {
    /// Pages that `T1` shall have (`p`).
    target: u64,
    grown: u64,
    shrunk: u64,
}

impl Arc {
    /// Evicts until `pages` more fit. `from_b2`: the page that comes was a ghost of `T2`.
    fn replace(&self, pages: u64, from_b2: bool, cache: &mut Cache<'_>) {
        while cache.cached() + pages > cache.capacity {
            let once = cache.pages(T1);
            let over = once > self.target || from_b2 && once == self.target;
            if once > 0 && (over || cache.pages(T2) == 0) {
                cache.shift(T1, Some(B1));
            } else {
                cache.shift(T2, Some(B2));
            }
        }
    }
}

impl Replacement for Arc {
    fn reference(&mut self, unit: PageRun, cache: &mut Cache<'_>) {
        let pages = u64::from(unit.pages);
        let (once, again) = (cache.pages(B1).max(1), cache.pages(B2).max(1));
        match cache.lists.list_of(unit.start) {
            Some(T1 | T2) => {}
            Some(B1) => {
                let step = pages * (again / once).max(1);
                self.target = (self.target + step).min(cache.capacity);
                self.grown += 1;
                self.replace(pages, false, cache);
            }
            Some(_) => {
                let step = pages * (once / again).max(1);
                self.target = self.target.saturating_sub(step);
                self.shrunk += 1;
                self.replace(pages, true, cache);
            }
            None => {
                // Both first lists together are no longer than the cache, all four than twice it.
                while cache.pages(T1) + cache.pages(B1) + pages > cache.capacity {
                    let from = if cache.pages(B1) > 0 { B1 } else { T1 };
                    cache.shift(from, None);
                }
                let all = |cache: &Cache<'_>| (0..4).map(|list| cache.pages(list)).sum::<u64>();
                while all(cache) + pages > 2 * cache.capacity && cache.pages(B2) > 0 {
                    cache.shift(B2, None);
                }
                self.replace(pages, false, cache);
                cache.put(unit, T1);
                return;
            }
        }
        cache.put(unit, T2);
    }

    fn metrics(&self, sink: &mut MetricSink<'_>) {
        sink("target_of_first_list_pages", self.target as f64);
        sink("target_grown_total", self.grown as f64);
        sink("target_shrunk_total", self.shrunk as f64);
    }
}
