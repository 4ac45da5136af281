//! Model-based tests: a scripted policy proposes at random, a random world answers, and an
//! independent slow model must agree with the engine after every step.

use super::*;
use crate::action::Exchange;
use crate::budget::Budget;
use crate::event::MoveCause;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec;
use core::cell::RefCell;
use core::sync::atomic::{AtomicU64, Ordering};
use proptest::prelude::*;

extern crate std;
use std::sync::Mutex;

/// Proposes what the test puts into its mailbox.
#[derive(Default)]
struct Scripted {
    mailbox: Arc<Mutex<Vec<Action>>>,
    exchanges: Arc<Mutex<Vec<Exchange>>>,
    fault: Arc<Mutex<Option<FaultDecision>>>,
    events_seen: Arc<AtomicU64>,
    place: TierId,
}

impl Policy for Scripted {
    fn observe(&mut self, _: Nanos, events: &[Event], _: &View<'_>) {
        self.events_seen.fetch_add(events.len() as u64, Ordering::Relaxed);
    }
    fn decide(&mut self, _: Nanos, _: &View<'_>, _: Budget, plan: &mut Plan) {
        self.mailbox.lock().unwrap().drain(..).for_each(|a| plan.push(a));
        let mut exchanges = self.exchanges.lock().unwrap();
        exchanges.drain(..).for_each(|e| plan.exchange(e.one, e.other, e.lane));
    }
    fn next_wakeup(&self) -> Option<Nanos> {
        let idle =
            self.mailbox.lock().unwrap().is_empty() && self.exchanges.lock().unwrap().is_empty();
        (!idle).then_some(Nanos::ZERO)
    }
    fn on_fault(&mut self, _: Nanos, _: &Fault, _: &View<'_>) -> FaultDecision {
        self.fault.lock().unwrap().unwrap_or(FaultDecision::Stay)
    }
    fn place(&mut self, _: Nanos, _: &Allocation, _: &View<'_>) -> Home {
        self.place.into()
    }
    fn metadata_bytes(&self) -> Bytes {
        Bytes::ZERO
    }
}

struct Bench {
    engine: Engine,
    mailbox: Arc<Mutex<Vec<Action>>>,
    exchanges: Arc<Mutex<Vec<Exchange>>>,
    fault: Arc<Mutex<Option<FaultDecision>>>,
    events_seen: Arc<AtomicU64>,
}

fn bench(config: EngineConfig) -> Bench {
    let policy = Scripted::default();
    let (mailbox, fault) = (policy.mailbox.clone(), policy.fault.clone());
    let exchanges = policy.exchanges.clone();
    let events_seen = policy.events_seen.clone();
    let made = Made::unlisted("scripted", Box::new(policy), Facts::default());
    Bench { engine: Engine::new(config, made).unwrap(), mailbox, exchanges, fault, events_seen }
}

const FAST: TierId = TierId(0);
const SLOW: TierId = TierId(1);
const ANY_ROOM: PageCount = PageCount(1 << 20);

impl Bench {
    fn now(&mut self, events: &[Event]) {
        self.engine.handle_events(Nanos::ZERO, events);
    }
    fn propose(&mut self, actions: &[Action]) -> Vec<Action> {
        self.mailbox.lock().unwrap().extend_from_slice(actions);
        self.engine.handle_timeout(Nanos::ZERO);
        self.approved()
    }
    fn approved(&mut self) -> Vec<Action> {
        core::iter::from_fn(|| self.engine.poll_action()).collect()
    }
    fn migrate(&mut self, run: PageRun, to: TierId) -> Vec<(MoveId, PageRun)> {
        let lane = Lane::PROMOTE;
        self.propose(&[Action::Migrate { id: MoveId(0), run, to, lane }])
            .into_iter()
            .map(|action| match action {
                Action::Migrate { id, run, .. } => (id, run),
                other => panic!("unexpected {other:?}"),
            })
            .collect()
    }
    fn populate(&mut self, run: PageRun, tier: TierId, huge: bool) {
        self.now(&[Event::Populated { run, tier, huge }]);
    }
    fn rejected(&self, reason: Rejected) -> u64 {
        self.engine.stats().rejected[reason as usize]
    }
    fn done(&mut self, id: MoveId, run: PageRun, outcome: MoveOutcome) {
        self.now(&[Event::MigrationDone { id, run, outcome }]);
    }
}

