//! The simulator beside the lab: the same programs, recorded and simulated with the lab's
//! parameters. `docs/notes/validation.md` has the table.

pub mod predict;
pub mod recording;
pub mod series;
pub mod table;

use crate::trial::Trial;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Points of fast hits that prediction and lab may differ by.
pub const TOLERANCE_POINTS: f64 = 5.0;

/// One program under one system, in one of the two worlds, while it worked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Numbers {
    /// Loads and stores that reached memory.
    pub accesses: u64,
    /// Share of them that fast memory served.
    pub fast_hit_ratio: f64,
    /// The same in the second half of them.
    pub fast_hit_ratio_late: f64,
    /// Modelled time.
    pub seconds: f64,
    /// Bytes moved between nodes.
    pub moved_bytes: u64,
    /// Processor time of tiering.
    pub tiering_seconds: f64,
}

impl From<&Trial> for Numbers {
    fn from(trial: &Trial) -> Self {
        Self {
            accesses: trial.accesses,
            fast_hit_ratio: trial.fast_hit_ratio,
            fast_hit_ratio_late: trial.fast_hit_ratio_late,
            seconds: trial.seconds,
            moved_bytes: trial.moved_bytes,
            tiering_seconds: trial.tiering_seconds,
        }
    }
}

impl Numbers {
    /// Means of several; no accesses where there are none.
    pub fn mean<'a>(all: impl Iterator<Item = &'a Self> + Clone) -> Self {
        let count = all.clone().count().max(1) as f64;
        let mean = |of: fn(&Self) -> f64| all.clone().map(of).sum::<f64>() / count;
        Self {
            accesses: mean(|one| one.accesses as f64) as u64,
            fast_hit_ratio: mean(|one| one.fast_hit_ratio),
            fast_hit_ratio_late: mean(|one| one.fast_hit_ratio_late),
            seconds: mean(|one| one.seconds),
            moved_bytes: mean(|one| one.moved_bytes as f64) as u64,
            tiering_seconds: mean(|one| one.tiering_seconds),
        }
    }
}

/// Both worlds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// Program.
    pub program: String,
    /// System.
    pub system: String,
    /// Seed.
    pub seed: u64,
    /// What happened in the lab.
    pub lab: Numbers,
    /// What the simulator predicts.
    pub simulated: Numbers,
    /// The simulator's counters over the whole recording, of machine, engine and policy.
    #[serde(default)]
    pub counters: BTreeMap<String, f64>,
}

impl Pair {
    /// Points of fast hits by which the prediction is too high.
    pub fn points(&self) -> f64 {
        100.0 * (self.simulated.fast_hit_ratio - self.lab.fast_hit_ratio)
    }

    /// Predicted time divided by the lab's.
    pub fn time_ratio(&self) -> f64 {
        self.simulated.seconds / self.lab.seconds
    }

    /// One for each program and system, with the means of those that follow each other.
    pub fn means(pairs: &[Self]) -> Vec<Self> {
        let same = |a: &Self, b: &Self| (&a.program, &a.system) == (&b.program, &b.system);
        let groups = pairs.chunk_by(same).map(|group| Self {
            lab: Numbers::mean(group.iter().map(|pair| &pair.lab)),
            simulated: Numbers::mean(group.iter().map(|pair| &pair.simulated)),
            ..group[0].clone()
        });
        groups.collect()
    }

    /// Whether the hits agree.
    pub fn agrees(&self) -> bool {
        self.points().abs() <= TOLERANCE_POINTS
    }
}
