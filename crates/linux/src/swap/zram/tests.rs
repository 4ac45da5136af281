use super::*;
use crate::changes::restore;
use crate::testing::Tree;

const UUID: &str = "01234567-89ab-cdef-0011-223344556677";

fn record(added: bool) -> Record {
    Record { number: 3, added, size_bytes: 8 << 20, uuid: UUID.into() }
}

/// A tree with device 3, set up by `record`, and 100 MiB of free memory.
fn tree(record: &Record) -> Tree {
    let tree = Tree::new();
    let zeros = "0 ".repeat(18);
    for pid in [std::process::id(), 70] {
        tree.file(format!("proc/{pid}/stat"), format!("{pid} (x) S {zeros}1 0 0"));
    }
    tree.file("proc/sys/kernel/random/uuid", UUID);
    tree.file("proc/meminfo", "MemAvailable: 102400 kB\n");
    tree.file("proc/70/status", "VmSwap: 0 kB\n");
    tree.file("sys/block/zram3/initstate", "1\n");
    tree.file("sys/block/zram3/disksize", "8388608\n");
    tree.file("sys/block/zram3/comp_algorithm", "[lzo] lz4\n");
    tree.file("sys/class/zram-control/hot_remove", "");
    tree.file("dev/zram3", record.header());
    tree
}

fn with_swap(tree: &Tree, used_kib: u64) {
    let head = "Filename Type Size Used Priority\n";
    tree.file("proc/swaps", format!("{head}/dev/zram3 partition 8188 {used_kib} 100\n"));
}

#[test]
fn the_header_is_what_the_kernel_expects() {
    let page = record(true).header();
    assert_eq!(page.len(), 4096);
    assert_eq!(&page[4086..], b"SWAPSPACE2");
    let word = |at: usize| u32::from_ne_bytes(page[at..at + 4].try_into().expect("four bytes"));
    assert_eq!((word(1024), word(1028), word(1032)), (1, 2047, 0));
    assert_eq!(page[1036..1040], [0x01, 0x23, 0x45, 0x67]);
    assert_eq!(page[1050..1052], [0x66, 0x77]);
    assert_eq!(&page[1052..1062], b"frostline\0");
}

#[test]
fn usage_is_read_from_old_and_new_kernels() {
    let usage = parse_usage("8192 100 12288 0 16384 1 0 2 0\n").expect("parses");
    let expected = ZramUsage {
        original: Bytes(8192),
        compressed: Bytes(100),
        memory: Bytes(12288),
        memory_most: Bytes(16384),
        same_pages: 1,
        incompressible_pages: 2,
    };
    assert_eq!(usage, expected);
    assert_eq!(parse_usage("1 2 3 4 5 6 7").map(|usage| usage.incompressible_pages), Some(0));
    assert_eq!(parse_usage("1 2 3"), None);
    assert_eq!(parse_usage(""), None);
}

#[test]
fn a_device_is_reset_and_removed() {
    let tree = tree(&record(true));
    record(true).undo(tree.root(), SwapOff::WhenUnused).expect("undone");
    assert_eq!(tree.text("/sys/block/zram3/reset"), "1");
    assert_eq!(tree.text("/sys/class/zram-control/hot_remove"), "3");
}

#[test]
fn a_device_that_was_there_before_stays() {
    let tree = tree(&record(false));
    record(false).undo(tree.root(), SwapOff::WhenUnused).expect("undone");
    assert_eq!(tree.text("/sys/block/zram3/reset"), "1");
    assert_eq!(tree.text("/sys/class/zram-control/hot_remove"), "");
}

#[test]
fn a_device_without_header_was_ours_when_the_size_fits() {
    let tree = tree(&record(true));
    tree.file("dev/zram3", [0; 4096]);
    record(true).undo(tree.root(), SwapOff::WhenUnused).expect("undone");
    assert_eq!(tree.text("/sys/block/zram3/reset"), "1");
}

