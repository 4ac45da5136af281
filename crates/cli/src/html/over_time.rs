//! Charts over modelled time: hit ratio, page classes, migration traffic.

use super::palette::Palette;
use super::svg::{
    Axis, Picture, Unit, bytes_unit, escape, figure, number, path, round_up, text, ticks,
    time_unit, x_grid, y_grid,
};
use crate::study::{PolicyStudy, SizeStudy};
use frostline_sim::SeriesPoint;
use std::fmt::Write;

/// A plot's frame with a time axis.
struct Frame {
    width: f64,
    bottom: f64,
    x: Axis,
    y: Axis,
    time: Unit,
}

const LEFT: f64 = 52.0;
const TOP: f64 = 10.0;
const RIGHT: f64 = 14.0;

impl Frame {
    fn new(width: f64, height: f64, seconds: f64, y_min: f64, y_max: f64) -> Self {
        let bottom = height - 38.0;
        let x = Axis { min: 0.0, max: seconds, from: LEFT, to: width - RIGHT };
        let y = Axis { min: y_min, max: y_max, from: bottom, to: TOP };
        Self { width, bottom, x, y, time: time_unit(seconds) }
    }

    fn time_axis(&self, out: &mut String) {
        let unit = self.time;
        let axis = Axis { min: 0.0, max: self.x.max / unit.divisor, ..self.x };
        x_grid(out, &axis, TOP, self.bottom, number);
        let middle = (self.x.from + self.x.to) / 2.0;
        let label = format!("modelled time ({})", unit.name);
        text(out, "axis", middle, self.bottom + 31.0, "middle", &label);
    }

    fn y_axis(&self, out: &mut String, unit: Unit, label: &str) {
        let axis =
            Axis { min: self.y.min / unit.divisor, max: self.y.max / unit.divisor, ..self.y };
        y_grid(out, &axis, LEFT, self.width - RIGHT, number);
        let y = (TOP + self.bottom) / 2.0;
        let _ = write!(
            out,
            "<text class=\"axis\" transform=\"translate(11 {y:.1}) rotate(-90)\" \
             text-anchor=\"middle\">{}</text>",
            escape(label)
        );
    }

    fn picture(&self, body: String) -> Picture {
        Picture { width: self.width as u32, height: (self.bottom + 38.0) as u32, body }
    }
}

fn last_second(policies: &[&PolicyStudy]) -> f64 {
    let last = |p: &&PolicyStudy| p.first().series.last().map_or(0.0, |point| point.seconds);
    policies.iter().map(last).fold(0.0, f64::max)
}

/// Share of accesses that the fast tier served, one curve per policy.
pub fn hit_ratio(size: &SizeStudy, palette: &Palette) -> String {
    let shown: Vec<&PolicyStudy> = size
        .policies
        .iter()
        .filter(|p| !matches!(p.spec.as_str(), "all-fast" | "all-slow"))
        .filter(|p| p.first().series.len() > 1)
        .collect();
    if shown.is_empty() {
        return String::new();
    }
    let busy = |point: &&SeriesPoint| point.accesses > 0;
    let lowest = shown.iter().flat_map(|p| p.first().series.iter().filter(busy));
    let lowest = lowest.map(|point| point.fast_hit_ratio).fold(1.0, f64::min);
    let bottom = if lowest > 0.55 { (lowest * 10.0).floor() / 10.0 } else { 0.0 };
    let frame = Frame::new(1060.0, 300.0, last_second(&shown), bottom * 100.0, 100.0);

    let mut body = String::new();
    frame.time_axis(&mut body);
    frame.y_axis(&mut body, Unit { divisor: 1.0, name: "%" }, "fast hits (%)");
    let mut legend = String::from("<ul class=\"legend\">");
    for policy in &shown {
        let points = policy.first().series.iter().filter(busy);
        let points = points.map(|p| (frame.x.at(p.seconds), frame.y.at(p.fast_hit_ratio * 100.0)));
        let (spec, stroke) = (escape(&policy.spec), palette.look(&policy.spec).stroke);
        let _ = write!(
            body,
            "<path class=\"curve {stroke}\" d=\"{}\"><title>{spec}</title></path>",
            path(points)
        );
        let _ = write!(
            legend,
            "<li><svg viewBox=\"0 0 26 12\" aria-hidden=\"true\">\
             <path class=\"curve {stroke}\" d=\"M0 6h26\"/></svg>{spec}</li>"
        );
    }
    legend.push_str("</ul>");
    let zoomed = if bottom > 0.0 { " The axis does not begin at 0." } else { "" };
    figure(
        "Hit ratio of the fast tier over time",
        &format!("Share of the accesses of each moment that fast memory served.{zoomed}"),
        &format!("Curves of the hit ratio over time at {}", size.fast),
        &frame.picture(body),
        &legend,
    )
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
    let unit = bytes_unit(highest);
    let seconds = last_second(&shown);
    let charts = shown.iter().map(|policy| classes_of(policy, size, seconds, highest, unit));
    charts.collect()
}

