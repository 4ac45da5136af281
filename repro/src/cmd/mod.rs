//! One module per subcommand: its arguments, and a `run`.

pub mod list;
pub mod run;
pub mod score;
pub mod validate;

use crate::args::{Cli, Command};
use crate::experiment::Effort;
use frostline_terminal::completions;
use std::num::NonZeroUsize;
use std::path::Path;
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

/// How much work an experiment is given.
#[derive(clap::Args)]
pub struct EffortArgs {
    /// Smaller workloads and fewer seeds
    #[arg(long)]
    quick: bool,
    /// How many seeds [default: as the file says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: Option<u64>,
    /// Runs at the same time [default: one per core]
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

impl EffortArgs {
    /// In the experiment's terms.
    fn effort(&self, charts: bool) -> Effort {
        let jobs = self.jobs.map(NonZeroUsize::get);
        Effort { quick: self.quick, seeds: self.seeds, jobs, charts }
    }
}

/// What an experiment goes by: its file's name, without the end.
fn name(file: &Path) -> String {
    file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}
