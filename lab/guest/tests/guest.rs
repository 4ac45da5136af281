//! Tests of the guest itself: two nodes, two tiers where firmware describes them, and everything
//! that the live engine uses.

mod support;

use frostline_guest::{Guest, Outcome, Report, built_tests};
use frostline_testing::{Requirement, skip};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;
use support::{passed, ran};

/// What the kernel says of nodes and tiers; the same in both configurations.
const MACHINE: &str = r#"
tiers() {
    for tier in /sys/devices/virtual/memory_tiering/memory_tier*; do
        echo "${tier##*/}: $(cat "$tier/nodelist")"
    done
}
nodes() {
    for node in /sys/devices/system/node/node[0-9]*; do
        total=$(awk '/MemTotal/ { print int($4 / 1024) }' "$node/meminfo")
        echo "${node##*/}: cpus=$(cat "$node/cpulist") MiB=$total"
    done
}
section tiers tiers
section nodes nodes
section topology guest-probe topology
section doctor guest-probe doctor
section demotion sh -c 'echo true >/sys/kernel/mm/numa/demotion_enabled && cat /sys/kernel/mm/numa/demotion_enabled'
"#;

/// Nobody but the tests shall make huge pages.
const NO_KHUGEPAGED: &str = "
echo 1000000 >/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs
";

/// What the live engine needs of a kernel.
const FACILITIES: &str = r#"
latency() {
    cd /sys/devices/system/node || exit
    for node in 0 1; do cat node$node/access0/initiators/read_latency; done
}
damon() {
    cd /sys/kernel/mm/damon/admin/kdamonds || exit
    echo 1 >nr_kdamonds && echo 1 >0/contexts/nr_contexts && cat 0/contexts/0/avail_operations
    echo 0 >nr_kdamonds
}
mounts() {
    ls -d /sys/kernel/tracing/events/damon/damon_aggregated \
        /sys/kernel/tracing/events/syscalls/sys_enter_mmap \
        /sys/kernel/debug/split_huge_pages /sys/kernel/mm/transparent_hugepage/enabled
    cat /sys/fs/cgroup/cgroup.subtree_control
}
swapped() {
    echo 64M >/sys/block/zram0/disksize && mkswap /dev/zram0 >/dev/null && swapon /dev/zram0 &&
        cat /proc/swaps && swapoff /dev/zram0 && echo 1 >/sys/block/zram0/reset
}
section latency latency
section damon damon
section mounts mounts
section zram swapped
section balancing cat /proc/sys/kernel/numa_balancing
section kernel uname -r
section failing sh -c 'echo out; echo err >&2; exit 7'
section nobody su nobody -c 'id -u; cat /proc/1/environ'
section doctor-nobody su nobody -c 'guest-probe doctor'
section move-base guest-probe move base
section move-huge guest-probe move huge
section folios guest-probe folios
section cpuset guest-probe cpuset
mkdir -p /out/deep && echo kept >/out/deep/file
echo to stderr >/dev/stderr
sleep 1000 &
exit 3
"#;

fn guest() -> Guest {
    Guest::default().file(env!("CARGO_BIN_EXE_guest-probe"))
}

static TWO_TIERS: LazyLock<Outcome> =
    LazyLock::new(|| guest().run(&format!("{NO_KHUGEPAGED}{MACHINE}{FACILITIES}")));
static ONE_TIER: LazyLock<Outcome> = LazyLock::new(|| guest().hmat(false).run(MACHINE));

#[test]
fn with_hmat_there_are_two_tiers_and_without_there_is_one() {
    let (Some(two), Some(one)) = (ran(&TWO_TIERS), ran(&ONE_TIER)) else { return };
    let nodes = |report: &Report| -> Vec<String> {
        let lines = passed(report, "tiers").lines();
        lines.map(|line| line.rsplit(' ').next().unwrap_or("").to_owned()).collect()
    };
    assert_eq!(nodes(two), ["0", "1"], "{}", passed(two, "tiers"));
    assert_eq!(nodes(one), ["0-1"], "{}", passed(one, "tiers"));
    assert_eq!(passed(two, "demotion"), "true");
    assert_eq!(one.code, 0, "{}", one.stderr);
}

