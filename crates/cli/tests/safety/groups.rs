//! Control groups: what they allow of memory and swap, who is in them, and who is left alone.

use crate::load::Load;
use crate::support::{EAGER, Running, attach, frostline, only_run, status_of, text, wait_until};
use crate::system::System;
use frostline_testing::{Requirement, memory_group, skip};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

const MIB: u64 = 1 << 10;

/// Options that have most of a program's memory paged out.
fn tiering() -> String {
    format!("--slow zram:size=256MiB --fast 10% {EAGER}")
}

/// A program of which 64 MiB or more were paged out, by a frostline that was killed then, and its group, which may have 32 MiB.
fn swapped_out_and_limited(group: &frostline_testing::MemoryGroup) -> Load {
    let load = Load::start_in(group, "--size 96MiB --hot 5% --checksums");
    load.signal(Signal::STOP);
    let mut driver = Running::start(&mut attach(load.pid(), &tiering()));
    wait_until("64 MiB are out", || load.swapped_kib() >= 64 * MIB);
    driver.kill();
    group.limit_mib(Some(32), None);
    load
}

#[test]
fn a_program_survives_swap_off_that_its_group_has_no_room_for() {
    let (Some(system), Some(group)) = (System::take(), memory_group()) else { return };
    let mut load = swapped_out_and_limited(&group);
    assert!(load.swapped_kib() >= 64 * MIB);
    let kept = system.clean(&["--swap-off"]);
    load.check_running();
    // Unless its pages are on the device of another frostline, which is not ours to turn off.
    let shared = system.is_shared();
    let named = |why: &String| why.contains(group.name()) && why.contains("raise that");
    assert!(kept.iter().any(named) || shared, "{kept:?}");
    assert!(load.swapped_kib() >= 64 * MIB, "its pages stay where they are");
    group.limit_mib(None, None);
    load.signal(Signal::CONT);
    let kept = system.clean(&["--swap-off"]);
    assert!(kept.is_empty() || shared || system.is_shared(), "there is room now: {kept:?}");
    load.end();
    system.finish();
}

#[test]
fn what_is_brought_back_leaves_its_group_room() {
    let (Some(system), Some(group)) = (System::take(), memory_group()) else { return };
    let load = Load::start_in(&group, "--size 96MiB --hot 5% --checksums");
    load.signal(Signal::STOP);
    let mut driver = Running::start(&mut attach(load.pid(), &tiering()));
    wait_until("64 MiB are out", || load.swapped_kib() >= 64 * MIB);
    group.limit_mib(Some(48), None);
    let looked = || status_of(driver.pid()).is_some_and(|status| !limits(&status).is_empty());
    wait_until("the limit is known", looked);
    let (hits, out) = (group.limit_hits(), load.swapped_kib());
    // All that fits comes back before the device is taken down.
    driver.signal(Signal::INT);
    assert_eq!(driver.end().code(), Some(0));
    assert!(load.swapped_kib() < out, "something came back");
    assert!(load.swapped_kib() > 40 * MIB, "not all did: {} KiB", load.swapped_kib());
    assert_eq!(group.limit_hits(), hits, "the limit was not reached");
    group.limit_mib(None, None);
    load.signal(Signal::CONT);
    load.end();
    system.finish();
}

/// What a status tells of limits of control groups.
fn limits(status: &Value) -> Vec<Value> {
    status["groups"].as_array().cloned().unwrap_or_default()
}

#[test]
fn no_more_is_paged_out_than_a_group_may_have_in_swap() {
    let (Some(system), Some(group)) = (System::take(), memory_group()) else { return };
    let load = Load::start_in(&group, "--size 64MiB --hot 5% --checksums");
    group.limit_mib(Some(256), Some(0));
    let mut driver = Running::start(attach(load.pid(), &tiering()).stderr(Stdio::piped()));
    let over = |status: Value| status["over_limit_seconds"].as_f64().is_some_and(|s| s > 3.0);
    wait_until("its limit of fast memory is exceeded", || {
        assert_eq!(load.swapped_kib(), 0, "none of it may be in swap");
        status_of(driver.pid()).is_some_and(over)
    });
    let status = status_of(driver.pid()).expect("it runs");
    let limit = &limits(&status)[0];
    assert!(limit["name"].as_str().is_some_and(|name| name.contains(group.name())), "{limit}");
    assert_eq!((&limit["swap_limit_bytes"], &limit["swap_room_bytes"]), (&0.into(), &0.into()));
    // It is read again and again.
    group.limit_mib(Some(256), Some(16));
    wait_until("16 MiB may be", || load.swapped_kib() > 8 * MIB);
    wait_until("the room is used up", || {
        let status = status_of(driver.pid()).expect("it runs");
        limits(&status)[0]["swap_room_bytes"].as_u64().is_some_and(|room| room < 1 << 20)
    });
    assert!(load.swapped_kib() <= 16 * MIB, "{} KiB", load.swapped_kib());
    driver.signal(Signal::INT);
    let told = std::io::read_to_string(driver.0.stderr.take().expect("piped")).expect("readable");
    assert_eq!(driver.end().code(), Some(0));
    let mut said: Vec<&str> = told.lines().filter(|line| line.contains("MiB in swap (")).collect();
    assert!(said.iter().all(|line| line.contains(group.name())) && !said.is_empty(), "{told}");
    let lines = said.len();
    said.dedup();
    assert_eq!(said.len(), lines, "each limit is said once: {told}");
    group.limit_mib(None, None);
    load.end();
    system.finish();
}

