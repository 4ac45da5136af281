//! Alerts and the dashboard: they ask for numbers that there are, and promtool takes them.

use frostline_testing::{Requirement, skip};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const METRICS: &str = include_str!("../../../docs/reference/metrics.md");

fn configs(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs").join(path)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(configs(path)).expect("a file")
}

/// Names of metrics in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let is_part = |c: char| c.is_ascii_lowercase() || c == '_';
    let words = text.split(|c: char| !is_part(c));
    words.filter(|word| word.starts_with("frostline_")).collect()
}

fn check(asked: &str) {
    let known = names(METRICS);
    let asked = names(asked);
    assert!(asked.len() >= 5, "{asked:?}");
    let unknown: Vec<_> = asked.difference(&known).collect();
    assert!(unknown.is_empty(), "there is no {unknown:?}");
}

#[test]
fn alerts_ask_for_numbers_that_there_are() {
    check(&read("prometheus/frostline.rules.yml"));
}

#[test]
fn the_dashboard_asks_for_numbers_that_there_are() {
    let text = read("grafana/frostline.json");
    check(&text);
    let board: Value = serde_json::from_str(&text).expect("JSON");
    let panels = board["panels"].as_array().expect("panels");
    let ids: BTreeSet<u64> = panels.iter().filter_map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len(), "each has a number of its own");
    let mut places = BTreeSet::new();
    for panel in panels {
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{panel}");
        assert!(panel["title"].as_str().is_some_and(|title| !title.is_empty()));
        let place = &panel["gridPos"];
        let (x, y) = (place["x"].as_u64().expect("a place"), place["y"].as_u64().expect("a place"));
        assert!(places.insert((x, y)), "two panels at {x}, {y}");
        assert!(x + place["w"].as_u64().expect("a width") <= 24);
        for target in panel["targets"].as_array().expect("questions") {
            let question = target["expr"].as_str().expect("a question");
            for pair in ["()", "{}", "[]"] {
                let [open, close] = [0, 1].map(|index| pair.as_bytes()[index] as char);
                assert_eq!(
                    question.matches(open).count(),
                    question.matches(close).count(),
                    "{question}"
                );
            }
        }
    }
}

#[test]
fn promtool_takes_the_alerts_and_they_fire() {
    let promtool = |words: &[&str]| {
        Command::new("promtool").args(words).current_dir(configs("prometheus")).output()
    };
    let Ok(checked) = promtool(&["check", "rules", "frostline.rules.yml"]) else {
        skip(Requirement::Promtool, "no promtool");
        return;
    };
    let said = |output: &std::process::Output| {
        let all = [output.stdout.clone(), output.stderr.clone()].concat();
        String::from_utf8_lossy(&all).into_owned()
    };
    assert!(checked.status.success(), "{}", said(&checked));
    assert!(said(&checked).contains("6 rules found"), "{}", said(&checked));
    let tested = promtool(&["test", "rules", "frostline.rules.test.yml"]).expect("it is there");
    assert!(tested.status.success(), "{}", said(&tested));
}
