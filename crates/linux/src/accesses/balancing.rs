//! NUMA hint faults of pages in lower tiers, without the kernel's moving them.
//!
//! With `kernel.numa_balancing` in tiering mode (2), the kernel takes the access rights off pages
//! of lower tiers, some at a time as programs run, so that the next touch of each is a fault. A
//! promotion rate of 0 keeps it from promoting what was touched, unless fast memory has plenty
//! free: then the rate does not count, and this must not be used.
//!
//! Source: `kernel/sched/fair.c` (`should_numa_migrate_memory`, `pgdat_free_space_enough`) and
//! `mm/mprotect.c` (`change_pte_range`) of Linux 6.12; `Documentation/admin-guide/sysctl/kernel.rst`.

use crate::changes::{self, Changes};
use crate::error::LinuxError;
use crate::held::Held;
use crate::root::Root;
use crate::topology::Topology;
use std::sync::Arc;

/// What the kernel does about nodes, as bits.
pub const MODE: &str = "/proc/sys/kernel/numa_balancing";
/// Most that it promotes, in MB per second.
pub const RATE: &str = "/proc/sys/kernel/numa_balancing_promote_rate_limit_MBps";
/// The bit of [`MODE`] for lower tiers.
const TIERING: u32 = 2;
/// Free memory of a node, beyond a zone's watermark, from which on the kernel promotes at any rate.
const ENOUGH_PAGES: u64 = 1 << 18;
/// The same as a part of the node.
const ENOUGH_PART: u64 = 16;

/// Whether hint faults can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Availability {
    /// They can, for pages of these nodes.
    Free {
        /// Nodes of lower tiers, ascending.
        nodes: Vec<u32>,
    },
    /// The administrator has the kernel promote by itself.
    Promoting {
        /// Nodes of lower tiers, ascending.
        nodes: Vec<u32>,
        /// The setting.
        mode: u32,
    },
    /// No node is in a lower tier than all processors.
    NoLowerTier,
    /// The kernel has none, or none whose promotions can be kept back.
    Missing,
}

/// Finds out whether hint faults can be used; changes nothing.
///
/// # Errors
/// Where files cannot be read or have other contents than expected.
pub fn availability(root: &Root) -> Result<Availability, LinuxError> {
    let (Some(mode), Some(_)) = (mode(root)?, root.read_optional(RATE)?) else {
        return Ok(Availability::Missing);
    };
    let nodes = nodes(&Topology::read(root)?);
    Ok(if nodes.is_empty() {
        Availability::NoLowerTier
    } else if mode & TIERING == 0 || is_ours(root)? {
        Availability::Free { nodes }
    } else {
        Availability::Promoting { nodes, mode }
    })
}

/// Whether hint faults were switched on by a run of ours.
///
/// # Errors
/// Where the list of changes cannot be read.
pub fn is_ours(root: &Root) -> Result<bool, LinuxError> {
    Ok(changes::is_set(root, MODE)? || changes::is_set(root, RATE)?)
}

fn mode(root: &Root) -> Result<Option<u32>, LinuxError> {
    let Some(text) = root.read_optional(MODE)? else { return Ok(None) };
    let malformed = || LinuxError::Malformed {
        path: root.path(MODE),
        what: format!("'{text}' is not a number"),
    };
    text.parse().map(Some).map_err(|_| malformed())
}

/// Nodes whose pages the kernel arms: those of tiers below every tier with processors.
fn nodes(topology: &Topology) -> Vec<u32> {
    let runs_programs = |id: &u32| topology.node(*id).is_some_and(|node| !node.cpus.is_empty());
    let lowest = topology.tiers.iter().rposition(|tier| tier.nodes.iter().any(runs_programs));
    let Some(lowest) = lowest else { return Vec::new() };
    let lower = topology.tiers[lowest + 1..].iter().flat_map(|tier| tier.nodes.iter().copied());
    let mut nodes: Vec<u32> = lower.collect();
    nodes.sort_unstable();
    nodes
}