#[test]
fn the_device_of_somebody_else_is_left_alone() {
    for other in [
        Record { uuid: UUID.replace('0', "9"), ..record(true) },
        Record { size_bytes: 4 << 20, ..record(true) },
    ] {
        let tree = tree(&other);
        with_swap(&tree, 10);
        tree.file("sys/block/zram3/disksize", other.size_bytes.to_string());
        record(true).undo(tree.root(), SwapOff::WhenItFits).expect("nothing to undo");
        assert!(!tree.root().path("/sys/block/zram3/reset").exists());
    }
    let tree = Tree::new();
    record(true).undo(tree.root(), SwapOff::WhenUnused).expect("it is gone");
}

#[test]
fn swap_with_pages_of_programs_stays_on() {
    let tree = tree(&record(true));
    with_swap(&tree, 10);
    tree.file("proc/70/status", "VmSwap: 10 kB\n");
    let why = record(true).undo(tree.root(), SwapOff::WhenUnused).expect_err("it is used");
    assert!(why.contains("10 KiB") && why.contains("x (70)"), "{why}");
    tree.file("proc/meminfo", "MemAvailable: 65545 kB\n");
    let why = record(true).undo(tree.root(), SwapOff::WhenItFits).expect_err("no memory");
    assert!(why.contains("free"), "{why}");
    assert!(!tree.root().path("/sys/block/zram3/reset").exists());
}

#[test]
fn a_device_stays_on_that_a_group_has_no_room_for() {
    let tree = tree(&record(true));
    with_swap(&tree, 4096);
    let mount = "23 31 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    tree.file("proc/self/mountinfo", mount);
    for (name, text) in [
        ("cgroup.procs", "70"),
        ("memory.max", "8388608"),
        ("memory.current", "6291456"),
        ("memory.swap.current", "4194304"),
    ] {
        tree.file(format!("sys/fs/cgroup/a/{name}"), text);
    }
    let undo = || record(true).undo(tree.root(), SwapOff::WhenItFits).expect_err("it stays");
    assert!(undo().contains("control group /a has 4 MiB in swap"), "{}", undo());
    tree.file("sys/fs/cgroup/a/memory.max", "damaged");
    assert!(undo().contains("/a/memory.max"), "{}", undo());
    // With room, the kernel is asked.
    tree.file("sys/fs/cgroup/a/memory.max", "max");
    assert!(undo().starts_with("swapoff:"), "{}", undo());
}

#[test]
fn swap_that_is_not_in_use_is_turned_off() {
    // The file is no swap device of this system: the kernel says so, hence it was asked.
    let tree = tree(&record(true));
    for (used_kib, swap_off) in [(0, SwapOff::WhenUnused), (10, SwapOff::WhenItFits)] {
        with_swap(&tree, used_kib);
        let why = record(true).undo(tree.root(), swap_off).expect_err("not a device");
        assert!(why.starts_with("swapoff:"), "{why}");
    }
}

#[test]
fn a_set_up_that_fails_is_undone() {
    let tree = tree(&record(true));
    tree.file("sys/class/zram-control/hot_add", "3\n");
    let changes = Changes::of_this_process(tree.root()).expect("runs");
    let options = ZramOptions { size: Bytes((8 << 20) + 5), algorithm: Some("lz4".into()) };
    // The header is written, and the kernel refuses the file as a swap device.
    let error = Zram::create(&changes, &options).expect_err("not a device");
    assert!(error.to_string().contains("swapon"), "{error}");
    assert_eq!(tree.text("/sys/block/zram3/comp_algorithm"), "lz4");
    assert_eq!(tree.text("/sys/block/zram3/disksize"), "8388608");
    assert_eq!(tree.text("/sys/block/zram3/reset"), "1");
    assert_eq!(tree.text("/sys/class/zram-control/hot_remove"), "3");
    assert_eq!(restore(tree.root(), SwapOff::WhenUnused).expect("empty"), Restored::default());
}

