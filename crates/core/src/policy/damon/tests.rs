use super::frames::Memory;
use super::hotness;
use super::regions::Area;
use crate::action::Action;
use crate::event::Level;
use crate::policy::testing::{SLOW, World};
use crate::rng::Rng;
use crate::types::*;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use proptest::prelude::*;

const SPEC: &str = "damon:sampling=1ms:apply=20ms:quota=1GiB";

/// Lets so many samples pass, in which these pages are accessed all the time.
fn samples(w: &mut World, accessed: core::ops::Range<u32>, number: usize) {
    for _ in 0..number {
        w.touch(accessed.clone());
        w.wake();
    }
}

#[test]
fn accessed_slow_memory_comes_in_once_cold_memory_has_left() {
    let mut w = World::new(1024, "damon:sampling=1ms:samples=5:apply=5ms:quota=1GiB");
    w.populate(PageRun::between(0, 2048), false);
    assert_eq!(w.tier(1500), Some(SLOW));
    // While nothing is free, the quota of demotion grows from a byte on.
    samples(&mut w, 1024..2048, 50);
    assert_eq!(w.metric("promotions_proposed_pages_total"), 0.0);
    let mut left = 2000;
    while left > 0 && w.metric("promotions_proposed_pages_total") < 200.0 {
        samples(&mut w, 1024..2048, 10);
        left -= 1;
    }
    assert!(left > 0 && w.metric("demotions_proposed_pages_total") > 200.0);
    let fast =
        |run: core::ops::Range<u32>| run.filter(|p| w.tier(*p) == Some(TierId::FAST)).count();
    assert!(fast(1024..2048) >= 150, "{}", fast(1024..2048));
    assert!(w.metric("slow_areas") >= 10.0 && w.metric("fast_areas") <= 1000.0);
}

#[test]
fn only_pages_whose_own_bits_agree_move() {
    let mut w = World::new(8192, SPEC);
    w.populate(PageRun::between(0, 8192), false);
    // Every 64th page of the whole is accessed: no sample of an area may see it, its own bit does.
    for _ in 0..400 {
        w.touch((0..8192).step_by(64));
        w.wake();
    }
    assert!(w.metric("demotions_proposed_pages_total") > 0.0);
    assert!(w.metric("fast_units_filtered_total") > 0.0);
    let left = w.done.iter().filter_map(|action| match action {
        Action::Migrate { run, to: SLOW, .. } => Some(*run),
        _ => None,
    });
    let accessed = left.flat_map(|run| run.iter()).filter(|page| page.0.is_multiple_of(64)).count();
    assert_eq!(accessed, 0);
}

#[test]
fn nothing_is_demoted_where_enough_is_free() {
    let mut w = World::new(1 << 16, SPEC);
    w.populate(PageRun::between(0, 4096), false);
    samples(&mut w, 0..0, 400);
    // A quota of a byte at most, which is no page.
    assert_eq!(w.metric("demotions_proposed_pages_total"), 0.0);
    assert!(w.metric("aggregations_total") >= 15.0);
}

#[test]
fn each_sample_looks_at_one_page_of_each_area_twice() {
    let mut w = World::new(1 << 16, "damon:sampling=1ms:apply=1s");
    w.populate(PageRun::between(0, 4096), false);
    samples(&mut w, 0..0, 10);
    let looks = w.metric("fast_looks_total");
    assert_eq!(looks, 100.0);
    let scans = |clears: bool| {
        w.count(|a| matches!(a, Action::Scan { scan, .. } if scan.clear == clears && scan.run.pages == 1))
    };
    assert_eq!((scans(true), scans(false)), (100, 90));
}

#[test]
fn folios_are_looked_at_and_move_whole() {
    let mut w = World::new(16 * 512, SPEC);
    w.populate(PageRun::between(0, 16 * 512), true);
    samples(&mut w, 0..1, 600);
    let huge = |a: &Action| matches!(a, Action::Scan { scan, .. } if scan.level == Level::Huge);
    assert!(w.count(huge) > 0);
    assert!(w.metric("demotions_proposed_pages_total") >= 512.0);
    let parts = |a: &Action| matches!(a, Action::Migrate { run, .. } if run.pages % 512 != 0);
    assert_eq!(w.count(parts), 0);
    assert_eq!(w.tier(0), Some(TierId::FAST));
}

