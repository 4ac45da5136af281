//! Charts over modelled time: hit ratio, page classes, migration traffic.

use super::palette::Palette;
use super::plot::{Entry, Plot, legend};
use super::svg::{Unit, bytes_unit, data, frame, number, round_up, time_unit};
use crate::units;
use frostline_core::policy::registry;
use frostline_sim::SeriesPoint;
use frostline_study::{PolicyStudy, SizeStudy};

/// Rows of the table beside a chart.
const SPANS: usize = 10;
const PERCENT: Unit = Unit { divisor: 0.01, name: "%" };

fn last_second(policies: &[&PolicyStudy]) -> f64 {
    let last = |p: &&PolicyStudy| p.first().series.last().map_or(0.0, |point| point.seconds);
    policies.iter().map(last).fold(0.0, f64::max)
}

/// Horizontal axis of modelled time, from 0 to so many seconds.
pub fn time_axis(plot: &mut Plot, seconds: f64) {
    let unit = time_unit(seconds);
    plot.x_axis(unit, &format!("modelled time ({})", unit.name), number);
}

/// The points of each of [`SPANS`] equal spans of time, and the end of the span.
fn spans(series: &[SeriesPoint], seconds: f64) -> Vec<(f64, Vec<&SeriesPoint>)> {
    let span = seconds / SPANS as f64;
    let within = |i: usize| {
        let (from, to) = (span * i as f64, span * (i + 1) as f64);
        let last = i + 1 == SPANS;
        let points = series.iter().filter(|p| p.seconds > from && (p.seconds <= to || last));
        (to, points.collect())
    };
    (0..SPANS).map(within).collect()
}

/// Where an axis of shares begins: at 0, or nearer where all are high. It never ends there.
fn least_shown(lowest: f64) -> f64 {
    if lowest > 0.55 { ((lowest * 10.0).floor() / 10.0).min(0.9) } else { 0.0 }
}

/// Share of accesses that the fast tier served, one curve per policy.
pub fn hit_ratio(size: &SizeStudy, palette: &Palette) -> String {
    let shown: Vec<&PolicyStudy> = size
        .policies
        .iter()
        .filter(|p| !matches!(p.spec.as_str(), registry::ALL_FAST | registry::ALL_SLOW))
        .filter(|p| p.first().series.len() > 1)
        .collect();
    if shown.is_empty() {
        return String::new();
    }
    let busy = |point: &&SeriesPoint| point.accesses > 0;
    let lowest = shown.iter().flat_map(|p| p.first().series.iter().filter(busy));
    let lowest = lowest.map(|point| point.fast_hit_ratio).fold(1.0, f64::min);
    let bottom = least_shown(lowest);
    let seconds = last_second(&shown);
    let mut plot = Plot::new(230.0, [0.0, seconds], [bottom, 1.0]);
    time_axis(&mut plot, seconds);
    plot.y_axis(PERCENT, "fast hits (%)", number);
    let looks: Vec<_> = shown.iter().map(|policy| palette.look(&policy.spec)).collect();
    let key = |i: usize| (shown.len() > 1).then_some(i + 1);
    let mut entries = Vec::new();
    for (i, (policy, look)) in shown.iter().zip(&looks).enumerate() {
        let points = policy.first().series.iter().filter(busy);
        let points: Vec<_> = points.map(|p| (p.seconds, p.fast_hit_ratio)).collect();
        plot.curve(&look.stroke, &points, &policy.spec, key(i));
        entries.push(Entry::Line(&look.stroke, key(i), &policy.spec));
    }
    let zoomed = if bottom > 0.0 { " The axis does not begin at 0." } else { "" };
    let means = shown.iter().map(|policy| {
        let mean = policy.first().report.fast_hit_ratio;
        format!("{} {}", policy.spec, units::percent(mean))
    });
    let description = format!("Over the whole run: {}", means.collect::<Vec<_>>().join(", "));
    let chart =
        plot.show(&format!("Curves of the hit ratio over time at {}", size.fast), &description);
    frame(
        "Hit ratio of the fast tier over time",
        &format!("Share of the accesses of each moment that fast memory served.{zoomed}"),
        &(chart + &legend(&entries) + &hit_ratio_data(&shown, seconds)),
    )
}