/// Numbers of the processes that a frostline manages.
fn managed(driver: u32) -> Vec<u64> {
    let status = status_of(driver).unwrap_or_default();
    let targets = status["targets"].as_array().cloned().unwrap_or_default();
    targets.iter().filter_map(|target| target["pid"].as_u64()).collect()
}

fn attach_group(name: impl AsRef<Path>) -> Command {
    let mut command = frostline();
    command.args(["attach", "--slow", "none", "--cgroup"]).arg(name.as_ref());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[test]
fn members_of_a_group_are_followed_as_they_come_and_go() {
    let (Some(system), Some(group)) = (System::take(), memory_group()) else { return };
    let [first, second] = [(); 2].map(|()| Load::start("--size 8MiB"));
    group.add(first.pid());
    let mut driver = Running::start(&mut attach_group(group.folder()));
    let has = |loads: &[&Load]| {
        let pids: Vec<u64> = loads.iter().map(|load| load.pid().into()).collect();
        wait_until(&format!("{pids:?} are managed"), || managed(driver.pid()) == pids);
    };
    has(&[&first]);
    group.add(second.pid());
    let both = if first.pid() < second.pid() { [&first, &second] } else { [&second, &first] };
    has(&both);
    // One that leaves runs on, and is managed no longer.
    group.leave(first.pid());
    has(&[&second]);
    group.leave(second.pid());
    assert_eq!(driver.end().code(), Some(0), "nobody is left");
    first.end();
    second.end();
    system.finish();
}

#[test]
fn groups_that_are_none_are_refused_with_a_hint() {
    for (name, code, why) in [
        ("", 2, "every process"),
        ("/", 2, "every process"),
        ("../x", 2, "by way of others"),
        ("a/../../etc", 2, "by way of others"),
        ("frostline-test-none", 1, "no control group 'frostline-test-none'"),
    ] {
        let output = attach_group(name).stderr(Stdio::piped()).output().expect("it runs");
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{name}: {told}");
        assert!(told.contains(why) && told.contains("hint: "), "{name}: {told}");
    }
    let Some(group) = memory_group() else { return };
    for name in [group.folder(), Path::new(group.name())] {
        let output = attach_group(name).stderr(Stdio::piped()).output().expect("it runs");
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains("is empty") && told.contains("hint: "), "{told}");
    }
    let top = group.folder().parent().expect("a tree");
    let output = attach_group(top).stderr(Stdio::piped()).output().expect("it runs");
    assert!(text(&output.stderr).contains("every process"), "{}", text(&output.stderr));
    assert!(!output.status.success());
}

/// Runs a shell's script in which `$0` is frostline.
fn shell(script: &str) -> std::process::Output {
    let program = env!("CARGO_BIN_EXE_frostline");
    Command::new("sh").args(["-c", script, program]).output().expect("it runs")
}

#[test]
fn frostline_attached_to_its_own_shell_leaves_itself_out() {
    let Some(system) = System::take() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("summary.json");
    let path = path.to_str().expect("a name");
    let script =
        format!("\"$0\" attach $$ --slow none --seconds 2 --summary {path} & echo $! $$; wait $!");
    let output = shell(&script);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let numbers = text(&output.stdout);
    let numbers: Vec<u64> = numbers.split_whitespace().map(|n| n.parse().expect("a pid")).collect();
    let summary = only_run(&std::fs::read(path).expect("a summary"));
    assert_eq!(summary["pid"], numbers[0], "{summary}");
    let targets: Vec<&Value> = summary["targets"].as_array().expect("targets").iter().collect();
    let pids: Vec<u64> = targets.iter().filter_map(|target| target["pid"].as_u64()).collect();
    assert_eq!(pids, [numbers[1]], "the shell, and not frostline");
    system.finish();
}

#[test]
fn whoever_names_what_is_left_alone_is_told_why() {
    let refused = |script: &str, why: &str| {
        let output = shell(script);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{script}: {told}");
        assert!(told.contains(why) && told.contains("hint: "), "{script}: {told}");
    };
    refused("exec \"$0\" attach $$ --slow none --seconds 1", "this frostline itself");
    refused("exec \"$0\" attach 1 --slow none --seconds 1", "the system ends with it");
    let Some(system) = System::take() else { return };
    let load = Load::start("--size 8MiB");
    let driver = Running::start(&mut attach(load.pid(), "--slow none"));
    let other = driver.pid();
    refused(&format!("exec \"$0\" attach {other} --slow none --seconds 1"), "it is a frostline");
    drop(driver);
    load.end();
    system.finish();
    let is_kernel = std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n");
    if !is_kernel {
        return skip(Requirement::KernelThreads, "process 2 is not kthreadd");
    }
    refused("exec \"$0\" attach 2 --slow none --seconds 1", "thread of the kernel");
}
