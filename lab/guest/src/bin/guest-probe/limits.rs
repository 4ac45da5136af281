//! Limits at which moves must end short.

use crate::held::{Held, Pages, Work};
use crate::kernel::{count, free_mib, on_node};
use anyhow::{Context, Result, bail, ensure};
use frostline_core::event::MoveOutcome;
use frostline_linux::LinuxError;
use frostline_linux::moves::migrate::move_to_node;
use std::fs;

/// More is demoted than the slow node has room for.
pub fn full_node(mib: u64) -> Result<()> {
    let held = Held::start(Pages::Base, mib, Work::Sleep)?;
    let pages = held.pages();
    let (fast, slow) = (free_mib(0)?, free_mib(1)?);
    ensure!(slow < mib, "node 1 has {slow} MiB free, too many for this check");
    ensure!(on_node(&held, &pages, 0)? == pages.len(), "memory comes from node 0");
    let outcomes = move_to_node(&held.target, &pages, 1)?;
    let moved = count(&outcomes, MoveOutcome::Moved);
    let no_space = count(&outcomes, MoveOutcome::NoSpace);
    let there = on_node(&held, &pages, 1)?;
    println!("{moved} moved, {no_space} without space; free before: {fast} and {slow} MiB");
    println!("free after: {} and {} MiB", free_mib(0)?, free_mib(1)?);
    ensure!(moved > 0 && no_space > 0, "the node was to fill up in between");
    ensure!(moved + no_space == pages.len(), "other outcomes: {outcomes:?}");
    ensure!(there == moved, "{there} pages are on node 1");
    ensure!(on_node(&held, &pages, 0)? == no_space, "the others stay");
    held.end()
}

const CGROUP: &str = "/sys/fs/cgroup/guest-probe";

/// The process's cgroup keeps it from the slow node, until it does not.
pub fn cpuset() -> Result<()> {
    let held = Held::start(Pages::Base, 8, Work::Sleep)?;
    let pages = held.pages();
    fs::create_dir(CGROUP).context(CGROUP)?;
    fs::write(format!("{CGROUP}/cpuset.mems"), "0")?;
    fs::write(format!("{CGROUP}/cgroup.procs"), held.target.pid().to_string())?;
    match move_to_node(&held.target, &pages, 1) {
        Err(LinuxError::Unsupported { what, hint }) => println!("refused: {what}; {hint}"),
        other => bail!("node 1 is not allowed, and yet: {other:?}"),
    }
    ensure!(on_node(&held, &pages, 0)? == pages.len(), "nothing moved");
    fs::write(format!("{CGROUP}/cpuset.mems"), "0-1")?;
    let outcomes = move_to_node(&held.target, &pages, 1)?;
    ensure!(count(&outcomes, MoveOutcome::Moved) == pages.len(), "{outcomes:?}");
    // The kernel moves what is on a node that is taken away.
    fs::write(format!("{CGROUP}/cpuset.mems"), "0")?;
    let back = on_node(&held, &pages, 0)?;
    ensure!(back == pages.len(), "{back} pages came back");
    held.end()?;
    fs::remove_dir(CGROUP).context(CGROUP)
}
