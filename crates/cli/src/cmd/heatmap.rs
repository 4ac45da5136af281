//! `frostline trace heatmap`: accesses by address over time.

use frostline_core::policy::registry;
use frostline_report::html;
use frostline_report::units::{bytes, percent};
use frostline_sim::{FastSize, Heatmap, Heatmaps, SimOptions};
use frostline_study::{Programs, Request, machine};
use frostline_terminal::errors::failure;
use frostline_terminal::files::write_report;
use frostline_terminal::progress::Screen;
use frostline_terminal::{limit, output};
use serde::Serialize;
use std::path::PathBuf;

/// Characters of the picture, at most.
const ROWS: usize = 24;
const COLUMNS: usize = 72;
/// From no access to as many as anywhere.
const SHADES: [char; 5] = [' ', '░', '▒', '▓', '█'];
const REGION_BYTES: f64 = (2u64 << 20) as f64;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frostline trace heatmap s.flt                    # in the terminal
  frostline trace heatmap s.flt --report s.html    # by virtual and by physical address
  frostline trace heatmap synth:shift --json

Rows are the memory that was ever accessed, the lowest address at the bottom. Time is modelled, with all
memory fast.")]
pub struct Args {
    /// File, or synth:NAME:key=value...
    trace: String,
    /// Machine by whose time the accesses are spread: a preset or a TOML file, with parameters
    #[arg(long, default_value = "dram-nvm", value_name = "MACHINE")]
    machine: String,
    /// Print JSON: counts by row and column, by virtual and by physical address
    #[arg(long)]
    json: bool,
    /// Write a report with both maps
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

#[derive(Serialize)]
struct Printed<'a> {
    trace: &'a str,
    #[serde(flatten)]
    maps: &'a Heatmaps,
}

/// Runs the command.
///
/// # Errors
/// A trace that cannot be read, or that makes no map.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let maps = maps(&args.trace, &args.machine)?;
    if let Some(path) = &args.report {
        write_report(path, &html::heatmaps(&args.trace, &maps))?;
    }
    match args.json {
        true => output::json(&[Printed { trace: &args.trace, maps: &maps }]),
        false => output::text(&text(&maps.by_address)),
    }
}

/// Maps of a trace, by the time of a machine with all memory fast.
///
/// # Errors
/// As [`run`].
pub(super) fn maps(trace: &str, by: &str) -> anyhow::Result<Heatmaps> {
    let whole = FastSize::Percent(100.0);
    let options = SimOptions { heatmaps: true, ..SimOptions::new(machine(by)?, whole) };
    let request = Request {
        traces: vec![Programs::alone(trace)],
        guests: Vec::new(),
        sizes: vec![whole],
        policies: vec![registry::ALL_FAST.to_owned()],
        seeds: 1,
        bound: false,
        jobs: None,
        options,
        every_series: false,
        limit: limit::current(),
    };
    let study = frostline_study::run(&request, &Screen)?;
    let run = study.traces[0].sizes[0].policies[0].first();
    let maps = run.heatmaps.clone().filter(|maps| !maps.by_address.counts.is_empty());
    let what = || format!("{trace}: too few accesses for a map");
    maps.ok_or_else(|| failure(what(), "take a longer trace"))
}

/// The map in characters.
fn text(map: &Heatmap) -> String {
    let columns = map.counts.iter().map(Vec::len).max().unwrap_or(0);
    let (rows, wide) = (map.counts.len().min(ROWS), columns.min(COLUMNS));
    let mut cells = vec![vec![0u64; wide]; rows];
    for (row, counts) in map.counts.iter().enumerate() {
        for (column, count) in counts.iter().enumerate() {
            cells[row * rows / map.counts.len()][column * wide / columns] += count;
        }
    }
    let most = cells.iter().flatten().copied().max().unwrap_or(0);
    let full = (1.0 + most as f64).ln().max(f64::MIN_POSITIVE);
    let shade = |count: &u64| match count {
        0 => SHADES[0],
        count => {
            let part = (1.0 + *count as f64).ln() / full * (SHADES.len() - 1) as f64;
            SHADES[(part.ceil() as usize).clamp(1, SHADES.len() - 1)]
        }
    };
    // The highest address is at the top.
    let lines = cells.iter().rev().map(|row| {
        let line: String = row.iter().map(shade).collect();
        format!("│{line}│\n")
    });
    let lines: String = lines.collect();
    let last = map.row_regions.last().map_or(0.0, |region| f64::from(region + 1) * REGION_BYTES);
    format!(
        "{lines}└{}┘\n {:.3} s from left to right; {} of address space from below, logarithmic shades\n \
         the hottest tenth of the memory, another one in each column, has {} of the accesses\n",
        "─".repeat(wide),
        map.column_seconds * columns as f64,
        bytes(last),
        percent(map.hottest_tenth),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_accesses_are_darker() {
        let counts = vec![vec![0, 1, 1000, 0], vec![0, 0, 0, 100]];
        let map =
            Heatmap { column_seconds: 0.5, hottest_tenth: 0.75, row_regions: vec![0, 3], counts };
        let text = text(&map);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "│   ▓│", "{text}");
        assert_eq!(lines[1], "│ ░█ │", "{text}");
        assert!(lines[3].contains("2.000 s") && lines[3].contains("8.00 MiB"), "{text}");
        assert!(lines[4].contains("75.0 %"), "{text}");
    }

    #[test]
    fn large_maps_are_small_pictures() {
        let map = Heatmap { counts: vec![vec![1; 200]; 300], ..Heatmap::default() };
        let text = text(&map);
        assert_eq!(text.lines().filter(|line| line.starts_with('│')).count(), ROWS);
        assert!(text.lines().next().is_some_and(|line| line.chars().count() == COLUMNS + 2));
    }
}