/// How close the kernel is to promoting whatever is touched: free memory of the node with
/// processors that has most of it, as a share of what would suffice. From 1 on it does.
///
/// # Errors
/// Where `/proc/zoneinfo` cannot be read.
pub fn plenty(root: &Root) -> Result<f64, LinuxError> {
    let topology = Topology::read(root)?;
    let zones = zones(&root.read("/proc/zoneinfo")?);
    let mut most = 0.0f64;
    for node in topology.nodes.iter().filter(|node| !node.cpus.is_empty()) {
        let zones = || zones.iter().filter(|zone| zone.node == node.id && zone.present > 0);
        let present: u64 = zones().map(|zone| zone.present).fold(0, u64::saturating_add);
        let enough = (present / ENOUGH_PART).max(ENOUGH_PAGES);
        let share = |zone: &Zone| {
            zone.free.saturating_sub(zone.watermark.saturating_add(zone.protected)) as f64
                / enough as f64
        };
        most = zones().map(share).fold(most, f64::max);
    }
    Ok(most)
}

/// Numbers of a zone, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Zone {
    node: u32,
    free: u64,
    /// The highest there is: `promo`, or `high` in older kernels.
    watermark: u64,
    present: u64,
    /// Kept for allocations that can use no other zone.
    protected: u64,
}

fn zones(text: &str) -> Vec<Zone> {
    let mut zones: Vec<Zone> = Vec::new();
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("Node ") {
            let node = head.split(',').next().and_then(|id| id.trim().parse().ok());
            zones.push(Zone { node: node.unwrap_or(u32::MAX), ..Zone::default() });
            continue;
        }
        let Some(zone) = zones.last_mut() else { continue };
        let line = line.trim();
        if let Some(list) = line.strip_prefix("protection:") {
            let numbers = list.split(|c: char| !c.is_ascii_digit());
            zone.protected = numbers.filter_map(|n| n.parse().ok()).max().unwrap_or(0);
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap_or((line, ""));
        let Ok(value) = value.parse::<u64>() else { continue };
        match name.trim() {
            "pages free" => zone.free = value,
            // `promo` comes after it, where there is one.
            "high" | "promo" => zone.watermark = zone.watermark.max(value),
            "present" => zone.present = value,
            _ => {}
        }
    }
    zones
}

