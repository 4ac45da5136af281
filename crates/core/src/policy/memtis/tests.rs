//! Every rule of the policy, each shown to have been exercised.

use super::*;
use crate::engine::EngineConfig;
use crate::hotness::histogram::BINS;
use crate::policy::testing::World;

/// The published rules: moves need not pay.
fn paper(fast: u64, spec: &str) -> World {
    World::new(fast, spec)
}

fn is_split(action: &Action) -> bool {
    matches!(action, Action::Split { .. })
}

fn is_collapse(action: &Action) -> bool {
    matches!(action, Action::Collapse { .. })
}

#[test]
fn hot_pages_are_promoted_in_the_background_only() {
    let mut w = paper(100, "memtis:adaptation=100:cooling=1000:collapse=off");
    w.populate(PageRun::between(0, 1000), false);
    assert_eq!(w.used(), 100, "new memory is fast while there is room");
    for _ in 0..10 {
        w.sample(500..580, 20);
        let before = w.done.len();
        assert!(w.engine.poll_timeout().unwrap() > w.now);
        w.sample(500..501, 1);
        assert_eq!(w.done.len(), before, "nothing moves between wakeups");
        w.wake();
    }
    assert!(w.metric("coolings_total") > 0.0);
    assert!(w.metric("promotions_proposed_pages_total") >= 80.0);
    assert!((500..580).all(|page| w.tier(page) == Some(TierId::FAST)));
    let lanes = |lane: Lane, fast: bool| {
        w.done.iter().any(|a| matches!(a, Action::Migrate { lane: l, to, .. } if *l == lane && (*to == TierId::FAST) == fast))
    };
    assert!(lanes(Lane::PROMOTE, true) && lanes(Lane::DEMOTE, false), "one worker per tier");
    assert!(!lanes(Lane::PROMOTE, false) && !lanes(Lane::DEMOTE, true));
}

#[test]
fn pages_are_promoted_for_as_many_samples_as_evidence_takes() {
    let promoted = |evidence: &str| {
        let spec = "memtis:adaptation=10:cooling=100000:collapse=off";
        let mut w = World::new(100, &alloc::format!("{spec}{evidence}"));
        w.populate(PageRun::between(0, 1000), false);
        w.sample(500..520, 1);
        w.sample(600..620, 2);
        w.wake();
        w.wake();
        let fast = |pages: core::ops::Range<u32>| {
            pages.filter(|page| w.tier(*page) == Some(TierId::FAST)).count()
        };
        [fast(500..520), fast(600..620)]
    };
    assert_eq!(promoted(""), [20, 20], "the hot set leaves fast memory over");
    assert_eq!(promoted(":evidence=2"), [0, 20]);
    assert_eq!(promoted(":evidence=3"), [0, 0]);
}

#[test]
fn workers_wake_every_half_second() {
    let mut w = paper(100, "memtis");
    assert_eq!(w.engine.poll_timeout(), Some(Nanos(500_000_000)));
    w.wake();
    assert_eq!(w.engine.poll_timeout(), Some(Nanos(1_000_000_000)));
}

#[test]
fn intervals_are_counted_in_samples() {
    let mut w = paper(100, "memtis:adaptation=10:cooling=35:estimation=0.5");
    w.populate(PageRun::between(0, 100), false);
    w.sample(0..1, 9);
    assert_eq!((w.metric("adaptations_total"), w.metric("coolings_total")), (0.0, 0.0));
    w.sample(0..1, 1);
    assert_eq!(w.metric("adaptations_total"), 1.0);
    w.sample(0..1, 995);
    assert_eq!(w.metric("adaptations_total"), 100.0);
    assert_eq!(w.metric("coolings_total"), 28.0);
    assert_eq!(w.metric("estimations_total"), 20.0, "every 0.5 x 100 pages");
    assert_eq!(w.metric("samples_total"), 1005.0);
}

