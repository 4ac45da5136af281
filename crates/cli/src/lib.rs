//! `frostline`: one program for tiering, recording, making, simulating and comparing.
//!
//! # What every subcommand keeps to
//!
//! * Data goes to standard output, everything else (progress, notes, errors) to standard error.
//! * An error is printed as `error: what: why`, then `hint: ...` where there is a remedy; see
//!   `errors`.
//! * Exit codes: 0 done; 1 failed; 2 wrong usage; 128 + number after a signal (130 for Ctrl-C).
//!   `run` and `record` behave as `env` and `timeout` do: the program's own code, 125 for an error of ours,
//!   126 where the program cannot be executed, 127 where it is not there.
//! * A reader that goes away (`frostline ... | head`) ends the program silently, with 0.
//! * Files appear under their names when they are complete: `files`.
#![forbid(unsafe_code)]

mod args;
mod cancel;
mod cmd;
mod errors;
mod experiment;
mod files;
mod limit;
mod live;
mod model;
mod output;
mod progress;
mod series;
mod validate;

use std::process::ExitCode;

/// What reads files that others write, and shows what is in them; for tests.
#[doc(hidden)]
pub mod readers {
    pub use crate::cmd::status::text as status;
    pub use crate::experiment::file::Experiment;
    pub use crate::live::config::Config;
    pub use crate::live::journal_trace::from_entries as journal;
    pub use crate::live::metrics::page as metrics;
    pub use crate::live::top::screen;
}

/// Does what the command line says.
pub fn main() -> ExitCode {
    match args::parse() {
        Ok(cli) => {
            progress::set_quiet(cli.global.quiet);
            limit::set(cli.global.max_memory);
            let our_failure = cli.command.failure_code();
            cmd::run(cli.command).unwrap_or_else(|error| errors::report(&error, our_failure))
        }
        Err(code) => code,
    }
}
