//! 2Q (Johnson and Shasha, VLDB '94, the full version), by pages.

use super::{Cache, Replacement};
use crate::policy::contract::MetricSink;
use crate::types::*;

/// Newcomers, first in first out; pages referenced after it; and newcomers that are remembered.
const IN: usize = 0;
const MAIN: usize = 1;
const OUT: usize = 2;

/// 2Q.
#[derive(Debug)]
pub(super) struct TwoQ {
    /// Shares of the cache for newcomers (`Kin`) and for what is remembered of them (`Kout`).
    newcomers: f64,
    remembered: f64,
    evicted: [u64; 2],
}

impl TwoQ {
    pub(super) fn new(newcomers: f64, remembered: f64) -> Self {
        Self { newcomers, remembered, evicted: [0; 2] }
    }

    /// Evicts until `pages` more fit.
    fn reclaim(&mut self, pages: u64, cache: &mut Cache<'_>) {
        let share = |part: f64| (cache.capacity as f64 * part) as u64;
        let (newcomers, remembered) = (share(self.newcomers), share(self.remembered));
        while cache.cached() + pages > cache.capacity {
            let fresh = cache.pages(IN);
            if fresh > newcomers || cache.pages(MAIN) == 0 {
                self.evicted[0] += 1;
                cache.shift(IN, Some(OUT));
                while cache.pages(OUT) > remembered {
                    cache.shift(OUT, None);
                }
            } else {
                self.evicted[1] += 1;
                cache.shift(MAIN, None);
            }
        }
    }
}

impl Replacement for TwoQ {
    fn reference(&mut self, unit: PageRun, cache: &mut Cache<'_>) {
        let pages = u64::from(unit.pages);
        match cache.lists.list_of(unit.start) {
            Some(MAIN) => cache.put(unit, MAIN),
            Some(IN) => {}
            Some(_) => {
                // It is no ghost any more, whatever else is forgotten for it.
                cache.lists.remove(unit.start);
                self.reclaim(pages, cache);
                cache.put(unit, MAIN);
            }
            None => {
                self.reclaim(pages, cache);
                cache.put(unit, IN);
            }
        }
    }

    fn metrics(&self, sink: &mut MetricSink<'_>) {
        sink("evicted_newcomers_total", self.evicted[0] as f64);
        sink("evicted_others_total", self.evicted[1] as f64);
    }
}
