//! Programs that gather their hot pages, and check their memory.

use crate::inside::agent;
use crate::load::load_program;
use crate::support::{Running, frostline, only_run, text, wait_until};
use crate::system::number;
use frostline_core::types::Vpn;
use frostline_linux::pagemap::Pagemap;
use frostline_linux::{Root, Target};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Pages of the load, of which one in 512 is in use.
const SIZE: &str = "96MiB";
const HOT: usize = 48;

/// Where the hot pages of a load are.
struct Truth {
    pid: u32,
    hot: Vec<Vpn>,
}

impl Truth {
    fn read(file: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(file).ok()?;
        let words = |name: &str| -> Vec<Vec<&str>> {
            let lines = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
            lines.filter(|words| words[0] == name).collect()
        };
        let start = words("start")[0][1].trim_start_matches("0x").to_owned();
        let start = u64::from_str_radix(&start, 16).expect("an address") / 4096;
        let page = |words: &Vec<&str>| Vpn(start + words[1].parse::<u64>().expect("a page"));
        let hot: Vec<Vpn> = words("hot").iter().map(page).collect();
        Some(Self { pid: words("pid")[0][1].parse().expect("a number"), hot })
    }

    /// Frames of the hot pages, as the kernel tells them; none without the right.
    fn frames(&self) -> Vec<u64> {
        let Ok(target) = Target::open(&Root::system(), self.pid) else { return Vec::new() };
        let Ok(mut pagemap) = Pagemap::open(&target) else { return Vec::new() };
        let frame = |page: &Vpn| pagemap.page(*page).ok()?.pfn();
        self.hot.iter().filter_map(frame).collect()
    }

    /// Has the load end, and look at all of its memory.
    fn end(&self) {
        let pid = Pid::from_raw(self.pid as i32).expect("one");
        kill_process(pid, Signal::INT).expect("it runs");
    }

    /// Regions of memory in which the hot pages lie; all of them must be there.
    fn regions(&self) -> usize {
        let frames = self.frames();
        assert_eq!(frames.len(), self.hot.len(), "hot pages are in memory");
        frames.iter().map(|frame| frame / 512).collect::<BTreeSet<u64>>().len()
    }
}

/// For so long a load goes on after its hot pages were gathered.
const WHILE: Duration = Duration::from_secs(3);

/// Whether pages can be moved here.
fn possible() -> bool {
    let own = Truth { pid: std::process::id(), hot: own_page() };
    let possible = frostline_linux::inside::Userfault::open(1).is_ok() && !own.frames().is_empty();
    if !possible {
        println!(
            "skipped: no right to move pages within a process and to see frames, or no kernel for it"
        );
    }
    possible
}

fn own_page() -> Vec<Vpn> {
    let here = 0_u8;
    vec![Vpn(std::ptr::from_ref(&here).addr() as u64 / 4096)]
}

fn load(command: &mut Command, truth: &Path, options: &str) {
    command.arg(load_program()).args(["--masim", "--json", "--checksums", "--size", SIZE]);
    command.args("--threads 4 --writes 20%".split(' ')).args(options.split(' '));
    command.arg("--truth").arg(truth).stdout(Stdio::piped()).stderr(Stdio::piped());
}

fn whole(out: &[u8], told: &str) -> Value {
    let load: Value = serde_json::from_slice(out).unwrap_or_else(|_| panic!("{told}"));
    assert_eq!(load["mismatches"], 0, "{load} {told}");
    load
}

#[test]
fn scattered_hot_pages_are_gathered_while_the_program_writes_and_forks() {
    if !possible() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (truth, summary) = (folder.path().join("truth"), folder.path().join("summary"));
    let mut command = frostline();
    command.args(["run", "--consolidate", "--agent"]).arg(agent());
    command.arg("--summary").arg(&summary).arg("--");
    load(&mut command, &truth, "--fork-rate 4/s --churn 20/s --seconds 600");
    let running = command.spawn().expect("it runs");
    wait_until("the memory is filled", || truth.exists());
    let truth = Truth::read(&truth).expect("a truth");
    assert!(truth.hot.len() == HOT && truth.regions() > HOT / 2);
    let mut least = HOT;
    wait_until("hot pages are gathered", || {
        least = least.min(truth.regions());
        least <= HOT / 4
    });
    // One piece of memory, from a multiple of 2 MiB on, holds most of them.
    let frames: BTreeSet<u64> = truth.frames().into_iter().collect();
    let in_region = |region: u64| frames.iter().filter(|frame| **frame / 512 == region).count();
    let most = frames.iter().map(|frame| frame / 512).max_by_key(|region| in_region(*region));
    assert!(in_region(most.expect("one")) > HOT / 2, "{frames:?}");
    std::thread::sleep(WHILE);
    truth.end();
    let output = running.wait_with_output().expect("ours");
    let told = text(&output.stderr);
    let load = whole(&output.stdout, &told);
    assert!(number(&load, "forks") > 10 && number(&load, "areas_unmapped") > 10, "{load}");
    let run = only_run(&std::fs::read(summary).expect("written"));
    let numbers = &run["consolidation"];
    assert!(number(numbers, "hot_regions_before") >= HOT as u64 / 2, "{numbers}");
    assert!(
        number(numbers, "hot_regions_after") * 2 < number(numbers, "hot_regions_before"),
        "{numbers}"
    );
    assert!(number(numbers, "pages_moved") >= HOT as u64 / 2, "{numbers}");
    assert_eq!(numbers["pages_moved"], numbers["pages_verified"], "{numbers}");
    assert!(told.contains("pages moved into"), "{told}");
}

