//! Use of each huge page, as samples of accesses tell it.

use frostline_core::types::AccessKind;
use frostline_study::{Input, Monitor, Watched};
use frostline_trace::{Batch, TraceSource};
use serde::{Deserialize, Serialize};

/// Loads that missed the last-level cache per sample, as MEMTIS begins with.
const PERIOD: u64 = 200;
const SUBPAGES: usize = 512;
/// One huge page in so many is among the hottest.
const HOTTEST: usize = 10;

/// A 2 MiB region that was sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HugePage {
    /// Samples.
    pub samples: u64,
    /// Subpages of 4 KiB that were sampled, 1 to 512.
    pub used: u32,
}

/// Takes at most `samples` samples of loads, one in [`PERIOD`], beginning in the middle of a trace of
/// `records`, since programs fill their memory at first. Regions come in the order of addresses.
///
/// # Errors
/// A trace that cannot be read, or a stop.
pub fn sample(
    input: &Input,
    records: u64,
    samples: u64,
    monitor: &dyn Monitor,
) -> anyhow::Result<Vec<HugePage>> {
    let mut source = Watched::new(input.source()?, "sampling huge pages", Some(records), monitor);
    let thinning = u64::from(source.header().thinning.max(1));
    let every = (PERIOD / thinning).max(1);
    let (mut counts, mut batch) = (Vec::<u32>::new(), Batch::new());
    let (mut seen, mut loads, mut taken) = (0, 0, 0);
    while taken < samples && source.next_batch(&mut batch)? {
        seen += batch.len() as u64;
        if seen <= records / 2 {
            continue;
        }
        for (i, &page) in batch.pages.iter().enumerate() {
            if batch.kind(i) != AccessKind::Load || taken == samples {
                continue;
            }
            loads += 1;
            if loads % every == 0 {
                taken += 1;
                let page = page as usize;
                if page >= counts.len() {
                    counts.resize((page + 1).next_multiple_of(SUBPAGES), 0);
                }
                counts[page] += 1;
            }
        }
    }
    monitor.check()?;
    Ok(counts.chunks(SUBPAGES).filter_map(of_region).collect())
}

fn of_region(counts: &[u32]) -> Option<HugePage> {
    let samples = counts.iter().map(|count| u64::from(*count)).sum();
    let used = counts.iter().filter(|count| **count > 0).count() as u32;
    (used > 0).then_some(HugePage { samples, used })
}

/// Pearson's correlation of samples and subpages used; none where either does not vary.
pub fn correlation(pages: &[HugePage]) -> Option<f64> {
    let n = pages.len() as f64;
    let mean = |of: fn(&HugePage) -> f64| pages.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.samples as f64), mean(|p| f64::from(p.used)));
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for page in pages {
        let (dx, dy) = (page.samples as f64 - x, f64::from(page.used) - y);
        (xx, yy, xy) = (xx + dx * dx, yy + dy * dy, xy + dx * dy);
    }
    (xx > 0.0 && yy > 0.0).then(|| xy / (xx * yy).sqrt())
}

/// Share of its subpages that a huge page of the hottest tenth uses, on average.
pub fn used_of_hottest(pages: &[HugePage]) -> Option<f64> {
    let mut ranked = pages.to_vec();
    ranked.sort_by_key(|page| std::cmp::Reverse((page.samples, page.used)));
    ranked.truncate(pages.len().div_ceil(HOTTEST));
    let used: f64 = ranked.iter().map(|page| f64::from(page.used)).sum();
    (!ranked.is_empty()).then(|| used / ranked.len() as f64 / SUBPAGES as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_core::Limit;
    use frostline_study::Unwatched;

    fn page(samples: u64, used: u32) -> HugePage {
        HugePage { samples, used }
    }

    #[test]
    fn numbers_are_by_their_definition() {
        let line: Vec<HugePage> = (1..=20).map(|i| page(u64::from(i), 3 * i)).collect();
        assert!((correlation(&line).unwrap() - 1.0).abs() < 1e-12);
        let falling: Vec<HugePage> = (1..=20).map(|i| page(u64::from(i), 100 - 3 * i)).collect();
        assert!((correlation(&falling).unwrap() + 1.0).abs() < 1e-12);
        assert_eq!(correlation(&[page(1, 5), page(2, 5)]), None);
        assert_eq!(used_of_hottest(&line), Some((60.0 + 57.0) / 2.0 / 512.0));
        assert_eq!(used_of_hottest(&[]), None);
    }

    #[test]
    fn dense_and_scattered_use_are_told_apart() {
        // Every subpage alike, against one access in eight huge pages to the same few subpages.
        let read = |spec: &str| {
            let input = Input::open(spec, 1, Limit::default(), &Unwatched).unwrap();
            sample(&input, 2_000_000, 4000, &Unwatched).unwrap()
        };
        let dense = read("synth:uniform:size=16MiB:accesses=2M");
        assert_eq!(dense.iter().map(|page| page.samples).sum::<u64>(), 4000);
        assert_eq!(dense.len(), 8);
        assert!(used_of_hottest(&dense).unwrap() > 0.5, "{dense:?}");
        let few = read("synth:zipf:size=16MiB:accesses=2M:s=1.5");
        assert!(used_of_hottest(&few).unwrap() < used_of_hottest(&dense).unwrap());
    }
}
