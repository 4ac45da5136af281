use super::super::offer::{Offer, Translation, WorkCosts};
use super::super::testing::{SLOW, World};
use crate::action::Action;
use crate::engine::EngineConfig;
use crate::event::{Event, SampleKind};
use crate::rng::Rng;
use crate::types::*;
use alloc::vec::Vec;

/// Samples in an order of chance, with a look at the clock after each 32.
fn run(world: &mut World, samples: usize, mut page: impl FnMut() -> u32) {
    for _ in 0..samples / 32 {
        let events: Vec<Event> =
            (0..32).map(|_| world.sample_of(page(), SampleKind::LoadMiss)).collect();
        world.feed(&events);
        world.wake();
        assert!(world.used() <= world.engine.view().limits(TierId::FAST).capacity.0);
    }
}

fn share_in_fast(world: &World, pages: impl Iterator<Item = u32>) -> f64 {
    let all: Vec<u32> = pages.collect();
    let fast = all.iter().filter(|page| world.tier(**page) == Some(TierId::FAST)).count();
    fast as f64 / all.len() as f64
}

#[test]
fn the_densest_pages_end_up_in_fast_memory() {
    let mut world = World::new(256, "frost");
    world.populate(PageRun::between(0, 4096), false);
    let mut rng = Rng::new(1);
    // Nine of ten samples go to 200 scattered pages.
    let hot = |i: u64| 512 + 16 * i as u32;
    run(&mut world, 20_000, || match rng.below(10) {
        0 => rng.below(4096) as u32,
        _ => hot(rng.below(200)),
    });
    assert!(share_in_fast(&world, (0..200).map(hot)) > 0.97);
    // They move on.
    let hot = |i: u64| 519 + 16 * i as u32;
    run(&mut world, 60_000, || match rng.below(10) {
        0 => rng.below(4096) as u32,
        _ => hot(rng.below(200)),
    });
    assert!(share_in_fast(&world, (0..200).map(hot)) > 0.97);
}

#[test]
fn folios_that_are_hot_all_over_are_exchanged_whole() {
    let mut world = World::new(1024, "frost");
    world.populate(PageRun::between(0, 8 * HUGE_PAGES), true);
    let mut rng = Rng::new(2);
    run(&mut world, 10_000, || (5 * HUGE_PAGES) + rng.below(2 * u64::from(HUGE_PAGES)) as u32);
    assert_eq!(share_in_fast(&world, 5 * HUGE_PAGES..7 * HUGE_PAGES), 1.0);
    assert_eq!(world.metric("splits_total"), 0.0);
}

/// 32 folios, and fast memory for eight: each folio is sampled `often` times in a row, and so on.
fn sampled_in_rows(often: usize) -> (f64, f64) {
    let mut world = World::new(4096, "frost");
    world.populate(PageRun::between(0, 32 * HUGE_PAGES), true);
    let (mut rng, mut folio, mut samples) = (Rng::new(7), 0, 0);
    run(&mut world, 60_000, || {
        samples += 1;
        if samples % often == 0 {
            folio = rng.below(32) as u32;
        }
        folio * HUGE_PAGES + rng.below(u64::from(HUGE_PAGES)) as u32
    });
    (world.metric("exchanges_judged_total"), world.metric("margin_scale"))
}

#[test]
fn margins_are_as_large_as_chance_is() {
    let (judged, scale) = sampled_in_rows(1);
    assert!(judged >= 10.0 && scale == 1.0, "all alike: {judged} judged, scale {scale}");
    let (judged, scale) = sampled_in_rows(300);
    assert!(judged >= 10.0 && scale < 0.8, "in rows: {judged} judged, scale {scale}");
}

/// 16 folios, of which each has eight hot pages, and fast memory for two.
fn scattered(translation: Option<Translation>) -> World {
    let config = EngineConfig::two_tiers(PageCount(1024), PageCount(1 << 20));
    let offer = Offer { fast_pages: PageCount(1024), translation, ..Offer::default() };
    let mut world = World::with(config, "frost", &offer);
    world.populate(PageRun::between(0, 16 * HUGE_PAGES), true);
    let mut rng = Rng::new(3);
    run(&mut world, 80_000, || rng.below(128) as u32 * 64 + 7);
    world
}

#[test]
fn folios_with_few_hot_pages_are_split() {
    let world = scattered(None);
    assert!(world.metric("splits_total") >= 14.0, "{}", world.metric("splits_total"));
    assert!(share_in_fast(&world, (0..128).map(|i| i * 64 + 7)) > 0.97);
}

#[test]
fn folios_stay_whole_where_walks_cost_more_than_slow_memory() {
    // Not even the folios have an entry each, so that base pages are seen to have none.
    let dear = Translation { entries: 12, base_walk_ns: 1000.0, folio_walk_ns: 10.0 };
    let world = scattered(Some(dear));
    let whole = |i: &u32| world.engine.view().state(PageId(i * HUGE_PAGES)).is_huge();
    let folios = (0..16).filter(whole).count();
    let splits = world.metric("splits_total");
    assert!(folios >= 14 && splits < 150.0, "{folios} folios after {splits} splits");
    let cheap = Translation { base_walk_ns: 20.0, ..dear };
    assert!(scattered(Some(cheap)).metric("splits_total") >= 14.0);
}

