//! Advice in bytes, as it is printed.

use super::Prices;
use super::asked::Measured;
use frostline_report::table::{Table, wrap};
use frostline_report::units::{bytes, percent};
use frostline_study::advise::{Advice, Answer};
use serde::Serialize;
use std::fmt::Write;

/// Points of a curve in a line.
const IN_A_LINE: usize = 7;

/// One machine and policy.
#[derive(Serialize)]
pub(super) struct Run {
    trace: String,
    machine: String,
    policy: String,
    footprint_bytes: u64,
    /// Part of the regions that was replayed; 1 for all.
    part: f64,
    replays: usize,
    answers: Vec<Told>,
    curve: Vec<Point>,
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<Measured>,
    #[serde(skip)]
    slow: String,
}

/// Answer in bytes.
#[derive(Serialize)]
struct Told {
    max_slowdown: f64,
    /// `None` where all memory is not enough.
    fast_bytes: Option<u64>,
    fast_share: Option<f64>,
    /// Ends of the 95 % interval.
    low_bytes: Option<u64>,
    high_bytes: Option<u64>,
    /// A smaller size was not looked at.
    is_least: bool,
    /// With the prices that were given.
    saved: Option<f64>,
}

#[derive(Serialize)]
struct Point {
    fast_bytes: u64,
    slowdown: f64,
}

/// Advice with a trace on a machine.
pub(super) fn told(
    trace: &str,
    [machine, slow]: [&str; 2],
    advice: &Advice,
    prices: Option<Prices>,
    measured: Option<Measured>,
) -> Run {
    let footprint = advice.footprint_bytes;
    let in_bytes = |share: f64| (share * footprint as f64) as u64;
    let answer = |answer: &Answer| {
        let (low, high) = answer.interval.unwrap_or_default();
        Told {
            max_slowdown: answer.goal,
            fast_bytes: answer.size.map(in_bytes),
            fast_share: answer.size,
            low_bytes: low.map(in_bytes),
            high_bytes: high.map(in_bytes),
            is_least: answer.is_least,
            saved: prices.zip(answer.size).map(|(prices, share)| prices.saved(footprint, share)),
        }
    };
    let point = |&(share, slowdown): &(f64, f64)| Point { fast_bytes: in_bytes(share), slowdown };
    Run {
        trace: trace.to_owned(),
        machine: machine.to_owned(),
        policy: advice.policy.clone(),
        footprint_bytes: footprint,
        part: advice.part.unwrap_or(1.0),
        replays: advice.replays,
        answers: advice.answers.iter().map(answer).collect(),
        curve: advice.curve.points().iter().map(point).collect(),
        measured,
        slow: slow.to_owned(),
    }
}

/// All of it as text.
pub(super) fn show(runs: &[Run], based_on: &str) -> String {
    let mut out = String::new();
    let Some(first) = runs.first() else { return out };
    let _ = match first.replays {
        0 => writeln!(out, "program  {}", first.trace),
        _ => writeln!(out, "trace    {}", first.trace),
    };
    let replayed = match first.part {
        _ if first.replays == 0 => "watched".to_owned(),
        part if part < 1.0 => format!("{} of its regions replayed", percent(part)),
        _ => "all of it replayed".to_owned(),
    };
    let footprint = bytes(first.footprint_bytes as f64);
    let _ = writeln!(out, "         footprint {footprint}, {replayed}");
    for run in runs {
        let _ = match run.replays {
            0 => writeln!(out, "\ncoldest pages in {}", run.slow),
            _ => writeln!(out, "\n{} under {}", run.machine, run.policy),
        };
        let slow = format!("in {}", run.slow);
        let mut headings = vec!["slower by", "fast", "share", "95 %", &*slow];
        let priced = run.answers.iter().any(|answer| answer.saved.is_some());
        if priced {
            headings.push("saves");
        }
        let mut table = Table::new(&headings);
        for answer in &run.answers {
            let mut cells = row(run, answer);
            if priced {
                cells.push(answer.saved.map_or_else(String::new, |saved| format!("{saved:.2}")));
            }
            table.row(cells);
        }
        out.push_str(&table.show(2));
        curve(&mut out, run);
    }
    let _ = match first.replays {
        0 => writeln!(out, "\n{}", wrap(based_on, 0)),
        _ => writeln!(out, "\nHow far the model itself is off: docs/notes/validation.md."),
    };
    out
}

/// Slowdown by size, in few lines.
fn curve(out: &mut String, run: &Run) {
    for points in run.curve.chunks(IN_A_LINE) {
        let share = |point: &Point| point.fast_bytes as f64 / run.footprint_bytes as f64;
        let line = |name: &str, of: &dyn Fn(&Point) -> f64| -> Vec<String> {
            std::iter::once(name.to_owned())
                .chain(points.iter().map(|point| percent(of(point))))
                .collect()
        };
        let sizes = line("fast", &share);
        let mut table = Table::new(&sizes.iter().map(String::as_str).collect::<Vec<_>>());
        table.row(line("slower by", &|point| point.slowdown));
        let _ = write!(out, "\n{}", table.show(2));
    }
}

fn row(run: &Run, answer: &Told) -> Vec<String> {
    let goal = format!("{} at most", percent(answer.max_slowdown));
    let Some((fast, share)) = answer.fast_bytes.zip(answer.fast_share) else {
        return vec![
            goal,
            "more than there is".to_owned(),
            String::new(),
            String::new(),
            String::new(),
        ];
    };
    let size = |size: Option<u64>| size.map_or("all".to_owned(), |size| bytes(size as f64));
    let interval = match (answer.low_bytes, answer.high_bytes) {
        (None, None) => "too short to tell".to_owned(),
        (low, high) => format!("{} to {}", size(low), size(high)),
    };
    let less = if answer.is_least { "below " } else { "" };
    vec![
        goal,
        format!("{less}{}", bytes(fast as f64)),
        percent(share),
        interval,
        bytes(run.footprint_bytes.saturating_sub(fast) as f64),
    ]
}