fn run(start: u32, pages: u32) -> PageRun {
    PageRun { start: PageId(start), pages }
}

#[test]
fn a_move_reserves_room_until_it_ends() {
    let mut b = bench(EngineConfig::two_tiers(PageCount(4), PageCount(100)));
    b.populate(run(0, 10), SLOW, false);
    let moves = b.migrate(run(0, 10), FAST);
    assert_eq!(moves, [(MoveId(1), run(0, 4))]);
    assert_eq!(b.rejected(Rejected::NoRoom), 6);
    assert_eq!(b.engine.view().free(FAST), PageCount(0));
    assert_eq!(b.engine.view().used(FAST), PageCount(0));
    b.done(MoveId(1), run(0, 2), MoveOutcome::Moved);
    b.done(MoveId(1), run(2, 1), MoveOutcome::Busy);
    b.done(MoveId(1), run(3, 1), MoveOutcome::Moved);
    assert_eq!(b.engine.view().used(FAST), PageCount(3));
    assert_eq!(b.engine.view().reserved(FAST), PageCount(0));
    assert_eq!(b.engine.stats().promoted_pages, 3);
    assert_eq!(b.engine.pages_in_flight(), PageCount(0));
    b.done(MoveId(1), run(3, 1), MoveOutcome::Moved);
    assert_eq!(b.engine.stats().anomalies, 1);
}

#[test]
fn a_folio_moves_whole_or_not_at_all() {
    let mut b = bench(EngineConfig::two_tiers(PageCount(600), ANY_ROOM));
    b.populate(Region(1).run(), SLOW, true);
    b.populate(run(1024, 10), SLOW, false);
    assert!(b.migrate(run(512, 511), FAST).is_empty());
    assert_eq!(b.rejected(Rejected::PartialFolio), 511);
    let moves = b.migrate(run(512, 522), FAST);
    assert_eq!(moves, [(MoveId(1), run(512, 522))]);
    assert!(b.engine.view().state(PageId(600)).is_huge());
}

#[test]
fn a_folio_that_others_built_around_a_move_waits_for_it() {
    let mut b = bench(EngineConfig::two_tiers(PageCount(2000), ANY_ROOM));
    b.populate(Region(1).run(), SLOW, false);
    let [(id, moved)] = b.migrate(run(600, 1), FAST)[..] else { panic!("one move") };
    b.populate(Region(1).run(), SLOW, true);
    assert!(b.migrate(Region(1).run(), FAST).is_empty());
    assert_eq!(b.rejected(Rejected::InFlight), 512);
    assert_eq!(b.engine.pages_in_flight(), PageCount(1));
    b.done(id, moved, MoveOutcome::Gone);
    assert_eq!(b.migrate(Region(1).run(), FAST).len(), 1);
    assert_eq!(b.engine.pages_in_flight(), PageCount(512));
}

#[test]
fn pages_that_go_during_a_move_do_not_come_back() {
    let mut b = bench(EngineConfig::two_tiers(PageCount(8), ANY_ROOM));
    b.populate(run(0, 4), SLOW, false);
    let [(id, moved)] = b.migrate(run(0, 4), FAST)[..] else { panic!("one move") };
    b.now(&[Event::Unmapped { run: run(1, 2) }]);
    b.populate(run(1, 1), SLOW, false);
    let second = b.migrate(run(1, 1), FAST);
    assert_eq!(second.len(), 1, "a new page at an old id may move at once");
    b.done(id, moved, MoveOutcome::Moved);
    let view = b.engine.view();
    assert_eq!(view.state(PageId(0)).tier(), Some(FAST));
    assert_eq!(view.state(PageId(1)).tier(), Some(SLOW));
    assert!(view.state(PageId(1)).is_in_flight());
    assert_eq!(view.state(PageId(2)).tier(), None);
    assert_eq!(view.reserved(FAST), PageCount(1));
    assert_eq!(b.engine.stats().anomalies, 0);
}

