//! `frostline record` as a user meets it: exit codes, signals, messages, and traces that read.

mod common;

use assert_cmd::Command;
use common::can_record;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

fn frostline() -> Command {
    Command::new(env!("CARGO_BIN_EXE_frostline"))
}

fn record(trace: &Path, command: &[&str]) -> assert_cmd::assert::Assert {
    frostline().arg("record").arg("-o").arg(trace).arg("--").args(command).assert()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Number of accesses that `trace info` reports; checks that the trace verifies first.
fn accesses(trace: &Path) -> u64 {
    frostline().args(["trace", "verify"]).arg(trace).assert().success();
    records(&["trace", "info", "--json"], trace)
}

fn records(command: &[&str], trace: &Path) -> u64 {
    let output = frostline().args(command).arg(trace).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let info: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    info["runs"][0]["records"].as_u64().unwrap()
}

#[test]
fn the_programs_output_and_exit_code_are_its_own() {
    if !can_record() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.flt");
    let run = record(&trace, &["sh", "-c", "echo to stdout; echo to stderr >&2; exit 3"]).code(3);
    assert_eq!(text(&run.get_output().stdout), "to stdout\n");
    assert!(text(&run.get_output().stderr).contains("to stderr\n"));
    assert!(accesses(&trace) > 0);
    record(&trace, &["sh", "-c", "kill -TERM $$"]).code(128 + 15);
    assert!(accesses(&trace) > 0, "a killed program's trace is complete too");
}

#[test]
fn what_cannot_be_run_is_said_with_the_codes_of_env() {
    if !can_record() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.flt");
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "no program").unwrap();
    let nowhere = folder.path().join("missing/t.flt");
    let cases: [(&Path, &str, i32); 3] = [
        (&trace, "/does/not/exist", 127),
        (&trace, plain.to_str().unwrap(), 126),
        (&nowhere, "true", 125),
    ];
    for (output, program, code) in cases {
        let run = record(output, &[program]).code(code);
        let message = text(&run.get_output().stderr);
        assert!(message.starts_with("error: ") && message.contains("\nhint: "), "{message}");
    }
    assert!(!trace.exists(), "nothing is left behind where nothing ran");
    let bad = ["record", "-o", trace.to_str().unwrap(), "--llc", "size=3MiB", "--", "true"];
    let message = text(&frostline().args(bad).assert().code(125).get_output().stderr);
    assert!(message.starts_with("error: ") && message.contains("\nhint: "), "{message}");
}

#[test]
fn ctrl_c_leaves_a_trace_that_reads() {
    if !can_record() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.flt");
    // A terminal sends the signal to the whole foreground group; here the recorder passes it on.
    let script = "trap 'exit 7' INT; echo ready; while :; do :; done";
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_frostline"))
        .args(["record", "-o"])
        .arg(&trace)
        .args(["--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(7), "the program decides how it ends");
    assert!(accesses(&trace) > 0);
}

#[test]
fn a_killed_recorder_leaves_a_prefix() {
    if !can_record() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.flt");
    let done = folder.path().join("done");
    // Misses of every size of cache, for longer than the first frames take to be written.
    let script = format!(
        "echo ready; i=0; while [ $i -lt 400 ]; do head -c 100000 /dev/zero | sort >/dev/null; \
         i=$((i+1)); [ -e {0} ] && exit; done",
        done.display()
    );
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_frostline"))
        .args(["record", "--follow", "-o"])
        .arg(&trace)
        .args(["--", "sh", "-c", &script])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let written = || std::fs::metadata(&trace).map_or(0, |m| m.len());
    while written() < 200_000 {
        assert!(child.try_wait().unwrap().is_none(), "ended before a frame was written");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    std::fs::write(&done, "").unwrap();
    let verify = frostline().args(["trace", "verify"]).arg(&trace).output().unwrap();
    assert!(!verify.status.success(), "what is missing is not passed over in silence");
    assert!(records(&["trace", "info", "--json", "--prefix"], &trace) > 0);
}

#[test]
fn a_size_limit_ends_the_trace_and_not_the_program() {
    if !can_record() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.flt");
    let script = "seq 1 200000 | sort -r | tail -n 1";
    let run = frostline()
        .args(["record", "--follow", "--max-size", "64KiB", "-o"])
        .arg(&trace)
        .args(["--", "sh", "-c", script])
        .assert()
        .success();
    assert_eq!(text(&run.get_output().stdout), "1\n");
    assert!(text(&run.get_output().stderr).contains("--max-size"));
    assert!(accesses(&trace) > 0);
    assert!(std::fs::metadata(&trace).unwrap().len() < 1 << 20);
}
