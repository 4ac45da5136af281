//! The program as its users meet it: exit codes, messages, tables, JSON.

use assert_cmd::Command;
use assert_cmd::assert::Assert;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Two published numbers of three have a direction: ours points the same way in one, the other way
/// in one.
const SMALL: &str = r#"
title = "Order of baselines"
paper = "Somebody, Fig. 1"
about = "Small."
fast = ["1:8"]
policies = "all-fast,all-slow"
seeds = 2
[[workload]]
name = "Zipf"
trace = "synth:zipf:pages=4K:accesses=200K"
[[result]]
what = "gain over slow memory"
measure = "gain"
of = "all-fast"
over = "all-slow"
paper = [0.1, 900]
[[result]]
what = "gain over fast memory"
measure = "gain"
of = "all-slow"
over = "all-fast"
paper = 7
[[result]]
what = "time"
measure = "number"
number = "modelled_seconds"
unit = "s"
of = "all-fast"
paper = 7
"#;

fn repro() -> Command {
    Command::new(env!("CARGO_BIN_EXE_frostline-repro"))
}

fn stdout(assert: &Assert) -> String {
    String::from_utf8(assert.get_output().stdout.clone()).expect("UTF-8")
}

fn stderr(assert: &Assert) -> String {
    String::from_utf8(assert.get_output().stderr.clone()).expect("UTF-8")
}

fn text(args: &[&str]) -> String {
    stdout(&repro().args(args).assert().success())
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&text(args)).expect("JSON")
}

/// Asserts on code and standard error, and that nothing came on standard output.
fn fails(args: &[&str], code: i32, says: &str, hints: &str) {
    let assert = repro().args(args).assert().code(code);
    assert!(stdout(&assert).is_empty(), "{args:?}");
    let text = stderr(&assert);
    assert!(text.starts_with("error: ") && text.contains(says), "{args:?}: {text}");
    assert!(text.contains("hint: ") && text.contains(hints), "{args:?}: {text}");
}

/// A folder with the small experiment, and its file.
fn small() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("small.toml");
    std::fs::write(&file, SMALL).expect("written");
    (folder, file)
}

fn name(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn experiments_come_with_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let list = Command::new(env!("CARGO_BIN_EXE_frostline-repro"))
        .arg("list")
        .current_dir(folder.path())
        .assert()
        .success();
    let list = String::from_utf8(list.get_output().stdout.clone()).unwrap();
    assert!(list.contains("memtis-fig11 ") && list.lines().count() > 30, "{list}");
}

#[test]
fn experiments_are_listed() {
    let list = text(&["list", concat!(env!("CARGO_MANIFEST_DIR"), "/../experiments")]);
    assert!(list.starts_with("file ") && list.contains("memtis-fig11.toml"), "{list}");
    let (folder, _) = small();
    assert!(text(&["list", name(folder.path())]).contains("Somebody, Fig. 1"));
}

#[test]
fn a_run_shows_the_paper_beside_ours() {
    let (folder, file) = small();
    let report = folder.path().join("r.html");
    let shown = text(&["run", name(&file), "--report", name(&report)]);
    for part in ["Somebody, Fig. 1", "paper beside ours", "0.1 to 900 %", "reversed", "seeds    1"]
    {
        assert!(shown.contains(part), "{part} in\n{shown}");
    }
    let page = std::fs::read_to_string(report).expect("written");
    assert!(page.contains("Of 2 published numbers"), "the verdict counts what has a direction");
    let json = json(&["run", name(&file), "--quick", "--seeds", "1", "--json"]);
    assert_eq!((&json["schema"], &json["version"]), (&1.into(), &env!("CARGO_PKG_VERSION").into()));
    let run = &json["runs"][0];
    assert_eq!((&run["experiment"], &run["quick"]), (&"small".into(), &true.into()));
    assert_eq!(run["results"].as_array().map(Vec::len), Some(3));
    assert_eq!(run["runs"].as_array().map(Vec::len), Some(2));
}

#[test]
fn published_numbers_that_come_out_are_counted() {
    let (folder, file) = small();
    let json = json(&["score", name(folder.path()), name(&file), "--json"]);
    let runs = json["runs"].as_array().expect("a file named twice");
    assert_eq!(runs.len(), 2);
    let counts =
        ["published", "same", "slight", "reversed", "unsure", "within"].map(|key| &runs[1][key]);
    assert_eq!(counts, [2, 1, 0, 1, 0, 1]);
    let table = text(&["score", name(&file), name(&file)]);
    let last = table.lines().last().expect("the sum");
    assert!(last.split_whitespace().eq(["all", "4", "2", "0", "2", "0", "2"]), "{table}");
}

