//! Every rule of the policy, each shown to have been exercised.

use crate::action::Action;
use crate::event::{Backing, Event, MoveCause, MoveOutcome, SampleKind};
use crate::policy::testing::{SLOW, World};
use crate::types::*;
use alloc::vec::Vec;

fn world(fast: u64) -> World {
    World::new(fast, "hemem")
}

fn stores(w: &mut World, page: u32, times: usize) {
    let sample = w.sample_of(page, SampleKind::Store);
    w.feed(&alloc::vec![sample; times]);
}

fn hot(w: &World) -> u64 {
    w.classes()[0]
}

#[test]
fn a_page_is_hot_at_8_loads_or_4_stores() {
    let mut w = world(100);
    w.populate(PageRun::between(0, 10), false);
    w.sample([0], 7);
    stores(&mut w, 1, 3);
    assert_eq!(hot(&w), 0);
    w.sample([0], 1);
    assert_eq!(hot(&w), 1);
    stores(&mut w, 1, 1);
    assert_eq!((hot(&w), Some(w.classes())), (2, Some([2, 0, 8])));
    w.sample([50], 9);
    assert_eq!((hot(&w), w.metric("samples_unknown_page_total")), (2, 9.0));
}

#[test]
fn at_18_of_one_kind_every_count_is_halved() {
    let mut w = world(100);
    w.populate(PageRun::between(0, 10), false);
    w.sample([0], 17);
    w.sample([1], 15);
    w.sample([2], 17);
    stores(&mut w, 3, 7);
    w.moves();
    assert_eq!((hot(&w), w.metric("coolings_total")), (4, 0.0));
    w.sample([0], 1);
    assert_eq!(w.metric("coolings_total"), 1.0);
    w.moves();
    // 9, 7, 8 loads and 3 stores: nobody sampled the last three since.
    assert_eq!(hot(&w), 2);
    w.sample([1], 1);
    assert_eq!(hot(&w), 3, "7 and 1 are 8");
    w.sample([0], 9);
    assert_eq!(w.metric("coolings_total"), 2.0, "9 and 9 are 18");
    w.moves();
    assert_eq!(hot(&w), 1, "9, 4, 4");
}

fn map(w: &mut World, start: u32, end: u32, backing: Backing) {
    let run = PageRun::between(start, end);
    w.feed(&[Event::Mapped { run, backing, process: ProcessId(0) }]);
}

#[test]
fn stacks_and_small_allocations_halve_no_counts() {
    // Less than 32 pages are small.
    let mut w = world(1024);
    map(&mut w, 0, 400, Backing::Anonymous);
    map(&mut w, 400, 431, Backing::Anonymous);
    map(&mut w, 431, 531, Backing::Stack);
    w.populate(PageRun::between(0, 531), false);
    w.sample([0], 8);
    stores(&mut w, 430, 100);
    stores(&mut w, 431, 100);
    w.moves();
    assert_eq!((hot(&w), w.metric("coolings_total")), (3, 0.0));
    stores(&mut w, 399, 18);
    assert_eq!(w.metric("coolings_total"), 1.0);
    w.moves();
    assert_eq!(hot(&w), 3, "4 of the first page; the others are as hot as they are used");
}

#[test]
fn where_all_is_small_nothing_is() {
    let mut w = world(1024);
    (0..8).for_each(|i| map(&mut w, 16 * i, 16 * i + 16, Backing::Heap));
    w.populate(PageRun::between(0, 128), false);
    w.sample([20], 18);
    assert_eq!(w.metric("coolings_total"), 1.0);
    map(&mut w, 128, 300, Backing::Heap);
    w.populate(PageRun::between(128, 300), false);
    w.sample([20], 18);
    assert_eq!(w.metric("coolings_total"), 1.0);
    // What is left of the large one is small again, and so is everything.
    w.feed(&[Event::Unmapped { run: PageRun::between(140, 295) }]);
    w.sample([130], 18);
    assert_eq!(w.metric("coolings_total"), 2.0);
    let from = PageRun::between(128, 140);
    w.feed(&[Event::Remapped { from, to: PageId(600) }]);
    w.sample([601], 18);
    assert_eq!(w.metric("coolings_total"), 3.0);
}

#[test]
fn what_is_hot_for_a_moment_empties_fast_memory_of_8_mib_at_most() {
    let mut w = world(20 * 512);
    (0..40).for_each(|region| w.populate(Region(region).run(), true));
    (20..40).for_each(|region| w.sample([region * 512], 8));
    // Twenty want room.
    assert_eq!(w.moves().iter().filter(|(_, to)| *to == 1).count(), 4 * 512);
    // By now they are cold again.
    w.sample([20 * 512], 18);
    let moved = w.moves();
    assert_eq!(moved.iter().filter(|(_, to)| *to == 1).count(), 0, "there is room for the hot one");
    let ups = w.done.iter().filter(|a| matches!(a, Action::Migrate { to: TierId::FAST, .. }));
    assert_eq!(ups.count(), 1);
}

