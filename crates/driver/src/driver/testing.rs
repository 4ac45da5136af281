//! A driver of our own process, for tests: plenty of memory, and swap that nothing goes to.

use super::*;
use crate::place::Place;
use frostline_core::engine::EngineConfig;
use frostline_core::policy::Offer;
use std::path::PathBuf;

/// `total_pages` is what tables are made for in the beginning.
pub(super) fn driver(
    root: Root,
    total_pages: u64,
    planned: Option<Bytes>,
    journal: Option<PathBuf>,
    choice: Choice,
) -> Driver {
    let options = Options {
        policy: "first-touch".parse().unwrap(),
        fast: "100%".parse().ok(),
        cpu_limit: "1".parse().unwrap(),
        settling_cpu_limit: "1".parse().unwrap(),
        dry_run: true,
        journal,
        ..Options::default()
    };
    let fast_pages = PageCount(1 << 20);
    let setup = Setup {
        policy: options.policy.to_string(),
        offer: Offer { fast_pages, total_pages_hint: PageCount(total_pages), ..Offer::default() },
        config: EngineConfig::two_tiers(fast_pages, PageCount::ZERO),
    };
    let selection = Selection::Process { pid: std::process::id(), tree: false };
    let tiers = vec![Place::Memory, Place::Swap];
    let places = Places { tiers, device: None, planned, frames: None };
    Driver::new(root, options, selection, &setup, places, choice, Losses::default()).unwrap()
}
