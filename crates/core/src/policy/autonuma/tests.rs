//! Every rule of the kernel's tiering, each shown to have been exercised.

use crate::policy::kernel::testing::{By, World, ms};
use crate::policy::offer::Offer;
use crate::policy::registry::make;
use crate::types::*;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Scans of 16 pages every 100 ms, and no page hot because of ample room.
fn spec(more: &str) -> String {
    format!("autonuma:scan-size=64KiB:scan-delay=500ms:ample=1TiB{more}")
}

/// 1000 pages of fast memory that are full, and 100 pages of slow; watermarks 1, 2 and 3 pages.
fn full(more: &str) -> World {
    let mut w = World::new(&spec(more), 1000);
    w.populate(0..1100);
    w
}

#[test]
fn slow_memory_is_armed_in_turn_after_a_delay() {
    let mut w = full("");
    assert_eq!((w.tier(998), w.tier(999)), (Some(0), Some(1)), "the low watermark stays free");
    w.pass(ms(999));
    assert_eq!(w.metric("hint_scans_total"), 0.0);
    // The first scans pass over fast memory, 8 times their size at once.
    w.pass(ms(700));
    assert_eq!(w.metric("armed_pages_total"), 0.0);
    w.pass(ms(101));
    assert!(w.is_armed(999) && !w.is_armed(998), "{}", w.metric("armed_pages_total"));
    w.pass(ms(1000));
    assert!(w.is_armed(1099));
    assert_eq!(w.metric("armed_pages_total"), 101.0);
    let passes = w.metric("hint_scan_passes_total");
    w.pass(ms(4000));
    assert!(w.metric("hint_scan_passes_total") > passes);
    assert_eq!(w.metric("armed_pages_total"), 101.0, "what is armed stays armed");
}

#[test]
fn scans_come_oftener_the_more_they_have_to_see_but_for_a_floor() {
    let scans = |pages: u32| {
        let mut w = World::new("autonuma:scan-size=64KiB:scan-delay=10ms:scan-floor=100ms", 4000);
        w.populate(0..pages);
        w.pass(ms(2200));
        w.metric("hint_scans_total")
    };
    assert_eq!([16, 64, 160, 1000].map(scans), [2.0, 8.0, 20.0, 20.0]);
}

#[test]
fn a_page_touched_soon_is_promoted_by_the_program_and_one_touched_late_is_not() {
    let mut w = full(":demotion=off");
    w.feed(&[crate::Event::Freed { run: PageRun::between(0, 10) }]);
    w.pass(ms(1850));
    assert!(w.is_armed(1000));
    w.touch([1000]);
    assert_eq!(w.moves(), [(1000, 0, By::Fault)]);
    w.pass(ms(2000));
    w.touch([1001]);
    assert_eq!((w.moves().len(), w.tier(1001)), (0, Some(1)));
    assert_eq!(w.metric("hint_faults_cold_total"), 1.0);
    assert_eq!((w.faults, w.metric("promoted_in_fault_pages_total")), (2, 1.0));
    w.touch([1001]);
    assert_eq!(w.faults, 2, "a fault disarms");
}

#[test]
fn without_room_demotion_is_woken_and_takes_what_was_not_accessed() {
    let mut w = full("");
    w.pass(ms(1850));
    w.busy = 0..700;
    w.touch([1000]);
    assert_eq!((w.metric("hint_faults_without_room_total"), w.tier(1000)), (1.0, Some(1)));
    w.pass(ms(50));
    assert_eq!(w.metric("kswapd_woken_total"), 1.0);
    let moves = w.moves();
    // The pages that came last are the only ones that were not accessed.
    assert!(moves.iter().all(|m| (700..999).contains(&m.0) && m.1 == 1 && m.2 == By::Worker));
    assert!(moves.len() >= 3, "{}", moves.len());
    assert!(w.metric("kswapd_kept_total") > 0.0, "accessed once: round again");
    assert_eq!(w.metric("kswapd_demoted_pages_total"), moves.len() as f64);
    assert_eq!(w.metric("kswapd_unanswered_total"), 0.0);
    w.touch([1001]);
    assert_eq!(w.moves(), [(1001, 0, By::Fault)], "now there is room");
}

