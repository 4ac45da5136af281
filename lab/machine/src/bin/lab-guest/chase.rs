//! A chain of pointers through memory: every access waits for the one before.

use anyhow::{Context, ensure};
use frostline_core::event::MoveOutcome;
use frostline_core::types::{PAGE_BYTES, Vpn};
use frostline_linux::moves::migrate::move_to_node;
use frostline_linux::{Root, Target};
use memmap2::MmapMut;
use std::time::Instant;

const LINE: usize = 64;

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
    let mut cached = [0; 4096];
    chain(&mut cached);
    let target = Target::open(root, std::process::id())?;
    for node in frostline_linux::topology::parse_list(&nodes).context("list of nodes")? {
        let mut memory = MmapMut::map_anon(options.mib << 20)?;
        memory.advise(memmap2::Advice::NoHugePage)?;
        chain(&mut memory);
        move_all(&target, &memory, node)?;
        let slow = follow(&memory, options.accesses);
        let without = follow(&cached, options.accesses);
        println!("node {node}: {slow:.1} ns an access, {without:.1} when cached");
    }
    Ok(())
}

fn move_all(target: &Target, memory: &[u8], node: u32) -> anyhow::Result<()> {
    let first = memory.as_ptr().addr() as u64 / PAGE_BYTES;
    let pages: Vec<Vpn> = (first..first + memory.len() as u64 / PAGE_BYTES).map(Vpn).collect();
    let outcomes = move_to_node(target, &pages, node)?;
    let there = outcomes.iter().filter(|outcome| **outcome == MoveOutcome::Moved).count();
    ensure!(there == pages.len(), "{there} of {} pages are on node {node}", pages.len());
    Ok(())
}

/// Each line holds the number of the next one; all are one ring, in an order that jumps.
fn chain(memory: &mut [u8]) {
    let lines = memory.len() / LINE;
    // An odd step visits every line of a power of two of them.
    let step = (lines / 8 * 5) | 1;
    for line in 0..lines {
        let next = (line + step) % lines;
        memory[line * LINE..line * LINE + 8].copy_from_slice(&(next as u64).to_le_bytes());
    }
}

fn next(memory: &[u8], line: usize) -> usize {
    let at = line * LINE;
    let mut word = [0; 8];
    word.copy_from_slice(&memory[at..at + 8]);
    u64::from_le_bytes(word) as usize
}

fn follow(memory: &[u8], accesses: u32) -> f64 {
    let started = Instant::now();
    let mut line = 0;
    for _ in 0..accesses {
        line = next(memory, line);
    }
    std::hint::black_box(line);
    started.elapsed().as_nanos() as f64 / f64::from(accesses)
}
