//! Policies that swap, and HotBox, on the modelled machine.

use super::testing::*;
use super::tests::{counter, options, rounds, run_policy};
use super::*;
use frostline_core::policy::oracle::{AccessReader, EpochReader, KnownAccess, Oracle, PageSaving};
use frostline_core::policy::{Offer, registry};
use std::sync::Arc;

struct Known(Vec<u32>);

impl Oracle for Known {
    fn totals(&self, _: &mut dyn FnMut(PageSaving)) {}
    fn epochs(&self) -> EpochReader {
        Box::new(|_, _| false)
    }
    fn accesses(&self) -> AccessReader {
        let (pages, mut at) = (self.0.clone(), 0);
        let mut after = std::collections::HashMap::new();
        let mut next = vec![u64::MAX; pages.len()];
        for (at, page) in pages.iter().enumerate().rev() {
            next[at] = after.insert(*page, at as u64).unwrap_or(u64::MAX);
        }
        Box::new(move || {
            let access = KnownAccess { page: PageId(*pages.get(at)?), next: next[at] };
            at += 1;
            Some(access)
        })
    }
    fn promotion_cost_ns(&self) -> f64 {
        0.0
    }
    fn demotion_cost_ns(&self) -> f64 {
        0.0
    }
}

fn outcome(spec: &str, pages: &[u32], fast: u64) -> RunOutcome {
    let steps: Vec<Step> = pages.iter().map(|page| load(*page)).collect();
    let oracle = Some(Arc::new(Known(pages.to_vec())) as _);
    let context = Offer { oracle, fast_pages: PageCount(fast), ..Offer::default() };
    let policy = registry::make(spec, &context).unwrap();
    run_policy(&steps, policy, &options("disaggregated-750", fast), false)
}

fn in_turn(pages: u32, times: usize) -> Vec<u32> {
    (0..times).flat_map(|_| 0..pages).collect()
}

#[test]
fn in_a_loop_belady_keeps_what_fits_and_lists_keep_nothing() {
    let pages = in_turn(1024, 40);
    let (lru, belady) = (outcome("swap-lru", &pages, 512), outcome("swap-belady", &pages, 512));
    for run in [&lru, &belady] {
        assert_eq!(run.report.fast_hit_ratio, 1.0, "no access is served by the swap device");
    }
    let refaults = |run: &RunOutcome| counter(run, "machine.refaults");
    // Of each round, what is not kept comes in again: about half, where 512 - 64 are kept.
    let rounds = refaults(&belady) / 40.0;
    assert!((510.0..600.0).contains(&rounds), "{rounds}");
    assert!(refaults(&lru) > 1.5 * refaults(&belady), "{}", refaults(&lru));
    assert!(counter(&lru, "policy.kswapd_demoted_pages_total") > 10_000.0, "ahead of need");
    assert!(belady.report.modelled_seconds < lru.report.modelled_seconds);
}

#[test]
fn lists_keep_what_is_accessed_again() {
    // Three of four accesses go to 100 pages.
    let mut rng = Rng::new(3);
    let draw = |_| if rng.below(4) < 3 { rng.below(100) } else { 100 + rng.below(900) } as u32;
    let pages: Vec<u32> = (0..60_000).map(draw).collect();
    let run = outcome("swap-lru", &pages, 500);
    // Of 15 000 accesses to the 900 others, all but the share that 400 have of them miss.
    let refaults = counter(&run, "machine.refaults");
    assert!((5_000.0..11_000.0).contains(&refaults), "{refaults}");
}

#[test]
fn hotbox_moves_what_is_hot_and_then_pauses() {
    // 64 pages that come last, so are in slow memory, get all accesses from then on.
    let mut pages = in_turn(1088, 1);
    pages.extend((0..40_000).flat_map(|_| 1024..1088));
    let spec = "hotbox:batch=1MiB:period=1ms:window=10ms";
    let run = outcome(spec, &pages, 512);
    let count = |name: &str| counter(&run, &format!("policy.{name}"));
    assert_eq!(run.report.promoted_bytes, 64 * PAGE_BYTES);
    assert_eq!(count("promoted_in_fault_pages_total"), 64.0);
    assert!(run.report.hint_faults >= 64);
    assert_eq!(run.report.good_put, Some(1.0), "each moved at its touch");
    assert!(run.report.fast_hit_ratio > 0.9, "{}", run.report.fast_hit_ratio);
    assert!(count("pauses_total") >= 1.0 && count("paused") == 1.0);
    let free = outcome(&spec.replace("hotbox:", "hotbox-nothrottle:"), &pages, 512);
    assert!(free.report.page_checks > run.report.page_checks, "it goes on scanning");
    // Blocks whose pages nobody touches cost one look.
    let looks = counter(&free, "policy.remote_blocks_total") * 256.0;
    assert!((free.report.page_checks as f64) < looks / 4.0, "{}", free.report.page_checks);
}

#[test]
fn base_pages_are_mapped_where_a_policy_wants_them() {
    let mut steps = map(0, 1024);
    steps.extend(rounds(1024, 2));
    let faults = |spec: &str, machine: &str| {
        let policy = registry::make(spec, &Offer::default()).unwrap();
        let run = run_policy(&steps, policy, &options(machine, 600), false);
        ["machine.huge_faults", "machine.base_faults"].map(|name| counter(&run, name))
    };
    for (spec, folios) in [
        ("all-slow", 2.0),
        ("all-slow:pages=base", 0.0),
        ("swap-lru", 0.0),
        ("hybridtier", 0.0),
        ("hybridtier:pages=huge", 2.0),
        ("hybridtier:pages=machine", 2.0),
        ("memtis", 2.0),
        ("memtis:pages=base", 0.0),
    ] {
        assert_eq!(faults(spec, "dram-nvm"), [folios, 1024.0 - 512.0 * folios], "{spec}");
        assert_eq!(faults(spec, "dram-nvm:thp=off"), [0.0, 1024.0], "{spec}");
    }
}
