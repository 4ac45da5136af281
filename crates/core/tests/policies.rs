//! Policies in random worlds, and the references by their definition.

use frostline_core::action::Action;
use frostline_core::engine::{Engine, EngineConfig};
use frostline_core::event::{
    AccessBits, Backing, Event, Fault, Level, MoveCause, MoveOutcome, Sample, SampleKind,
};
use frostline_core::policy::registry::REGISTRY;
use frostline_core::policy::{
    Allocation, EpochReader, FaultDecision, Group, Offer, Oracle, PageSaving, make,
};
use frostline_core::{HUGE_PAGES, Nanos, PageCount, PageId, PageRun, ProcessId, Region, TierId};
use proptest::prelude::*;
use std::sync::Arc;

const SLOW: TierId = TierId(1);

fn engine(spec: &str, fast: u64, slow: u64, context: &Offer) -> Engine {
    let policy = make(spec, context).unwrap();
    Engine::new(EngineConfig::two_tiers(PageCount(fast), PageCount(slow)), policy).unwrap()
}

fn allocate(engine: &mut Engine, run: PageRun, huge: bool) -> Option<TierId> {
    let allocation = Allocation { run, huge, may_be_huge: false, process: ProcessId(0) };
    engine.populate(Nanos(0), &allocation).map(|placed| placed.tier)
}

/// Savings per epoch, and their sum as the totals; a move costs 10 ns each way.
struct Known(Vec<Vec<(u32, f64)>>);

impl Oracle for Known {
    fn totals(&self, sink: &mut dyn FnMut(PageSaving)) {
        let mut sums = std::collections::BTreeMap::new();
        for (page, ns) in self.0.iter().flatten() {
            *sums.entry(*page).or_insert(0.0) += ns;
        }
        sums.into_iter().for_each(|(p, saving_ns)| sink(PageSaving { page: PageId(p), saving_ns }));
    }
    fn epochs(&self) -> EpochReader {
        let epochs = self.0.clone();
        Box::new(move |number, sink| {
            for (page, saving_ns) in epochs.get(number as usize).into_iter().flatten() {
                sink(PageSaving { page: PageId(*page), saving_ns: *saving_ns });
            }
            number < epochs.len() as u64
        })
    }
    fn promotion_cost_ns(&self) -> f64 {
        10.0
    }
    fn demotion_cost_ns(&self) -> f64 {
        10.0
    }
}

fn knowing(epochs: Vec<Vec<(u32, f64)>>) -> Offer {
    Offer { oracle: Some(Arc::new(Known(epochs))), ..Offer::default() }
}

fn tiers(engine: &Engine, pages: std::ops::Range<u32>) -> Vec<u8> {
    pages.map(|p| engine.view().state(PageId(p)).tier().map_or(9, |t| t.0)).collect()
}

/// Carries everything out; gives the number of moves.
fn act(engine: &mut Engine, now: Nanos) -> usize {
    let mut moves = 0;
    loop {
        let mut events = Vec::new();
        while let Some(action) = engine.poll_action() {
            if let Action::Migrate { id, run, .. } = action {
                moves += 1;
                events.push(Event::MigrationDone { id, run, outcome: MoveOutcome::Moved });
            }
        }
        if events.is_empty() {
            return moves;
        }
        engine.handle_events(now, &events);
    }
}

#[test]
fn references_place_by_their_definition() {
    let place = |spec: &str| {
        let mut e = engine(spec, 4, 100, &Offer::default());
        for page in 0..8 {
            allocate(&mut e, PageRun::between(page, page + 1), false).unwrap();
        }
        assert_eq!(e.poll_timeout(), None);
        tiers(&e, 0..8)
    };
    assert_eq!(place("first-touch"), [0, 0, 0, 0, 1, 1, 1, 1]);
    assert_eq!(place("all-slow"), [1; 8]);
    assert_eq!(place("interleave"), [0, 1, 0, 1, 0, 1, 0, 1]);
    assert_eq!(place("interleave:fast=2"), [0, 0, 1, 0, 0, 1, 1, 1], "full after four");
    assert_eq!(place("interleave:fast=0"), [1; 8]);
    for entry in REGISTRY.iter().filter(|e| e.group != Group::Offline) {
        let made = make(entry.name, &Offer::default()).unwrap();
        assert_eq!(made.facts.unlimited_fast, entry.name == "all-fast");
    }
}

