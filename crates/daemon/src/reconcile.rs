//! Events that make the engine know where pages are.

use crate::Found;
use alloc::vec::Vec;
use frostline_core::event::{Event, MoveCause};
use frostline_core::placement::PageState;
use frostline_core::types::*;

/// Compares what the engine believes about consecutive pages of one region with what was found,
/// page by page from `first` on, and appends the events that make both equal. Pages in flight that are
/// somewhere are left alone: their moves will tell. Those that are nowhere are gone: nothing is moved
/// while a page table is read, and a move that is refused for want of room tells nothing.
pub fn reconcile(
    states: impl Fn(PageId) -> PageState,
    first: PageId,
    found: &[Option<Found>],
    direct: impl Fn(TierId) -> bool,
    events: &mut Vec<Event>,
) {
    let run = PageRun { start: first, pages: found.len() as u32 };
    let pairs = || run.iter().zip(found).map(|(page, found)| (page, states(page), *found));
    let is_huge = |state: PageState, found: Option<Found>| {
        state.is_huge() || found.is_some_and(|found| found.huge)
    };
    if found.iter().all(Option::is_none) {
        for (page, _, _) in pairs().filter(|(_, state, _)| state.is_resident()) {
            push(events, Event::Freed { run: PageRun::single(page) });
        }
        return;
    }
    // A folio is told as a whole, once none of its pages is in flight.
    if pairs().any(|(_, state, _)| state.is_in_flight())
        && pairs().any(|(_, state, found)| is_huge(state, found))
    {
        return;
    }
    let reshaped = pairs().any(|(_, state, found)| {
        state.is_resident() && state.is_huge() != found.is_some_and(|found| found.huge)
    });
    // A folio was split or built behind our back: its pages are told anew.
    if reshaped {
        events.push(Event::Freed { run });
        for (page, _, found) in pairs() {
            if let Some(found) = found {
                push(events, populated(PageRun::single(page), found));
            }
        }
        return;
    }
    let is_told = |state: PageState, found: Option<Found>| !state.is_in_flight() || found.is_none();
    for (page, state, found) in pairs().filter(|(_, state, found)| is_told(*state, *found)) {
        let run = PageRun::single(page);
        match (state.tier(), found) {
            (None, Some(found)) => push(events, populated(run, found)),
            (Some(_), None) => push(events, Event::Freed { run }),
            (Some(from), Some(found)) if from != found.tier => {
                let came_back = found.tier < from && !direct(from);
                let cause = if came_back { MoveCause::Refault } else { MoveCause::Unknown };
                push(events, Event::Moved { run, to: found.tier, cause });
            }
            _ => {}
        }
    }
}

fn populated(run: PageRun, found: Found) -> Event {
    Event::Populated { run, tier: found.tier, huge: found.huge }
}

/// Appends an event about one page, or lengthens the last one where it says the same of the page
/// before.
fn push(events: &mut Vec<Event>, event: Event) {
    let joined = match (events.last(), event) {
        (
            Some(&Event::Populated { run: a, tier, huge }),
            Event::Populated { run: b, tier: t, huge: h },
        ) if follows(a, b) && (tier, huge) == (t, h) => {
            Some(Event::Populated { run: join(a, b), tier, huge })
        }
        (Some(&Event::Freed { run: a }), Event::Freed { run: b }) if follows(a, b) => {
            Some(Event::Freed { run: join(a, b) })
        }
        (Some(&Event::Moved { run: a, to, cause }), Event::Moved { run: b, to: t, cause: c })
            if follows(a, b) && (to, cause) == (t, c) =>
        {
            Some(Event::Moved { run: join(a, b), to, cause })
        }
        _ => None,
    };
    match (joined, events.last_mut()) {
        (Some(joined), Some(last)) => *last = joined,
        _ => events.push(event),
    }
}

fn follows(a: PageRun, b: PageRun) -> bool {
    a.end() == b.start.0 && a.start.region() == b.start.region()
}

fn join(a: PageRun, b: PageRun) -> PageRun {
    PageRun { start: a.start, pages: a.pages + b.pages }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_core::engine::{Engine, EngineConfig};
    use frostline_core::policy::{Offer, make};
    use proptest::prelude::*;

    fn engine() -> Engine {
        let policy = make("first-touch", &Offer::default()).unwrap();
        Engine::new(EngineConfig::two_tiers(PageCount(4096), PageCount(4096)), policy).unwrap()
    }

    /// 512 pages, each nowhere or in one of two tiers; or one folio.
    fn region() -> impl Strategy<Value = Vec<Option<Found>>> {
        let page = prop_oneof![
            Just(None),
            (0u8..2).prop_map(|tier| Some(Found { tier: TierId(tier), huge: false })),
        ];
        let base = proptest::collection::vec(page, 512);
        let huge =
            (0u8..2).prop_map(|t| alloc::vec![Some(Found { tier: TierId(t), huge: true }); 512]);
        prop_oneof![3 => base, 1 => huge]
    }

    proptest! {
        #[test]
        fn the_engine_ends_up_knowing_what_was_found(
            steps in proptest::collection::vec(region(), 1..6),
        ) {
            let mut engine = engine();
            let first = Region(3).first();
            for found in steps {
                let mut events = Vec::new();
                reconcile(|p| engine.view().state(p), first, &found, |_| true, &mut events);
                engine.handle_events(Nanos(0), &events);
                for (page, found) in Region(3).run().iter().zip(&found) {
                    let state = engine.view().state(page);
                    prop_assert_eq!(state.tier(), found.map(|f| f.tier));
                    prop_assert_eq!(state.is_huge(), found.is_some_and(|f| f.huge));
                }
                let mut again = Vec::new();
                reconcile(|p| engine.view().state(p), first, &found, |_| true, &mut again);
                prop_assert!(again.is_empty(), "{again:?}");
                prop_assert_eq!(engine.stats().anomalies, 0);
            }
        }
    }

    #[test]
    fn of_pages_in_flight_those_that_are_nowhere_are_gone() {
        for huge in [false, true] {
            let mut engine = engine();
            let run = Region(0).run();
            let there = Event::Populated { run, tier: TierId(1), huge };
            engine.handle_events(Nanos(0), &[there]);
            let in_flight = |page: PageId| {
                let moves = page.0.is_multiple_of(2) || huge;
                let state = engine.view().state(page).0;
                PageState(if moves { state | PageState::IN_FLIGHT } else { state })
            };
            let mut events = Vec::new();
            reconcile(in_flight, run.start, &[None; 512], |_| true, &mut events);
            assert_eq!(events, [Event::Freed { run }]);
            let mut found = [Some(Found { tier: TierId(0), huge }); 512];
            found[2..4].fill(None);
            events.clear();
            reconcile(in_flight, run.start, &found, |_| true, &mut events);
            let freed = Event::Freed { run: PageRun::between(2, 4) };
            assert_eq!(events.contains(&freed), !huge);
            let moved = |event: &&Event| matches!(event, Event::Moved { .. });
            assert_eq!(events.iter().filter(moved).count(), if huge { 0 } else { 255 });
        }
    }

    #[test]
    fn neighbours_are_told_together() {
        let engine = engine();
        let found = alloc::vec![Some(Found { tier: TierId(1), huge: false }); 512];
        let mut events = Vec::new();
        reconcile(|p| engine.view().state(p), PageId(0), &found, |_| true, &mut events);
        let run = Region(0).run();
        assert_eq!(events, [Event::Populated { run, tier: TierId(1), huge: false }]);
    }
}
