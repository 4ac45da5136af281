//! Stretches of a run, and what a resampling of them says of chance.

use super::curve::Curve;
use frostline_core::rng::Rng;
use frostline_sim::SeriesPoint;

/// Stretches that a run is divided into.
const BLOCKS: usize = 50;
/// Resamplings.
pub const RESAMPLED: usize = 200;
/// Part of them that an interval leaves out at each end.
const LEFT_OUT: f64 = 0.025;

/// Seconds that a run takes for each of as many stretches of equal numbers of accesses.
#[derive(Clone, Debug, PartialEq)]
pub struct Blocks(Vec<f64>);

impl Blocks {
    /// Of a series, and of all accesses and seconds of its run; none where it has fewer points than there are
    /// stretches.
    pub fn of(series: &[SeriesPoint], all: u64, seconds: f64) -> Option<Self> {
        if series.len() < BLOCKS {
            return None;
        }
        let (mut done, mut from) = (0, 0.0);
        let mut ends = Vec::with_capacity(BLOCKS);
        let points = series.iter().map(|point| (point.accesses, point.seconds));
        // What came after the last point.
        let rest = all.saturating_sub(series.iter().map(|point| point.accesses).sum());
        for (accesses, until) in points.chain([(rest, seconds)]) {
            let before = done as f64;
            done += accesses;
            // Within a point, time passes evenly.
            while ends.len() < BLOCKS {
                let end = all as f64 * (ends.len() + 1) as f64 / BLOCKS as f64;
                if end > done as f64 {
                    break;
                }
                let part = (end - before) / (accesses as f64).max(1.0);
                ends.push(from + (until - from) * part);
            }
            from = until;
        }
        ends.resize(BLOCKS, from);
        let starts = std::iter::once(0.0).chain(ends.iter().copied());
        Some(Self(ends.iter().zip(starts).map(|(end, start)| end - start).collect()))
    }

    /// Of the whole run.
    fn seconds(&self) -> f64 {
        self.0.iter().sum()
    }
}

/// A run whose loss is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Stretched {
    /// Size of fast memory.
    pub size: f64,
    /// What it loses, as a whole.
    pub loss: f64,
    /// Its stretches.
    pub blocks: Blocks,
}

/// Ends of the interval that holds the size for `goal` in 95 of 100 cases, as far as it varies from stretch to stretch:
/// from runs at sizes, and from one with all memory fast. An end is `None` where no size is enough.
pub fn interval(
    runs: &[Stretched],
    fast: &Blocks,
    goal: f64,
    seed: u64,
) -> (Option<f64>, Option<f64>) {
    let mut rng = Rng::new(seed);
    // Losses are told against a time that no run took: each stretch counts so that all of them, once, lose what the run does.
    let of = |run: &Stretched| (1.0 + run.loss) * fast.seconds() / run.blocks.seconds();
    let factors: Vec<f64> = runs.iter().map(of).collect();
    ends((0..RESAMPLED).map(|_| {
        let drawn: Vec<usize> = (0..BLOCKS).map(|_| rng.below(BLOCKS as u64) as usize).collect();
        let sum = |blocks: &Blocks| drawn.iter().map(|block| blocks.0[*block]).sum::<f64>();
        let all_fast = sum(fast);
        let loss = |(run, factor): (&Stretched, &f64)| {
            (run.size, factor * sum(&run.blocks) / all_fast - 1.0)
        };
        Curve::new(runs.iter().zip(&factors).map(loss).collect()).size_for(goal)
    }))
}

/// Ends of the interval that holds 95 of 100 sizes, of [`RESAMPLED`] of them; `None` for no size that is enough.
pub fn ends(sizes: impl Iterator<Item = Option<f64>>) -> (Option<f64>, Option<f64>) {
    let mut found: Vec<f64> = sizes.map(|size| size.unwrap_or(f64::INFINITY)).collect();
    found.sort_by(f64::total_cmp);
    let at =
        |part: f64| Some(found[(part * (RESAMPLED - 1) as f64) as usize]).filter(|s| s.is_finite());
    (at(LEFT_OUT), at(1.0 - LEFT_OUT))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(seconds: impl Fn(usize) -> f64) -> Vec<SeriesPoint> {
        let mut now = 0.0;
        let point = |index| {
            now += seconds(index);
            SeriesPoint {
                seconds: now,
                accesses: 100,
                fast_hit_ratio: 0.0,
                resident_bytes: Vec::new(),
                promoted_bytes: 0,
                demoted_bytes: 0,
                classes_bytes: None,
                gauges: Default::default(),
            }
        };
        (0..200).map(point).collect()
    }

    #[test]
    fn stretches_have_equal_numbers_of_accesses() {
        let of = |series: &[SeriesPoint], rest| {
            let seconds = series.last().map_or(0.0, |point| point.seconds);
            Blocks::of(series, 100 * series.len() as u64 + rest, seconds + rest as f64 / 200.0)
        };
        let Some(Blocks(even)) = of(&series(|_| 0.5), 0) else { panic!("long enough") };
        assert!(
            even.len() == BLOCKS && even.iter().all(|block| (block - 2.0).abs() < 1e-9),
            "{even:?}"
        );
        let Some(Blocks(rest)) = of(&series(|_| 0.5), 5000) else { panic!("long enough") };
        assert!(rest.iter().all(|block| (block - 2.5).abs() < 1e-9), "{rest:?}");
        assert_eq!(of(&series(|_| 0.5)[..49], 0), None);
    }

    #[test]
    fn what_varies_widens_the_interval() {
        let of = |series: &[SeriesPoint]| Blocks::of(series, 20_000, series[199].seconds).unwrap();
        let fast = of(&series(|_| 1.0));
        let runs = |uneven: f64| -> Vec<Stretched> {
            let loss = |size: f64, index: usize| {
                let varies =
                    if index.is_multiple_of(8) { 1.0 + 7.0 * uneven } else { 1.0 - uneven };
                1.0 + (1.0 - size) * 0.1 * varies
            };
            let sizes = (1..=10).map(|tenth| f64::from(tenth) / 10.0);
            let run = |size: f64| Stretched {
                size,
                loss: (1.0 - size) * 0.1,
                blocks: of(&series(|i| loss(size, i))),
            };
            sizes.map(run).collect()
        };
        let wide = |uneven| {
            let (low, high) = interval(&runs(uneven), &fast, 0.05, 1);
            (low.unwrap(), high.unwrap())
        };
        let (even, uneven) = (wide(0.0), wide(0.9));
        assert!((even.0 - 0.5).abs() < 1e-6 && (even.1 - 0.5).abs() < 1e-6, "{even:?}");
        assert!(uneven.0 < 0.48 && uneven.1 > 0.52, "{uneven:?}");
        // Whatever the losses are told against, the answer lies in the middle.
        let told = |run: Stretched| Stretched { loss: run.loss + 0.03, ..run };
        let runs_told: Vec<Stretched> = runs(0.0).into_iter().map(told).collect();
        let (low, high) = interval(&runs_told, &fast, 0.08, 1);
        assert!((low.unwrap() - 0.5).abs() < 1e-6 && (high.unwrap() - 0.5).abs() < 1e-6);
        assert_eq!(interval(&runs(0.9), &fast, 0.05, 1), interval(&runs(0.9), &fast, 0.05, 1));
    }
}
