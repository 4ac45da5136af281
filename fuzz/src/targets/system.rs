//! Files of the kernel about the machine: swap, zswap, nodes, tiers of memory, frames, sampling units.

use super::tree::{Tree, joined};
use crate::target::Target;
use frostline_linux::pages::frames::FrameNodes;
use frostline_linux::perf::pmu;
use frostline_linux::topology::{Topology, format_list, parse_list};
use frostline_linux::{accesses::balancing, swap};

const PLACES: [&str; 18] = [
    "/proc/swaps",
    "/proc/zoneinfo",
    "/proc/meminfo",
    "/proc/sys/vm/page-cluster",
    "/sys/module/zswap/parameters/enabled",
    "/sys/module/zswap/parameters/max_pool_percent",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/node/node0/cpulist",
    "/sys/devices/system/node/node0/meminfo",
    "/sys/devices/system/node/node0/distance",
    "/sys/devices/virtual/memory_tiering/memory_tier4/nodelist",
    "/sys/bus/event_source/devices/cpu/type",
    "/sys/bus/event_source/devices/cpu/events/mem-loads",
    "/sys/bus/event_source/devices/cpu/format/event",
    "/sys/bus/event_source/devices/cpu/format/umask",
    "/sys/bus/event_source/devices/cpu/format/ldlat",
    "/sys/bus/event_source/devices/cpu/cpus",
    "/sys/devices/system/node/online",
];

pub const TARGET: Target = Target {
    name: "system",
    check,
    seeds: || {
        let parts = [
            "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
             /dev/zram0                              partition\t4194300\t\t1024\t\t100\n\
             /swap\\040file                          file\t\t1000\t\t0\t\t-2\n",
            "Node 0, zone  Normal\n  pages free     3840\n        spanned  4095\n        present  1\n  \
             node_unreclaimable:  0\n  start_pfn:  1\nNode 1, zone Movable\n spanned 7\n start_pfn: 5000\n",
            "MemTotal:       24000000 kB\nMemFree:        1000 kB\n",
            "3\n",
            "Y\n",
            "20\n",
            "0-1\n",
            "0-1,4\n",
            "Node 0 MemTotal:       24000000 kB\nNode 0 MemFree:        1000 kB\n",
            "10 20\n",
            "0\n",
            "4\n",
            "event=0xcd,umask=0x1\n",
            "config:0-7\n",
            "config:8-15,40\n",
            "config1:0-15\n",
            "0-3\n",
            "0\n",
        ];
        vec![joined(&parts), joined(&parts[..7])]
    },
    words: &[
        "%%\n",
        "partition\t",
        "file\t",
        "Node 0, zone ",
        "spanned ",
        "start_pfn: ",
        "MemTotal: ",
        " kB\n",
        "config:",
        "config1:",
        "event=0x",
        ",umask=",
        "0-63",
        "1048576",
        "18446744073709551615",
    ],
};

fn check(bytes: &[u8]) {
    for text in super::tree::parts(bytes).filter_map(|part| std::str::from_utf8(part).ok()) {
        if let Some(numbers) = parse_list(text) {
            assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
            assert_eq!(parse_list(&format_list(&numbers)), Some(numbers));
        }
    }
    let tree = Tree::new(bytes, &PLACES);
    let root = &tree.root();
    let _ = (swap::devices(root), swap::is_full(root), swap::zswap(root));
    let _ = swap::setting(root, swap::PAGE_CLUSTER);
    if let Ok(nodes) = FrameNodes::read(root) {
        for frame in [0, 1, 4096, u64::MAX] {
            let _ = nodes.node_of(frame);
        }
    }
    if let Ok(topology) = Topology::read(root) {
        let _ = (topology.total(), topology.lower_nodes(), topology.slow_tier_candidates());
    }
    let _ = (pmu::sources(root), balancing::plenty(root));
}
