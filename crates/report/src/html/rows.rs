//! Horizontal bars and ranges as a list: name, picture, value. The names are text of the page and
//! wrap; on a narrow page the picture goes below them.

use super::svg::{Axis, escape, ticks};
use std::fmt::Write;

/// Height of a row's picture, in pixels.
const HEIGHT: f64 = 22.0;

/// Rows over a common axis.
pub struct Rows {
    axis: Axis,
    grid: String,
    rows: String,
    class: &'static str,
}

impl Rows {
    /// With an axis from `min` to `max`, labelled by `label`; `class` is of the list.
    pub fn new(
        class: &'static str,
        [min, max]: [f64; 2],
        title: &str,
        label: impl Fn(f64) -> String,
    ) -> Self {
        let axis = Axis { min, max, from: 0.0, to: 100.0 };
        let mut grid = String::new();
        for value in ticks(min, max, 5) {
            let x = axis.at(value);
            let line = if value == 0.0 { "baseline" } else { "gridline" };
            let _ = write!(
                grid,
                "<line class=\"{line}\" x1=\"{x:.2}%\" x2=\"{x:.2}%\" y2=\"100%\"/>\
                 <text class=\"tick\" x=\"{x:.2}%\" y=\"100%\" dy=\"15\" \
                 text-anchor=\"middle\">{}</text>",
                escape(&label(value))
            );
        }
        let _ = write!(
            grid,
            "<text class=\"axis\" x=\"50%\" y=\"100%\" dy=\"32\" text-anchor=\"middle\">{}</text>",
            escape(title)
        );
        Self { axis, grid, rows: String::new(), class }
    }

    /// A dashed line at a value, through all rows.
    pub fn limit(&mut self, value: f64) {
        let x = self.axis.at(value);
        let _ =
            write!(self.grid, "<line class=\"limit\" x1=\"{x:.2}%\" x2=\"{x:.2}%\" y2=\"100%\"/>");
    }

    /// A hatched span through all rows.
    pub fn unsure(&mut self, from: f64, to: f64) {
        let (from, to) = (self.axis.at(from), self.axis.at(to));
        let _ = write!(
            self.grid,
            "<rect class=\"unsure\" x=\"{from:.2}%\" width=\"{:.2}%\" height=\"100%\"/>",
            to - from
        );
    }

    /// A heading between rows.
    pub fn heading(&mut self, text: &str) {
        let _ = write!(self.rows, "<li class=\"heading\">{}</li>", escape(text));
    }

    /// A row; `name` and `value` are HTML.
    pub fn row(&mut self, name: &str, value: &str, picture: &str) {
        let _ = write!(
            self.rows,
            "<li><span class=\"name\">{name}</span><span class=\"value\">{value}</span>\
             <svg class=\"track\" style=\"height:{HEIGHT}px\" aria-hidden=\"true\">{picture}</svg></li>"
        );
    }

    /// A bar from 0.
    pub fn bar(&self, class: &str, to: f64) -> String {
        self.span(class, 0.0f64.clamp(self.axis.min, self.axis.max), to, 4.0)
    }

    /// A span between two values, so many pixels away from the row's edges.
    pub fn span(&self, class: &str, from: f64, to: f64, inset: f64) -> String {
        let (a, b) = (self.axis.at(from.min(to)), self.axis.at(from.max(to)));
        format!(
            "<rect class=\"{class}\" x=\"{a:.2}%\" y=\"{inset}\" width=\"{:.2}%\" height=\"{}\"/>",
            (b - a).max(0.3),
            HEIGHT - 2.0 * inset
        )
    }

    /// A thick stroke across the row.
    pub fn stroke(&self, class: &str, at: f64) -> String {
        let x = self.axis.at(at);
        format!("<line class=\"{class}\" x1=\"{x:.2}%\" x2=\"{x:.2}%\" y1=\"2\" y2=\"20\"/>")
    }

    /// A line from 0.
    pub fn stem(&self, class: &str, to: f64) -> String {
        let (a, b) = (self.axis.at(0.0), self.axis.at(to));
        format!("<line class=\"{class}\" x1=\"{a:.2}%\" x2=\"{b:.2}%\" y1=\"11\" y2=\"11\"/>")
    }

    /// A dot.
    pub fn dot(&self, class: &str, at: f64) -> String {
        let x = self.axis.at(at);
        format!("<circle class=\"dot {class}\" cx=\"{x:.2}%\" cy=\"{}\" r=\"5\"/>", HEIGHT / 2.0)
    }

    /// An interval around a value.
    pub fn whisker(&self, mean: f64, half_width: Option<f64>) -> String {
        let Some(half) = half_width.filter(|half| *half > 0.0) else { return String::new() };
        let (a, b) = (self.axis.at(mean - half), self.axis.at(mean + half));
        let line = |class: &str, x0: f64, x1: f64, y0: f64, y1: f64| {
            format!(
                "<line class=\"{class}\" x1=\"{x0:.2}%\" x2=\"{x1:.2}%\" y1=\"{y0}\" y2=\"{y1}\"/>"
            )
        };
        // The brighter one below keeps it visible on dark bars.
        line("glow", a, b, 11.0, 11.0)
            + &line("whisker", a, b, 11.0, 11.0)
            + &line("whisker", a, a, 7.0, 15.0)
            + &line("whisker", b, b, 7.0, 15.0)
    }

    /// The list. `label` names it.
    pub fn show(self, label: &str) -> String {
        format!(
            "<div class=\"rows {}\"><svg class=\"behind\" aria-hidden=\"true\">{}</svg>\
             <ul aria-label=\"{}\">{}</ul></div>",
            self.class,
            self.grid,
            escape(label),
            self.rows
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(range: [f64; 2]) -> Rows {
        Rows::new("", range, "unit", |v| v.to_string())
    }

    #[test]
    fn bars_begin_at_nothing() {
        assert!(rows([0.0, 2.0]).bar("f0", 1.0).contains("x=\"0.00%\" y=\"4\" width=\"50.00%\""));
        let negative = rows([-1.0, 1.0]).bar("f0", -0.5);
        assert!(negative.contains("x=\"25.00%\" y=\"4\" width=\"25.00%\""), "{negative}");
    }

    #[test]
    fn what_is_sure_has_no_whisker() {
        assert_eq!(rows([0.0, 1.0]).whisker(0.5, None), "");
        assert_eq!(rows([0.0, 1.0]).whisker(0.5, Some(0.0)), "");
        assert!(rows([0.0, 1.0]).whisker(0.5, Some(0.1)).contains("x1=\"40.00%\" x2=\"60.00%\""));
    }

    #[test]
    fn names_and_values_are_text() {
        let mut rows = rows([0.0, 1.0]);
        let bar = rows.bar("f0", 0.5);
        rows.row("memtis", "0.5", &bar);
        let list = rows.show("shares");
        assert!(
            list.contains("<span class=\"name\">memtis</span><span class=\"value\">0.5</span>")
        );
        assert!(list.contains("<ul aria-label=\"shares\">"));
    }
}