#[test]
fn a_region_that_waits_for_a_report_is_left_alone_whatever_becomes_of_its_memory() {
    let mut b = bench(EngineConfig::two_tiers(ANY_ROOM, ANY_ROOM));
    let (region, all) = (Region(1), Region(1).run());
    let split = Action::Split { region, lane: Lane::SCAN };
    b.populate(all, SLOW, true);
    assert_eq!(b.propose(&[split]).len(), 1);
    b.now(&[Event::Unmapped { run: all }]);
    b.populate(all, SLOW, true);
    assert!(b.propose(&[split]).is_empty());
    assert!(b.migrate(all, FAST).is_empty());
    assert_eq!(b.rejected(Rejected::InFlight), 1 + 512);
    b.now(&[Event::SplitDone { region, split: false }]);
    assert_eq!(b.migrate(all, FAST), [(MoveId(1), all)]);
    assert_eq!(b.engine.stats().anomalies, 0);
}

#[test]
fn others_may_move_a_page_during_our_move() {
    let mut b = bench(EngineConfig::two_tiers(PageCount(8), ANY_ROOM));
    b.populate(run(0, 1), SLOW, false);
    let [(id, moved)] = b.migrate(run(0, 1), FAST)[..] else { panic!("one move") };
    b.now(&[Event::Moved { run: moved, to: FAST, cause: MoveCause::NumaBalancing }]);
    b.done(id, moved, MoveOutcome::Gone);
    let view = b.engine.view();
    assert_eq!(view.state(PageId(0)).tier(), Some(FAST));
    assert_eq!((view.used(FAST), view.reserved(FAST)), (PageCount(1), PageCount(0)));
    assert_eq!(b.engine.stats().promoted_pages, 1);
}

#[test]
fn the_rate_budget_refills_with_time() {
    let mut config = EngineConfig::two_tiers(ANY_ROOM, ANY_ROOM);
    config.migration_bytes_per_second = Some(Bytes(4096 * 1000));
    config.migration_burst = Bytes(4096 * 3);
    let mut b = bench(config);
    b.populate(run(0, 100), SLOW, false);
    assert_eq!(b.migrate(run(0, 10), FAST), [(MoveId(1), run(0, 3))]);
    assert_eq!(b.rejected(Rejected::RateBudget), 7);
    b.mailbox.lock().unwrap().push(Action::Migrate {
        id: MoveId(0),
        run: run(50, 10),
        to: FAST,
        lane: Lane::PROMOTE,
    });
    b.engine.handle_timeout(Nanos(2_000_000));
    assert_eq!(b.engine.pages_in_flight(), PageCount(5));
}

#[test]
fn split_frees_and_collapse_rebuilds() {
    let mut b = bench(EngineConfig::two_tiers(PageCount(1024), ANY_ROOM));
    b.populate(Region(0).run(), FAST, true);
    let split = Action::Split { region: Region(0), lane: Lane::SCAN };
    assert_eq!(b.propose(&[split, split]), [split]);
    assert_eq!(b.rejected(Rejected::InFlight), 1);
    assert!(b.migrate(Region(0).run(), SLOW).is_empty());
    b.now(&[
        Event::SplitDone { region: Region(0), split: true },
        Event::Freed { run: run(10, 20) },
    ]);
    assert_eq!(b.engine.view().used(FAST), PageCount(492));
    let collapse = Action::Collapse { region: Region(0), to: FAST, lane: Lane::SCAN };
    assert!(b.propose(&[collapse]).is_empty());
    assert_eq!(b.rejected(Rejected::NotResident), 1);
    b.populate(run(10, 20), SLOW, false);
    assert_eq!(b.propose(&[collapse]), [collapse]);
    assert_eq!(b.engine.view().reserved(FAST), PageCount(512));
    b.now(&[Event::CollapseDone { region: Region(0), tier: Some(FAST) }]);
    let view = b.engine.view();
    assert_eq!((view.used(FAST), view.reserved(FAST)), (PageCount(512), PageCount(0)));
    assert!(Region(0).run().iter().all(|p| view.state(p).is_huge()));
    assert_eq!((b.engine.stats().splits, b.engine.stats().collapses), (1, 1));
}