#[test]
fn where_everything_is_hot_demotion_rests() {
    let mut w = full("");
    w.pass(ms(1850));
    w.busy = 0..999;
    w.touch([1000]);
    w.pass(ms(50));
    assert_eq!(w.metric("kswapd_rests_total"), 1.0);
    w.pass(ms(150));
    assert!((2.0..4.0).contains(&w.metric("kswapd_rests_total")), "it tries again every 100 ms");
    assert!(w.metric("kswapd_activated_total") > 500.0, "{}", w.metric("kswapd_activated_total"));
    assert!(w.metric("kswapd_deactivated_total") > 0.0);
    assert!(w.moves().is_empty());
}

#[test]
fn without_demotion_nothing_leaves_and_only_free_room_is_filled() {
    let mut w = World::new("autonuma-nodemote:scan-size=64KiB:scan-delay=500ms:ample=1TiB", 1000);
    w.populate(0..1100);
    w.pass(ms(1850));
    w.touch([1000]);
    assert_eq!(w.metric("hint_faults_without_room_total"), 1.0);
    w.pass(ms(1000));
    assert!(w.moves().is_empty());
    assert!(!w.engine.facts().needs.access_bits);
    w.feed(&[crate::Event::Freed { run: PageRun::between(0, 3) }]);
    w.touch(1040..1045);
    assert_eq!(w.moves().len(), 2, "the low watermark, and three: two pages stay free");
}

#[test]
fn ample_room_makes_every_page_hot_and_sets_the_threshold_back() {
    let mut w = World::new("autonuma:scan-size=4MiB:ample=40KiB:adjust=3s", 1000);
    w.populate(0..1100);
    w.pass(ms(3500));
    w.touch([1000]);
    w.pass(ms(3500));
    w.touch([1001]);
    assert_eq!(w.metric("threshold_raised_total"), 2.0, "fewer pages than the rate allows");
    assert_eq!(w.metric("threshold_ns"), 1.25e9);
    w.feed(&[crate::Event::Freed { run: PageRun::between(0, 200) }]);
    w.pass(ms(5000));
    w.touch([1002]);
    assert_eq!(w.metric("hint_faults_with_ample_room_total"), 1.0);
    assert_eq!((w.metric("threshold_reset_total"), w.metric("threshold_ns")), (1.0, 1e9));
    assert_eq!(w.moves().last(), Some(&(1002, 0, By::Fault)), "however late");
}

#[test]
fn the_rate_limits_promotions_and_lowers_the_threshold() {
    // 5 pages a second.
    let rate = "rate=20KiB:adjust=2s:scan-size=4MiB:scan-delay=1500ms:ample=1TiB";
    let mut w = World::new(&format!("autonuma-nodemote:{rate}"), 1000);
    w.populate(0..1100);
    w.feed(&[crate::Event::Freed { run: PageRun::between(0, 50) }]);
    w.pass(ms(3010));
    w.touch(1000..1020);
    assert_eq!(w.moves().len(), 5);
    assert_eq!(w.metric("hint_faults_rate_limited_total"), 15.0);
    assert_eq!(w.metric("candidate_pages_total"), 20.0);
    w.pass(ms(2100));
    w.touch([1000]);
    w.touch([1030]);
    assert_eq!(w.metric("threshold_lowered_total"), 1.0, "20 were hot, 10 were allowed");
    assert_eq!((w.metric("threshold_raised_total"), w.metric("threshold_ns")), (1.0, 1e9));
}

#[test]
fn the_ancestor_takes_writes_for_hotter() {
    for (name, promoted) in [("autonuma", 0), ("tiering-0.8", 1)] {
        let spec = format!("{name}:demotion=off:scan-size=4MiB:scan-delay=500ms:ample=1TiB");
        let mut w = World::new(&spec, 1000);
        w.populate(0..1100);
        w.feed(&[crate::Event::Freed { run: PageRun::between(0, 50) }]);
        w.pass(ms(1010));
        w.pass(ms(1500));
        w.touch([1000]);
        w.write(1001);
        assert_eq!((w.faults, w.moves().len()), (2, promoted), "{name}");
    }
}

