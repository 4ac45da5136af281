//! Every rule of the policy, each shown to have been exercised.

use super::averages::{Averages, Ranked, Weights};
use super::change::Fall;
use super::cut::cut;
use super::worth::Worth;
use crate::action::Action;
use crate::engine::EngineConfig;
use crate::event::Event;
use crate::policy::testing::{SLOW, World};
use crate::policy::{Offer, TierOffer, WorkCosts};
use crate::rng::Rng;
use crate::types::*;
use alloc::vec::Vec;

fn world(fast: u64) -> World {
    World::new(fast, "arms:interval=10ms")
}

/// An interval in which pages were sampled so often; gives the moves.
fn interval(w: &mut World, pages: impl IntoIterator<Item = u32>, times: usize) -> Vec<(u32, u8)> {
    w.sample(pages, times);
    let mut moves = w.moves();
    moves.sort_unstable();
    moves
}

#[test]
fn a_fall_is_found_and_noise_and_a_rise_are_not() {
    let mut rng = Rng::new(1);
    let mut fall = Fall::new(0.02, 0.15);
    let mut noisy = |mean: f64| mean + (rng.unit_f64() - 0.5) * 0.04;
    assert!((0..500).all(|_| !fall.add(noisy(0.8))), "noise");
    assert!((0..100).all(|_| !fall.add(noisy(0.9))), "a rise");
    let found = (0..100).position(|_| fall.add(noisy(0.6))).unwrap();
    assert!(found <= 1, "a fall by a quarter shows at once: {found}");
    assert!((0..100).all(|_| !fall.add(noisy(0.6))), "it has begun again");
    // A slow fall shows, too.
    assert!((0..100).any(|step| fall.add(0.6 - 0.005 * f64::from(step))));
}

#[test]
fn averages_follow_at_their_speeds_and_forget() {
    let mut w = world(100);
    w.populate(PageRun::between(0, 10), false);
    let view = w.engine.view();
    let mut averages = Averages::new(Weights { short: 0.7, long: 0.1 }, PageCount(10));
    averages.grow(512);
    let short = Weights { short: 1.0, long: 0.0 };
    let long = Weights { short: 0.0, long: 1.0 };
    (0..10).for_each(|_| averages.sample(PageId(3), &view));
    let of = |ranked: Vec<Ranked>| ranked.iter().map(|unit| unit.density).collect::<Vec<_>>();
    assert_eq!(of(averages.end_interval(short, &view)), [7.0]);
    let [after] = of(averages.end_interval(long, &view))[..] else { panic!("one page") };
    assert!((after - 0.9).abs() < 1e-6, "1 and a tenth less: {after}");
    let intervals = (0..300).take_while(|_| averages.end_interval(long, &view).len() == 1).count();
    assert!(averages.knows(PageId(3)) == (intervals == 300) && intervals > 50, "{intervals}");
}

#[test]
fn folios_that_split_and_collapse_keep_their_samples() {
    let mut w = world(1024);
    w.populate(Region(0).run(), false);
    let view = w.engine.view();
    let all = Weights { short: 1.0, long: 0.0 };
    let mut averages = Averages::new(Weights { short: 1.0, long: 1.0 }, PageCount(512));
    averages.grow(512);
    (0..512).for_each(|_| averages.sample(PageId(0), &view));
    averages.end_interval(all, &view);
    averages.split(Region(0));
    (0..512).for_each(|page| averages.sample(PageId(page), &view));
    let ranked = averages.end_interval(all, &view);
    assert!(ranked.len() == 512 && ranked.iter().all(|unit| unit.density == 1.0));
    averages.collapse(Region(0));
    assert_eq!((averages.knows(PageId(0)), averages.note_rank(PageId(0), true)), (true, 1));
    averages.forget(PageRun::between(0, 512));
    assert!(averages.end_interval(all, &view).is_empty());
}

#[test]
fn the_cut_is_where_sorting_would_find_it_but_for_a_step() {
    let mut rng = Rng::new(7);
    for _ in 0..200 {
        let unit = |at: u64| {
            let pages = if at.is_multiple_of(7) { 512 } else { 1 };
            let density = libm::exp2f(rng.unit_f64() as f32 * 12.0) / 100.0;
            Ranked { page: PageId(at as u32), pages, density }
        };
        let mut ranked: Vec<Ranked> = (0..100).map(unit).collect();
        ranked.sort_by(|a, b| b.density.total_cmp(&a.density));
        let all: u64 = ranked.iter().map(|unit| u64::from(unit.pages)).sum();
        let room = all / 3;
        let found = cut(&ranked, room);
        let mut sum = 0;
        let first_out = ranked.iter().find(|unit| {
            sum += u64::from(unit.pages);
            sum > room
        });
        let exact = first_out.unwrap().density;
        assert!(found > exact && found < exact * 1.1, "{found} beside {exact}");
    }
    assert_eq!(cut(&[], 10), 0.0);
}

#[test]
fn pages_come_in_once_they_were_hot_for_two_intervals() {
    let mut w = world(4);
    w.populate(PageRun::between(0, 8), false);
    assert_eq!(interval(&mut w, [5, 6], 20), [], "hot for the first time");
    assert_eq!(w.metric("promotions_unproved_total"), 2.0);
    assert_eq!(interval(&mut w, [5, 6], 20), [(0, 1), (1, 1), (5, 0), (6, 0)]);
    assert_eq!(w.metric("promotions_proposed_pages_total"), 2.0);
    assert_eq!(w.moves(), [], "nothing was sampled: nothing changes");
    assert_eq!(w.metric("intervals_total"), 2.0);
    assert_eq!(interval(&mut w, [5, 7], 20), [], "7 for the first time");
    assert_eq!(interval(&mut w, [5], 20), [(2, 1), (7, 0)], "its average is high yet");
}