#[test]
fn interleave_deals_to_all_slower_tiers() {
    let mut config = EngineConfig::two_tiers(PageCount(100), PageCount(100));
    config.tiers.push(config.tiers[1]);
    let policy = make("interleave:slow=2", &Offer::default()).unwrap();
    let mut e = Engine::new(config, policy).unwrap();
    for page in 0..6 {
        allocate(&mut e, PageRun::between(page, page + 1), false).unwrap();
    }
    assert_eq!(tiers(&e, 0..6), [0, 1, 2, 0, 1, 2]);
}

#[test]
fn oracle_static_places_the_best_once() {
    let savings = vec![vec![(0, 1.0), (1, 5.0), (2, 3.0), (3, 9.0), (4, 4.0)]];
    let mut e = engine("oracle-static", 2, 100, &knowing(savings));
    for page in 0..6 {
        allocate(&mut e, PageRun::between(page, page + 1), false).unwrap();
    }
    assert_eq!(tiers(&e, 0..6), [1, 0, 1, 0, 1, 1]);
    assert!(e.metadata_bytes().0 > 0);
    // Folios are ranked by the sum over their pages.
    let savings = vec![vec![(0, 50.0), (512, 30.0), (600, 30.0), (1024, 10.0)]];
    let mut e = engine("oracle-static", 512, 4096, &knowing(savings));
    for region in 0..3 {
        allocate(&mut e, Region(region).run(), true).unwrap();
    }
    assert_eq!(
        [0, 512, 1024].map(|p| e.view().state(PageId(p)).tier()),
        [Some(SLOW), Some(TierId::FAST), Some(SLOW)]
    );
}

#[test]
fn oracle_epoch_moves_what_pays_for_the_moves() {
    let epochs = vec![
        vec![(0, 90.0), (1, 90.0), (2, 1.0), (3, 1.0)],
        // Page 2 gains 100 - 1, more than the 20 of both moves; page 3 gains 15 only.
        vec![(0, 50.0), (1, 1.0), (2, 100.0), (3, 16.0)],
    ];
    let mut e = engine("oracle-epoch:horizon=1", 2, 100, &knowing(epochs));
    for page in 0..4 {
        allocate(&mut e, PageRun::between(page, page + 1), false).unwrap();
    }
    assert_eq!(tiers(&e, 0..4), [0, 0, 1, 1], "placed for epoch 0");
    e.handle_events(Nanos(1), &[Event::Epoch { number: 0 }]);
    assert_eq!(act(&mut e, Nanos(1)), 0, "everything is where it should be");
    e.handle_events(Nanos(2), &[Event::Epoch { number: 1 }]);
    assert_eq!(act(&mut e, Nanos(2)), 2);
    assert_eq!(tiers(&e, 0..4), [0, 1, 0, 1]);
    assert_eq!(e.poll_timeout(), None);
    // Nothing is known of later epochs: nothing is moved.
    e.handle_events(Nanos(3), &[Event::Epoch { number: 2 }]);
    assert_eq!(act(&mut e, Nanos(3)), 0);
}

#[test]
fn oracle_epoch_sums_over_its_horizon() {
    // 15 ns an epoch do not pay for two moves, 30 ns do.
    let epochs = vec![vec![(0, 1.0)], vec![], vec![(0, 1.0), (1, 16.0)], vec![(0, 1.0), (1, 16.0)]];
    let run = |horizon: u64| {
        let spec = format!("oracle-epoch:horizon={horizon}");
        let mut e = engine(&spec, 1, 100, &knowing(epochs.clone()));
        for page in 0..2 {
            allocate(&mut e, PageRun::between(page, page + 1), false).unwrap();
        }
        for number in 0..4 {
            e.handle_events(Nanos(number), &[Event::Epoch { number }]);
            act(&mut e, Nanos(number));
        }
        tiers(&e, 0..2)
    };
    assert_eq!(run(1), [0, 1]);
    assert_eq!(run(2), [1, 0]);
}

