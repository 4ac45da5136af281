//! Programs that gather their hot pages, and check their memory.

use crate::inject::{Plain, inject};
use crate::inside::agent;
use crate::load::load_program;
use crate::support::{EAGER, Running, frostline, moved, only_run, text, wait_until};
use crate::system::{System, number};
use frostline_core::types::Vpn;
use frostline_linux::pages::pagemap::Pagemap;
use frostline_linux::{Root, Target};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Pages of the load, of which one in 512 is in use.
const SIZE: &str = "96MiB";
pub const HOT: usize = 48;

/// Where the hot pages of a load are.
pub struct Truth {
    pub pid: u32,
    pub hot: Vec<Vpn>,
}

/// No load outlives its test.
impl Drop for Truth {
    fn drop(&mut self) {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", self.pid)).unwrap_or_default();
        if name == "frostline-load\n" {
            let _ = kill_process(Pid::from_raw(self.pid as i32).expect("one"), Signal::KILL);
        }
    }
}

impl Truth {
    /// Once the memory of a load is filled, it has told.
    pub fn when_filled(file: &Path) -> Self {
        wait_until("the memory is filled", || file.exists());
        let text = std::fs::read_to_string(file).expect("a truth");
        let words = |name: &str| -> Vec<Vec<&str>> {
            let lines = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
            lines.filter(|words| words[0] == name).collect()
        };
        let start = words("start")[0][1].trim_start_matches("0x").to_owned();
        let start = u64::from_str_radix(&start, 16).expect("an address") / 4096;
        let page = |words: &Vec<&str>| Vpn(start + words[1].parse::<u64>().expect("a page"));
        let hot: Vec<Vpn> = words("hot").iter().map(page).collect();
        Self { pid: words("pid")[0][1].parse().expect("a number"), hot }
    }

    /// Frames of the hot pages, as the kernel tells them; none without the right.
    fn frames(&self) -> Vec<u64> {
        let Ok(target) = Target::open(&Root::system(), self.pid) else { return Vec::new() };
        let Ok(mut pagemap) = Pagemap::open(&target) else { return Vec::new() };
        let frame = |page: &Vpn| pagemap.page(*page).ok()?.pfn();
        self.hot.iter().filter_map(frame).collect()
    }

    /// Has the load end, and look at all of its memory.
    pub fn end(&self) {
        let pid = Pid::from_raw(self.pid as i32).expect("one");
        kill_process(pid, Signal::INT).expect("it runs");
    }

    /// Hot pages in each region of memory in which there are any. All are in memory, but for one that
    /// may be away.
    fn by_region(&self) -> BTreeMap<u64, usize> {
        let frames = self.frames();
        assert!(frames.len() + 1 >= self.hot.len(), "{} of {}", frames.len(), self.hot.len());
        let mut pages = BTreeMap::new();
        for frame in frames {
            *pages.entry(frame / 512).or_default() += 1;
        }
        pages
    }

    pub fn regions(&self) -> usize {
        self.by_region().len()
    }
}

/// Time that a load goes on after its hot pages were gathered.
const WHILE: Duration = Duration::from_secs(3);

/// Whether pages can be moved here.
pub fn possible() -> bool {
    frostline_testing::userfaultfd() && frostline_testing::frames()
}

/// To which the words of a program are added.
fn gathers(option: &str) -> Command {
    let mut command = frostline();
    command.args(["run", option, "--agent"]).arg(agent()).arg("--");
    command
}

pub fn load(command: &mut Command, truth: &Path, options: &str) {
    command.arg(load_program()).args(["--masim", "--json", "--checksums", "--size", SIZE]);
    command.args(["--threads", "4"]).args(options.split(' '));
    if !options.contains("--writes") {
        command.args(["--writes", "20%"]);
    }
    command.arg("--truth").arg(truth).stdout(Stdio::piped()).stderr(Stdio::piped());
}

/// What a load says until it ends: its memory is whole.
pub fn whole_at_end(mut out: impl Read, mut errors: impl Read) -> Value {
    let (mut bytes, mut told) = (Vec::new(), String::new());
    out.read_to_end(&mut bytes).expect("readable");
    errors.read_to_string(&mut told).expect("readable");
    whole(&bytes, &told)
}

pub fn whole(out: &[u8], told: &str) -> Value {
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
    load(&mut command, &truth, "--fork-rate 1/s --churn 20/s --seconds 600");
    let running = command.spawn().expect("it runs");
    let truth = Truth::when_filled(&truth);
    assert!(truth.hot.len() == HOT && truth.regions() > HOT / 2);
    // A fork scatters them again, page by page, as they are written; each look has a region for those.
    wait_until("few regions hold most of them", || {
        let pages = truth.by_region();
        let dense: usize = pages.values().filter(|pages| **pages >= HOT / 8).sum();
        pages.len() <= HOT / 4 && dense > HOT / 2
    });
    // For several looks and forks.
    std::thread::sleep(4 * WHILE);
    truth.end();
    let output = running.wait_with_output().expect("ours");
    let told = text(&output.stderr);
    let load = whole(&output.stdout, &told);
    assert!(number(&load, "forks") > 5 && number(&load, "areas_unmapped") > 10, "{load}");
    let run = only_run(&std::fs::read(summary).expect("written"));
    let numbers = &run["consolidation"];
    let (moved, seen) = (number(numbers, "pages_moved"), number(numbers, "pages_verified"));
    // A page that is written after a fork, before it is looked up, has left its frame again.
    assert!(number(numbers, "rounds") > 1 && moved >= HOT as u64 / 2, "{numbers}");
    assert!(seen <= moved && seen * 2 > moved, "{numbers}");
    assert!(told.contains("pages moved into"), "{told}");
}

