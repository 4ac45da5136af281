//! Parts that all charts are made of.

use frostline_core::foreign::leads;
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
            // No browser obeys them, but writing from right to left is.
            c if leads(c) && c != '\n' && c != '\t' => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

/// A chart with its caption; `explained` says how to read it.
pub fn frame(title: &str, explained: &str, chart: &str) -> String {
    let (title, explained) = (escape(title), escape(explained));
    format!("<figure><figcaption>{title}<small>{explained}</small></figcaption>{chart}</figure>\n")
}

/// A description of a policy, broken only where its parts end. Takes plain text.
pub fn spec(text: &str) -> String {
    let mut out = escape(text);
    for end in [":", "="] {
        out = out.replace(end, &format!("{end}<wbr>"));
    }
    out
}

/// The numbers behind a chart, folded away: for those who do not see it, and for looking up.
pub fn data(headings: &[String], rows: &[Vec<String>]) -> String {
    let mut out = String::from("<details class=\"data\"><summary>As a table</summary>");
    out.push_str(&table(headings, rows));
    out.push_str("</details>");
    out
}

/// A table that scrolls within itself. The first cell of a row says what the row is about.
pub fn table(headings: &[String], rows: &[Vec<String>]) -> String {
    table_of(headings, rows, |_, column, text| match column {
        0 => format!("<th scope=\"row\">{}</th>", spec(text)),
        _ => format!("<td>{}</td>", escape(text)),
    })
}

/// The same, with cells made of row, column and text.
pub fn table_of(
    headings: &[String],
    rows: &[Vec<String>],
    cell: impl Fn(usize, usize, &str) -> String,
) -> String {
    let mut out = String::from("<div class=\"scroll\" tabindex=\"0\"><table><thead><tr>");
    for heading in headings {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escape(heading));
    }
    out.push_str("</tr></thead><tbody>");
    for (y, row) in rows.iter().enumerate() {
        out.push_str("<tr>");
        row.iter().enumerate().for_each(|(x, text)| out.push_str(&cell(y, x, text)));
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
    out
}

/// A linear axis: values `[min, max]` on positions `[from, to]`.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// Least value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Position of the least value.
    pub from: f64,
    /// Position of the largest value.
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

/// Where an axis of slowdowns ends: at the longest of them, but for those that would squeeze all others,
/// farther from 1 than four times the median. `f64::INFINITY` and what is no number count for none.
pub fn slowest_shown(slowdowns: impl IntoIterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = slowdowns.into_iter().filter(|v| v.is_finite()).collect();
    all.sort_by(f64::total_cmp);
    let Some(median) = all.get(all.len() / 2) else { return 1.0 };
    let farthest = 1.0 + 4.0 * (median - 1.0).max(0.05);
    all.into_iter().filter(|v| *v <= farthest).fold(1.0, f64::max)
}

/// Unit of an axis: divisor and name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// What values are divided by.
    pub divisor: f64,
    /// Its sign, empty for plain numbers.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slow_policy_does_not_squeeze_the_others() {
        assert_eq!(slowest_shown([1.2, 1.3, 1.4, 9.0]), 1.4);
        assert_eq!(slowest_shown([1.2, 1.3, 1.4, 2.0]), 2.0);
        assert_eq!(slowest_shown([1.0, 1.0, 1.1, f64::INFINITY]), 1.1);
        assert_eq!(slowest_shown([]), 1.0);
    }

    #[test]
    fn text_cannot_turn_what_stands_beside_it_around() {
        assert_eq!(escape("a\u{202e}<b>\x1b\n"), "a\\u{202e}&lt;b&gt;\\u{1b}\n");
    }

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