#[test]
fn armed_pages_ask_the_policy_once() {
    let mut b = bench(EngineConfig::two_tiers(PageCount(1), ANY_ROOM));
    b.populate(run(0, 2), SLOW, false);
    assert_eq!(b.engine.states()[0] & PageState::ATTENTION, 0);
    let arm = Action::Arm { run: run(0, 2), lane: Lane::SCAN };
    assert_eq!(b.propose(&[arm]), [arm]);
    assert_ne!(b.engine.states()[0] & PageState::ATTENTION, 0);
    *b.fault.lock().unwrap() = Some(FaultDecision::MoveHere(FAST));
    let fault = |page| Fault { page, tier: SLOW, write: false, process: ProcessId(0), thread: 0 };
    let answer = b.engine.on_fault(Nanos::ZERO, &fault(PageId(0)));
    assert_eq!(answer, FaultDecision::MoveHere(FAST));
    b.now(&[Event::Moved { run: run(0, 1), to: FAST, cause: MoveCause::FaultDecision }]);
    assert_eq!(b.engine.states()[0] & PageState::ATTENTION, 0);
    assert_eq!(b.engine.on_fault(Nanos::ZERO, &fault(PageId(1))), FaultDecision::Stay);
    assert_eq!(b.rejected(Rejected::NoRoom), 1);
    *b.fault.lock().unwrap() = Some(FaultDecision::Exchange(PageId(0)));
    let answer = b.engine.on_fault(Nanos::ZERO, &fault(PageId(1)));
    assert_eq!(answer, FaultDecision::Exchange(PageId(0)));
}

#[test]
fn a_folio_is_armed_as_one() {
    let mut b = bench(EngineConfig::two_tiers(ANY_ROOM, ANY_ROOM));
    b.populate(run(0, 512), SLOW, true);
    b.populate(run(512, 2), SLOW, false);
    let arm = Action::Arm { run: run(0, 514), lane: Lane::SCAN };
    assert_eq!(b.propose(&[arm]), [arm]);
    let fault = |page| Fault {
        page: PageId(page),
        tier: SLOW,
        write: false,
        process: ProcessId(0),
        thread: 0,
    };
    b.engine.on_fault(Nanos::ZERO, &fault(77));
    b.engine.on_fault(Nanos::ZERO, &fault(512));
    let armed: Vec<u32> =
        (0..514).filter(|p| b.engine.view().state(PageId(*p)).is_armed()).collect();
    assert_eq!(armed, [513]);
}

#[test]
fn a_tier_without_direct_access_always_needs_attention() {
    let mut config = EngineConfig::two_tiers(ANY_ROOM, ANY_ROOM);
    config.tiers[1].direct_access = false;
    let mut b = bench(config);
    b.populate(run(0, 1), SLOW, false);
    assert_ne!(b.engine.states()[0] & PageState::ATTENTION, 0);
    b.now(&[Event::Moved { run: run(0, 1), to: FAST, cause: MoveCause::Refault }]);
    assert_eq!(b.engine.states()[0] & PageState::ATTENTION, 0);
}

#[test]
fn allocation_falls_through_to_a_tier_with_room() {
    let mut b = bench(EngineConfig::two_tiers(PageCount(1), PageCount(1)));
    let mut allocate = |page| {
        let run = run(page, 1);
        let process = ProcessId(0);
        let allocation = Allocation { run, huge: false, may_be_huge: false, process };
        b.engine.populate(Nanos::ZERO, &allocation).map(|placed| placed.tier)
    };
    assert_eq!([allocate(0), allocate(1), allocate(2)], [Some(FAST), Some(SLOW), None]);
    b.now(&[]);
    assert_eq!(b.events_seen.load(Ordering::Relaxed), 2, "the policy is told of both");
}

#[test]
fn a_remap_carries_state_along() {
    let mut b = bench(EngineConfig::two_tiers(ANY_ROOM, ANY_ROOM));
    b.populate(Region(0).run(), FAST, true);
    b.populate(run(512, 3), SLOW, false);
    b.now(&[Event::Remapped { from: run(0, 515), to: PageId(2048) }]);
    let view = b.engine.view();
    assert!(view.state(PageId(2048)).is_huge());
    assert_eq!(view.state(PageId(2562)).tier(), Some(SLOW));
    assert_eq!(view.state(PageId(0)).tier(), None);
    assert_eq!((view.used(FAST), view.used(SLOW)), (PageCount(512), PageCount(3)));
}

/// One step of a random world.
#[derive(Clone, Debug)]
enum Step {
    Allocate { region: u32, offset: u32, huge: bool },
    Unmap { start: u32, pages: u32 },
    Propose { start: u32, pages: u32, to: u8 },
    Exchange { one: u32, other: u32, pages: u32 },
    Report { nth: usize, outcome: u8, part: u32 },
    Stray { id: u64, start: u32, pages: u32 },
    Others { start: u32, pages: u32, to: u8 },
    Split { region: u32 },
    Collapse { region: u32, to: u8 },
    Reshaped { success: bool },
    Remap { from: u32, pages: u32, to: u32 },
}