#[test]
fn a_huge_page_is_counted_as_one() {
    let mut w = world(2048);
    w.populate(Region(0).run(), true);
    (0..8).for_each(|page| w.sample([page * 60], 1));
    assert_eq!(hot(&w), 512);
}

#[test]
fn hot_pages_go_up_in_the_order_in_which_they_became_hot() {
    let mut w = world(10);
    w.populate(PageRun::between(0, 14), false);
    for page in [12, 10, 13] {
        w.sample([page], 8);
    }
    // Fast memory is full of cold pages: the ones that were cold first make room.
    assert_eq!(w.moves(), [(0, 1), (1, 1), (2, 1)]);
    assert_eq!(w.moves(), [(12, 0), (10, 0), (13, 0)]);
    assert_eq!(w.moves(), [], "nothing else is hot");
    assert_eq!(w.metric("promotions_proposed_pages_total"), 3.0);
}

#[test]
fn a_page_that_was_hot_goes_to_the_end_of_the_cold_ones() {
    let mut w = world(3);
    w.populate(PageRun::between(0, 5), false);
    w.sample([0], 8);
    w.sample([3], 18);
    assert_eq!(w.metric("coolings_total"), 1.0);
    assert_eq!(w.moves(), [(1, 1)]);
    assert_eq!(w.moves(), [(3, 0)]);
    w.sample([4], 8);
    assert_eq!(w.moves(), [(2, 1)], "0 was hot until the halving");
    assert_eq!(w.moves(), [(4, 0)]);
    w.sample([1], 8);
    assert_eq!(w.moves(), [(0, 1)]);
}

#[test]
fn a_hot_set_larger_than_fast_memory_ends_migration() {
    let mut w = world(4);
    w.populate(PageRun::between(0, 8), false);
    (0..8).for_each(|page| w.sample([page], 8));
    assert_eq!((w.moves(), hot(&w)), (Vec::new(), 8));
    assert!(w.metric("halts_total") >= 1.0);
    // Two halvings by one page make the others cold.
    w.sample([0], 10);
    assert_eq!(w.moves(), [], "4 of the hot ones outside are cold as well");
    assert_eq!(hot(&w), 1);
}

#[test]
fn what_could_not_move_is_tried_again() {
    let mut w = world(4);
    w.populate(PageRun::between(0, 6), false);
    w.sample([5], 8);
    w.outcome = MoveOutcome::Busy;
    assert_eq!(w.moves(), [(0, 1)]);
    assert_eq!(w.moves(), [(1, 1)], "the first has gone to the end of the cold ones");
    w.outcome = MoveOutcome::Moved;
    assert_eq!(w.moves(), [(2, 1)]);
    assert_eq!(w.moves(), [(5, 0)]);
}

#[test]
fn memory_that_goes_or_moves_takes_its_counts_along() {
    let mut w = world(4096);
    w.populate(Region(0).run(), true);
    w.populate(PageRun::between(512, 600), false);
    w.sample([3], 8);
    w.sample([520], 8);
    assert_eq!(hot(&w), 513);
    w.feed(&[Event::Remapped { from: PageRun::between(512, 600), to: PageId(1030) }]);
    assert_eq!(hot(&w), 513);
    w.feed(&[Event::Unmapped { run: PageRun::between(1038, 1039) }]);
    assert_eq!(hot(&w), 512, "520 became 1038");
    w.feed(&[Event::Unmapped { run: PageRun::between(0, 100) }]);
    assert_eq!(Some(w.classes()), Some([412, 0, 87]), "what is left is as hot");
    w.populate(PageRun::between(0, 100), false);
    assert_eq!(hot(&w), 412, "new memory is cold");
}

#[test]
fn moves_by_others_are_noticed() {
    let mut w = world(4);
    w.populate(PageRun::between(0, 6), false);
    w.sample([0], 8);
    let cause = MoveCause::Unknown;
    w.feed(&[Event::Moved { run: PageRun::single(PageId(0)), to: SLOW, cause }]);
    assert_eq!(w.moves(), [(0, 0)], "there is room");
    w.feed(&[Event::Moved { run: PageRun::single(PageId(5)), to: TierId::FAST, cause }]);
    assert_eq!(w.moves(), [(1, 1)], "fast memory was overfilled by one");
}
