//! Charts as wide as the page lets them be: lengths along x are shares of the width, letters and
//! strokes keep their size.

use super::svg::{Axis, Unit, escape, ticks};
use std::fmt::Write;

/// Units of the stretched layer along either axis.
const FINE: f64 = 1000.0;
/// Least distance of two keys, in pixels.
const KEY: f64 = 13.0;

/// A chart with a grid; the picture itself is the plotted area, labels stand outside of it.
pub struct Plot {
    height: f64,
    x: Axis,
    y: Axis,
    /// Grid and labels, in pixels and per cents.
    under: String,
    /// Curves and areas, in units of [`FINE`].
    shapes: String,
    /// What goes over them, in pixels and per cents.
    over: String,
    keys: Vec<(f64, f64, String)>,
}

impl Plot {
    /// Of so many pixels' height; `x` and `y` are the least and the largest value.
    pub fn new(height: f64, x: [f64; 2], y: [f64; 2]) -> Self {
        let x = Axis { min: x[0], max: x[1], from: 0.0, to: 100.0 };
        let y = Axis { min: y[0], max: y[1], from: height, to: 0.0 };
        let (under, shapes, over) = Default::default();
        Self { height, x, y, under, shapes, over, keys: Vec::new() }
    }

    /// Vertical grid with labels, in a unit.
    pub fn x_axis(&mut self, unit: Unit, title: &str, label: impl Fn(f64) -> String) {
        let height = self.height;
        for value in ticks(self.x.min / unit.divisor, self.x.max / unit.divisor, 5) {
            let x = self.x.at(value * unit.divisor);
            let _ = write!(
                self.under,
                "<line class=\"gridline\" x1=\"{x:.2}%\" x2=\"{x:.2}%\" y2=\"100%\"/>\
                 <text class=\"tick\" x=\"{x:.2}%\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                height + 15.0,
                escape(&label(value))
            );
        }
        let _ = write!(
            self.under,
            "<text class=\"axis\" x=\"50%\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            height + 32.0,
            escape(title)
        );
    }

    /// Horizontal grid with labels; the title stands above the axis.
    pub fn y_axis(&mut self, unit: Unit, title: &str, label: impl Fn(f64) -> String) {
        for value in ticks(self.y.min / unit.divisor, self.y.max / unit.divisor, 5) {
            let y = self.y.at(value * unit.divisor);
            let _ = write!(
                self.under,
                "<line class=\"gridline\" x2=\"100%\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"tick\" x=\"-6\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                y + 4.0,
                escape(&label(value))
            );
        }
        let _ =
            write!(self.under, "<text class=\"axis\" x=\"-42\" y=\"-20\">{}</text>", escape(title));
    }

    /// A word above the plot at a place of the x axis.
    pub fn note(&mut self, x: f64, word: &str) {
        let x = self.x.at(x);
        let _ = write!(
            self.under,
            "<text class=\"tick\" x=\"{x:.2}%\" y=\"-4\" text-anchor=\"middle\">{}</text>\
             <line class=\"gridline\" x1=\"{x:.2}%\" x2=\"{x:.2}%\" y2=\"100%\"/>",
            escape(word)
        );
    }

    /// A word at the upper edge, for a point that lies above it.
    pub fn beyond(&mut self, x: f64, word: &str) {
        let x = self.x.at(x);
        let _ = write!(
            self.over,
            "<text class=\"tick\" x=\"{x:.2}%\" y=\"12\" text-anchor=\"middle\">{}</text>",
            escape(word)
        );
    }

    /// A line through the points, and a key at its end where there is one.
    pub fn curve(&mut self, class: &str, points: &[(f64, f64)], name: &str, key: Option<usize>) {
        let _ = write!(
            self.shapes,
            "<path class=\"curve {class}\" d=\"{}\"><title>{}</title></path>",
            self.outline(points),
            escape(name)
        );
        if let (Some(key), Some(&(x, y))) = (key, points.last()) {
            self.keys.push((self.x.at(x), self.y.at(y), key.to_string()));
        }
    }

    /// A filled outline.
    pub fn area(&mut self, class: &str, points: &[(f64, f64)], name: &str) {
        let _ = write!(
            self.shapes,
            "<path class=\"{class}\" d=\"{}Z\"><title>{}</title></path>",
            self.outline(points),
            escape(name)
        );
    }

