//! How long a run takes to be as fast as before, after what is hot has changed.

use frostline_sim::SeriesPoint;

/// Points that a latency or a rate is the mean of.
const SMOOTHING: usize = 3;
/// Of its highest rate of accesses, from which on a run counts as recovered: PET, section 5.2.3.
const RECOVERED: f64 = 0.95;
/// The highest rate is what the best points reach, one in so many.
const BEST: usize = 10;

/// Modelled time from the share `since` of the accesses on until the latency, time by access,
/// is within 1 % of its median over the last quarter of the run and stays so for as many points
/// as are averaged. Where it never is, all that was left of the run: the truth is longer. None
/// without a series.
pub fn adaptation_seconds(series: &[SeriesPoint], since: f64) -> Option<f64> {
    let all: u64 = series.iter().map(|point| point.accesses).sum();
    let (mut seen, mut start) = (0, 0.0);
    let mut after: Vec<(f64, f64)> = Vec::new();
    let mut changed = None;
    for point in series.iter().filter(|point| point.accesses > 0) {
        let latency = (point.seconds - start) / point.accesses as f64;
        if seen as f64 >= since * all as f64 {
            changed.get_or_insert(start);
            after.push((point.seconds, latency));
        }
        (seen, start) = (seen + point.accesses, point.seconds);
    }
    let last = &after[after.len() - (series.len() / 4).min(after.len())..];
    let mut steady: Vec<f64> = last.iter().map(|(_, latency)| *latency).collect();
    steady.sort_by(f64::total_cmp);
    let goal = 1.01 * steady.get(steady.len() / 2)?;
    let mean =
        |points: &[(f64, f64)]| points.iter().map(|p| p.1).sum::<f64>() / points.len() as f64;
    let reached = after.windows(SMOOTHING).find(|points| mean(points) <= goal);
    Some(reached.map_or(after.last()?.0, |points| points[0].0) - changed?)
}

/// A stretch of a run.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: f64,
    end: f64,
    /// Accesses before it, and in it.
    before: f64,
    accesses: f64,
}

/// Mean time, over `changes` changes at equal distances in accesses, the first one at the share `since`
/// of all, until accesses come at 95 % of the highest rate of the run: that which its best tenth
/// reaches. A change after which they never do counts with all the time until the next one, or the
/// end. None without a series, or where points are not closer than changes.
pub fn recovery_seconds(series: &[SeriesPoint], since: f64, changes: u32) -> Option<f64> {
    let (mut before, mut start) = (0.0, 0.0);
    let mut spans = Vec::new();
    for point in series.iter().filter(|point| point.accesses > 0 && point.seconds > 0.0) {
        let accesses = point.accesses as f64;
        spans.push(Span { start, end: point.seconds, before, accesses });
        (before, start) = (before + accesses, point.seconds);
    }
    let all = before;
    let rate = |spans: &[Span]| {
        let time = spans.last()?.end - spans.first()?.start;
        Some(spans.iter().map(|span| span.accesses).sum::<f64>() / time)
    };
    let mut rates: Vec<f64> = spans.windows(SMOOTHING).filter_map(rate).collect();
    rates.sort_by(|a, b| b.total_cmp(a));
    let goal = RECOVERED * rates.get(rates.len() / BEST)?;
    let moment = |accesses: f64| {
        let span = spans.iter().find(|span| span.before + span.accesses >= accesses);
        let span = span.or(spans.last())?;
        let part = ((accesses - span.before) / span.accesses).clamp(0.0, 1.0);
        Some(span.start + part * (span.end - span.start))
    };
    let step = (1.0 - since) / f64::from(changes.max(1));
    let mut sum = 0.0;
    for change in 0..changes.max(1) {
        let at = since + step * f64::from(change);
        let (from, to) = (moment(at * all)?, moment((at + step) * all)?);
        let first = spans.partition_point(|span| span.start < from);
        let last = spans.partition_point(|span| span.end <= to);
        let within = spans.get(first..last).filter(|spans| spans.len() >= 2 * SMOOTHING)?;
        let back = within.windows(SMOOTHING).find(|s| rate(s).is_some_and(|rate| rate >= goal));
        sum += back.map_or(to, |spans| spans[0].start) - from;
    }
    Some(sum / f64::from(changes.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points of 0.1 s in which accesses take that long.
    fn series(parts: &[(usize, f64)]) -> Vec<SeriesPoint> {
        let mut seconds = 0.0;
        let mut series = Vec::new();
        for &(points, latency_ns) in parts {
            for _ in 0..points {
                let accesses = (0.1e9 / latency_ns) as u64;
                seconds += 0.1;
                series.push(SeriesPoint { seconds, accesses, ..SeriesPoint::default() });
            }
        }
        series
    }

    #[test]
    fn adaptation_ends_where_latency_is_what_it_is_at_the_end() {
        // 1 s of 100 ns, then 150 ns for 1 s, 101.5 for 1 s, and 100 for 5 s.
        let series = series(&[(10, 100.0), (10, 150.0), (10, 101.5), (50, 100.0)]);
        let all: u64 = series.iter().map(|point| point.accesses).sum();
        let since = (10_000_000 - 1) as f64 / all as f64;
        let adapted = adaptation_seconds(&series, since).unwrap();
        assert!((adapted - 2.1).abs() < 0.11, "{adapted}");
        assert_eq!(adaptation_seconds(&[], 0.5), None);
    }

    #[test]
    fn recovery_is_the_mean_over_changes_and_all_of_a_period_where_there_is_none() {
        // 12 million accesses in each of four periods: the first two are fast throughout, the third
        // one after 0.8 s, the last one never.
        let fast = (120, 100.0);
        let series = series(&[fast, fast, (8, 200.0), (116, 100.0), (240, 200.0)]);
        let all: u64 = series.iter().map(|point| point.accesses).sum();
        assert_eq!(all, 480_000_000);
        for (since, changes, expected) in
            [(0.0, 4, (0.8 + 24.0) / 4.0), (0.5, 2, (0.8 + 24.0) / 2.0), (0.5, 1, 0.8)]
        {
            let found = recovery_seconds(&series, since, changes).unwrap();
            assert!((found - expected).abs() < 0.11, "{found} for {expected}");
        }
        assert_eq!(recovery_seconds(&series, 0.0, 200), None, "too few points");
        assert_eq!(recovery_seconds(&[], 0.0, 1), None);
    }
}