#[test]
fn a_batch_is_processed_like_single_events() {
    let run = |batch: usize| {
        let mut w = paper(50, "memtis:adaptation=100:cooling=700:collapse=off");
        w.populate(PageRun::between(0, 400), false);
        let mut rng = crate::rng::Rng::new(3);
        for _ in 0..40 {
            let events: Vec<Event> = (0..1000)
                .map(|_| {
                    let page = rng.below(20) * rng.below(20);
                    w.sample_of(page as u32, SampleKind::LoadMiss)
                })
                .collect();
            events.chunks(batch).for_each(|events| w.feed(events));
            w.wake();
        }
        assert!(w.metric("coolings_total") > 10.0 && w.engine.stats().promoted_pages > 0);
        (w.done, w.engine.stats().clone())
    };
    assert_eq!(run(1), run(1000));
    assert_eq!(run(7), run(1000), "the same events give the same actions");
}

#[test]
fn both_kinds_of_samples_count_and_strangers_do_not() {
    let mut w = paper(100, "memtis");
    w.populate(PageRun::between(0, 1), false);
    let before = w.metric("hot_threshold_bin");
    let store = w.sample_of(0, SampleKind::Store);
    let unknown = w.sample_of(4711, SampleKind::LoadMiss);
    w.feed(&[store, unknown, Event::SamplesLost { count: 5 }]);
    assert_eq!(before, 1.0, "the hot threshold starts at 1");
    assert_eq!(w.metric("samples_total"), 2.0);
    assert_eq!(w.metric("samples_unknown_page_total"), 1.0);
    assert_eq!(w.metric("samples_lost_total"), 5.0);
}

#[test]
fn new_pages_start_at_the_hot_threshold() {
    let mut w = paper(64, "memtis:adaptation=10:cooling=100000:collapse=off");
    w.populate(PageRun::between(0, 500), false);
    w.sample(0..60, 8);
    let hot = w.metric("hot_threshold_bin");
    assert!(hot > 1.0, "{hot}");
    let before = w.classes();
    w.populate(PageRun::between(1000, 1003), false);
    assert_eq!(w.classes(), [before[0] + 3, before[1], before[2]]);
    w.feed(&[Event::Unmapped { run: PageRun::between(1000, 1002) }]);
    assert_eq!(w.classes(), [before[0] + 1, before[1], before[2]]);
}

#[test]
fn demotion_waits_for_the_free_space_threshold_then_takes_cold_pages() {
    let mut w = paper(1000, "memtis:adaptation=10:cooling=100000:collapse=off:alpha=0.5");
    w.populate(PageRun::between(0, 3000), false);
    // Hot enough a set that everything else is cold at once.
    w.sample(0..600, 40);
    assert_eq!(w.classes(), [600, 0, 2400]);
    w.feed(&[Event::Unmapped { run: PageRun::between(900, 930) }]);
    w.wake();
    assert_eq!(w.engine.stats().demoted_pages, 0, "3 % are free");
    w.populate(PageRun::between(4000, 4015), false);
    w.wake();
    assert_eq!(w.engine.stats().demoted_pages, 5, "2 % of 1000 pages are kept free");
    assert_eq!(w.metric("cold_demotions_proposed_pages_total"), 5.0);
    assert_eq!(w.metric("warm_demotions_proposed_pages_total"), 0.0);
    assert!((0..600).all(|p| w.tier(p) == Some(TierId::FAST)), "hot pages stay");
    w.wake();
    assert_eq!(w.engine.stats().demoted_pages, 5);
}

/// 40 hot and 60 warm pages in fast memory of 100, cold ones beyond.
fn warm_world(spec: &str) -> World {
    let mut w = paper(100, spec);
    w.populate(PageRun::between(0, 1000), false);
    w.sample(0..40, 8);
    w.sample(40..160, 4);
    assert_eq!(w.metric("hot_threshold_bin"), 12.0);
    w
}