#[test]
fn a_folio_faults_once_and_moves_whole() {
    let mut w = World::new("autonuma:ample=1TiB", 1024);
    (0..3).for_each(|region| w.populate_huge(region));
    assert_eq!([0, 512, 1024].map(|p| w.tier(p)), [Some(0), Some(1), Some(1)], "the watermark");
    w.scan();
    assert!(w.is_armed(512) && w.is_armed(1535));
    w.touch([700]);
    assert!(!w.is_armed(512), "one entry of the page table");
    assert_eq!((w.faults, w.metric("hint_faults_without_room_total")), (1, 1.0));
    w.pass(ms(10));
    assert!(w.moves().iter().all(|m| m.0 < 512 && m.1 == 1), "it makes room for a folio");
    assert_eq!(w.tier(0), Some(1));
    w.touch([1024]);
    assert_eq!(w.moves().len(), 512);
    assert_eq!(w.tier(1535), Some(0));
}

#[test]
fn scaled_it_is_as_quick_as_the_memory_is_small() {
    let context = Offer { scale: 100.0, ..Offer::default() };
    let made = make("autonuma", &context).unwrap();
    assert_eq!(made.policy.next_wakeup(), Some(ms(10)));
    let size = made.config.iter().find(|(key, _)| *key == "scan-size");
    assert_eq!(size.unwrap().1, format!("{}", (256 << 20) / 100 + 1));
}

/// All memory is armed at once, and there is room for 200 pages.
fn roomy(more: &str) -> World {
    let mut w = World::new(&format!("autonuma-nodemote:scan-size=16MiB:ample=1TiB{more}"), 1000);
    w.populate(0..1100);
    w.feed(&[crate::Event::Freed { run: PageRun::between(0, 200) }]);
    w
}

#[test]
fn promotions_double_the_period_after_every_pass_up_to_the_maximum() {
    let mut w = roomy(":scan-period-max=5s:scan-cost=0ns:hot=100s");
    let mut intervals = Vec::new();
    for round in 0..5 {
        let before = w.now;
        w.scan();
        intervals.push((w.now - before).0 / 1_000_000);
        // Two promotions, of which the first one makes the period longer.
        w.touch([1000 + 2 * round, 1001 + 2 * round]);
    }
    assert_eq!(intervals, [2000, 2008, 4008, 5008, 5008]);
    assert_eq!(w.metric("scan_period_ns"), 5e9);
    assert_eq!(w.metric("scan_period_doubled_total"), 5.0);
    assert_eq!(w.metric("hint_faults_counted_pages_total"), 10.0);
}

#[test]
fn faults_that_promote_nothing_do_not_count() {
    let mut w = roomy("");
    w.pass(ms(1010));
    w.pass(ms(995));
    let (cold, period) = (w.metric("hint_faults_cold_total"), w.metric("scan_period_ns"));
    w.pass(ms(100_000));
    w.touch(1000..1010);
    assert_eq!(w.metric("hint_faults_cold_total"), cold + 10.0, "touched too late");
    let mut full = full(":demotion=off");
    full.pass(ms(1850));
    full.touch([1000]);
    assert_eq!(full.metric("hint_faults_without_room_total"), 1.0);
    for w in [w, full] {
        assert_eq!(w.metric("hint_faults_counted_pages_total"), 0.0);
        assert_eq!(w.metric("scan_period_doubled_total"), 0.0);
    }
    assert_eq!(period, 1e9);
}

#[test]
fn a_scan_takes_a_stretch_as_a_whole_where_anything_in_it_is_armed() {
    // Slow memory is in the first page, and in 200 at the end.
    let mut w = World::new("autonuma:scan-size=2MiB:scan-floor=10ms:ample=1TiB", 1000);
    w.populate(0..1100);
    w.feed(&[crate::Event::Moved {
        run: PageRun::between(0, 1),
        to: TierId(1),
        cause: crate::event::MoveCause::Reclaim,
    }]);
    w.scan();
    assert!(w.is_armed(0));
    assert_eq!(w.metric("armed_pages_total"), 1.0, "what comes behind is another scan's");
    w.scan();
    assert_eq!(w.metric("armed_pages_total"), 26.0);
    w.scan();
    assert_eq!(w.metric("armed_pages_total"), 102.0);
}
