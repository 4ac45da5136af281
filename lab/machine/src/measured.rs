//! Time that the guest has spent while a program worked, as the guest's own kernel counts it.

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
    /// What was free in node 0 before the command began.
    #[serde(default)]
    pub free_before: Free,
    /// And at the first of the two moments.
    #[serde(default)]
    pub free: Free,
    /// Watermarks of node 0.
    #[serde(default)]
    pub watermarks: Watermarks,
}

/// What is free in a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Free {
    /// Pages of 4 KiB.
    pub pages: u64,
    /// Blocks of 2 MiB, which can become huge folios.
    pub blocks: u64,
}

impl Free {
    /// Of `node`, from `/proc/buddyinfo`: free blocks of 1, 2, 4, ... pages.
    pub fn parse(buddyinfo: &str, node: u32) -> Self {
        const HUGE_ORDER: usize = 9;
        let mut found = Self::default();
        let start = format!("Node {node}, zone");
        for line in buddyinfo.lines().filter_map(|line| line.strip_prefix(&*start)) {
            let counts = line.split_whitespace().skip(1).map_while(|word| word.parse::<u64>().ok());
            for (order, count) in counts.enumerate() {
                found.pages += count << order;
                found.blocks += if order < HUGE_ORDER { 0 } else { count << (order - HUGE_ORDER) };
            }
        }
        found
    }
}

/// Free pages of a node at which its kernel begins to make room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watermarks {
    /// Below it, programs make room themselves.
    pub min_pages: u64,
    /// Below it, the kernel's thread does.
    pub low_pages: u64,
}

impl Watermarks {
    /// Of `node`, from `/proc/zoneinfo`: sums over its zones that have memory.
    pub fn parse(zoneinfo: &str, node: u32) -> Self {
        let start = format!("Node {node}, zone");
        let (mut found, mut zone, mut ours) = (Self::default(), Self::default(), false);
        for line in zoneinfo.lines() {
            let mut words = line.split_whitespace();
            let value = |word: Option<&str>| word.and_then(|w| w.parse().ok()).unwrap_or(0);
            match words.next() {
                Some("Node") => (zone, ours) = (Self::default(), line.starts_with(&*start)),
                Some("min") => zone.min_pages = value(words.next()),
                Some("low") => zone.low_pages = value(words.next()),
                Some("managed") if ours && value(words.next()) > 0 => {
                    found.min_pages += zone.min_pages;
                    found.low_pages += zone.low_pages;
                }
                _ => {}
            }
        }
        found
    }
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
    fn free_blocks_are_counted() {
        let text = "Node 0, zone      DMA      1      0      0      0      0      0      0      0      0      1      3 \n\
                    Node 0, zone    DMA32      3      1      0      0      0      0      0      0      1      5     18 \n\
                    Node 1, zone    DMA32      0      0      0      0      0      0      0      0      0      0    120 \n";
        let blocks = 1 + 6 + 5 + 36;
        let found = Free { pages: 1 + 3 + 2 + 256 + 512 * blocks, blocks };
        assert_eq!(Free::parse(text, 0), found);
        assert_eq!(Free::parse(text, 1).blocks, 240);
        assert_eq!(Free::parse("", 0), Free::default());
    }

    #[test]
    fn watermarks_are_those_of_zones_with_memory() {
        let zone = |node, name, min, low, managed| {
            format!(
                "Node {node}, zone {name}\n  pages free     3808\n        boost    0\n        min      \
                 {min}\n        low      {low}\n        high     9\n        present  65536\n        managed  \
                 {managed}\n      nr_free_pages 3\n"
            )
        };
        let text = zone(0, "DMA", 190, 237, 3840)
            + &zone(0, "DMA32", 2612, 3265, 54474)
            + &zone(0, "Movable", 32, 32, 0)
            + &zone(1, "DMA32", 1, 2, 5);
        let found = Watermarks { min_pages: 190 + 2612, low_pages: 237 + 3265 };
        assert_eq!(Watermarks::parse(&text, 0), found);
        assert_eq!(Watermarks::parse(&text, 1), Watermarks { min_pages: 1, low_pages: 2 });
    }

    #[test]
    fn memory_is_counted_by_node() {
        let maps = "55d0 default file=/job/x mapped=12 N0=12 kernelpagesize_kB=4\n\
                    7f00 default anon=40 dirty=40 N0=10 N1=30 kernelpagesize_kB=4\n";
        let found = Resident::parse(maps, "Rss: 1 kB\nAnonHugePages:      2048 kB\n");
        assert_eq!(found, Resident { pages: [22, 30], huge_bytes: 2 << 20 });
        assert_eq!(Resident::parse("", ""), Resident::default());
    }
}
