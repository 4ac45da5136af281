//! Goals kept to: how much slower real programs become under a goal, beside the same programs left alone, and how much
//! of their memory is saved for it.

mod attached;
pub mod attendant;
mod pair;
pub mod programs;
mod senpai;

use attached::{Attached, LATEST};
use attendant::{Attendant, Kind, Line};
use pair::Pair;
pub use pair::Share;
use programs::Program;
use senpai::{Group, Senpai};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;
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
    /// What took memory from it.
    pub by: String,
    /// Slowdown that was accepted: 0.02 for 2 %.
    pub goal: f64,
    /// Slowdown beside the program that was left alone.
    pub slowdown: Share,
    /// What that reported of the same time.
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

    /// The same program, with the same goal.
    pub fn asks_as_much_as(&self, other: &Self) -> bool {
        (&self.program, self.goal) == (&other.program, other.goal)
    }

    pub fn saved_share(&self) -> f64 {
        self.saved_bytes / self.footprint_bytes.max(1.0)
    }
}

/// Measures one case; `frostline` is that program.
///
/// # Errors
/// Where a program or frostline fails, and after a Ctrl-C.
pub fn measure(
    program: &Program,
    goal: f64,
    by: Kind,
    spans: Spans,
    frostline: &Path,
) -> anyhow::Result<Case> {
    let dir = tempfile::tempdir()?;
    let group = (by == Kind::Senpai).then(Group::create).transpose()?.map(Arc::new);
    let mut pair = Pair::start(program, dir.path(), group.as_deref())?;
    let before = pair.run(spans.before)?;
    let mut attendant = match &group {
        Some(group) => Attendant::Senpai(Senpai::start(Arc::clone(group), pair.pid(), goal)?),
        None => {
            let series = dir.path().join("series.csv");
            Attendant::Frostline(Attached::start(frostline, pair.pid(), goal, &series)?)
        }
    };
    pair.run(spans.settle)?;
    attendant.check()?;
    let from = attendant.lines()?.len();
    let times = pair.run(spans.measure)?;
    let lines = attendant.stop()?;
    let window = lines.get(from..).filter(|window| !window.is_empty()).unwrap_or(&lines);
    let mean =
        |of: fn(&Line) -> f64| window.iter().map(of).sum::<f64>() / window.len().max(1) as f64;
    // Each line is of the last half minute.
    let latest = &window[window.len().min(LATEST)..];
    let latest = if latest.is_empty() { window } else { latest };
    Ok(Case {
        program: program.name.to_owned(),
        by: by.name().to_owned(),
        goal,
        slowdown: times.slowdown(&before),
        reported: latest.iter().map(|line| line.loss).sum::<f64>() / latest.len().max(1) as f64,
        footprint_bytes: mean(|line| line.footprint),
        saved_bytes: mean(|line| line.saved),
        cpu_share: mean(|line| line.cpu_share),
    })
}
