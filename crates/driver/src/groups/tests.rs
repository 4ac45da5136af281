//! Tests of the limits of control groups, in made-up trees.

use super::*;
use frostline_core::types::{TierId, Vpn};
use std::path::Path;

const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;

/// A system whose processes are in groups of the second version.
struct System(tempfile::TempDir);

impl System {
    fn new(groups: &[(u32, &str)]) -> Self {
        let system = Self(tempfile::tempdir().unwrap());
        let mount = "23 31 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        system.file(Path::new("proc/self/mountinfo"), mount);
        for (pid, group) in groups {
            system.file(Path::new(&format!("proc/{pid}/cgroup")), &format!("0::{group}\n"));
        }
        system
    }

    fn file(&self, path: &Path, text: &str) {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// What a group may have and has, of memory and of swap, in pages.
    fn group(&self, name: &str, memory: (Option<u64>, u64), swap: (Option<u64>, u64)) {
        let folder = Path::new("sys/fs/cgroup").join(name);
        let text = |limit: Option<u64>| limit.map_or("max".into(), |n| (n * PAGE).to_string());
        for (file, text) in [
            ("cgroup.procs", String::new()),
            ("memory.max", text(memory.0)),
            ("memory.current", text(Some(memory.1))),
            ("memory.swap.max", text(swap.0)),
            ("memory.swap.current", text(Some(swap.1))),
        ] {
            self.file(&folder.join(file), &text);
        }
    }

    fn groups(&self) -> Groups {
        Groups::new(&Root::at(self.0.path())).unwrap()
    }
}

fn pages(number: u64) -> Ceiling {
    Ceiling::At(Bytes(number * PAGE))
}

fn base(start: u64, pages: u64) -> Unit {
    Unit { span: Span::new(Vpn(start), pages), huge: false, from: None }
}

/// How many of 100 pages of a process may go there.
fn admitted(groups: &Groups, pid: u32, way: Way) -> u64 {
    let units = [base(0, 60), base(100, 40)];
    let (units, held) = groups.admit(pid, way, &units, |_| true);
    let sum = units.iter().map(|unit| unit.span.pages).sum();
    assert_eq!(sum + held.iter().map(|span| span.pages).sum::<u64>(), 100);
    sum
}

#[test]
fn no_more_is_paged_out_than_any_group_above_allows() {
    let system = System::new(&[(5, "/a/b"), (6, "/a/c"), (7, "/z")]);
    system.group("a", (None, 0), (Some(100), 30));
    system.group("a/b", (None, 0), (Some(50), 10));
    system.group("a/c", (None, 0), (None, 20));
    system.group("z", (None, 0), (None, 5));
    let mut groups = system.groups();
    groups.refresh([5, 6].into_iter());
    assert_eq!([5, 6].map(|pid| admitted(&groups, pid, Way::Out)), [40, 70]);
    assert_eq!(groups.room(Way::Out), pages(70), "the group above has no more");
    assert_eq!(groups.room(Way::In), Ceiling::Unlimited);
    // What one of them takes, the other has no more.
    groups.moved(6, Way::Out, 50);
    assert_eq!([5, 6].map(|pid| admitted(&groups, pid, Way::Out)), [20, 20]);
    groups.moved(5, Way::In, 5);
    assert_eq!([5, 6].map(|pid| admitted(&groups, pid, Way::Out)), [25, 25]);
    // Usage and limits are read anew.
    system.group("a", (None, 0), (Some(100), 99));
    groups.refresh([5, 6, 7].into_iter());
    assert_eq!([5, 6, 7].map(|pid| admitted(&groups, pid, Way::Out)), [1, 1, 100]);
    assert_eq!(groups.room(Way::Out), Ceiling::Unlimited, "one of them has no limit");
    let told: Vec<String> = groups.status().iter().map(|group| group.name.to_string()).collect();
    assert_eq!(told, ["/a", "/a/b"]);
}

#[test]
fn siblings_have_what_each_has() {
    let system = System::new(&[(5, "/b"), (6, "/c"), (7, "/c")]);
    system.group("b", (None, 0), (Some(50), 10));
    system.group("c", (None, 0), (Some(7), 0));
    let mut groups = system.groups();
    groups.refresh([5, 6, 7].into_iter());
    assert_eq!(groups.room(Way::Out), pages(47));
}

#[test]
fn what_comes_back_leaves_a_part_of_the_limit_free() {
    let system = System::new(&[(5, "/a")]);
    system.group("a", (Some(320), 280), (None, 90));
    let mut groups = system.groups();
    groups.refresh([5].into_iter());
    assert_eq!(admitted(&groups, 5, Way::In), 30);
    groups.moved(5, Way::In, 30);
    assert_eq!(admitted(&groups, 5, Way::In), 0);
    groups.moved(5, Way::Out, 10);
    assert_eq!((admitted(&groups, 5, Way::In), groups.room(Way::In)), (10, pages(10)));
    let allows = |pages| groups.allows(5, Way::In, PageCount(pages));
    assert_eq!([allows(10), allows(11)], [true, false]);
    // What is no swap moves as it likes.
    let swapped = |page: u64| (page % 2 == 1).then_some(TierId(1));
    let units = (0..30).map(|page| Unit { from: swapped(page), ..base(page, 1) });
    let units: Vec<Unit> = units.collect();
    let (units, held) = groups.admit(5, Way::In, &units, |unit| unit.from.is_some());
    let sum = units.iter().map(|unit| unit.span.pages).sum::<u64>();
    assert_eq!((sum, held.len()), (25, 5));
}

#[test]
fn folios_go_as_a_whole_or_not_at_all() {
    let system = System::new(&[(5, "/a")]);
    system.group("a", (None, 0), (Some(600), 0));
    let mut groups = system.groups();
    groups.refresh([5].into_iter());
    let folio = |start| Unit { span: Span::new(Vpn(start), 512), huge: true, from: None };
    let (units, held) =
        groups.admit(5, Way::Out, &[folio(0), folio(512), base(1024, 100)], |_| true);
    assert_eq!(units, [folio(0), base(1024, 88)]);
    assert_eq!(held, [Span::new(Vpn(512), 512), Span::new(Vpn(1112), 12)]);
}

#[test]
fn a_full_group_is_said_once() {
    let system = System::new(&[(5, "/a")]);
    system.group("a", (None, 0), (Some(64 * MIB / PAGE), 64 * MIB / PAGE - 1));
    let mut groups = system.groups();
    for round in 0..3 {
        groups.refresh([5].into_iter());
        let remarks = groups.take_remarks();
        assert_eq!(remarks.len(), usize::from(round == 0), "{remarks:?}");
        for part in ["/a may have 64 MiB in swap", "memory.swap.max"] {
            assert!(remarks.iter().all(|remark| remark.contains(part)), "{remarks:?}");
        }
    }
}

#[test]
fn of_a_group_that_cannot_be_read_nothing_is_moved() {
    let system = System::new(&[(5, "/a"), (6, "/b")]);
    system.group("a", (None, 0), (None, 0));
    system.group("b", (None, 0), (None, 0));
    system.file(Path::new("sys/fs/cgroup/a/memory.swap.max"), "much");
    let mut groups = system.groups();
    groups.refresh([5, 6, 99].into_iter());
    let ways = [Way::Out, Way::In];
    assert_eq!(ways.map(|way| admitted(&groups, 5, way)), [0, 0]);
    assert_eq!(ways.map(|way| admitted(&groups, 6, way)), [100, 100]);
    let remarks = groups.take_remarks();
    assert!(remarks.len() == 1 && remarks[0].contains("a/memory.swap.max"), "{remarks:?}");
}

#[test]
fn without_groups_there_is_no_limit() {
    let system = System(tempfile::tempdir().unwrap());
    system.file(Path::new("proc/5/stat"), "");
    let mut groups = system.groups();
    groups.refresh([5].into_iter());
    assert_eq!(groups.room(Way::Out), Ceiling::Unlimited);
    assert_eq!((admitted(&groups, 5, Way::Out), groups.status().len()), (100, 0));
}
