//! Trees of both versions and of both together, made up; and damaged ones.

use super::*;
use crate::testing::Tree;
use crate::{LinuxError, Root};
use frostline_core::types::Bytes;

const V1: &str = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
    32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
    35 31 0:32 / /sys/fs/cgroup/memory rw shared:7 - cgroup cgroup rw,memory\n";
const V2_BESIDE: &str = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
const V2: &str = "23 31 0:22 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
const NO_LIMIT: &str = "9223372036854771712\n";
const MIB: u64 = 1 << 20;

fn mounted(mounts: &str) -> Tree {
    let tree = Tree::new();
    tree.file("proc/self/mountinfo", mounts);
    tree
}

fn v1(tree: &Tree, group: &str, limit: &str, both: &str, used_mib: u64, with_swap_mib: u64) {
    let folder = format!("sys/fs/cgroup/memory/{group}");
    tree.file(format!("{folder}/cgroup.procs"), "");
    tree.file(format!("{folder}/memory.limit_in_bytes"), limit);
    tree.file(format!("{folder}/memory.memsw.limit_in_bytes"), both);
    tree.file(format!("{folder}/memory.usage_in_bytes"), (used_mib * MIB).to_string());
    let both = (with_swap_mib * MIB).to_string();
    tree.file(format!("{folder}/memory.memsw.usage_in_bytes"), both);
    tree.file(format!("{folder}/memory.stat"), "cache 5\ntotal_inactive_file 0\n");
}

fn v2(tree: &Tree, group: &str, files: &[(&str, &str)]) {
    let folder = format!("sys/fs/cgroup/{group}");
    tree.file(format!("{folder}/cgroup.procs"), "");
    for (name, text) in files {
        tree.file(format!("{folder}/memory.{name}"), text);
    }
}

/// Limits of memory and swap of each group that process 5 is in, itself first.
fn ceilings(tree: &Tree) -> Vec<(String, Ceiling, Ceiling)> {
    let trees = Trees::read(tree.root()).expect("mounts");
    let group = trees.memory_group_of(tree.root(), 5).expect("groups").expect("seen");
    let read = |group: Group| Level::read(tree.root(), &group).expect("read");
    let level = |l: Level| (l.name.raw().to_owned(), l.memory.ceiling, l.swap.ceiling);
    group.chain().map(read).map(level).collect()
}

fn at(mib: u64) -> Ceiling {
    Ceiling::At(Bytes(mib * MIB))
}

#[test]
fn limits_of_the_first_version_are_read_from_its_own_tree() {
    let tree = mounted(V1);
    tree.file("proc/5/cgroup", "9:cpu,cpuacct:/elsewhere\n4:memory:/a/b\n");
    v1(&tree, "", NO_LIMIT, NO_LIMIT, 900, 900);
    v1(&tree, "a", &format!("{}\n", 64 * MIB), &format!("{}", 96 * MIB), 40, 50);
    v1(&tree, "a/b", NO_LIMIT, NO_LIMIT, 40, 50);
    let none = Ceiling::Unlimited;
    let expected = [("/a/b", none, none), ("/a", at(64), at(32)), ("/", none, none)];
    assert_eq!(ceilings(&tree), expected.map(|(name, a, b)| (name.to_owned(), a, b)));
    let group = Trees::read(tree.root()).expect("mounts").memory_group_of(tree.root(), 5);
    let above = group.expect("groups").expect("seen").parent().expect("a group above");
    let level = Level::read(tree.root(), &above).expect("read");
    assert_eq!(level.swap.used, Bytes(10 * MIB));
    assert_eq!((level.memory.room(), level.swap.room()), (at(24), at(22)));
    assert_eq!(level.memory.spare(), at(22), "a 32nd stays free");
}

#[test]
fn the_same_limit_of_memory_with_and_without_swap_means_no_swap() {
    let tree = mounted(V1);
    tree.file("proc/5/cgroup", "4:memory:/a\n");
    let limit = (64 * MIB).to_string();
    v1(&tree, "a", &limit, &limit, 10, 10);
    assert_eq!(ceilings(&tree)[0], ("/a".into(), at(64), at(0)));
}

#[test]
fn limits_of_the_second_version_are_words_or_numbers() {
    let tree = mounted(V2);
    tree.file("proc/5/cgroup", "0::/a.slice/b\n");
    let max = [("max", "max\n"), ("high", "max"), ("swap.max", "max"), ("current", "7")];
    v2(&tree, "a.slice", &max);
    v2(
        &tree,
        "a.slice/b",
        &[
            ("max", "67108864"),
            ("high", "33554432\n"),
            ("current", "20971520"),
            ("stat", "anon 5\ninactive_file 2097152\nactive_file 2097152\n"),
            ("swap.max", "0"),
            ("swap.high", "max"),
            ("swap.current", "0"),
        ],
    );
    v2(&tree, "", &[]);
    let none = Ceiling::Unlimited;
    let expected = [("/a.slice/b", at(32), at(0)), ("/a.slice", none, none), ("/", none, none)];
    assert_eq!(ceilings(&tree), expected.map(|(name, a, b)| (name.to_owned(), a, b)));
    let group = Trees::read(tree.root()).expect("mounts").memory_group_of(tree.root(), 5);
    let level = Level::read(tree.root(), &group.expect("groups").expect("seen")).expect("read");
    assert_eq!((level.memory.file, level.swap.file), ("memory.high", "memory.swap.max"));
    assert_eq!((level.memory.used, level.cached), (Bytes(20 * MIB), Bytes(4 * MIB)));
}