#[test]
fn oracle_epoch_uses_free_room_first_and_moves_folios_whole() {
    let epochs = vec![vec![(512, 1e6), (5, 3.0)], vec![(512, 1e6), (1024, 9e6)]];
    let mut e = engine("oracle-epoch:horizon=1", 1024, 4096, &knowing(epochs));
    for region in 0..3 {
        e.handle_events(
            Nanos(0),
            &[Event::Populated { run: Region(region).run(), tier: SLOW, huge: true }],
        );
    }
    e.handle_events(Nanos(1), &[Event::Epoch { number: 0 }]);
    assert_eq!(act(&mut e, Nanos(1)), 1, "3 ns do not pay for 512 pages");
    assert_eq!(e.view().state(PageId(600)).tier(), Some(TierId::FAST));
    e.handle_events(Nanos(2), &[Event::Epoch { number: 1 }]);
    assert_eq!(act(&mut e, Nanos(2)), 1, "there is room for both");
    assert_eq!((e.stats().promoted_pages, e.stats().demoted_pages), (1024, 0));
    assert_eq!(e.stats().rejected, [0; 8]);
}

#[test]
fn pet_oracle_demotes_allocations_while_they_are_idle() {
    // Two allocations of 40 pages; in the second epoch only the first one is accessed, in the third
    // both.
    let of = |first: u32| (first..first + 40).map(|page| (page, 50.0)).collect::<Vec<_>>();
    let epochs = vec![of(0), of(0), [of(0), of(40)].concat()];
    let mut e = engine("pet-oracle:horizon=1", 200, 200, &knowing(epochs));
    for start in [0, 40] {
        let run = PageRun::between(start, start + 40);
        let (backing, process) = (Backing::Anonymous, ProcessId(0));
        e.handle_events(Nanos(0), &[Event::Mapped { run, backing, process }]);
        for page in run.iter() {
            allocate(&mut e, PageRun::single(page), false).unwrap();
        }
    }
    let fast = |e: &Engine| tiers(e, 0..80).iter().filter(|tier| **tier == 0).count();
    assert_eq!(fast(&e), 80);
    for (number, expected) in [(1, 40), (2, 80)] {
        e.handle_events(Nanos(number), &[Event::Epoch { number }]);
        assert_eq!((act(&mut e, Nanos(number)), fast(&e)), (1, expected));
    }
    assert_eq!(e.poll_timeout(), None);
}

#[derive(Clone, Debug)]
enum Step {
    Allocate { region: u32, offset: u32, huge: bool },
    Unmap { start: u32, pages: u32 },
    Samples { start: u32, stride: u32, count: u32 },
    Finish { outcome: u8 },
    Touches { start: u32, stride: u32, count: u32, write: bool },
    Cpu { sampler: u64 },
    Latencies { reads: [u16; 2], ns: [u16; 2] },
    Wait,
}

const REGIONS: u32 = 8;

fn step() -> impl Strategy<Value = Step> {
    let page = || 0..REGIONS * HUGE_PAGES;
    prop_oneof![
        4 => (0..REGIONS, 0..HUGE_PAGES, any::<bool>())
            .prop_map(|(region, offset, huge)| Step::Allocate { region, offset, huge }),
        1 => (page(), 1..600u32).prop_map(|(start, pages)| Step::Unmap { start, pages }),
        8 => (page(), 0..40u32, 1..400u32)
            .prop_map(|(start, stride, count)| Step::Samples { start, stride, count }),
        4 => (0..8u8).prop_map(|outcome| Step::Finish { outcome }),
        4 => (page(), 0..40u32, 1..400u32, any::<bool>())
            .prop_map(|(start, stride, count, write)| Step::Touches { start, stride, count, write }),
        1 => (0..2_000_000u64).prop_map(|sampler| Step::Cpu { sampler }),
        2 => any::<([u16; 2], [u16; 2])>().prop_map(|(reads, ns)| Step::Latencies { reads, ns }),
        4 => Just(Step::Wait),
    ]
}

/// A world that carries actions out late, and not always well.
struct World {
    engine: Engine,
    now: Nanos,
    open: Vec<Action>,
    log: Vec<Action>,
    /// Stands for access bits.
    touched: u64,
    faults: u64,
}

