//! Every rule of the policy, each shown to have been exercised.

use super::balance::{Balance, Direction};
use super::units::{BINS, Side, Units};
use crate::event::{Event, MoveCause, MoveOutcome};
use crate::policy::testing::{SLOW, World};
use crate::rng::Rng;
use crate::types::*;
use alloc::vec::Vec;

fn world(fast: u64) -> World {
    World::new(fast, "colloid:cool=1000")
}

/// An interval in which so many reads of either side took so long.
fn reads(w: &mut World, fast: (u64, u64), slow: (u64, u64)) {
    let of = |tier, (reads, ns): (u64, u64)| Event::ReadLatency {
        tier,
        reads,
        waited: Nanos(reads * ns),
    };
    w.feed(&[of(TierId::FAST, fast), of(SLOW, slow)]);
}

#[test]
fn the_search_halves_what_is_left_between_its_marks() {
    let mut balance = Balance::new(0.05, 0.01);
    let up = balance.shift(0.2, 100.0, 300.0).unwrap();
    assert_eq!(up.direction, Direction::Up);
    assert!((up.share - 0.4).abs() < 1e-9, "from 0.2 to the middle of it and 1: {up:?}");
    let down = balance.shift(0.6, 300.0, 100.0).unwrap();
    assert_eq!(down.direction, Direction::Down);
    assert!((down.share - 0.2).abs() < 1e-9, "to 0.4: {down:?}");
    assert_eq!(balance.shift(0.4, 100.0, 104.0), None, "balanced");
    assert!(balance.shift(0.4, 100.0, 106.0).is_some());
    assert_eq!(balance.resets, 0);
}

#[test]
fn marks_that_have_met_are_taken_back_where_the_program_has_changed() {
    let mut balance = Balance::new(0.05, 0.01);
    balance.shift(0.5, 100.0, 300.0);
    balance.shift(0.505, 300.0, 100.0);
    assert_eq!(balance.resets, 1, "they have met");
    // Now fast memory is slower with hardly anything in it: down to half of that.
    let mut balance = Balance::new(0.05, 0.01);
    balance.shift(0.5, 100.0, 300.0);
    let down = balance.shift(0.3, 300.0, 100.0).unwrap();
    assert_eq!((balance.resets, down.direction), (1, Direction::Down));
    assert!((down.share - 0.15).abs() < 1e-9, "{down:?}");
    let up = balance.shift(0.9, 100.0, 300.0).unwrap();
    assert_eq!(balance.resets, 2);
    assert!((up.share - 0.05).abs() < 1e-9, "{up:?}");
}

/// A search on a machine whose latencies are linear in what they serve ends where they are equal.
#[test]
fn the_search_ends_where_latencies_are_equal() {
    let mut balance = Balance::new(0.05, 0.01);
    let mut share = 0.95;
    let latencies = |share: f64| (80.0 + 400.0 * share, 150.0 + 200.0 * (1.0 - share));
    let mut steps = 0;
    while let (fast, slow) = latencies(share)
        && let Some(shift) = balance.shift(share, fast, slow)
    {
        share += if shift.direction == Direction::Up { shift.share } else { -shift.share };
        steps += 1;
        assert!(steps < 20, "at {share}");
    }
    let (fast, slow) = latencies(share);
    assert!((fast - slow).abs() <= 0.05 * fast && steps > 1, "{fast} and {slow} at {share}");
}

#[test]
fn hot_pages_come_in_while_fast_memory_is_the_faster_one() {
    let mut w = world(4);
    w.populate(PageRun::between(0, 8), false);
    w.sample([6], 6);
    w.sample([7], 3);
    w.sample([0], 1);
    reads(&mut w, (100_000, 80), (900_000, 300));
    // Half of 0.9 has to move: 0.45 of samples. 6 has 0.6 of them, 7 has 0.3.
    let mut moved = w.moves();
    moved.sort_unstable();
    assert_eq!(moved, [(1, 1), (7, 0)], "7 for the one that is cold for longest");
    assert_eq!(w.metric("shifts_to_fast_total"), 1.0);
    assert_eq!(w.tier(6), Some(SLOW), "it would be too much");
}

#[test]
fn hot_pages_leave_while_fast_memory_is_the_slower_one() {
    let mut w = world(4);
    w.populate(PageRun::between(0, 8), false);
    w.sample([0], 8);
    w.sample([1], 4);
    w.sample([2], 2);
    w.sample([6], 2);
    reads(&mut w, (900_000, 500), (100_000, 200));
    // From 0.9 to 0.45: the hottest has half of all samples, the next a quarter, one more an eighth.
    assert_eq!(w.moves(), [(1, 1), (2, 1)]);
    assert_eq!(
        (w.metric("shifts_to_slow_total"), w.metric("demotions_proposed_pages_total")),
        (1.0, 2.0)
    );
    assert_eq!(w.moves(), [], "without news nothing moves");
}

