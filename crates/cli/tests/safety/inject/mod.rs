//! Injection of a library into running programs, which go on.

use crate::consolidate::{HOT, Truth, load, possible, whole_at_end};
use crate::inside::agent;
use crate::support::{Running, frostline, only_run, text, wait_until};
use crate::system::number;
use frostline_testing::{Moments, Requirement, skip};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

pub fn inject(pid: u32, options: &str) -> Command {
    let mut command = frostline();
    command.args(["consolidate", &pid.to_string(), "--inject", "--agent"]).arg(agent());
    command.args(options.split(' ').filter(|option| !option.is_empty()));
    command
}

/// Whether a program has the library.
pub fn is_in(pid: u32) -> bool {
    let name = agent().file_name().expect("a file").to_str().expect("a text");
    std::fs::read_to_string(format!("/proc/{pid}/maps")).is_ok_and(|maps| maps.contains(name))
}

/// A load that was started without anything.
pub struct Plain {
    running: Running,
    pub truth: Truth,
    _folder: tempfile::TempDir,
}

impl Plain {
    pub fn start(options: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("truth");
        let mut command = Command::new("env");
        load(&mut command, &file, options);
        let running = Running::start(&mut command);
        Self { running, truth: Truth::when_filled(&file), _folder: folder }
    }

    pub fn pid(&self) -> u32 {
        self.truth.pid
    }

    /// Has it end, and look at its memory.
    pub fn end(mut self) -> serde_json::Value {
        self.truth.end();
        let out = self.running.0.stdout.take().expect("piped");
        whole_at_end(out, self.running.0.stderr.take().expect("piped"))
    }
}

#[test]
fn a_program_that_runs_gathers_its_hot_pages() {
    if !possible() {
        return;
    }
    let load = Plain::start("--fork-rate 4/s --churn 20/s --seconds 600");
    let pid = load.truth.pid;
    let before = load.truth.regions();
    assert!(load.truth.hot.len() == HOT && before > HOT / 2);
    let run = |options: &str| {
        let output = inject(pid, options).output().expect("it runs");
        assert!(output.status.success(), "{options}: {}", text(&output.stderr));
        output
    };
    // Between two of its waits, none is told.
    wait_until("its first thread is seen to wait", || {
        text(&run("--dry-run").stdout).contains(&format!("thread {pid}, which waits"))
    });
    assert!(!is_in(pid), "looking changes nothing");
    let first = run("--json");
    let numbers = only_run(&first.stdout);
    assert!(is_in(pid) && text(&first.stderr).contains("stays there"), "{numbers}");
    // Forks share pages; those that were not when it was asked.
    let (moved, seen) = (number(&numbers, "pages_moved"), number(&numbers, "pages_verified"));
    assert!(moved > 0 && seen * 2 > moved, "{numbers}");
    // It is asked again as any other that has an agent.
    wait_until("few regions hold most of them", || {
        let again = frostline().args(["consolidate", &pid.to_string(), "--json"]).output();
        let again = again.expect("it runs");
        assert!(again.status.success(), "{}", text(&again.stderr));
        load.truth.regions() <= before / 2
    });
    assert!(!text(&run("--json").stderr).contains("stays there"), "it is there already");
    // What it forks is left alone.
    wait_until("it forks", || {
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
        let of_thread = |thread: std::fs::DirEntry| {
            std::fs::read_to_string(thread.path().join("children")).unwrap_or_default()
        };
        let all: Vec<String> = threads.flatten().map(of_thread).collect();
        let all = all.join(" ") + &children.unwrap_or_default();
        let child = all.split_ascii_whitespace().next().map(str::to_owned);
        child.is_some_and(|child| {
            let tasks = std::fs::read_dir(format!("/proc/{child}/task"));
            tasks.is_ok_and(|tasks| tasks.count() == 1)
        })
    });
    let done = load.end();
    assert!(number(&done, "forks") > 2 && number(&done, "areas_unmapped") > 2, "{done}");
}

#[test]
fn whoever_injects_may_be_killed_at_any_moment() {
    if !possible() {
        return;
    }
    let options = "--fork-rate 2/s --churn 20/s --seconds 600";
    let mut moments = Moments::from(Duration::from_millis(100));
    let mut load = Plain::start(options);
    let (mut before, mut after) = (0, 0);
    while before < 4 || after < 2 {
        let mut command = inject(load.truth.pid, "");
        let mut asking = Running::start(command.stdout(Stdio::null()).stderr(Stdio::null()));
        std::thread::sleep(moments.next());
        asking.kill();
        // The thread that was taken waits again, whatever we had begun.
        let pid = load.truth.pid;
        wait_until("the first thread waits", || {
            let call = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/syscall"));
            call.is_ok_and(|call| call.starts_with("230 "))
        });
        moments.was_done(is_in(pid));
        if is_in(pid) {
            after += 1;
            load.end();
            load = Plain::start(options);
        } else {
            before += 1;
        }
    }
    load.end();
}