    /// A dashed line across, over everything.
    pub fn limit(&mut self, y: f64) {
        let y = self.y.at(y);
        for class in ["halo", "limit"] {
            let _ = write!(
                self.over,
                "<line class=\"{class}\" x2=\"100%\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
            );
        }
    }

    /// A solid thin line across.
    pub fn baseline(&mut self, y: f64) {
        let y = self.y.at(y);
        let _ =
            write!(self.over, "<line class=\"baseline\" x2=\"100%\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>");
    }

    /// A dot with an interval.
    pub fn dot(&mut self, class: &str, x: f64, y: f64, half_width: Option<f64>) {
        let (px, py) = (self.x.at(x), self.y.at(y));
        if let Some(half) = half_width.filter(|half| *half > 0.0) {
            let (a, b) = (self.y.at(y - half), self.y.at(y + half));
            let _ = write!(
                self.over,
                "<line class=\"whisker\" x1=\"{px:.2}%\" x2=\"{px:.2}%\" y1=\"{a:.1}\" y2=\"{b:.1}\"/>"
            );
        }
        let _ = write!(
            self.over,
            "<circle class=\"dot {class}\" cx=\"{px:.2}%\" cy=\"{py:.1}\" r=\"4\"/>"
        );
    }

    /// An interval along x, with a dot in it.
    pub fn interval(&mut self, class: &str, [low, x, high]: [f64; 3], y: f64) {
        let (a, b, py) = (self.x.at(low), self.x.at(high), self.y.at(y));
        let _ = write!(
            self.over,
            "<line class=\"whisker\" x1=\"{a:.2}%\" x2=\"{b:.2}%\" y1=\"{py:.1}\" y2=\"{py:.1}\"/>"
        );
        self.dot(class, x, y, None);
    }

    /// The chart. `label` names it to a screen reader, `description` says what it shows.
    pub fn show(mut self, label: &str, description: &str) -> String {
        self.place_keys();
        format!(
            "<div class=\"plot\"><svg style=\"height:{}px\" role=\"img\" aria-label=\"{}\">\
             <desc>{}</desc>{}<svg class=\"stretch\" viewBox=\"0 0 {FINE} {FINE}\" \
             preserveAspectRatio=\"none\" width=\"100%\" height=\"100%\">{}</svg>{}</svg></div>",
            self.height,
            escape(label),
            escape(description),
            self.under,
            self.shapes,
            self.over
        )
    }

    /// Keys of curves that end close to each other move apart, up and down alike.
    fn place_keys(&mut self) {
        self.keys.sort_by(|a, b| a.1.total_cmp(&b.1));
        // Those that move together: keys, and where the middle of them is.
        let mut stacks: Vec<(f64, Vec<usize>)> = Vec::new();
        for (index, (x, y, _)) in self.keys.iter().enumerate() {
            let mut stack = (*y, vec![index]);
            while let Some(at) = stacks.iter().rposition(|(middle, others)| {
                let near = others.iter().any(|&other| (self.keys[other].0 - x).abs() < 8.0);
                let room = KEY * (others.len() + stack.1.len()) as f64 / 2.0;
                near && (stack.0 - middle).abs() < room
            }) {
                let (middle, mut keys) = stacks.remove(at);
                let (old, new) = (keys.len() as f64, stack.1.len() as f64);
                keys.append(&mut stack.1);
                stack = ((middle * old + stack.0 * new) / (old + new), keys);
            }
            stacks.push(stack);
        }
        for (middle, keys) in stacks {
            let first = middle - KEY * (keys.len() - 1) as f64 / 2.0;
            for (place, index) in keys.into_iter().enumerate() {
                let (x, _, key) = &self.keys[index];
                let _ = write!(
                    self.over,
                    "<text class=\"key\" x=\"{x:.2}%\" dx=\"6\" y=\"{:.1}\">{key}</text>",
                    first + KEY * place as f64 + 4.0
                );
            }
        }
    }