#[test]
fn a_tournament_goes_on_where_it_was() {
    const MATRIX: &str = r#"
machines = ["dram-nvm"]
fast = ["1:2", "1:8"]
policies = "memtis,first-touch,all-slow"
[families.seen]
traces = ["synth:zipf:pages=4K:accesses=200K"]
[families.unseen]
traces = ["synth:hotcold:pages=4K:accesses=200K"]
"#;
    let (folder, _) = small();
    let (matrix, results) = (folder.path().join("m.toml"), folder.path().join("r.jsonl"));
    std::fs::write(&matrix, MATRIX).expect("written");
    let play = |more: &[&str]| {
        let args = ["tournament", name(&matrix), "-o", name(&results), "--json"];
        let assert = repro().args(args).args(more).assert().success();
        let json: Value = serde_json::from_str(&stdout(&assert)).expect("JSON");
        (json["runs"].as_array().expect("standings").clone(), stderr(&assert))
    };
    let lines = || std::fs::read_to_string(&results).expect("there").lines().count();
    let (seen, _) = play(&["--family", "seen"]);
    assert_eq!((seen.len(), lines()), (3, 2));
    let (all, told) = play(&[]);
    assert!(told.contains("hotcold") && !told.contains("zipf"), "{told}");
    assert_eq!((all.len(), lines()), (3, 4));
    assert!(all.iter().all(|one| one["cases"] == 4), "{all:?}");
    let mean = |one: &Value| one["regret_mean"].as_f64().expect("a number");
    assert!(all.windows(2).all(|pair| mean(&pair[0]) <= mean(&pair[1])), "{all:?}");
    let (again, told) = play(&[]);
    assert_eq!((again, lines()), (all, 4), "{told}");
    fails(
        &["tournament", name(&matrix), "-o", name(&results), "--family", "x"],
        2,
        "no family 'x'",
        "seen, unseen",
    );
}

#[test]
fn every_command_has_a_man_page() {
    let folder = tempfile::tempdir().expect("folder");
    text(&["completions", "--man-pages", name(folder.path())]);
    for page in ["frostline-repro.1", "frostline-repro-tournament.1", "frostline-repro-score.1"] {
        assert!(folder.path().join(page).is_file(), "{page}");
    }
    assert!(text(&["completions", "bash"]).contains("tournament"));
}

#[test]
fn wrong_usage_ends_with_2_and_a_hint() {
    let (folder, file) = small();
    fails(&["run", "nosuch.toml"], 2, "cannot read nosuch.toml", "frostline-repro list");
    fails(
        &["score", name(&file), "nosuch.toml"],
        2,
        "cannot read nosuch.toml",
        "frostline-repro list",
    );
    std::fs::write(&file, SMALL.replace("fast =", "fats =")).expect("written");
    fails(&["run", name(&file)], 2, "small.toml:5: unknown key `fats`", "`fast`");
    fails(&["list", name(folder.path())], 2, "unknown key", "`fast`");
    repro().args(["run", name(&file), "--seeds", "0"]).assert().code(2);
    repro().assert().code(2);
}

#[test]
fn help_and_completions_are_data() {
    for command in ["run", "score", "validate"] {
        let help = text(&[command, "--help"]);
        assert!(help.contains("Examples:") && help.contains("--max-memory"), "{command}: {help}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = text(&["completions", shell]);
        assert!(script.contains("frostline-repro") && script.contains("validate"), "{shell}");
    }
}

#[test]
fn validation_says_what_is_missing() {
    let empty = tempfile::tempdir().expect("folder");
    let nowhere = |args: &[&str]| {
        let mut command = repro();
        command.env("PATH", empty.path()).env("HOME", empty.path());
        command.env("XDG_CACHE_HOME", empty.path());
        command.arg("validate").args(args).assert()
    };
    // All of them: none is there, and that is no failure.
    let all = stdout(&nowhere(&[]).success());
    assert!(all.contains("gauss-kv") && all.contains("missing: apt-get install"), "{all}");
    let named = nowhere(&["gauss-kv", "--json"]).code(1);
    assert!(stderr(&named).contains("hint: apt-get install redis-server"));
    let json = stdout(&nowhere(&["--json"]).success());
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let first = &json["runs"][0];
    assert!(first["missing"].is_string() && first["distance"].is_null(), "{first}");
    fails(&["validate", "colour"], 2, "`colour`", "gauss-kv");
}