#[test]
fn frostline_may_be_killed_at_any_time() {
    if !possible() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("truth");
    let mut command = gathers("--consolidate=300");
    load(&mut command, &file, "--fork-rate 4/s --seconds 600");
    let mut outside = Running::start(&mut command);
    let truth = Truth::when_filled(&file);
    std::thread::sleep(Duration::from_millis(700));
    let out = outside.0.stdout.take().expect("piped");
    let errors = outside.0.stderr.take().expect("piped");
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
    assert!(number(&whole_at_end(out, errors), "forks") > 10);
}

#[test]
fn a_program_with_an_agent_is_asked_and_others_are_left_alone() {
    if !possible() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("truth");
    // A region with a single page is dense: nothing is done until somebody asks.
    let mut command = gathers("--consolidate=1");
    load(&mut command, &file, "--seconds 600");
    let outside = command.spawn().expect("it runs");
    let truth = Truth::when_filled(&file);
    let agent_begins = || {
        let threads = std::fs::read_dir(format!("/proc/{}/task", truth.pid)).expect("it runs");
        let name = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("comm"));
        threads.flatten().any(|thread| name(thread).is_ok_and(|name| name == "frostline-agent\n"))
    };
    wait_until("the agent is there", agent_begins);
    let ask = |options: &str| {
        let mut command = frostline();
        let output = command.args(["consolidate", &truth.pid.to_string()]).args(options.split(' '));
        let output = output.output().expect("it runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        output
    };
    let before = truth.regions();
    wait_until("most of them are seen to be hot", || {
        let numbers = only_run(&ask("--dry-run --json").stdout);
        assert_eq!(numbers["pages_moved"], 0, "{numbers}");
        number(&numbers, "chosen") >= HOT as u64 / 2
    });
    assert_eq!(truth.regions(), before, "nothing was moved");
    let mut seen = 0;
    // On a busy machine, not all are written in each window.
    wait_until("they are gathered", || {
        let numbers = only_run(&ask("--json").stdout);
        assert_eq!(numbers["pages_moved"], numbers["pages_verified"], "{numbers}");
        seen += number(&numbers, "pages_verified");
        truth.regions() <= HOT / 2
    });
    assert!(seen >= HOT as u64 / 4, "{seen}");
    truth.end();
    let output = outside.wait_with_output().expect("ours");
    whole(&output.stdout, &text(&output.stderr));

    let mut others = Command::new(load_program());
    let others = Running::start(
        others.args(["--seconds", "30"]).stdout(Stdio::null()).stderr(Stdio::null()),
    );
    let output = frostline().args(["consolidate", &others.pid().to_string()]).output();
    let told = text(&output.expect("it runs").stderr);
    assert!(
        told.contains("has no agent")
            && told.contains("hint: start it by")
            && told.contains("--inject"),
        "{told}"
    );
}

/// Whether it is seen from outside which pages are hot.
fn seen_from_outside() -> bool {
    match frostline_driver::HotPages::new(&Root::system(), 1.0) {
        Ok(_) => true,
        Err(error) => {
            frostline_testing::skip(frostline_testing::Requirement::PageTables, error);
            false
        }
    }
}

#[test]
fn pages_that_are_only_read_are_gathered() {
    if !possible() || !seen_from_outside() {
        return;
    }
    let program = Plain::start("--writes 0% --seconds 600");
    let before = program.truth.regions();
    assert!(before > HOT / 2, "{before}");
    let output = inject(program.pid(), "").output().expect("it runs");
    let told = text(&output.stderr);
    assert!(output.status.success() && told.contains("access bits"), "{told}");
    wait_until("few regions hold them", || {
        inject(program.pid(), "").output().expect("it runs");
        program.truth.regions() <= HOT / 4
    });
    assert_eq!(program.end()["writes"], 0);
}