const REGIONS: u32 = 4;
const PAGES: u32 = REGIONS * HUGE_PAGES;

fn step() -> impl Strategy<Value = Step> {
    let start = 0..PAGES;
    let pages = prop_oneof![1..8u32, 1..PAGES];
    prop_oneof![
        (0..REGIONS, 0..HUGE_PAGES, any::<bool>())
            .prop_map(|(region, offset, huge)| Step::Allocate { region, offset, huge }),
        (start.clone(), 1..40u32).prop_map(|(start, pages)| Step::Unmap { start, pages }),
        (start.clone(), pages.clone(), 0..4u8).prop_map(|(start, pages, to)| Step::Propose {
            start,
            pages,
            to
        }),
        (start.clone(), start.clone(), 1..600u32).prop_map(|(one, other, pages)| Step::Exchange {
            one,
            other,
            pages
        }),
        (0..8usize, 0..5u8, 1..600u32).prop_map(|(nth, outcome, part)| Step::Report {
            nth,
            outcome,
            part
        }),
        (0..20u64, start.clone(), 1..9u32).prop_map(|(id, start, pages)| Step::Stray {
            id,
            start,
            pages
        }),
        (start.clone(), 1..3u32, 0..3u8).prop_map(|(start, pages, to)| Step::Others {
            start,
            pages,
            to
        }),
        (0..REGIONS).prop_map(|region| Step::Split { region }),
        (0..REGIONS, 0..3u8).prop_map(|(region, to)| Step::Collapse { region, to }),
        any::<bool>().prop_map(|success| Step::Reshaped { success }),
        (start.clone(), 1..700u32, start).prop_map(|(from, pages, to)| Step::Remap {
            from,
            pages,
            to
        }),
    ]
}

/// What an outside observer knows: approved pages that have not been reported yet.
#[derive(Default)]
struct World {
    outstanding: Vec<(MoveId, PageRun)>,
    reshaping: Vec<Action>,
    ended: u64,
    /// Moves that nobody has proposed in the step that they were approved in.
    second_halves: u64,
}

impl World {
    /// Whether a split or a collapse of the region has not been reported yet.
    fn waits_for(&self, wanted: Region) -> bool {
        self.reshaping.iter().any(|action| match *action {
            Action::Split { region, .. } | Action::Collapse { region, .. } => region == wanted,
            _ => false,
        })
    }
}

const OUTCOMES: [MoveOutcome; 5] = [
    MoveOutcome::Moved,
    MoveOutcome::Busy,
    MoveOutcome::NoSpace,
    MoveOutcome::Gone,
    MoveOutcome::Shared,
];

/// What was approved, what the engine counted, and the second halves of exchanges.
fn play(steps: &[Step]) -> (Vec<Action>, EngineStats, u64) {
    let tier = |capacity, direct_access| TierLimits {
        capacity: PageCount(capacity),
        keep_free: PageCount(3),
        direct_access,
    };
    let mut b = bench(EngineConfig {
        tiers: vec![tier(700, true), tier(900, true), tier(1500, false)],
        migration_bytes_per_second: None,
        migration_burst: Bytes::ZERO,
    });
    let mut world = World::default();
    let mut all_actions = Vec::new();
    let mut over_by_others = BTreeSet::new();
    for step in steps {
        let mut new = perform(&mut b, &mut world, &mut over_by_others, step);
        let proposed = new.len();
        new.extend(b.approved());
        world.second_halves += (new.len() - proposed) as u64;
        for action in &new {
            match *action {
                Action::Migrate { id, run, .. } => world.outstanding.push((id, run)),
                Action::Split { region, .. } | Action::Collapse { region, .. } => {
                    assert!(!world.waits_for(region), "{region:?} is already being reshaped");
                    world.reshaping.push(*action);
                }
                other => panic!("{other:?} was not proposed"),
            }
        }
        all_actions.extend(new);
        check(&b.engine, &world, &over_by_others);
    }
    while let Some((id, run)) = world.outstanding.pop() {
        world.ended += u64::from(run.pages);
        b.done(id, run, MoveOutcome::Moved);
        for action in b.approved() {
            let Action::Migrate { id, run, .. } = action else { panic!("{action:?}") };
            world.outstanding.push((id, run));
            world.second_halves += 1;
        }
    }
    assert_eq!(b.engine.exchanges_waiting(), 0, "nothing is under way that it could wait for");
    let stats = b.engine.stats().clone();
    assert_eq!(b.engine.pages_in_flight(), PageCount::ZERO);
    assert_eq!(stats.outcomes.iter().sum::<u64>(), stats.approved_pages, "each ends once");
    assert_eq!(world.ended, stats.approved_pages);
    (all_actions, stats, world.second_halves)
}

