//! Every rule of TMTS, each shown to have been exercised.

use crate::event::{Event, Sample, SampleKind};
use crate::policy::kernel::testing::{By, World, ms};
use crate::types::*;
use alloc::vec::Vec;

const SPEC: &str = "tmts:scan=10s:wakeup=1s";

/// 100 pages of fast memory and 100 of slow.
fn world() -> World {
    let mut w = World::new(SPEC, 100);
    w.populate(0..200);
    w
}

fn sample(w: &mut World, page: u32) {
    let tier = TierId(w.tier(page).unwrap());
    let kind = SampleKind::LoadMiss;
    w.feed(&[Event::Sample(Sample::new(PageId(page), kind, tier, ProcessId(0)))]);
}

#[test]
fn one_sample_promotes_as_far_as_there_is_room() {
    let mut w = world();
    w.feed(&[Event::Freed { run: PageRun::between(0, 2) }]);
    for page in [150, 150, 50, 160, 170] {
        sample(&mut w, page);
    }
    assert_eq!(w.metric("hot_by_sample_total"), 3.0);
    w.pass(ms(1001));
    assert_eq!(w.moves(), [(150, 0, By::Worker), (160, 0, By::Worker)], "nothing is idle yet");
}

#[test]
fn two_scans_in_a_row_promote() {
    let mut w = world();
    w.feed(&[Event::Freed { run: PageRun::between(0, 10) }]);
    w.touch([150, 160]);
    w.pass(ms(10_001));
    assert_eq!(w.metric("hot_by_scans_total"), 0.0);
    w.touch([150]);
    w.pass(ms(10_000));
    assert_eq!(w.metric("hot_by_scans_total"), 1.0);
    w.touch([160]);
    w.pass(ms(10_000));
    let up: Vec<u32> = w.moves().iter().filter(|m| m.1 == 0).map(|m| m.0).collect();
    assert_eq!(up, [150], "160 was not accessed in a row");
}

#[test]
fn the_threshold_is_the_least_age_at_which_few_pages_are_accessed_again() {
    let mut w = World::new(&alloc::format!("{SPEC}:target=10%"), 1000);
    w.populate(0..200);
    // 0..90 are accessed all the time, 90..100 every fourth time, the others never.
    w.busy = 0..90;
    for round in 0..12 {
        if round % 4 == 0 {
            w.touch(90..100);
        }
        w.pass(ms(10_001));
    }
    // Ten of a hundred come back at an age of 4: that is within the target, but only just.
    assert_eq!(w.metric("threshold_scans"), 2.0);
    assert_eq!(w.metric("demotions_proposed_pages_total") as usize, w.moves().len());
    assert!((0..90).all(|page| w.tier(page) == Some(0)));
    assert!((100..200).all(|page| w.tier(page) == Some(1)));
    let mut w = World::new(&alloc::format!("{SPEC}:target=5%"), 1000);
    w.populate(0..200);
    w.busy = 0..90;
    for round in 0..12 {
        if round % 4 == 0 {
            w.touch(90..100);
        }
        w.pass(ms(10_001));
        // In the rounds in which they come back, their age is above the threshold.
        if round % 4 == 1 && round > 4 {
            assert_eq!(w.metric("threshold_scans"), 4.0, "{round}");
        }
    }
}

#[test]
fn where_promotions_wait_the_oldest_idle_pages_leave() {
    let mut w = World::new(&alloc::format!("{SPEC}:least-age=100"), 100);
    w.populate(0..200);
    w.busy = 0..80;
    w.pass(ms(10_001));
    w.touch(80..90);
    w.pass(ms(10_000));
    assert!(w.moves().is_empty(), "nothing is as old as that");
    (150..153).for_each(|page| sample(&mut w, page));
    w.pass(ms(2002));
    let moves = w.moves();
    let (down, up): (Vec<_>, Vec<_>) = moves.into_iter().partition(|m| m.1 == 1);
    assert_eq!(down.iter().map(|m| m.0).collect::<Vec<_>>(), [90, 91, 92], "idle for longest");
    assert_eq!(up.iter().map(|m| m.0).collect::<Vec<_>>(), [150, 151, 152]);
    assert_eq!(w.metric("demoted_for_room_pages_total"), 3.0);
}

#[test]
fn folios_are_split_before_they_are_demoted() {
    let mut w = World::new(SPEC, 2048);
    (0..2).for_each(|region| w.populate_huge(region));
    for _ in 0..6 {
        w.touch([100]);
        w.pass(ms(10_001));
    }
    assert_eq!(w.metric("splits_proposed_total"), 1.0);
    assert_eq!((w.tier(100), w.tier(512), w.tier(1023)), (Some(0), Some(1), Some(1)));
    assert_eq!(w.metric("demotions_proposed_pages_total"), 512.0);
    let mut whole = World::new("tmts:scan=10s:wakeup=1s:split=off", 2048);
    (0..2).for_each(|region| whole.populate_huge(region));
    for _ in 0..6 {
        whole.touch([100]);
        whole.pass(ms(10_001));
    }
    assert_eq!(whole.metric("splits_proposed_total"), 0.0);
    assert!(whole.engine.view().state(PageId(600)).is_huge());
    assert_eq!(whole.tier(600), Some(1));
}
