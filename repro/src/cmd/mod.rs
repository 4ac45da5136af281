//! One module per subcommand: its arguments, and a `run`.

pub mod adversary;
pub mod advice;
pub mod all;
mod effort;
pub mod goal_live;
pub mod kernel;
pub mod list;
pub mod piece;
pub mod record_programs;
pub mod run;
pub mod score;
mod scoreboard;
pub mod tournament;
pub mod validate;

use crate::args::{Cli, Command};
use frostline_terminal::completions;
use frostline_terminal::errors::usage;
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
        Command::All(args) => all::run(&args)?,
        Command::Piece(args) => piece::run(&args)?,
        Command::Advice(args) => advice::run(&args)?,
        Command::GoalLive(args) => goal_live::run(&args)?,
        Command::Kernel(args) => kernel::run(&args)?,
        Command::Adversary(args) => adversary::run(&args)?,
        Command::Tournament(args) => tournament::run(&args)?,
        Command::RecordPrograms(args) => record_programs::run(&args)?,
        Command::Validate(args) => validate::run(&args)?,
        Command::Completions { man_pages: Some(folder), .. } => {
            return completions::man::<Cli>(&folder);
        }
        Command::Completions { shell: Some(shell), .. } => return completions::print::<Cli>(shell),
        Command::Completions { .. } => return Err(usage("no shell", "name one: bash, zsh, fish")),
    }
    Ok(ExitCode::SUCCESS)
}
