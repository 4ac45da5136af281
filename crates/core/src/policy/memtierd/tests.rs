use crate::policy::testing::{SLOW, World};
use crate::types::*;

const FAST: TierId = TierId::FAST;

fn world(fast: u64, more: &str) -> World {
    let ms = "scan=5ms:interval=5ms:idle=15ms:active=10ms";
    let rate = if more.contains("bandwidth") { "" } else { ":bandwidth=200GiB" };
    World::new(fast, &alloc::format!("memtierd:{ms}{rate}{more}"))
}

/// So many looks; these pages are accessed before each scan.
fn look(w: &mut World, looks: u32, accessed: &[u32]) {
    for _ in 0..looks {
        let before = w.metric("looks_total");
        while w.metric("looks_total") == before {
            w.touch(accessed.iter().copied());
            w.wake();
        }
    }
}

fn tiers<const N: usize>(w: &World) -> [Option<TierId>; N] {
    core::array::from_fn(|region| w.tier(512 * region as u32))
}

#[test]
fn idle_regions_leave_fast_memory_however_much_is_free() {
    let mut w = world(1 << 16, "");
    w.populate(PageRun::between(0, 4 * 512), true);
    look(&mut w, 4, &[600]);
    assert_eq!(w.metric("demotions_proposed_pages_total"), 0.0, "15 ms are not over");
    look(&mut w, 3, &[600]);
    assert_eq!(tiers(&w), [Some(SLOW), Some(FAST), Some(SLOW), Some(SLOW)]);
    assert_eq!(
        w.metric("idle_regions_found_total"),
        3.0,
        "those that have moved are not found again"
    );
}

#[test]
fn only_what_is_accessed_at_every_look_comes_back() {
    let mut w = world(1 << 16, ":start=slow");
    w.populate(PageRun::between(0, 3 * 512), true);
    assert_eq!(tiers(&w), [Some(SLOW); 3], "new memory is slow");
    look(&mut w, 1, &[5, 512]);
    // Region 1 is left out once.
    look(&mut w, 1, &[5]);
    assert_eq!(w.metric("promotions_proposed_pages_total"), 0.0);
    look(&mut w, 2, &[5, 512]);
    assert_eq!(tiers(&w), [Some(FAST), Some(SLOW), Some(SLOW)]);
    look(&mut w, 2, &[5, 512]);
    assert_eq!(tiers(&w), [Some(FAST), Some(FAST), Some(SLOW)]);
}

#[test]
fn what_finds_no_room_stays_and_is_dropped() {
    let mut w = world(512, ":start=slow");
    w.populate(PageRun::between(0, 2 * 512), true);
    look(&mut w, 6, &[0, 512]);
    assert_eq!(w.used(), 512);
    assert!(w.metric("regions_without_room_total") >= 1.0);
    assert_eq!(w.metric("promotions_proposed_pages_total"), 512.0, "nobody made room");
}

#[test]
fn demotions_come_before_promotions() {
    let mut w = world(512, "");
    w.populate(PageRun::between(0, 2 * 512), true);
    assert_eq!(tiers(&w), [Some(FAST), Some(SLOW)]);
    look(&mut w, 5, &[700]);
    assert_eq!(tiers(&w), [Some(SLOW), Some(SLOW)], "the idle one first");
    look(&mut w, 1, &[700]);
    assert_eq!(tiers(&w), [Some(SLOW), Some(FAST)]);
}

#[test]
fn the_mover_keeps_to_its_bandwidth_and_new_moves_wait_for_it() {
    // 2 MiB take 10 ms, two looks.
    let mut w = world(1 << 16, ":bandwidth=200MiB");
    w.populate(PageRun::between(0, 4 * 512), true);
    let begin = w.now;
    while w.used() > 0 {
        w.wake();
    }
    let ms = (w.now.0 - begin.0) / 1_000_000;
    assert!((50..=55).contains(&ms), "20 ms until idle, and three times 10: {ms}");
    assert!(w.metric("looks_put_off_total") >= 3.0);
}

#[test]
fn by_heat_the_hottest_class_comes_and_the_coldest_goes() {
    let mut w = world(1 << 16, ":mode=heat:retention=0:heat-max=2");
    w.populate(PageRun::between(0, 3 * 512), true);
    look(&mut w, 3, &[0]);
    assert_eq!(tiers(&w), [Some(FAST), Some(SLOW), Some(SLOW)], "class 0 goes, class 2 stays");
    let mut w = world(1 << 16, ":mode=heat:retention=1:heat-max=2:start=slow");
    w.populate(PageRun::between(0, 2 * 512), true);
    look(&mut w, 2, &[0]);
    assert_eq!(w.tier(0), Some(SLOW), "one scan is not enough");
    look(&mut w, 2, &[0]);
    assert_eq!(tiers(&w), [Some(FAST), Some(SLOW)]);
}

#[test]
fn heat_is_lost_by_the_second() {
    assert!((super::power(0.8, 5.0) - 0.32768).abs() < 1e-9);
    assert!((super::power(0.8, 0.5) - 0.8f64.sqrt()).abs() < 0.01);
    assert_eq!(super::power(0.5, 0.0), 1.0);
}

#[test]
fn base_pages_of_a_region_move_together() {
    let mut w = world(1 << 16, "");
    w.populate(PageRun::between(100, 200), false);
    w.populate(PageRun::between(512, 600), false);
    look(&mut w, 7, &[150]);
    assert_eq!((w.tier(100), w.tier(199), w.tier(512)), (Some(FAST), Some(FAST), Some(SLOW)));
}
