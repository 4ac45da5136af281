//! Demotion by generations, each rule shown to have been exercised.

use crate::policy::kernel::testing::{By, World, ms};
use crate::types::*;

/// 1000 pages of fast memory that are full, of which nobody has accessed any since, and 100 of
/// slow, all of them armed.
fn full() -> World {
    let mut w = World::new("autonuma:lru=generations:scan-size=16MiB:ample=1TiB", 1000);
    w.populate(0..1100);
    w.scan();
    w
}

#[test]
fn walks_make_generations_and_the_oldest_pages_leave() {
    let mut w = full();
    w.touch([1000]);
    assert_eq!((w.metric("hint_faults_without_room_total"), w.tier(1000)), (1.0, Some(1)));
    w.pass(ms(1));
    assert_eq!(w.metric("kswapd_woken_total"), 1.0);
    assert!(w.metric("kswapd_walks_total") >= 1.0, "all were young");
    let moves = w.moves();
    assert!((3..=64).contains(&moves.len()), "{}", moves.len());
    assert!(moves.iter().all(|m| m.0 < 64 && m.1 == 1 && m.2 == By::Worker), "the first to come");
    assert_eq!(w.metric("kswapd_demoted_pages_total"), moves.len() as f64);
    w.touch([1001]);
    assert_eq!(w.moves(), [(1001, 0, By::Fault)], "now there is room");
}

#[test]
fn who_was_accessed_before_a_walk_is_young() {
    let mut w = full();
    w.busy = 0..700;
    w.touch([1000]);
    w.pass(ms(1));
    let moves = w.moves();
    assert!(!moves.is_empty() && moves.iter().all(|m| (700..999).contains(&m.0)));
    assert_eq!(w.metric("kswapd_kept_total"), 0.0, "none was taken out");
}

#[test]
fn who_was_accessed_since_stays_and_its_neighbours_are_looked_at() {
    let mut w = full();
    w.touch([1000]);
    w.pass(ms(1));
    let (gone, walks) = (w.moves().len() as u32, w.metric("kswapd_walks_total"));
    // The next to leave, and one of the same 64 far behind in the generation.
    w.touch(gone..gone + 64);
    let checked = w.checked;
    let mut taken = 0;
    while w.metric("kswapd_kept_total") == 0.0 && taken < 90 {
        w.touch([1001 + taken]);
        w.pass(ms(1));
        taken += 1;
    }
    assert_eq!(w.metric("kswapd_walks_total"), walks, "there are old pages enough");
    assert!(w.metric("kswapd_kept_total") > 0.0);
    assert!(w.checked > checked + w.metric("kswapd_kept_total") as u64);
    let moved = w.moves();
    let demoted: alloc::vec::Vec<u32> = moved.iter().filter(|m| m.1 == 1).map(|m| m.0).collect();
    assert!(demoted.iter().all(|page| !(gone..gone + 64).contains(page)), "{demoted:?}");
}

#[test]
fn where_everything_is_accessed_it_rests() {
    let mut w = full();
    w.busy = 0..1100;
    w.touch([1000]);
    w.pass(ms(10));
    assert_eq!((w.metric("kswapd_rests_total"), w.moves().len()), (1.0, 0));
    assert!(w.metric("kswapd_walks_total") > 1.0);
    w.pass(ms(95));
    assert_eq!(w.metric("kswapd_rests_total"), 2.0, "again after 100 ms");
}

#[test]
fn it_sleeps_only_once_there_is_room() {
    let mut w = full();
    w.outcome = crate::event::MoveOutcome::Busy;
    w.touch([1000]);
    w.pass(ms(10));
    assert!(w.metric("kswapd_demoted_pages_total") > 64.0, "more than there is to make room for");
    assert_eq!(w.tier(0), Some(0));
    w.outcome = crate::event::MoveOutcome::Moved;
    w.moves();
    w.pass(ms(200));
    let moves = w.moves();
    assert!(!moves.is_empty() && moves.iter().all(|m| w.tier(m.0) == Some(1)));
    assert_eq!(w.metric("kswapd_woken_total"), 1.0, "by the first fault alone");
}

#[test]
fn folios_leave_whole_and_memory_that_goes_is_forgotten() {
    let mut w = World::new("autonuma:lru=generations:ample=1TiB", 2048);
    (0..5).for_each(|region| w.populate_huge(region));
    assert_eq!([1024, 1536].map(|p| w.tier(p)), [Some(0), Some(1)], "the watermark");
    w.feed(&[crate::Event::Unmapped { run: Region(0).run() }]);
    w.populate(0..512);
    w.scan();
    w.busy = 0..512;
    w.touch([1536]);
    w.pass(ms(10));
    let moves = w.moves();
    assert_eq!(moves.len(), 512, "room for a folio");
    assert!(moves.iter().all(|m| (512..1024).contains(&m.0) && m.1 == 1));
    assert!(w.engine.metadata_bytes().0 > 1000);
}
