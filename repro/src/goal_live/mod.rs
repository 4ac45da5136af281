//! Goals kept to: how much slower real programs become under a goal, beside the same programs left alone, and how much
//! of their memory is saved for it.

mod attached;
mod pair;
pub mod programs;

use attached::Attached;
use pair::Pair;
pub use pair::Share;
use programs::Program;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// Slowdown beyond its goal that keeps to it.
pub const BEYOND: f64 = 0.005;
/// Difference of what is reported and what is so that is small.
pub const CLOSE: f64 = 0.01;

/// How long a case takes.
#[derive(Clone, Copy, Debug)]
pub struct Spans {
    /// Both programs, left alone.
    pub before: Duration,
    /// Until the size of fast memory has settled.
    pub settle: Duration,
    /// Of what is measured.
    pub measure: Duration,
}

/// A program and a goal.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Case {
    pub program: String,
    /// Slowdown that was accepted: 0.02 for 2 %.
    pub goal: f64,
    /// Slowdown beside the program that was left alone.
    pub slowdown: Share,
    /// What frostline reported of the same time.
    pub reported: f64,
    pub footprint_bytes: f64,
    pub saved_bytes: f64,
    /// Own processor time, as a share of a core.
    pub cpu_share: f64,
}

impl Case {
    pub fn keeps(&self) -> bool {
        self.slowdown.mean <= self.goal + BEYOND
    }

    pub fn tells(&self) -> bool {
        (self.reported - self.slowdown.mean).abs() <= CLOSE
    }

    pub fn saved_share(&self) -> f64 {
        self.saved_bytes / self.footprint_bytes.max(1.0)
    }
}

/// Measures one case with that `frostline`.
///
/// # Errors
/// Where a program or frostline fails, and after a Ctrl-C.
pub fn measure(
    program: &Program,
    goal: f64,
    spans: Spans,
    frostline: &Path,
) -> anyhow::Result<Case> {
    let dir = tempfile::tempdir()?;
    let mut pair = Pair::start(program, dir.path())?;
    let before = pair.run(spans.before)?;
    let mut attached =
        Attached::start(frostline, pair.pid(), goal, &dir.path().join("series.csv"))?;
    pair.run(spans.settle)?;
    attached.check()?;
    let from = attached.lines()?.len();
    let times = pair.run(spans.measure)?;
    let lines = attached.stop()?;
    let window = lines.get(from..).filter(|window| !window.is_empty()).unwrap_or(&lines);
    let mean = |of: fn(&attached::Line) -> f64| {
        window.iter().map(of).sum::<f64>() / window.len().max(1) as f64
    };
    // Each line is of the last half minute.
    let latest = &window[window.len().min(attached::LATEST)..];
    let latest = if latest.is_empty() { window } else { latest };
    Ok(Case {
        program: program.name.to_owned(),
        goal,
        slowdown: times.slowdown(&before),
        reported: latest.iter().map(|line| line.loss).sum::<f64>() / latest.len().max(1) as f64,
        footprint_bytes: mean(|line| line.footprint),
        saved_bytes: mean(|line| line.saved),
        cpu_share: mean(|line| line.cpu_share),
    })
}
