//! World: a daemon, its host, and what must hold of both.

use crate::disaster::{Disaster, Tally, Without};
use crate::host::{Abilities, End, Host, Injector};
use crate::kernel::{HUGE, Kernel, tier_of};
use crate::programs;
use frostline_core::placement::TierLimits;
use frostline_core::policy::registry::{REGISTRY, make};
use frostline_core::policy::{Faults, Made, Offer, Offered};
use frostline_core::rng::Rng;
use frostline_core::span::Span;
use frostline_core::types::*;
use frostline_core::{Engine, EngineConfig};
use frostline_daemon::{Daemon, Goal, INTERRUPTION, Limit, STEP, Settings, System, Tier};

/// Steps between two times of calm, in which the daemon must come to know the truth.
const CALM: u64 = 2000;
/// Steps of such a time, of 50 ms.
const CALM_STEPS: u64 = 600;
/// Steps between two looks at all tables.
const LOOK: u64 = 64;
/// Processor time after which the daemon may want to go on at once (ns): a tenth of a turn.
const LEAST_TURN: u64 = 1_000_000;
/// Pages of all processes together cannot be more than that.
const MOST_PAGES: u32 = 1 << 17;

/// What a run found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Find {
    /// Step at which it was found.
    pub step: u64,
    /// The policy that ran.
    pub policy: &'static str,
    /// What was wrong.
    pub what: String,
}

/// What came of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Played {
    /// Steps of the daemon, those in calm included.
    pub steps: u64,
    /// Disasters by kind.
    pub tally: Tally,
    /// Moves that were wanted, and have ended.
    pub moves: u64,
    /// Times that the daemon knew the truth in the end.
    pub truths: u64,
}

impl Played {
    /// Adds another run.
    pub fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.tally.add(&other.tally);
        self.moves += other.moves;
        self.truths += other.truths;
    }
}

struct World {
    daemon: Daemon,
    host: Host,
    settings: Settings,
    tiers: Vec<TierLimits>,
    seed: u64,
    policy: &'static str,
    now: Nanos,
    played: Played,
}

/// Policies that a daemon can run: all but those that know the future or how long reads take, and models
/// of machines.
fn policies() -> Vec<&'static str> {
    let suits = |name: &&'static str| {
        make(name, &Offer::default()).is_ok_and(|Made { facts, .. }| {
            let unknown = facts.needs.offline || facts.needs.read_latencies;
            !unknown && !facts.unlimited_fast && !facts.swaps
        })
    };
    REGISTRY.iter().map(|entry| entry.name).filter(suits).collect()
}

/// Plays `steps` steps of the world of a seed.
///
/// # Errors
/// What was found.
pub fn play(seed: u64, steps: u64, without: Without) -> Result<Played, Find> {
    World::new(seed, without).play(steps)
}
impl World {
    fn new(seed: u64, without: Without) -> Self {
        let mut rng = Rng::new(seed);
        let policies = policies();
        let policy = policies[rng.below(policies.len() as u64) as usize];
        let (swap, capacities): (Option<TierId>, Vec<u64>) = match rng.below(3) {
            0 => (Some(TierId(1)), vec![1 << 16, 4096]),
            1 => (None, vec![1 << 16, 8192]),
            _ => (Some(TierId(2)), vec![1 << 16, 2048, 4096]),
        };
        let fast = Limit::Share([0.1, 0.3, 0.6][rng.below(3) as usize]);
        let abilities = Abilities {
            follows: rng.below(2) == 0,
            arms: rng.below(2) == 0 && swap != Some(TierId(1)),
            sees_slower_tiers: rng.below(2) == 0,
        };
        let direct = |tier: usize| Some(TierId(tier as u8)) != swap;
        let settings = Settings {
            tiers: (0..capacities.len())
                .map(|tier| Tier { limit: (tier == 0).then_some(fast), direct: direct(tier) })
                .collect(),
            swap,
            cpu_share: 0.1,
            settling_cpu_share: 0.3,
            dry_run: false,
            reclaims: true,
            probes: swap == Some(TierId(1)) && rng.below(2) == 0,
            answers: swap == Some(TierId(1)) && rng.below(2) == 0,
            wants_samples: true,
            counts: true,
            hinted: !abilities.arms && rng.below(2) == 0,
            goal: (rng.below(2) == 0).then_some(Goal {
                most_loss: 0.02,
                floor: None,
                ceiling: Some(fast),
            }),
            node_loads: None,
            interruption: INTERRUPTION,
            seed,
        };
        let tiers = capacities.iter().enumerate().map(|(tier, pages)| TierLimits {
            capacity: PageCount(if tier == 0 { 1 << 10 } else { *pages }),
            keep_free: PageCount::ZERO,
            direct_access: direct(tier),
        });
        let tiers: Vec<TierLimits> = tiers.collect();
        let injector = Injector { rng, tally: Tally::default(), without, calm: false };
        let host = Host::new(Kernel::new(&capacities, swap), injector, abilities);
        let daemon = daemon(policy, seed, &settings, &tiers, &host);
        let (now, played) = (Nanos::ZERO, Played::default());
        Self { daemon, host, settings, tiers, seed, policy, now, played }
    }

