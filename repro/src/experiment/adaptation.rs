//! Time until a run is as fast as before, after what is hot has changed.

use frostline_sim::{RunReport, SeriesPoint, TierReport};

/// Points that a latency is the mean of: as many as pass before one can tell.
const MEAN_OF: usize = 8;
/// Points that a rate is the mean of.
const SMOOTHING: usize = 3;
/// Of its highest rate of accesses, from which on a run counts as recovered: PET, section 5.2.3.
const RECOVERED: f64 = 0.95;
/// The highest rate is what the best points reach, one in so many.
const BEST: usize = 10;

/// Modelled time from the share `since` of the accesses on until the latency of memory comes back to
/// within 1 % of its median over the last quarter of the run, after it has been above that: that of
/// an access, as the tiers serve it (`latencies`, of the fastest and of the others). Where it never
/// was above, as long as [`MEAN_OF`] points take; where it does not come back, all that was left of
/// the run: the truth is longer. None without a series.
pub fn adaptation_seconds(series: &[SeriesPoint], since: f64, latencies: [f64; 2]) -> Option<f64> {
    let all: u64 = series.iter().map(|point| point.accesses).sum();
    let (mut seen, mut start) = (0, 0.0);
    let mut after: Vec<(f64, f64)> = Vec::new();
    let mut changed = None;
    for point in series.iter().filter(|point| point.accesses > 0) {
        if seen as f64 >= since * all as f64 {
            changed.get_or_insert(start);
            let [fast, slow] = latencies;
            after.push((point.seconds, slow + (fast - slow) * point.fast_hit_ratio));
        }
        (seen, start) = (seen + point.accesses, point.seconds);
    }
    let last = &after[after.len() - (series.len() / 4).min(after.len())..];
    let mut steady: Vec<f64> = last.iter().map(|(_, latency)| *latency).collect();
    steady.sort_by(f64::total_cmp);
    let goal = 1.01 * steady.get(steady.len() / 2)?;
    let is_above = |points: &[(f64, f64)]| {
        points.iter().map(|p| p.1).sum::<f64>() / points.len() as f64 > goal
    };
    let windows: Vec<&[(f64, f64)]> = after.windows(MEAN_OF).collect();
    let reached = match windows.iter().position(|points| is_above(points)) {
        Some(first) => windows[first..].iter().find(|points| !is_above(points)),
        None => windows.first(),
    };
    Some(reached.and_then(|points| points.last()).or(after.last())?.0 - changed?)
}

/// Mean latencies of accesses to the fastest tier and to the others, as they were.
pub fn latencies(report: &RunReport) -> [f64; 2] {
    let mean = |tiers: &[TierReport]| {
        let accesses: u64 = tiers.iter().map(|tier| tier.accesses).sum();
        let all: f64 = tiers.iter().map(|t| t.latency_ns_mean * t.accesses as f64).sum();
        all / accesses.max(1) as f64
    };
    let (fast, slow) = report.tiers.split_at(report.tiers.len().min(1));
    [mean(fast), mean(slow)]
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
        // Points of 0.1 s at 80 and 124 ns: 101.5 before, then 110, 103, and 101.5 to the end.
        let series = |phases: &[(usize, f64)]| -> Vec<SeriesPoint> {
            let shares = phases.iter().flat_map(|&(points, share)| vec![share; points]);
            let point = |(i, share): (usize, f64)| SeriesPoint {
                seconds: 0.1 * (i + 1) as f64,
                accesses: 1000,
                fast_hit_ratio: (124.0 - share) / 44.0,
                ..SeriesPoint::default()
            };
            shares.enumerate().map(point).collect()
        };
        let adapted =
            |phases: &[(usize, f64)]| adaptation_seconds(&series(phases), 0.25, [80.0, 124.0]);
        let at_once = 0.1 * MEAN_OF as f64;
        let is_soon_after = |t: f64, end: f64| t > end && t < end + at_once + 0.01;
        let whole = adapted(&[(50, 101.5), (30, 110.0), (40, 103.0), (80, 101.5)]).unwrap();
        assert!(is_soon_after(whole, 7.0), "{whole}");
        // What is as good as ever at first may get worse: it counts from when it has come back.
        let late = adapted(&[(60, 101.5), (30, 110.0), (110, 101.5)]).unwrap();
        assert!(is_soon_after(late, 4.0), "{late}");
        let never = adapted(&[(200, 101.5)]).unwrap();
        assert!((never - at_once).abs() < 0.01, "{never}");
        let not_yet = adapted(&[(50, 101.5), (100, 110.0), (50, 101.5)]).unwrap();
        assert!(is_soon_after(not_yet, 10.0), "{not_yet}");
        let long = adapted(&[(50, 101.5), (149, 110.0), (1, 80.0)]).unwrap();
        assert!((long - at_once).abs() < 0.01, "what it is at the end is what it was: {long}");
        // Points where nobody accessed memory have no latency.
        assert_eq!(adaptation_seconds(&[], 0.5, [80.0, 124.0]), None);
        assert_eq!(adaptation_seconds(&[SeriesPoint::default()], 0.5, [80.0, 124.0]), None);
    }

    #[test]
    fn latencies_are_those_of_the_first_tier_and_of_the_rest() {
        let tier = |accesses, latency_ns_mean| TierReport {
            accesses,
            latency_ns_mean,
            ..TierReport::default()
        };
        let tiers = vec![tier(10, 80.0), tier(30, 100.0), tier(10, 200.0)];
        let report = RunReport { tiers, ..RunReport::default() };
        assert_eq!(latencies(&report), [80.0, 125.0]);
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
