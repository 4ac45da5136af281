//! Reclaim by second chance: a hand goes round over all pages and takes those of a tier that were not referenced since it
//! last passed.

use crate::backoff::Backoff;
use frostline_core::View;
use frostline_core::hotness::bitmap::Bitmap;
use frostline_core::types::*;

/// Pages that one pass of the hand looks at, at most: the clock is read in between.
const PASS_PAGES: u64 = 8 * HUGE_PAGES as u64;
/// Part of the next tier that must have become free since it was found full for its back-off to end.
const ROOM_PART: u64 = 16;

/// Keeps one tier within its limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reclaimer {
    hand: u32,
    backoff: Backoff,
    /// Pages that the hand has passed since the back-off last judged.
    passed: u64,
    over_since: Option<Nanos>,
    /// Room that the next tier was said to have when it was found full.
    full_at: Option<u64>,
}

/// How one pass of the hand went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// Pages that were looked at.
    pub looked_at: u64,
    /// Pages of the units that were taken.
    pub taken: u64,
}

impl Reclaimer {
    /// Forgets that the tier was over its limit.
    pub fn reset(&mut self) {
        (self.over_since, self.backoff, self.full_at) = (None, Backoff::default(), None);
    }

    /// Whether a tier that holds too much at `now` has done so for `grace`, the time in which the policy can make room
    /// itself, and reclaim has not turned out to be in vain. `next` has the room and the capacity of the next tier, in
    /// pages: one that was full is tried again as soon as enough of it has become free, however long the back-off.
    pub fn is_due(&mut self, now: Nanos, grace: Nanos, next: (u64, u64)) -> bool {
        let since = *self.over_since.get_or_insert(now);
        let (room, capacity) = next;
        if self.full_at.is_some_and(|full| room > full + capacity / ROOM_PART) {
            (self.full_at, self.backoff) = (None, Backoff::default());
        }
        now.saturating_sub(since) >= grace && self.backoff.allows(now)
    }

    /// One pass of the hand over the pages that `view` knows: units of `tier` are given to `take`, in the order of their
    /// ids from the hand on, until `wanted` pages or more are taken, and never more than `room`. Those in `referenced` are
    /// left, and lose that mark.
    pub fn pass(
        &mut self,
        view: &View<'_>,
        tier: TierId,
        (wanted, room): (u64, u64),
        referenced: &mut Bitmap,
        mut take: impl FnMut(PageRun),
    ) -> Pass {
        let mut pass = Pass::default();
        // No unit is taken twice in one pass.
        let most = PASS_PAGES.min(view.pages().into());
        while pass.taken < wanted && pass.looked_at < most {
            if self.hand >= view.pages() {
                self.hand = 0;
            }
            let page = PageId(self.hand);
            let (state, unit) = (view.state(page), view.unit(page));
            let pages = u64::from(unit.pages);
            self.hand = unit.end();
            pass.looked_at += pages;
            if state.tier() != Some(tier) || state.is_in_flight() || pass.taken + pages > room {
                continue;
            }
            if referenced.contains(page.0) {
                referenced.remove(page.0);
                continue;
            }
            pass.taken += pages;
            take(unit);
        }
        pass
    }

