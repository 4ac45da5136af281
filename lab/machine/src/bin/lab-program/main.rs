//! Small programs for the lab. Each prints `ready` to standard error when its memory is filled,
//! and `done` when its work is, as `frostline-load` does.
#![forbid(unsafe_code)]

mod btree;
mod graph;
mod redis;

use clap::{Parser, Subcommand};

/// Uses memory as databases and graph kernels do
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Look up keys of a B+tree, popular ones more often (YCSB-C)
    Btree(btree::Options),
    /// Search a Kronecker graph breadth first, from random vertices
    Bfs(graph::Options),
    /// Start a redis-server and send it requests for popular keys more often (YCSB-B)
    Redis(redis::Options),
}

fn main() -> anyhow::Result<()> {
    match Args::parse().command {
        Command::Btree(options) => btree::run(&options),
        Command::Bfs(options) => graph::run(&options),
        Command::Redis(options) => redis::run(&options)?,
    }
    Ok(())
}
