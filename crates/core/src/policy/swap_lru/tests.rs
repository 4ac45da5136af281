//! Tests of the order of eviction, and that nothing is served outside fast memory.

use super::super::testing::{SLOW, World};
use crate::engine::EngineConfig;
use crate::event::{Event, MoveCause, MoveOutcome};
use crate::policy::offer::Offer;
use crate::types::*;

/// 128 pages of fast memory and a swap device, as a world that can forbid access has them.
fn world(spec: &str, pages: u32) -> World {
    let mut config = EngineConfig::two_tiers(PageCount(128), PageCount(1000));
    config.tiers[1].direct_access = false;
    let mut w = World::with(config, spec, &Offer::default());
    assert!(w.engine.facts().swaps && w.engine.facts().base_pages);
    w.accessed.extend(0..8);
    w.populate(PageRun::between(0, pages), false);
    (0..8).for_each(|_| w.feed(&[]));
    w
}

#[test]
fn pages_leave_ahead_of_need_and_those_accessed_stay() {
    let w = world("swap-lru", 100);
    assert_eq!(w.metric("kswapd_woken_total"), 1.0, "28 free are below the low watermark");
    assert!(w.used() <= 64 && w.used() > 8);
    assert!((0..8).all(|page| w.tier(page) == Some(TierId::FAST)));
    assert_eq!(w.tier(8), Some(SLOW));
}

#[test]
fn memory_does_not_come_from_a_swap_device() {
    let mut w = world("swap-lru", 64);
    w.outcome = MoveOutcome::Busy;
    let more = |w: &mut World, page| {
        let run = PageRun::single(PageId(page));
        let process = ProcessId(0);
        let allocation =
            crate::policy::Allocation { run, huge: false, may_be_huge: false, process };
        w.engine.populate(w.now, &allocation).map(|placed| placed.tier)
    };
    assert!((64..128).all(|page| more(&mut w, page) == Some(TierId::FAST)));
    assert_eq!(more(&mut w, 128), None);
}

#[test]
fn the_oldest_leave_where_the_program_waits() {
    let mut w = world("swap-lru", 60);
    let victims = w.engine.victims(w.now, PageCount(3));
    assert_eq!(victims, [0, 1, 2].map(PageId));
    for (cause, to) in [(MoveCause::Reclaim, SLOW), (MoveCause::Refault, TierId::FAST)] {
        w.feed(&[Event::Moved { run: PageRun::between(0, 2), to, cause }]);
    }
    let counts = ["evicted_while_waiting_pages_total", "brought_in_pages_total"];
    assert_eq!(counts.map(|name| w.metric(name)), [2.0, 2.0]);
    assert_eq!(w.engine.victims(w.now, PageCount(2)), [2, 3].map(PageId), "0 and 1 are the newest");
    assert_eq!(w.engine.victims(w.now, PageCount(1000)).len(), 60, "all there are");
}
