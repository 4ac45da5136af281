//! `frostline advise` as a user meets it.

mod common;

use assert_cmd::Command;
use common::can_record;
use std::path::Path;

const TRACE: &str = "synth:zipf:pages=16K:accesses=2M";

fn advise(args: &[&str]) -> assert_cmd::assert::Assert {
    Command::new(env!("CARGO_BIN_EXE_frostline")).arg("advise").args(args).assert()
}

fn output(args: &[&str]) -> String {
    let run = advise(args).success();
    String::from_utf8_lossy(&run.get_output().stdout).into_owned()
}

fn runs(text: &str) -> Vec<serde_json::Value> {
    let json: serde_json::Value = serde_json::from_str(text).unwrap();
    json["runs"].as_array().unwrap().clone()
}

#[test]
fn numbers_and_their_units_stand_in_one_line() {
    let text = output(&[TRACE, "--max-slowdown", "5%,10%"]);
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(text.lines().all(|line| !line.trim_start().starts_with('%')), "{text}");
    let curve: Vec<&str> =
        text.lines().filter(|l| l.trim_start().starts_with("slower by")).collect();
    assert!(curve.len() >= 2, "a heading and the curve: {text}");
    assert!(text.contains("docs/notes/validation.md"));
}

#[test]
fn a_report_has_a_chart_for_each_machine() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.html");
    let policies = "frost,first-touch";
    let report = path.to_str().unwrap();
    let text = output(&[
        TRACE,
        "--machine",
        "dram-cxl,dram-nvm",
        "--policies",
        policies,
        "--report",
        report,
        "--json",
    ]);
    let page = std::fs::read_to_string(&path).unwrap();
    assert_eq!(page.matches("<figcaption>Slowdown by size of fast memory<").count(), 2);
    assert_eq!(
        page.matches("<path class=\"curve s").count(),
        8,
        "lines and legends of two policies each"
    );
    for foreign in ["http:", "https:", "<script", "<link", "src="] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    let runs = runs(&text);
    assert_eq!(runs.len(), 4);
    let intervals = runs.iter().flat_map(|run| run["answers"].as_array().unwrap());
    let answered = intervals.filter(|answer| answer["fast_bytes"].is_u64()).count();
    // A goal above what is drawn has no mark.
    assert!(page.matches("class=\"whisker\"").count() <= answered);
    assert!(page.contains("class=\"whisker\""), "at least one is marked");
}

/// What is in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_program_is_recorded_and_its_trace_goes() {
    if !can_record() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_frostline"));
        command.env("TMPDIR", folder.path()).arg("advise").args(args).assert()
    };
    let work = ["--", "sh", "-c", "echo printed; seq 100000 | sort -rn | tail -1"];
    let json = run(&[&["--json"], &work[..]].concat()).success();
    let text = String::from_utf8_lossy(&json.get_output().stdout).into_owned();
    let runs = runs(&text);
    assert!(runs[0]["footprint_bytes"].as_u64().unwrap() > 0, "{text}");
    assert!(runs[0]["trace"].as_str().unwrap().starts_with("sh -c"), "{text}");
    assert_eq!(names(folder.path()), Vec::<String>::new(), "the trace has gone");

    let kept = folder.path().join("kept.flt");
    let said = run(&[&["-o", kept.to_str().unwrap()], &work[..]].concat()).success();
    let text = String::from_utf8_lossy(&said.get_output().stdout).into_owned();
    assert!(text.starts_with("printed\n1\n"), "what it prints is its own: {text}");
    assert_eq!(names(folder.path()), ["kept.flt"]);
    // The same answer from the trace that was kept.
    let again = run(&[kept.to_str().unwrap()]).success();
    let again = String::from_utf8_lossy(&again.get_output().stdout).into_owned();
    let answers = |text: &str| text.split_once("under").map(|(_, answers)| answers.to_owned());
    assert_eq!(answers(&text), answers(&again));
}

#[test]
fn a_program_without_end_is_ended() {
    if !can_record() {
        return;
    }
    let run =
        advise(&["--for", "3s", "--json", "--", "sh", "-c", "while :; do x=$((x + 1)); done"]);
    let text = String::from_utf8_lossy(&run.success().get_output().stdout).into_owned();
    assert!(runs(&text)[0]["footprint_bytes"].as_u64().unwrap() > 0, "{text}");
}

#[test]
fn what_cannot_be_advised_on_is_said() {
    let cases: [(&[&str], i32, &str); 4] = [
        (&[], 2, "TRACE"),
        (&[TRACE, "--", "true"], 2, "cannot be used with"),
        (&[TRACE, "--for", "3s"], 2, "PROGRAM"),
        (&["/does/not/exist.flt"], 1, "hint: "),
    ];
    for (args, code, part) in cases {
        let run = advise(args).failure();
        let message = String::from_utf8_lossy(&run.get_output().stderr).into_owned();
        assert!(message.contains(part), "{args:?}: {message}");
        if code == 2 {
            assert_eq!(run.get_output().status.code(), Some(2), "{message}");
        }
    }
    if can_record() {
        let run = advise(&["--", "/does/not/exist"]).code(127);
        let message = String::from_utf8_lossy(&run.get_output().stderr).into_owned();
        assert!(message.starts_with("error: ") && message.contains("\nhint: "), "{message}");
    }
}
