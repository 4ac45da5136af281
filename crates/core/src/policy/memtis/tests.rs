//! Every rule of the policy, each shown to have been exercised.

use super::*;
use crate::engine::{Engine, EngineConfig};
use crate::policy::{Allocation, make};
use alloc::string::ToString;

const SLOW: TierId = TierId(1);

/// An engine with a world that carries every action out at once.
struct World {
    engine: Engine,
    now: Nanos,
    split_frees: Vec<PageId>,
}

impl World {
    fn new(fast: u64, spec: &str) -> Self {
        let config = EngineConfig::two_tiers(PageCount(fast), PageCount(1 << 20));
        let policy = make(spec, &PolicyContext::default()).unwrap();
        Self { engine: Engine::new(config, policy), now: Nanos(1), split_frees: Vec::new() }
    }

    fn populate(&mut self, run: PageRun, huge: bool) {
        let pieces = if huge { HUGE_PAGES } else { 1 };
        for start in run.range().step_by(pieces as usize) {
            let run = PageRun { start: PageId(start as u32), pages: pieces };
            let allocation = Allocation { run, huge, process: ProcessId(0) };
            self.engine.populate(self.now, &allocation).unwrap();
        }
        self.feed(&[]);
    }

    fn feed(&mut self, events: &[Event]) {
        self.engine.handle_events(self.now, events);
        self.act();
    }

    fn sample(&mut self, page: u32, times: usize) {
        let page = PageId(page);
        let tier = self.engine.view().state(page).tier().unwrap_or(SLOW);
        let sample = Sample { page, kind: SampleKind::LoadMiss, tier, process: ProcessId(0) };
        self.feed(&alloc::vec![Event::Sample(sample); times]);
    }

    /// Lets the migration workers wake up.
    fn wake(&mut self) {
        self.now = self.engine.poll_timeout().unwrap().max(self.now);
        self.feed(&[]);
    }

    fn act(&mut self) {
        let mut done = Vec::new();
        while let Some(action) = self.engine.poll_action() {
            match action {
                Action::Migrate { id, run, .. } => {
                    done.push(Event::MigrationDone { id, run, outcome: MoveOutcome::Moved });
                }
                Action::Split { region, .. } => {
                    done.push(Event::SplitDone { region, split: true });
                    for page in self.split_frees.drain(..) {
                        done.push(Event::Freed { run: PageRun::single(page) });
                    }
                }
                Action::Collapse { region, to, .. } => {
                    done.push(Event::CollapseDone { region, tier: Some(to) });
                }
                _ => {}
            }
        }
        if !done.is_empty() {
            self.engine.handle_events(self.now, &done);
            self.act();
        }
    }

    fn metric(&self, name: &str) -> f64 {
        let mut found = None;
        self.engine.policy().metrics(&mut |key, value| {
            if key == name {
                found = Some(value);
            }
        });
        found.unwrap_or_else(|| panic!("no metric {}", name.to_string()))
    }

    fn tier(&self, page: u32) -> Option<TierId> {
        self.engine.view().state(PageId(page)).tier()
    }
}

#[test]
fn hot_pages_are_promoted_and_cold_ones_make_room() {
    let mut world = World::new(100, "memtis:adaptation=100:cooling=1000:collapse=off");
    world.populate(PageRun::between(0, 1000), false);
    assert_eq!(world.engine.view().used(TierId::FAST).0, 100, "first touch fills fast memory");
    for _ in 0..10 {
        (500..580).for_each(|page| world.sample(page, 20));
        world.wake();
    }
    assert!(world.metric("coolings_total") > 0.0);
    assert!(world.metric("promotions_proposed_pages_total") >= 80.0);
    assert!(world.metric("warm_demotions_proposed_pages_total") > 0.0, "bin 0 is warm here");
    assert!((500..580).all(|page| world.tier(page) == Some(TierId::FAST)));
    assert!(world.engine.stats().demoted_pages > 0);
}
