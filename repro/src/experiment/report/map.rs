//! A result over two parameters, as a table in colours.

use crate::experiment::map::Map;
use frostline_report::html::heatmap::palette;
use frostline_report::html::svg::{escape, frame, table_of};

/// The table: brighter is more.
pub fn chart(map: &Map) -> String {
    let colours = palette();
    let known = || map.rows.iter().flatten().copied().flatten();
    let (low, high) = (known().fold(f64::MAX, f64::min), known().fold(f64::MIN, f64::max));
    let colour = |value: f64| {
        let place = if high > low { (value - low) / (high - low) } else { 0.5 };
        colours[(place * (colours.len() - 1) as f64).round() as usize]
    };
    let style = |value: f64| {
        let [r, g, b] = colour(value);
        // By how bright the colour is to the eye.
        let light = 0.3 * f64::from(r) + 0.59 * f64::from(g) + 0.11 * f64::from(b);
        let ink = if light > 110.0 { "#000" } else { "#fff" };
        format!(" style=\"background:#{r:02x}{g:02x}{b:02x};color:{ink}\"")
    };
    let (headings, rows) = map.table();
    let table = table_of(&headings, &rows, |row, column, text| match column.checked_sub(1) {
        None => format!("<th scope=\"row\">{}</th>", escape(text)),
        Some(at) => {
            let style = map.rows[row][at].map(style).unwrap_or_default();
            format!("<td{style}>{}</td>", escape(text))
        }
    });
    frame(&map.title(), "Brighter is more.", &table)
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
