//! The picture of address over time.

use super::picture;
use super::svg::{Axis, data, escape, frame, number, ticks, time_unit};
use crate::units::{self, bytes, count};
use frostline_core::types::{HUGE_PAGES, PAGE_BYTES};
use frostline_sim::Heatmap;
use std::fmt::Write;

const HEIGHT: f64 = 340.0;
/// Bands of addresses, and spans of time, in the table beside it.
const BANDS: usize = 6;
/// Shades of a map; 0 is "no access" and transparent.
const SHADES: usize = 255;

/// The chart; empty where nothing was collected. `policy` says under whom time went by.
pub fn chart(map: &Heatmap, policy: &str) -> String {
    titled(map, policy, "Accesses by address over time", "address order")
}

/// The same under another heading; `order` says how rows are sorted.
pub fn titled(map: &Heatmap, policy: &str, heading: &str, order: &str) -> String {
    let columns = map.counts.iter().map(Vec::len).max().unwrap_or(0);
    let rows = map.counts.len();
    if columns == 0 || rows == 0 {
        return String::new();
    }
    let most = map.counts.iter().flatten().copied().max().unwrap_or(0);
    let seconds = map.column_seconds * columns as f64;
    let picture = picture::data_uri(columns, &pixels(map, columns, most), &palette());
    let label = format!("Heatmap of accesses by address over time under {policy}: {heading}");
    let chart = format!(
        "<div class=\"plot\"><svg style=\"height:{HEIGHT}px\" role=\"img\" aria-label=\"{}\">\
         <desc>At most {} accesses in a cell; the table has shares.</desc>\
         <rect class=\"night\" width=\"100%\" height=\"100%\"/>\
         <image width=\"100%\" height=\"100%\" preserveAspectRatio=\"none\" \
         style=\"image-rendering:pixelated\" href=\"{picture}\"/>{}</svg></div>",
        escape(&label),
        count(most as f64),
        axes(map, seconds)
    );
    frame(
        heading,
        &format!(
            "Brighter is more accesses that reached memory (logarithmic). Rows are the memory that \
             was ever touched, in {order}; time is that of {policy}. The hottest tenth of the memory, \
             another one in each column, has {:.0} % of the accesses.",
            100.0 * map.hottest_tenth
        ),
        &(chart + &colour_bar(most) + &table(map, columns)),
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
pub fn palette() -> Vec<[u8; 3]> {
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

fn axes(map: &Heatmap, seconds: f64) -> String {
    let mut out = String::new();
    let unit = time_unit(seconds);
    let x = Axis { min: 0.0, max: seconds / unit.divisor, from: 0.0, to: 100.0 };
    for value in ticks(0.0, x.max, 5) {
        let _ = write!(
            out,
            "<text class=\"tick\" x=\"{:.2}%\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            x.at(value),
            HEIGHT + 15.0,
            number(value)
        );
    }
    let _ = write!(
        out,
        "<text class=\"axis\" x=\"50%\" y=\"{}\" text-anchor=\"middle\">modelled time ({})</text>\
         <text class=\"axis\" x=\"-42\" y=\"-20\">address, holes left out</text>",
        HEIGHT + 32.0,
        unit.name
    );
    let rows = map.row_regions.len();
    let labels = rows.min(BANDS);
    for i in 0..labels {
        let row = i * rows / labels;
        let y = HEIGHT * (1.0 - row as f64 / rows as f64) + if i == 0 { 0.0 } else { 4.0 };
        let (value, unit) = address(map.row_regions[row]);
        let _ = write!(
            out,
            "<text class=\"tick\" x=\"-6\" y=\"{y:.1}\" text-anchor=\"end\">{}{unit}</text>",
            number(value)
        );
    }
    out
}

/// Begin of a region in short: `86M`, `1.5G`.
fn address(region: u32) -> (f64, &'static str) {
    let bytes = (f64::from(region)) * (u64::from(HUGE_PAGES) * PAGE_BYTES) as f64;
    let short = |value: f64| (value * 10.0).round() / 10.0;
    match bytes {
        0.0 => (0.0, ""),
        b if b >= 1024f64.powi(4) => (short(b / 1024f64.powi(4)), "T"),
        b if b >= 1024f64.powi(3) => (short(b / 1024f64.powi(3)), "G"),
        b => (short(b / 1024f64.powi(2)), "M"),
    }
}

fn colour_bar(most: u64) -> String {
    let shades: Vec<u8> = (1..=SHADES as u8).collect();
    let picture = picture::data_uri(shades.len(), &shades, &palette());
    format!(
        "<p class=\"legend\"><span><span class=\"cell night\"></span> none</span><span>few \
         <svg class=\"ramp\" aria-hidden=\"true\"><image width=\"100%\" height=\"100%\" \
         preserveAspectRatio=\"none\" href=\"{picture}\"/></svg> {} accesses per cell</span></p>",
        count(most as f64)
    )
}

/// Share of all accesses, in per cent, by band of addresses and span of time.
fn table(map: &Heatmap, columns: usize) -> String {
    let rows = map.counts.len();
    let all: u64 = map.counts.iter().flatten().sum();
    let edge = |i: usize, n: usize| i * n / BANDS.min(n);
    let mut headings = vec!["share of accesses (%), from address".to_owned()];
    headings.extend((0..BANDS.min(columns)).map(|i| {
        format!("until {}", units::seconds(edge(i + 1, columns) as f64 * map.column_seconds))
    }));
    let band = |b: usize| {
        let of_band = &map.counts[edge(b, rows)..edge(b + 1, rows)];
        let cell = |c: usize| {
            let (from, to) = (edge(c, columns), edge(c + 1, columns));
            let within = |row: &Vec<u64>| row.iter().take(to).skip(from).sum::<u64>();
            let sum: u64 = of_band.iter().map(within).sum();
            format!("{:.1}", 100.0 * sum as f64 / all.max(1) as f64)
        };
        let offset = f64::from(map.row_regions[edge(b, rows)]);
        let offset = offset * (u64::from(HUGE_PAGES) * PAGE_BYTES) as f64;
        std::iter::once(bytes(offset)).chain((0..BANDS.min(columns)).map(cell)).collect()
    };
    data(&headings, &(0..BANDS.min(rows)).rev().map(band).collect::<Vec<_>>())
}
