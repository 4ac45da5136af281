//! `frostline-load`: uses memory in a known way, and checks that it keeps what was written.
//!
//! Exit codes: 0 done, also after SIGINT or SIGTERM; 1 where memory was not as written, or where
//! something failed; 2 wrong usage; 128 + number after a second signal.
#![forbid(unsafe_code)]

mod area;
mod args;
mod check;
mod churn;
mod content;
mod forks;
mod hot_set;
mod input;
mod pace;
mod reserve;
mod run;
mod shared;
mod summary;
mod truth;
mod worker;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = args::Cli::parse();
    let done = match cli.command {
        Some(args::Command::Check(args)) => check::run(&args).map(|()| ExitCode::SUCCESS),
        None => run::run(&cli.load.resolved()),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
