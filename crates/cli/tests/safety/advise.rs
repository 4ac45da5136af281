//! Advice on programs that run.

use crate::load::Load;
use crate::support::{frostline, only_run, text};
use crate::system::{System, number};
use frostline_linux::Root;
use frostline_linux::accesses::page_tables::PageTables;
use frostline_testing::{Requirement, skip};
use serde_json::Value;

/// Cold accesses in a second, and the share of the pages that they go to.
const COLD_RATE: f64 = 4000.0;
const COLD: f64 = 0.8;
/// Pages that are all touched by them.
const LOAD: &str = "--size 128MiB --hot 20% --cold-rate 4000/s --checksums";

fn answer(run: &Value, index: usize) -> f64 {
    run["answers"][index]["fast_share"].as_f64().unwrap_or_else(|| panic!("{run:#}"))
}

#[test]
fn probes_find_how_cold_memory_is() {
    finds_how_cold_memory_is("probes", "refaults");
}

#[test]
fn sweeps_find_how_cold_memory_is() {
    match PageTables::open(&Root::system()) {
        Ok(_) => finds_how_cold_memory_is("page-tables", "touches"),
        Err(error) => skip(Requirement::PageTables, error),
    }
}

fn finds_how_cold_memory_is(samples: &str, seen: &str) {
    let Some(system) = System::take() else { return };
    let load = Load::start(LOAD);
    let pid = load.pid().to_string();
    let advise = |goals: &str, time: &str| {
        let mut command = frostline();
        command.args(["advise", &pid, "--json", "--samples", samples]);
        command.args(["--max-slowdown", goals, "--for", time]);
        let output = command.output().expect("it runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        only_run(&output.stdout)
    };
    // What it costs to have all cold pages out depends on how busy this machine is: first that, then goals by it.
    let all_cold = |run: &Value| {
        let measured = &run["measured"];
        COLD_RATE * measured["refault_seconds"].as_f64().expect("a number")
            / measured["cores"].as_f64().expect("a number")
    };
    let first = all_cold(&advise("2%", "15s"));
    let goals = format!("{:.4}%,{:.4}%", 25.0 * first, 50.0 * first);
    let run = advise(&goals, "40s");
    let measured = &run["measured"];
    assert_eq!(measured["by"], samples);
    if samples == "page-tables" {
        assert_eq!(measured["is_presumed"], false, "copies were paged out: {measured:#}");
    }
    assert!(number(measured, seen) > 200, "looked at, and seen: {measured:#}");
    assert!(
        measured["cost"].as_f64().expect("a number") < 0.1 * 0.5 * first + 0.002,
        "{measured:#}"
    );
    let all_cold = all_cold(&run);
    for (index, part) in [0.25, 0.5].into_iter().enumerate() {
        let right = 1.0 - COLD * part * first / all_cold;
        let advised = answer(&run, index);
        assert!((advised / right - 1.0).abs() < 0.15, "{advised}, not {right}: {run:#}");
    }
    assert!(answer(&run, 0) > answer(&run, 1), "{run:#}");
    load.end();
    system.finish();
}

#[test]
fn what_probes_cannot_tell_is_refused() {
    let Some(system) = System::take() else { return };
    let refused = |args: &[&str], part: &str| {
        let output = frostline().arg("advise").args(args).output().expect("it runs");
        let told = text(&output.stderr);
        assert!(!output.status.success() && told.contains(part), "{args:?}: {told}");
        assert!(told.contains("hint: "), "{told}");
    };
    let own = std::process::id().to_string();
    refused(&[&own, "--machine", "dram-cxl"], "nothing can be said about dram-cxl");
    refused(&[&own, "--policies", "frost"], "about traces");
    refused(&["4194304"], "4194304");
    refused(&["1", "--for", "1s"], "");
    // Huge folios would be split.
    let load = Load::start("--size 64MiB --huge");
    refused(&[&load.pid().to_string(), "--samples", "probes", "--for", "1s"], "in huge folios");
    load.end();
    // A program that does nothing loses nothing.
    let mut idle = std::process::Command::new("sleep").arg("60").spawn().expect("it starts");
    let idle_pid = idle.id().to_string();
    for (samples, time) in [("auto", "10s"), ("probes", "1s")] {
        let args = ["--pid", &idle_pid, "--samples", samples, "--for", time];
        refused(&args, "nothing is slowed down");
    }
    idle.kill().and_then(|()| idle.wait()).expect("ours");
    system.finish();
}