#[test]
fn the_expected_device_is_not_touched_where_another_one_came() {
    let tree = tree(&record(true));
    // Device 0 would be next, but the kernel gives 3.
    tree.file("sys/class/zram-control/hot_add", "3\n");
    tree.file("sys/block/zram0x/initstate", "0\n");
    let changes = Changes::of_this_process(tree.root()).expect("runs");
    let options = ZramOptions { size: Bytes(8 << 20), algorithm: None };
    Zram::create(&changes, &options).expect_err("not a device");
    assert_eq!(tree.text("/sys/class/zram-control/hot_remove"), "3");
    tree.file("sys/class/zram-control/hot_add", "what\n");
    assert!(matches!(Zram::create(&changes, &options), Err(LinuxError::Malformed { .. })));
    assert_eq!(restore(tree.root(), SwapOff::WhenUnused).expect("empty"), Restored::default());
}

#[test]
fn a_free_device_is_found_where_none_can_be_added() {
    let tree = tree(&record(false));
    tree.file("sys/block/sda/size", "1");
    assert!(unused_device(tree.root()).expect_err("3 is in use").to_string().contains("modprobe"));
    tree.file("sys/block/zram11/initstate", "0\n");
    assert_eq!(unused_device(tree.root()).expect("11 is free"), 11);
    assert_eq!(next_number(tree.root()).expect("listed"), 0);
}

#[test]
fn a_device_that_a_crash_left_is_taken_over() {
    let entry = |owners: &str| {
        format!(
            "{{\"version\":1,\"boot_id\":\"\",\"entries\":[{{\"kind\":\"zram\",\"number\":3,\
             \"added\":true,\"size_bytes\":8388608,\"uuid\":\"{UUID}\",\"owners\":[{owners}]}}]}}"
        )
    };
    let tree = tree(&record(true));
    let changes = Changes::of_this_process(tree.root()).expect("runs");
    let of = |mib: u64, algorithm: Option<&str>| ZramOptions {
        size: Bytes(mib << 20),
        algorithm: algorithm.map(str::to_owned),
    };
    let dead = "{\"pid\":99,\"start_ticks\":1}";
    // None of these finds another device to set up.
    let unfit = [
        (dead, 4, None, false),
        (dead, 8, Some("lz4"), false),
        (dead, 8, None, true),
        ("{\"pid\":70,\"start_ticks\":1}", 8, None, false),
    ];
    for (owner, mib, algorithm, another_is_first) in unfit {
        tree.file("run/frostline/changes.json", entry(owner));
        with_swap(&tree, 10);
        if another_is_first {
            let text = tree.text("/proc/swaps") + "/dev/zram4 partition 8188 0 101\n";
            tree.file("proc/swaps", text);
        }
        Zram::create(&changes, &of(mib, algorithm)).expect_err("no device is free");
    }
    tree.file("run/frostline/changes.json", entry(dead));
    with_swap(&tree, 10);
    let zram = Zram::create(&changes, &of(8, Some("lzo"))).expect("taken over");
    assert_eq!(zram.device(), PathBuf::from("/dev/zram3"));
    let restored = restore(tree.root(), SwapOff::WhenItFits).expect("the list is whole");
    assert_eq!((restored.undone.len(), restored.in_use), (0, 1), "it has an owner again");
    // Where none can be first, another one would not be either.
    tree.file("run/frostline/changes.json", entry(dead));
    let device = |name, priority| format!("/dev/{name} partition 8188 10 {priority}\n");
    for (ours, others, serves) in [(32_766, 32_766, false), (32_767, 32_767, true)] {
        let lines = device("zram3", ours) + &device("sda2", others);
        tree.file("proc/swaps", format!("Filename Type Size Used Priority\n{lines}"));
        assert_eq!(Zram::create(&changes, &of(8, None)).is_ok(), serves, "{ours}");
    }
}