impl World {
    fn run(spec: &str, fast: u64, steps: &[Step]) -> Self {
        let engine = engine(spec, fast, u64::from(REGIONS * HUGE_PAGES), &Offer::default());
        let mut world = Self {
            engine,
            now: Nanos(0),
            open: Vec::new(),
            log: Vec::new(),
            touched: 0,
            faults: 0,
        };
        let process = ProcessId(0);
        let backing = Backing::Anonymous;
        let regions = (0..REGIONS).map(|region| Region(region).run());
        let mapped: Vec<Event> =
            regions.map(|run| Event::Mapped { run, backing, process }).collect();
        world.feed(&mapped);
        for step in steps {
            world.step(step);
            world.check();
        }
        world
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Allocate { region, offset, huge } => {
                let region = Region(region).run();
                let run = if huge || offset < 128 {
                    region
                } else {
                    PageRun { start: PageId(region.start.0 + offset), pages: 300 }.intersect(region)
                };
                let absent = |p: PageId| !self.engine.view().state(p).is_resident();
                if huge && run.iter().all(absent) {
                    allocate(&mut self.engine, run, true);
                } else {
                    for page in run.iter() {
                        if !self.engine.view().state(page).is_resident() {
                            allocate(&mut self.engine, PageRun::single(page), false);
                        }
                    }
                }
                self.feed(&[]);
            }
            Step::Unmap { start, pages } => {
                self.feed(&[Event::Unmapped { run: PageRun { start: PageId(start), pages } }]);
            }
            Step::Samples { start, stride, count } => {
                let sample = |i: u32| {
                    let page = PageId((start + i * stride) % (REGIONS * HUGE_PAGES));
                    let tier = self.engine.view().state(page).tier().unwrap_or(SLOW);
                    let process = ProcessId(0);
                    Event::Sample(Sample::new(page, SampleKind::LoadMiss, tier, process))
                };
                let events: Vec<Event> = (0..count).map(sample).collect();
                self.feed(&events);
            }
            Step::Finish { outcome } => self.finish(outcome),
            Step::Touches { start, stride, count, write } => {
                for i in 0..count {
                    self.touch(PageId((start + i * stride) % (REGIONS * HUGE_PAGES)), write);
                }
            }
            Step::Cpu { sampler } => {
                let wall = Nanos(10_000_000);
                self.feed(&[Event::CpuUsage { wall, sampler: Nanos(sampler) }]);
            }
            Step::Latencies { reads, ns } => {
                let latency = |tier: usize| {
                    let waited = Nanos(u64::from(reads[tier]) * u64::from(ns[tier]));
                    let reads = reads[tier].into();
                    Event::ReadLatency { tier: TierId(tier as u8), reads, waited }
                };
                self.feed(&[latency(0), latency(1)]);
            }
            Step::Wait => {
                self.now = self.engine.poll_timeout().unwrap_or(self.now).max(self.now);
                self.feed(&[]);
            }
        }
    }

    fn finish(&mut self, outcome: u8) {
        let outcome = match outcome {
            0 => MoveOutcome::Busy,
            1 => MoveOutcome::NoSpace,
            2 => MoveOutcome::Shared,
            _ => MoveOutcome::Moved,
        };
        let good = outcome == MoveOutcome::Moved;
        let events: Vec<Event> = self
            .open
            .drain(..)
            .map(|action| match action {
                Action::Migrate { id, run, .. } => Event::MigrationDone { id, run, outcome },
                Action::Split { region, .. } => {
                    // A split that lost its folio meanwhile fails.
                    let huge = self.engine.view().state(region.first()).is_huge();
                    Event::SplitDone { region, split: good && huge }
                }
                Action::Collapse { region, to, .. } => {
                    let whole = region.run().iter();
                    let whole = whole.clone().all(|p| self.engine.view().state(p).is_resident());
                    Event::CollapseDone { region, tier: (good && whole).then_some(to) }
                }
                Action::Scan { scan, .. } => {
                    let unit = if scan.level == Level::Huge { HUGE_PAGES } else { 1 };
                    let run = PageRun { pages: scan.run.pages.min(64 * unit), ..scan.run };
                    let accessed = self.touched.rotate_left(run.start.0);
                    Event::AccessBits(AccessBits { run, accessed, level: scan.level })
                }
                other => panic!("{other:?} is not for this world"),
            })
            .collect();
        self.feed(&events);
    }

    /// A touch, which faults where the page is armed.
    fn touch(&mut self, page: PageId, write: bool) {
        let state = self.engine.view().state(page);
        self.touched = self.touched.rotate_left(5) ^ u64::from(page.0);
        let Some(tier) = state.tier().filter(|_| state.is_armed()) else { return };
        self.faults += 1;
        let fault = Fault { page, tier, write, process: ProcessId(0), thread: 0 };
        // Pages are only exchanged for such of the same size.
        let huge = state.is_huge();
        let unit = |page: PageId| if huge { page.region().run() } else { PageRun::single(page) };
        let cause = MoveCause::FaultDecision;
        let mut events = vec![Event::Fault(fault)];
        match self.engine.on_fault(self.now, &fault) {
            FaultDecision::Stay => {}
            FaultDecision::MoveHere(to) => {
                events.push(Event::Moved { run: unit(page), to, cause });
            }
            FaultDecision::Exchange(other) => {
                let there = self.engine.view().state(other).tier().unwrap();
                events.push(Event::Moved { run: unit(other), to: tier, cause });
                events.push(Event::Moved { run: unit(page), to: there, cause });
            }
        }
        self.feed(&events);
    }

    fn feed(&mut self, events: &[Event]) {
        self.engine.handle_events(self.now, events);
        while let Some(action) = self.engine.poll_action() {
            self.log.push(action);
            let at_once = matches!(
                action,
                Action::SetSampling { .. } | Action::Arm { .. } | Action::Disarm { .. }
            );
            if !at_once {
                self.open.push(action);
            }
        }
    }

    fn check(&self) {
        let view = self.engine.view();
        for tier in [TierId::FAST, SLOW] {
            let taken = view.used(tier).0 + view.reserved(tier).0;
            assert!(taken <= view.limits(tier).capacity.0, "{tier:?} holds {taken}");
        }
        assert_eq!(self.engine.stats().anomalies, 0);
        if let Some(classes) = self.engine.policy().classes() {
            let pages = classes.iter().sum::<u64>();
            // The published code empties its histogram at a cooling.
            let lazy = self.engine.name().starts_with("memtis-artifact");
            let all = view.resident().0;
            assert!(pages == all || lazy && pages < all, "{pages} of {all} pages have a class");
        }
    }

    fn metric(&self, name: &str) -> f64 {
        let mut found = 0.0;
        self.engine.policy().metrics(&mut |key, value| {
            if key == name {
                found = value;
            }
        });
        found
    }
}

