//! Topology of the machine's memory: NUMA nodes, the kernel's tiers of them, and swap.

use crate::error::LinuxError;
use crate::root::Root;
use crate::swap::{self, SwapDevice};
use frostline_core::Bytes;

/// A NUMA node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its number.
    pub id: u32,
    /// Its processors; none for a node that is memory only.
    pub cpus: Vec<u32>,
    /// Memory it has.
    pub total_bytes: u64,
    /// Memory that is free.
    pub free_bytes: u64,
    /// Distance to each node that is online, in the order of [`Topology::nodes`]; 10 is itself.
    pub distances: Vec<u32>,
    /// What firmware says about access from the nearest processors.
    pub performance: Option<Performance>,
}

/// Performance of a node's memory as firmware reports it (HMAT,
/// `Documentation/admin-guide/mm/numaperf.rst`). 0 means not reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Performance {
    /// Nanoseconds.
    pub read_latency_ns: u64,
    /// Nanoseconds.
    pub write_latency_ns: u64,
    /// Mebibytes per second.
    pub read_bandwidth_mib: u64,
    /// Mebibytes per second.
    pub write_bandwidth_mib: u64,
}

/// A tier as the kernel has it: nodes of similar speed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelTier {
    /// Number in its name, `memory_tierN`; a smaller number is faster.
    pub id: u32,
    /// Its nodes.
    pub nodes: Vec<u32>,
}

/// What slow tiers there could be, the best first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlowTier {
    /// A node in a lower tier than the fastest.
    Node(u32),
    /// A zram device that is there or can be made.
    Zram,
}

/// Memory of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Nodes that are online, ascending. A kernel without NUMA shows none of them; the whole
    /// machine then counts as node 0.
    pub nodes: Vec<Node>,
    /// Tiers, fastest first; empty where the kernel has no notion of them.
    pub tiers: Vec<KernelTier>,
    /// Whether the kernel demotes pages by itself on reclaim; none where it cannot.
    pub demotion_enabled: Option<bool>,
    /// `kernel.numa_balancing`: 0 off, 1 moves pages to processors, 2 promotes from lower tiers;
    /// none where it is not built in.
    pub numa_balancing: Option<u32>,
    /// Whether pages on their way to swap are compressed in memory; none where not built in.
    pub zswap_enabled: Option<bool>,
    /// Swap areas in use.
    pub swaps: Vec<SwapDevice>,
    /// Whether a zram device is there, or its driver is loaded and can make one.
    pub zram: bool,
}

const NODES: &str = "/sys/devices/system/node";
const TIERS: &str = "/sys/devices/virtual/memory_tiering";

impl Topology {
    /// Reads all of it.
    ///
    /// # Errors
    /// Where a file that must be there is not, or has contents of another form.
    pub fn read(root: &Root) -> Result<Self, LinuxError> {
        Ok(Self {
            nodes: nodes(root)?,
            tiers: tiers(root)?,
            demotion_enabled: switch(root, "/sys/kernel/mm/numa/demotion_enabled")?,
            numa_balancing: root
                .read_optional("/proc/sys/kernel/numa_balancing")?
                .and_then(|text| text.parse().ok()),
            zswap_enabled: swap::zswap(root)?.map(|zswap| zswap.enabled),
            swaps: swap::devices(root)?,
            zram: root.path("/sys/class/zram-control").exists()
                || root.list("/sys/block")?.iter().any(|name| name.starts_with("zram")),
        })
    }

    /// Nodes of tiers below the fastest in which there are nodes with processors, the next
    /// slower first; within a tier those with more memory first.
    pub fn lower_nodes(&self) -> Vec<u32> {
        let has_cpus = |tier: &KernelTier| {
            tier.nodes.iter().any(|id| self.node(*id).is_some_and(|node| !node.cpus.is_empty()))
        };
        let Some(fastest) = self.tiers.iter().position(has_cpus) else { return Vec::new() };
        let mut lower = Vec::new();
        for tier in &self.tiers[fastest + 1..] {
            let mut nodes: Vec<_> = tier.nodes.iter().filter_map(|id| self.node(*id)).collect();
            nodes.retain(|node| node.total_bytes > 0);
            nodes.sort_by_key(|node| (std::cmp::Reverse(node.total_bytes), node.id));
            lower.extend(nodes.into_iter().map(|node| node.id));
        }
        lower
    }

