//! `frostline list`: what can be chosen.

mod generators;
mod machines;
mod param;
mod policies;
mod workloads;

use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frostline list policies
  frostline list policies memtis             # one, with its parameters
  frostline list machines dram-cxl > box.toml
  frostline list generators zipf")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Policies and their parameters
    Policies(policies::Args),
    /// Machine models and their parameters
    Machines(machines::Args),
    /// Generators of synthetic traces and their parameters
    Generators(generators::Args),
    /// What the papers ran, and what stands for it here
    Workloads(workloads::Args),
}

/// Runs the command.
///
/// # Errors
/// A name that is not known.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Policies(args) => policies::run(&args)?,
        Command::Machines(args) => machines::run(args)?,
        Command::Generators(args) => generators::run(&args)?,
        Command::Workloads(args) => workloads::run(&args)?,
    }
    Ok(ExitCode::SUCCESS)
}
