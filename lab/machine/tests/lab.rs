//! Tests of the lab's machine. One boot serves several tests; two show that runs are identical.

use frostline_guest::{Guest, LabOptions, Outcome, Report, program};
use frostline_lab::truth::Truth;
use frostline_testing::{Requirement, skip};
use std::sync::OnceLock;

/// Loads of the chain in each node.
const ACCESSES: u64 = 100_000;

fn script() -> String {
    format!(
        "lab-guest publish || exit 1\n\
         section nodes lab-guest nodes\n\
         lab-guest mark 1\n\
         section chase lab-guest chase --mib 16 --accesses {ACCESSES}\n\
         lab-guest mark 2\n\
         section samples lab-guest samples --period 100 -- lab-guest chase --mib 16 --accesses {ACCESSES}\n\
         cat /proc/uptime\n\
         lab-guest end\n"
    )
}

fn boot() -> Result<Report, String> {
    let guest = Guest::default()
        .memory_mib(192, 192)
        .timeout_s(600)
        .lab(LabOptions::default())
        .file(program("lab-guest")?);
    match guest.run(&script()) {
        Outcome::Ran(report) => Ok(report),
        Outcome::Impossible(reason) => Err(reason),
        Outcome::Failed(reason) => panic!("{reason}"),
    }
}

fn first() -> Option<&'static Report> {
    static REPORT: OnceLock<Result<Report, String>> = OnceLock::new();
    match REPORT.get_or_init(boot) {
        Ok(report) => Some(report),
        Err(reason) => {
            skip(Requirement::Lab, reason);
            None
        }
    }
}

/// Some of the chain is in the cache when it begins; what a program does besides comes on top.
fn about(n: u64, wanted: u64) -> bool {
    (wanted * 98 / 100..wanted * 6 / 5).contains(&n)
}

fn chase(report: &Report, section: &str) -> Vec<(f64, f64)> {
    let text = report.passed(section).unwrap_or_else(|why| panic!("{why}"));
    let lines = text.lines().filter(|line| line.starts_with("node "));
    let measured = lines.map(|line| {
        let mut numbers = line.split(' ').filter_map(|word| word.parse().ok());
        numbers.next().zip(numbers.next()).unwrap_or_else(|| panic!("{line}"))
    });
    measured.collect()
}

#[test]
fn programs_see_the_latencies_that_were_asked_for() {
    let Some(report) = first() else { return };
    let measured = chase(report, "chase");
    assert_eq!(measured.len(), 2);
    for ((with, without), asked) in measured.into_iter().zip([100.0, 300.0]) {
        let off = (with - without) / asked - 1.0;
        assert!(off.abs() < 0.02, "{asked} ns asked, {} seen", with - without);
    }
}

#[test]
fn accesses_are_counted_by_process_and_node() {
    let Some(report) = first() else { return };
    let truth = Truth::parse(&report.truth()).expect("well-formed");
    let chased = truth.at_mark("lab-guest", 2) - truth.at_mark("lab-guest", 1);
    for node in 0..2 {
        assert!(about(chased.loads[node], ACCESSES), "{chased:?}");
    }
}

#[test]
fn samples_are_one_in_so_many_and_name_process_and_node() {
    let Some(report) = first() else { return };
    let text = report.passed("samples").unwrap_or_else(|why| panic!("{why}"));
    let line = text.lines().find_map(|line| line.strip_prefix("samples ")).expect(text);
    let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [node0, node1, others, lost] = numbers[..] else { panic!("{line}") };
    for sampled in [node0, node1] {
        assert!(about(sampled, ACCESSES / 100), "{line}");
    }
    assert_eq!(lost, 0);
    assert!(others > 0, "others than the program are sampled, too: {line}");
}

#[test]
fn equal_runs_are_identical() {
    let Some(one) = first() else { return };
    let other = boot().expect("it was possible once");
    assert_eq!(one.stdout, other.stdout);
    assert_eq!(one.truth(), other.truth());
    assert_eq!(one.console, other.console);
    assert!(one.truth().lines().count() > 5 && one.stdout.contains("node 1"));
}
