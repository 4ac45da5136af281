//! Where a program accesses its memory, over time.

use serde::{Deserialize, Serialize};

/// Rows, address, of a finished map.
const ROWS: usize = 200;
/// Columns, time, of a finished map: between this and its double.
const COLUMNS: usize = 100;
/// Every so many records one is counted.
const STRIDE: usize = 16;
const FIRST_INTERVAL_NS: f64 = 50_000.0;

/// Accesses by address and time. Only regions that were ever accessed have a row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Heatmap {
    /// Modelled time of one column.
    pub column_seconds: f64,
    /// First 2 MiB region of each row, ascending; a row ends where the next begins, regions
    /// without any access left out.
    pub row_regions: Vec<u32>,
    /// Accesses (estimated from every 16th) per row, and in each row per column.
    pub counts: Vec<Vec<u64>>,
}

/// Collects a heatmap.
#[derive(Debug)]
pub(crate) struct HeatmapBuilder {
    columns: Vec<Vec<u32>>,
    interval_ns: f64,
    weight: u64,
}

impl HeatmapBuilder {
    /// Every record stands for `thinning` accesses.
    pub(crate) fn new(thinning: u32) -> Self {
        let weight = u64::from(thinning) * STRIDE as u64;
        Self { columns: Vec::new(), interval_ns: FIRST_INTERVAL_NS, weight }
    }

    /// A batch of page ids at a time; `first` is the number of its first record.
    pub(crate) fn add(&mut self, now_ns: f64, first: u64, pages: &[u32]) {
        let mut column = (now_ns / self.interval_ns) as usize;
        while column >= 2 * COLUMNS {
            self.halve();
            column = (now_ns / self.interval_ns) as usize;
        }
        if column >= self.columns.len() {
            self.columns.resize_with(column + 1, Vec::new);
        }
        let counts = &mut self.columns[column];
        let skip = (STRIDE - (first % STRIDE as u64) as usize) % STRIDE;
        for page in pages.iter().skip(skip).step_by(STRIDE) {
            let region = (page / 512) as usize;
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

    pub(crate) fn finish(self) -> Heatmap {
        let regions = self.columns.iter().map(Vec::len).max().unwrap_or(0);
        let touched: Vec<usize> = (0..regions)
            .filter(|&r| self.columns.iter().any(|c| c.get(r).is_some_and(|n| *n > 0)))
            .collect();
        let per_row = touched.len().div_ceil(ROWS).max(1);
        let mut map = Heatmap { column_seconds: self.interval_ns / 1e9, ..Heatmap::default() };
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

    #[test]
    fn counts_every_sixteenth_whatever_the_batches() {
        let mut builder = HeatmapBuilder::new(1);
        let pages: Vec<u32> =
            (0..16_000u32).map(|i| if i < 8000 { 3 } else { 512 * 900 }).collect();
        let mut first = 0;
        for (i, batch) in pages.chunks(37).enumerate() {
            builder.add(i as f64 * 100_000.0, first, batch);
            first += batch.len() as u64;
        }
        let map = builder.finish();
        assert_eq!(map.row_regions, [0, 900]);
        let sums: Vec<u64> = map.counts.iter().map(|row| row.iter().sum()).collect();
        assert_eq!(sums, [8000, 8000]);
        assert!(map.counts[0].len() <= 2 * COLUMNS);
        assert_eq!(map.counts[0].last(), Some(&0), "the first region is not touched at the end");
    }

    #[test]
    fn many_regions_share_rows() {
        let mut builder = HeatmapBuilder::new(2);
        let pages: Vec<u32> = (0..100_000u32).map(|i| i / 16 * 512).collect();
        builder.add(0.0, 0, &pages);
        let map = builder.finish();
        assert!(map.counts.len() <= ROWS && map.counts.len() > ROWS / 2);
        assert_eq!(map.counts.iter().flatten().sum::<u64>(), 200_000);
    }
}