    /// What could serve as slow tier without being named: nodes of lower tiers, else zram where
    /// it is available. Setting up zram takes root, which is not looked at here.
    pub fn slow_tier_candidates(&self) -> Vec<SlowTier> {
        let nodes: Vec<_> = self.lower_nodes().into_iter().map(SlowTier::Node).collect();
        if nodes.is_empty() && self.zram { vec![SlowTier::Zram] } else { nodes }
    }

    /// The node of this number.
    pub fn node(&self, id: u32) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// Memory of all nodes together.
    pub fn total(&self) -> Bytes {
        Bytes(self.nodes.iter().map(|node| node.total_bytes).fold(0, u64::saturating_add))
    }
}

fn nodes(root: &Root) -> Result<Vec<Node>, LinuxError> {
    let Some(online) = root.read_optional(format!("{NODES}/online"))? else {
        return Ok(vec![whole_machine(root)?]);
    };
    let ids = list(root, &format!("{NODES}/online"), &online)?;
    ids.into_iter().map(|id| node(root, id)).collect()
}

fn node(root: &Root, id: u32) -> Result<Node, LinuxError> {
    let cpus_path = format!("{NODES}/node{id}/cpulist");
    let memory = root.read(format!("{NODES}/node{id}/meminfo"))?;
    let distances = root.read_optional(format!("{NODES}/node{id}/distance"))?.unwrap_or_default();
    Ok(Node {
        id,
        cpus: list(root, &cpus_path, &root.read(&cpus_path)?)?,
        total_bytes: meminfo(&memory, "MemTotal").unwrap_or(0),
        free_bytes: meminfo(&memory, "MemFree").unwrap_or(0),
        distances: distances.split_whitespace().filter_map(|d| d.parse().ok()).collect(),
        performance: performance(root, id)?,
    })
}

/// A kernel without NUMA has one kind of memory and no files about nodes.
fn whole_machine(root: &Root) -> Result<Node, LinuxError> {
    let memory = root.read("/proc/meminfo")?;
    let cpus_path = "/sys/devices/system/cpu/online";
    Ok(Node {
        id: 0,
        cpus: list(root, cpus_path, &root.read(cpus_path)?)?,
        total_bytes: meminfo(&memory, "MemTotal").unwrap_or(0),
        free_bytes: meminfo(&memory, "MemFree").unwrap_or(0),
        distances: vec![10],
        performance: None,
    })
}

fn performance(root: &Root, id: u32) -> Result<Option<Performance>, LinuxError> {
    let folder = format!("{NODES}/node{id}/access0/initiators");
    let value = |name: &str| -> Result<u64, LinuxError> {
        let text = root.read_optional(format!("{folder}/{name}"))?;
        Ok(text.and_then(|text| text.parse().ok()).unwrap_or(0))
    };
    let found = Performance {
        read_latency_ns: value("read_latency")?,
        write_latency_ns: value("write_latency")?,
        read_bandwidth_mib: value("read_bandwidth")?,
        write_bandwidth_mib: value("write_bandwidth")?,
    };
    Ok((found != Performance::default()).then_some(found))
}

fn tiers(root: &Root) -> Result<Vec<KernelTier>, LinuxError> {
    let mut tiers = Vec::new();
    for name in root.list(TIERS)? {
        let Some(id) = name.strip_prefix("memory_tier").and_then(|id| id.parse().ok()) else {
            continue;
        };
        let path = format!("{TIERS}/{name}/nodelist");
        tiers.push(KernelTier { id, nodes: list(root, &path, &root.read(&path)?)? });
    }
    tiers.sort_by_key(|tier| tier.id);
    Ok(tiers)
}

/// `MemTotal: 4 kB` or `Node 0 MemTotal: 4 kB`, in bytes.
fn meminfo(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find(|line| {
        line.split(':').next().is_some_and(|head| head.split_whitespace().last() == Some(key))
    })?;
    let kib: u64 = line.split(':').nth(1)?.split_whitespace().next()?.parse().ok()?;
    Some(kib.saturating_mul(1024))
}

/// A switch of the kernel: `1`, `Y`, `true` or `0`, `N`, `false`.
fn switch(root: &Root, path: &str) -> Result<Option<bool>, LinuxError> {
    Ok(root.read_optional(path)?.map(|text| matches!(text.as_str(), "1" | "Y" | "y" | "true")))
}

