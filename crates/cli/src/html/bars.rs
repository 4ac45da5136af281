//! Comparison bars: slowdown and share of the bound.

use super::palette::Palette;
use super::svg::{Axis, Picture, escape, figure, number, round_up, text, ticks, x_grid};
use crate::study::stats::Stat;
use crate::study::{BoundResult, PolicyStudy, SizeStudy};
use std::fmt::Write;

const WIDTH: f64 = 520.0;
const ROW: f64 = 26.0;
const TOP: f64 = 8.0;
/// Room for a value behind the longest bar.
const VALUE: f64 = 116.0;
/// Width of a letter, about.
const LETTER: f64 = 6.6;

struct Layout<'a> {
    policies: Vec<&'a PolicyStudy>,
    left: f64,
    bottom: f64,
    axis: Axis,
}

impl<'a> Layout<'a> {
    fn new(size: &'a SizeStudy, min: f64, max: f64) -> Self {
        let policies = size.ranked();
        let longest = policies.iter().map(|p| short(&p.spec).chars().count()).max().unwrap_or(0);
        let left = (longest as f64 * LETTER + 14.0).clamp(70.0, 200.0);
        let bottom = TOP + policies.len() as f64 * ROW;
        let axis = Axis { min, max, from: left, to: WIDTH - VALUE };
        Self { policies, left, bottom, axis }
    }

    fn middle(&self, row: usize) -> f64 {
        TOP + (row as f64 + 0.5) * ROW
    }

    fn label(&self, out: &mut String, row: usize) {
        let spec = short(&self.policies[row].spec);
        text(out, "", self.left - 8.0, self.middle(row) + 4.0, "end", &spec);
    }

    fn bar(&self, out: &mut String, palette: &Palette, row: usize, stat: Stat, label: &str) {
        let spec = &self.policies[row].spec;
        let (y, x0, x1) = (self.middle(row), self.axis.from, self.axis.at(stat.mean));
        let _ = write!(
            out,
            "<rect class=\"{}\" x=\"{x0:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"2\">\
             <title>{}: {}</title></rect>",
            palette.look(spec).fill,
            y - ROW * 0.32,
            (x1 - x0).max(1.5),
            ROW * 0.64,
            escape(spec),
            escape(label)
        );
        let mut end = x1;
        if let Some(half) = stat.half_width.filter(|h| *h > 0.0) {
            let (a, b) = (self.axis.at(stat.mean - half), self.axis.at(stat.mean + half));
            let _ = write!(
                out,
                "<path class=\"whisker\" d=\"M{a:.1} {y:.1}L{b:.1} {y:.1}M{a:.1} {:.1}v8M{b:.1} {:.1}v8\"/>",
                y - 4.0,
                y - 4.0
            );
            end = end.max(b);
        }
        text(out, "strong", end + 6.0, y + 4.0, "start", label);
    }

    fn picture(&self, mut body: String, axis_label: &str) -> Picture {
        let x = (self.axis.from + self.axis.to) / 2.0;
        text(&mut body, "axis", x, self.bottom + 30.0, "middle", axis_label);
        Picture { width: WIDTH as u32, height: (self.bottom + 36.0) as u32, body }
    }
}

/// A policy's description, cut where it would push the bars aside.
fn short(spec: &str) -> String {
    const MOST: usize = 28;
    match spec.chars().count() {
        n if n <= MOST => spec.to_owned(),
        _ => spec.chars().take(MOST - 1).chain(['…']).collect(),
    }
}

/// Run time against all-fast, bars starting at 1.
pub fn slowdown(size: &SizeStudy, palette: &Palette) -> String {
    let stat = |policy: &PolicyStudy| policy.stat(|run| run.slowdown_vs_all_fast);
    let upper = |p: &&PolicyStudy| stat(p).mean + stat(p).half_width.unwrap_or(0.0);
    let ranked = size.ranked();
    let worst = ranked.iter().map(upper).fold(1.0, f64::max);
    let step = round_up((worst - 1.0) / 5.0);
    let max = 1.0 + step * ((worst - 1.0) / step).ceil().max(1.0);
    let layout = Layout::new(size, 1.0, max);

    let mut body = String::new();
    x_grid(&mut body, &layout.axis, TOP, layout.bottom, |v| format!("{} ×", number(v)));
    for (row, policy) in layout.policies.iter().enumerate() {
        layout.label(&mut body, row);
        let label = format!("{} ×", stat(policy).show(3));
        layout.bar(&mut body, palette, row, stat(policy), &label);
    }
    let best = layout.policies.first().map_or("", |p| p.spec.as_str());
    figure(
        "Slowdown",
        "Modelled run time against all memory being fast. Shorter is better.",
        &format!("Bars of the slowdown of every policy at {}; best: {best}", size.fast),
        &layout.picture(body, "run time / run time with all memory fast"),
        "",
    )
}

/// Share of the bound, from 0 to 1. Empty where no policy has one.
pub fn share_of_bound(size: &SizeStudy, palette: &Palette) -> String {
    let Ok(bound) = &size.bound else { return String::new() };
    let stat = |policy: &PolicyStudy| policy.stat_option(|run| run.share_of_bound);
    if size.policies.iter().all(|p| stat(p).is_none()) {
        return String::new();
    }
    let layout = Layout::new(size, 0.0, 1.0);
    let mut body = String::new();
    unsure(&mut body, bound, &layout);
    for value in ticks(0.0, 1.0, 4) {
        let x = layout.axis.at(value);
        let label = format!("{:.0} %", value * 100.0);
        let _ = write!(
            body,
            "<line class=\"gridline\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>",
            layout.bottom
        );
        text(&mut body, "tick", x, layout.bottom + 14.0, "middle", &label);
    }
    for (row, policy) in layout.policies.iter().enumerate() {
        layout.label(&mut body, row);
        match stat(policy) {
            Some(share) => {
                let label = format!("{} %", share.times(100.0).show(1));
                layout.bar(&mut body, palette, row, share, &label);
            }
            None => {
                let (x, y) = (layout.axis.from + 4.0, layout.middle(row) + 4.0);
                text(&mut body, "axis", x, y, "start", "n/a: has more fast memory");
            }
        }
    }
    let x = layout.axis.at(1.0);
    let _ = write!(
        body,
        "<line class=\"limit\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>",
        layout.bottom
    );
    figure(
        "Share of the bound",
        &format!(
            "Saved memory latency, migration paid, of what no placement can beat. Longer is better. \
             A plan that knows the future is known to reach {:.1} %; beyond that (hatched) the bound \
             may promise too much.",
            bound.feasible_share * 100.0
        ),
        &format!("Bars of every policy's share of the bound at {}", size.fast),
        &layout.picture(body, "share of the bound's saving"),
        "",
    )
}

fn unsure(body: &mut String, bound: &BoundResult, layout: &Layout<'_>) {
    let (from, to) = (layout.axis.at(bound.feasible_share), layout.axis.at(1.0));
    let _ = write!(
        body,
        "<rect class=\"unsure\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{:.1}\" \
         height=\"{:.1}\"/>",
        to - from,
        layout.bottom - TOP
    );
}
