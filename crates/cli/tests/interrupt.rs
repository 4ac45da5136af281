//! Ctrl-C during long work.

use rustix::process::{Pid, Signal, kill_process};
use std::process::{Child, Command, Stdio};

/// Bits of caught signals, proc(5).
fn caught_signals(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
    u64::from_str_radix(mask.trim(), 16).unwrap()
}

fn stop_by(signal: Signal) {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("r.html");
    // Far longer than any test would wait, and too large to be kept in memory.
    let mut child = Command::new(env!("CARGO_BIN_EXE_frostline"))
        .args(["compare", "synth:zipf:pages=4K:accesses=1T", "--report"])
        .arg(&report)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while caught_signals(&child) & 1 << (signal.as_raw() - 1) == 0 {
        assert!(child.try_wait().unwrap().is_none(), "ended by itself");
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&child), signal).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(128 + signal.as_raw()));
    assert!(output.stdout.is_empty());
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.starts_with("error: ") && text.contains("interrupted"), "{text}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn ctrl_c_ends_with_130() {
    stop_by(Signal::INT);
}

#[test]
fn termination_ends_with_143() {
    stop_by(Signal::TERM);
}
