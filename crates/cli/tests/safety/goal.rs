//! Programs that are told how much they may lose, and not how much memory may be fast.

use crate::load::{Load, load_program, run_load_until};
use crate::support::{EAGER, Run, Running, attach, frostline, status_of, text, wait_until};
use crate::system::{System, number};
use frostline_testing::delays;
use rustix::process::Signal;
use serde_json::Value;
use std::fs;

const SETTING: &str = "/proc/sys/kernel/task_delayacct";
/// Cold memory that is read now and then.
const LOAD: &str = "--size 96MiB --hot 20% --cold-rate 20/s --checksums";

/// Part of the memory that was not fast in the end.
fn saved(run: &Run) -> f64 {
    let fast = &run.summary["tiers"][0];
    1.0 - number(fast, "used_bytes") as f64 / number(&run.summary, "footprint_bytes") as f64
}

fn share(loss: &Value, what: &str) -> f64 {
    loss[what].as_f64().expect("a share")
}

#[test]
fn a_program_gives_up_what_it_does_not_miss() {
    let Some(system) = System::take() else { return };
    let setting = fs::read_to_string(SETTING).ok();
    let options = format!("--slow zram:size=256MiB --max-slowdown 5% {EAGER}");
    let load = format!("{LOAD} --fork-rate 2/s");
    let (run, _) = run_load_until(&options, &load, 20, |run, _| saved(run) > 0.2);
    let loss = &run.summary["loss"];
    assert_eq!(share(loss, "goal"), 0.05, "{loss}");
    let whole = &loss["whole"];
    let interval = share(whole, "low")..=share(whole, "high");
    assert!(interval.contains(&share(whole, "share")), "{loss}");
    let parts = whole["parts"].as_object().expect("parts").values();
    let sum: f64 = parts.map(|part| part.as_f64().expect("a share")).sum();
    assert!((sum - share(whole, "share")).abs() < 1e-9, "{loss}");
    assert!(share(&whole["parts"], "swap_ins") > 0.0, "{loss}");
    assert!(saved(&run) > 0.2, "{:#}", run.summary);
    assert!(text(&run.output.stderr).contains("of at most 5.0 %"), "{}", text(&run.output.stderr));
    if delays() {
        assert_eq!(loss["is_estimate"], false, "{loss}");
        assert_eq!(fs::read_to_string(SETTING).ok(), setting, "as it was before");
    }
    system.finish();
}

/// The kernel times no refaults of threads that began before it was told to.
#[test]
fn what_is_lost_is_seen_of_a_program_that_was_there_before() {
    let Some(system) = System::take() else { return };
    let timed = fs::read_to_string(SETTING).is_ok_and(|setting| setting.trim() != "0");
    let load = Load::start(LOAD);
    let options = format!("--slow zram:size=256MiB --max-slowdown 5% {EAGER}");
    let mut driver = Running::start(&mut attach(load.pid(), &options));
    wait_until("refaults are counted as a loss", || {
        let Some(status) = status_of(driver.pid()) else { return false };
        let loss = &status["loss"];
        let lost = loss["whole"]["parts"]["swap_ins"].as_f64().unwrap_or(0.0);
        let refaults = number(&status["accounts"], "refaults");
        refaults > 100 && lost > 1e-5 && (timed || loss["is_estimate"] == true)
    });
    driver.signal(Signal::INT);
    assert_eq!(driver.end().code(), Some(0));
    load.end();
    system.finish();
}

#[test]
fn who_names_no_size_has_a_goal() {
    let Some(system) = System::take() else { return };
    let load = "--size 32MiB --hot 50%";
    let (run, _) =
        run_load_until("--slow zram:size=64MiB", load, 12, |run, _| !run.summary["loss"].is_null());
    assert_eq!(share(&run.summary["loss"], "goal"), 0.01, "{:#}", run.summary);
    system.finish();
}

/// As many bytes as were asked for, as the program grows, and no more.
#[test]
fn what_shall_be_saved_leaves_fast_memory() {
    const SAVED: u64 = 32 << 20;
    let Some(system) = System::take() else { return };
    let options = format!("--slow zram:size=256MiB --save 32MiB {EAGER}");
    let slow = |run: &Run| {
        let fast = number(&run.summary["tiers"][0], "used_bytes");
        number(&run.summary, "footprint_bytes") - fast
    };
    let close = |run: &Run| slow(run).abs_diff(SAVED) < SAVED / 8;
    let (run, _) = run_load_until(&options, LOAD, 45, |run, _| close(run));
    let saving = &run.summary["saving"];
    assert_eq!(number(saving, "asked_bytes"), SAVED, "{:#}", run.summary);
    assert_eq!(number(saving, "slow_bytes"), slow(&run), "{:#}", run.summary);
    assert!(close(&run), "{:#}", run.summary);
    let told = text(&run.output.stderr);
    assert!(
        told.contains("out of fast memory: ") && told.contains("of 32.0 MiB asked for"),
        "{told}"
    );
    system.finish();
}

#[test]
fn a_slowdown_that_nobody_can_measure_is_refused() {
    let program = load_program();
    let run = |options: &[&str]| {
        let mut command = frostline();
        command.arg("run").args(options).arg("--").arg(program);
        command.args(["--size", "4MiB", "--seconds", "1"]).output().expect("it runs")
    };
    let refused = text(&run(&["--slow", "none", "--max-slowdown", "2%"]).stderr);
    assert!(
        refused.contains("nothing is moved") && refused.contains("hint: give --fast"),
        "{refused}"
    );
    for bad in ["0%", "-1%", "2", "200%"] {
        let output = run(&["--slow", "none", &format!("--max-slowdown={bad}")]);
        let told = text(&output.stderr);
        assert!(told.contains("--max-slowdown") && told.contains("hint: "), "{bad}: {told}");
        assert_eq!(output.status.code(), Some(125), "{bad}: {told}");
    }
}