    fn play(mut self, steps: u64) -> Result<Played, Find> {
        for step in 1..=steps {
            self.step(step).map_err(|what| self.find(what))?;
        }
        self.calm().map_err(|what| self.find(what))?;
        self.played.tally = self.host.injector.tally;
        self.played.moves += self.host.record.ended();
        Ok(self.played)
    }

    fn find(&self, what: String) -> Find {
        Find { step: self.played.steps, policy: self.policy, what }
    }

    /// Another daemon begins.
    fn begin_again(&mut self) {
        self.played.moves += self.host.record.ended();
        self.host.forget_all();
        self.daemon = daemon(self.policy, self.seed, &self.settings, &self.tiers, &self.host);
    }

    fn step(&mut self, step: u64) -> Result<(), String> {
        for _ in 0..self.host.injector.rng.below(4) {
            programs::act(&mut self.host);
        }
        self.interfere()?;
        let pause = self.host.injector.rng.below(2 * STEP.0);
        self.now = self.now.saturating_add(Nanos(pause));
        self.daemon_steps()?;
        if step.is_multiple_of(LOOK) {
            self.tables()?;
        }
        if step.is_multiple_of(CALM) {
            self.calm()?;
        }
        Ok(())
    }

    /// What the daemon's owner and its clock do.
    fn interfere(&mut self) -> Result<(), String> {
        let (jump, share) = (self.host.injector.rng.below(7200), self.host.injector.rng.unit_f64());
        if self.host.injector.strikes(Disaster::ClockJump, 200) {
            self.now = self.now.saturating_add(Nanos(jump * 1_000_000_000));
        }
        if self.host.injector.strikes(Disaster::NoTime, 50) {
            self.host.spend(jump * 100_000);
        }
        if self.host.injector.strikes(Disaster::Reload, 300) {
            let limit = Limit::Share(share.max(0.01));
            self.settings.tiers[0].limit = Some(limit);
            self.daemon.set_fast(limit, None);
        }
        if self.host.injector.strikes(Disaster::Stop, 2000) {
            let mut calls = 0;
            self.host.record.lift_limits();
            let ended = self.daemon.bring_back(&mut self.host, |_| {
                calls += 1;
                calls < 100
            });
            judge(ended)?;
            self.begin_again();
        }
        if self.host.injector.strikes(Disaster::Kill, 2000) {
            self.begin_again();
        }
        Ok(())
    }

    fn daemon_steps(&mut self) -> Result<(), String> {
        self.played.steps += 1;
        let before = self.host.spent();
        let next = self.daemon.step(self.now, &mut self.host);
        // Who has worked for a turn is called again at once; who has done nothing would be for ever.
        let at_once = self.host.spent() - before >= LEAST_TURN;
        let least = if at_once { self.now } else { self.now.saturating_add(Nanos(1)) };
        match judge(next)? {
            Some(next) if next < least => Err(format!("{next:?} is before {least:?}")),
            Some(_) => Ok(()),
            None => {
                self.begin_again();
                Ok(())
            }
        }
    }

