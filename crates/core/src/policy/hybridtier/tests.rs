//! Every rule of the policy, each shown to have been exercised.

use super::tracker::Averages;
use super::*;
use crate::action::Action;
use crate::event::{MoveOutcome, SampleKind};
use crate::policy::registry::REGISTRY;
use crate::policy::testing::{SLOW, World};
use crate::rng::Rng;
use alloc::string::String;
use alloc::vec::Vec;

/// Exact counts; promotion after 10 samples and momentum halved after 1000 where nothing else is
/// said.
fn exact(fast: u64, more: &str) -> World {
    let mut spec = alloc::format!("hybridtier-exact:period=1{more}");
    for (key, value) in [(":batch=", "10"), (":momentum-cooling=", "1000")] {
        if !more.contains(key) {
            spec = alloc::format!("{spec}{key}{value}");
        }
    }
    World::new(fast, &spec)
}

fn base(w: &mut World, pages: u32) {
    w.populate(PageRun::between(0, pages), false);
}

/// Samples of a page that is in fast memory, to bring a batch to its end.
fn end_batch(w: &mut World, page: u32) {
    let batches = w.metric("batches_total");
    while w.metric("batches_total") == batches {
        w.sample([page], 1);
    }
}

#[test]
fn pages_of_high_frequency_are_promoted_by_batches() {
    let mut w = exact(10, "");
    base(&mut w, 20);
    w.sample([12], 9);
    assert_eq!(w.count(|_| true), 0, "the batch is not whole");
    w.sample([0], 1);
    assert_eq!(w.tier(12), Some(SLOW), "nothing is free");
    assert_eq!(w.metric("wanted_without_room_total"), 1.0);
    // Pages that were never sampled make room.
    w.moves();
    w.sample([12], 10);
    assert_eq!(w.tier(12), Some(TierId::FAST));
    assert!(w.metric("wanted_by_frequency_total") >= 1.0);
}

#[test]
fn pages_by_their_frequency_are_those_before_the_program_ended() {
    let mut w = exact(10, "");
    base(&mut w, 20);
    w.sample(0..4, 1);
    w.sample([7], 15);
    w.moves();
    w.now = Nanos(w.now.0 + 1_000_000_000);
    w.moves();
    let shares = |w: &World| (w.metric("counted_pages_ratio"), w.metric("full_pages_ratio"));
    assert_eq!(shares(&w), (0.25, 0.05));
    w.feed(&[Event::Unmapped { run: PageRun::between(0, 20) }]);
    assert_eq!(shares(&w), (0.25, 0.05));
}

#[test]
fn momentum_promotes_what_has_no_frequency() {
    for (policy, tier) in [("hybridtier-exact", TierId::FAST), ("hybridtier-freq", SLOW)] {
        let spec = alloc::format!("{policy}:batch=40:momentum-cooling=2000:period=1");
        let mut w = World::new(8, &spec);
        base(&mut w, 20);
        // More pages than fit with 8 samples each (some have gone since): only more is frequent.
        w.sample((0..4).chain(30..36), 8);
        w.moves();
        assert!(w.metric("frequency_threshold") > 8.0);
        w.sample([12], 3);
        end_batch(&mut w, 0);
        w.moves();
        w.sample([12], 1);
        end_batch(&mut w, 0);
        w.moves();
        assert_eq!(w.tier(12), Some(tier), "{policy}");
        assert_eq!(w.metric("wanted_by_momentum_total") > 0.0, tier == TierId::FAST);
    }
}

#[test]
fn what_has_neither_leaves_between_the_watermarks() {
    let mut w = exact(100, "");
    base(&mut w, 98);
    w.sample(0..50, 3);
    w.moves();
    assert_eq!((w.used(), w.count(|_| true)), (98, 0), "2 of 100 are free: above 1.25 %");
    w.populate(PageRun::between(98, 99), false);
    let left = w.moves();
    assert_eq!(left.len(), 4, "until 5 % are free");
    assert!(left.iter().all(|(page, tier)| (50..99).contains(page) && *tier == 1), "{left:?}");
    let next = left.last().unwrap().0 + 1;
    w.populate(PageRun::between(200, 204), false);
    assert_eq!(w.moves().first(), Some(&(next, 1)), "the scan goes on where it was");
}