/// Intervals that fit the small worlds, and splits that need little reason.
const FAST_PACED: &str = "adaptation=200:cooling=1500:wakeup=1ms:period-check=10ms:\
                          estimation=0.2:benefit=0:patient=off:latency-gap=50";

/// The same for fixed thresholds.
const HEMEM: &str = "hemem:wakeup=1ms:hot-loads=3";

/// Systems of other publications, quick enough for a small world; and a counter that shows that
/// each did what it is for.
const RIVALS: [(&str, &str); 20] = [
    ("thermostat:period=6ms:rearm=1ms:share=0.5:slowdown=0.5", "cold_regions_total"),
    ("damon:sampling=1ms:floor=100us:samples=3:apply=3ms", "fast_looks_total"),
    ("mglru-pd:aging=3ms", "oldest_demoted_pages_total"),
    ("pet:sampling=1ms:scan=5ms:temporary=256KiB", "canary_faults_total"),
    ("pet-nofile:sampling=1ms:scan=3ms:temporary=1MiB:penalty=100us", "promoted_blocks_total"),
    ("arc:wakeup=1ms", "references_in_second_ghosts_total"),
    ("twoq:wakeup=1ms", "references_in_first_ghosts_total"),
    ("tmts:scan=3ms:wakeup=1ms", "splits_proposed_total"),
    ("tmts:scan=3ms:wakeup=1ms:split=off", "hot_by_scans_total"),
    ("hotbox:period=1ms", "promoted_in_fault_pages_total"),
    ("swap-lru", "kswapd_demoted_pages_total"),
    (
        "autonuma:scan-size=1MiB:scan-delay=0s:scan-floor=1ms:hot=1s",
        "promoted_in_fault_pages_total",
    ),
    ("autonuma-nodemote:scan-size=1MiB:scan-delay=0s:scan-floor=1ms", "hint_faults_total"),
    ("tiering-0.8:scan-size=1MiB:scan-delay=0s:scan-floor=1ms", "kswapd_demoted_pages_total"),
    ("tpp:scan-size=1MiB:scan-delay=0s:scan-floor=1ms", "promoted_in_fault_pages_total"),
    ("autotiering:scan-size=1MiB:scan-delay=0s:scan-floor=1ms", "demotions_proposed_pages_total"),
    ("autotiering:scan-size=1MiB:scan-floor=1ms:mode=exchange", "exchanged_pages_total"),
    ("nimble:pages=base:interval=2ms", "filled_up_pages_total"),
    ("nimble:interval=2ms", "promotions_proposed_pages_total"),
    ("multi-clock:interval=1ms", "promotions_proposed_pages_total"),
];

