//! A driver of our own process, for tests: plenty of memory, and swap that nothing goes to.

use super::*;
use crate::place::Place;
use frostline_core::TierLimits;
use std::path::PathBuf;

/// `total_pages` is what tables are made for in the beginning.
pub(super) fn driver(
    root: Root,
    total_pages: u64,
    planned: Option<Bytes>,
    journal: Option<PathBuf>,
    choice: Choice,
) -> Driver {
    let tier = |capacity| TierLimits {
        capacity: PageCount(capacity),
        keep_free: PageCount::ZERO,
        direct_access: true,
    };
    let options = Options {
        policy: "first-touch".parse().unwrap(),
        fast: "100%".parse().unwrap(),
        cpu_limit: "1".parse().unwrap(),
        settling_cpu_limit: "1".parse().unwrap(),
        dry_run: true,
        journal,
        ..Options::default()
    };
    let setup = Setup {
        policy: options.policy.to_string(),
        seed: 1,
        scale: 1.0,
        fast_pages: 1 << 20,
        total_pages_hint: total_pages,
        latency_gap: 1.0,
        tiers: vec![tier(1 << 20), tier(0)],
        migration_bytes_per_second: None,
        migration_burst: Bytes::ZERO,
    };
    let selection = Selection::Process { pid: std::process::id(), tree: false };
    let tiers = vec![Place::Memory, Place::Swap];
    let places = Places { tiers, device: None, planned, frames: None };
    Driver::new(root, options, selection, &setup, places, choice).unwrap()
}
