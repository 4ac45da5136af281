//! Every rule of AutoTiering, each shown to have been exercised.

use crate::event::Event;
use crate::policy::kernel::testing::{By, World, ms};
use crate::types::*;
use alloc::vec::Vec;

/// All memory is armed every second. 1000 pages of fast memory that are full but for the reserve,
/// and about 100 of slow.
fn world(more: &str) -> World {
    let spec = alloc::format!("autotiering:scan-size=16MiB:scan-floor=1s:scan-period-max=0s{more}");
    let mut w = World::new(&spec, 1000);
    w.populate(0..1100);
    w
}

#[test]
fn folios_are_armed_whole_but_no_faster_than_the_scan_says() {
    let mut w = World::new("autotiering:scan-size=256KiB:scan-delay=10ms:scan-floor=100ms", 8192);
    (0..15).for_each(|region| w.populate_huge(region));
    w.pass(ms(4330));
    assert_eq!(w.metric("hint_scans_total"), 40.0);
    assert_eq!(w.metric("armed_pages_total"), 5.0 * 512.0, "one in eight scans of 64 pages");
}

#[test]
fn all_memory_is_armed_and_every_fault_of_a_slow_page_promotes_it() {
    let mut w = world("");
    assert_eq!([996, 997].map(|p| w.tier(p)), [Some(0), Some(1)], "the reserve is for promotions");
    w.scan();
    assert!(w.is_armed(0) && w.is_armed(1099));
    w.pass(ms(900));
    w.touch([5, 1000, 1001]);
    assert_eq!(w.moves(), [(1000, 0, By::Fault), (1001, 0, By::Fault)], "however late");
    assert_eq!((w.faults, w.metric("promoted_in_fault_pages_total")), (3, 2.0));
}

#[test]
fn the_thread_restores_the_reserve_by_those_that_faulted_in_fewest_passes() {
    let mut w = world("");
    for round in 0..4 {
        w.scan();
        // Page n of the first 900 faults in n % 3 + 1 rounds, the next ones in none.
        w.touch((0..900).filter(|n| round <= n % 3));
    }
    w.scan();
    w.touch(1000..1003);
    assert_eq!(w.moves().len(), 3);
    w.touch([1003]);
    assert_eq!(w.metric("hint_faults_without_room_total"), 1.0);
    w.pass(ms(1));
    let moves = w.moves();
    assert_eq!((moves.len(), w.metric("demotion_woken_total")), (3, 1.0));
    assert!(moves.iter().all(|m| (900..997).contains(&m.0) && m.1 == 1 && m.2 == By::Worker));
    w.touch([1004]);
    assert_eq!(w.moves(), [(1004, 0, By::Fault)]);
}

#[test]
fn in_exchange_a_page_takes_the_place_of_one_with_a_shorter_history() {
    let mut w = world(":mode=exchange");
    assert_eq!(w.tier(999), Some(0), "nothing is kept free");
    for _ in 0..2 {
        w.scan();
        w.touch(0..999);
    }
    w.scan();
    w.touch([1050]);
    assert_eq!(w.moves(), [(999, 1, By::Fault), (1050, 0, By::Fault)]);
    assert_eq!(w.metric("exchanged_pages_total"), 1.0);
    // All others have faulted twice, who comes now once.
    w.touch([1051]);
    assert_eq!(w.metric("hint_faults_without_colder_total"), 1.0);
    for _ in 0..2 {
        w.scan();
        w.touch([1051]);
    }
    let moves = w.moves();
    assert_eq!((moves.len(), moves[1]), (2, (1051, 0, By::Fault)), "the third fault is one more");
    assert_eq!(w.metric("promoted_in_fault_pages_total"), 2.0);
}

#[test]
fn histories_are_as_long_as_eight_passes() {
    let mut w = world(":mode=exchange");
    w.scan();
    w.touch(0..1000);
    for _ in 0..8 {
        w.scan();
        // All stay armed.
    }
    w.touch([1060]);
    assert_eq!(w.moves().len(), 2, "what the others did is forgotten");
}

#[test]
fn folios_are_exchanged_for_folios() {
    let mut w = World::new(
        "autotiering:scan-size=16MiB:scan-floor=1s:scan-period-max=0s:mode=exchange",
        1124,
    );
    w.populate(0..100);
    (1..4).for_each(|region| w.populate_huge(region));
    assert_eq!([512, 1024, 1536].map(|p| w.tier(p)), [Some(0), Some(0), Some(1)]);
    w.scan();
    w.touch([512 + 7, 1536 + 9]);
    let moves = w.moves();
    let (down, up): (Vec<_>, Vec<_>) = moves.into_iter().partition(|m| m.1 == 1);
    assert_eq!((down.len(), up.len()), (512, 512));
    assert_eq!((down[0].0, up[0].0), (1024, 1536), "not a base page, and not 512");
}

#[test]
fn memory_that_goes_or_comes_has_no_history() {
    let mut w = world(":mode=exchange");
    w.scan();
    w.touch(0..1000);
    w.feed(&[Event::Unmapped { run: PageRun::single(PageId(3)) }]);
    w.populate(3..4);
    assert_eq!(w.tier(3), Some(0));
    w.scan();
    w.touch([1070]);
    assert_eq!(w.moves()[0].0, 3, "the only one that never faulted");
    let to = PageId(5000);
    w.feed(&[Event::Remapped { from: PageRun::between(10, 20), to }]);
    assert_eq!(w.tier(5000), Some(0));
    assert!(w.engine.metadata_bytes().0 > 1000);
}

#[test]
fn a_promotion_that_fails_makes_scans_rarer_for_good() {
    let mut w = World::new("autotiering:scan-size=16MiB:scan-period-max=500s", 1000);
    w.populate(0..1100);
    let pass = |w: &mut World, touched: core::ops::Range<u32>| {
        w.scan();
        w.touch(touched);
        ["longer", "shorter", "doubled"]
            .map(|way| w.metric(&alloc::format!("scan_period_{way}_total")))
    };
    assert_eq!(pass(&mut w, 0..100), [0.0, 0.0, 1.0], "nothing was seen before the first look");
    assert_eq!(pass(&mut w, 0..100), [1.0, 0.0, 1.0], "all was in fast memory");
    assert_eq!(w.metric("scan_period_ns"), 2.6e9);
    assert_eq!(pass(&mut w, 1000..1010), [2.0, 0.0, 1.0]);
    assert!(w.metric("hint_faults_without_room_total") > 0.0, "there was room for 3");
    for round in 0..5 {
        assert_eq!(pass(&mut w, 0..100), [2.0, 0.0, 2.0 + f64::from(round)]);
    }
}

#[test]
fn faults_of_a_page_by_two_threads_are_shared_but_for_memory_that_is_new() {
    let mut w = world("");
    w.scan();
    w.touch([5, 6]);
    w.feed(&[Event::Unmapped { run: PageRun::single(PageId(6)) }]);
    w.populate(6..7);
    w.thread = 1;
    w.scan();
    w.touch([5, 6, 7]);
    assert_eq!(w.faults, 5);
    assert_eq!(w.metric("hint_faults_counted_pages_total"), 5.0);
    assert_eq!(w.metric("hint_faults_shared_pages_total"), 1.0);
}
