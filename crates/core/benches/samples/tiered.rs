//! A policy at work on memory in two tiers, whose moves end at once.

use frostline_core::action::{Action, Plan};
use frostline_core::budget::Budget;
use frostline_core::engine::{Engine, EngineConfig};
use frostline_core::event::{Event, MoveOutcome};
use frostline_core::placement::View;
use frostline_core::policy::{BoxedPolicy, Facts, Made, Offer, Policy, make};
use frostline_core::{Bytes, Nanos, PageRun, TierId};
use std::sync::{Arc, Mutex};

/// Has an engine check and carry out what another policy decided: with the policy itself in the engine,
/// its work could not be told from the engine's.
struct Relay(Arc<Mutex<Plan>>);

impl Policy for Relay {
    fn decide(&mut self, _: Nanos, _: &View<'_>, _: Budget, plan: &mut Plan) {
        std::mem::swap(plan, &mut *self.0.lock().expect("nobody panics with it"));
    }
    fn next_wakeup(&self) -> Option<Nanos> {
        Some(Nanos::ZERO)
    }
    fn metadata_bytes(&self) -> Bytes {
        Bytes::ZERO
    }
}

/// A policy, and where pages are.
pub struct Tiered {
    pub policy: BoxedPolicy,
    world: Engine,
    now: u64,
    plan: Plan,
    relayed: Arc<Mutex<Plan>>,
    /// What has ended, and the policy was not told of.
    ended: Vec<Event>,
    pub moved_pages: u64,
    pub splits: u64,
}

impl Tiered {
    /// Of so many pages, the first of them in fast memory, all mapped huge or none.
    pub fn new(name: &str, context: &Offer, huge: bool) -> Self {
        let [fast, pages] = [context.fast_pages, context.total_pages_hint];
        let relayed = Arc::<Mutex<Plan>>::default();
        let relay = Made::unlisted("relay", Box::new(Relay(relayed.clone())), Facts::default());
        let (mut policy, mut world) = (
            make(name, context).expect("it is registered").policy,
            Engine::new(EngineConfig::two_tiers(fast, pages), relay).unwrap(),
        );
        let populated = |run, tier| Event::Populated { run, tier, huge };
        let [fast, pages] = [fast, pages].map(|count| u32::try_from(count.0).expect("page ids"));
        let populated = [
            populated(PageRun::between(0, fast), TierId::FAST),
            populated(PageRun::between(fast, pages), TierId(1)),
        ];
        world.handle_events(Nanos(0), &populated);
        policy.observe(Nanos(0), &populated, &world.view());
        Self {
            policy,
            world,
            now: 0,
            plan: Plan::default(),
            relayed,
            ended: Vec::new(),
            moved_pages: 0,
            splits: 0,
        }
    }

    /// Notes in samples where their pages are.
    pub fn locate(&self, events: &mut [Event]) {
        for event in events {
            if let Event::Sample(sample) = event {
                sample.tier = self.world.view().state(sample.page).tier().expect("resident");
            }
        }
    }

    /// Has the policy take in what has ended, and samples that took so long to come.
    pub fn observe(&mut self, events: &[Event], took_ns: u64) {
        self.now += took_ns;
        for events in [&self.ended, events].into_iter().filter(|events| !events.is_empty()) {
            self.policy.observe(Nanos(self.now), events, &self.world.view());
        }
        self.ended.clear();
    }

    /// Has the policy decide, if it is time.
    pub fn decide(&mut self) {
        let now = Nanos(self.now);
        if self.policy.next_wakeup().is_some_and(|due| due <= now) {
            let budget = Budget { remaining: Bytes::MAX };
            self.policy.decide(now, &self.world.view(), budget, &mut self.plan);
        }
    }

    /// Whether there is something to carry out.
    pub fn has_decided(&self) -> bool {
        !self.plan.is_empty()
    }

    /// Carries out what was decided and passes the engine's checks.
    pub fn move_pages(&mut self) {
        std::mem::swap(&mut self.plan, &mut *self.relayed.lock().expect("nobody panics with it"));
        self.plan.clear();
        self.world.handle_timeout(Nanos(self.now));
        loop {
            let told = self.ended.len();
            while let Some(action) = self.world.poll_action() {
                let end = self.end_of(&action);
                self.ended.extend(end);
            }
            if told == self.ended.len() {
                break;
            }
            self.world.handle_events(Nanos(self.now), &self.ended[told..]);
        }
    }

    fn end_of(&mut self, action: &Action) -> Option<Event> {
        match *action {
            Action::Migrate { id, run, .. } => {
                self.moved_pages += u64::from(run.pages);
                Some(Event::MigrationDone { id, run, outcome: MoveOutcome::Moved })
            }
            Action::Split { region, .. } => {
                self.splits += 1;
                Some(Event::SplitDone { region, split: true })
            }
            Action::Collapse { region, to, .. } => {
                Some(Event::CollapseDone { region, tier: Some(to) })
            }
            _ => None,
        }
    }
}