#[test]
fn a_page_of_momentum_stays() {
    let mut w = exact(4, "");
    base(&mut w, 4);
    w.sample(0..4, 3);
    assert_eq!((w.moves(), w.metric("second_chances_total")), (Vec::new(), 0.0));
}

#[test]
fn frequency_alone_gets_a_second_chance() {
    let mut w = exact(4, ":second-chance=60s:momentum-cooling=8");
    base(&mut w, 4);
    // Frequency 3 each, and a momentum that was halved away.
    w.sample(0..4, 3);
    w.sample([3], 20);
    assert_eq!(w.moves(), [], "marked");
    assert_eq!(w.metric("second_chances_total"), 3.0);
    w.sample([1], 1);
    let marked = w.now;
    while w.now < Nanos(marked.0 + 60_000_000_000) {
        w.wake();
    }
    assert_eq!(w.metric("second_chances_kept_total"), 1.0, "1 was sampled");
    let gone: Vec<u32> = (0..4).filter(|page| w.tier(*page) == Some(SLOW)).collect();
    assert_eq!((gone, w.metric("second_chances_lost_total")), (alloc::vec![0, 2], 2.0));
}

#[test]
fn samples_of_full_counters_are_seen() {
    for tracker in ["exact", "blocked", "standard"] {
        let more = alloc::format!(":second-chance=1s:momentum-cooling=8:tracker={tracker}");
        let mut w = exact(2, &more);
        base(&mut w, 2);
        w.sample([0, 1], 20);
        w.sample([5], 30);
        w.moves();
        assert_eq!(w.metric("second_chances_total"), 2.0, "{tracker}");
        w.sample([1], 1);
        w.now = Nanos(w.now.0 + 2_000_000_000);
        w.wake();
        assert_eq!(w.metric("second_chances_kept_total"), 1.0, "{tracker}: 1 was sampled");
        assert_eq!(w.metric("second_chances_lost_total"), 1.0, "{tracker}");
        assert_eq!((w.tier(0), w.tier(1)), (Some(SLOW), Some(TierId::FAST)), "{tracker}");
    }
}

#[test]
fn samples_come_in_any_pieces() {
    for policy in ["hybridtier", "hybridtier-exact", "hybridtier-cbf"] {
        let more = "period=1:batch=500:momentum-cooling=170:second-chance=2s";
        let whole = decisions(&alloc::format!("{policy}:{more}"), &[1000]);
        for pieces in [&[1][..], &[63, 64, 65, 130], &[129, 300]] {
            assert_eq!(decisions(&alloc::format!("{policy}:{more}"), pieces), whole, "{policy}");
        }
    }
}

/// What moves after each of some batches that come in pieces of these lengths.
fn decisions(spec: &str, pieces: &[usize]) -> Vec<Vec<(u32, u8)>> {
    let mut w = World::new(60, spec);
    base(&mut w, 200);
    let mut rng = Rng::new(3);
    let mut moves = Vec::new();
    for _ in 0..60 {
        let pages = (0..500).map(|_| rng.below(200).min(rng.below(200)) as u32);
        let mut events: Vec<Event> =
            pages.map(|page| w.sample_of(page, SampleKind::LoadMiss)).collect();
        events.insert(rng.below(500) as usize, Event::SamplesLost { count: 1 });
        let mut rest = &events[..];
        for piece in pieces.iter().cycle() {
            let (some, others) = rest.split_at(rest.len().min(*piece));
            w.feed(some);
            rest = others;
            if rest.is_empty() {
                break;
            }
        }
        w.now = Nanos(w.now.0 + 1_000_000_000);
        moves.push(w.moves());
    }
    for name in ["frequency_coolings", "momentum_coolings", "second_chances_kept", "batches"] {
        assert!(w.metric(&alloc::format!("{name}_total")) > 0.0, "{spec}: {name}");
    }
    assert!(w.metric("second_chances_lost_total") > 0.0 && w.metric("full_pages_ratio") > 0.0);
    moves
}

