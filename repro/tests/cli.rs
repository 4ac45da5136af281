//! The program as its users meet it: exit codes, messages, tables, JSON.

use assert_cmd::Command;
use assert_cmd::assert::Assert;
use frostline_testing::{delays, memory_group, swap_lock, zram};
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
    let json = json(&["score", name(folder.path()), name(&file), "--run", "--json"]);
    let runs = json["runs"].as_array().expect("a file named twice");
    assert_eq!(runs.len(), 2);
    let counts = ["published", "met", "same_direction", "slight", "reversed", "unsure", "cannot"]
        .map(|key| &runs[1]["score"][key]);
    assert_eq!(counts, [2, 1, 0, 0, 1, 0, 0]);
    let verdicts: Vec<_> = runs[1]["numbers"].as_array().expect("numbers").iter().collect();
    assert!(verdicts.iter().any(|number| number["verdict"] == "reversed"), "{verdicts:?}");
    let table = text(&["score", name(&file), name(&file), "--run"]);
    let last = table.lines().last().expect("the sum");
    assert!(last.split_whitespace().eq(["all", "4", "2", "0", "0", "2", "0", "0"]), "{table}");
}

#[test]
fn results_are_kept_and_known_to_be_old() {
    let (folder, file) = small();
    let results = folder.path().join("results");
    let stored = results.join("small.json");
    let run = ["score", name(&file), "--run", "--results", name(&results)];
    let read = ["score", name(&file), "--results", name(&results), "--each"];
    fails(&read, 2, "small has no results", "`--run`");
    text(&run);
    let first = std::fs::read_to_string(&stored).expect("kept");
    // Results that are there are not made again: changed ones stay.
    std::fs::write(&stored, first.replace("\"0.1.0\"", "\"0.0.9\"")).expect("written");
    text(&run);
    assert!(std::fs::read_to_string(&stored).expect("kept").contains("0.0.9"));
    let shown = text(&read);
    assert!(shown.contains("reversed") && !shown.contains("old "), "{shown}");
    // What another file asked for is.
    let changed = std::fs::read_to_string(&file).expect("text").replace("seeds = 2", "seeds = 3");
    std::fs::write(&file, changed).expect("written");
    assert!(text(&read).contains("the files of small were changed since"));
    text(&run);
    let again = std::fs::read_to_string(&stored).expect("kept");
    assert!(!again.contains("0.0.9") && !text(&read).contains("old "));
    std::fs::write(&stored, "{").expect("written");
    fails(&read, 2, "small.json", "`score --run`");
}

#[test]
fn what_no_run_can_show_counts_by_itself() {
    let (_folder, file) = small();
    let more = "[[result]]\nwhat = \"speed of gcc\"\nmeasure = \"gain\"\nof = \"gcc\"\npaper = 3\n";
    let write =
        |cannot: &str| std::fs::write(&file, format!("{SMALL}{more}{cannot}")).expect("written");
    write("cannot = \"no generator stands for gcc\"\n");
    let shown = text(&["score", name(&file), "--run", "--each"]);
    assert!(shown.contains("speed of gcc: no generator stands for gcc"), "{shown}");
    let last = shown.lines().last().expect("the sum");
    assert!(last.split_whitespace().eq(["all", "3", "1", "0", "0", "1", "0", "1"]), "{shown}");
    assert!(text(&["run", name(&file)]).contains("3 % cannot be shown: no generator"));
    write("cannot = \"\"\n");
    fails(&["score", name(&file)], 2, "speed of gcc\": cannot is empty", "drop the key");
    write("cannot = \"a\"\ndiffers = \"b\"\n");
    fails(&["run", name(&file)], 2, "both cannot and differs", "keep cannot");
}