#[test]
fn warm_pages_make_room_last() {
    let mut w = warm_world("memtis:adaptation=10:cooling=100000:collapse=off");
    assert_eq!(w.classes(), [40, 120, 840]);
    w.wake();
    assert_eq!(w.engine.stats().promoted_pages, 0, "warm pages stay where they are");
    assert_eq!(w.metric("cold_demotions_proposed_pages_total"), 0.0);
    assert_eq!(w.metric("warm_demotions_proposed_pages_total"), 2.0, "only for the 2 %");
    // Two more hot pages, in slow memory.
    w.sample(500..506, 8);
    w.wake();
    w.wake();
    assert!((500..506).all(|p| w.tier(p) == Some(TierId::FAST)));
    assert!((0..40).all(|p| w.tier(p) == Some(TierId::FAST)), "hot pages are never demoted");
    assert_eq!(w.metric("cold_demotions_proposed_pages_total"), 0.0);
}

#[test]
fn without_a_warm_set_what_is_not_hot_is_cold() {
    let mut w = warm_world("memtis-nw:adaptation=10:cooling=100000:collapse=off");
    assert_eq!(w.classes(), [40, 0, 960]);
    w.wake();
    assert_eq!(w.metric("cold_demotions_proposed_pages_total"), 2.0);
    assert_eq!(w.metric("warm_demotions_proposed_pages_total"), 0.0);
}

#[test]
fn huge_pages_move_as_a_whole_even_where_the_reserve_is_smaller() {
    let mut w = paper(4 * 512, "memtis:adaptation=100:cooling=100000");
    w.populate(PageRun::between(0, 8 * 512), true);
    assert_eq!(w.used(), 4 * 512);
    for _ in 0..5 {
        // Three huge pages beyond the fast tier, all subpages alike.
        w.sample(5 * 512..8 * 512, 1);
        w.wake();
    }
    let fast = |region: u32| w.tier(region * 512) == Some(TierId::FAST);
    assert!(fast(5) && fast(6) && fast(7), "2 % of 2048 pages would be no huge page");
    assert_eq!(w.count(|a| matches!(a, Action::Migrate { run, .. } if run.pages % 512 != 0)), 0);
    assert!(w.engine.stats().promoted_pages >= 3 * 512);
    assert_eq!(w.count(is_split), 0, "dense huge pages stay whole");
    assert_eq!(w.engine.stats().rejected, [0; 8]);
}

#[test]
fn busy_pages_are_tried_again() {
    let mut w = paper(1000, "memtis:adaptation=10:cooling=100000:collapse=off:alpha=0.5");
    w.populate(PageRun::between(0, 3000), false);
    w.sample(0..600, 40);
    w.outcome = MoveOutcome::Busy;
    w.wake();
    assert_eq!(w.engine.stats().demoted_pages, 0);
    let looked_at = w.metric("regions_looked_at_total");
    w.outcome = MoveOutcome::Moved;
    w.wake();
    assert_eq!(w.engine.stats().demoted_pages, 20);
    assert!(w.metric("regions_looked_at_total") > looked_at);
}

#[test]
fn memory_is_not_searched_again_until_something_can_have_changed() {
    let mut w = paper(512, "memtis:adaptation=1000000:cooling=1000000:collapse=off");
    w.populate(PageRun::between(0, 4096), false);
    // Everything is hot at the start: nothing can be demoted, however short room is.
    for _ in 0..20 {
        w.wake();
    }
    assert_eq!(w.engine.stats().demoted_pages, 0);
    assert!(w.metric("regions_looked_at_total") <= 16.0);
}

/// Eight huge pages, two of them fast; in each, only `used` subpages are accessed.
fn skewed_world(spec: &str, used: u32, rounds: usize) -> World {
    let params = "adaptation=500:cooling=3000:collapse=off";
    let mut w = paper(2 * 512, &alloc::format!("{spec}:{params}"));
    w.populate(PageRun::between(0, 8 * 512), true);
    (0..rounds).for_each(|_| use_evenly(&mut w, used));
    w
}