#[test]
fn both_averages_are_halved_at_their_intervals() {
    let mut w = exact(10, ":frequency-cooling=5:momentum-cooling=20");
    base(&mut w, 5);
    w.sample([0], 100);
    assert_eq!(w.metric("frequency_coolings_total"), 2.0, "5 per page of fast memory");
    assert_eq!(w.metric("momentum_coolings_total"), 5.0);
    let work = "hybridtier:frequency-cooling=5:momentum-cooling=20:period=1";
    let mut w = World::new(10, work);
    base(&mut w, 5);
    w.sample([0], 100);
    assert_eq!(w.metric("frequency_coolings_total"), 2.0);
}

#[test]
fn the_frequency_threshold_follows_the_size_of_fast_memory() {
    let mut w = exact(10, ":batch=1");
    base(&mut w, 40);
    w.sample(0..30, 2);
    w.sample(0..8, 4);
    assert_eq!(w.metric("frequency_threshold"), 3.0, "30 pages have 2, 8 have 6");
    assert_eq!(w.classes(), [8, 0, 22]);
    let mut w = exact(30, ":batch=1");
    base(&mut w, 40);
    w.sample(0..30, 2);
    assert_eq!(w.metric("frequency_threshold"), 1.0);
}

#[test]
fn huge_pages_are_counted_and_moved_as_one() {
    let mut w = World::new(1024, "hybridtier:batch=10:period=1");
    w.populate(PageRun::between(0, 5 * HUGE_PAGES), true);
    for page in 0..40 {
        w.sample([3 * HUGE_PAGES + 10 * page], 1);
    }
    assert_eq!(w.metric("unit_pages"), 512.0);
    let moved = w.moves();
    assert_eq!(moved.len() % 512, 0);
    w.sample([3 * HUGE_PAGES + 7], 10);
    w.moves();
    assert_eq!(w.tier(3 * HUGE_PAGES), Some(TierId::FAST));
    assert!(w.metric("frequency_threshold") <= 50.0, "16 bits count beyond 15");
}

#[test]
fn one_huge_page_among_base_pages_is_a_unit() {
    let mut w = World::new(600, "hybridtier-exact:batch=10:period=1");
    w.populate(PageRun::between(0, 600), false);
    w.populate(Region(4).run(), true);
    w.populate(PageRun::between(4000, 4600), false);
    (0..20).for_each(|i| w.sample([Region(4).first().0 + 20 * i], 1));
    assert_eq!(w.metric("unit_pages"), 1.0);
    (0..30).for_each(|_| {
        w.moves();
        w.sample([Region(4).first().0 + 5], 10);
    });
    assert_eq!(w.classes()[0], 512);
}

#[test]
fn exact_counts_go_and_come_with_their_pages() {
    let mut w = exact(20, ":batch=1");
    base(&mut w, 20);
    w.sample([3, 4], 5);
    assert_eq!(w.classes(), [2, 0, 0]);
    w.feed(&[Event::Unmapped { run: PageRun::single(PageId(3)) }]);
    assert_eq!(w.classes(), [1, 0, 0]);
    w.feed(&[Event::Remapped { from: PageRun::single(PageId(4)), to: PageId(100) }]);
    assert_eq!(w.classes(), [1, 0, 0]);
    w.sample([100], 1);
    assert_eq!(w.classes(), [1, 0, 0], "it goes on from 5");
}

