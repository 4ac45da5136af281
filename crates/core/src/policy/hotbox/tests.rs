//! Every rule of the policy, each shown to have been exercised.

use super::super::testing::{SLOW, World};
use crate::action::{Action, Scan};
use crate::event::{Event, Level, MoveOutcome};
use crate::types::*;
use alloc::vec::Vec;

const FAST_PAGES: u64 = 128;

/// 256 pages, the first 128 of them in fast memory; eviction keeps what is touched meanwhile.
fn world(spec: &str) -> World {
    let mut w = World::new(FAST_PAGES, spec);
    w.populate(PageRun::between(0, 256), false);
    for _ in 0..20 {
        w.feed(&[]);
    }
    w.done.clear();
    w
}

/// The time of the next block has come; whatever follows is carried out.
fn block(w: &mut World) {
    w.now.0 += 1_000_000;
    for _ in 0..4 {
        w.feed(&[]);
    }
}

fn scans(w: &World) -> Vec<Scan> {
    let scan = |action: &Action| match action {
        Action::Scan { scan, lane } if lane.0 == 3 => Some(*scan),
        _ => None,
    };
    w.done.iter().filter_map(scan).collect()
}

fn armed(w: &World) -> Vec<u32> {
    let run = |action: &Action| match action {
        Action::Arm { run, .. } => Some(*run),
        _ => None,
    };
    w.done.iter().filter_map(run).flat_map(|run| run.iter().map(|p| p.0)).collect()
}

/// Makes pages hot and armed: three blocks find them accessed or not.
fn heat(w: &mut World, pages: &[u32]) {
    for _ in 0..2 {
        w.touch(pages.iter().copied());
        block(w);
    }
}

#[test]
fn memory_is_local_first_and_eviction_keeps_some_free() {
    let w = world("hotbox");
    assert_eq!(w.tier(200), Some(SLOW), "fast memory was full");
    assert!(w.metric("kswapd_demoted_pages_total") >= 64.0);
    assert_eq!(w.used(), FAST_PAGES - 64, "the high watermark");
}

#[test]
fn slow_memory_is_scanned_in_blocks_by_turns() {
    let mut w = world("hotbox:batch=64KiB");
    for _ in 0..4 {
        block(&mut w);
    }
    let scans = scans(&w);
    assert!(scans.iter().all(|s| s.clear && s.skip_untouched && s.level == Level::Base));
    let pages: Vec<u32> = scans.iter().flat_map(|s| s.run.iter().map(|p| p.0)).collect();
    assert_eq!(pages, (0..64).collect::<Vec<_>>(), "16 pages each, what was evicted first");
    assert_eq!(w.metric("remote_blocks_total"), 4.0);
    // 192 pages of slow memory are 12 blocks.
    (0..9).for_each(|_| block(&mut w));
    assert_eq!(w.metric("remote_passes_total"), 1.0);
}

#[test]
fn a_page_is_hot_after_two_scans_that_found_it_accessed() {
    let mut w = world("hotbox");
    w.touch([200, 201]);
    block(&mut w);
    assert_eq!((armed(&w), w.metric("remote_raised_pages_total")), (Vec::new(), 2.0), "warm");
    w.touch([200]);
    block(&mut w);
    assert_eq!(armed(&w), [200]);
    assert_eq!(w.metric("remote_lowered_pages_total"), 1.0, "201 is cold again");
    w.touch([201]);
    block(&mut w);
    assert_eq!(armed(&w), [200], "201 is warm again, and 200 warm");
    assert_eq!(w.metric("armed_pages_total"), 1.0);
}

#[test]
fn as_many_scans_as_wanted_make_a_page_hot() {
    for (scans, wanted) in [(0, 1), (1, 1), (3, 3), (300, 254)] {
        let mut w = world(&alloc::format!("hotbox:scans={scans}"));
        for found in 1..=wanted {
            assert_eq!(armed(&w), [], "{scans}: {found}");
            w.touch([200]);
            block(&mut w);
        }
        assert_eq!(armed(&w), [200], "{scans}");
    }
}

#[test]
fn a_hot_page_moves_alone_at_its_next_touch() {
    let mut w = world("hotbox");
    heat(&mut w, &[200, 201]);
    assert_eq!((armed(&w), w.tier(200)), (alloc::vec![200, 201], Some(SLOW)));
    w.touch([201]);
    assert_eq!((w.tier(200), w.tier(201)), (Some(SLOW), Some(TierId::FAST)));
    let counts = ["armed_pages_touched_total", "promoted_in_fault_pages_total"];
    assert_eq!(counts.map(|name| w.metric(name)), [1.0, 1.0]);
    assert_eq!(w.metric("touched_when_not_hot_pages_total"), 0.0);
}

