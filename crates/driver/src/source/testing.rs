//! Support for tests of several sources.

use frostline_linux::Root;
use frostline_linux::accesses::balancing::{MODE, RATE};
use frostline_linux::perf::faults::{FaultKind, FaultSampler};
use frostline_testing::{Requirement, skip};
use std::fs;
use std::path::Path;

/// Makes a file with the folders that lead to it.
pub fn file(root: &Root, path: &str, text: &str) {
    let path = root.path(path);
    fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
    fs::write(path, text).unwrap();
}

/// Pages of node 0 that are free, of a million.
pub fn free(root: &Root, pages: u64) {
    let zone = format!("Node 0, zone Normal\n pages free {pages}\n promo 0\n present 1000000\n");
    file(root, "/proc/zoneinfo", &zone);
}

/// A tree with two nodes, of which the second is a tier of its own and has no processors, and with
/// `kernel.numa_balancing` as given; `None`, with the reason printed, where faults cannot be
/// sampled.
pub fn two_tiers(balancing: &str) -> Option<(tempfile::TempDir, Root)> {
    if let Err(error) = FaultSampler::new(&Root::system(), FaultKind::All) {
        skip(Requirement::Faults, error);
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let root = Root::at(dir.path());
    // Events are made on the processors that there really are.
    let cpus = "/sys/devices/system/cpu/online";
    file(&root, cpus, &Root::system().read(cpus).unwrap());
    file(&root, "/sys/devices/system/node/online", "0-1\n");
    for (node, cpus) in [(0, "0"), (1, "")] {
        let folder = format!("/sys/devices/system/node/node{node}");
        file(&root, &format!("{folder}/cpulist"), &format!("{cpus}\n"));
        file(&root, &format!("{folder}/meminfo"), &format!("Node {node} MemTotal: 1048576 kB\n"));
        let tier = format!("/sys/devices/virtual/memory_tiering/memory_tier{}/nodelist", 4 + node);
        file(&root, &tier, &format!("{node}\n"));
    }
    file(&root, MODE, balancing);
    file(&root, RATE, "65536");
    file(&root, "/proc/sys/kernel/random/boot_id", "boot\n");
    let (pid, zeros) = (std::process::id(), "0 ".repeat(30));
    let stat = format!("{pid} (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1000 {zeros}");
    file(&root, &format!("/proc/{pid}/stat"), &stat);
    free(&root, 1000);
    Some((dir, root))
}