#[test]
fn where_latencies_are_equal_or_unknown_nothing_moves() {
    let mut w = world(4);
    w.populate(PageRun::between(0, 8), false);
    w.sample([6, 7], 6);
    assert_eq!(w.moves(), [], "nobody told of latencies");
    reads(&mut w, (500_000, 300), (500_000, 310));
    assert_eq!(w.moves(), []);
    assert_eq!(w.metric("fast_read_latency_ns"), 300.0);
    // What is not read is as slow as it is idle: 80 ns.
    let mut idle = world(4);
    idle.populate(PageRun::between(0, 8), false);
    idle.sample([6, 7], 6);
    reads(&mut idle, (0, 0), (1_000_000, 300));
    assert_eq!(idle.metric("samples_total"), 12.0);
    assert_eq!(idle.moves().iter().filter(|(_, to)| *to == 0).count(), 1, "half of the samples");
    assert_eq!(idle.metric("fast_read_latency_ns"), 80.0);
}

#[test]
fn no_more_bytes_move_than_the_reads_that_shift() {
    let mut w = world(600);
    w.populate(PageRun::between(0, 600), false);
    w.populate(PageRun::between(1024, 1024 + 600), false);
    w.sample(1024..1624, 4);
    // 0.25 of 32,768 reads of 64 bytes are 128 pages, and two folios more are allowed to gather.
    for _ in 0..20 {
        reads(&mut w, (16_384, 80), (16_384, 300));
        let moved = w.moves().len();
        assert!(moved <= 128, "{moved}");
    }
    assert!(w.metric("promotions_proposed_pages_total") > 300.0);
}

#[test]
fn folios_wait_until_the_limit_has_gathered() {
    let mut w = world(4 * 512);
    (0..8).for_each(|region| w.populate(Region(region).run(), true));
    (0..8).for_each(|region| w.sample([region * 512], if region < 4 { 1 } else { 4 }));
    let mut waited = 0;
    loop {
        reads(&mut w, (8_192, 80), (8_192, 300));
        if !w.moves().is_empty() {
            break;
        }
        waited += 1;
        assert!(waited < 100);
    }
    assert!(waited > 3, "128 KiB a quantum, 4 MiB for both: {waited}");
}

#[test]
fn what_could_not_move_and_what_others_moved_is_known() {
    let mut w = world(4);
    w.populate(PageRun::between(0, 8), false);
    w.sample([6], 2);
    w.sample([7], 2);
    w.outcome = MoveOutcome::Busy;
    reads(&mut w, (0, 80), (1_000_000, 300));
    assert!(!w.moves().is_empty());
    assert_eq!(w.tier(6), Some(SLOW));
    w.outcome = MoveOutcome::Moved;
    reads(&mut w, (0, 80), (1_000_000, 300));
    w.moves();
    assert_eq!([6, 7].iter().filter(|page| w.tier(**page) == Some(TierId::FAST)).count(), 1);
    let cold: Vec<u32> = (0..6).filter(|page| w.tier(*page) == Some(SLOW)).collect();
    let cause = MoveCause::Unknown;
    w.feed(&[Event::Moved { run: PageRun::single(PageId(cold[0])), to: TierId::FAST, cause }]);
    assert_eq!(w.used(), 5, "overfilled");
    w.moves();
    assert_eq!(w.used(), 4);
}

/// Lists and shares beside counts that are halved one by one.
#[test]
fn lists_hold_what_looking_at_each_unit_finds() {
    let w = {
        let mut w = world(30);
        w.populate(PageRun::between(0, 64), false);
        w
    };
    let view = w.engine.view();
    let mut units = Units::new(40, PageCount(64));
    units.populate(PageRun::between(0, 64), false, &view);
    let (mut exact, mut rng) = ([0u32; 64], Rng::new(3));
    for _ in 0..20_000 {
        let page = rng.below(64).min(rng.below(64)) as u32;
        units.sample(PageId(page), &view);
        exact[page as usize] += 1;
        if exact[page as usize] >= 40 {
            exact.iter_mut().for_each(|count| *count /= 2);
        }
        if rng.below(100) == 0 {
            let mut listed = 0;
            for (side, pages) in [(Side::Fast, 0..30), (Side::Slow, 30..64)] {
                for bin in 0..BINS {
                    for page in units.in_list(side, bin) {
                        let count = exact[page.index()];
                        assert!(pages.contains(&page.0));
                        assert_eq!((32 - count.leading_zeros()) as usize, bin, "{page:?}");
                        listed += 1;
                    }
                }
            }
            assert_eq!(listed, 64);
        }
    }
    assert!(units.coolings() > 20, "{}", units.coolings());
    let total: f64 = (0..64).map(|page| units.share(PageId(page))).sum();
    assert!((0.8..=1.001).contains(&total), "{total}: less what halving rounds away");
}

#[test]
fn folios_that_split_and_collapse_keep_their_samples() {
    let mut w = world(1024);
    w.populate(Region(0).run(), true);
    let view = w.engine.view();
    let mut units = Units::new(u16::MAX, PageCount(1024));
    units.populate(Region(0).run(), true, &view);
    (0..1024).for_each(|_| units.sample(PageId(5), &view).unwrap());
    units.split(Region(0), &view);
    assert_eq!(units.unit_of(PageId(7)), Some(PageId(7)));
    assert!((units.share(PageId(7)) - 1.0 / 512.0).abs() < 1e-9);
    units.sample(PageId(7), &view);
    units.collapse(Region(0), &view);
    assert_eq!(units.unit_of(PageId(7)), Some(PageId(0)));
    assert!((units.share(PageId(0)) - 1.0).abs() < 1e-9);
    units.forget(PageRun::between(0, 100), &view);
    assert_eq!((units.unit_of(PageId(7)), units.unit_of(PageId(200))), (None, Some(PageId(200))));
}