#[test]
fn what_is_swept_is_there_before_it_is_used() {
    let mut world = World::new(4096, "frost");
    world.populate(PageRun::between(0, 32_768), false);
    let (mut next, mut served, mut seen) = (0, 0, 0);
    let mut sweep = || {
        next = (next + 5) % 32_768;
        next
    };
    for _ in 0..40_000 / 8 {
        let pages: Vec<u32> = (0..8).map(|_| sweep()).collect();
        seen += pages.len();
        served += pages.iter().filter(|page| world.tier(**page) == Some(TierId::FAST)).count();
        let events: Vec<Event> =
            pages.iter().map(|page| world.sample_of(*page, SampleKind::LoadMiss)).collect();
        world.feed(&events);
        world.wake();
    }
    assert!(world.metric("brought_ahead_pages_total") > 30_000.0);
    assert!(f64::from(served as u32) / f64::from(seen as u32) > 0.8, "{served} of {seen}");
}

#[test]
fn nothing_comes_in_ahead_of_what_is_in_no_order() {
    let mut world = World::new(1024, "frost");
    world.populate(PageRun::between(0, 32_768), false);
    let mut rng = Rng::new(4);
    run(&mut world, 20_000, || rng.below(32_768) as u32);
    assert!(world.metric("brought_ahead_pages_total") < 2048.0);
}

#[test]
fn stores_that_fill_memory_are_no_knowledge() {
    let mut world = World::new(256, "frost");
    world.populate(PageRun::between(0, 4096), false);
    for page in 0..4096 {
        let store = world.sample_of(page, SampleKind::Store);
        world.feed(&[store]);
    }
    assert_eq!(world.metric("samples_total"), 0.0);
    run(&mut world, 128, || 4000);
    let store = world.sample_of(3000, SampleKind::Store);
    world.feed(&[store]);
    assert_eq!(world.metric("store_samples_total"), 1.0);
    let told = |action: &Action| {
        matches!(action, Action::SetSampling { kind: SampleKind::Store, period: 1000 })
    };
    assert_eq!(world.count(told), 1);
}

#[test]
fn samples_that_tell_nothing_are_saved() {
    let mut world = World::new(1024, "frost");
    world.populate(PageRun::between(0, 2048), true);
    let mut rng = Rng::new(5);
    // One folio takes all: half of the samples tell as much.
    run(&mut world, 60_000, || rng.below(512) as u32);
    assert_eq!(world.metric("load_period_accesses"), 3200.0);
}

#[test]
fn samples_become_few_where_all_memory_is_fast_anyway() {
    let mut world = World::new(4200, "frost");
    world.populate(PageRun::between(0, 4096), false);
    let mut rng = Rng::new(8);
    let samples = 24_000;
    assert!(samples < 8 * 4096, "no more than are enough whatever they tell");
    run(&mut world, samples, || (rng.below(16) * rng.below(256)) as u32);
    assert!(world.metric("load_period_accesses") >= 800.0, "fewer than at first");
}

#[test]
fn what_becomes_of_memory_is_taken_in() {
    let mut world = World::new(700, "frost");
    let mut rng = Rng::new(6);
    world.populate(PageRun::between(0, 8 * HUGE_PAGES), true);
    for round in 0..400u32 {
        let region = Region(rng.below(8) as u32);
        let part = PageRun { start: region.first(), pages: 1 + rng.below(512) as u32 };
        match rng.below(5) {
            0 => world.feed(&[Event::Unmapped { run: part }]),
            1 => world.feed(&[Event::Freed { run: part }]),
            2 => {
                let to = PageId((8 + round % 8) * HUGE_PAGES);
                world.feed(&[Event::Remapped { from: part, to }]);
            }
            3 => {
                let absent: Vec<PageId> =
                    part.iter().filter(|page| world.tier(page.0).is_none()).collect();
                absent.into_iter().for_each(|page| world.populate(PageRun::single(page), false));
            }
            _ => world.feed(&[Event::Moved {
                run: PageRun::single(part.start),
                to: SLOW,
                cause: crate::event::MoveCause::Unknown,
            }]),
        }
        let mut resident = Vec::new();
        for page in 0..16 * HUGE_PAGES {
            resident.extend(world.tier(page).map(|_| page));
        }
        if !resident.is_empty() {
            run(&mut world, 256, || resident[rng.below(resident.len() as u64) as usize]);
        }
    }
    assert!(world.metric("samples_total") > 50_000.0);
}

/// Pages promoted in a program on so many cores, whose pages are all alike, and the share of a hot block
/// in fast memory.
fn moved_on(cores: u32) -> (f64, f64) {
    let config = EngineConfig::two_tiers(PageCount(512), PageCount(1 << 20));
    let costs = WorkCosts { interruption_ns: Some(1500.0), ..WorkCosts::default() };
    let offer =
        Offer { fast_pages: PageCount(512), parallelism: Some(4.0), costs, ..Offer::default() };
    let mut world = World::with(config, "frost", &offer);
    world.feed(&[Event::Running { cores }]);
    world.populate(PageRun::between(0, 8192), false);
    let mut rng = Rng::new(5);
    run(&mut world, 60_000, || match rng.below(4) {
        0 => 4096 + rng.below(128) as u32,
        _ => rng.below(4096) as u32 * 2,
    });
    (world.metric("promotions_proposed_pages_total"), share_in_fast(&world, 4096..4224))
}

#[test]
fn pages_that_move_alone_have_to_pay_for_all_cores_that_they_interrupt() {
    let (one, many) = (moved_on(1), moved_on(20));
    assert!(one.1 > 0.97 && many.1 > 0.97, "neighbours share it: {one:?}, {many:?}");
    assert!(many.0 < one.0 / 4.0, "{one:?}, {many:?}");
}

#[test]
fn samples_are_as_dear_as_what_they_can_save() {
    use super::suited_period;
    assert_eq!([55.0, 110.0, 27.5].map(|saving| suited_period(200, saving)), [200, 100, 400]);
    assert_eq!([0.0, 1e9].map(|saving| suited_period(200, saving)), [800, 50]);
    assert_eq!(suited_period(1, 1e9), 1);
}