    /// Takes in what came of a pass at `now` over one of `pages` in all: so many pages were `moved`; the next tier was
    /// found `full` with that room left. Whether to go on: not where a round over all pages, or a full tier, shows that it
    /// is in vain.
    pub fn note(
        &mut self,
        now: Nanos,
        pages: u64,
        pass: Pass,
        moved: u64,
        full: Option<u64>,
    ) -> bool {
        // A full tier is in vain, whether pages were tried or not.
        self.backoff.note(pass.taken.max(u64::from(full.is_some())), moved);
        self.passed += pass.looked_at;
        if full.is_none() && self.passed <= pages {
            return true;
        }
        self.passed = 0;
        let is_worth_it = self.backoff.conclude(now);
        self.full_at = full.filter(|_| !is_worth_it);
        is_worth_it
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;
    use frostline_core::policy::{Offer, make};
    use frostline_core::{Engine, EngineConfig, Event};
    use proptest::prelude::*;

    const FAST: TierId = TierId::FAST;
    const SLOW: TierId = TierId(1);

    fn engine(regions: &[Kind]) -> Engine {
        let policy = make("first-touch", &Offer::default()).unwrap();
        let tiers = EngineConfig::two_tiers(PageCount(1 << 20), PageCount(1 << 20));
        let mut engine = Engine::new(tiers, policy).unwrap();
        let populated = |(region, kind): (usize, &Kind)| {
            let run = Region(region as u32).run();
            match *kind {
                Kind::Huge(tier) => Some(Event::Populated { run, tier, huge: true }),
                Kind::Base(tier) => Some(Event::Populated { run, tier, huge: false }),
                Kind::Absent => None,
            }
        };
        let events: Vec<Event> = regions.iter().enumerate().filter_map(populated).collect();
        engine.handle_events(Nanos(1), &events);
        engine
    }

    #[derive(Clone, Copy, Debug)]
    enum Kind {
        Huge(TierId),
        Base(TierId),
        Absent,
    }

    fn kind() -> impl Strategy<Value = Kind> {
        prop_oneof![
            Just(Kind::Huge(FAST)),
            Just(Kind::Base(FAST)),
            Just(Kind::Huge(SLOW)),
            Just(Kind::Base(SLOW)),
            Just(Kind::Absent),
        ]
    }

    proptest! {
        /// Whoever passes often enough takes every unit of the tier once, referenced ones last, and nothing else.
        #[test]
        fn all_units_are_taken_and_referenced_ones_a_round_later(
            regions in prop::collection::vec(kind(), 1..12),
            referenced in prop::collection::btree_set(0u32..12 * HUGE_PAGES, 0..300),
            wanted in 1u64..2000,
        ) {
            let engine = engine(&regions);
            let view = engine.view();
            let mut marks = Bitmap::default();
            for page in &referenced {
                marks.insert(*page);
            }
            let all: BTreeSet<u32> = (0..view.pages())
                .filter(|page| view.state(PageId(*page)).tier() == Some(FAST))
                .map(|page| view.unit(PageId(page)).start.0)
                .collect();
            let mut reclaimer = Reclaimer::default();
            let (mut order, mut looked_at) = (Vec::new(), 0);
            while looked_at < 2 * u64::from(view.pages()) {
                let before = order.len();
                let mut taken = 0;
                let pass = reclaimer.pass(&view, FAST, (wanted, u64::MAX), &mut marks, |unit| {
                    taken += u64::from(unit.pages);
                    order.push(unit.start.0);
                });
                prop_assert_eq!(pass.taken, taken);
                prop_assert!(pass.looked_at <= PASS_PAGES + u64::from(HUGE_PAGES));
                prop_assert!(taken < wanted + u64::from(HUGE_PAGES));
                prop_assert!(order.len() > before || pass.looked_at > 0);
                looked_at += pass.looked_at;
            }
            let first: Vec<u32> =
                all.iter().copied().filter(|unit| !referenced.contains(unit)).collect();
            prop_assert_eq!(&order[..first.len().min(order.len())], &first[..]);
            prop_assert_eq!(order.into_iter().collect::<BTreeSet<_>>(), all);
        }

        #[test]
        fn no_more_is_taken_than_there_is_room_for(
            regions in prop::collection::vec(kind(), 1..12),
            room in 0u64..1500,
        ) {
            let engine = engine(&regions);
            let mut reclaimer = Reclaimer::default();
            for _ in 0..4 {
                let mut taken = 0;
                let mut marks = Bitmap::default();
                let wanted = (5000, room);
                reclaimer.pass(&engine.view(), FAST, wanted, &mut marks, |unit| {
                    taken += u64::from(unit.pages);
                });
                prop_assert!(taken <= room);
            }
        }
    }

    fn seconds(n: u64) -> Nanos {
        Nanos(n * 1_000_000_000)
    }

    /// Room and capacity of a next tier that has plenty of both.
    const PLENTY: (u64, u64) = (1 << 20, 1 << 20);

    #[test]
    fn the_policy_has_its_time_first_each_time() {
        let mut reclaimer = Reclaimer::default();
        assert!(!reclaimer.is_due(seconds(1), seconds(2), PLENTY));
        assert!(reclaimer.is_due(seconds(3), seconds(2), PLENTY));
        reclaimer.reset();
        assert!(!reclaimer.is_due(seconds(4), seconds(2), PLENTY));
    }

    #[test]
    fn reclaim_in_vain_is_put_off_after_a_round() {
        let mut reclaimer = Reclaimer::default();
        let pass = Pass { looked_at: 600, taken: 200 };
        assert!(reclaimer.note(seconds(0), 1000, pass, 0, None), "not a round yet");
        assert!(!reclaimer.note(seconds(0), 1000, pass, 0, None));
        assert!(!reclaimer.is_due(seconds(0), Nanos::ZERO, PLENTY));
        assert!(reclaimer.is_due(seconds(1), Nanos::ZERO, PLENTY));
        assert!(reclaimer.note(seconds(1), 1000, pass, 200, None));
        assert!(reclaimer.note(seconds(1), 1000, pass, 200, None), "worth it");
        assert!(!reclaimer.note(seconds(1), 1000, Pass::default(), 0, Some(0)), "it is full");
    }

    /// A back-off of half a minute would leave the tier empty where pages keep coming back.
    #[test]
    fn a_full_tier_that_has_room_again_is_tried_at_once() {
        let mut reclaimer = Reclaimer::default();
        let full = |reclaimer: &mut Reclaimer, at| {
            assert!(!reclaimer.note(seconds(at), 1000, Pass::default(), 0, Some(20)));
        };
        full(&mut reclaimer, 0);
        full(&mut reclaimer, 1);
        full(&mut reclaimer, 3);
        assert!(!reclaimer.is_due(seconds(6), Nanos::ZERO, (120, 1600)), "as good as full");
        assert!(reclaimer.is_due(seconds(6), Nanos::ZERO, (121, 1600)));
        full(&mut reclaimer, 6);
        assert!(reclaimer.is_due(seconds(7), Nanos::ZERO, (20, 1600)), "the shortest wait again");

        // What was in vain for another reason is not worth more because there is room.
        let pass = Pass { looked_at: 1001, taken: 200 };
        assert!(!reclaimer.note(seconds(8), 1000, pass, 0, None));
        assert!(!reclaimer.is_due(seconds(8), Nanos::ZERO, PLENTY));
    }
}
