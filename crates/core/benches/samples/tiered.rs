//! A policy at work on memory in two tiers, whose moves end at once.

use frostline_core::action::{Action, Plan};
use frostline_core::budget::Budget;
use frostline_core::engine::{Engine, EngineConfig};
use frostline_core::event::{Event, MoveCause};
use frostline_core::policy::{BoxedPolicy, Offer, make};
use frostline_core::{Bytes, Nanos, PageRun, TierId};

/// A policy, and where pages are.
pub struct Tiered {
    pub policy: BoxedPolicy,
    /// An engine whose own policy does nothing.
    world: Engine,
    now: u64,
    plan: Plan,
    pub moved_pages: u64,
}

impl Tiered {
    /// Of so many pages, the first of them in fast memory, all mapped huge or none.
    pub fn new(name: &str, context: &Offer, huge: bool) -> Self {
        let make = |name| make(name, context).expect("it is registered");
        let [fast, pages] = [context.fast_pages, context.total_pages_hint];
        let (mut policy, mut world) = (
            make(name).policy,
            Engine::new(EngineConfig::two_tiers(fast, pages), make("first-touch")).unwrap(),
        );
        let populated = |run, tier| Event::Populated { run, tier, huge };
        let [fast, pages] = [fast, pages].map(|count| u32::try_from(count.0).expect("page ids"));
        let populated = [
            populated(PageRun::between(0, fast), TierId::FAST),
            populated(PageRun::between(fast, pages), TierId(1)),
        ];
        world.handle_events(Nanos(0), &populated);
        policy.observe(Nanos(0), &populated, &world.view());
        Self { policy, world, now: 0, plan: Plan::default(), moved_pages: 0 }
    }

    /// Notes in samples where their pages are.
    pub fn locate(&self, events: &mut [Event]) {
        for event in events {
            if let Event::Sample(sample) = event {
                sample.tier = self.world.view().state(sample.page).tier().expect("resident");
            }
        }
    }

    /// Has the policy take in samples that took so long to come.
    pub fn observe(&mut self, events: &[Event], took_ns: u64) {
        self.now += took_ns;
        self.policy.observe(Nanos(self.now), events, &self.world.view());
    }

    /// Has the policy decide, if it is time.
    pub fn decide(&mut self) {
        let now = Nanos(self.now);
        if self.policy.next_wakeup().is_some_and(|due| due <= now) {
            let budget = Budget { remaining: Bytes::MAX };
            self.policy.decide(now, &self.world.view(), budget, &mut self.plan);
        }
    }

    /// Carries out what was decided, as far as there is room.
    pub fn move_pages(&mut self) {
        let cause = MoveCause::Unknown;
        for action in self.plan.iter() {
            if let Action::Migrate { run, to, .. } = *action
                && self.world.view().free(to).0 >= u64::from(run.pages)
            {
                self.moved_pages += u64::from(run.pages);
                self.world.handle_events(Nanos(self.now), &[Event::Moved { run, to, cause }]);
            }
        }
        self.plan.clear();
    }
}
