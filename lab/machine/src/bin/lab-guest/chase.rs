//! A chain of pointers through memory: every access waits for the one before.

use anyhow::Context;
use frostline_linux::latency::Chain;
use frostline_linux::{Root, Target};

#[derive(clap::Args)]
pub struct Options {
    /// Memory in each node, in MiB
    #[arg(long, default_value_t = 32)]
    mib: usize,
    /// Accesses in each node
    #[arg(long, default_value_t = 200_000)]
    accesses: u32,
}

/// Prints a line for each node: its number, ns of an access, and of one that hits a cache.
pub fn run(root: &Root, options: &Options) -> anyhow::Result<()> {
    let nodes = root.read("/sys/devices/system/node/has_memory")?;
    let cached = Chain::new(4096)?;
    let target = Target::open(root, std::process::id())?;
    for node in frostline_linux::topology::parse_list(&nodes).context("list of nodes")? {
        let chain = Chain::new((options.mib as u64) << 20)?;
        chain.go_to(&target, node)?;
        let slow = chain.follow(options.accesses);
        let without = cached.follow(options.accesses);
        println!("node {node}: {slow:.1} ns an access, {without:.1} when cached");
    }
    Ok(())
}
