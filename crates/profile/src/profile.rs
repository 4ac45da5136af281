//! Profile: the findings of a pass.

use frostline_core::types::{AccessKind, HUGE_PAGES, PAGE_BYTES};
use serde::Serialize;

/// The pages of a region that count as busy are the fewest that take this share of its accesses.
pub const BUSY_SHARE: f64 = 0.9;

/// How one 2 MiB region is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RegionUse {
    /// Accesses to it.
    pub accesses: u64,
    /// Pages touched, 1 to 512.
    pub touched_pages: u16,
    /// Fewest pages that take [`BUSY_SHARE`] of its accesses, 1 to `touched_pages`.
    pub busy_pages: u16,
}

/// How the counted records of a trace use memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    left_out: u64,
    /// Of the trace's clock, while records were counted.
    ticks: u64,
    by_kind: [u64; 4],
    first_touches: u64,
    /// By size in pages: accesses that an LRU memory of that size serves.
    hits: Vec<u64>,
    /// By number of pages: accesses to so many of the hottest.
    hottest: Vec<u64>,
    regions: Vec<RegionUse>,
}

impl Profile {
    /// From accesses by depth in the LRU stack and by page.
    pub(crate) fn new(
        (left_out, ticks): (u64, u64),
        by_kind: [u64; 4],
        first_touches: u64,
        depths: &[u64],
        counts: &[u64],
    ) -> Self {
        let deepest = depths.iter().rposition(|n| *n > 0).unwrap_or(0);
        let mut pages: Vec<u64> = counts.iter().copied().filter(|n| *n > 0).collect();
        pages.sort_unstable_by(|a, b| b.cmp(a));
        let mut regions: Vec<RegionUse> =
            counts.chunks(HUGE_PAGES as usize).filter_map(RegionUse::of).collect();
        regions.sort_by_key(|region| std::cmp::Reverse(region.accesses));
        Self {
            left_out,
            ticks,
            by_kind,
            first_touches,
            hits: cumulated(depths.iter().copied().skip(1).take(deepest)),
            hottest: cumulated(pages.into_iter()),
            regions,
        }
    }

    /// Records counted.
    pub fn records(&self) -> u64 {
        self.by_kind.iter().sum()
    }

    /// Records in front of them that were left out.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Counted records of one kind.
    pub fn of_kind(&self, kind: AccessKind) -> u64 {
        self.by_kind[kind as usize]
    }

    /// Accesses that waited for memory, per thousand ticks of the trace's clock: of instructions, where it
    /// counts those. Write-backs are none.
    pub fn per_thousand(&self) -> f64 {
        let waited = self.records() - self.of_kind(AccessKind::WriteBack);
        1000.0 * share(waited, self.ticks)
    }

    /// Share of the records that are stores or write-backs, 0 to 1.
    pub fn written(&self) -> f64 {
        share(self.of_kind(AccessKind::Store) + self.of_kind(AccessKind::WriteBack), self.records())
    }

    /// Different pages that the counted records touch.
    pub fn pages(&self) -> u64 {
        self.hottest.len() as u64 - 1
    }

    /// Accesses to pages that were not in memory before, neither while loading nor later, or that
    /// had been freed. They miss in a memory of any size.
    pub fn first_touches(&self) -> u64 {
        self.first_touches
    }

    /// Share of the accesses that miss in an LRU memory of so many pages: 1 for 0 pages, and not
    /// below the share of first touches.
    pub fn miss_ratio(&self, pages: u64) -> f64 {
        let at = (pages as usize).min(self.hits.len() - 1);
        share(self.records() - self.hits[at], self.records())
    }

    /// The smallest LRU memory, in pages, that serves this share of the accesses (0 to 1), and
    /// `None` where none does, because too many accesses are first touches.
    pub fn memory_for(&self, served: f64) -> Option<u64> {
        let wanted = served * self.records() as f64;
        let at = self.hits.partition_point(|hits| (*hits as f64) < wanted);
        (at < self.hits.len()).then_some(at as u64)
    }

    /// Share of the accesses that go to the hottest `of_pages` (0 to 1) of the pages touched;
    /// between whole pages a part of the next one's.
    pub fn popularity(&self, of_pages: f64) -> f64 {
        let exact = of_pages.clamp(0.0, 1.0) * self.pages() as f64;
        let below = (exact as usize).min(self.hottest.len() - 1);
        let above = (below + 1).min(self.hottest.len() - 1);
        let (a, b) = (self.hottest[below] as f64, self.hottest[above] as f64);
        let all = self.records().max(1) as f64;
        (a + (b - a) * (exact - below as f64)) / all
    }