/// Samples `used` subpages of each of eight huge pages, in turn; then a wakeup.
fn use_evenly(w: &mut World, used: u32) {
    for _ in 0..400 / used {
        let subpage = |i: u32| (0..8).map(move |region| region * 512 + i * (512 / used));
        w.sample((0..used).flat_map(subpage), 1);
    }
    w.wake();
}

#[test]
fn skewed_huge_pages_are_split_and_their_subpages_find_their_tiers() {
    let mut w = skewed_world("memtis", 16, 40);
    assert!(w.metric("estimations_total") > 0.0);
    assert!(w.metric("splits_proposed_total") > 0.0);
    assert!(w.engine.stats().splits > 0);
    (0..4).for_each(|_| use_evenly(&mut w, 16));
    let split: Vec<u32> =
        (0..8).filter(|r| !w.engine.view().state(PageId(r * 512)).is_huge()).collect();
    for region in &split {
        for page in (0..16).map(|i| region * 512 + i * 32) {
            assert_eq!(w.tier(page), Some(TierId::FAST), "hot subpage {page}");
        }
    }
    assert!(w.metric("split_demotions_proposed_pages_total") > 0.0, "cold subpages leave");
    assert!(w.metric("estimated_hit_ratio") > 0.9);
}

#[test]
fn all_zero_subpages_are_forgotten() {
    let mut w = paper(1024, "memtis:adaptation=10");
    w.populate(PageRun::between(0, 512), true);
    w.feed(&[Event::Freed { run: PageRun::between(10, 200) }]);
    assert_eq!(w.classes().iter().sum::<u64>(), 512 - 190);
    assert!(!w.engine.view().state(PageId(0)).is_huge());
    w.sample(20..21, 1);
    assert_eq!(w.metric("samples_unknown_page_total"), 1.0);
    let mut w = skewed_world("memtis", 16, 0);
    w.zero = alloc::vec![PageId(1), PageId(513), PageId(1025)];
    (0..40).for_each(|_| use_evenly(&mut w, 16));
    assert!(w.engine.stats().splits > 0 && w.zero.is_empty());
    assert_eq!(w.classes().iter().sum::<u64>(), w.engine.view().resident().0);
}

#[test]
fn dense_huge_pages_are_not_split() {
    let w = skewed_world("memtis", 256, 40);
    assert!(w.metric("estimations_total") > 0.0);
    assert_eq!(w.metric("splits_proposed_total"), 0.0);
}

#[test]
fn the_variant_without_splits_estimates_and_leaves_it_at_that() {
    let w = skewed_world("memtis-ns", 16, 40);
    assert!(w.metric("estimated_hit_ratio") - w.metric("real_hit_ratio") > 0.05);
    assert_eq!(w.count(is_split), 0);
}

#[test]
fn a_benefit_below_the_least_splits_nothing() {
    let w = skewed_world("memtis:benefit=100%", 16, 40);
    assert!(w.metric("estimated_hit_ratio") - w.metric("real_hit_ratio") > 0.05);
    assert_eq!(w.metric("splits_proposed_total"), 0.0);
}

#[test]
fn base_pages_are_coalesced_only_when_all_are_hot() {
    let coalesced = |cold: Option<u32>| {
        let mut w = paper(2048, "memtis:adaptation=100:cooling=6000");
        w.populate(PageRun::between(0, 4096), false);
        w.feed(&[Event::Unmapped { run: PageRun::between(1024, 1700) }]);
        for _ in 0..4 {
            w.sample((0..512).filter(|p| Some(*p) != cold), 8);
            w.sample(512..513, 1);
            w.wake();
        }
        assert!(w.metric("coolings_total") > 0.0);
        let huge = w.engine.view().state(PageId(0)).is_huge();
        assert_eq!(u64::from(huge), w.engine.stats().collapses);
        assert_eq!(w.metric("collapses_proposed_total"), w.count(is_collapse) as f64);
        assert_eq!(w.classes().iter().sum::<u64>(), w.engine.view().resident().0);
        huge
    };
    assert!(coalesced(None));
    assert!(!coalesced(Some(77)), "one page of 512 is not hot");
}

