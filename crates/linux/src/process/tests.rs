use super::*;
use crate::testing::Tree;
use proptest::prelude::*;
use std::fs;
use std::process::{Command, Stdio};

const TAIL: &str = "S 7 1 1 0 -1 4194560 123 0 45 0 10 20 0 0 20 0 3 0 9876 1 2 3 4 5 666 0 0 0 0 0 0 \
                    0 0 0 17 0 0 0 0 0 0 77 88 99 111 222 333 444 0";

fn add_process(tree: &Tree, pid: u32, parent: u32) {
    let tail = TAIL.replacen("S 7", &format!("S {parent}"), 1);
    tree.file(format!("proc/{pid}/stat"), format!("{pid} (p) {tail}\n"));
}

#[test]
fn names_may_hold_anything() {
    for comm in ["a", "a b", "a) S 1 (b", "))((", "", "tab\there"] {
        let stat = parse_stat(&format!("5 ({comm}) {TAIL}\n")).expect("parses");
        assert_eq!(stat.comm, comm);
        assert_eq!((stat.state, stat.parent, stat.threads), ('S', 7, 3));
        assert_eq!((stat.minor_faults, stat.major_faults, stat.cpu_ticks), (123, 45, 30));
        assert_eq!((stat.user_ticks, stat.start_ticks), (10, 9876));
        let image = ImageMark { start_stack: 666, start_brk: 99, arg_start: 111 };
        assert_eq!(stat.image, image);
        assert!(!stat.is_kernel && stat.has_executed);
    }
    let kernel = parse_stat(&format!("2 (kthreadd) {}", TAIL.replacen("4194560", "2129984", 1)));
    assert!(kernel.expect("parses").is_kernel);
    for bad in ["", "5", "5 (a", "5 a) S", "5 )a( S 1", "5 (a) S", "5 (a) S x"] {
        assert_eq!(parse_stat(bad), None, "{bad}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC*", cut in 0_usize..200) {
        let _ = parse_stat(&text);
        let whole = format!("5 ({text}) {TAIL}");
        let end = (0..=cut.min(whole.len())).rev().find(|&end| whole.is_char_boundary(end));
        let _ = parse_stat(&whole[..end.unwrap_or(0)]);
        prop_assert_eq!(parse_stat(&whole).map(|stat| stat.comm), Some(text.into()));
    }
}

#[test]
fn a_missing_process_is_gone() {
    let tree = Tree::new();
    assert!(stat(tree.root(), 5).expect_err("none").is_gone());
    tree.file("proc/5/stat", "5 what");
    assert!(matches!(stat(tree.root(), 5), Err(LinuxError::Malformed { .. })));
}

#[test]
fn an_identity_is_number_and_start() {
    let tree = Tree::new();
    add_process(&tree, 5, 1);
    let right = Identity { pid: 5, start_ticks: 9876 };
    assert!(right.is_alive(tree.root()));
    assert!(!Identity { start_ticks: 9877, ..right }.is_alive(tree.root()));
    assert!(!Identity { pid: 6, ..right }.is_alive(tree.root()));
    tree.file("proc/5/stat", format!("5 (p) {}", TAIL.replacen('S', "Z", 1)));
    assert!(!right.is_alive(tree.root()), "ended and not waited for");
}

#[test]
fn families_are_found_with_and_without_the_children_file() {
    let tree = Tree::new();
    for (pid, parent) in [(1, 0), (2, 1), (3, 2), (4, 2), (9, 1)] {
        add_process(&tree, pid, parent);
    }
    fs::create_dir_all(tree.root().path("/proc/sys")).expect("a directory");
    assert_eq!(children(tree.root(), 2).expect("read"), [3, 4]);
    assert_eq!(descendants(tree.root(), &[1], |_| true).expect("read"), [2, 3, 4, 9]);
    assert_eq!(descendants(tree.root(), &[3], |_| true).expect("read"), [0; 0]);
    assert_eq!(
        descendants(tree.root(), &[1], |pid| pid != 2).expect("read"),
        [9],
        "with its children"
    );
    tree.file("proc/2/task/2/children", "3 4 ");
    tree.file("proc/2/task/22/children", "9 3");
    assert_eq!(children(tree.root(), 2).expect("read"), [3, 4, 9]);
}

#[test]
fn memory_is_read_from_the_status() {
    let tree = Tree::new();
    tree.file("proc/5/status", "Name:\tx\nVmLck:\t 1 kB\nVmRSS:\t  12 kB\nRssAnon:\t 8 kB\nRssFile:\t 3 kB\nRssShmem:\t 2 kB\nVmSwap:\t 4 kB\nHugetlbPages:\t 2048 kB\n");
    tree.file("proc/6/status", "Name:\tkthread\n");
    tree.file("proc/meminfo", "MemTotal: 5 kB\nMemAvailable:  3 kB\n");
    let kib = |kib: u64| Bytes(kib << 10);
    let expected = Usage {
        resident: kib(12),
        anonymous: kib(8),
        swapped: kib(4),
        files: kib(3),
        shared: kib(2),
        locked: kib(1),
        reserved: kib(2048),
    };
    assert_eq!(usage(tree.root(), 5).expect("read"), expected);
    assert_eq!(usage(tree.root(), 6).expect("read"), Usage::default());
    assert_eq!(available_memory(tree.root()).expect("read"), Bytes(3072));
}

#[test]
fn a_real_process_is_followed_to_its_end() {
    let root = Root::system();
    let mut child = Command::new("sleep").arg("100").stdin(Stdio::null()).spawn().expect("sleep");
    let target = Target::open(&root, child.id()).expect("opens");
    assert!(target.is_alive());
    assert_eq!(target.threads().expect("threads"), [child.id()]);
    assert_eq!(target.user(), Some(rustix::process::geteuid().as_raw()));
    assert!(children(&root, std::process::id()).expect("children").contains(&child.id()));
    assert!(
        descendants(&root, &[std::process::id()], |_| true).expect("family").contains(&child.id())
    );
    assert!(target.identity().is_alive(&root));
    child.kill().expect("killed");
    // Ended, and kept by the kernel until it is waited for: its number is not free yet.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while target.is_alive() && std::time::Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert!(!target.is_alive());
    assert!(!target.identity().is_alive(&root));
    assert!(target.usage().expect_err("ended").is_gone());
    child.wait().expect("waited for");
    assert!(target.stat().expect_err("ended").is_gone());
    assert!(Target::open(&root, child.id()).expect_err("ended").is_gone());
}

#[test]
fn an_exec_changes_the_image_and_not_the_identity() {
    let root = Root::system();
    let mut child = Command::new("sh")
        .args(["-c", "read x; exec cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("sh");
    let target = Target::open(&root, child.id()).expect("opens");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    let wait_for = |name: &str| {
        while target.comm().expect("runs") != name {
            assert!(std::time::Instant::now() < deadline, "no {name} in time");
            std::thread::yield_now();
        }
        target.stat().expect("runs").image
    };
    let before = wait_for("sh");
    std::io::Write::write_all(child.stdin.as_mut().expect("piped"), b"x\n").expect("written");
    let after = wait_for("cat");
    assert_ne!(before, after);
    assert!(target.identity().is_alive(&root));
    drop(child.stdin.take());
    child.wait().expect("waited for");
}

#[test]
fn odd_numbers_are_no_processes() {
    let root = Root::system();
    for pid in [0, u32::MAX, 1 << 30] {
        assert!(Target::open(&root, pid).expect_err("no such process").is_gone(), "{pid}");
    }
    let thread = std::thread::spawn(|| {
        let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        Target::open(&Root::system(), own).expect_err("a thread")
    });
    let error = thread.join().expect("no panic");
    assert!(error.to_string().contains("is a thread"), "{error}");
}
