//! Time series of a run as CSV or JSON.

use frostline_sim::{RunOutcome, SeriesPoint};
use frostline_terminal::errors::usage;
use frostline_terminal::{files, output};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

/// Format of a series file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Csv,
    Json,
}

impl Format {
    /// By the file name's end.
    ///
    /// # Errors
    /// Where the name ends in neither `.csv` nor `.json`.
    pub fn of(path: &Path) -> anyhow::Result<Self> {
        match path.extension().and_then(|e| e.to_str()) {
            Some("csv") => Ok(Self::Csv),
            Some("json") => Ok(Self::Json),
            _ => Err(usage(
                format!("--series {}: the name does not say which format", path.display()),
                "let it end in .csv or .json",
            )),
        }
    }
}

#[derive(Serialize)]
struct SeriesOfRun<'a> {
    trace: &'a str,
    policy: &'a str,
    machine: &'a str,
    seed: u64,
    fast_bytes: u64,
    series: &'a [SeriesPoint],
}

/// Writes the series of a run.
///
/// # Errors
/// Where the file cannot be written.
pub fn write(path: &Path, format: Format, run: &RunOutcome) -> anyhow::Result<()> {
    let text = match format {
        Format::Csv => csv(&run.series),
        Format::Json => {
            let report = &run.report;
            output::envelope(&[SeriesOfRun {
                trace: &report.trace,
                policy: &report.policy,
                machine: &report.machine,
                seed: report.seed,
                fast_bytes: report.fast_bytes,
                series: &run.series,
            }])?
        }
    };
    files::write_whole(path, text.as_bytes())
}

/// One line per point; gauges that some point has come last, by name. Empty where a point has
/// none.
fn csv(points: &[SeriesPoint]) -> String {
    let tiers = points.iter().map(|p| p.resident_bytes.len()).max().unwrap_or(0);
    let gauges: BTreeSet<&str> =
        points.iter().flat_map(|p| p.gauges.keys()).map(String::as_str).collect();
    let mut out = String::from("seconds,accesses,fast_hit_ratio");
    (0..tiers).for_each(|tier| {
        let _ = write!(out, ",resident_bytes_{tier}");
    });
    out.push_str(",promoted_bytes,demoted_bytes,hot_bytes,warm_bytes,cold_bytes");
    gauges.iter().for_each(|gauge| {
        let _ = write!(out, ",{gauge}");
    });
    out.push('\n');
    for p in points {
        let _ = write!(out, "{},{},{}", p.seconds, p.accesses, p.fast_hit_ratio);
        for tier in 0..tiers {
            let _ = write!(out, ",{}", p.resident_bytes.get(tier).copied().unwrap_or(0));
        }
        let _ = write!(out, ",{},{}", p.promoted_bytes, p.demoted_bytes);
        match p.classes_bytes {
            Some([hot, warm, cold]) => {
                let _ = write!(out, ",{hot},{warm},{cold}");
            }
            None => out.push_str(",,,"),
        }
        for gauge in &gauges {
            match p.gauges.get(*gauge) {
                Some(value) => {
                    let _ = write!(out, ",{value}");
                }
                None => out.push(','),
            }
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn csv_has_a_column_for_everything() {
        let plain = SeriesPoint {
            seconds: 0.5,
            accesses: 3,
            fast_hit_ratio: 0.25,
            resident_bytes: vec![1, 2],
            ..SeriesPoint::default()
        };
        let full = SeriesPoint {
            classes_bytes: Some([7, 8, 9]),
            gauges: BTreeMap::from([("rhr".to_owned(), 0.5)]),
            ..plain.clone()
        };
        assert_eq!(
            csv(&[plain, full]),
            "seconds,accesses,fast_hit_ratio,resident_bytes_0,resident_bytes_1,promoted_bytes,\
             demoted_bytes,hot_bytes,warm_bytes,cold_bytes,rhr\n\
             0.5,3,0.25,1,2,0,0,,,,\n0.5,3,0.25,1,2,0,0,7,8,9,0.5\n"
        );
    }
}