#[test]
fn a_daemon_has_programs_gather_their_hot_pages_again_and_again() {
    let Some(system) = System::take().filter(|_| possible() && seen_from_outside()) else { return };
    let programs = [(); 2].map(|()| Plain::start("--fork-rate 1/s --seconds 600"));
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("frostline.toml");
    let target = |program: &Plain| {
        let pid = program.pid();
        format!(
            "[[target]]\nname = \"load-{pid}\"\npid = {pid}\nslow = \"none\"\n\
             consolidate = {{ hot_pages = 300, every = \"1s\", inject = true }}\n"
        )
    };
    std::fs::write(&config, programs.iter().map(target).collect::<String>()).expect("written");
    let mut command = frostline();
    command.args(["daemon", "-c"]).arg(&config).env("FROSTLINE_AGENT", agent());
    let daemon = Running::start(command.stderr(Stdio::piped()));
    wait_until("few regions hold the hot pages of both", || {
        programs.iter().all(|program| program.truth.regions() <= HOT / 3)
    });
    wait_until("status tells of several rounds", || {
        let output = frostline().args(["status", "--json"]).output().expect("it runs");
        let all: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let runs = all["runs"].as_array().cloned().unwrap_or_default();
        let rounds = runs.iter().map(|run| run["consolidation"]["rounds"].as_u64().unwrap_or(0));
        rounds.filter(|rounds| *rounds >= 2).count() == 2
    });
    drop(daemon);
    for program in programs {
        assert!(number(&program.end(), "forks") > 3);
    }
    system.finish();
}

/// What the agent in a program told last, under a folder for temporary files.
fn told_by_agent(folder: &Path, pid: u32) -> Option<Value> {
    let folders = std::fs::read_dir(folder).ok()?.flatten();
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.path()).into_iter().flatten());
    let names = files.flatten().map(|file| file.path());
    let is_its = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(&format!("{pid}-")) && name.ends_with(".json")
    };
    serde_json::from_slice(&std::fs::read(names.into_iter().find(is_its)?).ok()?).ok()
}

#[test]
fn regions_in_which_nothing_is_hot_any_more_are_given_up() {
    if !possible() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("truth");
    let mut command = gathers("--consolidate=300");
    command.arg(load_program()).args(["--json", "--checksums", "--size", "128MiB", "--hot", "2%"]);
    command.args("--scatter sparse --cold-rate 0 --threads 2 --writes 100%".split(' '));
    command.args(["--shift", "25", "--seconds", "600", "--truth"]).arg(&file);
    command.env("TMPDIR", folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = command.spawn().expect("it runs");
    let truth = Truth::when_filled(&file);
    let numbers = |what: &str| {
        let told = told_by_agent(folder.path(), truth.pid);
        told.map_or(0, |told| told["consolidation"][what].as_u64().unwrap_or(0))
    };
    wait_until("a region is full", || numbers("pages_moved") > 512 && numbers("blocks") > 1);
    assert_eq!(numbers("blocks_undone"), 0, "they are hot");
    let generation = "\ngeneration 0\n";
    let first = || std::fs::read_to_string(&file).expect("a truth").contains(generation);
    wait_until("others are hot", || !first());
    wait_until("a region is given up", || numbers("blocks_undone") > 0);
    truth.end();
    let output = running.wait_with_output().expect("ours");
    let told = text(&output.stderr);
    whole(&output.stdout, &told);
    assert!(told.contains("regions given up: nothing in them was hot"), "{told}");
}

#[test]
fn a_program_tiers_itself_and_gathers_its_hot_pages() {
    let Some(system) = System::take().filter(|_| possible()) else { return };
    const MUCH: u64 = 8 << 20;
    let folder = tempfile::tempdir().expect("a folder");
    let (file, summary) = (folder.path().join("truth"), folder.path().join("summary"));
    let mut command = frostline();
    command.args(["run", "--in-process", "--consolidate", "--agent"]).arg(agent());
    command.args("--policy hybridtier --slow zram:size=512MiB --fast 50%".split(' '));
    command.args(EAGER.split(' ')).arg("--summary").arg(&summary).arg("--");
    load(&mut command, &file, "--fork-rate 1/s --churn 4/s --seconds 600");
    let running = command.env("TMPDIR", folder.path()).spawn().expect("it runs");
    let truth = Truth::when_filled(&file);
    wait_until("pages are moved out, and others gathered", || {
        told_by_agent(folder.path(), truth.pid).is_some_and(|told| {
            let gathered = told["consolidation"]["pages_verified"].as_u64().unwrap_or(0);
            moved(&told, "verified") > MUCH && gathered >= HOT as u64 / 2
        })
    });
    // For several forks.
    std::thread::sleep(2 * WHILE);
    truth.end();
    let output = running.wait_with_output().expect("ours");
    let told = text(&output.stderr);
    let load = whole(&output.stdout, &told);
    assert!(number(&load, "forks") > 0, "{load}");
    // Children that live long enough tell, too.
    let all: Value =
        serde_json::from_slice(&std::fs::read(summary).expect("written")).expect("JSON");
    let run = &all["runs"][0];
    assert_eq!(run["pid"], truth.pid, "{all}");
    assert!(moved(run, "verified") > MUCH, "{run}");
    let numbers = &run["consolidation"];
    assert!(number(numbers, "pages_verified") >= HOT as u64 / 2, "{numbers}");
    assert!(numbers["refused"].is_null(), "{numbers}");
    system.finish();
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