#[test]
fn all_are_planned_and_run_once() {
    let (folder, file) = small();
    std::fs::copy(&file, folder.path().join("other.toml")).expect("copied");
    let results = folder.path().join("results");
    let all = ["all", name(folder.path()), "--results", name(&results), "--quick"];
    let plan = |more: &[&str]| json(&[&all[..], &["--dry-run", "--json"], more].concat());
    let first = plan(&["-j", "2"]);
    assert_eq!((&first["complete"], &first["jobs"]), (&0.into(), &2.into()));
    let runs = first["runs"].as_array().expect("experiments");
    // Two policies under three seeds, of 200 thousand accesses and what fills 4000 pages before.
    let of = |key: &str| runs.iter().map(|run| run[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("runs"), [6, 6]);
    assert_eq!(of("accesses"), [6 * 204_000, 6 * 204_000]);
    assert!(!results.exists(), "a plan runs nothing");
    let shown = text(&[&all[..], &["--dry-run", "--seeds", "1"]].concat());
    assert!(shown.contains("small") && shown.contains("time "), "{shown}");
    let assert = repro().args(all).assert().success();
    let (table, told) = (stdout(&assert), stderr(&assert));
    assert!(told.contains("[6/6] ") && told.contains(" left"), "{told}");
    let last = table.lines().last().unwrap_or_default();
    assert!(table.contains("experiment  published") && last.starts_with("quick"), "{table}");
    assert_eq!(plan(&[])["complete"], 2);
    let again = repro().args(all).arg("-q").assert().success();
    assert_eq!((stdout(&again), stderr(&again)), (table, String::new()));
    let score = ["score", name(folder.path()), "--results", name(&results)];
    assert_eq!(text(&score), stdout(&again), "one table");
    fails(&["all", "nosuch"], 2, "cannot read nosuch", "frostline-repro list");
}

#[test]
fn those_that_come_with_the_program_are_scored_without_a_run() {
    let shown = text(&["score"]);
    assert!(shown.contains("headline") && shown.contains("memtis-fig5"), "{shown}");
}

const MATRIX: &str = r#"
rivals = "memtis,first-touch,all-slow"
[lengths]
short = "pages=4K:accesses=100K"
[forms.small]
choice-seeds = 1
compare-seeds = 1
[[forms.small.blocks]]
lengths = ["short"]
machines = ["dram-nvm"]
fast = ["1:2", "2MiB"]
[families.seen]
set = "development"
programs = ["zipf"]
recorded = ["redis"]
[families.unseen]
set = "held-out"
programs = ["uniform"]
"#;

/// A folder with a small matrix, and its file.
fn small_matrix() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("m.toml");
    std::fs::write(&file, MATRIX).expect("written");
    (folder, file)
}

#[test]
fn a_tournament_goes_on_where_it_was() {
    let (folder, matrix) = small_matrix();
    let results = folder.path().join("r.jsonl");
    let base = ["tournament", name(&matrix), "-o", name(&results), "--form", "small"];
    let play = |more: &[&str]| {
        let assert = repro().args(base).args(more).arg("--json").assert().success();
        let json: Value = serde_json::from_str(&stdout(&assert)).expect("JSON");
        (json, stderr(&assert))
    };
    let (first, told) = play(&["-p", "hemem"]);
    assert!(told.contains("2 cases, 18 simulations") && told.contains("[1/1]"), "{told}");
    assert!(told.contains("missing recorded programs: redis"), "{told}");
    assert_eq!(first["missing"][0], "redis");
    let runs = first["runs"].as_array().expect("cases");
    assert_eq!((runs.len(), &runs[1]["fast_bytes"]), (2, &(2 << 20).into()));
    assert_eq!(first["standings"][0]["cases"], 2);
    let lines = || std::fs::read_to_string(&results).expect("there").lines().count();
    assert_eq!(lines(), 3, "settings and two cases");
    let (again, told) = play(&["-p", "hemem"]);
    assert_eq!((&again["runs"], lines()), (&first["runs"], 3));
    assert!(!told.contains("[1/1]"), "nothing is played twice: {told}");
    let other: Vec<&str> = base.into_iter().chain(["-p", "tpp"]).collect();
    let refused = repro().args(&other).assert().code(1);
    assert!(stderr(&refused).contains("another policy") && stderr(&refused).contains("hint: "));
    // Another policy against the same rivals, which do not play again.
    let more = folder.path().join("more.jsonl");
    let args = ["tournament", name(&matrix), "-o", name(&more), "--form", "small", "--json"];
    let args = [&args[..], &["-p", "tpp", "--choices", name(&results)]].concat();
    let tpp = json(&args);
    assert_eq!(tpp["runs"][0]["rival"], runs[0]["rival"]);
    assert_ne!(tpp["runs"][0]["seconds"], runs[0]["seconds"]);
}

#[test]
fn a_tournament_says_what_it_is_about_to_do() {
    let (_folder, matrix) = small_matrix();
    let base = ["tournament", name(&matrix), "--form", "small", "--dry-run"];
    let plan = text(&base);
    assert!(plan.contains("set development: 1 programs on machines, 2 cases"), "{plan}");
    let as_is = text(&[&base[..], &["--rivals", "as-is"]].concat());
    assert!(as_is.contains("2 cases, 12 simulations (6 each)"), "{as_is}");
    let held_out = text(&[&base[..], &["--set", "held-out"]].concat());
    assert!(held_out.contains("this look is logged in repro/held-out.log"), "{held_out}");
    fails(
        &[&base[..], &["--family", "unseen"]].concat(),
        2,
        "no family 'unseen'",
        "there are seen",
    );
    fails(&["tournament", "--dry-run", "--form", "x"], 2, "no form 'x'", "quick");
    repro().arg("tournament").assert().code(2);
}