#[test]
fn the_load_period_follows_the_samplers_processor_time() {
    let mut w = paper(100, "memtis:period-check=1ms");
    assert_eq!(w.engine.facts().needs.load_sample_period, 200);
    assert_eq!(w.engine.facts().needs.store_sample_period, 100_000);
    w.feed(&[Event::CpuUsage { wall: Nanos(1_000_000), sampler: Nanos(100_000) }]);
    w.wake();
    assert_eq!(w.done, [Action::SetSampling { kind: SampleKind::LoadMiss, period: 727 }]);
    w.wake();
    assert_eq!(w.done.len(), 1, "told once");
    let mut w = paper(100, "memtis-artifact:period-check=1ms");
    w.feed(&[Event::CpuUsage { wall: Nanos(1_000_000), sampler: Nanos(100_000) }]);
    w.wake();
    assert_eq!(w.done.len(), 2, "stores as well");
}

#[test]
fn the_published_code_moves_its_hot_threshold_bin_by_bin() {
    let steps = |spec: &str| {
        let mut w = paper(10, spec);
        w.populate(PageRun::between(0, 1000), false);
        let mut seen = alloc::vec![w.metric("hot_threshold_bin")];
        for _ in 0..30 {
            w.sample(0..20, 5);
            seen.push(w.metric("hot_threshold_bin"));
        }
        seen.windows(2).map(|pair| (pair[1] - pair[0]).abs()).fold(0.0, f64::max)
    };
    assert_eq!(steps("memtis:hot-step=one:adaptation=100:collapse=off"), 1.0);
    assert!(steps("memtis:adaptation=100:collapse=off") > 1.0);
}

#[test]
fn the_published_code_cools_when_memory_grows() {
    let mut w = paper(100, "memtis:growth-cooling=2MiB:collapse=off");
    w.populate(PageRun::between(0, 511), false);
    assert_eq!(w.metric("coolings_total"), 0.0);
    w.populate(PageRun::between(511, 1100), false);
    assert_eq!(w.metric("coolings_total"), 2.0);
}

#[test]
fn the_published_code_gives_splitting_up_where_it_does_not_pay() {
    // A gain of 100 % cannot be had: the first splits are the last.
    let w = skewed_world("memtis:regret=100%", 16, 40);
    assert_eq!(w.metric("split_given_up"), 1.0);
    assert!(w.engine.stats().splits > 0);
}

#[test]
fn a_refilled_histogram_is_whole_again_after_a_wakeup() {
    let mut w = paper(100, "memtis:histogram=refill:adaptation=50:cooling=200:collapse=off");
    w.populate(PageRun::between(0, 2000), false);
    w.sample(0..20, 10);
    assert_eq!(w.metric("coolings_total"), 1.0);
    assert!(w.classes().iter().sum::<u64>() < 2000);
    w.wake();
    assert_eq!(w.classes().iter().sum::<u64>(), 2000);
}

#[test]
fn metadata_stays_below_eight_bytes_per_page() {
    for huge in [true, false] {
        let mut w = paper(2048, "memtis:adaptation=1000:cooling=20000");
        let pages = 40 * 512;
        w.populate(PageRun::between(0, pages), huge);
        let mut rng = crate::rng::Rng::new(7);
        for _ in 0..50 {
            let events: Vec<Event> = (0..2000)
                .map(|_| {
                    let page = rng.below(u64::from(pages)) & rng.below(u64::from(pages));
                    w.sample_of(page as u32, SampleKind::LoadMiss)
                })
                .collect();
            w.feed(&events);
            w.wake();
        }
        assert!(w.metric("coolings_total") > 2.0 && w.engine.stats().promoted_pages > 0);
        let bytes = w.engine.policy().metadata_bytes().0;
        assert!(bytes >= u64::from(pages) * 2, "{bytes} B cannot be all");
        assert!(bytes <= u64::from(pages) * 8, "{bytes} B for {pages} pages");
    }
}