fn perform(
    b: &mut Bench,
    world: &mut World,
    over: &mut BTreeSet<TierId>,
    step: &Step,
) -> Vec<Action> {
    match *step {
        Step::Allocate { region, offset, huge } => {
            let wanted = if huge {
                Region(region).run()
            } else {
                PageRun::single(PageId(Region(region).first().0 + offset))
            };
            let view = b.engine.view();
            if wanted.iter().all(|p| !view.state(p).is_resident()) {
                let process = ProcessId(0);
                b.engine.populate(
                    Nanos::ZERO,
                    &Allocation { run: wanted, huge, may_be_huge: false, process },
                );
            }
        }
        Step::Unmap { start, pages } => b.now(&[Event::Unmapped { run: run(start, pages) }]),
        Step::Propose { start, pages, to } => {
            let lane = Lane::DEMOTE;
            let to = TierId(to);
            return b.propose(&[Action::Migrate {
                id: MoveId(0),
                run: run(start, pages),
                to,
                lane,
            }]);
        }
        Step::Exchange { one, other, pages } => {
            let [one, other] = [one, other].map(|start| run(start, pages.min(PAGES - start)));
            b.exchanges.lock().unwrap().push(Exchange { one, other, lane: Lane::PROMOTE });
            return b.propose(&[]);
        }
        Step::Report { nth, outcome, part } => {
            let Some((id, all)) = world.outstanding.get(nth).copied() else { return Vec::new() };
            let part = part.min(all.pages);
            let ended = run(all.start.0, part);
            if part == all.pages {
                world.outstanding.remove(nth);
            } else {
                world.outstanding[nth].1 = run(ended.end(), all.pages - part);
            }
            world.ended += u64::from(part);
            b.done(id, ended, OUTCOMES[outcome as usize]);
        }
        Step::Stray { id, start, pages } => {
            let stray = run(start, pages);
            let known = |(other, r): &(MoveId, PageRun)| {
                *other == MoveId(id) && r.intersect(stray).pages > 0
            };
            if !world.outstanding.iter().any(known) {
                let before = b.engine.stats().anomalies;
                b.done(MoveId(id), stray, MoveOutcome::Moved);
                assert_eq!(b.engine.stats().anomalies, before + u64::from(pages));
            }
        }
        Step::Others { start, pages, to } => {
            over.insert(TierId(to));
            let cause = MoveCause::Unknown;
            b.now(&[Event::Moved { run: run(start, pages), to: TierId(to), cause }]);
        }
        Step::Split { region } => {
            return b.propose(&[Action::Split { region: Region(region), lane: Lane::SCAN }]);
        }
        Step::Collapse { region, to } => {
            let (region, to) = (Region(region), TierId(to));
            return b.propose(&[Action::Collapse { region, to, lane: Lane::SCAN }]);
        }
        Step::Reshaped { success } => match world.reshaping.pop() {
            Some(Action::Split { region, .. }) => {
                b.now(&[Event::SplitDone { region, split: success }]);
            }
            Some(Action::Collapse { region, to, .. }) => {
                let whole = region.run().iter().all(|p| b.engine.view().state(p).is_resident());
                let tier = (success && whole).then_some(to);
                b.now(&[Event::CollapseDone { region, tier }]);
            }
            _ => {}
        },
        Step::Remap { from, pages, to } => {
            let from = run(from, pages.min(PAGES - from).min(PAGES - to));
            let target = run(to, from.pages);
            if from.intersect(target).pages == 0 {
                b.now(&[Event::Remapped { from, to: PageId(to) }]);
            }
        }
    }
    Vec::new()
}

