//! Heat maps: accesses by address over time.

use crate::frames::Frames;
use frostline_core::types::PageId;
use serde::{Deserialize, Serialize};

/// Rows, address, of a finished map.
const ROWS: usize = 200;
/// Columns, time, of a finished map: between this and its double.
const COLUMNS: usize = 100;
/// Every so many records one is counted.
const STRIDE: usize = 16;
const FIRST_INTERVAL_NS: f64 = 50_000.0;
/// One region in so many is among the hottest.
const HOTTEST: usize = 10;

/// Accesses by address and time. Only regions that were ever accessed have a row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Heatmap {
    /// Modelled time of one column.
    pub column_seconds: f64,
    /// Share of the accesses that go to the hottest tenth of the regions, another one in each column;
    /// a tenth where there is no locality, 1 where a tenth is all that is accessed at a time.
    pub hottest_tenth: f64,
    /// First 2 MiB region of each row, ascending; a row ends where the next begins, regions
    /// without any access left out.
    pub row_regions: Vec<u32>,
    /// Accesses (estimated from every 16th) per row, and in each row per column.
    pub counts: Vec<Vec<u64>>,
}

/// The same accesses by the program's addresses and by the machine's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Heatmaps {
    /// By virtual address; of a guest, by what it takes for physical.
    pub by_address: Heatmap,
    /// By physical address: tier 0 first, then the next.
    pub by_frame: Heatmap,
}

/// Collects both.
#[derive(Debug)]
pub(crate) struct HeatmapsBuilder {
    by_address: HeatmapBuilder,
    by_frame: HeatmapBuilder,
}

impl HeatmapsBuilder {
    /// Every record stands for `thinning` accesses.
    pub(crate) fn new(thinning: u32) -> Self {
        let builder = || HeatmapBuilder::new(thinning);
        Self { by_address: builder(), by_frame: builder() }
    }

    /// A batch of page ids at a time; `first` is the number of its first record.
    pub(crate) fn add(&mut self, now_ns: f64, first: u64, pages: &[u32], frames: &Frames) {
        let skip = (STRIDE - (first % STRIDE as u64) as usize) % STRIDE;
        let some = pages.iter().skip(skip).step_by(STRIDE).copied();
        self.by_address.add(now_ns, some.clone());
        self.by_frame.add(now_ns, some.filter_map(|page| frames.frame(PageId(page))));
    }

    pub(crate) fn finish(self) -> Heatmaps {
        Heatmaps { by_address: self.by_address.finish(), by_frame: self.by_frame.finish() }
    }
}

/// Collects a heatmap.
#[derive(Debug)]
struct HeatmapBuilder {
    columns: Vec<Vec<u32>>,
    interval_ns: f64,
    weight: u64,
}

impl HeatmapBuilder {
    fn new(thinning: u32) -> Self {
        let weight = u64::from(thinning) * STRIDE as u64;
        Self { columns: Vec::new(), interval_ns: FIRST_INTERVAL_NS, weight }
    }

    /// The pages of some accesses.
    fn add(&mut self, now_ns: f64, pages: impl Iterator<Item = u32>) {
        let mut column = (now_ns / self.interval_ns) as usize;
        while column >= 2 * COLUMNS {
            self.halve();
            column = (now_ns / self.interval_ns) as usize;
        }
        if column >= self.columns.len() {
            self.columns.resize_with(column + 1, Vec::new);
        }
        let counts = &mut self.columns[column];
        for page in pages {
            let region = PageId(page).region().index();
            if region >= counts.len() {
                counts.resize(region + 1, 0);
            }
            counts[region] += 1;
        }
    }

    fn halve(&mut self) {
        let old = std::mem::take(&mut self.columns);
        for pair in old.chunks(2) {
            let mut sum = pair[0].clone();
            if let Some(second) = pair.get(1) {
                sum.resize(sum.len().max(second.len()), 0);
                sum.iter_mut().zip(second).for_each(|(a, b)| *a += b);
            }
            self.columns.push(sum);
        }
        self.interval_ns *= 2.0;
    }

