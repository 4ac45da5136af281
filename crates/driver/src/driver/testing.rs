//! A driver of our own process, for tests: plenty of memory, and swap that nothing goes to.

use super::*;
use crate::place::Place;
use frostline_core::TierLimits;

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
        samples: Samples::Auto,
        policy: "first-touch".into(),
        slow: SlowTiers::default(),
        swap_device: None,
        fast: Limit::Share(1.0),
        cpu_share: 1.0,
        settling_cpu_share: 1.0,
        migration_bytes_per_second: None,
        seed: 1,
        dry_run: true,
        journal,
        extents: false,
    };
    let setup = Setup {
        policy: options.policy.clone(),
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