    /// `m x y l dx dy ...` in whole units, points that change nothing left out.
    fn outline(&self, points: &[(f64, f64)]) -> String {
        let fine = |&(x, y): &(f64, f64)| {
            let (x, y) = (self.x.at(x) / 100.0, self.y.at(y) / self.height);
            ((x * FINE).round() as i32, (y * FINE).round() as i32)
        };
        let mut kept: Vec<(i32, i32)> = Vec::with_capacity(points.len());
        for point in points.iter().map(fine) {
            if kept.last() == Some(&point) {
                continue;
            }
            if let [.., (xa, ya), (xb, yb)] = kept[..]
                && (straight(xa, xb, point.0) && ya == yb && yb == point.1
                    || straight(ya, yb, point.1) && xa == xb && xb == point.0)
            {
                kept.pop();
            }
            kept.push(point);
        }
        let mut out = String::new();
        let mut last = None;
        for (x, y) in kept {
            let (command, dx, dy) = match last {
                None => ("M", x, y),
                Some((0usize, px, py)) => ("l", x - px, y - py),
                Some((_, px, py)) => (if x < px { "" } else { " " }, x - px, y - py),
            };
            let comma = if dy < 0 { "" } else { " " };
            let _ = write!(out, "{command}{dx}{comma}{dy}");
            last = Some((last.map_or(0, |(n, ..)| n + 1), x, y));
        }
        out
    }
}

/// Whether the middle one lies between the others.
fn straight(a: i32, b: i32, c: i32) -> bool {
    (a <= b && b <= c) || (a >= b && b >= c)
}

/// An entry of a legend.
pub enum Entry<'a> {
    /// A line: its class, its key if any, and its name.
    Line(&'a str, Option<usize>, &'a str),
    /// An area: its class and its name.
    Area(&'a str, &'a str),
}

/// What the lines and areas of a chart are.
pub fn legend(entries: &[Entry<'_>]) -> String {
    let mut out = String::from("<ul class=\"legend\">");
    for entry in entries {
        let (picture, key, name) = match entry {
            Entry::Line(class, key, name) => {
                (format!("<path class=\"curve {class}\" d=\"M0 6h30\"/>"), *key, name)
            }
            Entry::Area(class, name) => {
                (format!("<rect class=\"{class}\" width=\"30\" height=\"12\"/>"), None, name)
            }
        };
        let key = key.map_or_else(String::new, |key| format!("<b>{key}</b> "));
        let _ = write!(
            out,
            "<li><svg viewBox=\"0 0 30 12\" aria-hidden=\"true\">{picture}</svg>{key}{}</li>",
            escape(name)
        );
    }
    out.push_str("</ul>");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot() -> Plot {
        Plot::new(200.0, [0.0, 10.0], [0.0, 1.0])
    }

    #[test]
    fn outlines_are_short_and_complete() {
        let points = [(0.0, 0.0), (1.0, 0.0), (2.0, 0.0), (2.0, 1.0), (10.0, 0.5)];
        assert_eq!(plot().outline(&points), "M0 1000l200 0 0-1000 800 500");
        assert_eq!(plot().outline(&[]), "");
        // A peak in a vertical line stays.
        let peak = [(1.0, 0.0), (1.0, 1.0), (1.0, 0.5)];
        assert_eq!(plot().outline(&peak), "M100 1000l0-1000 0 500");
        // Backwards, as the lower edge of an area goes.
        let back = [(10.0, 1.0), (5.0, 0.5), (0.0, 0.5)];
        assert_eq!(plot().outline(&back), "M1000 0l-500 500-500 0");
    }

    #[test]
    fn keys_do_not_cover_each_other() {
        let mut plot = plot();
        for key in 1..=4 {
            plot.curve("s0", &[(0.0, 0.5), (10.0, 0.5)], "", Some(key));
        }
        plot.place_keys();
        let mut heights: Vec<f64> = plot
            .over
            .split(" y=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next()?.parse().ok())
            .collect();
        heights.sort_by(f64::total_cmp);
        assert_eq!(heights.len(), 4);
        assert!(heights.windows(2).all(|pair| pair[1] - pair[0] >= KEY - 0.1), "{heights:?}");
        // All end at a height of 100: the stack lies around it.
        let middle = heights.iter().sum::<f64>() / 4.0 - 4.0;
        assert!((middle - 100.0).abs() < 0.1, "{heights:?}");
    }

    #[test]
    fn nothing_depends_on_the_width() {
        let mut plot = plot();
        plot.x_axis(Unit { divisor: 1.0, name: "s" }, "time", |v| v.to_string());
        plot.dot("f0", 5.0, 0.5, Some(0.1));
        let svg = plot.show("a chart", "what it shows");
        assert!(svg.contains("x1=\"50.00%\"") && svg.contains("cx=\"50.00%\""), "{svg}");
        assert!(svg.contains("aria-label=\"a chart\"><desc>what it shows</desc>"));
    }
}