#[test]
fn nodes_have_their_sizes_and_all_processors_are_of_the_first() {
    for outcome in [&TWO_TIERS, &ONE_TIER] {
        let Some(report) = ran(outcome) else { return };
        let text = passed(report, "nodes");
        let mut sizes = Vec::new();
        for line in text.lines() {
            let (node, size) = line.split_once(" MiB=").expect("a line of the script");
            sizes.push((node.to_owned(), size.parse::<u64>().expect("a number")));
        }
        let [(fast, fast_mib), (slow, slow_mib)] = &sizes[..] else { panic!("two nodes: {text}") };
        assert_eq!((fast.as_str(), slow.as_str()), ("node0: cpus=0-1", "node1: cpus="));
        // The kernel keeps some of it for itself.
        assert!((850..=1024).contains(fast_mib), "{text}");
        assert!((1450..=1536).contains(slow_mib), "{text}");
    }
}

#[test]
fn the_kernel_offers_what_the_live_engine_uses() {
    let Some(report) = ran(&TWO_TIERS) else { return };
    assert_eq!(passed(report, "latency"), "80\n250");
    let operations: Vec<&str> = passed(report, "damon").split_whitespace().collect();
    assert!(operations.contains(&"fvaddr"), "{operations:?}");
    let mounts = passed(report, "mounts");
    for controller in ["memory", "cpuset"] {
        let last = mounts.lines().last().unwrap_or("");
        assert!(last.split(' ').any(|word| word == controller), "{mounts}");
    }
    assert!(passed(report, "zram").contains("/dev/zram0"));
    assert_eq!(passed(report, "balancing"), "0");
}

#[test]
fn our_view_of_the_tiers_is_the_kernel_s() {
    let (Some(two), Some(one)) = (ran(&TWO_TIERS), ran(&ONE_TIER)) else { return };
    let told = passed(two, "topology");
    assert!(told.starts_with("lower nodes: [1]\n"), "{told}");
    assert!(told.contains("Some((80, 102400))") && told.contains("Some((250, 30720))"), "{told}");
    let told = passed(one, "topology");
    assert!(told.starts_with("lower nodes: []\n"), "{told}");
}

#[test]
fn base_and_huge_pages_are_demoted_and_promoted() {
    let Some(report) = ran(&TWO_TIERS) else { return };
    for section in ["move-base", "move-huge"] {
        let told = passed(report, section);
        assert!(told.ends_with("moved there and back"), "{told}");
    }
}

#[test]
fn huge_pages_are_split_spread_and_rebuilt_under_a_writer() {
    let Some(report) = ran(&TWO_TIERS) else { return };
    assert_eq!(passed(report, "folios"), "split 8\n704 single pages moved\ncollapsed 8");
}

#[test]
fn a_cpuset_keeps_pages_from_a_node() {
    let Some(report) = ran(&TWO_TIERS) else { return };
    assert!(passed(report, "cpuset").contains("cpuset.mems"));
}

#[test]
fn a_node_that_is_full_takes_no_more_and_nothing_is_lost() {
    let small = guest().memory_mib(512, 256);
    let outcome = small.run("section full guest-probe full 300\n");
    if let Some(report) = ran(&outcome) {
        assert!(passed(report, "full").contains("without space"));
    }
}

/// What `doctor` answers: whether, and why.
fn doctor<'a>(report: &'a Report, section: &str) -> BTreeMap<&'a str, (bool, &'a str)> {
    let lines = passed(report, section).lines();
    lines
        .map(|line| {
            let (name, answer) = line.split_once(": ").expect("a line of the probe");
            let (answer, why) = answer.split_once(": ").expect("an answer and its reason");
            (name, (answer == "yes", why))
        })
        .collect()
}

