//! What the guest has spent while a program worked, as the guest's own kernel counts it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The mark that `lab-guest measure` sets when the program says `ready`.
pub const READY: u64 = 1;
/// And when it says `done`.
pub const DONE: u64 = 2;

/// Processor time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// In user mode.
    pub user_seconds: f64,
    /// In the kernel.
    pub system_seconds: f64,
}

impl Times {
    /// Both.
    pub fn all(self) -> f64 {
        self.user_seconds + self.system_seconds
    }

    /// What has been added since an earlier moment.
    pub fn since(self, before: Self) -> Self {
        Self {
            user_seconds: (self.user_seconds - before.user_seconds).max(0.0),
            system_seconds: (self.system_seconds - before.system_seconds).max(0.0),
        }
    }
}

/// Between two moments.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Modelled time.
    pub seconds: f64,
    /// Of `/proc/vmstat`, what has grown.
    pub counters: BTreeMap<String, u64>,
    /// By name of the process.
    pub times: BTreeMap<String, Times>,
}

impl Measured {
    /// One line.
    ///
    /// # Errors
    /// None that can occur with these types.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }

    /// Finds it in what a job printed.
    pub fn find(stdout: &str) -> Option<Self> {
        let line = stdout.lines().find_map(|line| line.strip_prefix("measured "))?;
        serde_json::from_str(line).ok()
    }

    /// Growth of a counter.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }
}
