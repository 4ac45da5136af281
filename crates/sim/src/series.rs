//! Time series of a run.

use crate::options::SeriesOptions;
use crate::report::SeriesPoint;

/// Interval with which an adaptive series starts.
const FIRST_INTERVAL_NS: f64 = 50_000.0;

/// Points at a fixed interval, or at one that doubles so that enough remain.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) points: Vec<SeriesPoint>,
    interval_ns: f64,
    /// How many remain at least, where the interval is not fixed.
    adaptive: Option<usize>,
    due_ns: f64,
}

impl Series {
    pub(crate) fn new(SeriesOptions { interval, points }: SeriesOptions) -> Self {
        let interval_ns = interval.map_or(FIRST_INTERVAL_NS, |n| n.0.max(1) as f64);
        let adaptive = interval.is_none().then_some(points.max(1));
        Self { points: Vec::new(), interval_ns, adaptive, due_ns: interval_ns }
    }

    #[inline]
    pub(crate) fn is_due(&self, now_ns: f64) -> bool {
        now_ns >= self.due_ns
    }

    pub(crate) fn push(&mut self, now_ns: f64, point: SeriesPoint) {
        self.points.push(point);
        if self.adaptive.is_some_and(|points| self.points.len() >= 2 * points) {
            self.halve();
        }
        let passed = (now_ns / self.interval_ns).floor();
        self.due_ns = (passed + 1.0) * self.interval_ns;
    }

    fn halve(&mut self) {
        let old = std::mem::take(&mut self.points);
        let mut old = old.into_iter();
        while let Some(first) = old.next() {
            self.points.push(match old.next() {
                Some(second) => merge(first, second),
                None => first,
            });
        }
        self.interval_ns *= 2.0;
    }
}

/// Counts add up; what describes a moment is the later one's.
fn merge(first: SeriesPoint, second: SeriesPoint) -> SeriesPoint {
    let accesses = first.accesses + second.accesses;
    let hits = first.fast_hit_ratio * first.accesses as f64
        + second.fast_hit_ratio * second.accesses as f64;
    SeriesPoint {
        accesses,
        fast_hit_ratio: if accesses > 0 { hits / accesses as f64 } else { 0.0 },
        promoted_bytes: first.promoted_bytes + second.promoted_bytes,
        demoted_bytes: first.demoted_bytes + second.demoted_bytes,
        ..second
    }
}

/// How a policy's classes compare with fast memory of `fast_bytes`, by time: the mean size of what
/// is hot, of that in the last quarter, and of what is hot or warm, divided by it, and the share of
/// time in which all that is hot fits. Nothing for a policy without classes.
pub(crate) fn class_shares(
    points: &[SeriesPoint],
    fast_bytes: u64,
) -> impl Iterator<Item = (&'static str, f64)> {
    let late = 0.75 * points.last().map_or(0.0, |point| point.seconds);
    let (mut from, mut whole, mut end, mut sums) = (0.0, 0.0, 0.0, [0.0; 4]);
    for point in points {
        let start = std::mem::replace(&mut from, point.seconds);
        let Some([hot, warm, _]) = point.classes_bytes else { continue };
        let span = point.seconds - start;
        let late = (point.seconds - start.max(late)).max(0.0);
        whole += span;
        end += late;
        sums[0] += span * hot as f64;
        sums[1] += late * hot as f64;
        sums[2] += span * (hot + warm) as f64;
        sums[3] += if hot <= fast_bytes { span } else { 0.0 };
    }
    let fast = fast_bytes as f64;
    let shares = [
        ("hot_of_fast_mean", sums[0] / whole / fast),
        ("hot_of_fast_late", sums[1] / end / fast),
        ("hot_or_warm_of_fast_mean", sums[2] / whole / fast),
        ("hot_fits_share", sums[3] / whole),
    ];
    let any = whole > 0.0 && end > 0.0 && fast > 0.0;
    shares.into_iter().filter(move |_| any)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::SERIES_POINTS;
    use frostline_core::types::Nanos;

    #[test]
    fn classes_are_weighed_by_time() {
        let at = |seconds, hot, warm| SeriesPoint {
            seconds,
            classes_bytes: Some([hot, warm, 1]),
            ..SeriesPoint::default()
        };
        let points = [at(1.0, 50, 10), at(3.5, 110, 0), at(4.0, 140, 0)];
        let shares: Vec<_> = class_shares(&points, 100).collect();
        let expected = [
            ("hot_of_fast_mean", 0.9875),
            ("hot_of_fast_late", 1.25),
            ("hot_or_warm_of_fast_mean", 1.0125),
            ("hot_fits_share", 0.25),
        ];
        for ((name, share), (expected_name, expected)) in shares.iter().zip(expected) {
            assert!(*name == expected_name && (share - expected).abs() < 1e-12, "{name}: {share}");
        }
        assert_eq!(class_shares(&[SeriesPoint::default()], 100).count(), 0);
    }

    fn point(i: u64) -> SeriesPoint {
        SeriesPoint { seconds: i as f64, accesses: i, promoted_bytes: 1, ..SeriesPoint::default() }
    }

    #[test]
    fn an_adaptive_series_keeps_its_sums_and_stays_short() {
        let mut series = Series::new(SeriesOptions::default());
        let mut pushed = 0;
        for i in 0..100_000u64 {
            let now_ns = i as f64 * 60_000.0;
            if series.is_due(now_ns) {
                series.push(now_ns, point(1));
                pushed += 1;
            }
        }
        assert!(
            (SERIES_POINTS..2 * SERIES_POINTS).contains(&series.points.len()),
            "{}",
            series.points.len()
        );
        let sum: u64 = series.points.iter().map(|p| p.promoted_bytes).sum();
        assert_eq!(sum, pushed);
    }

    #[test]
    fn merged_hit_ratios_are_weighted() {
        let a = SeriesPoint { accesses: 100, fast_hit_ratio: 1.0, ..point(1) };
        let b = SeriesPoint { accesses: 300, fast_hit_ratio: 0.0, ..point(2) };
        let c = merge(a, b);
        assert_eq!((c.accesses, c.fast_hit_ratio, c.seconds), (400, 0.25, 2.0));
    }

    #[test]
    fn a_fixed_interval_is_kept() {
        let mut series =
            Series::new(SeriesOptions { interval: Some(Nanos(1000)), ..SeriesOptions::default() });
        for i in 0..1000 {
            if series.is_due(f64::from(i) * 500.0) {
                series.push(f64::from(i) * 500.0, point(0));
            }
        }
        assert_eq!(series.points.len(), 499);
    }
}