fn classes_of(
    policy: &PolicyStudy,
    size: &SizeStudy,
    seconds: f64,
    highest: f64,
    unit: Unit,
) -> String {
    let frame = Frame::new(520.0, 250.0, seconds, 0.0, highest * 1.04);
    let mut body = String::new();
    let series: Vec<(f64, [f64; 3])> = policy
        .first()
        .series
        .iter()
        .filter_map(|p| p.classes_bytes.map(|c| (p.seconds, c.map(|bytes| bytes as f64))))
        .collect();
    frame.time_axis(&mut body);
    frame.y_axis(&mut body, unit, &format!("memory ({})", unit.name));
    let mut below: Vec<f64> = vec![0.0; series.len()];
    for (class, name) in ["hot", "warm", "cold"].into_iter().enumerate() {
        let above: Vec<f64> = series.iter().zip(&below).map(|((_, c), b)| b + c[class]).collect();
        let at = |i: usize, v: f64| (frame.x.at(series[i].0), frame.y.at(v));
        let up = above.iter().enumerate().map(|(i, &v)| at(i, v));
        let back = below.iter().enumerate().rev().map(|(i, &v)| at(i, v));
        let outline = path(up.chain(back));
        let _ =
            write!(body, "<path class=\"{name}\" d=\"{outline}Z\"><title>{name}</title></path>");
        below = above;
    }
    let y = frame.y.at(size.fast_bytes as f64);
    let (x0, x1) = (frame.x.from, frame.x.to);
    let _ = write!(body, "<path class=\"limit\" d=\"M{x0:.1} {y:.1}H{x1:.1}\"/>");
    let legend = "<ul class=\"legend\">\
        <li><svg viewBox=\"0 0 26 12\" aria-hidden=\"true\"><rect class=\"hot\" width=\"26\" height=\"12\"/></svg>hot</li>\
        <li><svg viewBox=\"0 0 26 12\" aria-hidden=\"true\"><rect class=\"warm\" width=\"26\" height=\"12\"/></svg>warm</li>\
        <li><svg viewBox=\"0 0 26 12\" aria-hidden=\"true\"><rect class=\"cold\" width=\"26\" height=\"12\"/></svg>cold</li>\
        <li><svg viewBox=\"0 0 26 12\" aria-hidden=\"true\"><path class=\"limit\" d=\"M0 6h26\"/></svg>size of the fast tier</li></ul>";
    figure(
        &format!("Hot, warm and cold memory: {}", policy.spec),
        "As the policy classes it. Hot memory is meant to fill the fast tier and no more.",
        &format!("Areas of hot, warm and cold memory over time under {}", policy.spec),
        &frame.picture(body),
        legend,
    )
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
    let frame = Frame::new(520.0, 250.0, seconds, -top, top);
    let mut body = String::new();
    frame.time_axis(&mut body);
    let per_second = format!("{} per second", unit.name);
    for value in ticks(-top / unit.divisor, top / unit.divisor, 5) {
        let y = frame.y.at(value * unit.divisor);
        let _ = write!(
            body,
            "<path class=\"gridline\" d=\"M{LEFT} {y:.1}H{:.1}\"/>",
            frame.width - RIGHT
        );
        text(&mut body, "tick", LEFT - 6.0, y + 4.0, "end", &number(value.abs()));
    }
    for (class, sign) in [("up", 1.0), ("down", -1.0)] {
        let _ = write!(body, "<path class=\"{class}\" d=\"{}Z\"/>", steps(&frame, rates, sign));
    }
    let (y, x1) = (frame.y.at(0.0), frame.x.to);
    let _ = write!(body, "<path class=\"baseline\" d=\"M{LEFT} {y:.1}H{x1:.1}\"/>");
    let middle = (TOP + frame.bottom) / 2.0;
    let _ = write!(
        body,
        "<text class=\"axis\" transform=\"translate(11 {middle:.1}) rotate(-90)\" \
         text-anchor=\"middle\">{per_second}</text>"
    );
    let legend = "<ul class=\"legend\">\
        <li><svg viewBox=\"0 0 26 12\" aria-hidden=\"true\"><rect class=\"up\" width=\"26\" height=\"12\"/></svg>promoted (upwards)</li>\
        <li><svg viewBox=\"0 0 26 12\" aria-hidden=\"true\"><rect class=\"down\" width=\"26\" height=\"12\"/></svg>demoted (downwards)</li></ul>";
    figure(
        &format!("Migration traffic: {}", policy.spec),
        "Bytes moved to faster and to slower tiers. The scale is the same for all policies.",
        &format!("Migration traffic over time under {}", policy.spec),
        &frame.picture(body),
        legend,
    )
}

/// The outline of one direction's rates, from the zero line and back to it.
fn steps(frame: &Frame, rates: &[Rate], sign: f64) -> String {
    let zero = frame.y.at(0.0);
    let (Some(first), Some(last)) = (rates.first(), rates.last()) else {
        return format!("M{LEFT} {zero:.1}");
    };
    let flat = rates.iter().flat_map(|rate| {
        let value = if sign > 0.0 { rate.up } else { -rate.down };
        let y = frame.y.at(value);
        [(frame.x.at(rate.from), y), (frame.x.at(rate.to), y)]
    });
    let start = (frame.x.at(first.from), zero);
    let end = (frame.x.at(last.to), zero);
    path(std::iter::once(start).chain(flat).chain([end]))
}
