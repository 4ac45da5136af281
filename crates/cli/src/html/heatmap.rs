//! The picture of address over time.

use super::png;
use super::svg::{Axis, Picture, figure, number, text, ticks, time_unit};
use crate::units::{bytes, count};
use frostline_core::types::{HUGE_PAGES, PAGE_BYTES};
use frostline_sim::Heatmap;
use std::fmt::Write;

const WIDTH: f64 = 1060.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 76.0;
const TOP: f64 = 10.0;
const RIGHT: f64 = 120.0;
const BOTTOM: f64 = HEIGHT - 38.0;
/// Shades of a map; 0 is "no access" and transparent.
const SHADES: usize = 255;

/// The chart; empty where nothing was collected. `policy` says under whom time went by.
pub fn chart(map: &Heatmap, policy: &str) -> String {
    let columns = map.counts.iter().map(Vec::len).max().unwrap_or(0);
    let rows = map.counts.len();
    if columns == 0 || rows == 0 {
        return String::new();
    }
    let most = map.counts.iter().flatten().copied().max().unwrap_or(0);
    let seconds = map.column_seconds * columns as f64;
    let x = Axis { min: 0.0, max: seconds, from: LEFT, to: WIDTH - RIGHT };
    let mut body = String::new();
    let (w, h) = (x.to - x.from, BOTTOM - TOP);
    let picture = png::data_uri(&png::encode(columns, &pixels(map, columns, most), &palette()));
    let _ = write!(
        body,
        "<rect class=\"night\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{w:.1}\" height=\"{h:.1}\"/>\
         <image x=\"{LEFT}\" y=\"{TOP}\" width=\"{w:.1}\" height=\"{h:.1}\" \
         preserveAspectRatio=\"none\" style=\"image-rendering:pixelated\" href=\"{picture}\"/>"
    );
    axes(&mut body, map, &x);
    colour_bar(&mut body, most);
    figure(
        "Accesses by address over time",
        &format!(
            "Brighter is more accesses that reached memory (logarithmic). Rows are the memory that \
             was ever touched, in address order; time is that of {policy}."
        ),
        "Heatmap of accesses by address over time",
        &Picture { width: WIDTH as u32, height: HEIGHT as u32, body },
        "",
    )
}

/// Row by row from the top, which is the highest address.
fn pixels(map: &Heatmap, columns: usize, most: u64) -> Vec<u8> {
    let full = (1.0 + most as f64).ln();
    let shade = |n: u64| match n {
        0 => 0,
        n => (1.0 + (1.0 + n as f64).ln() / full * (SHADES - 1) as f64) as u8,
    };
    let row = |counts: &Vec<u64>| {
        let counts = counts.iter().copied().chain(std::iter::repeat(0)).take(columns);
        counts.map(shade).collect::<Vec<u8>>()
    };
    map.counts.iter().rev().flat_map(row).collect()
}

/// From dark blue over grey to yellow, growing evenly in lightness for every kind of sight (after
/// the stations of the cividis map).
fn palette() -> Vec<[u8; 3]> {
    const STATIONS: [[f64; 3]; 6] = [
        [10.0, 40.0, 92.0],
        [62.0, 77.0, 108.0],
        [107.0, 110.0, 117.0],
        [150.0, 143.0, 119.0],
        [201.0, 185.0, 101.0],
        [255.0, 234.0, 70.0],
    ];
    let colour = |i: usize| {
        let place = i as f64 / SHADES as f64 * (STATIONS.len() - 1) as f64;
        let low = (place as usize).min(STATIONS.len() - 2);
        let part = place - low as f64;
        [0, 1, 2].map(|c| (STATIONS[low][c] * (1.0 - part) + STATIONS[low + 1][c] * part) as u8)
    };
    (0..=SHADES).map(colour).collect()
}

fn axes(out: &mut String, map: &Heatmap, x: &Axis) {
    let unit = time_unit(x.max);
    let scaled = Axis { max: x.max / unit.divisor, ..*x };
    for value in ticks(0.0, scaled.max, 6) {
        text(out, "tick", scaled.at(value), BOTTOM + 14.0, "middle", &number(value));
    }
    let middle = (x.from + x.to) / 2.0;
    text(out, "axis", middle, BOTTOM + 31.0, "middle", &format!("modelled time ({})", unit.name));

    let rows = map.row_regions.len();
    let region_bytes = (u64::from(HUGE_PAGES) * PAGE_BYTES) as f64;
    let labels = rows.min(6);
    for i in 0..labels {
        let row = i * rows / labels;
        let y = BOTTOM - row as f64 / rows as f64 * (BOTTOM - TOP);
        let offset = f64::from(map.row_regions[row]) * region_bytes;
        text(out, "tick", LEFT - 6.0, y + if i == 0 { 0.0 } else { 4.0 }, "end", &bytes(offset));
    }
    let y = (TOP + BOTTOM) / 2.0;
    let _ = write!(
        out,
        "<text class=\"axis\" transform=\"translate(11 {y:.1}) rotate(-90)\" text-anchor=\"middle\">\
         address, holes left out</text>"
    );
}

fn colour_bar(out: &mut String, most: u64) {
    let x = WIDTH - RIGHT + 18.0;
    let shades: Vec<u8> = (1..=SHADES as u8).rev().collect();
    let picture = png::data_uri(&png::encode(1, &shades, &palette()));
    let _ = write!(
        out,
        "<image x=\"{x:.1}\" y=\"{TOP}\" width=\"14\" height=\"160\" preserveAspectRatio=\"none\" \
         href=\"{picture}\"/>"
    );
    text(out, "tick", x + 20.0, TOP + 10.0, "start", &count(most as f64));
    text(out, "tick", x + 20.0, TOP + 160.0, "start", "few");
    text(out, "axis", x, TOP + 180.0, "start", "accesses");
    text(out, "axis", x, TOP + 194.0, "start", "per cell");
}