#[test]
fn what_could_not_move_is_tried_when_it_is_sampled_again() {
    let mut w = exact(10, "");
    base(&mut w, 9);
    w.populate(PageRun::between(20, 22), false);
    w.sample([21], 9);
    w.outcome = MoveOutcome::Busy;
    w.sample([0], 1);
    w.moves();
    assert_eq!(w.tier(21), Some(SLOW));
    w.outcome = MoveOutcome::Moved;
    w.moves();
    w.sample([21], 10);
    assert_eq!(w.tier(21), Some(TierId::FAST));
}

fn period_changes(w: &World) -> Vec<u32> {
    let period = |action: &Action| match action {
        Action::SetSampling { kind: SampleKind::LoadMiss, period } => Some(*period),
        _ => None,
    };
    w.done.iter().filter_map(period).collect()
}

#[test]
fn the_authors_code_samples_less_where_counters_are_full_and_stops_where_nothing_moves() {
    let mut w = World::new(100, "hybridtier-artifact:batch=100:period=10");
    base(&mut w, 50);
    (0..3).for_each(|_| w.sample([0], 100));
    assert_eq!(
        period_changes(&w),
        [20, 40, 80, 0],
        "full counters, then three batches without moves"
    );
    let counted = |fast, slow| Event::Counters { fast, slow };
    w.feed(&[counted(100, 0)]);
    w.wake();
    assert_eq!(w.metric("sampling_stopped"), 1.0);
    w.feed(&[counted(50, 50)]);
    w.wake();
    assert_eq!((w.metric("sampling_stopped"), period_changes(&w)[4..].to_vec()), (1.0, Vec::new()));
}

#[test]
fn a_fallen_hit_ratio_starts_samples_again() {
    let mut w = World::new(100, "hybridtier-artifact:batch=100:period=10");
    base(&mut w, 50);
    w.sample(0..50, 2);
    let counted = |fast, slow| Event::Counters { fast, slow };
    w.feed(&[counted(90, 10)]);
    for _ in 0..2 {
        w.feed(&[counted(90, 10)]);
        w.sample(0..50, 2);
    }
    assert_eq!(w.metric("sampling_stops_total"), 1.0);
    w.feed(&[counted(90, 10)]);
    w.wake();
    assert_eq!(w.metric("sampling_stopped"), 1.0);
    w.feed(&[counted(80, 20)]);
    w.wake();
    assert_eq!((w.metric("sampling_stopped"), period_changes(&w).last()), (0.0, Some(&10)));
}

#[test]
fn promotion_is_limited_where_effort_is_adapted() {
    let mut w = World::new(4000, "hybridtier-artifact:batch=3000:period=10:promotion-rate=4MiB");
    base(&mut w, 4000);
    w.populate(PageRun::between(5000, 8000), false);
    w.moves();
    w.sample([0], 2999);
    w.moves();
    w.sample(5000..8000, 1);
    assert!(w.metric("promotions_proposed_pages_total") <= 1024.0);
}

/// Share of promotions by momentum, among samples that each hit another of many pages, that exact
/// counts would not have made.
fn false_promotions(spec: &str, fast: u64, window: u64) -> f64 {
    let settings = format_settings(spec, fast, window);
    let nothing = World::new(fast, "first-touch");
    let counters = settings.counters(&nothing.engine.view(), 1, 4.0);
    let increment = Increment::Conservative;
    match settings.paired_lines(counters) {
        Some(lines) => wrong_share(PairedBloom::new(lines, increment), window),
        None => wrong_share(Filters::<4, true>::new(counters, increment), window),
    }
}

fn wrong_share<T: Tracker>(mut filters: T, window: u64) -> f64 {
    let pages = 1 << 22;
    let mut truth = Exact::<u8>::default();
    let mut rng = Rng::new(5);
    let (mut promoted, mut samples) = (0u64, 0u64);
    for round in 0..4 {
        for _ in 0..window {
            let unit = rng.below(pages) as u32;
            let seen = filters.sample(filters.key(unit)).momentum >= 3;
            let true_momentum = truth.sample(unit).momentum;
            if round > 1 {
                promoted += u64::from(seen && true_momentum < 3);
                samples += 1;
            }
        }
        filters.cool_momentum();
        truth.cool_momentum();
    }
    promoted as f64 / samples as f64
}

