//! The program as a whole.

use frostline_testing::{Requirement, skip};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn load() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_frostline-load"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Waits for the line `ready`; what follows can still be read.
fn wait_until_ready(child: &mut Child) -> BufReader<impl Read + use<>> {
    let mut errors = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    errors.read_line(&mut line).expect("readable");
    assert_eq!(line, "ready\n");
    errors
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(bytes)))
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("{key} in {value}"))
}

fn generation(truth: &Path) -> String {
    let text = fs::read_to_string(truth).expect("truth");
    assert!(text.ends_with("\nend\n"));
    text.lines().find(|line| line.starts_with("generation ")).expect("generation").to_owned()
}

#[test]
fn every_option_in_one_second() {
    let folder = tempfile::tempdir().expect("a folder");
    let (truth, log) = (folder.path().join("truth"), folder.path().join("log.csv"));
    let output = load()
        .args(["--size", "16MiB", "--hot", "25%", "--cold-rate", "2000/s", "--writes", "20%"])
        .args(["--compressible", "3", "--seconds", "1.2", "--threads", "2", "--huge"])
        .args(["--seed", "7", "--scatter", "block", "--checksums", "--shift", "0.3"])
        .args(["--fork-rate", "20/s", "--churn", "100/s", "--json", "--truth"])
        .arg(&truth)
        .arg("--throughput-log")
        .arg(&log)
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary = json(&output.stdout);
    assert_eq!((number(&summary, "pages"), number(&summary, "hot_pages")), (4096, 1024));
    assert_eq!(number(&summary, "mismatches"), 0);
    assert_eq!(summary["ended_by"], "time");
    for key in ["operations", "writes", "cold_accesses", "forks", "areas_unmapped", "shifts"] {
        assert!(number(&summary, key) > 0, "{key}: {summary}");
    }
    let operations = number(&summary, "operations");
    assert!(number(&summary, "verified_pages") >= operations + 4096, "{summary}");
    let log = fs::read_to_string(log).expect("log");
    let rows: Vec<&str> = log.lines().collect();
    assert_eq!(rows[0], "second,operations");
    let per_second = summary["per_second"].as_array().expect("a list");
    assert_eq!(rows.len(), per_second.len() + 1);
    assert_eq!(rows[1], format!("1,{}", per_second[0]));
    assert_eq!(generation(&truth), format!("generation {}", number(&summary, "shifts")));
}

#[test]
fn equal_work_has_equal_shifts() {
    let output = load()
        .args(["--size", "4MiB", "--hot", "25%", "--cold-rate", "0", "--seconds", "600"])
        .args(["--operations", "3M", "--shift-operations", "1400K", "--json"])
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(number(&json(&output.stdout), "shifts"), 2);
    let refused = load().args(["--shift-operations", "0"]).output().expect("it runs");
    assert!(!refused.status.success());
}

#[test]
fn a_signal_ends_it_with_a_summary_and_a_check_of_all_pages() {
    let folder = tempfile::tempdir().expect("a folder");
    let truth = folder.path().join("truth");
    let mut child = load()
        .args(["--size", "8MiB", "--hot", "10%", "--seconds", "600", "--json", "--truth"])
        .arg(&truth)
        .spawn()
        .expect("it runs");
    let _errors = wait_until_ready(&mut child);
    assert_eq!(generation(&truth), "generation 0");

    let check = load().arg("check").arg("--json").arg("--truth").arg(&truth).output().expect("it");
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
    let places = json(&check.stdout);
    assert_eq!(number(&places, "pid"), u64::from(child.id()));
    assert_eq!((number(&places["hot"], "pages"), number(&places["cold"], "pages")), (205, 1843));
    assert_eq!(number(&places["hot"], "absent"), 0);

    kill_process(Pid::from_child(&child), Signal::TERM).expect("it runs");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    let summary = json(&output.stdout);
    assert_eq!(summary["ended_by"], "signal");
    assert!(number(&summary, "verified_pages") >= 2048);

    let after = load().arg("check").arg("--truth").arg(&truth).output().expect("it runs");
    assert_eq!(after.status.code(), Some(1), "the load has ended");
}

#[test]
fn damaged_memory_is_named_and_makes_it_fail() {
    let folder = tempfile::tempdir().expect("a folder");
    let truth = folder.path().join("truth");
    let mut child = load()
        // Without writes: one of them could come upon the page just after it was checked.
        .args(["--size", "1MiB", "--hot", "1%", "--cold-rate", "0", "--writes", "0"])
        .args(["--seconds", "60", "--truth"])
        .arg(&truth)
        .spawn()
        .expect("it runs");
    let mut errors = wait_until_ready(&mut child);
    let text = fs::read_to_string(&truth).expect("truth");
    let fact = |word: &str| text.lines().find_map(|line| line.strip_prefix(word)).expect("fact");
    let start = u64::from_str_radix(fact("start 0x"), 16).expect("hexadecimal");
    let hot: u64 = fact("hot ").split(' ').next().and_then(|n| n.parse().ok()).expect("a page");
    if let Err(error) = overwrite(child.id(), start + hot * 4096 + 2000, &[0; 8]) {
        child.kill().expect("it can be ended");
        child.wait().expect("it ends");
        let why = format!("another process's memory cannot be written: {error}");
        return skip(Requirement::OtherMemory, why);
    }
    let mut said = String::new();
    errors.read_to_string(&mut said).expect("readable");
    assert_eq!(child.wait().expect("it ends by itself").code(), Some(1));
    assert!(said.contains(&format!("error: page {hot}")), "{said}");
}

fn overwrite(pid: u32, address: u64, bytes: &[u8]) -> std::io::Result<()> {
    use std::os::unix::fs::FileExt;
    let memory = fs::OpenOptions::new().write(true).open(format!("/proc/{pid}/mem"))?;
    memory.write_all_at(bytes, address)
}

#[test]
fn wrong_usage_ends_with_2() {
    for wrong in [["--hot", "120%"], ["--seconds", "0"], ["--cold-rate", "5/x"], ["--size", "x"]] {
        let output = load().args(wrong).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("hint:"), "{wrong:?}");
    }
}
