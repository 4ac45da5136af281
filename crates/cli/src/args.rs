//! The command line as a whole.

use crate::cmd;
use clap::{Parser, Subcommand};
use frostline_terminal::args::{self, Global};
use frostline_terminal::errors::USAGE;
use std::process::ExitCode;

/// Exit code of `run` and `record` for errors of their own, as with `env` and `timeout`.
pub const RUN_FAILED: u8 = 125;

const EXAMPLES: &str = "\
Examples:
  Record what a program does with memory, then compare policies on it:
    frostline record -o s.flt -- sqlite3 :memory: \"select count(*) from generate_series(1, 1000000)\"
    frostline compare s.flt --policies all --fast 1:2,1:8,1:16 --report s.html
  No program at hand? Generate the accesses:
    frostline compare synth:zipf:pages=256K:accesses=20M --policies memtis,first-touch --fast 1:8
  What can be chosen:
    frostline policies
    frostline machines

Another program repeats figures of papers: frostline-repro.";

/// Runs programs with less fast memory, and says how much they need.
#[derive(Parser)]
#[command(name = "frostline", version, after_help = EXAMPLES, max_term_width = 100)]
#[command(propagate_version = true, subcommand_required = true, arg_required_else_help = true)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Run a program with less fast memory
    #[command(long_about = cmd::run::LONG)]
    Run(cmd::run::Args),
    /// Tier a program that runs already, or all of a cgroup
    #[command(long_about = cmd::attach::LONG)]
    Attach(cmd::attach::Args),
    /// Tier several programs, from a configuration file
    #[command(long_about = cmd::daemon::LONG)]
    Daemon(cmd::daemon::Args),
    /// Show or check the daemon's configuration
    Config(cmd::config::Args),
    /// Ask a program to gather its hot pages
    #[command(long_about = cmd::consolidate::LONG)]
    Consolidate(cmd::consolidate::Args),
    /// Show what is managed here, and how well
    Status(cmd::status::Args),
    /// Watch what is managed here, second by second
    Top(cmd::top::Args),
    /// Say what this system lets us do, and what would help
    #[command(long_about = cmd::doctor::LONG)]
    Doctor(cmd::doctor::Args),
    /// Undo what a frostline that was killed had changed
    #[command(long_about = cmd::clean::LONG)]
    Clean(cmd::clean::Args),
    /// Repeat the decisions of a journal
    #[command(long_about = cmd::replay::LONG)]
    Replay(cmd::replay::Args),
    /// Record the memory accesses of a program
    #[command(long_about = cmd::record::LONG)]
    Record(cmd::record::Args),
    /// Look into traces, check and convert them
    Trace(cmd::trace::Args),
    /// Write a synthetic trace to a file
    Synth(cmd::synth::Args),
    /// Replay a trace under one policy on a modelled machine
    Sim(cmd::sim::Args),
    /// Replay traces under several policies and sizes of fast memory
    Compare(cmd::compare::Args),
    /// Compute what no policy can beat
    Bound(cmd::bound::Args),
    /// Figures of papers are repeated by frostline-repro
    #[command(hide = true)]
    Experiment(cmd::moved::Args),
    /// List what the papers ran, and what stands for it here
    Workloads(cmd::workloads::Args),
    /// List policies and their parameters
    Policies(cmd::policies::Args),
    /// List machine models and their parameters
    Machines(cmd::machines::Args),
    /// Print a completion script for a shell
    Completions(cmd::completions::Args),
}

impl Command {
    /// Exit code for failures of our own.
    pub fn failure_code(&self) -> u8 {
        match self {
            Self::Record(_) | Self::Run(_) => RUN_FAILED,
            _ => 1,
        }
    }
}

/// Reads the command line. Help, version and usage errors are printed here, and come back as the
/// code to exit with.
pub fn parse() -> Result<Cli, ExitCode> {
    args::parse(|| if first_word_runs() { RUN_FAILED } else { USAGE })
}

fn first_word_runs() -> bool {
    std::env::args_os()
        .skip(1)
        .find(|arg| !arg.as_encoded_bytes().starts_with(b"-"))
        .is_some_and(|arg| arg == "record" || arg == "run")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn long_explanations_are_shown() {
        for (name, words) in [("record", "modelled cache"), ("run", "exit code")] {
            let mut all = Cli::command();
            let command = all.find_subcommand_mut(name).expect("it is there");
            let help = command.render_long_help().to_string();
            assert!(help.contains(words), "{help}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