#[test]
fn a_look_at_what_is_held_out_is_logged() {
    let (folder, matrix) = small_matrix();
    let (results, log) = (folder.path().join("r.jsonl"), folder.path().join("held-out.log"));
    let args =
        ["tournament", name(&matrix), "-o", name(&results), "--form", "small", "-p", "hemem"];
    let args = [&args[..], &["--set", "all", "--log", name(&log)]].concat();
    fails_after_a_note(&args, "cannot log a look", "--log");
    std::fs::write(&log, "").expect("written");
    let table = text(&args);
    assert!(
        table.contains("Worst cases:") && table.contains("frostline compare synth:"),
        "{table}"
    );
    let logged = std::fs::read_to_string(&log).expect("there");
    assert!(logged.contains("form=small set=all policy=hemem: 2 of 2 cases, regret "), "{logged}");
    let document = folder.path().join("d.md");
    fails_after_a_note(&[&args[..], &["--write", name(&document)]].concat(), "d.md", "");
    let marks =
        "<!-- generated: frostline-repro tournament -->\n<!-- end of what is generated -->\n";
    std::fs::write(&document, marks).expect("written");
    text(&[&args[..], &["--write", name(&document)]].concat());
    let written = std::fs::read_to_string(&document).expect("there");
    assert!(written.contains("| all |  | 4 |"), "{written}");
}

/// As [`fails`], where something was said before.
fn fails_after_a_note(args: &[&str], says: &str, hints: &str) {
    let assert = repro().args(args).assert().code(1);
    let text = stderr(&assert);
    assert!(text.contains("error: ") && text.contains(says) && text.contains(hints), "{text}");
}

#[test]
fn an_adversary_goes_on_and_prints_what_repeats_the_worst() {
    let folder = tempfile::tempdir().expect("folder");
    let results = folder.path().join("a.jsonl");
    let base = ["adversary", "-o", name(&results), "--policy", "hemem", "--json", "-n"];
    let first = json(&[&base[..], &["2"]].concat());
    assert_eq!((&first["summary"]["tried"], &first["summary"]["failed"]), (&2.into(), &0.into()));
    let worst = &first["runs"][0];
    assert!(worst["loss"].is_number(), "{worst}");
    let command = worst["command"].as_str().expect("text");
    assert!(
        command.starts_with("frostline compare synth:")
            && command.contains(" -p hemem,first-touch ")
    );
    let lines = || std::fs::read_to_string(&results).expect("there").lines().count();
    assert_eq!(lines(), 3, "settings and two duels");
    json(&[&base[..], &["3"]].concat());
    assert_eq!(lines(), 4);
    let table = text(&["adversary", "-o", name(&results), "--policy", "hemem", "-n", "3"]);
    assert!(table.contains("hemem against first touch: 3 tried, "), "{table}");
    let args = ["adversary", "-o", name(&results), "--policy", "hemem", "--seed", "2"];
    fails(&args, 1, "another seed", "another file");
}

#[test]
fn programs_that_are_not_there_are_named_and_others_recorded() {
    let folder = tempfile::tempdir().expect("folder");
    let output = folder.path().join("programs");
    let mut command = repro();
    command.env("PATH", folder.path()).env("HOME", folder.path());
    command.env("XDG_CACHE_HOME", folder.path());
    let assert = command.args(["record-programs", "-o", name(&output)]).assert().success();
    let told = stdout(&assert);
    for part in ["redis-gauss ", "missing: apt-get install redis-server", "memcached ", "h2 "] {
        assert!(told.contains(part), "{part} in\n{told}");
    }
    fails(&["record-programs", "-o", name(&output), "colour"], 2, "`colour`", "redis");
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

/// `tail` holds all that it may have to print.
#[test]
fn the_kernel_alone_keeps_a_program_within_a_limit() {
    if !zram() || !delays() || memory_group().is_none() {
        return;
    }
    let _lock = swap_lock();
    let program = "head -c 60M /dev/urandom | tail -c 60M | wc -c";
    let words = ["kernel", "mglru-reclaim", "--fast", "32MiB", "--json", "--", "sh", "-c", program];
    let output = repro().args(words).assert().success().get_output().stdout.clone();
    let text = String::from_utf8(output).expect("text");
    let (count, json) = text.split_once('\n').expect("the program's line");
    assert_eq!(count.trim(), "62914560", "nothing is lost");
    let json: Value = serde_json::from_str(json).expect("JSON");
    let run = &json["runs"][0];
    let bytes = |name: &str| run[name].as_f64().expect("a number");
    assert!(bytes("fast_bytes_most") < 40e6, "{run}");
    assert!(bytes("slow_bytes") > 0.0, "{run}");
    assert_eq!(run["exit"], 0);
}

#[test]
fn what_the_kernel_cannot_do_is_said() {
    if memory_group().is_none() || !zram() {
        return;
    }
    let _lock = swap_lock();
    let absent = ["kernel", "mglru-reclaim", "--fast", "40%", "--", "/no/such/program"];
    fails_after_a_note(&absent, "the program ended with 127", "what it printed may say why");
    let share = ["kernel", "numa-balancing", "--fast", "40%", "--", "true"];
    fails(&share, 2, "cannot be a share", "--fast 2GiB");
}
