//! Jobs of tests in the guest: how they are run, and what is read of them.

use frostline_guest::{Guest, Outcome, Report, program};
use frostline_testing::{Requirement, skip};

/// Runs a script with `frostline` and `frostline-load` at hand.
#[allow(dead_code, reason = "not every test needs it")]
pub fn run_with_frostline(mut guest: Guest, script: &str) -> Outcome {
    for name in ["frostline", "frostline-load"] {
        match program(name) {
            Ok(path) => guest = guest.file(path),
            Err(error) => return Outcome::Failed(error),
        }
    }
    guest.run(script)
}

/// The report of a boot; `None`, with the reason printed, where this machine cannot run a guest.
pub fn ran(outcome: &Outcome) -> Option<&Report> {
    match outcome {
        Outcome::Ran(report) => Some(report),
        Outcome::Impossible(reason) => {
            skip(Requirement::Guest, reason);
            None
        }
        Outcome::Failed(reason) => panic!("{reason}"),
    }
}

/// What a section has printed, which must have passed.
pub fn passed<'a>(report: &'a Report, section: &str) -> &'a str {
    report.passed(section).unwrap_or_else(|problem| panic!("{problem}"))
}
