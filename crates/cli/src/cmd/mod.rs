//! One module per subcommand: its arguments, and a `run` that ends with an exit code.

pub mod attach;
pub mod bound;
pub mod clean;
pub mod compare;
pub mod completions;
pub mod config;
pub mod consolidate;
pub mod daemon;
pub mod doctor;
pub mod machines;
pub mod moved;
pub mod policies;
pub mod profile;
pub mod record;
pub mod replay;
pub mod run;
pub mod sim;
pub mod status;
pub mod synth;
pub mod top;
pub mod trace;
pub mod workloads;

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
        Command::Daemon(args) => daemon::run(args),
        Command::Config(args) => config::run(args),
        Command::Consolidate(args) => consolidate::run(args),
        Command::Status(args) => status::run(args),
        Command::Top(args) => top::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Clean(args) => clean::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Record(args) => record::run(args),
        Command::Trace(args) => trace::run(args),
        Command::Synth(args) => synth::run(args),
        Command::Sim(args) => sim::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Bound(args) => bound::run(args),
        Command::Experiment(args) => moved::run(&args),
        Command::Workloads(args) => workloads::run(args),
        Command::Policies(args) => policies::run(args),
        Command::Machines(args) => machines::run(args),
        Command::Completions(args) => completions::run(args),
    }
}