    /// Share of the accesses of a column that go to the hottest tenth of all regions ever accessed, as
    /// hot as they are in that column; over all columns.
    fn hottest_tenth(&self, regions: usize) -> f64 {
        let (mut top, mut all) = (0, 0);
        for column in &self.columns {
            let mut counts = column.clone();
            counts.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
            let sum = |counts: &[u32]| counts.iter().map(|n| u64::from(*n)).sum::<u64>();
            top += sum(&counts[..regions.div_ceil(HOTTEST).min(counts.len())]);
            all += sum(&counts);
        }
        if all > 0 { top as f64 / all as f64 } else { 0.0 }
    }

    fn finish(self) -> Heatmap {
        let regions = self.columns.iter().map(Vec::len).max().unwrap_or(0);
        let touched: Vec<usize> = (0..regions)
            .filter(|&r| self.columns.iter().any(|c| c.get(r).is_some_and(|n| *n > 0)))
            .collect();
        let per_row = touched.len().div_ceil(ROWS).max(1);
        let mut map = Heatmap {
            column_seconds: self.interval_ns / 1e9,
            hottest_tenth: self.hottest_tenth(touched.len()),
            ..Heatmap::default()
        };
        for row in touched.chunks(per_row) {
            map.row_regions.push(row[0] as u32);
            let sum = |column: &Vec<u32>| {
                let n: u64 =
                    row.iter().map(|&r| u64::from(column.get(r).copied().unwrap_or(0))).sum();
                n * self.weight
            };
            map.counts.push(self.columns.iter().map(sum).collect());
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_core::rng::Rng;
    use frostline_core::types::{PageCount, TierId};

    #[test]
    fn counts_every_sixteenth_whatever_the_batches() {
        let mut builder = HeatmapsBuilder::new(1);
        let mut frames = Frames::new(&[PageCount(512), PageCount(512)], 0.0, &mut Rng::new(1));
        frames.place(PageId(3), TierId(1));
        let pages: Vec<u32> =
            (0..16_000u32).map(|i| if i < 8000 { 3 } else { 512 * 900 }).collect();
        let mut first = 0;
        for (i, batch) in pages.chunks(37).enumerate() {
            builder.add(i as f64 * 100_000.0, first, batch, &frames);
            first += batch.len() as u64;
        }
        let Heatmaps { by_address, by_frame } = builder.finish();
        assert_eq!(by_address.row_regions, [0, 900]);
        let sums =
            |map: &Heatmap| -> Vec<u64> { map.counts.iter().map(|row| row.iter().sum()).collect() };
        assert_eq!(sums(&by_address), [8000, 8000]);
        assert!(by_address.counts[0].len() <= 2 * COLUMNS);
        let last = by_address.counts[0].last();
        assert_eq!(last, Some(&0), "the first region is not touched at the end");
        assert_eq!((by_frame.row_regions.clone(), sums(&by_frame)), (vec![1], vec![8000]));
    }

    #[test]
    fn many_regions_share_rows() {
        let mut builder = HeatmapBuilder::new(2);
        builder.add(0.0, (0..100_000u32).step_by(STRIDE).map(|i| i / 16 * 512));
        let map = builder.finish();
        assert!(map.counts.len() <= ROWS && map.counts.len() > ROWS / 2);
        assert_eq!(map.counts.iter().flatten().sum::<u64>(), 200_000);
    }

    #[test]
    fn the_hottest_tenth_is_another_one_in_each_column() {
        let share = |regions: &dyn Fn(u32) -> u32| {
            let mut builder = HeatmapBuilder::new(1);
            for column in 0..100 {
                let pages = (0..1000).map(|i| regions(1000 * column + i) * 512);
                builder.add((f64::from(column) + 0.5) * FIRST_INTERVAL_NS, pages);
            }
            builder.finish().hottest_tenth
        };
        assert!((share(&|i| i % 50) - 0.1).abs() < 1e-9, "all alike");
        // Five of 50 regions at a time, each of them for ten columns.
        assert!((share(&|i| i / 10_000 * 5 + i % 5) - 1.0).abs() < 1e-9);
        let skewed = share(&|i| if i % 4 == 0 { i % 50 } else { i / 1000 % 50 });
        assert!((0.75..0.85).contains(&skewed), "{skewed}");
        assert_eq!(HeatmapBuilder::new(1).finish().hottest_tenth, 0.0);
    }
}