fn hit_ratio_data(shown: &[&PolicyStudy], seconds: f64) -> String {
    let headings = std::iter::once("until".to_owned())
        .chain(shown.iter().map(|policy| format!("{} (%)", policy.spec)))
        .collect::<Vec<_>>();
    let by_policy: Vec<_> = shown.iter().map(|p| spans(&p.first().series, seconds)).collect();
    let rows = (0..SPANS).map(|i| {
        let cells = by_policy.iter().map(|spans| {
            let points = &spans[i].1;
            let accesses: u64 = points.iter().map(|p| p.accesses).sum();
            let hits: f64 = points.iter().map(|p| p.fast_hit_ratio * p.accesses as f64).sum();
            if accesses == 0 {
                return "-".to_owned();
            }
            format!("{:.1}", 100.0 * hits / accesses as f64)
        });
        std::iter::once(units::seconds(by_policy[0][i].0)).chain(cells).collect()
    });
    data(&headings, &rows.collect::<Vec<_>>())
}

/// Hot, warm and cold memory as the policy sees it, and the size of the fast tier: one chart per
/// policy that has such classes.
pub fn classes(size: &SizeStudy) -> String {
    let has = |p: &&PolicyStudy| p.first().series.iter().any(|s| s.classes_bytes.is_some());
    let shown: Vec<&PolicyStudy> = size.policies.iter().filter(has).collect();
    let sum = |point: &SeriesPoint| -> f64 {
        point.classes_bytes.map_or(0.0, |classes| classes.iter().sum::<u64>() as f64)
    };
    let points = shown.iter().flat_map(|p| &p.first().series);
    let highest = points.map(sum).fold(size.fast_bytes as f64, f64::max).max(1.0);
    let seconds = last_second(&shown);
    shown.iter().map(|policy| classes_of(policy, size, seconds, highest)).collect()
}

fn classes_of(policy: &PolicyStudy, size: &SizeStudy, seconds: f64, highest: f64) -> String {
    let series: Vec<(f64, [f64; 3])> = policy
        .first()
        .series
        .iter()
        .filter_map(|p| p.classes_bytes.map(|c| (p.seconds, c.map(|bytes| bytes as f64))))
        .collect();
    let unit = bytes_unit(highest);
    let mut plot = Plot::new(200.0, [0.0, seconds], [0.0, highest * 1.04]);
    time_axis(&mut plot, seconds);
    plot.y_axis(unit, &format!("memory ({})", unit.name), number);
    stack_classes(&mut plot, &series, size.fast_bytes as f64);
    let label = format!("Areas of hot, warm and cold memory over time under {}", policy.spec);
    // Nothing is left once the program has ended.
    let alive = series.iter().rev().find(|(_, classes)| classes.iter().sum::<f64>() > 0.0);
    let last = alive.map_or([0.0; 3], |(_, classes)| *classes).map(units::bytes);
    let description = format!(
        "At the end {} hot, {} warm, {} cold; the fast tier has {}",
        last[0],
        last[1],
        last[2],
        units::bytes(size.fast_bytes as f64)
    );
    let rows = spans(&policy.first().series, seconds).into_iter().map(|(to, points)| {
        let alive = |classes: &[u64; 3]| classes.iter().sum::<u64>() > 0;
        let last = points.iter().rev().find_map(|point| point.classes_bytes.filter(alive));
        let cell = |class: usize| {
            last.map_or_else(|| "-".to_owned(), |classes| units::bytes(classes[class] as f64))
        };
        std::iter::once(units::seconds(to)).chain((0..3).map(cell)).collect()
    });
    let headings = ["at", "hot", "warm", "cold"].map(str::to_owned);
    let table = data(&headings, &rows.collect::<Vec<_>>());
    frame(
        &format!("Hot, warm and cold memory: {}", policy.spec),
        "As the policy classes it. Hot memory is meant to fill the fast tier and no more.",
        &(plot.show(&label, &description) + &classes_legend() + &table),
    )
}

const CLASSES: [&str; 3] = ["hot", "warm", "cold"];

/// Areas of the classes over time, one on the other, and a line at the size of fast memory.
pub fn stack_classes(plot: &mut Plot, series: &[(f64, [f64; 3])], fast_bytes: f64) {
    let mut below: Vec<f64> = vec![0.0; series.len()];
    for (class, name) in CLASSES.into_iter().enumerate() {
        let above: Vec<f64> = series.iter().zip(&below).map(|((_, c), b)| b + c[class]).collect();
        let at = |(i, &v): (usize, &f64)| (series[i].0, v);
        let back = below.iter().enumerate().rev().map(at);
        let outline: Vec<_> = above.iter().enumerate().map(at).chain(back).collect();
        plot.area(name, &outline, name);
        below = above;
    }
    plot.limit(fast_bytes);
}