/// Recounts everything from the state bytes.
fn check(engine: &Engine, world: &World, over_by_others: &BTreeSet<TierId>) {
    let view = engine.view();
    let mut used = [0u64; 3];
    for region in 0..view.pages() / HUGE_PAGES {
        let huge = Region(region).run().iter().filter(|p| view.state(*p).is_huge()).count();
        assert!(huge == 0 || huge == 512, "a folio is whole");
    }
    for page in PageRun::between(0, view.pages()).iter() {
        let state = view.state(page);
        if let Some(tier) = state.tier() {
            used[tier.index()] += 1;
            let attention = state.is_armed() || !view.limits(tier).direct_access;
            assert_eq!(state.0 & PageState::ATTENTION != 0, attention);
        } else {
            assert_eq!(state, PageState::ABSENT);
        }
    }
    for (i, used) in used.into_iter().enumerate() {
        let tier = TierId(i as u8);
        assert_eq!(view.used(tier), PageCount(used));
        if !over_by_others.contains(&tier) {
            let total = used + view.reserved(tier).0;
            assert!(total <= view.limits(tier).capacity.0, "tier {i} holds {total}");
        }
    }
    let outstanding: u64 = world.outstanding.iter().map(|(_, r)| u64::from(r.pages)).sum();
    assert_eq!(engine.pages_in_flight(), PageCount(outstanding));
    let collapsing =
        world.reshaping.iter().filter(|a| matches!(a, Action::Collapse { .. })).count() as u64;
    let reserved: u64 = (0..3).map(|t| view.reserved(TierId(t)).0).sum();
    assert_eq!(reserved, outstanding + 512 * collapsing);
}

std::thread_local! {
    static REACHED: RefCell<(EngineStats, u64)> = RefCell::default();
}

#[test]
fn invariants_hold_in_random_worlds() {
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let steps = proptest::collection::vec(step(), 1..120);
    runner
        .run(&steps, |steps| {
            let (actions, stats, second_halves) = play(&steps);
            let again = (actions, stats.clone(), second_halves);
            prop_assert_eq!(play(&steps), again, "the same events give the same actions");
            REACHED.with_borrow_mut(|(r, exchanged)| {
                *exchanged += second_halves;
                r.promoted_pages += stats.promoted_pages;
                r.demoted_pages += stats.demoted_pages;
                r.splits += stats.splits;
                r.collapses += stats.collapses;
                r.anomalies += stats.anomalies;
                for (sum, one) in r.rejected.iter_mut().zip(stats.rejected) {
                    *sum += one;
                }
                for (sum, one) in r.outcomes.iter_mut().zip(stats.outcomes) {
                    *sum += one;
                }
            });
            Ok(())
        })
        .unwrap();
    REACHED.with_borrow(|(r, exchanged)| {
        assert!(*exchanged > 0, "exchanges went on to their second half");
        assert!(r.promoted_pages > 0 && r.demoted_pages > 0, "pages moved both ways: {r:?}");
        assert!(r.splits > 0 && r.anomalies > 0, "folios were split, lies were told: {r:?}");
        assert!(r.outcomes.iter().all(|&n| n > 0), "every outcome occurred: {r:?}");
        let unreached = [Rejected::RateBudget as usize];
        for (i, &n) in r.rejected.iter().enumerate() {
            assert!(n > 0 || unreached.contains(&i), "{:?} occurred: {r:?}", Rejected::ALL[i]);
        }
    });
}

#[test]
fn engines_that_cannot_be_are_errors() {
    let tier = EngineConfig::two_tiers(PageCount(1), PageCount(1)).tiers[0];
    let made = |tiers: Vec<TierLimits>| {
        let config =
            EngineConfig { tiers, ..EngineConfig::two_tiers(PageCount::ZERO, PageCount::ZERO) };
        let policy = crate::policy::make("first-touch", &crate::policy::Offer::default());
        Engine::new(config, policy.unwrap()).map(|engine| engine.view().tiers())
    };
    for number in [0, 1, 9] {
        assert_eq!(made(alloc::vec![tier; number]), Err(EngineError::Tiers(number)));
    }
    for number in 2..=MAX_TIERS {
        assert_eq!(made(alloc::vec![tier; number]), Ok(number));
    }
    let pages = PageCount(MOST_TIER_PAGES.0 + 1);
    let error = Err(EngineError::Capacity { tier: TierId(1), pages });
    assert_eq!(made(alloc::vec![tier, TierLimits { capacity: pages, ..tier }]), error);
    assert_eq!(made(alloc::vec![tier, TierLimits { keep_free: pages, ..tier }]), error);
}