    /// What holds of the daemon's tables at any time.
    fn tables(&self) -> Result<(), String> {
        let (map, view) = (self.daemon.map(), self.daemon.engine().view());
        if map.pages() > MOST_PAGES {
            return Err(format!("ids for {} pages", map.pages()));
        }
        let waiting = self.daemon.waiting();
        if waiting > 4 * u64::from(MOST_PAGES) {
            return Err(format!("{waiting} actions wait"));
        }
        let spaces: std::collections::BTreeMap<ProcessId, &[Span]> =
            self.daemon.spaces().map(|(process, space)| (process, space.spans())).collect();
        let mut used = [0; MAX_TIERS];
        for region in map.regions() {
            let Some((process, vpn)) = map.place(region.first()) else {
                return Err(format!("{region:?} has no place"));
            };
            if map.page(process, vpn) != Some(region.first()) {
                return Err(format!("{region:?} of {process:?} has two places"));
            }
            let spans = spaces.get(&process).copied().unwrap_or_default();
            let block = Span::region_of(vpn);
            if spans.iter().all(|span| span.intersect(block).is_empty()) {
                return Err(format!(
                    "{region:?} of {process:?} has ids, and nothing is mapped there"
                ));
            }
        }
        for page in (0..view.pages()).map(PageId) {
            let state = view.state(page);
            let Some(tier) = state.tier() else { continue };
            used[tier.index()] += 1;
            if map.place(page).is_none() {
                return Err(format!("{page:?} is resident, and nobody's"));
            }
        }
        for tier in (0..view.tiers()).map(|tier| TierId(tier as u8)) {
            if view.used(tier).0 != used[tier.index()] {
                return Err(format!("tier {} holds {used:?}, not {:?}", tier.0, view.used(tier)));
            }
        }
        Ok(())
    }

    /// Nothing happens any more: all moves end, the daemon finds out where everything is, and limits
    /// hold.
    fn calm(&mut self) -> Result<(), String> {
        self.host.injector.calm = true;
        let others: Vec<u64> = self.host.kernel.tiers.iter().map(|tier| tier.others).collect();
        let swap_limit = std::mem::replace(&mut self.host.kernel.swap_limit, u64::MAX);
        self.host.kernel.tiers.iter_mut().for_each(|tier| tier.others = 0);
        let open = self.host.record.open();
        for _ in 0..CALM_STEPS {
            self.now = self.now.saturating_add(STEP);
            self.daemon_steps()?;
        }
        if let Some(id) = self.host.record.first_open(&open) {
            return Err(format!("move {id} does not end"));
        }
        self.tables()?;
        self.truth()?;
        self.played.truths += 1;
        self.host.kernel.swap_limit = swap_limit;
        let tiers = self.host.kernel.tiers.iter_mut();
        tiers.zip(others).for_each(|(tier, others)| tier.others = others);
        self.host.injector.calm = false;
        Ok(())
    }

    /// Whether a process has a page at an address.
    fn is_there(&self, process: ProcessId, vpn: Vpn) -> bool {
        self.host.kernel.processes.get(&process.0).is_some_and(|process| process.page(vpn) != 0)
    }

