//! Every rule of TPP, each shown to have been exercised.

use crate::policy::kernel::testing::{By, World, ms};
use crate::types::*;
use alloc::vec::Vec;

/// 1000 pages of fast memory that are full, and 100 pages of slow.
fn full(spec: &str) -> World {
    let mut w = World::new(spec, 1000);
    w.populate(0..1100);
    w
}

#[test]
fn demotion_keeps_its_share_free_whoever_allocates() {
    let mut w = full("tpp:scan-delay=100s");
    assert_eq!([998, 999].map(|p| w.tier(p)), [Some(0), Some(1)], "the low watermark stays free");
    w.pass(ms(10));
    let moves = w.moves();
    assert!((19..64).contains(&moves.len()), "{}", moves.len());
    assert!(moves.iter().all(|m| m.0 < 64 && m.1 == 1 && m.2 == By::Worker), "the oldest");
    assert_eq!(w.metric("kswapd_woken_total"), 1.0);
    w.populate(1100..1110);
    assert_eq!(w.tier(1109), Some(0), "that room is for new memory");
    assert!(w.metric("kswapd_woken_total") <= 2.0);
}

#[test]
fn accessed_pages_stay_and_at_the_second_time_become_active() {
    let mut w = World::new("tpp:scan-delay=100s", 1000);
    w.busy = 0..900;
    w.populate(0..1100);
    w.pass(ms(10));
    assert!(w.moves().iter().all(|m| m.0 >= 900));
    assert!(w.metric("kswapd_kept_total") >= 800.0);
    w.populate(1200..1260);
    w.pass(ms(10));
    w.populate(1300..1360);
    w.pass(ms(10));
    assert!(w.metric("kswapd_activated_total") > 0.0);
    assert!(w.moves().iter().all(|m| m.0 >= 900));
}

#[test]
fn the_second_fault_promotes() {
    let mut w = full("tpp:scan-size=8MiB:scan-floor=1s:scan-period-max=0s");
    w.scan();
    w.moves();
    assert!(w.is_armed(1000) && !w.is_armed(900));
    w.touch([1000]);
    assert_eq!((w.moves().len(), w.metric("hint_faults_first_total")), (0, 1.0));
    w.touch([1000]);
    assert_eq!(w.faults, 1, "it has to be armed again");
    w.scan();
    w.scan();
    w.touch([1000, 1001]);
    assert_eq!(w.moves(), [(1000, 0, By::Fault)], "however long after the first");
    assert_eq!(w.metric("promoted_in_fault_pages_total"), 1.0);
    assert_eq!(w.metric("hint_faults_total"), 3.0);
}

#[test]
fn what_was_promoted_is_active_and_what_was_demoted_is_not() {
    let mut w = full("tpp:scan-size=8MiB:scan-floor=1s:scan-period-max=0s");
    w.scan();
    let gone = w.moves()[0].0;
    w.touch([1000, gone]);
    w.scan();
    w.scan();
    w.touch([1000, gone]);
    assert_eq!(w.moves(), [(1000, 0, By::Fault), (gone, 0, By::Fault)], "two faults for both");
    // Nobody touches anything: the inactive pages go, down to where the list is short of them.
    for page in (2000..2900).step_by(15) {
        w.populate(page..page + 15);
        w.pass(ms(10));
    }
    assert_eq!([1000, gone].map(|page| w.tier(page)), [Some(0), Some(0)]);
    assert!(w.moves().len() > 800);
}

#[test]
fn without_room_a_page_stays_and_demotion_is_woken() {
    let mut w = World::new("tpp:scan-size=8MiB:scan-floor=1s:scan-period-max=0s:free=0", 1000);
    w.populate(0..1100);
    w.feed(&[crate::Event::Populated {
        run: PageRun::single(PageId(1200)),
        tier: TierId::FAST,
        huge: false,
    }]);
    w.scan();
    w.touch([1000]);
    w.scan();
    w.scan();
    w.touch([1000]);
    assert_eq!(w.metric("hint_faults_without_room_total"), 1.0);
    w.pass(ms(10));
    assert!(w.moves().iter().all(|m| m.1 == 1));
    assert_eq!(w.metric("kswapd_woken_total"), 1.0);
    w.scan();
    w.scan();
    w.touch([1000]);
    assert_eq!(w.tier(1000), Some(0));
}

#[test]
fn folios_fault_and_move_as_one() {
    let mut w = World::new("tpp:scan-size=16MiB:scan-floor=1s:scan-period-max=0s", 2048);
    (0..5).for_each(|region| w.populate_huge(region));
    assert_eq!([1024, 1536].map(|p| w.tier(p)), [Some(0), Some(1)], "the low watermark");
    w.scan();
    w.touch([1700, 1800]);
    w.scan();
    w.scan();
    w.touch([1800]);
    assert_eq!((w.faults, w.tier(1536)), (2, Some(0)));
    w.pass(ms(10));
    let demoted = w.moves();
    let by_worker: Vec<u32> = demoted.iter().filter(|m| m.2 == By::Worker).map(|m| m.0).collect();
    assert_eq!(by_worker, (0..512).collect::<Vec<_>>(), "the oldest folio, for 2 %");
}

/// Scans of all memory. In each pass ten pages of slow memory fault for the first time, and ten
/// for the second, which promotes them, by `threads` in turn.
fn passes(threads: u32, rounds: u32) -> World {
    let mut w = World::new("tpp:scan-size=16MiB", 1000);
    w.populate(0..1300);
    w.feed(&[crate::Event::Freed { run: PageRun::between(0, 500) }]);
    for round in 0..rounds {
        w.scan();
        w.thread = round % threads;
        let first = 1000 + 10 * round;
        w.touch(first.saturating_sub(10).max(1000)..first + 10);
    }
    assert_eq!(w.metric("promoted_in_fault_pages_total"), f64::from(10 * (rounds - 1)));
    w
}

#[test]
fn where_one_thread_uses_pages_the_period_doubles_and_where_two_do_it_shrinks() {
    let alone = passes(1, 5);
    assert_eq!(alone.metric("scan_period_doubled_total"), 5.0);
    assert_eq!(alone.metric("scan_period_ns"), 32e9);
    assert_eq!(alone.metric("hint_faults_shared_pages_total"), 0.0);
    // The first look has seen nothing, the second one pages that nobody had touched before.
    let together = passes(2, 20);
    assert_eq!(together.metric("scan_period_doubled_total"), 2.0);
    assert_eq!(together.metric("scan_period_shorter_total"), 18.0);
    assert_eq!(together.metric("scan_period_ns"), 1e9, "down to the minimum");
    assert_eq!(together.metric("hint_faults_shared_pages_total"), 190.0);
}
