//! Every rule of MULTI-CLOCK, each shown to have been exercised.

use crate::event::Event;
use crate::policy::kernel::testing::{By, World, ms};
use crate::types::*;
use alloc::vec::Vec;

/// 1000 pages of fast memory, some free, and 100 pages of slow.
fn world(spec: &str, free: u32) -> World {
    let mut w = World::new(spec, 1000);
    w.populate(0..1100);
    w.feed(&[Event::Freed { run: PageRun::between(0, free) }]);
    w
}

#[test]
fn a_page_accessed_in_two_looks_is_promoted() {
    let mut w = world("multi-clock", 50);
    w.touch([1000, 1001]);
    w.pass(ms(1001));
    assert_eq!((w.moves().len(), w.metric("marked_total")), (0, 2.0));
    w.touch([1000]);
    w.pass(ms(1000));
    assert_eq!(w.moves(), [(1000, 0, By::Worker)]);
    assert_eq!(w.metric("unmarked_total"), 99.0 + 100.0, "1001 has lost its mark");
    w.touch([1001]);
    w.pass(ms(1000));
    assert!(w.moves().is_empty());
    w.touch([1001]);
    w.pass(ms(1000));
    assert_eq!(w.moves(), [(1001, 0, By::Worker)]);
    assert_eq!(w.metric("promotions_proposed_pages_total"), 2.0);
}

#[test]
fn a_look_takes_so_many_pages_of_each_list() {
    let mut w = world("multi-clock:batch=10", 50);
    w.touch(999..1100);
    w.pass(ms(1001));
    assert_eq!((w.metric("looks_total"), w.metric("checked_total")), (1.0, 10.0));
    w.pass(ms(10_000));
    assert_eq!(w.metric("checked_total"), 110.0);
    assert_eq!(w.metric("marked_total"), 101.0, "each once: who was looked at goes to the end");
}

#[test]
fn without_room_a_page_is_active_and_the_kernel_demotes() {
    let mut w = world("multi-clock", 0);
    w.busy = 0..700;
    w.touch([1000]);
    w.pass(ms(1001));
    w.touch([1000]);
    w.pass(ms(1000));
    assert_eq!(w.metric("promotions_without_room_total"), 1.0);
    let moves = w.moves();
    assert!(!moves.is_empty() && moves.iter().all(|m| m.0 >= 700 && m.0 < 1000 && m.1 == 1));
    assert!(w.metric("kswapd_demoted_pages_total") >= 3.0);
    w.touch([1000]);
    w.pass(ms(1000));
    assert_eq!(w.moves(), [(1000, 0, By::Worker)], "active: once more is enough");
}

#[test]
fn an_active_page_that_is_not_accessed_is_inactive_again() {
    let mut w = world("multi-clock", 0);
    w.busy = 0..999;
    w.touch([1000]);
    w.pass(ms(1001));
    w.touch([1000]);
    w.pass(ms(1000));
    assert_eq!(w.metric("promotions_without_room_total"), 1.0);
    w.pass(ms(1000));
    assert!(w.metric("deactivated_total") >= 1.0);
    w.feed(&[Event::Freed { run: PageRun::between(0, 50) }]);
    w.moves();
    w.touch([1000]);
    w.pass(ms(1000));
    assert!(w.moves().iter().all(|m| m.0 != 1000), "it has to be accessed twice");
}

#[test]
fn folios_are_looked_at_and_moved_as_one() {
    let mut w = World::new("multi-clock", 1536);
    (0..3).for_each(|region| w.populate_huge(region));
    assert_eq!(w.tier(1024), Some(1), "the low watermark stays free");
    for _ in 0..2 {
        w.touch([1100]);
        w.pass(ms(1001));
    }
    assert_eq!(w.metric("checked_total"), 2.0);
    w.feed(&[Event::Unmapped { run: Region(0).run() }]);
    w.touch([1030]);
    w.pass(ms(1000));
    let moves: Vec<u32> = w.moves().iter().filter(|m| m.1 == 0).map(|m| m.0).collect();
    assert_eq!(moves, (1024..1536).collect::<Vec<_>>());
}
