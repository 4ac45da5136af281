//! Numbers of twenty comparisons, over generators, policies, machines and programs side by side.
//!
//! They are what the simulator says, and change only where it is meant to say something else: then
//! `FROSTLINE_UPDATE=1 cargo test -p frostline --test runs` writes the file anew, and the difference is
//! explained in the commit. Six digits are compared: logarithms differ in the last ones between systems.

use serde_json::Value;
use std::fmt::Write;
use std::process::Command;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/runs.txt");

/// A line for each run: policy, size, seed, slowdown, share of the bound, bytes up and down.
fn numbers(arguments: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_frostline"))
        .arg("compare")
        .args(arguments.split(' '))
        .arg("--json")
        .output()
        .expect("it runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {told}");
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let mut text = String::new();
    for run in value["runs"].as_array().expect("runs") {
        let text_of = |key: &str| run[key].as_str().expect("text").to_owned();
        let number = |key: &str| run[key].as_f64().map_or("-".into(), |n| format!("{n:.6}"));
        let _ = writeln!(
            text,
            "{} {} {} {} {} {} {}",
            text_of("policy"),
            text_of("fast"),
            run["seed"],
            number("slowdown_vs_all_fast"),
            number("share_of_bound"),
            run["promoted_bytes"],
            run["demoted_bytes"],
        );
    }
    text
}

#[test]
fn twenty_comparisons_have_the_numbers_they_had() {
    let expected = std::fs::read_to_string(FILE).expect("it is in the repository");
    let commands: Vec<&str> = expected.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    assert_eq!(commands.len(), 20);
    let mut found = String::new();
    for command in commands {
        let _ = writeln!(found, "$ {command}\n{}", numbers(command));
    }
    let found = format!("{}\n", found.trim_end());
    if std::env::var_os("FROSTLINE_UPDATE").is_some() {
        std::fs::write(FILE, &found).expect("it can be written");
        return;
    }
    for (found, expected) in found.lines().zip(expected.lines()) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.lines().count(), expected.lines().count());
}