#[test]
fn a_page_stays_hot_while_it_is_armed_and_is_forgotten_where_it_moved() {
    let mut w = world("hotbox");
    heat(&mut w, &[200]);
    (0..4).for_each(|_| block(&mut w));
    w.touch([200]);
    assert_eq!(w.tier(200), Some(TierId::FAST), "nobody could access it while it was armed");
    assert_eq!(w.metric("touched_when_not_hot_pages_total"), 0.0);
    // What moved away and came back is not as hot as it was.
    heat(&mut w, &[210]);
    w.touch([210]);
    assert_eq!(w.tier(210), Some(TierId::FAST));
    let cause = crate::event::MoveCause::Reclaim;
    w.feed(&[Event::Moved { run: PageRun::single(PageId(210)), to: SLOW, cause }]);
    let before = w.metric("armed_pages_total");
    w.touch([210]);
    block(&mut w);
    assert_eq!(w.metric("armed_pages_total"), before);
}

#[test]
fn without_room_a_page_stays_and_eviction_is_woken() {
    let mut w = World::new(4, "hotbox");
    // Moves fail, and fast memory stays full.
    w.outcome = MoveOutcome::Busy;
    w.populate(PageRun::between(0, 8), false);
    (0..40).for_each(|_| w.feed(&[]));
    heat(&mut w, &[6]);
    let woken = w.metric("kswapd_woken_total");
    assert_eq!(w.used(), 4);
    w.touch([6]);
    assert_eq!((w.tier(6), w.metric("touched_without_room_pages_total")), (Some(SLOW), 1.0));
    assert!(w.metric("kswapd_woken_total") >= woken);
    // Armed again while it is hot, it moves once there is room.
    w.outcome = MoveOutcome::Moved;
    w.now.0 += 200_000_000;
    block(&mut w);
    assert!(w.used() < 4, "room was made");
    w.touch([6]);
    assert_eq!(w.metric("promoted_in_fault_pages_total"), 1.0);
}

#[test]
fn eviction_gives_accessed_pages_a_second_chance_and_looks_harder_under_pressure() {
    let mut w = World::new(FAST_PAGES, "hotbox");
    w.accessed.extend(0..16);
    w.populate(PageRun::between(0, FAST_PAGES as u32), false);
    (0..20).for_each(|_| w.feed(&[]));
    assert!((0..16).all(|page| w.tier(page) == Some(TierId::FAST)));
    assert!(w.metric("kswapd_kept_total") >= 16.0);
    assert!((16..=FAST_PAGES - 64).contains(&w.used()));
    // Everything is accessed: it looks at more and more of the lists until all of them are through.
    let mut busy = World::new(FAST_PAGES, "hotbox");
    busy.accessed.extend(0..FAST_PAGES as u32);
    busy.populate(PageRun::between(0, FAST_PAGES as u32), false);
    (0..20).for_each(|_| busy.feed(&[]));
    assert!(busy.metric("kswapd_checked_total") > w.metric("kswapd_checked_total"));
}

#[test]
fn eviction_keeps_more_free_where_answers_take_long() {
    let free = |answer: Nanos| {
        let mut w = World::new(1024, "hotbox:batch=8MiB");
        w.answer = answer;
        w.populate(PageRun::between(0, 2048), false);
        (0..40).for_each(|_| w.feed(&[]));
        assert_eq!(w.used(), 1024 - 64, "nothing has come");
        let hot: Vec<u32> = (1600..1800).collect();
        heat(&mut w, &hot);
        w.touch(hot);
        assert_eq!(w.metric("promoted_in_fault_pages_total"), 200.0);
        1024 - w.used()
    };
    assert!((32..=64).contains(&free(Nanos(1_000_000))));
    assert!((65..=96).contains(&free(Nanos(2_000_000_000))));
}

/// One window in which fast memory served `share` per cent.
fn window(w: &mut World, share: u64) {
    w.now.0 += 5_000_000_000;
    w.feed(&[Event::Counters { fast: share, slow: 100 - share }]);
}

/// Slow memory has been scanned as often as makes pages hot.
fn scanned(spec: &str) -> World {
    let mut w = world(spec);
    (0..4).for_each(|_| block(&mut w));
    assert!(w.metric("remote_passes_total") >= 2.0);
    w
}

