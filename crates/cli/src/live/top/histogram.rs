//! Memory by hotness: a row, or several, for each tier.

use super::picture::{DIM, TIERS, size};
use frostline_driver::Status;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

/// Columns of a bin.
const WIDTH: usize = 4;
/// Parts of a full cell.
const LEVELS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
/// Less than a page has no height.
const LEAST_BYTES: u64 = 4096;

/// The picture, `rows` cells high for each tier. Heights are logarithmic: a megabyte shall be seen
/// beside a terabyte.
pub fn lines(status: &Status, rows: usize) -> Vec<Line<'static>> {
    let bins = &status.hotness;
    let of_tiers = bins.iter().flat_map(|bin| &bin.tier_bytes);
    let Some(most) = of_tiers.copied().max().filter(|most| *most >= LEAST_BYTES) else {
        return Vec::new();
    };
    let height = |bytes: u64| {
        let part = |bytes: u64| (bytes as f64 / LEAST_BYTES as f64).log2() + 1.0;
        if bytes < LEAST_BYTES {
            0
        } else {
            (part(bytes) / part(most) * cells(rows)).ceil() as usize
        }
    };
    let mut lines = Vec::new();
    for (index, tier) in status.tiers.iter().enumerate() {
        let heights: Vec<usize> = bins
            .iter()
            .map(|bin| height(bin.tier_bytes.get(index).copied().unwrap_or(0)))
            .collect();
        for row in (0..rows).rev() {
            let name = if row + 1 == rows { tier.name.as_str() } else { "" };
            let cell = |height: &usize| {
                let level = height.saturating_sub(row * (LEVELS.len() - 1)).min(LEVELS.len() - 1);
                LEVELS[level].repeat(WIDTH - 1) + " "
            };
            let bars: String = heights.iter().map(cell).collect();
            let colour = TIERS[index.min(TIERS.len() - 1)];
            lines.push(Line::from(vec![
                Span::raw(format!("{name:8} ")),
                Span::styled(bars, Style::new().fg(colour)),
                Span::styled(if row == 0 && index == 0 { "log" } else { "" }, DIM),
            ]));
        }
    }
    let least: String = bins.iter().map(|bin| format!("{:<WIDTH$}", short(bin.least))).collect();
    lines.push(Line::raw(format!("hotness  {least}")));
    let mut classes = String::new();
    let mut before = "";
    for bin in bins {
        let word = if bin.class == before { "" } else { bin.class.as_str() };
        classes += &format!("{word:·<WIDTH$.WIDTH$}");
        before = &bin.class;
    }
    lines.push(Line::styled(format!("         {classes} largest {}", size(most)), DIM));
    lines
}

fn cells(rows: usize) -> f64 {
    (rows * (LEVELS.len() - 1)) as f64
}

/// A power of two in at most three characters.
fn short(number: u32) -> String {
    match number {
        0..1000 => number.to_string(),
        1000..1_000_000 => format!("{}k", number / 1024),
        _ => format!("{}M", number >> 20),
    }
}