    /// What the daemon knows is what is there.
    fn truth(&self) -> Result<(), String> {
        let (map, view) = (self.daemon.map(), self.daemon.engine().view());
        let mut there = 0;
        for (pid, process) in &self.host.kernel.processes {
            for (start, area) in &process.areas {
                for (at, page) in area.pages.iter().enumerate() {
                    let Some(tier) = tier_of(*page) else { continue };
                    there += 1;
                    let vpn = Vpn(start + at as u64);
                    let Some(id) = map.page(ProcessId(*pid), vpn) else {
                        return Err(format!("page {vpn:?} of process {pid} has no id"));
                    };
                    // A page that is taken out of its place is in no page table, and in the tier
                    // that it was believed to be in until it is touched.
                    if self.host.is_armed(*pid, vpn) {
                        continue;
                    }
                    let state = view.state(id);
                    let huge = page & HUGE != 0;
                    // Swap space holds base pages, also of what was moved there as a folio.
                    let as_huge = state.is_huge() && Some(tier) != self.settings.swap;
                    if !state.is_in_flight() && (state.tier(), as_huge) != (Some(tier), huge) {
                        return Err(format!(
                            "page {vpn:?} of process {pid} is in tier {} ({huge}), and known as \
                             {state:?}",
                            tier.0
                        ));
                    }
                }
            }
        }
        let known = view.resident().0;
        if known != there && self.daemon.engine().pages_in_flight() == PageCount::ZERO {
            let gone = (0..view.pages()).map(PageId).find(|page| {
                view.state(*page).is_resident()
                    && !map.place(*page).is_some_and(|(process, vpn)| self.is_there(process, vpn))
            });
            let named = gone.map(|page| (page, map.place(page), view.state(page)));
            return Err(format!("{there} pages are there, and {known} known: not {named:?}"));
        }
        Ok(())
    }
}

fn daemon(
    policy: &str,
    seed: u64,
    settings: &Settings,
    tiers: &[TierLimits],
    host: &Host,
) -> Daemon {
    let most_armed = host.most_armed() as u64;
    let telemetry = Offered {
        faults: match (settings.swap, most_armed) {
            (_, 1..) => Faults::Slower,
            (Some(TierId(1)), 0) => Faults::Swap,
            (_, 0) if settings.hinted => Faults::Hints,
            (_, 0) => Faults::Any,
        },
        most_armed: (most_armed > 0).then_some(PageCount(most_armed)),
        ..Offered::default()
    };
    let offer = Offer { seed, fast_pages: PageCount(1 << 10), telemetry, ..Offer::default() };
    let made = make(policy, &offer).expect("the registry has it");
    let config = EngineConfig {
        tiers: tiers.to_vec(),
        migration_bytes_per_second: None,
        migration_burst: Bytes(64 << 20),
    };
    let engine = Engine::new(config, made).expect("tiers that can be");
    Daemon::new(engine, settings.clone(), host)
}

/// What a call has come to: `None` where rights were lost.
fn judge<T>(ended: Result<T, End>) -> Result<Option<T>, String> {
    match ended {
        Ok(value) => Ok(Some(value)),
        Err(End::NotPermitted) => Ok(None),
        Err(End::Wrong(what)) => Err(what),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shorten;

    /// Found promotions beyond a lowered limit, pages that a reclaimer took twice in one pass, moves
    /// whose pages had gone and come again, and a folio that was told while one of its pages moved.
    const SEEDS: [u64; 6] = [4, 8, 18, 102, 118, 146];

    #[test]
    fn seeds_that_found_something_once_find_nothing() {
        let mut all = Played::default();
        for seed in SEEDS {
            let played = play(seed, 10_000, Without::default());
            all.add(&played.unwrap_or_else(|find| panic!("seed {seed}: {find:?}")));
        }
        assert!(all.moves > 10_000 && all.truths == 6 * 6, "{all:?}");
        let rare = [Disaster::NotPermitted];
        for &disaster in Disaster::ALL.iter().filter(|one| !rare.contains(one)) {
            assert!(all.tally.of(disaster) > 0, "{disaster:?} happened: {all:?}");
        }
    }

    #[test]
    fn a_seed_gives_the_same_world_again() {
        let played =
            || play(7, 1000, Without::default()).map(|played| (played.steps, played.tally));
        assert_eq!(played(), played());
    }

    #[test]
    fn what_is_wrong_is_found_and_shortened() {
        let blind = |steps, without| {
            let mut world = World::new(4, without);
            world.host.is_blind = true;
            world.play(steps)
        };
        let find = blind(5000, Without::default()).expect_err("slower tiers are not seen");
        assert!(find.what.contains("known as"), "{find:?}");
        let (steps, without, find) = shorten(blind, 5000, find);
        assert!(steps < 100, "{steps} steps without {without}: {find:?}");
        assert!(without.has(Disaster::Fork), "{without}");
    }
}
