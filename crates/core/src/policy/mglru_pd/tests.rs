use crate::policy::testing::{SLOW, World};
use crate::types::*;

fn world(fast: u64) -> World {
    World::new(fast, "mglru-pd:aging=10ms")
}

/// Until the next aging is through; these pages are accessed meanwhile.
fn age(w: &mut World, accessed: core::ops::Range<u32>) {
    let agings = w.metric("agings_total");
    while w.metric("agings_total") == agings {
        w.touch(accessed.clone());
        w.wake();
    }
}

#[test]
fn what_was_not_accessed_for_three_agings_is_demoted_though_there_is_room() {
    let mut w = world(1000);
    w.populate(PageRun::between(0, 20), false);
    (0..3).for_each(|_| age(&mut w, 0..5));
    assert_eq!(w.metric("oldest_demoted_pages_total"), 0.0);
    (0..2).for_each(|_| age(&mut w, 0..5));
    assert_eq!(w.metric("oldest_demoted_pages_total"), 15.0);
    assert_eq!((w.tier(4), w.tier(5)), (Some(TierId::FAST), Some(SLOW)));
}

#[test]
fn a_page_that_comes_back_begins_anew() {
    let mut w = world(1000);
    w.populate(PageRun::between(0, 20), false);
    (0..5).for_each(|_| age(&mut w, 0..5));
    // `autonuma` arms it, and has ample room.
    while w.tier(7) == Some(SLOW) {
        w.touch([7]);
        w.wake();
    }
    assert!(w.metric("promoted_in_fault_pages_total") >= 1.0);
    age(&mut w, 0..5);
    assert_eq!(w.tier(7), Some(TierId::FAST));
}

#[test]
fn folios_age_whole() {
    let mut w = world(1 << 16);
    w.populate(PageRun::between(0, 2048), true);
    (0..5).for_each(|_| age(&mut w, 0..1));
    assert_eq!(w.metric("oldest_demoted_pages_total"), 3.0 * 512.0);
    assert_eq!(w.tier(0), Some(TierId::FAST));
}