#[test]
fn scores_rise_with_accesses_and_age_and_fall_with_age_where_there_are_none() {
    let area = |accesses, age| Area { frames: 0..1, accesses, last: 0, age };
    let of = |accesses, age| hotness(&area(accesses, age), 20, 0.1);
    // 32 for the age's logarithm are 50 of 100 points.
    assert_eq!((of(20, 0), of(10, 0), of(0, 0)), (75, 50, 25));
    assert!(of(10, 1000) > of(10, 10) && of(0, 1000) < of(0, 10));
}

#[test]
fn memory_in_pieces_has_neighbours_far_apart() {
    let blocks = |scattered: bool| {
        let mut memory = Memory::default();
        if scattered {
            memory.scatter([PageCount(64 * 512)].into_iter(), &mut Rng::new(3));
        }
        (0..8 * 512).for_each(|page| memory.put(PageId(page), Some(TierId::FAST)));
        let frames = memory.tier(TierId::FAST).unwrap();
        let used = (0..frames.len()).filter(|frame| frames.page(*frame).is_some());
        let mut blocks: Vec<u32> = used.map(|frame| frame / 512).collect();
        blocks.dedup();
        blocks.len()
    };
    assert_eq!((blocks(false), blocks(true)), (8, 64));
}

#[test]
fn locality_is_lost_on_who_sees_frames_in_pieces() {
    let demoted = |more: &str| {
        let mut w = World::new(1 << 14, &alloc::format!("{SPEC}{more}"));
        w.populate(PageRun::between(0, 1 << 14), false);
        // An eighth of the memory, side by side.
        samples(&mut w, 0..1 << 11, 400);
        [w.metric("fast_looks_total"), w.metric("fast_units_filtered_total")]
    };
    let ([fresh_looks, fresh], [looks, scattered]) = (demoted(""), demoted(":frames=scattered"));
    assert!(fresh_looks > 0.0 && looks > 0.0);
    assert!(scattered > 4.0 * fresh, "pages of idle areas that are accessed: {scattered}, {fresh}");
}

proptest! {
    /// Against a map in both directions: no frame holds two pages, and every page is found.
    #[test]
    fn every_page_has_a_frame_of_its_own(
        scattered: bool,
        steps in proptest::collection::vec((0u8..4, 0u32..6, 0u32..512, 0u8..2), 1..200),
    ) {
        let mut memory = Memory::default();
        if scattered {
            let capacities = [PageCount(5000), PageCount(9 * 512)];
            memory.scatter(capacities.into_iter(), &mut Rng::new(steps.len() as u64));
        }
        let mut known: BTreeMap<u32, TierId> = BTreeMap::new();
        for (what, region, offset, tier) in steps {
            let (region, tier) = (Region(region), TierId(tier));
            let page = PageId(region.first().0 + offset);
            match what {
                0 => {
                    memory.put(page, Some(tier));
                    known.insert(page.0, tier);
                }
                1 => {
                    memory.put(page, None);
                    known.remove(&page.0);
                }
                2 => {
                    memory.put_folio(region, tier);
                    known.extend(region.run().iter().map(|page| (page.0, tier)));
                }
                _ => region.run().iter().for_each(|page| {
                    memory.put(page, None);
                    known.remove(&page.0);
                }),
            }
            let mut seen = Vec::new();
            for tier in [TierId(0), TierId(1)] {
                let Some(frames) = memory.tier(tier) else { continue };
                let most = if scattered { 22 * 512 } else { 18 * 512 };
                prop_assert!(frames.len() <= most);
                let pages = (0..frames.len()).filter_map(|frame| frames.page(frame));
                seen.extend(pages.map(|page| (page.0, tier)));
            }
            seen.sort_unstable();
            prop_assert_eq!(seen, known.iter().map(|(p, t)| (*p, *t)).collect::<Vec<_>>());
        }
    }
}
