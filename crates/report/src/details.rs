//! One run in the terminal, with everything that is known of it.

use crate::summary;
use crate::table::{Table, wrap};
use crate::units::{bytes, count, percent, seconds};
use frostline_sim::RunReport;
use frostline_study::Study;
use std::fmt::Write;

/// The summary, then the numbers of every run that it leaves out.
pub fn show(study: &Study) -> String {
    let mut out = summary::show(study);
    for report in study.reports() {
        out.push('\n');
        out.push_str(&tiers(report));
        out.push('\n');
        for (name, value) in lines(report) {
            let _ = writeln!(out, "  {name:<22}{}", wrap(&value, 24));
        }
        if !report.policy_config.is_empty() {
            let config = report.policy_config.iter().map(|(key, value)| format!("{key}={value}"));
            let _ = writeln!(
                out,
                "  {:<22}{}",
                "parameters",
                wrap(&config.collect::<Vec<_>>().join(" "), 24)
            );
        }
    }
    out
}

fn tiers(report: &RunReport) -> String {
    let headings = ["tier", "capacity", "resident", "peak", "accesses", "mean latency"];
    let mut table = Table::new(&headings);
    for tier in &report.tiers {
        table.row(vec![
            tier.name.clone(),
            bytes(tier.capacity_bytes as f64),
            bytes(tier.resident_bytes as f64),
            bytes(tier.resident_bytes_max as f64),
            count(tier.accesses as f64),
            format!("{:.1} ns", tier.latency_ns_mean),
        ]);
    }
    table.show(2)
}

fn lines(report: &RunReport) -> Vec<(&'static str, String)> {
    let split = &report.time_split;
    let mut lines = vec![
        ("modelled time", seconds(report.modelled_seconds)),
        (
            "  of which",
            format!(
                "program {}, faults {}, migration {}, scans {}",
                seconds(split.app),
                seconds(split.fault),
                seconds(split.migrate),
                seconds(split.scan)
            ),
        ),
        ("against all-slow", format!("{:.3} x faster", report.speedup_vs_all_slow)),
        ("fast memory used", format!("{} on average", bytes(report.fast_bytes_mean))),
        ("tiering work", seconds(report.tiering_cpu_seconds) + " of processor time"),
        ("sampler", percent(report.sampler_cpu_share) + " of one core"),
        ("metadata", bytes(report.metadata_bytes as f64)),
        ("program's RSS", bytes(report.program_rss_bytes as f64)),
    ];
    if let Some(good) = report.good_put {
        lines.push(("promoted and used", percent(good)));
    }
    let counts = [
        ("collapses", report.collapses),
        ("pages checked", report.page_checks),
        ("hint faults", report.hint_faults),
    ];
    lines.extend(counts.into_iter().filter(|c| c.1 > 0).map(|(n, c)| (n, count(c as f64))));
    if let Some(latency) = &report.op_latency_ns {
        lines.push((
            "operations",
            format!(
                "{}, median {}, 99 % below {}",
                count(latency.count as f64),
                seconds(latency.p50 as f64 / 1e9),
                seconds(latency.p99 as f64 / 1e9)
            ),
        ));
    }
    lines
}
