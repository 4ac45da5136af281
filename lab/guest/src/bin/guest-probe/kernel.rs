//! Numbers of the kernel itself: its counters, and where a process's memory is.

use crate::held::Held;
use anyhow::{Context, Result};
use frostline_core::event::MoveOutcome;
use frostline_core::types::Vpn;
use frostline_linux::moves::migrate::{NodeStatus, nodes_of};
use std::fs;

/// A line of `/proc/vmstat`.
pub fn counter(name: &str) -> Result<u64> {
    let text = fs::read_to_string("/proc/vmstat")?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.with_context(|| format!("no counter {name}"))?.parse().context(name.to_owned())
}

/// Free memory of a node in MiB.
pub fn free_mib(node: u32) -> Result<u64> {
    let text = fs::read_to_string(format!("/sys/devices/system/node/node{node}/meminfo"))?;
    let line = text.lines().find(|line| line.contains("MemFree:")).context("MemFree")?;
    let kib: u64 = line.split_whitespace().rev().nth(1).context("a number")?.parse()?;
    Ok(kib / 1024)
}

/// Pages of the held mapping on nodes 0 and 1 by `/proc/PID/numa_maps`, numa_maps(5).
pub fn numa_maps(held: &Held) -> Result<[u64; 2]> {
    let text = fs::read_to_string(format!("/proc/{}/numa_maps", held.target.pid()))?;
    let start = |line: &str| u64::from_str_radix(line.split(' ').next()?, 16).ok();
    // A mapping begins before the first page that is aligned as we want it.
    let line = text
        .lines()
        .take_while(|line| start(line).is_some_and(|start| start <= held.span.address()))
        .last()
        .context("no line in numa_maps")?;
    let on = |node: &str| {
        let count = line.split(' ').find_map(|word| word.strip_prefix(node));
        count.map_or(Ok(0), str::parse)
    };
    Ok([on("N0=")?, on("N1=")?])
}

/// How many of `pages` are on `node`.
pub fn on_node(held: &Held, pages: &[Vpn], node: u32) -> Result<usize> {
    let nodes = nodes_of(&held.target, pages)?;
    Ok(nodes.iter().filter(|&&status| status == NodeStatus::Node(node)).count())
}

/// How many ended so.
pub fn count(outcomes: &[MoveOutcome], wanted: MoveOutcome) -> usize {
    outcomes.iter().filter(|&&outcome| outcome == wanted).count()
}
