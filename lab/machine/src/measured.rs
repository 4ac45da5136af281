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
    /// Memory at the first of them, by name of the process.
    #[serde(default)]
    pub resident: BTreeMap<String, Resident>,
}

/// Where a process's memory is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resident {
    /// Pages of 4 KiB in nodes 0 and 1.
    pub pages: [u64; 2],
    /// Bytes of them in huge folios.
    pub huge_bytes: u64,
}

impl Resident {
    /// From `/proc/PID/numa_maps` and `/proc/PID/smaps_rollup`. Mappings of huge folios count
    /// pages of 4 KiB, too.
    pub fn parse(numa_maps: &str, smaps: &str) -> Self {
        let mut found = Self::default();
        for word in numa_maps.split_whitespace() {
            let count = word.strip_prefix('N').and_then(|rest| rest.split_once('='));
            if let Some((node, count)) = count
                && let (Ok(node), Ok(count)) = (node.parse::<usize>(), count.parse::<u64>())
                && let Some(pages) = found.pages.get_mut(node)
            {
                *pages += count;
            }
        }
        let huge = smaps.lines().find_map(|line| line.strip_prefix("AnonHugePages:"));
        let kib = huge.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        found.huge_bytes = kib.unwrap_or(0) << 10;
        found
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_counted_by_node() {
        let maps = "55d0 default file=/job/x mapped=12 N0=12 kernelpagesize_kB=4\n\
                    7f00 default anon=40 dirty=40 N0=10 N1=30 kernelpagesize_kB=4\n";
        let found = Resident::parse(maps, "Rss: 1 kB\nAnonHugePages:      2048 kB\n");
        assert_eq!(found, Resident { pages: [22, 30], huge_bytes: 2 << 20 });
        assert_eq!(Resident::parse("", ""), Resident::default());
    }
}
