use super::*;
use frostline_testing::forks;
use std::collections::HashSet;

/// Files like those of `/proc` and `/sys`, gone when it is dropped.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("there is room for a folder"))
    }

    fn root(&self) -> Root {
        Root::at(self.0.path())
    }

    fn file(&self, path: impl AsRef<std::path::Path>, contents: impl AsRef<[u8]>) {
        let path = self.root().path(path);
        let folder = path.parent().expect("a path below the root");
        std::fs::create_dir_all(folder).expect("folders can be made");
        std::fs::write(path, contents).expect("files can be written");
    }
}

fn named<'a>(found: &'a [Capability], name: &str) -> &'a Capability {
    found.iter().find(|capability| capability.name == name).expect("it is always looked at")
}

#[test]
fn this_system_is_examined_and_nothing_is_left_behind() {
    let _forks = forks();
    let root = Root::system();
    let children =
        || frostline_linux::process::children(&root, std::process::id()).unwrap_or_default();
    let before = children();
    let found = examine(&root);
    for capability in &found {
        eprintln!("{capability:?}");
        assert!(!capability.why.is_empty());
    }
    let names: HashSet<_> = found.iter().map(|capability| capability.name).collect();
    assert_eq!(names.len(), found.len(), "every name once");
    let left: Vec<_> = children().into_iter().filter(|pid| !before.contains(pid)).collect();
    let ours = |pid: &u32| {
        let comm = root.read(format!("/proc/{pid}/comm")).unwrap_or_default();
        let own = root.read("/proc/self/comm").unwrap_or_default();
        comm == own
    };
    assert!(left.len() <= 8 && left.iter().filter(|pid| ours(pid)).count() <= 2, "{left:?}");
    // What every kernel that this can run on has for a process of one's own.
    assert!(named(&found, "pagemap").available);
    assert!(serde_json::to_string(&found).expect("plain data").contains("\"name\":\"pagemap\""));
}

#[test]
fn of_an_empty_tree_nothing_is_claimed() {
    let _forks = forks();
    let tree = Tree::new();
    for capability in examine(&tree.root()) {
        let absent_is_good = ["numa-balancing-off"];
        assert!(
            !capability.available || absent_is_good.contains(&capability.name),
            "{capability:?}"
        );
    }
}

/// A machine with one node, as the files show it to root.
fn machine() -> Tree {
    let tree = Tree::new();
    tree.file("/proc/self/status", "Name:\tx\nCapEff:\t000001ffffffffff\n");
    tree.file("/proc/self/uid_map", "         0          0 4294967295\n");
    tree.file("/proc/self/mountinfo", "1 2 0:3 / /cg rw - cgroup2 none rw\n");
    tree.file("/cg/cgroup.controllers", "cpu memory pids\n");
    tree.file("/proc/sys/kernel/perf_event_paranoid", "4\n");
    tree.file("/proc/sys/kernel/numa_balancing", "1\n");
    tree.file("/sys/devices/system/node/online", "0-1\n");
    for node in 0..2 {
        let folder = format!("/sys/devices/system/node/node{node}");
        tree.file(format!("{folder}/cpulist"), if node == 0 { "0-1\n" } else { "\n" });
        tree.file(format!("{folder}/meminfo"), format!("Node {node} MemTotal: 1048576 kB\n"));
    }
    tree.file("/sys/devices/virtual/memory_tiering/memory_tier4/nodelist", "0-1\n");
    tree.file("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
    tree.file("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    tree.file("/sys/block/zram0/disksize", "0\n");
    tree
}

#[test]
fn what_files_say_is_understood() {
    let _forks = forks();
    let tree = machine();
    let found = examine(&tree.root());
    for name in [
        "cap-sys-nice",
        "cap-perfmon",
        "perf-event-paranoid",
        "numa-nodes",
        "huge-pages",
        "zram",
        "cgroup-v2",
    ] {
        assert!(named(&found, name).available, "{:?}", named(&found, name));
    }
    let tiers = named(&found, "memory-tiers");
    assert!(!tiers.available && tiers.why.contains("all are one tier"), "{tiers:?}");
    let balancing = named(&found, "numa-balancing-off");
    assert!(!balancing.available && balancing.why.contains("against us"), "{balancing:?}");
    assert!(named(&found, "no-lockdown").why.contains("'integrity'"));
    assert!(named(&found, "damon").why.contains("not built"));
    let faults = named(&found, "fault-sampling");
    assert!(!faults.available && faults.why.starts_with("not tried"), "{faults:?}");
}

#[test]
fn lockdown_is_denied_only_on_evidence() {
    let _forks = forks();
    let tree = Tree::new();
    let found = |tree: &Tree| named(&examine(&tree.root()), "no-lockdown").clone();
    tree.file("/proc/self/mounts", "proc /proc proc rw 0 0\n");
    assert!(found(&tree).why.starts_with("not known"));
    tree.file("/proc/self/mounts", "d /d debugfs rw 0 0\n");
    assert!(!found(&tree).available);
    tree.file("/d/split_huge_pages", "");
    assert!(found(&tree).available);
    tree.file("/proc/self/mounts", "s /sys/kernel/security securityfs rw 0 0\n");
    assert!(found(&tree).why.contains("has no lockdown"));
    tree.file("/sys/kernel/security/lockdown", "none integrity [confidentiality]\n");
    assert!(found(&tree).why.contains("'confidentiality'"));
}

#[test]
fn a_container_s_rights_are_not_taken_for_real() {
    let _forks = forks();
    let tree = machine();
    tree.file("/proc/self/uid_map", "0 100000 65536\n");
    let found = examine(&tree.root());
    for name in ["cap-sys-nice", "cap-sys-admin", "perf-event-paranoid", "zram"] {
        assert!(!named(&found, name).available, "{:?}", named(&found, name));
    }
    assert!(named(&found, "cap-sys-nice").why.contains("user namespace"));
}

#[test]
fn without_rights_the_level_of_caution_decides() {
    let _forks = forks();
    let tree = machine();
    tree.file("/proc/self/status", "CapEff:\t0000000000000000\n");
    let at = |level: &str| {
        tree.file("/proc/sys/kernel/perf_event_paranoid", level);
        named(&examine(&tree.root()), "perf-event-paranoid").clone()
    };
    assert!(at("1").why.contains("included") && at("2").why.contains("left out"));
    assert!(at("2").available && !at("3").available);
}
