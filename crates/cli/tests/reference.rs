//! Pages of the reference that repeat what the program says of itself. With `FROSTLINE_WRITE=1` they are
//! written anew; else they have to be what they were.

use assert_cmd::Command;
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;

const WRITE: &str = "FROSTLINE_WRITE";

fn said(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_frostline")).args(args).output().expect("runs");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn listed(what: &str) -> Vec<Value> {
    let json: Value = serde_json::from_str(&said(&["list", what, "--json"])).expect("JSON");
    json["runs"].as_array().expect("a list").clone()
}

/// Compares a page with the file, or writes it.
fn is_written(name: &str, page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    if std::env::var_os(WRITE).is_some() {
        return std::fs::write(&path, page).expect("written");
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = there.lines().zip(page.lines()).find(|(there, said)| there != said);
    assert!(
        there == page,
        "{name} is not what the program says, {differs:?}\n\
         hint: {WRITE}=1 cargo test -p frostline --test reference"
    );
}

fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// Rows of a table, a parameter each.
fn parameters(page: &mut String, of: &Value) {
    let Some(params) = of["params"].as_array().filter(|params| !params.is_empty()) else {
        page.push_str("No parameters.\n");
        return;
    };
    page.push_str("| parameter | default | what it is |\n| --- | --- | --- |\n");
    for param in params {
        let text = |key: &str| escaped(param[key].as_str().unwrap_or_default());
        let scaled = if param["scaled"] == true { " S" } else { "" };
        let unit = match text("unit") {
            unit if unit.is_empty() => String::new(),
            unit => format!(" ({unit})"),
        };
        let default = match text("default") {
            default if default.is_empty() => String::new(),
            default => format!("`{default}`"),
        };
        let _ =
            writeln!(page, "| `{}` | {default}{scaled} | {}{unit} |", text("name"), text("about"));
    }
}

#[test]
fn parameters_are_those_of_the_program() {
    let mut page = String::from(
        "# Parameters\n\nEvery parameter of every policy and generator, as `frostline list policies` and\n\
         `frostline list generators` print them. S marks a default that is divided by the scale of a run.\n\
         [Policies](policies.md) and [workloads](workloads.md) have the reasons.\n",
    );
    for (what, heading) in [("policies", "Policies"), ("generators", "Generators")] {
        let all = listed(what);
        assert!(all.len() > 20, "{what}");
        let _ = write!(page, "\n## {heading}\n");
        for one in all {
            let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
            let about = text(if what == "policies" { "summary" } else { "about" });
            let source = text(if what == "policies" { "citation" } else { "source" });
            assert!(!about.is_empty(), "{one}");
            let source = match source.is_empty() {
                true => source,
                false => format!(" Source: {source}."),
            };
            let _ = write!(page, "\n### {}\n\n{about}.{source}\n\n", text("name"));
            parameters(&mut page, &one);
        }
    }
    is_written("parameters.md", &page);
}

#[test]
fn options_are_those_of_the_program() {
    let mut page = String::from(
        "# Options\n\nThe help of every command, as `frostline COMMAND --help` prints it.\n\
         [Commands](commands.md) says what they are for.\n",
    );
    let commands: &[&[&str]] = &[
        &["run"],
        &["attach"],
        &["daemon"],
        &["daemon", "config"],
        &["consolidate"],
        &["status"],
        &["serve"],
        &["doctor"],
        &["journal", "verify"],
        &["record"],
        &["trace", "info"],
        &["trace", "profile"],
        &["trace", "heatmap"],
        &["trace", "synth"],
        &["trace", "verify"],
        &["trace", "export"],
        &["trace", "import"],
        &["compare"],
        &["advise"],
        &["bound"],
        &["list"],
        &["completions"],
    ];
    let known = said(&["--help"]);
    for command in commands {
        assert!(known.contains(&format!("\n  {} ", command[0])), "{command:?}");
        let name = command.join(" ");
        let help = said(&[command, &["--help"][..]].concat());
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        let _ = write!(page, "\n## {name}\n\n```text\n{}\n```\n", lines.join("\n").trim_end());
    }
    is_written("options.md", &page);
}