fn format_settings(spec: &str, fast: u64, window: u64) -> HybridTier {
    let context = Offer {
        fast_pages: PageCount(fast),
        total_pages_hint: PageCount(1 << 22),
        ..Offer::default()
    };
    let entry = REGISTRY.iter().find(|entry| entry.name == "hybridtier").unwrap();
    let spec = crate::spec::Spec::parse(&alloc::format!("{spec}:momentum-cooling={window}"));
    let settings = entry.read(&spec.unwrap(), &context).unwrap();
    HybridTier::new(&settings, &context)
}

#[test]
fn the_momentum_filter_is_not_swamped_at_any_size_of_fast_memory() {
    // With 81,000 pages the momentum filter's counters just fit into the lines of the other's.
    for fast in [1 << 10, 1 << 16, 81_000, 1 << 20] {
        let ours = false_promotions("hybridtier", fast, 110_000);
        assert!(ours < 0.01, "{ours} with {fast} pages");
    }
    let published = false_promotions("hybridtier:momentum-filter=paper", 1 << 16, 110_000);
    assert!(published > 0.5, "{published}: what a small filter does");
}

#[test]
fn filters_agree_with_exact_counts() {
    let increment = Increment::Conservative;
    agrees_with_exact_counts(Filters::<4, true>::new([20_430, 20_430], increment));
    agrees_with_exact_counts(PairedBloom::new(213, increment));
}

fn agrees_with_exact_counts<T: Tracker>(mut filters: T) {
    let mut rng = Rng::new(9);
    let mut truth = Exact::<u8>::default();
    for i in 0..20_000 {
        let unit = (rng.below(1000).min(rng.below(1000))) as u32;
        filters.sample(filters.key(unit));
        truth.sample(unit);
        if i % 7000 == 6999 {
            filters.cool_frequency();
            truth.cool_frequency();
        }
    }
    let frequency = |unit| filters.averages(filters.key(unit)).frequency;
    let agree = (0..1000).filter(|unit| frequency(*unit) == truth.averages(*unit).frequency);
    assert!(agree.count() >= 996);
    assert_eq!(truth.take(0).map(|a| a != Averages::default()), Some(true));
}

#[test]
fn small_filters_decide_otherwise_more_often() {
    let agreement = |bytes: &str| {
        let spec = "hybridtier:audit=on:batch=1000:momentum-cooling=4000";
        let mut w = World::new(1000, &alloc::format!("{spec}:filter-size={bytes}"));
        base(&mut w, 8000);
        let mut rng = Rng::new(2);
        for _ in 0..400 {
            let pages = (0..50).map(|_| rng.below(8000).min(rng.below(8000)) as u32);
            let samples: Vec<Event> = pages.map(|p| w.sample_of(p, SampleKind::LoadMiss)).collect();
            w.feed(&samples);
        }
        w.metric("agreement_ratio")
    };
    let (large, small) = (agreement("32:momentum=0"), agreement("1:momentum=0"));
    assert!(large > 0.99 && small < large, "{large} and {small}");
}

#[test]
fn filters_are_as_large_as_said() {
    let policy = format_settings("hybridtier", 1 << 20, 1_100_000);
    let nothing = World::new(1 << 20, "first-touch");
    let [frequency, momentum] = policy.counters(&nothing.engine.view(), 1, 4.0);
    assert!((frequency as f64 / f64::from(1 << 20) - 20.43).abs() < 0.01);
    assert_eq!(momentum, 5_500_000);
    let names: Vec<String> = REGISTRY.iter().map(|entry| entry.name.into()).collect();
    assert!(names.iter().filter(|name| name.starts_with("hybridtier")).count() == 5);
}