fn list(root: &Root, path: &str, text: &str) -> Result<Vec<u32>, LinuxError> {
    parse_list(text).ok_or_else(|| LinuxError::Malformed {
        path: root.path(path),
        what: format!("'{text}' is no list such as 0-1,3"),
    })
}

/// Largest number that a list may hold, so that a damaged range does not fill the memory.
const LARGEST_IN_LIST: u32 = 1 << 20;

/// Numbers of a list such as `0-1,3`, ends included; empty text is an empty list. None where it
/// is no such list.
pub fn parse_list(text: &str) -> Option<Vec<u32>> {
    let text = text.trim();
    if text.is_empty() {
        return Some(Vec::new());
    }
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last > LARGEST_IN_LIST {
            return None;
        }
        numbers.extend(first..=last);
    }
    numbers.sort_unstable();
    numbers.dedup();
    Some(numbers)
}

/// The list that [`parse_list`] reads these ascending numbers from.
pub fn format_list(numbers: &[u32]) -> String {
    let mut text = String::new();
    let mut rest = numbers;
    while let Some(first) = rest.first() {
        let run = rest.iter().zip(*first..).take_while(|(n, expected)| *n == expected).count();
        let separator = if text.is_empty() { "" } else { "," };
        text += &match run {
            1 => format!("{separator}{first}"),
            _ => format!("{separator}{first}-{}", rest[run - 1]),
        };
        rest = &rest[run..];
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;
    use proptest::prelude::*;

    fn one_node() -> Tree {
        let tree = Tree::new();
        tree.file("/sys/devices/system/node/online", "0\n");
        add_node(&tree, 0, "0-1", 24_000_000, "10");
        tree.file(
            "/proc/swaps",
            "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
             /dev/zram0                              partition\t4194300\t\t1024\t\t100\n\
             /swap\\040file                          file\t\t1000\t\t0\t\t-2\n",
        );
        tree
    }

    fn two_nodes() -> Tree {
        let tree = Tree::new();
        tree.file("/sys/devices/system/node/online", "0-1\n");
        add_node(&tree, 0, "0-1", 1_000_000, "10 20");
        add_node(&tree, 1, "", 3_000_000, "20 10");
        tree.file("/sys/kernel/mm/numa/demotion_enabled", "true\n");
        tree.file("/proc/sys/kernel/numa_balancing", "2\n");
        tree.file("/sys/module/zswap/parameters/enabled", "N\n");
        tree
    }

    fn add_node(tree: &Tree, id: u32, cpus: &str, total_kib: u64, distances: &str) {
        let folder = format!("/sys/devices/system/node/node{id}");
        tree.file(format!("{folder}/cpulist"), format!("{cpus}\n"));
        tree.file(format!("{folder}/distance"), format!("{distances}\n"));
        tree.file(
            format!("{folder}/meminfo"),
            format!(
                "Node {id} MemTotal:       {total_kib} kB\nNode {id} MemFree:        1000 kB\n"
            ),
        );
    }

    fn add_tier(tree: &Tree, id: u32, nodes: &str) {
        let folder = format!("/sys/devices/virtual/memory_tiering/memory_tier{id}");
        tree.file(format!("{folder}/nodelist"), format!("{nodes}\n"));
    }

    #[test]
    fn one_node_has_no_lower_tier() {
        let tree = one_node();
        add_tier(&tree, 4, "0");
        let topology = Topology::read(tree.root()).expect("the tree is complete");
        let node = &topology.nodes[0];
        assert_eq!((node.id, node.cpus.as_slice(), node.free_bytes), (0, &[0, 1][..], 1_024_000));
        assert_eq!(topology.total(), Bytes(24_576_000_000));
        assert_eq!(node.performance, None);
        assert_eq!(topology.demotion_enabled, None);
        assert_eq!(topology.numa_balancing, None);
        assert!(topology.lower_nodes().is_empty());
        assert!(topology.slow_tier_candidates().is_empty(), "no zram either");
        assert_eq!(topology.swaps.len(), 2);

        tree.file("/sys/block/zram0/disksize", "0\n");
        let topology = Topology::read(tree.root()).expect("the tree is complete");
        assert_eq!(topology.slow_tier_candidates(), [SlowTier::Zram]);
    }

    #[test]
    fn with_hmat_the_slow_node_is_a_lower_tier() {
        let tree = two_nodes();
        add_tier(&tree, 4, "0");
        add_tier(&tree, 22, "1");
        tree.file("/sys/block/zram0/disksize", "0\n");
        for (node, latency, bandwidth) in [(0, 80, 100_000), (1, 250, 30_000)] {
            let folder = format!("/sys/devices/system/node/node{node}/access0/initiators");
            for (name, value) in [("latency", latency), ("bandwidth", bandwidth)] {
                tree.file(format!("{folder}/read_{name}"), format!("{value}\n"));
                tree.file(format!("{folder}/write_{name}"), format!("{value}\n"));
            }
        }
        let topology = Topology::read(tree.root()).expect("the tree is complete");
        assert_eq!(topology.tiers.iter().map(|tier| tier.id).collect::<Vec<_>>(), [4, 22]);
        assert_eq!(topology.slow_tier_candidates(), [SlowTier::Node(1)], "a node, not zram");
        let slow = topology.node(1).and_then(|node| node.performance).expect("firmware says so");
        assert_eq!((slow.read_latency_ns, slow.write_bandwidth_mib), (250, 30_000));
        assert_eq!(topology.demotion_enabled, Some(true));
        assert_eq!(topology.numa_balancing, Some(2));
        assert_eq!(topology.zswap_enabled, Some(false));
    }

    #[test]
    fn without_hmat_all_nodes_are_one_tier() {
        let tree = two_nodes();
        add_tier(&tree, 4, "0-1");
        let topology = Topology::read(tree.root()).expect("the tree is complete");
        assert!(topology.nodes[1].cpus.is_empty());
        assert_eq!(topology.nodes[1].distances, [20, 10]);
        assert!(topology.slow_tier_candidates().is_empty());
    }

    #[test]
    fn a_faster_node_without_processors_is_not_slow() {
        let tree = two_nodes();
        add_tier(&tree, 2, "1");
        add_tier(&tree, 4, "0");
        let topology = Topology::read(tree.root()).expect("the tree is complete");
        assert!(topology.lower_nodes().is_empty(), "high-bandwidth memory is above, not below");
    }

    #[test]
    fn without_numa_the_machine_is_node_0() {
        let tree = Tree::new();
        tree.file("/proc/meminfo", "MemTotal:       100 kB\nMemFree:         40 kB\n");
        tree.file("/sys/devices/system/cpu/online", "0-3\n");
        let topology = Topology::read(tree.root()).expect("enough is there");
        assert_eq!(topology.nodes.len(), 1);
        assert_eq!((topology.nodes[0].id, topology.nodes[0].total_bytes), (0, 102_400));
    }

    #[test]
    fn damaged_files_are_named() {
        let tree = one_node();
        tree.file("/sys/devices/system/node/online", "0-x\n");
        let error = Topology::read(tree.root()).expect_err("that is no list").to_string();
        assert!(error.contains("node/online") && error.contains("0-x"), "{error}");
    }

    #[test]
    fn this_machine_is_read() {
        let topology = Topology::read(&Root::system()).expect("every Linux has these files");
        assert!(topology.total() > Bytes(0));
        assert!(topology.nodes.iter().any(|node| !node.cpus.is_empty()));
    }

    #[test]
    fn lists_are_read_and_written() {
        assert_eq!(parse_list("0-1,3\n"), Some(vec![0, 1, 3]));
        assert_eq!(parse_list(""), Some(vec![]));
        for damaged in ["1-0", "a", "1,", "-1", "0-4294967295", "0-99999999"] {
            assert_eq!(parse_list(damaged), None, "{damaged}");
        }
        assert_eq!(format_list(&[0, 1, 3, 5, 6, 7]), "0-1,3,5-7");
    }

    proptest! {
        #[test]
        fn lists_survive_writing_and_reading(numbers in proptest::collection::btree_set(0u32..300, 0..40)) {
            let numbers: Vec<u32> = numbers.into_iter().collect();
            prop_assert_eq!(parse_list(&format_list(&numbers)), Some(numbers));
        }

        #[test]
        fn any_text_is_read_without_panic(text: String) {
            parse_list(&text);
            meminfo(&text, "MemTotal");
        }
    }
}