#[test]
fn doctor_says_yes_to_what_is_there_and_no_to_what_is_not() {
    let (Some(two), Some(one)) = (ran(&TWO_TIERS), ran(&ONE_TIER)) else { return };
    let told = doctor(two, "doctor");
    let there = "numa-nodes memory-tiers hmat numa-balancing-off huge-pages zram cgroup-v2 advise \
        move-pages collapse split fault-sampling tracefs allocation-tracing pagemap page-frames \
        pagemap-scan soft-dirty damon hint-faults page-tables";
    for name in there.split_whitespace() {
        assert!(told[name].0, "{name}: {}", told[name].1);
    }
    for name in ["swap", "zswap", "page-out", "pmu-sampling", "page-idle"] {
        assert!(!told[name].0, "{name}: {}", told[name].1);
    }
    assert!(told["move-pages"].1.contains("from node 0 to 1"), "{}", told["move-pages"].1);

    let told = doctor(one, "doctor");
    for name in ["memory-tiers", "hmat", "hint-faults"] {
        assert!(!told[name].0, "without HMAT, {name}: {}", told[name].1);
    }
    assert!(told["numa-nodes"].0 && told["move-pages"].0);

    let told = doctor(two, "doctor-nobody");
    for name in [
        "cap-sys-nice",
        "cap-sys-admin",
        "damon",
        "page-tables",
        "page-frames",
        "allocation-tracing",
        "hint-faults",
    ] {
        assert!(!told[name].0, "without rights, {name}: {}", told[name].1);
    }
}

#[test]
fn the_tests_of_both_kernel_crates_pass_on_this_kernel() {
    let programs =
        ["frostline_linux", "frostline_inprocess", "memory"].map(|name| (name, built_tests(name)));
    let mut guest = Guest::default();
    // One that the tests are not linked to, for them to inject.
    let libraries = ["/lib/x86_64-linux-gnu", "/lib64", "/usr/lib"].map(Path::new);
    let mut spare = libraries.iter().map(|folder| folder.join("libresolv.so.2"));
    if let Some(spare) = spare.find(|file| file.exists()) {
        guest = guest.file(spare);
    }
    let mut script = NO_KHUGEPAGED.to_owned();
    for (name, program) in &programs {
        let Some(program) = program else {
            let why = format!("the tests '{name}' are not built, as cargo test --workspace does");
            return skip(Requirement::Guest, why);
        };
        guest = guest.file_as(name, program);
        script += &format!("section {name} {name} --test-threads 2\n");
        script += &format!("section {name}-nobody su nobody -c '{name} --test-threads 2'\n");
    }
    let outcome = guest.run(&script);
    let Some(report) = ran(&outcome) else { return };
    for (name, _) in &programs {
        for section in [(*name).to_owned(), format!("{name}-nobody")] {
            assert!(passed(report, &section).contains("test result: ok. "), "{report:?}");
        }
    }
}

#[test]
fn what_a_job_says_comes_back() {
    let Some(report) = ran(&TWO_TIERS) else { return };
    assert_eq!(report.code, 3, "{}", report.stderr);
    let failing = report.section("failing").expect("a section that fails");
    assert_eq!((failing.code, failing.text.as_str()), (Some(7), "out\nerr"));
    assert!(report.passed("failing").is_err() && report.passed("no such section").is_err());
    assert_eq!(report.stderr, "to stderr\n");
    assert!(report.console.contains("Linux version 6."), "{}", report.console);
    let kept = std::fs::read_to_string(report.file("deep/file"));
    assert_eq!(kept.expect("a file of /out"), "kept\n");
    // Without rights, other people's processes stay closed.
    let nobody = report.section("nobody").expect("a section");
    assert!(nobody.text.starts_with("65534\n") && nobody.code != Some(0), "{nobody:?}");
}

#[test]
fn a_job_that_hangs_ends_by_timeout_and_a_guest_that_dies_is_told_from_it() {
    let hang = Guest::default().memory_mib(256, 256).timeout_s(40);
    match hang.run("echo before; sleep 1000") {
        Outcome::Failed(reason) => {
            assert!(reason.contains("timeout: ") && reason.contains("\n["), "{reason}");
            // By name and state, and where the kernel has it.
            assert!(reason.contains("init: what runs after "), "{reason}");
            assert!(reason.contains(" sleep State:\tS (sleeping) "), "{reason}");
            assert!(reason.contains("hrtimer_nanosleep"), "{reason}");
        }
        Outcome::Impossible(reason) => return skip(Requirement::Guest, reason),
        Outcome::Ran(report) => panic!("it ended: {report:?}"),
    }
    let dying = Guest::default().memory_mib(256, 256);
    match dying.run("echo c >/proc/sysrq-trigger; sleep 1000") {
        Outcome::Failed(reason) => {
            assert!(reason.contains("died: ") && reason.contains("Kernel panic"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
}
