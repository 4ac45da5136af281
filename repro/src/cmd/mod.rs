//! One module per subcommand: its arguments, and a `run`.

mod effort;
pub mod list;
pub mod run;
pub mod score;
pub mod validate;

use crate::args::{Cli, Command};
use frostline_terminal::completions;
use std::process::ExitCode;

/// Runs the command.
///
/// # Errors
/// Whatever went wrong; printed by [`frostline_terminal::errors::report`].
pub fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::List(args) => list::run(&args)?,
        Command::Run(args) => run::run(&args)?,
        Command::Score(args) => score::run(&args)?,
        Command::Validate(args) => validate::run(&args)?,
        Command::Completions { shell } => return completions::print::<Cli>(shell),
    }
    Ok(ExitCode::SUCCESS)
}