/// Legend of [`stack_classes`].
pub fn classes_legend() -> String {
    let areas = CLASSES.map(|name| Entry::Area(name, name)).into_iter();
    let limit = Entry::Line("limit", None, "size of the fast tier");
    legend(&areas.chain([limit]).collect::<Vec<_>>())
}

/// Migration traffic: promotions upwards, demotions downwards, one chart per policy that moves.
pub fn migration(size: &SizeStudy) -> String {
    let moves =
        |p: &&PolicyStudy| p.first().series.iter().any(|s| s.promoted_bytes + s.demoted_bytes > 0);
    let shown: Vec<&PolicyStudy> = size.policies.iter().filter(moves).collect();
    let rates: Vec<Vec<Rate>> = shown.iter().map(|p| rates(&p.first().series)).collect();
    let highest = rates.iter().flatten().map(|r| r.up.max(r.down)).fold(1.0, f64::max);
    let unit = bytes_unit(highest);
    let (seconds, top) = (last_second(&shown), nice_top(highest, unit));
    let charts = shown.iter().zip(&rates);
    charts.map(|(policy, rates)| migration_of(policy, rates, seconds, top, unit)).collect()
}

/// Bytes per second in `(from, to]`.
struct Rate {
    from: f64,
    to: f64,
    up: f64,
    down: f64,
}

fn rates(series: &[SeriesPoint]) -> Vec<Rate> {
    let mut from = 0.0;
    let mut rates = Vec::with_capacity(series.len());
    for point in series {
        let span = point.seconds - from;
        if span > 0.0 {
            rates.push(Rate {
                from,
                to: point.seconds,
                up: point.promoted_bytes as f64 / span,
                down: point.demoted_bytes as f64 / span,
            });
            from = point.seconds;
        }
    }
    rates
}

fn nice_top(highest: f64, unit: Unit) -> f64 {
    let value = highest / unit.divisor;
    let step = round_up(value / 4.0);
    (value / step).ceil() * step * unit.divisor
}

fn migration_of(
    policy: &PolicyStudy,
    rates: &[Rate],
    seconds: f64,
    top: f64,
    unit: Unit,
) -> String {
    let mut plot = Plot::new(200.0, [0.0, seconds], [-top, top]);
    time_axis(&mut plot, seconds);
    plot.y_axis(unit, &format!("{} per second", unit.name), |value| number(value.abs()));
    for (class, name, up) in [("up", "promoted", true), ("down", "demoted", false)] {
        plot.area(class, &steps(rates, up), name);
    }
    plot.baseline(0.0);
    let entries =
        [Entry::Area("up", "promoted (upwards)"), Entry::Area("down", "demoted (downwards)")];
    let report = &policy.first().report;
    let (up, down) =
        (units::bytes(report.promoted_bytes as f64), units::bytes(report.demoted_bytes as f64));
    let rows = spans(&policy.first().series, seconds).into_iter().map(|(to, points)| {
        let up: u64 = points.iter().map(|point| point.promoted_bytes).sum();
        let down: u64 = points.iter().map(|point| point.demoted_bytes).sum();
        vec![units::seconds(to), units::bytes(up as f64), units::bytes(down as f64)]
    });
    let headings = ["until", "promoted", "demoted"].map(str::to_owned);
    let table = data(&headings, &rows.collect::<Vec<_>>());
    let label = format!("Migration traffic over time under {}", policy.spec);
    let chart = plot.show(&label, &format!("In the whole run {up} promoted, {down} demoted"));
    frame(
        &format!("Migration traffic: {}", policy.spec),
        &format!(
            "{up} promoted and {down} demoted in all. The scale is the same for all policies."
        ),
        &(chart + &legend(&entries) + &table),
    )
}

/// The outline of one direction's rates, from the zero line and back to it.
fn steps(rates: &[Rate], up: bool) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (rates.first(), rates.last()) else { return Vec::new() };
    let flat = rates.iter().flat_map(|rate| {
        let value = if up { rate.up } else { -rate.down };
        [(rate.from, value), (rate.to, value)]
    });
    std::iter::once((first.from, 0.0)).chain(flat).chain([(last.to, 0.0)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_of_shares_has_room() {
        for (lowest, begin) in [(0.0, 0.0), (0.5, 0.0), (0.75, 0.7), (0.99, 0.9), (1.0, 0.9)] {
            assert_eq!(least_shown(lowest), begin, "{lowest}");
        }
    }
}
