//! Exchanges, room for new memory, page sizes and freed pages, each as a policy sees them.

use super::*;
use crate::action::Plan;
use crate::budget::Budget;
use crate::placement::Freed;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;

extern crate std;
use std::sync::Mutex;

const FAST: TierId = TierId(0);
const SLOW: TierId = TierId(1);

#[derive(Default)]
struct Script {
    exchanges: Vec<(PageRun, PageRun)>,
    promote: Option<PageRun>,
    newborn_room: Option<PageCount>,
    size: Option<PageSize>,
    freed: Vec<Freed>,
}

#[derive(Clone, Default)]
struct Scripted(Arc<Mutex<Script>>);

impl Policy for Scripted {
    fn observe(&mut self, _: Nanos, _: &[Event], view: &View<'_>) {
        self.0.lock().unwrap().freed.extend(view.freed());
    }
    fn decide(&mut self, _: Nanos, _: &View<'_>, _: Budget, plan: &mut Plan) {
        let mut script = self.0.lock().unwrap();
        script.newborn_room.into_iter().for_each(|room| plan.keep_for_newborn(room));
        script.promote.take().into_iter().for_each(|run| plan.migrate(run, FAST, Lane::PROMOTE));
        script.exchanges.drain(..).for_each(|(a, b)| plan.exchange(a, b, Lane::PROMOTE));
    }
    fn next_wakeup(&self) -> Option<Nanos> {
        Some(Nanos::ZERO)
    }
    fn place(&mut self, _: Nanos, _: &Allocation, _: &View<'_>) -> Home {
        Home { size: self.0.lock().unwrap().size, ..Home::default() }
    }
    fn metadata_bytes(&self) -> Bytes {
        Bytes::ZERO
    }
}

fn run(start: u32, pages: u32) -> PageRun {
    PageRun { start: PageId(start), pages }
}

/// An engine with so many pages in each tier, those of the fastest first.
fn engine(capacities: [u64; 2], resident: [u32; 2]) -> (Engine, Scripted) {
    let policy = Scripted::default();
    let made = Made::unlisted("script", Box::new(policy.clone()), Facts::default());
    let [fast, slow] = capacities.map(PageCount);
    let mut engine = Engine::new(EngineConfig::two_tiers(fast, slow), made).unwrap();
    let [fast, slow] = resident;
    for (run, tier) in [(run(0, fast), FAST), (run(fast, slow), SLOW)] {
        engine.handle_events(Nanos::ZERO, &[Event::Populated { run, tier, huge: false }]);
    }
    (engine, policy)
}

/// What is wanted, and the moves of it: id, first page, tier.
fn moves(engine: &mut Engine) -> Vec<(MoveId, PageRun, TierId)> {
    engine.handle_timeout(Nanos::ZERO);
    core::iter::from_fn(|| engine.poll_action())
        .map(|action| match action {
            Action::Migrate { id, run, to, .. } => (id, run, to),
            other => panic!("unexpected {other:?}"),
        })
        .collect()
}

fn done(engine: &mut Engine, id: MoveId, run: PageRun, outcome: MoveOutcome) {
    engine.handle_events(Nanos::ZERO, &[Event::MigrationDone { id, run, outcome }]);
}

fn allocate(engine: &mut Engine, run: PageRun, huge: bool, may_be_huge: bool) -> Option<Placed> {
    let allocation = Allocation { run, huge, may_be_huge, process: ProcessId(0) };
    engine.populate(Nanos::ZERO, &allocation)
}

#[test]
fn an_exchange_demotes_first_where_the_fast_tier_is_full() {
    let (mut e, script) = engine([4, 100], [4, 4]);
    // Whichever of the two is named first.
    script.0.lock().unwrap().exchanges = vec![(run(4, 2), run(0, 2))];
    let first = moves(&mut e);
    assert_eq!(first, [(MoveId(1), run(0, 2), SLOW)]);
    assert_eq!(e.exchanges_waiting(), 1);
    done(&mut e, MoveId(1), run(0, 1), MoveOutcome::Moved);
    assert!(moves(&mut e).is_empty(), "half of it has ended");
    done(&mut e, MoveId(1), run(1, 1), MoveOutcome::Moved);
    assert_eq!(e.view().free(FAST), PageCount::ZERO, "nobody else takes the room");
    assert_eq!(allocate(&mut e, run(600, 1), false, false).map(|placed| placed.tier), Some(SLOW));
    assert_eq!(moves(&mut e), [(MoveId(2), run(4, 2), FAST)]);
    done(&mut e, MoveId(2), run(4, 2), MoveOutcome::Moved);
    let tiers = [0, 1, 2, 3, 4, 5].map(|page| e.view().state(PageId(page)).tier().unwrap().0);
    assert_eq!((tiers, e.exchanges_waiting()), ([1, 1, 0, 0, 0, 0], 0));
}