#[test]
fn a_program_may_end_meanwhile() {
    if !possible() {
        return;
    }
    let mut moments = Moments::from(Duration::from_millis(50));
    let (mut before, mut after) = (0, 0);
    while before < 4 || after < 4 {
        let mut command = Command::new("sleep");
        let mut program = Running::start(command.arg("600"));
        let mut command = inject(program.pid(), "--dry-run");
        wait_until("it waits", || {
            let told = text(&command.output().expect("it runs").stdout);
            told.contains("which waits")
        });
        let mut command = inject(program.pid(), "");
        let asking = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("runs");
        std::thread::sleep(moments.next());
        let done = is_in(program.pid());
        program.kill();
        let output = asking.wait_with_output().expect("ours");
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains("has ended"), "{told}");
        moments.was_done(done);
        *if done { &mut after } else { &mut before } += 1;
    }
}

/// The test's own program; `None`, with the reason printed, without a compiler.
fn waits(folder: &Path, options: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/safety/inject/waits.c");
    let file = folder.join(format!("waits{}", options.join("")));
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-Wall", "-Wextra", "-pthread"]).args(options).arg("-o").arg(&file).arg(source);
    match cc.output() {
        Ok(output) if output.status.success() => Some(file),
        Ok(output) => {
            skip(Requirement::Compiler, format!("{options:?}: {}", text(&output.stderr)));
            None
        }
        Err(error) => {
            skip(Requirement::Compiler, error);
            None
        }
    }
}

/// A program that waits, and has said so.
fn waiting(command: &mut Command) -> Running {
    let mut program =
        Running::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()));
    let mut line = String::new();
    let mut out = BufReader::new(program.0.stdout.as_mut().expect("piped"));
    out.read_line(&mut line).expect("readable");
    assert_eq!(line, "waits\n");
    program
}

/// Has a program end as it would have.
fn ends(mut program: Running) {
    drop(program.0.stdin.take());
    assert!(program.end().success());
}

fn refused(output: &Output, why: &str) {
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains(why) && told.contains("hint: "), "{why}: {told}");
}

#[test]
fn what_cannot_be_done_is_refused_with_a_reason() {
    if !possible() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let Some(file) = waits(folder.path(), &[]) else { return };
    let cases = [
        ("filtered", "a filter of system calls"),
        ("handles", "runs a signal handler"),
        // By its stack or its frame: that depends on what lies beside it.
        ("handles-elsewhere", "can be made to load"),
        ("little-stack", "has no room"),
        ("gone", "first thread"),
        ("contends", "holds no lock"),
    ];
    let programs = cases.map(|(mode, _)| waiting(Command::new(&file).arg(mode)));
    let asking = programs.each_ref().map(|program| {
        let mut command = inject(program.pid(), "");
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs")
    });
    for (((mode, why), program), asking) in cases.into_iter().zip(programs).zip(asking) {
        refused(&asking.wait_with_output().expect("ours"), why);
        assert!(!is_in(program.pid()), "{mode}");
        if !["little-stack", "contends"].contains(&mode) {
            ends(program);
        }
    }

    let plain = waiting(&mut Command::new(&file));
    let other = folder.path().join("text.so");
    std::fs::write(&other, "no library").expect("room");
    let mut command = frostline();
    command.args(["consolidate", &plain.pid().to_string(), "--inject", "--agent"]).arg(&other);
    refused(&command.output().expect("it runs"), "refuses the library");
    ends(plain);
}

#[test]
fn programs_of_another_kind_are_refused() {
    if !possible() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    if let Some(file) = waits(folder.path(), &["-static"]) {
        let program = waiting(&mut Command::new(file));
        refused(&inject(program.pid(), "").output().expect("it runs"), "linked statically");
        ends(program);
    }
    let mut others = Command::new("setpriv");
    others.args(["--reuid", "65534", "--clear-groups", "sleep", "600"]);
    if let Ok(mut child) = others.spawn() {
        let user = || {
            let status = std::fs::read_to_string(format!("/proc/{}/comm", child.id()));
            status.is_ok_and(|comm| comm == "sleep\n")
        };
        wait_until("it has become another user's", user);
        refused(&inject(child.id(), "").output().expect("it runs"), "another user");
        let pid = Pid::from_child(&child);
        kill_process(pid, Signal::KILL).expect("ours");
        child.wait().expect("ours");
    }
    let mut program = Running::start(Command::new("sleep").arg("600"));
    let output = frostline().args(["consolidate", &program.pid().to_string()]).output();
    refused(&output.expect("it runs"), "has no agent");
    program.kill();
}
