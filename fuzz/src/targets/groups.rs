//! Files of the kernel about control groups: mounts, the groups of a process, limits and numbers of both versions.

use super::tree::{Tree, joined};
use crate::target::Target;
use frostline_core::types::Bytes;
use frostline_linux::groups::{Ceiling, GroupName, Level, Trees, obstacle};

const PLACES: [&str; 14] = [
    "/proc/self/mountinfo",
    "/proc/1/cgroup",
    "/sys/fs/cgroup/a/cgroup.procs",
    "/sys/fs/cgroup/a/memory.max",
    "/sys/fs/cgroup/a/memory.high",
    "/sys/fs/cgroup/a/memory.current",
    "/sys/fs/cgroup/a/memory.swap.max",
    "/sys/fs/cgroup/a/memory.swap.current",
    "/sys/fs/cgroup/a/memory.stat",
    "/sys/fs/cgroup/memory/a/memory.limit_in_bytes",
    "/sys/fs/cgroup/memory/a/memory.memsw.limit_in_bytes",
    "/sys/fs/cgroup/memory/a/memory.usage_in_bytes",
    "/sys/fs/cgroup/memory/a/memory.memsw.usage_in_bytes",
    "/sys/fs/cgroup/memory/a/memory.stat",
];

const V1: &str = "35 31 0:32 / /sys/fs/cgroup/memory rw shared:7 - cgroup cgroup rw,memory\n";
const V2: &str = "23 31 0:22 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

pub const TARGET: Target = Target {
    name: "groups",
    check,
    seeds: || {
        let limits = ["67108864\n", "max\n", "20971520\n", "0\n", "4096\n"];
        let stat = "anon 5\ninactive_file 2097152\nactive_file 2097152\ntotal_swap 4096\n";
        let old = ["67108864\n", "100663296\n", "4096\n", "8192\n", stat];
        let all =
            |mounts, of| joined(&[&[mounts, of, "1\n2\n"][..], &limits, &[stat], &old].concat());
        vec![
            all(V2, "0::/a/b\n"),
            all(V1, "9:cpu,cpuacct:/elsewhere\n4:memory:/a\n"),
            all(V1, "4:memory:/a (deleted)\n0::/x\n"),
            b"/sys/fs/cgroup/system.slice/redis.service".to_vec(),
        ]
    },
    words: &[
        "%%\n",
        "0::/",
        "4:memory:/",
        " - cgroup2 cgroup2 rw\n",
        " - cgroup cgroup rw,memory\n",
        "max\n",
        "\\040",
        "9223372036854771712",
        "18446744073709551615",
        "/..",
    ],
};

fn check(bytes: &[u8]) {
    if let Ok(Ok(name)) = std::str::from_utf8(bytes).map(GroupName::parse) {
        let again = GroupName::parse(&name.to_string()).expect("it was one before");
        assert_eq!(again, name);
    }
    // The kernel writes no such path, and it would lead out of the tree.
    if bytes.windows(2).any(|two| two == b"..") {
        return;
    }
    let tree = Tree::new(bytes, &PLACES);
    let root = &tree.root();
    let _ = obstacle(root, Bytes(1 << 20));
    let Ok(trees) = Trees::read(root) else { return };
    if let Ok(Some(group)) = GroupName::parse("a").map_or(Ok(None), |name| trees.find(root, &name))
    {
        let members = group.members(root).unwrap_or_default();
        assert!(members.is_sorted_by(|a, b| a < b), "{members:?}");
    }
    let Ok(Some(group)) = trees.memory_group_of(root, 1) else { return };
    // A name may have any number of parts.
    for level in group.chain().take(20).filter_map(|group| Level::read(root, &group).ok()) {
        for part in [level.memory, level.swap] {
            assert!(part.room() <= part.ceiling && part.spare() <= part.room(), "{part:?}");
            let unlimited = part.ceiling == Ceiling::Unlimited;
            assert_eq!(unlimited, part.room() == Ceiling::Unlimited);
            assert!(part.room().plus(Ceiling::At(Bytes(u64::MAX))) >= part.room());
        }
    }
}
