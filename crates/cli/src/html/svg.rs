//! Parts that all charts are made of.

use std::fmt::Write;

/// Text made safe for element content and quoted attributes.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// A chart with its caption; `explained` says how to read it. `label` is what a screen reader is
/// told about the picture.
pub fn figure(title: &str, explained: &str, label: &str, picture: &Picture, after: &str) -> String {
    let (title, explained, label) = (escape(title), escape(explained), escape(label));
    let (w, h, body) = (picture.width, picture.height, &picture.body);
    format!(
        "<figure><figcaption>{title}<small>{explained}</small></figcaption>\
         <svg viewBox=\"0 0 {w} {h}\" role=\"img\" aria-label=\"{label}\">{body}</svg>{after}</figure>\n"
    )
}

/// What is drawn, in units of about a pixel.
pub struct Picture {
    pub width: u32,
    pub height: u32,
    pub body: String,
}

/// A linear axis: values `[min, max]` on positions `[from, to]`.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    pub min: f64,
    pub max: f64,
    pub from: f64,
    pub to: f64,
}

impl Axis {
    /// Position of a value; values outside end at the border.
    pub fn at(&self, value: f64) -> f64 {
        let span = self.max - self.min;
        let share = if span > 0.0 { (value - self.min) / span } else { 0.0 };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }
}

/// About `wanted` round values within `[min, max]`.
pub fn ticks(min: f64, max: f64, wanted: usize) -> Vec<f64> {
    let span = max - min;
    if !(span > 0.0 && span.is_finite()) || wanted == 0 {
        return vec![min];
    }
    let step = round_up(span / wanted as f64);
    let first = (min / step - 1e-9).ceil() as i64;
    let last = (max / step + 1e-9).floor() as i64;
    (first..=last).map(|i| i as f64 * step).collect()
}

/// The next of 1, 2, 5, 10, 20, ... that is not below `value`.
pub fn round_up(value: f64) -> f64 {
    if !(value > 0.0 && value.is_finite()) {
        return 1.0;
    }
    let magnitude = 10f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0];
    let step = steps.into_iter().find(|s| s * magnitude >= value * (1.0 - 1e-9));
    step.unwrap_or(10.0) * magnitude
}

/// Unit of an axis: divisor and name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    pub divisor: f64,
    pub name: &'static str,
}

/// Unit in which the largest of some spans in seconds reads well.
pub fn time_unit(max_seconds: f64) -> Unit {
    let units = [(1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")];
    let found = units.iter().find(|(divisor, _)| max_seconds >= *divisor);
    found.map_or(Unit { divisor: 1.0, name: "s" }, |&(divisor, name)| Unit { divisor, name })
}

/// The same for bytes.
pub fn bytes_unit(max_bytes: f64) -> Unit {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let found = units.iter().find(|(shift, _)| max_bytes >= (1u64 << shift) as f64);
    found.map_or(Unit { divisor: 1.0, name: "B" }, |&(shift, name)| Unit {
        divisor: (1u64 << shift) as f64,
        name,
    })
}

/// A tick's label without needless zeros.
pub fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Vertical grid lines with labels below them.
pub fn x_grid(out: &mut String, axis: &Axis, top: f64, bottom: f64, label: impl Fn(f64) -> String) {
    for value in ticks(axis.min, axis.max, 6) {
        let x = axis.at(value);
        let _ = write!(
            out,
            "<line class=\"gridline\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top:.1}\" y2=\"{bottom:.1}\"/>\
             <text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 14.0,
            escape(&label(value))
        );
    }
}

/// Horizontal grid lines with labels at their left.
pub fn y_grid(out: &mut String, axis: &Axis, left: f64, right: f64, label: impl Fn(f64) -> String) {
    for value in ticks(axis.min, axis.max, 5) {
        let y = axis.at(value);
        let _ = write!(
            out,
            "<line class=\"gridline\" x1=\"{left:.1}\" x2=\"{right:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 6.0,
            y + 4.0,
            escape(&label(value))
        );
    }
}

/// Text; `anchor` is `start`, `middle` or `end`.
pub fn text(out: &mut String, class: &str, x: f64, y: f64, anchor: &str, content: &str) {
    let _ = write!(
        out,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
        escape(content)
    );
}

/// `M x y L x y ...` through the points.
pub fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut out = String::new();
    for (i, (x, y)) in points.enumerate() {
        let _ = write!(out, "{}{x:.1} {y:.1}", if i == 0 { "M" } else { "L" });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(ticks(0.0, 1.0, 5), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert_eq!(ticks(1.0, 3.7, 6), [1.0, 1.5, 2.0, 2.5, 3.0, 3.5]);
        assert_eq!(ticks(2.0, 2.0, 5), [2.0]);
        for (min, max) in [(0.0, 1e-7), (3.0, 4e12), (-5.0, 17.0)] {
            let ticks = ticks(min, max, 6);
            assert!((2..=8).contains(&ticks.len()), "{ticks:?}");
        }
    }

    #[test]
    fn rounding_goes_up() {
        for (value, round) in [(1.0, 1.0), (1.1, 2.0), (0.21, 0.5), (51.0, 100.0), (0.0, 1.0)] {
            assert!((round_up(value) - round).abs() < 1e-9 * round, "{value}");
        }
    }

    #[test]
    fn units_and_labels() {
        assert_eq!(time_unit(0.02).name, "ms");
        assert_eq!(bytes_unit(5e6).name, "MiB");
        assert_eq!(
            (number(0.5), number(2.0), number(-0.0)),
            ("0.5".into(), "2".into(), "0".into())
        );
        assert_eq!(escape("a<b>\"&'"), "a&lt;b&gt;&quot;&amp;&#39;");
    }
}
