//! One module per subcommand: its arguments, and a `run` that ends with an exit code.

pub mod advise;
pub mod attach;
pub mod bound;
pub mod compare;
pub mod completions;
mod config;
pub mod consolidate;
pub mod daemon;
pub mod doctor;
mod heatmap;
pub mod journal;
pub mod list;
pub mod old;
mod opened;
mod profile;
pub mod record;
pub mod run;
pub mod serve;
pub mod status;
pub mod sweep;
mod synth;
pub mod trace;
mod undo;
mod watch;

use crate::args::Command;
use std::process::ExitCode;

/// Runs the command.
///
/// # Errors
/// Whatever went wrong; printed by [`frostline_terminal::errors::report`].
pub fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run(args) => run::run(args),
        Command::Attach(args) => attach::run(args),
        Command::Daemon(args) => daemon::run(&args),
        Command::Consolidate(args) => consolidate::run(args),
        Command::Status(args) => status::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Journal(args) => journal::run(&args),
        Command::Record(args) => record::run(args),
        Command::Trace(args) => trace::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Advise(args) => advise::run(args),
        Command::Bound(args) => bound::run(args),
        Command::List(args) => list::run(args),
        Command::Sweep(args) => sweep::run(args),
        Command::Completions(args) => completions::run(&args),
    }
}