#[test]
fn frostline_may_be_killed_at_any_time() {
    if !possible() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("truth");
    let mut command = frostline();
    command.args(["run", "--consolidate=300", "--agent"]).arg(agent()).arg("--");
    load(&mut command, &file, "--fork-rate 4/s --seconds 600");
    let mut outside = Running::start(&mut command);
    wait_until("the memory is filled", || file.exists());
    let truth = Truth::read(&file).expect("a truth");
    std::thread::sleep(Duration::from_millis(700));
    let mut out = outside.0.stdout.take().expect("piped");
    let mut errors = outside.0.stderr.take().expect("piped");
    outside.kill();
    // So may be whoever asks.
    let mut asking = frostline();
    asking.args(["consolidate", &truth.pid.to_string()]).stdout(Stdio::null());
    let mut asking = Running::start(&mut asking);
    std::thread::sleep(Duration::from_millis(300));
    asking.kill();
    wait_until("hot pages are gathered", || truth.regions() <= HOT / 4);
    std::thread::sleep(WHILE);
    truth.end();
    let (mut text, mut told) = (Vec::new(), String::new());
    out.read_to_end(&mut text).expect("readable");
    errors.read_to_string(&mut told).expect("readable");
    assert!(number(&whole(&text, &told), "forks") > 10);
}

#[test]
fn a_program_with_an_agent_is_asked_and_others_are_left_alone() {
    if !possible() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("truth");
    // A region with a single page is dense: nothing is done until somebody asks.
    let mut command = frostline();
    command.args(["run", "--consolidate=1", "--agent"]).arg(agent()).arg("--");
    load(&mut command, &file, "--seconds 30");
    let outside = Running::start(&mut command);
    wait_until("the memory is filled", || file.exists());
    let truth = Truth::read(&file).expect("a truth");
    let agent_begins = || {
        let threads = std::fs::read_dir(format!("/proc/{}/task", truth.pid)).expect("it runs");
        let name = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("comm"));
        threads.flatten().any(|thread| name(thread).is_ok_and(|name| name == "frostline-agent\n"))
    };
    wait_until("the agent is there", agent_begins);
    let ask = |options: &str| {
        let mut command = frostline();
        let output = command.args(["consolidate", &truth.pid.to_string()]).args(options.split(' '));
        output.output().expect("it runs")
    };
    let before = truth.regions();
    let dry = ask("--dry-run --json");
    let numbers = only_run(&dry.stdout);
    assert!(number(&numbers, "chosen") >= HOT as u64 / 2, "{numbers}");
    assert_eq!((&numbers["pages_moved"], truth.regions()), (&Value::from(0), before), "{numbers}");
    let done = ask("--json");
    let numbers = only_run(&done.stdout);
    assert!(number(&numbers, "pages_verified") >= HOT as u64 / 2, "{numbers}");
    assert!(truth.regions() <= HOT / 2, "{numbers}");
    drop(outside);

    let mut others = Command::new(load_program());
    let others = Running::start(
        others.args(["--seconds", "30"]).stdout(Stdio::null()).stderr(Stdio::null()),
    );
    let output = frostline().args(["consolidate", &others.pid().to_string()]).output();
    let told = text(&output.expect("it runs").stderr);
    assert!(told.contains("has no agent") && told.contains("hint: start it by"), "{told}");
}

#[test]
fn what_makes_no_sense_is_said_before_the_program_runs() {
    for (options, why) in [
        ("--consolidate=0 -- true", "number of hot pages"),
        ("--consolidate --slow zram -- true", "is about tiering"),
        ("--agent x -- true", "--in-process or --consolidate"),
    ] {
        let mut command = frostline();
        command.arg("run").args(options.split(' ')).env("FROSTLINE_AGENT", agent());
        let output = command.output().expect("it runs");
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{told}");
        assert!(told.contains(why), "{options}: {told}");
    }
}
