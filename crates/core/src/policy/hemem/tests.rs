//! Every rule of the policy, each shown to have been exercised.

use crate::action::Action;
use crate::engine::{Engine, EngineConfig};
use crate::event::{Event, MoveOutcome, Sample, SampleKind};
use crate::policy::{Allocation, PolicyContext, make};
use crate::types::*;
use alloc::vec::Vec;

const SLOW: TierId = TierId(1);

/// An engine with a world that carries every action out at once.
struct World {
    engine: Engine,
    now: Nanos,
    outcome: MoveOutcome,
    /// Pages in the order in which they were moved, with where to.
    moved: Vec<(PageRun, TierId)>,
}

impl World {
    fn new(fast: u64) -> Self {
        let policy = make("hemem", &PolicyContext::default()).unwrap();
        let config = EngineConfig::two_tiers(PageCount(fast), PageCount(1 << 20));
        let engine = Engine::new(config, policy);
        Self { engine, now: Nanos(1), outcome: MoveOutcome::Moved, moved: Vec::new() }
    }

    fn populate(&mut self, pages: core::ops::Range<u32>) {
        for page in pages {
            let run = PageRun::single(PageId(page));
            let allocation = Allocation { run, huge: false, process: ProcessId(0) };
            self.engine.populate(self.now, &allocation).unwrap();
        }
        self.feed(&[]);
    }

    fn populate_huge(&mut self, region: u32) {
        let run = Region(region).run();
        let allocation = Allocation { run, huge: true, process: ProcessId(0) };
        self.engine.populate(self.now, &allocation).unwrap();
        self.feed(&[]);
    }

    fn feed(&mut self, events: &[Event]) {
        self.engine.handle_events(self.now, events);
        let mut done = Vec::new();
        while let Some(action) = self.engine.poll_action() {
            let Action::Migrate { id, run, to, .. } = action else { panic!("{action:?}") };
            self.moved.push((run, to));
            done.push(Event::MigrationDone { id, run, outcome: self.outcome });
        }
        if !done.is_empty() {
            self.engine.handle_events(self.now, &done);
        }
    }

    fn sample(&mut self, page: u32, kind: SampleKind, times: usize) {
        let page = PageId(page);
        let tier = self.engine.view().state(page).tier().unwrap_or(SLOW);
        let sample = Event::Sample(Sample { page, kind, tier, process: ProcessId(0) });
        self.feed(&alloc::vec![sample; times]);
    }

    fn loads(&mut self, page: u32, times: usize) {
        self.sample(page, SampleKind::LoadMiss, times);
    }

    /// Lets the migration thread wake up; gives the pages that it moved since the last time.
    fn wake(&mut self) -> Vec<(u32, u8)> {
        self.now = self.engine.poll_timeout().unwrap().max(self.now);
        self.feed(&[]);
        let moved = core::mem::take(&mut self.moved);
        moved.iter().map(|(run, to)| (run.start.0, to.0)).collect()
    }

    fn hot(&self) -> u64 {
        self.engine.policy().classes().unwrap()[0]
    }

    fn metric(&self, name: &str) -> f64 {
        let mut found = None;
        self.engine.policy().metrics(&mut |key, value| {
            if key == name {
                found = Some(value);
            }
        });
        found.unwrap()
    }
}

#[test]
fn a_page_is_hot_at_8_loads_or_4_stores() {
    let mut w = World::new(100);
    w.populate(0..10);
    w.loads(0, 7);
    w.sample(1, SampleKind::Store, 3);
    assert_eq!(w.hot(), 0);
    w.loads(0, 1);
    assert_eq!(w.hot(), 1);
    w.sample(1, SampleKind::Store, 1);
    assert_eq!((w.hot(), w.engine.policy().classes()), (2, Some([2, 0, 8])));
    w.loads(50, 9);
    assert_eq!((w.hot(), w.metric("samples_unknown_page_total")), (2, 9.0));
}

#[test]
fn at_18_of_one_kind_every_count_is_halved() {
    let mut w = World::new(100);
    w.populate(0..10);
    w.loads(0, 17);
    w.loads(1, 15);
    w.loads(2, 17);
    w.sample(3, SampleKind::Store, 7);
    w.wake();
    assert_eq!((w.hot(), w.metric("coolings_total")), (4, 0.0));
    w.loads(0, 1);
    assert_eq!(w.metric("coolings_total"), 1.0);
    w.wake();
    // 9, 7, 8 loads and 3 stores: nobody sampled the last three since.
    assert_eq!(w.hot(), 2);
    w.loads(1, 1);
    assert_eq!(w.hot(), 3, "7 and 1 are 8");
    w.loads(0, 9);
    assert_eq!(w.metric("coolings_total"), 2.0, "9 and 9 are 18");
    w.wake();
    assert_eq!(w.hot(), 1, "9, 4, 4");
}

