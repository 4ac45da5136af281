//! Cost of one sample of `hybridtier` and its variants beside `memtis`, from the sample to the decision.
//!
//! Zipf(0.99) samples over 16 M pages of which 1 M fit into fast memory. Timed is what the policy does:
//! taking samples in and deciding on promotions and demotions; not the engine's checks, nor the moves,
//! which end at once, nor looking up in which tier a sample falls. Policies take turns by rounds, so
//! that a busy machine slows all of them. `-- --quick` takes a tenth of the samples, `-- --only NAME`
//! one policy without timing it, `-- --huge` maps all memory by huge pages; `-- --misses` runs one
//! policy after the other under cachegrind, and prints cache misses instead of times: for a sample,
//! and as the share that the policy has in those of the last level where a sample stands for 200 of
//! the program.

mod samples;

use frostline_core::action::{Action, Plan};
use frostline_core::budget::Budget;
use frostline_core::engine::{Engine, EngineConfig};
use frostline_core::event::{Event, MoveCause};
use frostline_core::policy::{BoxedPolicy, PolicyContext, make};
use frostline_core::{Bytes, Nanos, PageCount, PageRun, TierId};
use samples::{PAGES, busy_ns, median, samples};

const FAST: u64 = 1 << 20;
const ROUND: usize = 10_000_000;
const ROUNDS: usize = 10;
/// Samples that come together.
const BATCH: usize = 50_000;
/// Modelled time between samples.
const SAMPLE_NS: u64 = 10_000;

const POLICIES: [&str; 5] =
    ["hybridtier", "hybridtier-exact", "hybridtier-cbf", "hybridtier-artifact", "memtis"];

/// Does nothing with samples.
const IDLE: &str = "first-touch";

struct Contestant {
    name: &'static str,
    policy: BoxedPolicy,
    /// Where pages are: an engine whose own policy does nothing.
    world: Engine,
    now: u64,
    plan: Plan,
    moved_pages: u64,
    /// Of a sample, by rounds: until it is taken in, and its share of the decisions.
    ns: [Vec<f64>; 2],
}

impl Contestant {
    fn new(name: &'static str, huge: bool) -> Self {
        let context = PolicyContext {
            fast_pages: PageCount(FAST),
            total_pages_hint: PageCount(u64::from(PAGES)),
            ..PolicyContext::default()
        };
        let make = |name| make(name, &context).expect("it is registered");
        let tiers = EngineConfig::two_tiers(PageCount(FAST), PageCount(u64::from(PAGES)));
        let (mut policy, mut world) = (make(name), Engine::new(tiers, make(IDLE)));
        let populated = |run, tier| Event::Populated { run, tier, huge };
        let fast = FAST as u32;
        let populated = [
            populated(PageRun::between(0, fast), TierId::FAST),
            populated(PageRun::between(fast, PAGES), TierId(1)),
        ];
        world.handle_events(Nanos(0), &populated);
        policy.observe(Nanos(0), &populated, &world.view());
        let (plan, ns) = (Plan::default(), Default::default());
        Self { name, policy, world, now: 0, plan, moved_pages: 0, ns }
    }

    fn round(&mut self, events: &[Event], timed: bool) {
        let mut busy = [0.0; 2];
        let mut batch = Vec::with_capacity(BATCH);
        for chunk in events.chunks(BATCH) {
            batch.clear();
            batch.extend_from_slice(chunk);
            for event in &mut batch {
                if let Event::Sample(sample) = event {
                    sample.tier = self.world.view().state(sample.page).tier().expect("resident");
                }
            }
            self.now += chunk.len() as u64 * SAMPLE_NS;
            let now = Nanos(self.now);
            let before = clock(timed);
            self.policy.observe(now, &batch, &self.world.view());
            let between = clock(timed);
            if self.policy.next_wakeup().is_some_and(|due| due <= now) {
                let budget = Budget { remaining: Bytes::MAX };
                self.policy.decide(now, &self.world.view(), budget, &mut self.plan);
            }
            busy[0] += between - before;
            busy[1] += clock(timed) - between;
            self.move_pages();
        }
        for (ns, busy) in self.ns.iter_mut().zip(busy) {
            ns.push(busy / events.len() as f64);
        }
    }

    /// Carries the plan out, as far as there is room.
    fn move_pages(&mut self) {
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

/// Valgrind cannot run what reads the clock.
fn clock(timed: bool) -> f64 {
    if timed { busy_ns() } else { 0.0 }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.iter().any(|arg| arg == "--misses") {
        return samples::misses::compare(&POLICIES, IDLE, ROUND / 10 * ROUNDS);
    }
    let only = args.iter().position(|arg| arg == "--only").map(|at| args[at + 1].as_str());
    let huge = args.iter().any(|arg| arg == "--huge");
    let round = if args.iter().any(|arg| arg == "--quick") { ROUND / 10 } else { ROUND };
    let names = POLICIES.into_iter().chain([IDLE]);
    let mut contestants: Vec<Contestant> = names
        .filter(|name| only.map_or(*name != IDLE, |only| only == *name))
        .map(|name| Contestant::new(name, huge))
        .collect();
    let events = samples(round);
    for _ in 0..ROUNDS {
        contestants.iter_mut().for_each(|contestant| contestant.round(&events, only.is_none()));
    }
    println!("hybridtier_samples: {ROUNDS} x {round} samples, {PAGES} pages, {FAST} fast; medians");
    for contestant in contestants {
        let [observed, decided] = contestant.ns.map(median);
        println!(
            "  {:20} {:6.2} ns/sample ({observed:6.2} taking in)  {:10} bytes  {} pages moved",
            contestant.name,
            observed + decided,
            contestant.policy.metadata_bytes().0,
            contestant.moved_pages,
        );
    }
}