#[test]
fn remapped_memory_keeps_its_hotness() {
    let mut w = paper(100, "memtis:adaptation=10:cooling=100000:collapse=off");
    w.populate(PageRun::between(0, 500), false);
    w.sample(300..310, 20);
    w.feed(&[Event::Remapped { from: PageRun::between(300, 310), to: PageId(1024) }]);
    w.sample(1024..1034, 1);
    w.wake();
    w.wake();
    assert!((1024..1034).all(|p| w.tier(p) == Some(TierId::FAST)));
    assert_eq!(w.metric("samples_unknown_page_total"), 0.0);
}

const PAYING: &str = "memtis-plus:adaptation=2000:cooling=40000:wakeup=1ms:collapse=off:split=off";

/// 64 huge pages, 16 of them fast, sampled by `draw` in wakeups of 500 samples.
struct Stream {
    world: World,
    rng: crate::rng::Rng,
    at: u64,
}

impl Stream {
    fn new(spec: &str) -> Self {
        let mut world = World::new(16 * 512, spec);
        world.populate(PageRun::between(0, 64 * 512), true);
        Self { world, rng: crate::rng::Rng::new(5), at: 0 }
    }

    /// Feeds so many wakeups; `draw` gives a region by the number of the sample.
    fn run(&mut self, wakeups: u64, draw: impl Fn(&mut crate::rng::Rng, u64) -> u64) {
        for _ in 0..wakeups {
            let events: Vec<Event> = (0..500)
                .map(|_| {
                    let region = draw(&mut self.rng, self.at) as u32;
                    self.at += 1;
                    let page = region * 512 + self.rng.below(512) as u32;
                    self.world.sample_of(page, SampleKind::LoadMiss)
                })
                .collect();
            self.world.feed(&events);
            self.world.wake();
        }
    }

    fn promoted(&self) -> u64 {
        self.world.engine.stats().promoted_pages
    }

    /// Of the regions from `first` on, how many are fast.
    fn fast(&self, regions: core::ops::Range<u32>) -> usize {
        regions.filter(|r| self.world.tier(r * 512) == Some(TierId::FAST)).count()
    }
}

fn even(rng: &mut crate::rng::Rng, _: u64) -> u64 {
    rng.below(64)
}

/// A sweep of 20 000 samples over all pages, again and again.
fn sweep(_: &mut crate::rng::Rng, at: u64) -> u64 {
    at % 20_000 * 64 / 20_000
}

/// Nine samples in ten hit twelve regions from `first` on.
fn skewed_from(first: u64) -> impl Fn(&mut crate::rng::Rng, u64) -> u64 {
    move |rng, _| if rng.below(10) < 9 { first + rng.below(12) } else { rng.below(64) }
}

#[test]
fn pages_as_good_as_those_they_would_replace_are_not_moved() {
    for (name, draw) in [("even", even as fn(&mut _, u64) -> u64), ("sweep", sweep)] {
        let published = {
            let mut s = Stream::new(&alloc::format!("{PAYING}:payoff=off"));
            s.run(1000, draw);
            s.promoted()
        };
        let mut s = Stream::new(PAYING);
        s.run(1000, draw);
        // A sweep leaves little hot behind: mostly there is nothing to try.
        assert!(s.world.metric("trials_failed_total") > 0.0 || name == "sweep");
        assert_eq!(s.world.metric("paused"), 1.0, "{name}");
        let moved = s.promoted();
        assert!(moved * 10 <= published, "{name}: {moved} pages instead of {published}");
    }
}

#[test]
fn moves_that_pay_go_on() {
    let mut s = Stream::new(PAYING);
    s.run(40, skewed_from(40));
    assert_eq!(s.fast(40..52), 12);
    assert!(s.world.metric("trials_total") > s.world.metric("trials_failed_total"));
}