#[test]
fn a_huge_page_is_counted_as_one() {
    let mut w = World::new(2048);
    w.populate_huge(0);
    (0..8).for_each(|page| w.loads(page * 60, 1));
    assert_eq!(w.hot(), 512);
}

#[test]
fn hot_pages_go_up_in_the_order_in_which_they_became_hot() {
    let mut w = World::new(10);
    w.populate(0..14);
    for page in [12, 10, 13] {
        w.loads(page, 8);
    }
    // Fast memory is full of cold pages: the ones that were cold first make room.
    assert_eq!(w.wake(), [(0, 1), (1, 1), (2, 1)]);
    assert_eq!(w.wake(), [(12, 0), (10, 0), (13, 0)]);
    assert_eq!(w.wake(), [], "nothing else is hot");
    assert_eq!(w.metric("promotions_proposed_pages_total"), 3.0);
}

#[test]
fn a_page_that_was_hot_goes_to_the_end_of_the_cold_ones() {
    let mut w = World::new(3);
    w.populate(0..5);
    w.loads(0, 8);
    w.loads(3, 18);
    assert_eq!(w.metric("coolings_total"), 1.0);
    assert_eq!(w.wake(), [(1, 1)]);
    assert_eq!(w.wake(), [(3, 0)]);
    w.loads(4, 8);
    assert_eq!(w.wake(), [(2, 1)], "0 was hot until the halving");
    assert_eq!(w.wake(), [(4, 0)]);
    w.loads(1, 8);
    assert_eq!(w.wake(), [(0, 1)]);
}

#[test]
fn a_hot_set_larger_than_fast_memory_ends_migration() {
    let mut w = World::new(4);
    w.populate(0..8);
    (0..8).for_each(|page| w.loads(page, 8));
    assert_eq!((w.wake(), w.hot()), (Vec::new(), 8));
    assert!(w.metric("halts_total") >= 1.0);
    // Two halvings by one page make the others cold.
    w.loads(0, 10);
    assert_eq!(w.wake(), [], "4 of the hot ones outside are cold as well");
    assert_eq!(w.hot(), 1);
}

#[test]
fn what_could_not_move_is_tried_again() {
    let mut w = World::new(4);
    w.populate(0..6);
    w.loads(5, 8);
    w.outcome = MoveOutcome::Busy;
    assert_eq!(w.wake(), [(0, 1)]);
    assert_eq!(w.wake(), [(1, 1)], "the first has gone to the end of the cold ones");
    w.outcome = MoveOutcome::Moved;
    assert_eq!(w.wake(), [(2, 1)]);
    assert_eq!(w.wake(), [(5, 0)]);
}

#[test]
fn memory_that_goes_or_moves_takes_its_counts_along() {
    let mut w = World::new(4096);
    w.populate_huge(0);
    w.populate(512..600);
    w.loads(3, 8);
    w.loads(520, 8);
    assert_eq!(w.hot(), 513);
    w.feed(&[Event::Remapped { from: PageRun::between(512, 600), to: PageId(1030) }]);
    assert_eq!(w.hot(), 513);
    w.feed(&[Event::Unmapped { run: PageRun::between(1038, 1039) }]);
    assert_eq!(w.hot(), 512, "520 became 1038");
    w.feed(&[Event::Unmapped { run: PageRun::between(0, 100) }]);
    assert_eq!(w.engine.policy().classes(), Some([412, 0, 87]), "what is left is as hot");
    w.populate(0..100);
    assert_eq!(w.hot(), 412, "new memory is cold");
}

#[test]
fn moves_by_others_are_noticed() {
    let mut w = World::new(4);
    w.populate(0..6);
    w.loads(0, 8);
    let cause = crate::event::MoveCause::Unknown;
    w.feed(&[Event::Moved { run: PageRun::single(PageId(0)), to: SLOW, cause }]);
    assert_eq!(w.wake(), [(0, 0)], "there is room");
    w.feed(&[Event::Moved { run: PageRun::single(PageId(5)), to: TierId::FAST, cause }]);
    assert_eq!(w.wake(), [(1, 1)], "fast memory was overfilled by one");
}