proptest! {
    #[test]
    fn the_rivals_keep_the_books_in_any_world(
        steps in proptest::collection::vec(step(), 1..120),
        fast in 100u64..3000,
    ) {
        for (spec, _) in RIVALS {
            World::run(spec, fast, &steps);
        }
    }

    #[test]
    fn memtis_keeps_the_books_in_any_world(
        steps in proptest::collection::vec(step(), 1..120),
        fast in 100u64..3000,
    ) {
        for name in ["memtis", "memtis-plus", "memtis-ns", "memtis-nw"] {
            World::run(&format!("{name}:{FAST_PACED}"), fast, &steps);
        }
    }

    #[test]
    fn hemem_keeps_the_books_in_any_world(
        steps in proptest::collection::vec(step(), 1..120),
        fast in 100u64..3000,
    ) {
        World::run(HEMEM, fast, &steps);
    }

    #[test]
    fn the_same_events_give_the_same_actions(
        steps in proptest::collection::vec(step(), 1..120),
        fast in 100u64..3000,
    ) {
        let memtis = ["memtis-plus", "memtis-artifact"].map(|name| format!("{name}:{FAST_PACED}"));
        let rivals = RIVALS.iter().map(|(spec, _)| *spec);
        for spec in [&memtis[0], &memtis[1], HEMEM].into_iter().chain(rivals) {
            let (a, b) = (World::run(spec, fast, &steps), World::run(spec, fast, &steps));
            prop_assert_eq!(a.log, b.log);
            prop_assert_eq!(a.engine.stats(), b.engine.stats());
        }
    }
}

#[test]
fn the_random_worlds_exercise_the_rivals() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut sums = [0.0; RIVALS.len()];
    for i in 0..20 {
        let steps = proptest::collection::vec(step(), 100..200);
        let steps = steps.new_tree(&mut runner).expect("no filter").current();
        for ((spec, metric), sum) in RIVALS.iter().zip(&mut sums) {
            *sum += World::run(spec, 500 + 60 * i, &steps).metric(metric);
        }
    }
    for ((spec, metric), sum) in RIVALS.iter().zip(sums) {
        assert!(sum > 0.0, "{spec}: {metric}");
    }
}

#[test]
fn the_random_worlds_exercise_every_mechanism() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut moved, mut cooled, mut split, mut collapsed, mut periods) = (0, 0.0, 0, 0, 0.0);
    for i in 0..60 {
        let steps = proptest::collection::vec(step(), 100..200);
        let steps = steps.new_tree(&mut runner).expect("no filter").current();
        let world = World::run(&format!("memtis:{FAST_PACED}"), 500 + 60 * i, &steps);
        let stats = world.engine.stats();
        moved += stats.promoted_pages.min(stats.demoted_pages);
        cooled += world.metric("coolings_total");
        split += stats.splits;
        collapsed += stats.collapses;
        periods += world.metric("load_period_changes_total");
    }
    let (mut moved_by_hemem, mut halted) = (0, 0.0);
    for i in 0..20 {
        let steps = proptest::collection::vec(step(), 100..200);
        let steps = steps.new_tree(&mut runner).expect("no filter").current();
        let world = World::run(HEMEM, 500 + 60 * i, &steps);
        let stats = world.engine.stats();
        moved_by_hemem += stats.promoted_pages.min(stats.demoted_pages);
        halted += world.metric("halts_total");
    }
    assert!(moved_by_hemem > 0 && halted > 0.0, "moved {moved_by_hemem}, halted {halted}");
    assert!(
        moved > 0 && cooled > 0.0 && split > 0 && collapsed > 0 && periods > 0.0,
        "moved {moved}, cooled {cooled}, split {split}, collapsed {collapsed}, periods {periods}"
    );
}
