//! A result over two parameters, as a table in colours.

use super::heatmap::palette;
use super::svg::{escape, frame};
use crate::experiment::map::Map;
use std::fmt::Write;

/// The table: brighter is more.
pub fn chart(map: &Map) -> String {
    let colours = palette();
    let known = || map.rows.iter().flatten().copied().flatten();
    let (low, high) = (known().fold(f64::MAX, f64::min), known().fold(f64::MIN, f64::max));
    let colour = |value: f64| {
        let place = if high > low { (value - low) / (high - low) } else { 0.5 };
        colours[(place * (colours.len() - 1) as f64).round() as usize]
    };
    let (headings, rows) = map.table();
    let mut out =
        String::from("<div class=\"scroll\" tabindex=\"0\"><table class=\"map\"><thead><tr>");
    for heading in headings {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escape(&heading));
    }
    out.push_str("</tr></thead><tbody>");
    for (texts, values) in rows.iter().zip(&map.rows) {
        let mut texts = texts.iter().map(|text| escape(text));
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", texts.next().unwrap_or_default());
        for (text, value) in texts.zip(values) {
            let style = value.map_or(String::new(), |value| {
                let [r, g, b] = colour(value);
                // By how bright the colour is to the eye.
                let light = 0.3 * f64::from(r) + 0.59 * f64::from(g) + 0.11 * f64::from(b);
                let ink = if light > 110.0 { "#000" } else { "#fff" };
                format!(" style=\"background:#{r:02x}{g:02x}{b:02x};color:{ink}\"")
            });
            let _ = write!(out, "<td{style}>{text}</td>");
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
    frame(&map.title(), "Brighter is more.", &out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::map::Parameter;

    #[test]
    fn cells_have_their_numbers_and_colours() {
        let parameter = |name: &str, values: &[&str]| Parameter {
            parameter: name.into(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        let map = Map {
            what: "saved <".into(),
            unit: "%",
            down: parameter("scan", &["1x", "2x"]),
            across: parameter("sampling", &["1x"]),
            rows: vec![vec![Some(3.25)], vec![None]],
        };
        let shown = chart(&map);
        assert!(shown.contains("saved &lt; (%)") && shown.contains(">3.2</td>"), "{shown}");
        assert!(shown.contains("scope=\"row\">scan=2x</th><td>-</td>"), "{shown}");
        let two = chart(&Map { rows: vec![vec![Some(-1.0)], vec![Some(9.0)]], ..map });
        let colours: Vec<&str> = two.split("background:").skip(1).map(|s| &s[..18]).collect();
        assert_eq!(colours, ["#0a285c;color:#fff", "#ffea46;color:#000"], "{two}");
    }
}