#[test]
fn after_a_change_one_interval_suffices_and_the_past_counts_less() {
    let mut w = world(4);
    w.populate(PageRun::between(0, 8), false);
    for _ in 0..10 {
        assert_eq!(interval(&mut w, 0..4, 20), []);
    }
    assert_eq!((w.metric("changes_total"), w.metric("intervals_of_recency_left")), (0.0, 0.0));
    let moves = interval(&mut w, 4..8, 20);
    assert_eq!(w.metric("changes_total"), 1.0);
    assert_eq!(moves.len(), 8, "by the long average they would have waited: {moves:?}");
    assert_eq!(w.tier(0), Some(SLOW));
    (0..10).for_each(|_| {
        interval(&mut w, 4..8, 20);
    });
    assert_eq!(w.metric("intervals_of_recency_left"), 0.0);
}

/// A world that moves at these costs, on a machine of this bandwidth.
fn priced(fast: u64, base_move_ns: f64, gigabytes: Option<f64>) -> World {
    let tier = |load_ns| TierOffer {
        read_bytes_per_second: gigabytes.map(|rate| rate * 1e9),
        ..TierOffer::loads_in(load_ns)
    };
    let costs = WorkCosts { base_move_ns: Some(base_move_ns), ..WorkCosts::default() };
    let tiers = [80.0, 300.0].map(tier).to_vec();
    let offer = Offer { fast_pages: PageCount(fast), tiers, costs, ..Offer::default() };
    let config = EngineConfig::two_tiers(PageCount(fast), PageCount(1 << 20));
    World::with(config, "arms:interval=10ms", &offer)
}

#[test]
fn what_costs_more_than_it_brings_does_not_move() {
    // A sample is worth 5000 times 220 ns, and a page that is sampled 20 times is so for two intervals.
    let mut cheap = priced(4, 1e6, None);
    let mut dear = priced(4, 1e8, None);
    for w in [&mut cheap, &mut dear] {
        w.populate(PageRun::between(0, 8), false);
        (0..2).for_each(|_| {
            interval(w, [6], 20);
        });
    }
    assert_eq!((cheap.tier(6), dear.tier(6)), (Some(TierId::FAST), Some(SLOW)));
    assert_eq!(
        (cheap.metric("promotions_unpaid_total"), dear.metric("promotions_unpaid_total")),
        (0.0, 1.0)
    );
}

#[test]
fn batches_are_as_large_as_bandwidth_allows() {
    // 10 ms of 1 GB/s are 10 MB, a quarter of which is less than two folios, the least.
    let mut w = priced(2048, 1000.0, Some(1.0));
    w.populate(PageRun::between(0, 2048), false);
    w.populate(PageRun::between(2048, 4096), false);
    interval(&mut w, 2048..4096, 20);
    let moves = interval(&mut w, 2048..4096, 20);
    assert_eq!(moves.len(), 1024, "4 MiB, both ways");
    assert!(w.done.iter().any(|action| matches!(action, Action::Migrate { .. })));
    let offer = |rate| {
        let tier = TierOffer { read_bytes_per_second: rate, ..TierOffer::loads_in(100.0) };
        Offer { tiers: [tier, tier].to_vec(), ..Offer::default() }
    };
    let batch = |rate, samples| Worth::new(&offer(rate), 1000).batch(samples, Nanos(1_000_000_000));
    assert_eq!(batch(None, [0; 2]), Bytes::MAX);
    assert_eq!(batch(Some(100e9), [0; 2]), Bytes(25_000_000_000));
    // 64 bytes of 1000 accesses each: 64 of 100 GB are used.
    assert_eq!(batch(Some(100e9), [0, 1_000_000]), Bytes(9_000_000_000));
    assert_eq!(batch(Some(100e9), [0, 2_000_000]), Bytes(4 << 20), "none is left");
}

#[test]
fn folios_take_the_place_of_folios_and_of_base_pages() {
    let mut w = world(1024);
    (0..3).for_each(|region| w.populate(Region(region).run(), true));
    (0..2).for_each(|_| {
        interval(&mut w, [1024 + 7], 100);
    });
    assert_eq!((w.tier(0), w.tier(1024)), (Some(SLOW), Some(TierId::FAST)));
    let mut w = world(1024);
    w.populate(PageRun::between(0, 1024), false);
    w.populate(Region(2).run(), true);
    (0..2).for_each(|_| {
        interval(&mut w, [1024 + 7], 100);
    });
    assert_eq!(w.metric("demotions_proposed_pages_total"), 512.0, "room for the next interval");
    interval(&mut w, [1024 + 7], 100);
    assert_eq!(w.tier(1024), Some(TierId::FAST));
}

#[test]
fn what_is_gone_is_forgotten_and_an_overfilled_tier_is_relieved() {
    let mut w = world(4);
    w.populate(PageRun::between(0, 8), false);
    interval(&mut w, [6], 20);
    w.feed(&[Event::Unmapped { run: PageRun::single(PageId(6)) }]);
    w.populate(PageRun::single(PageId(6)), false);
    assert_eq!(interval(&mut w, [0], 20), [], "new memory has no past");
    let run = PageRun::between(4, 6);
    let cause = crate::event::MoveCause::Unknown;
    w.feed(&[Event::Moved { run, to: TierId::FAST, cause }]);
    assert_eq!(w.used(), 6);
    interval(&mut w, [0], 20);
    assert_eq!((w.used(), w.tier(0)), (4, Some(TierId::FAST)));
}
