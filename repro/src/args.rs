//! The command line as a whole.

use crate::cmd;
use clap::{Parser, Subcommand};
use clap_complete::Shell;
use frostline_terminal::args::Global;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  frostline-repro list
  frostline-repro run experiments/memtis-fig11.toml --quick
  frostline-repro score experiments/memtis-fig2.toml experiments/memtis-fig11.toml --quick
  frostline-repro all --dry-run
  frostline-repro validate gauss-kv etc --report v.html
  frostline-repro tournament -o t.jsonl --form quick
  frostline-repro adversary -o a.jsonl --cases 2000

The files of the papers' figures are in experiments/ of Frostline's repository.";

/// Repeats figures of papers, judges policies, and holds generators against real programs.
#[derive(Parser)]
#[command(name = "frostline-repro", version, after_help = EXAMPLES, max_term_width = 100)]
#[command(propagate_version = true, subcommand_required = true, arg_required_else_help = true)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// List the experiments of a folder
    List(cmd::list::Args),
    /// Run an experiment and print the paper's numbers beside ours
    Run(cmd::run::Args),
    /// Run experiments and count the published numbers that come out
    Score(cmd::score::Args),
    /// Run every experiment in a night, and print the score
    All(cmd::all::Args),
    /// Record real programs and say how far the generators that stand for them are from them
    Validate(cmd::validate::Args),
    /// Record the real programs that a tournament takes
    RecordPrograms(cmd::record_programs::Args),
    /// Let a policy play against published ones, and print how far it is from the best of each case
    Tournament(cmd::tournament::Args),
    /// Hold what is advised against every size
    Advice(cmd::advice::Args),
    /// Measure how much slower real programs become under a goal, and what is saved for it
    GoalLive(cmd::goal_live::Args),
    /// Run a program under the kernel's own tiering, within the limit that frostline would have
    Kernel(cmd::kernel::Args),
    /// Search for what harms a policy, by random duels with first touch
    Adversary(cmd::adversary::Args),
    /// Make a piece of an experiment, which comes from standard input
    #[command(hide = true)]
    Piece(cmd::piece::Args),
    /// Print completions for a shell, or write man pages
    Completions {
        /// Shell to complete for
        #[arg(required_unless_present = "man_pages")]
        shell: Option<Shell>,
        /// Write man pages into this folder instead
        #[arg(long, value_name = "FOLDER", conflicts_with = "shell")]
        man_pages: Option<PathBuf>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