#[test]
fn alike_windows_pause_everything_and_a_deviation_ends_it() {
    let mut w = scanned("hotbox");
    heat(&mut w, &[200, 201]);
    [60, 66, 62, 64].into_iter().for_each(|share| window(&mut w, share));
    assert_eq!(w.metric("pauses_total"), 0.0, "never three within 3 points");
    window(&mut w, 63);
    assert_eq!((w.metric("pauses_total"), w.metric("paused")), (1.0, 1.0));
    assert_eq!(w.engine.poll_timeout(), None, "nothing is scanned");
    // What was armed before stays where it is.
    w.touch([200]);
    assert_eq!((w.tier(200), w.metric("touched_while_paused_pages_total")), (Some(SLOW), 1.0));
    // Without moves it is 70, whatever it was with them.
    [70, 68, 72].into_iter().for_each(|share| window(&mut w, share));
    assert_eq!((w.metric("resumptions_total"), w.metric("paused")), (0.0, 1.0));
    window(&mut w, 66);
    assert_eq!((w.metric("resumptions_total"), w.metric("paused")), (1.0, 0.0));
    w.done.clear();
    block(&mut w);
    assert!(!scans(&w).is_empty());
    // Three more are needed for another pause.
    [59, 59].into_iter().for_each(|share| window(&mut w, share));
    assert_eq!(w.metric("pauses_total"), 1.0);
    window(&mut w, 59);
    assert_eq!((w.metric("pauses_total"), w.metric("windows_total")), (2.0, 12.0));
}

#[test]
fn nothing_pauses_before_anything_can_have_moved() {
    // 192 pages of slow memory are 12 blocks, one for each window.
    let mut w = world("hotbox:batch=64KiB");
    while w.metric("remote_passes_total") < 2.0 {
        assert_eq!(w.metric("pauses_total"), 0.0);
        window(&mut w, 50);
    }
    assert!(w.metric("windows_total") >= 20.0);
    (0..3).for_each(|_| window(&mut w, 50));
    assert_eq!(w.metric("pauses_total"), 1.0);
}

#[test]
fn counters_within_a_window_are_added_up() {
    let mut w = scanned("hotbox");
    for _ in 0..30 {
        w.now.0 += 1_000_000_000;
        w.feed(&[Event::Counters { fast: 1, slow: 0 }, Event::Counters { fast: 0, slow: 1 }]);
    }
    assert_eq!((w.metric("windows_total"), w.metric("pauses_total")), (6.0, 1.0));
}

#[test]
fn the_variant_never_pauses() {
    let mut w = world("hotbox-nothrottle");
    assert!(!w.engine.facts().needs.counters);
    (0..6).for_each(|_| window(&mut w, 50));
    assert!(w.engine.poll_timeout().is_some());
}

#[test]
fn huge_pages_are_split_when_they_come() {
    let mut w = World::new(4096, "hotbox");
    assert!(w.engine.facts().base_pages && w.engine.facts().in_kernel);
    w.populate(Region(0).run(), true);
    w.feed(&[]);
    let split = |a: &Action| matches!(a, Action::Split { region: Region(0), .. });
    assert_eq!((w.count(split), w.metric("folios_split_total")), (1, 1.0));
    assert!(!w.engine.view().state(PageId(7)).is_huge());
}

#[test]
fn memory_that_goes_or_moves_takes_its_state_along() {
    let mut w = world("hotbox");
    w.touch([200, 210]);
    block(&mut w);
    w.feed(&[Event::Remapped { from: PageRun::between(200, 204), to: PageId(600) }]);
    w.feed(&[Event::Freed { run: PageRun::single(PageId(210)) }]);
    w.engine.handle_events(
        w.now,
        &[Event::Populated { run: PageRun::single(PageId(210)), tier: SLOW, huge: false }],
    );
    w.touch([600, 210]);
    block(&mut w);
    assert_eq!(armed(&w), [600], "210 is new and warm");
}

#[test]
fn eager_moves_hot_pages_at_the_scan_that_finds_them() {
    let mut w = world("hotbox-eager");
    assert!(!w.engine.facts().needs.faults);
    w.touch([200, 201]);
    block(&mut w);
    assert_eq!(w.tier(200), Some(SLOW), "warm");
    w.touch([200]);
    block(&mut w);
    assert_eq!([200, 201].map(|page| w.tier(page)), [Some(TierId::FAST), Some(SLOW)]);
    assert_eq!((armed(&w), w.metric("promoted_at_once_pages_total")), (Vec::new(), 1.0));
    assert_eq!(w.metric("promoted_in_fault_pages_total"), 0.0);
}

#[test]
fn eager_wakes_eviction_where_there_is_no_room() {
    let mut w = World::new(4, "hotbox-eager");
    w.outcome = MoveOutcome::Busy;
    w.populate(PageRun::between(0, 8), false);
    (0..40).for_each(|_| w.feed(&[]));
    heat(&mut w, &[6]);
    assert_eq!((w.used(), w.tier(6)), (4, Some(SLOW)));
    assert!(w.metric("touched_without_room_pages_total") >= 1.0);
    w.outcome = MoveOutcome::Moved;
    w.now.0 += 200_000_000;
    block(&mut w);
    heat(&mut w, &[6]);
    assert_eq!(w.tier(6), Some(TierId::FAST));
}