/// Switches hint faults on, for all programs of the system, until what it gives is dropped. What else
/// the kernel was told to balance it still does.
///
/// # Errors
/// [`LinuxError::Unsupported`] where the kernel has none or another run has other wishes;
/// without the right to change settings.
pub fn switch_on(changes: &Changes) -> Result<Arc<Held>, LinuxError> {
    Held::make(changes, RATE, || {
        let Some(mode) = mode(changes.root())? else {
            return Err(LinuxError::Unsupported {
                what: "this kernel has no NUMA balancing".into(),
                hint: "needs CONFIG_NUMA_BALANCING".into(),
            });
        };
        Ok(vec![(RATE, "0".into()), (MODE, (mode | TIERING).to_string())])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    /// Node 0 with processors, node 1 without and a tier below, and a process that is this one.
    fn tree(tiers: &[(&str, &str)], mode: &str) -> Tree {
        let tree = Tree::new();
        tree.file("/sys/devices/system/node/online", "0-1\n");
        for node in 0..2 {
            let folder = format!("/sys/devices/system/node/node{node}");
            tree.file(format!("{folder}/cpulist"), if node == 0 { "0-1\n" } else { "\n" });
            tree.file(format!("{folder}/meminfo"), format!("Node {node} MemTotal: 1048576 kB\n"));
        }
        for (name, nodes) in tiers {
            let path = format!("/sys/devices/virtual/memory_tiering/{name}/nodelist");
            tree.file(path, format!("{nodes}\n"));
        }
        tree.file(MODE, format!("{mode}\n"));
        tree.file(RATE, "65536\n");
        let zeros = "0 ".repeat(18);
        let pid = std::process::id();
        tree.file(format!("/proc/{pid}/stat"), format!("{pid} (x) S {zeros}7 0 0"));
        tree.file("/proc/sys/kernel/random/boot_id", "boot\n");
        tree
    }

    const TWO: &[(&str, &str)] = &[("memory_tier4", "0"), ("memory_tier22", "1")];

    #[test]
    fn a_lower_tier_and_both_settings_are_needed() {
        let nodes = || vec![1];
        let found = |tree: &Tree| availability(tree.root()).expect("all files are there");
        assert_eq!(found(&tree(TWO, "0")), Availability::Free { nodes: nodes() });
        assert_eq!(found(&tree(TWO, "1")), Availability::Free { nodes: nodes() });
        let promoting = Availability::Promoting { nodes: nodes(), mode: 3 };
        assert_eq!(found(&tree(TWO, "3")), promoting);
        assert_eq!(found(&tree(&[("memory_tier4", "0-1")], "0")), Availability::NoLowerTier);
        // A tier with processors is never a lower one, whatever is above it.
        let upside_down: &[_] = &[("memory_tier4", "1"), ("memory_tier22", "0")];
        assert_eq!(found(&tree(upside_down, "0")), Availability::NoLowerTier);
        let old = tree(TWO, "0");
        std::fs::remove_file(old.root().path(RATE)).expect("it was there");
        assert_eq!(found(&old), Availability::Missing);
        assert_eq!(found(&Tree::new()), Availability::Missing);
        assert!(availability(tree(TWO, "x").root()).is_err());
    }

    #[test]
    fn the_last_to_let_go_restores() {
        let tree = tree(TWO, "1");
        let changes = Changes::of_this_process(tree.root()).expect("it runs");
        let (one, two) = (switch_on(&changes), switch_on(&changes));
        let both = || (tree.text(MODE), tree.text(RATE));
        assert_eq!(both(), ("3".into(), "0".into()), "sockets go on being balanced");
        assert_eq!(
            availability(tree.root()).expect("files"),
            Availability::Free { nodes: vec![1] },
            "it is ours"
        );
        drop(one);
        assert_eq!(both(), ("3".into(), "0".into()));
        drop(two);
        assert_eq!(both(), ("1".into(), "65536".into()));
        drop(switch_on(&changes).expect("again"));
        assert_eq!(both(), ("1".into(), "65536".into()));
        assert!(!tree.root().path("/run/frostline/changes.json").exists());
    }

    #[test]
    fn what_the_administrator_has_set_comes_back() {
        let tree = tree(TWO, "2");
        let changes = Changes::of_this_process(tree.root()).expect("it runs");
        let armed = switch_on(&changes).expect("asked for");
        assert_eq!((tree.text(MODE), tree.text(RATE)), ("2".into(), "0".into()));
        drop(armed);
        assert_eq!((tree.text(MODE), tree.text(RATE)), ("2".into(), "65536".into()));
    }

    #[test]
    fn half_done_is_undone() {
        let tree = tree(TWO, "0");
        std::fs::remove_file(tree.root().path(RATE)).expect("it was there");
        let changes = Changes::of_this_process(tree.root()).expect("it runs");
        switch_on(&changes).expect_err("one setting is missing");
        assert_eq!(tree.text(MODE), "0");
        assert!(!tree.root().path("/run/frostline/changes.json").exists());
    }

    /// Two zones of node 0 and one of node 1, as Linux 6.12 prints them, the rest left out.
    fn zoneinfo(free: u64) -> String {
        let zone = |node: u32, name: &str, free: u64, present: u64, protection: &str| {
            format!(
                "Node {node}, zone {name:>8}\n  pages free     {free}\n        boost    0\n        \
                 min      100\n        low      200\n        high     300\n        promo    400\n        \
                 spanned  9999999\n        present  {present}\n        managed  {present}\n        \
                 protection: ({protection})\n      nr_free_pages {free}\n  pagesets\n    cpu: 0\n              \
                 count:    5\n              high:     77\n"
            )
        };
        zone(0, "DMA32", 500_000, 500_000, "0, 0, 1000000, 1000000")
            + &zone(0, "Normal", free, 7_500_000, "0, 0, 0, 0")
            + &zone(1, "Normal", 9_000_000, 9_000_000, "0, 0, 0, 0")
    }

    #[test]
    fn plenty_is_a_sixteenth_of_the_node_beyond_the_watermark_in_one_zone() {
        let tree = tree(TWO, "0");
        let share = |free: u64| {
            tree.file("/proc/zoneinfo", zoneinfo(free));
            plenty(tree.root()).expect("understood")
        };
        assert_eq!(share(400 + 500_000), 1.0);
        assert_eq!(share(400 + 250_000), 0.5);
        assert_eq!(share(400), 0.0, "what a zone keeps for others and other nodes do not count");
        tree.file("/proc/zoneinfo", zoneinfo(400 + (1 << 18)).replace("7500000", "500000"));
        assert_eq!(plenty(tree.root()).expect("understood"), 1.0, "1 GiB at least");
        tree.file("/proc/zoneinfo", "");
        assert_eq!(plenty(tree.root()).expect("nothing is free"), 0.0);
    }
}