#[test]
fn a_new_hot_set_ends_the_pause_however_long_it_lasted() {
    let mut s = Stream::new(PAYING);
    s.run(1000, even);
    assert_eq!(s.world.metric("paused"), 1.0);
    // 20 000 samples: a quarter of them wait for proof, the rest for hotness to show.
    s.run(40, skewed_from(40));
    assert_eq!(s.fast(40..52), 12, "paused: {}", s.world.metric("paused"));
    s.run(1000, skewed_from(40));
    let before = s.promoted();
    s.run(200, skewed_from(40));
    assert!(s.promoted() - before <= 2 * 512, "nothing is left to gain");
    // Two coolings, which old hotness needs to fall below the new.
    s.run(160, skewed_from(20));
    assert_eq!(s.fast(20..32), 12);
}

#[test]
fn free_room_is_filled_while_moves_are_paused() {
    let mut s = Stream::new(PAYING);
    s.run(200, even);
    assert_eq!((s.world.metric("paused"), s.fast(0..64)), (1.0, 16));
    let before = s.promoted();
    let (leaving, slow): (Vec<u32>, Vec<u32>) = (0..64).partition(|&r| s.fast(r..r + 1) == 1);
    for region in &leaving[..2] {
        s.world.feed(&[Event::Unmapped { run: Region(*region).run() }]);
    }
    let hot = [u64::from(slow[0]), u64::from(slow[1])];
    s.run(3, |rng, _| hot[rng.below(2) as usize]);
    assert_eq!(s.promoted() - before, 2 * 512);
    assert_eq!(s.world.metric("paused"), 1.0);
    assert!(slow[..2].iter().all(|&r| s.fast(r..r + 1) == 1));
}

#[test]
fn new_memory_finds_room_while_moves_are_paused_and_nothing_is_cold() {
    let mut s = Stream::new(PAYING);
    s.run(200, even);
    assert_eq!(s.world.metric("paused"), 1.0);
    let warm = s.world.metric("warm_demotions_proposed_pages_total");
    let cold = s.world.metric("cold_demotions_proposed_pages_total");
    s.world.populate(Region(64).run(), true);
    assert_eq!(s.fast(64..65), 0, "fast memory is full");
    s.run(1, even);
    assert_eq!(s.world.metric("cold_demotions_proposed_pages_total"), cold);
    assert!(s.world.metric("warm_demotions_proposed_pages_total") > warm);
    s.world.populate(Region(65).run(), true);
    assert_eq!((s.fast(65..66), s.world.metric("paused")), (1, 1.0));
}

#[test]
fn trials_see_the_same_samples_in_any_batch() {
    let run = |batch: usize| {
        let mut s = Stream::new("memtis-plus:adaptation=5000:cooling=40000:collapse=off");
        let draw = skewed_from(40);
        for at in 0..60 {
            let events: Vec<Event> = (0..1000)
                .map(|_| s.world.sample_of(draw(&mut s.rng, at) as u32 * 512, SampleKind::Store))
                .collect();
            events.chunks(batch).for_each(|events| s.world.feed(events));
            s.world.wake();
        }
        assert!(s.world.metric("trials_total") > 2.0);
        s.world.done
    };
    assert_eq!(run(1), run(1000));
    assert_eq!(run(77), run(1000));
}

#[test]
fn a_long_pause_samples_less_until_something_changes() {
    let periods = |s: &mut Stream| -> Vec<u32> {
        let set = s.world.done.iter().filter_map(|action| match action {
            Action::SetSampling { kind: SampleKind::LoadMiss, period } => Some(*period),
            _ => None,
        });
        set.collect()
    };
    let mut s = Stream::new(PAYING);
    s.run(200, even);
    assert_eq!(s.world.metric("paused"), 1.0);
    assert_eq!(periods(&mut s), [800], "a quarter of the samples, said once");
    s.run(400, skewed_from(40));
    assert_eq!(periods(&mut s)[..2], [800, 200], "moves paid again");
    let mut open = Stream::new(&alloc::format!("{PAYING}:payoff=off"));
    open.run(200, even);
    assert_eq!(periods(&mut open), [], "no pause, no longer period");
}

