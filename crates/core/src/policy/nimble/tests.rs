//! Every rule of Nimble, each shown to have been exercised.

use crate::event::{Event, MoveOutcome};
use crate::policy::kernel::testing::{By, World, ms};
use crate::types::*;
use alloc::vec::Vec;

/// 100 pages of fast memory and 100 of slow, all touched long ago.
fn world(spec: &str) -> World {
    let mut w = World::new(spec, 100);
    w.populate(0..200);
    w
}

fn ups_and_downs(w: &mut World) -> (Vec<u32>, Vec<u32>) {
    let moves = w.moves();
    assert!(moves.iter().all(|m| m.2 == By::Worker));
    let to = |tier| moves.iter().filter(|m| m.1 == tier).map(|m| m.0).collect();
    (to(0), to(1))
}

#[test]
fn pages_accessed_once_since_the_last_scan_replace_those_that_were_not() {
    let mut w = world("nimble:fill=off");
    w.touch(20..100);
    w.touch([150, 160, 170]);
    w.pass(ms(5001));
    assert_eq!(ups_and_downs(&mut w), (Vec::from([150, 160, 170]), Vec::from([0, 1, 2])));
    assert_eq!((w.metric("hot_slow_pages_total"), w.metric("cold_fast_pages_total")), (3.0, 20.0));
    assert_eq!((w.metric("scans_total"), w.checked), (1.0, 200));
    w.pass(ms(5000));
    assert_eq!(ups_and_downs(&mut w), (Vec::new(), Vec::new()), "the bits were cleared");
}

#[test]
fn a_batch_is_as_large_as_the_larger_group_and_filled_up() {
    let mut w = world("nimble");
    w.touch(20..100);
    w.touch([150, 160, 170]);
    w.pass(ms(5001));
    let (up, down) = ups_and_downs(&mut w);
    assert_eq!(down, (0..20).collect::<Vec<_>>(), "20 are cold");
    assert_eq!(up.len(), 20);
    assert_eq!(&up[..4], [150, 160, 170, 100], "hot ones first");
    assert_eq!(w.metric("filled_up_pages_total"), 17.0);
    // More hot slow pages than cold fast ones: the other hot ones stay where they are.
    let fast: Vec<u32> = (0..200).filter(|p| w.tier(*p) == Some(0)).collect();
    let slow: Vec<u32> = (0..200).filter(|p| w.tier(*p) == Some(1)).collect();
    w.touch(slow.iter().chain(&fast[5..]).copied());
    w.pass(ms(5000));
    assert_eq!(ups_and_downs(&mut w), (slow[..5].to_vec(), fast[..5].to_vec()));
}

#[test]
fn a_batch_is_no_larger_than_the_rate_allows() {
    let mut w = World::new("nimble:rate=1MiB", 4000);
    w.populate(0..8000);
    w.pass(ms(5001));
    // 5 MiB both ways.
    assert_eq!(w.metric("cold_fast_pages_total"), 4000.0);
    assert_eq!(w.metric("promotions_proposed_pages_total"), 640.0);
    assert_eq!(w.metric("demotions_proposed_pages_total"), 640.0);
}

#[test]
fn free_room_is_filled_without_anybody_leaving() {
    let mut w = world("nimble:fill=off");
    w.feed(&[Event::Freed { run: PageRun::between(0, 10) }]);
    w.touch(100..110);
    w.pass(ms(5001));
    assert_eq!(ups_and_downs(&mut w), ((100..110).collect(), Vec::new()));
}

#[test]
fn what_cannot_move_waits_for_the_next_scan() {
    let mut w = world("nimble:fill=off");
    w.touch([150]);
    w.outcome = MoveOutcome::Busy;
    w.pass(ms(5001));
    let (up, down) = ups_and_downs(&mut w);
    assert!(up.is_empty() && !down.is_empty(), "nobody left: no room");
    assert_eq!(w.tier(150), Some(1));
    w.outcome = MoveOutcome::Moved;
    w.touch([150]);
    w.pass(ms(5000));
    assert_eq!(ups_and_downs(&mut w).0, [150]);
}

#[test]
fn demotion_is_only_so_far_ahead() {
    let mut w = World::new("nimble:ahead=512", 4000);
    w.populate(0..8000);
    w.touch((4000..8000).step_by(2));
    w.pass(ms(5001));
    let mut free = 0i64;
    for (run, to, _) in core::mem::take(&mut w.moved) {
        free += if to == TierId::FAST { -i64::from(run.pages) } else { i64::from(run.pages) };
        assert!((0..=512).contains(&free), "{free}");
    }
    assert_eq!(w.metric("promotions_proposed_pages_total"), 4000.0);
    assert_eq!(w.metric("demotions_proposed_pages_total"), 4000.0);
}

#[test]
fn pages_are_huge_as_published_or_base_as_asked_for() {
    let base = World::new("nimble:pages=base", 10);
    assert!(base.engine.facts().base_pages);
    let mut w = World::new("nimble", 1024);
    assert!(!w.engine.facts().base_pages);
    (0..4).for_each(|region| w.populate_huge(region));
    w.touch([600, 1600]);
    w.pass(ms(5001));
    let (up, down) = ups_and_downs(&mut w);
    assert_eq!((up, down), ((1536..2048).collect(), (0..512).collect()));
    assert_eq!(w.checked, 4, "one bit for each folio");
}
