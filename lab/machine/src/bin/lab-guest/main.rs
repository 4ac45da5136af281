//! Programs of the lab inside its guest.
#![forbid(unsafe_code)]

mod chase;
mod costs;
mod measure;
mod publish;
mod samples;

use anyhow::Context;
use clap::{Parser, Subcommand};
use frostline_linux::Root;
use frostline_linux::lab::LabMemory;
use std::ffi::OsString;
use std::process::ExitCode;

/// Speaks with the lab's machine from inside
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Tell the machine where nodes are and how the kernel names its processes
    Publish,
    /// Have the machine write down its counts, and count and delay no more
    End,
    /// Print number, first address and end of each range of memory
    Nodes,
    /// Measure how long an access takes, by a chain of pointers through memory of each node
    Chase(chase::Options),
    /// Measure what first touches and moves between nodes cost
    Costs(costs::Options),
    /// Have the machine write down its counts under a number
    Mark {
        /// The number
        number: u64,
    },
    /// Run a program; print how many samples of it there were
    Samples {
        /// Loads that miss the last-level cache, for each sample
        #[arg(long)]
        period: u32,
        /// The program and its arguments
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Run a program; print what was spent between its lines `ready` and `done` on standard error
    Measure {
        /// The program and its arguments
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
}

fn main() -> anyhow::Result<ExitCode> {
    let root = Root::system();
    let memory = || {
        LabMemory::find(&root)?.context("this is no guest of the lab\nhint: cargo xtask lab run")
    };
    match Args::parse().command {
        Command::Publish => memory()?.publish(&publish::guest(&root)?),
        Command::End => memory()?.end(),
        Command::Nodes => {
            for range in publish::guest(&root)?.ranges {
                println!("{} {} {}", range.node, range.start, range.end);
            }
        }
        Command::Chase(options) => chase::run(&root, &options)?,
        Command::Costs(options) => costs::run(&root, &options)?,
        Command::Mark { number } => memory()?.mark(number),
        Command::Samples { period, command } => return samples::run(&memory()?, period, &command),
        Command::Measure { command } => return measure::run(&root, &memory()?, &command),
    }
    Ok(ExitCode::SUCCESS)
}
