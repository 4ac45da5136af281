//! The tables with all numbers.

use super::svg::table;
use crate::units::{bytes, count, seconds};
use frostline_sim::RunReport;
use frostline_study::{PolicyStudy, SizeStudy};

/// A line: what it is, and the cell of a policy.
type Line = (&'static str, fn(&PolicyStudy) -> String);

const MISSING: &str = "n/a";

const LINES: &[Line] = &[
    ("fast hits (%)", |p| p.stat(|r| r.fast_hit_ratio).times(100.0).show(2)),
    ("time over all fast, same pages (×)", |p| p.stat(|r| r.slowdown_vs_all_fast).show(4)),
    ("speed-up over all-slow (×)", |p| p.stat(|r| r.speedup_vs_all_slow).show(4)),
    ("share of bound (%)", |p| option(p, |r| r.share_of_bound, |s| s.times(100.0).show(2))),
    ("modelled time (s)", |p| p.stat(|r| r.modelled_seconds).show(4)),
    ("fast memory used", |p| mean(p, |r| r.fast_bytes_mean, bytes)),
    ("promoted", |p| mean(p, |r| r.promoted_bytes as f64, bytes)),
    ("demoted", |p| mean(p, |r| r.demoted_bytes as f64, bytes)),
    ("promoted and used (%)", |p| option(p, |r| r.good_put, |s| s.times(100.0).show(1))),
    ("splits", |p| mean(p, |r| r.splits as f64, count)),
    ("collapses", |p| mean(p, |r| r.collapses as f64, count)),
    ("pages checked", |p| mean(p, |r| r.page_checks as f64, count)),
    ("hint faults", |p| mean(p, |r| r.hint_faults as f64, count)),
    ("waited for faults", |p| mean(p, |r| r.time_split.fault, seconds)),
    ("waited for migration", |p| mean(p, |r| r.time_split.migrate, seconds)),
    ("waited for scans", |p| mean(p, |r| r.time_split.scan, seconds)),
    ("sampler (% of a core)", |p| p.stat(|r| r.sampler_cpu_share).times(100.0).show(2)),
    ("tiering work", |p| mean(p, |r| r.tiering_cpu_seconds, seconds)),
    ("operation p50", |p| option(p, |r| latency(r, false), |s| seconds(s.mean))),
    ("operation p99", |p| option(p, |r| latency(r, true), |s| seconds(s.mean))),
    ("metadata", |p| mean(p, |r| r.metadata_bytes as f64, bytes)),
    ("program's RSS", |p| mean(p, |r| r.program_rss_bytes as f64, bytes)),
];

fn mean(policy: &PolicyStudy, number: fn(&RunReport) -> f64, show: fn(f64) -> String) -> String {
    show(policy.stat(number).mean)
}

fn option(
    policy: &PolicyStudy,
    number: impl Fn(&RunReport) -> Option<f64>,
    show: fn(frostline_study::stats::Stat) -> String,
) -> String {
    policy.stat_option(number).map_or_else(|| MISSING.to_owned(), show)
}

fn latency(report: &RunReport, tail: bool) -> Option<f64> {
    let latency = report.op_latency_ns.as_ref()?;
    Some(if tail { latency.p99 } else { latency.p50 } as f64 / 1e9)
}

/// All numbers of a size of fast memory: a column per policy, the fastest first. What no policy has
/// is left out.
pub fn of_size(size: &SizeStudy) -> String {
    let ranked = size.ranked();
    let mut headings = vec![String::new()];
    headings.extend(ranked.iter().map(|policy| policy.spec.clone()));
    let line = |(name, cell): &Line| {
        let cells: Vec<String> = ranked.iter().map(|policy| cell(policy)).collect();
        let known = cells.iter().any(|cell| cell != MISSING);
        known.then(|| std::iter::once((*name).to_owned()).chain(cells).collect())
    };
    let slowdown = |policy: &&PolicyStudy| size.slowdown(policy).show(4);
    let slowdowns = ranked.iter().map(slowdown);
    let slowdowns = std::iter::once("slowdown (×)".to_owned()).chain(slowdowns).collect();
    let rows: Vec<Vec<String>> =
        std::iter::once(slowdowns).chain(LINES.iter().filter_map(line)).collect();
    table(&headings, &rows)
}
