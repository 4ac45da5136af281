//! The command line as a whole.

use crate::cmd;
use clap::{Parser, Subcommand};
use frostline_terminal::args::{self, Global};
use frostline_terminal::errors::{ENV_FAILED, USAGE};
use std::ffi::OsString;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  Record what a program does with memory, then compare policies on it:
    frostline record -o s.flt -- sqlite3 :memory: \"select count(*) from generate_series(1, 1000000)\"
    frostline compare s.flt --policies all --fast 1:2,1:8,1:16 --report s.html
  No program at hand? Generate the accesses:
    frostline compare synth:zipf:pages=256K:accesses=20M --policies memtis,first-touch --fast 1:8
  What can be chosen:
    frostline list policies
    frostline list machines

Another program, of the Python package, makes every replay of a grid, on a cluster, too: frostline-sweep.
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
    /// Ask a program to gather its hot pages
    #[command(long_about = cmd::consolidate::LONG)]
    Consolidate(cmd::consolidate::Args),
    /// Show or watch what is managed here, and how well
    Status(cmd::status::Args),
    /// Show what is managed here in a browser
    #[command(long_about = cmd::serve::LONG)]
    Serve(cmd::serve::Args),
    /// Say what this system lets us do, or undo what is left behind
    #[command(long_about = cmd::doctor::LONG)]
    Doctor(cmd::doctor::Args),
    /// Repeat the decisions of a journal
    Journal(cmd::journal::Args),
    /// Record the memory accesses of a program
    #[command(long_about = cmd::record::LONG)]
    Record(cmd::record::Args),
    /// Look into traces, make, check and convert them
    Trace(cmd::trace::Args),
    /// Replay traces under policies and sizes of fast memory
    Compare(cmd::compare::Args),
    /// Say how much fast memory a program needs
    Advise(cmd::advise::Args),
    /// Compute what no policy can beat
    Bound(cmd::bound::Args),
    /// List policies, machines, generators, workloads
    List(cmd::list::Args),
    /// Make every replay of a grid once, here or on a cluster
    #[command(hide = true)]
    Sweep(cmd::sweep::Args),
    /// Print completions for a shell, or write man pages
    Completions(cmd::completions::Args),
}

impl Command {
    /// Exit code for failures of our own.
    pub fn failure_code(&self) -> u8 {
        match self {
            Self::Record(_) | Self::Run(_) => ENV_FAILED,
            _ => 1,
        }
    }
}

/// Reads a command line. Help, version and usage errors are printed here, and come back as the
/// code to exit with.
pub fn parse(args: &[OsString]) -> Result<Cli, ExitCode> {
    args::parse(args, || if first_word_runs(args) { ENV_FAILED } else { USAGE })
}

fn first_word_runs(args: &[OsString]) -> bool {
    args.iter()
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