#[test]
fn an_exchange_promotes_first_where_the_slow_tier_is_full() {
    let (mut e, script) = engine([4, 2], [2, 2]);
    script.0.lock().unwrap().exchanges = vec![(run(0, 2), run(2, 2))];
    assert_eq!(moves(&mut e), [(MoveId(1), run(2, 2), FAST)]);
    done(&mut e, MoveId(1), run(2, 2), MoveOutcome::Moved);
    assert_eq!(moves(&mut e), [(MoveId(2), run(0, 2), SLOW)]);
}

#[test]
fn an_exchange_that_fails_half_way_overfills_nothing() {
    let (mut e, script) = engine([4, 100], [4, 4]);
    script.0.lock().unwrap().exchanges = vec![(run(0, 2), run(4, 2))];
    let first = moves(&mut e);
    assert_eq!(first.len(), 1);
    done(&mut e, MoveId(1), run(0, 1), MoveOutcome::Busy);
    done(&mut e, MoveId(1), run(1, 1), MoveOutcome::Moved);
    assert_eq!(moves(&mut e), [(MoveId(2), run(4, 1), FAST)], "one page has room");
    assert_eq!(e.stats().rejected[Rejected::NoRoom as usize], 1);
    let (mut e, script) = engine([4, 4], [4, 4]);
    script.0.lock().unwrap().exchanges = vec![(run(0, 2), run(4, 2)), (run(0, 1), run(900, 1))];
    assert!(moves(&mut e).is_empty(), "both tiers are full");
    assert_eq!(e.exchanges_waiting(), 0);
    assert_eq!(e.stats().rejected[Rejected::NotResident as usize], 2);
}

#[test]
fn room_for_new_memory_is_left_by_moves_alone() {
    let (mut e, script) = engine([4, 100], [0, 4]);
    script.0.lock().unwrap().newborn_room = Some(PageCount(2));
    script.0.lock().unwrap().promote = Some(run(0, 4));
    assert_eq!(moves(&mut e), [(MoveId(1), run(0, 2), FAST)]);
    for page in [600, 601] {
        let placed = allocate(&mut e, run(page, 1), false, false);
        assert_eq!(placed.map(|placed| placed.tier), Some(FAST));
    }
    let (mut e, script) = engine([4, 100], [0, 4]);
    script.0.lock().unwrap().newborn_room = Some(PageCount(u64::MAX));
    script.0.lock().unwrap().promote = Some(run(0, 4));
    assert!(moves(&mut e).is_empty());
    script.0.lock().unwrap().newborn_room = Some(PageCount::ZERO);
    script.0.lock().unwrap().promote = Some(run(0, 4));
    assert_eq!(moves(&mut e).len(), 1, "until a plan says otherwise");
}

#[test]
fn policies_choose_the_page_size_where_the_world_can() {
    let folio = Region(1).run();
    let (mut e, script) = engine([2048, 2048], [0, 0]);
    let huge = |placed: Option<Placed>| placed.map(|placed| placed.huge);
    script.0.lock().unwrap().size = Some(PageSize::Base);
    assert_eq!(allocate(&mut e, folio, true, false), None, "it is asked for a base page next");
    assert_eq!(huge(allocate(&mut e, run(520, 1), false, true)), Some(false));
    assert_eq!(e.view().resident(), PageCount(1));
    script.0.lock().unwrap().size = Some(PageSize::Folio);
    assert_eq!(huge(allocate(&mut e, run(521, 1), false, false)), Some(false), "it cannot be");
    assert_eq!(huge(allocate(&mut e, run(1030, 1), false, true)), Some(true));
    assert_eq!(e.view().resident(), PageCount(514));
    assert!(e.view().state(PageId(1024)).is_huge());
    assert_eq!(huge(allocate(&mut e, Region(0).run(), true, false)), Some(true));
}

#[test]
fn policies_are_told_in_which_tiers_freed_pages_were() {
    let (mut e, script) = engine([4, 100], [4, 4]);
    assert!(allocate(&mut e, run(9, 1), false, false).is_some(), "told of before");
    e.handle_events(Nanos::ZERO, &[Event::Unmapped { run: run(2, 4) }]);
    let freed = core::mem::take(&mut script.0.lock().unwrap().freed);
    let expected = [Freed { run: run(2, 2), tier: FAST }, Freed { run: run(4, 2), tier: SLOW }];
    assert_eq!(freed, expected);
    e.handle_events(Nanos::ZERO, &[Event::SamplesLost { count: 1 }]);
    assert!(script.0.lock().unwrap().freed.is_empty(), "once");
}