#[test]
fn where_both_versions_are_mounted_memory_is_that_of_the_first() {
    let tree = mounted(&format!("{V1}{V2_BESIDE}"));
    tree.file("proc/5/cgroup", "4:memory:/a\n1:name=systemd:/x\n0::/x\n");
    v1(&tree, "a", &(64 * MIB).to_string(), NO_LIMIT, 10, 10);
    assert_eq!(ceilings(&tree)[0], ("/a".into(), at(64), Ceiling::Unlimited));
    // As far as memory is not the first version's, it is the second's.
    let without = V1.replace("rw,memory", "rw,pids");
    let tree = mounted(&format!("{without}41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"));
    tree.file("proc/5/cgroup", "4:pids:/a\n0::/x\n");
    v2(&tree, "x", &[("max", "1048576"), ("current", "0")]);
    assert_eq!(ceilings(&tree)[0], ("/x".into(), at(1), Ceiling::Unlimited));
}

#[test]
fn a_part_of_a_tree_that_a_container_sees_is_where_it_is_mounted() {
    let tree =
        mounted("35 31 0:32 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    tree.file("proc/5/cgroup", "4:memory:/docker/abc/in\n");
    tree.file("proc/6/cgroup", "4:memory:/docker/other\n");
    tree.file("proc/7/cgroup", "4:memory:/../other\n");
    v1(&tree, "in", &(64 * MIB).to_string(), NO_LIMIT, 10, 10);
    assert_eq!(ceilings(&tree)[0], ("/in".into(), at(64), Ceiling::Unlimited));
    let trees = Trees::read(tree.root()).expect("mounts");
    for pid in [6, 7] {
        assert_eq!(trees.memory_group_of(tree.root(), pid).expect("read"), None, "{pid}");
    }
}

#[test]
fn what_is_not_there_is_no_limit() {
    let tree = Tree::new();
    let trees = Trees::read(tree.root()).expect("no mounts");
    tree.file("proc/5/stat", "");
    assert_eq!(trees.memory_group_of(tree.root(), 5).expect("a kernel without groups"), None);
    assert!(trees.memory_group_of(tree.root(), 6).expect_err("no such process").is_gone());
    assert_eq!(obstacle(tree.root(), Bytes(1 << 40)).expect("no groups"), None);
    let tree = mounted(V2);
    tree.file("proc/5/cgroup", "0::/gone (deleted)\n");
    v2(&tree, "", &[]);
    let none = Ceiling::Unlimited;
    let expected = [("/gone (deleted)", none, none), ("/", none, none)];
    assert_eq!(ceilings(&tree), expected.map(|(name, a, b)| (name.to_owned(), a, b)));
}

#[test]
fn damaged_files_are_errors_that_name_the_file() {
    let good =
        [("max", "1"), ("high", "1"), ("current", "1"), ("swap.max", "1"), ("swap.high", "1")];
    for (file, text) in [
        ("max", ""),
        ("max", "-1"),
        ("high", "many"),
        ("current", "max"),
        ("swap.max", "1 2"),
        ("swap.high", "\u{1b}[2J"),
        ("swap.current", "x"),
        ("stat", "inactive_file"),
    ] {
        let tree = mounted(V2);
        tree.file("proc/5/cgroup", "0::/a\n");
        v2(&tree, "a", &good);
        v2(&tree, "a", &[(file, text)]);
        let trees = Trees::read(tree.root()).expect("mounts");
        let group = trees.memory_group_of(tree.root(), 5).expect("groups").expect("seen");
        let error = Level::read(tree.root(), &group).expect_err(file);
        assert!(matches!(error, LinuxError::Malformed { .. }), "{error}");
        let told = error.to_string();
        assert!(told.contains(&format!("/a/memory.{file}")) && !told.contains('\u{1b}'), "{told}");
        assert!(obstacle(tree.root(), Bytes(1)).is_err(), "and nothing is taken for granted");
    }
    let tree = mounted(V1);
    for text in ["4:memory", "x\n", "4"] {
        tree.file("proc/5/cgroup", text);
        let trees = Trees::read(tree.root()).expect("mounts");
        let error = trees.memory_group_of(tree.root(), 5).expect_err(text).to_string();
        assert!(error.contains("proc/5/cgroup"), "{error}");
    }
    for text in ["odd\n", "1 2 3\n", "32 31 0:29 / /x rw -\n", "a - b c d\n"] {
        let tree = mounted(text);
        let error = Trees::read(tree.root()).expect_err(text).to_string();
        assert!(error.contains("proc/self/mountinfo"), "{error}");
    }
}

fn members(root: &Root, name: &str) -> Option<Vec<u32>> {
    let name = GroupName::parse(name).expect("a name");
    let group = Trees::read(root).expect("mounts").find(root, &name).expect("trees");
    group.map(|group| group.members(root).expect("read"))
}

#[test]
fn groups_are_found_by_name_and_by_folder_and_walked_downwards() {
    let tree = Tree::new();
    let nothing = Trees::read(tree.root()).expect("no mounts");
    let error = nothing.find(tree.root(), &GroupName::parse("a").expect("a name"));
    assert!(error.expect_err("no tree").to_string().contains("hint: "));
    let beside = "41 31 0:38 / /sys/fs/cg\\0402 rw - cgroup2 cgroup2 rw\n";
    tree.file("proc/self/mountinfo", format!("{V1}{beside}"));
    for (path, text) in [
        ("sys/fs/cg 2/a/cgroup.procs", "5\n0\n"),
        ("sys/fs/cg 2/a/b/c/cgroup.procs", "6\n"),
        ("sys/fs/cg 2/a/b/cgroup.procs", "7\n5\n"),
        ("sys/fs/cg 2/z/cgroup.procs", "8\n"),
        ("sys/fs/cg 2/empty/cgroup.procs", ""),
        ("sys/fs/cgroup/memory/a/cgroup.procs", "70\n"),
        ("sys/fs/cgroup/memory/m/cgroup.procs", "9\n"),
        ("sys/fs/cgroup/cpu/c/cgroup.procs", "10\n"),
    ] {
        tree.file(path, text);
    }
    let root = tree.root();
    for name in ["/a", "a", "a//", "/sys/fs/cg 2/a"] {
        assert_eq!(members(root, name), Some(vec![5, 6, 7]), "{name}");
    }
    assert_eq!(members(root, "/sys/fs/cg 2/z"), Some(vec![8]));
    assert_eq!(members(root, "m"), Some(vec![9]), "of the tree of memory");
    assert_eq!(members(root, "/sys/fs/cgroup/memory/a"), Some(vec![70]));
    assert_eq!(members(root, "c"), Some(vec![10]));
    assert_eq!(members(root, "empty"), Some(vec![]));
    assert_eq!(members(root, "none"), None);
    assert_eq!(members(root, "/sys/fs/cg 2/none"), None);
    for folder in ["/sys/fs/cg 2", "/sys/fs/cg 2/", "/sys/fs/cgroup/memory"] {
        let trees = Trees::read(root).expect("mounts");
        let name = GroupName::parse(folder).expect("a name");
        let error = trees.find(root, &name).expect_err(folder).to_string();
        assert!(error.contains("every process") && error.contains("hint: "), "{error}");
    }
}

#[test]
fn what_would_not_fit_into_a_group_is_an_obstacle() {
    let tree = mounted(V1);
    v1(&tree, "", NO_LIMIT, NO_LIMIT, 900, 950);
    v1(&tree, "a", &(64 * MIB).to_string(), NO_LIMIT, 40, 60);
    v1(&tree, "a/b", NO_LIMIT, NO_LIMIT, 40, 60);
    v1(&tree, "c", &(8 * MIB).to_string(), NO_LIMIT, 8, 8);
    // 24 MiB of room, of which 2 stay free: 20 MiB fit, and nothing of the group that is full is in swap.
    assert_eq!(obstacle(tree.root(), Bytes(100 * MIB)).expect("read"), None);
    v1(&tree, "a", &(64 * MIB).to_string(), NO_LIMIT, 40, 63);
    let why = obstacle(tree.root(), Bytes(100 * MIB)).expect("read").expect("it does not fit");
    let told = why.to_string();
    for part in ["group /a has 23 MiB", "take in 22 MiB", "limit_in_bytes is 64 MiB", "raise"] {
        assert!(told.contains(part), "{told}");
    }
    assert_eq!(obstacle(tree.root(), Bytes(20 * MIB)).expect("read"), None, "not all is there");
    let cached = format!("cache 9\ntotal_inactive_file 0\ntotal_active_file {}\n", 4 * MIB);
    tree.file("sys/fs/cgroup/memory/a/memory.stat", cached);
    assert_eq!(obstacle(tree.root(), Bytes(100 * MIB)).expect("read"), None, "files make room");
    // What a group above may have bounds it, too.
    let tree = mounted(V2);
    v2(&tree, "", &[]);
    v2(&tree, "a", &[("max", "1048576"), ("current", "1040000"), ("swap.current", "65536")]);
    v2(&tree, "a/b", &[("max", "max"), ("current", "1040000"), ("swap.current", "65536")]);
    let told = obstacle(tree.root(), Bytes(65536)).expect("read").expect("no room").to_string();
    assert!(told.contains("group /a has 1 MiB") && told.contains("memory.max is 1 MiB"), "{told}");
}
