//! Programs of many small mappings.

use crate::support::{EAGER, Running, attach, status_of, wait_until};
use crate::system::{System, number, status_kib};
use memmap2::{Mmap, MmapMut};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

const VARIABLE: &str = "FROSTLINE_TEST_FRAGMENTS";
/// What answers begin with, to tell them from what the test harness prints.
const MARK: &str = "fragments: ";
const PAGE: usize = 4096;
/// Two mappings and a hole each.
const GROUPS: u64 = 10_000;

/// A page that is written, and one beside it that is only read.
struct Group {
    written: MmapMut,
    version: u64,
    read: Mmap,
}

fn fill(page: &mut [u8], number: u64, version: u64) {
    for (place, word) in page.chunks_exact_mut(8).enumerate() {
        // A half of each page compresses well.
        let noise =
            (number << 24 | version << 12 | place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        word.copy_from_slice(&if place % 2 == 0 { noise } else { number }.to_ne_bytes());
    }
}

fn page(number: u64, version: u64) -> MmapMut {
    let mut page = MmapMut::map_anon(PAGE).expect("memory");
    fill(&mut page, number, version);
    page
}

fn is_whole(page: &[u8], number: u64, version: u64) -> bool {
    let mut expected = vec![0; PAGE];
    fill(&mut expected, number, version);
    page == expected
}

/// The program with the mappings: this test binary, started once more.
#[test]
fn serve_fragments() {
    if std::env::var_os(VARIABLE).is_none() {
        return;
    }
    let mut holes = Vec::new();
    let mut groups: Vec<Group> = Vec::new();
    for number in 0..GROUPS {
        let written = page(2 * number, 0);
        let read = page(2 * number + 1, 0).make_read_only().expect("allowed");
        groups.push(Group { written, version: 0, read });
        holes.push(MmapMut::map_anon(PAGE).expect("memory"));
    }
    drop(holes);
    println!("\n{MARK}ready");
    for line in std::io::stdin().lines() {
        let mut wrong = 0;
        for (number, group) in (0..).zip(&mut groups) {
            wrong += u64::from(!is_whole(&group.written, 2 * number, group.version));
            wrong += u64::from(!is_whole(&group.read, 2 * number + 1, 0));
            group.version += 1;
            fill(&mut group.written, 2 * number, group.version);
        }
        if line.expect("text") == "halve" {
            groups.truncate(groups.len() / 2);
        }
        println!("\n{MARK}{wrong} wrong, {} groups", groups.len());
    }
}

/// The same, seen from the test.
struct Fragments {
    process: Running,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Fragments {
    fn start() -> Self {
        let own = std::env::current_exe().expect("a path");
        let mut command = Command::new(own);
        command.args(["fragments::serve_fragments", "--exact", "--nocapture"]).env(VARIABLE, "1");
        let mut process = Running::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
        let to = process.0.stdin.take().expect("piped");
        let from = BufReader::new(process.0.stdout.take().expect("piped"));
        let mut started = Self { process, to, from };
        assert_eq!(started.answer(), "ready");
        started
    }

    fn ask(&mut self, what: &str) -> String {
        writeln!(self.to, "{what}").expect("it listens");
        self.answer()
    }

    fn answer(&mut self) -> String {
        let mut lines = self.from.by_ref().lines().map(|line| line.expect("text"));
        let answer = lines.find_map(|line| line.strip_prefix(MARK).map(str::to_owned));
        answer.expect("it has not ended")
    }
}

fn mappings(pid: u32) -> usize {
    std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs").lines().count()
}

#[test]
fn thousands_of_mappings_come_and_go() {
    let Some(system) = System::take() else { return };
    let mut program = Fragments::start();
    let pid = program.process.pid();
    assert!(mappings(pid) > 2 * GROUPS as usize, "{}", mappings(pid));
    let options = format!("--slow zram:size=256MiB --fast 25% {EAGER}");
    let mut driver = Running::start(&mut attach(pid, &options));
    // Only what can be written is managed.
    let all_kib = GROUPS * 4;
    wait_until("half of the pages are out", || status_kib(pid, "VmSwap") > all_kib / 2);
    assert_eq!(program.ask("check"), format!("0 wrong, {GROUPS} groups"));
    wait_until("half of the pages are out again", || status_kib(pid, "VmSwap") > all_kib / 2);
    assert_eq!(program.ask("halve"), format!("0 wrong, {} groups", GROUPS / 2));
    wait_until("the rest is managed alone", || {
        let most = all_kib * 1024 * 3 / 4;
        let is_less = |status: &Value| {
            number(&status["targets"][0], "mapped_bytes") < most
                && number(status, "footprint_bytes") < most
        };
        status_of(driver.pid()).as_ref().is_some_and(is_less)
    });
    wait_until("half of the rest is out", || status_kib(pid, "VmSwap") > all_kib / 4);
    assert_eq!(program.ask("check"), format!("0 wrong, {} groups", GROUPS / 2));
    driver.signal(Signal::INT);
    assert_eq!(driver.end().code(), Some(0));
    assert_eq!(program.ask("check"), format!("0 wrong, {} groups", GROUPS / 2));
    drop(program);
    system.finish();
}
