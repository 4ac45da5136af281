//! `frostline-repro`: figures of papers repeated, policies judged, and generators held against real programs.
//!
//! It behaves on a terminal as `frostline` does: see `frostline_terminal`.
#![forbid(unsafe_code)]

mod adversary;
mod args;
mod cluster;
mod cmd;
mod control_group;
mod experiment;
mod goal_live;
mod kernel;
mod lines;
mod names;
mod parallel;
mod tournament;
mod validate;

use anyhow::Context;
use args::Cli;
use frostline_terminal::args::parse;
use frostline_terminal::errors;
use frostline_terminal::errors::USAGE;
use std::process::ExitCode;

/// What reads files that others write; for tests.
#[doc(hidden)]
pub mod readers {
    pub use crate::experiment::file::Experiment;
}

/// Digest of this program, by which results of another build are told.
fn build() -> anyhow::Result<String> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let digest = frostline_terminal::digest::sha256(&program)?.unwrap_or_default();
    Ok(digest.chars().take(16).collect())
}

/// Does what the command line says.
pub fn main() -> ExitCode {
    match parse(&std::env::args_os().collect::<Vec<_>>(), || USAGE) {
        Ok(Cli { global, command }) => {
            global.apply();
            cmd::run(command).unwrap_or_else(|error| errors::report(&error, 1))
        }
        Err(code) => code,
    }
}
