//! `frostline`: one program for tiering, recording, making, simulating and comparing.
//!
//! What every subcommand keeps to stands in `frostline_terminal`. Beside that, `run` and `record` behave
//! as `env` and `timeout` do: the program's own code, 125 for an error of ours, 126 where the program
//! cannot be executed, 127 where it is not there.
#![forbid(unsafe_code)]

mod args;
mod cmd;
mod live;
mod model;
mod series;

use frostline_terminal::{errors, progress};
use std::process::ExitCode;

/// What reads files that others write, and shows what is in them; for tests.
#[doc(hidden)]
pub mod readers {
    pub use crate::cmd::status::text as status;
    pub use crate::live::config::Config;
    pub use crate::live::journal_trace::from_entries as journal;
    pub use crate::live::metrics::page as metrics;
    pub use crate::live::top::screen;
}

/// Does what the command line says.
pub fn main() -> ExitCode {
    let translated = match cmd::old::translate(std::env::args_os().collect()) {
        Ok(translated) => translated,
        Err(error) => return errors::report(&error, errors::USAGE),
    };
    match args::parse(&translated.args) {
        Ok(cli) => {
            let our_failure = cli.command.failure_code();
            cli.global.apply();
            translated.note.iter().for_each(|note| progress::note(note));
            cmd::run(cli.command).unwrap_or_else(|error| errors::report(&error, our_failure))
        }
        Err(code) => code,
    }
}