/// 100 pages fast, 300 in the middle, the rest below.
fn three_tiers(spec: &str) -> World {
    let mut config = EngineConfig::two_tiers(PageCount(100), PageCount(300));
    config.tiers.push(TierLimits { capacity: PageCount(1 << 20), ..config.tiers[1] });
    World::tiered(config, spec)
}

#[test]
fn with_three_tiers_hot_pages_come_up_from_any_and_cold_ones_go_down_step_by_step() {
    let mut w = three_tiers("memtis:adaptation=100:cooling=1000:collapse=off");
    w.populate(PageRun::between(0, 1000), false);
    let used = |w: &World, tier| w.engine.view().used(TierId(tier)).0;
    assert_eq!([used(&w, 0), used(&w, 1), used(&w, 2)], [100, 300, 600], "one after the other");
    for _ in 0..12 {
        // Some that the middle tier holds and some that the slowest does; and pages that are
        // less hot than these and hotter than the rest.
        w.sample((200..240).chain(700..740), 20);
        w.sample(240..400, 2);
        w.wake();
    }
    let tier = |page: u32| w.tier(page).unwrap();
    let in_tier = |pages: core::ops::Range<u32>, wanted| {
        pages.filter(|page| tier(*page) == TierId(wanted)).count()
    };
    assert_eq!(in_tier(200..240, 0) + in_tier(700..740, 0), 80, "hot");
    assert!(w.metric("lower_demotions_proposed_pages_total") > 0.0);
    assert_eq!(in_tier(240..400, 2), 0, "what is less hot belongs into the middle");
    assert!(in_tier(0..100, 1) + in_tier(0..100, 2) >= 80, "cold");
    assert!(used(&w, 0) <= 100 && used(&w, 1) <= 300);
    assert_eq!(w.engine.stats().rejected, [0; 8], "nothing is proposed that there is no room for");
}

#[test]
fn a_middle_tier_passes_on_no_more_while_that_is_on_its_way() {
    let mut w = three_tiers("memtis:adaptation=100:cooling=1000:collapse=off");
    w.populate(PageRun::between(0, 1000), false);
    for _ in 0..3 {
        w.sample((200..240).chain(700..740), 20);
        w.wake();
    }
    let passed_on = |w: &World| w.metric("lower_demotions_proposed_pages_total");
    // From now on nothing that is approved ends.
    w.sample(240..300, 200);
    let wake = |w: &mut World| {
        w.now = w.engine.poll_timeout().unwrap().max(w.now);
        w.engine.handle_timeout(w.now);
        while w.engine.poll_action().is_some() {}
    };
    wake(&mut w);
    let first = passed_on(&w);
    (0..5).for_each(|_| wake(&mut w));
    assert!(first > 0.0 && passed_on(&w) - first <= 6.0, "{first}, then {}", passed_on(&w));
}

#[test]
fn the_histogram_counts_every_page_in_its_bin() {
    let mut w = paper(100, "memtis:adaptation=100:cooling=1000:collapse=off");
    w.populate(PageRun::between(0, 1000), false);
    for _ in 0..10 {
        w.sample(500..580, 20);
        w.wake();
    }
    let policy = w.engine.policy();
    let bins = policy.hotness().unwrap();
    let mut counted = [0; BINS];
    (0..1000).for_each(|page| counted[policy.bin_of(PageId(page)).unwrap()] += 1);
    assert_eq!(bins.pages, counted);
    assert!(policy.bin_of(PageId(500)).unwrap() >= bins.hot as usize);
    assert!(policy.bin_of(PageId(0)).unwrap() < bins.hot as usize);
    assert_eq!(policy.bin_of(PageId(5000)), None);
    assert!(bins.least.is_sorted() && bins.warm <= bins.hot);
}