    /// Regions that the counted records touch, by falling number of accesses.
    pub fn regions(&self) -> &[RegionUse] {
        &self.regions
    }

    /// The numbers that fit on a page.
    pub fn summary(&self) -> Summary {
        let weighted = |of: fn(&RegionUse) -> u16| {
            let sum: f64 = self.regions.iter().map(|r| f64::from(of(r)) * r.accesses as f64).sum();
            sum / self.records().max(1) as f64 / f64::from(HUGE_PAGES)
        };
        let memory = [0.5, 0.8, 0.9, 0.95, 0.99, 0.999].map(|served| MemoryFor {
            served,
            bytes: self.memory_for(served).map(|pages| pages * PAGE_BYTES),
        });
        let popularity = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5]
            .map(|of_pages| Hottest { of_pages, of_accesses: self.popularity(of_pages) });
        Summary {
            records: self.records(),
            left_out: self.left_out,
            per_thousand: self.per_thousand(),
            written: self.written(),
            first_touches: self.first_touches,
            pages: self.pages(),
            bytes: self.pages() * PAGE_BYTES,
            regions: self.regions.len() as u64,
            touched_share: weighted(|region| region.touched_pages),
            busy_share: weighted(|region| region.busy_pages),
            memory: memory.to_vec(),
            popularity: popularity.to_vec(),
            miss_curve: crate::curve_shares()
                .map(|of_pages| CurvePoint { of_pages, misses: self.miss_ratio_at(of_pages) })
                .collect(),
        }
    }

    /// [`Self::miss_ratio`] of an LRU memory that has room for this share of the pages touched,
    /// rounded to whole pages, but one at least.
    pub fn miss_ratio_at(&self, of_pages: f64) -> f64 {
        self.miss_ratio(((of_pages * self.pages() as f64).round() as u64).max(1))
    }
}

impl RegionUse {
    fn of(counts: &[u64]) -> Option<Self> {
        let mut counts: Vec<u64> = counts.iter().copied().filter(|n| *n > 0).collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let accesses: u64 = counts.iter().sum();
        let mut left = BUSY_SHARE * accesses as f64;
        let busy = counts.iter().take_while(|n| {
            let more = left > 0.0;
            left -= **n as f64;
            more
        });
        let busy_pages = busy.count() as u16;
        (accesses > 0).then_some(Self { accesses, touched_pages: counts.len() as u16, busy_pages })
    }
}

/// The sums of the first 0, 1, 2, ... values.
fn cumulated(values: impl Iterator<Item = u64>) -> Vec<u64> {
    let sums = values.scan(0, |sum, value| {
        *sum += value;
        Some(*sum)
    });
    std::iter::once(0).chain(sums).collect()
}

fn share(part: u64, of: u64) -> f64 {
    part as f64 / of.max(1) as f64
}

/// A profile in a few numbers, for tables and JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Records counted.
    pub records: u64,
    /// Records in front of them that were left out.
    pub left_out: u64,
    /// Accesses but write-backs per thousand ticks of the trace's clock, which counts instructions or
    /// nanoseconds.
    pub per_thousand: f64,
    /// Share of stores and write-backs.
    pub written: f64,
    /// Records that touch a page for the first time.
    pub first_touches: u64,
    /// Pages touched.
    pub pages: u64,
    /// The same in bytes.
    pub bytes: u64,
    /// 2 MiB regions touched.
    pub regions: u64,
    /// Pages touched of the 512 in a region, as a share; mean over accesses.
    pub touched_share: f64,
    /// Fewest pages that take 90 % of a region's accesses, as a share of 512; mean over accesses.
    pub busy_share: f64,
    /// LRU memories that serve given shares of the accesses.
    pub memory: Vec<MemoryFor>,
    /// Shares of the accesses that the hottest pages take.
    pub popularity: Vec<Hottest>,
    /// The miss-ratio curve.
    pub miss_curve: Vec<CurvePoint>,
}

/// How much memory serves so many accesses.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MemoryFor {
    /// Share of the accesses, 0 to 1.
    pub served: f64,
    /// Smallest LRU memory; none where too many accesses are first touches.
    pub bytes: Option<u64>,
}

/// How many accesses the hottest pages take.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Hottest {
    /// Share of the pages touched, 0 to 1.
    pub of_pages: f64,
    /// Share of the accesses, 0 to 1.
    pub of_accesses: f64,
}

/// A point of the miss-ratio curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CurvePoint {
    /// Size of the memory as a share of the pages touched.
    pub of_pages: f64,
    /// Share of the accesses that miss.
    pub misses: f64,
}
