//! The lists against vectors that are searched from end to end.

use super::*;
use crate::action::Action;
use crate::event::MoveCause;
use crate::placement::{PageState, Placement, TierLimits};
use alloc::vec;
use proptest::prelude::*;

const SLOW: TierId = TierId(1);
const REGIONS: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unit {
    first: u32,
    pages: u32,
    tier: u8,
    active: bool,
    marked: bool,
}

/// Oldest first.
#[derive(Default)]
struct Naive {
    listed: Vec<Unit>,
    isolated: Vec<(Unit, Option<bool>)>,
    moving: Vec<Unit>,
}

impl Naive {
    fn pages(&self, tier: u8, active: bool) -> u64 {
        let here = self.listed.iter().filter(|u| u.tier == tier && u.active == active);
        here.map(|u| u64::from(u.pages)).sum()
    }

    fn order(&self, tier: u8, active: bool) -> Vec<(u32, bool)> {
        let here = self.listed.iter().filter(|u| u.tier == tier && u.active == active);
        here.map(|u| (u.first, u.marked)).collect()
    }

    /// Takes the unit that holds a page out of wherever it is.
    fn take(&mut self, page: u32) -> Option<Unit> {
        let holds = |u: &Unit| (u.first..u.first + u.pages).contains(&page);
        if let Some(at) = self.listed.iter().position(holds) {
            return Some(self.listed.remove(at));
        }
        if let Some(at) = self.isolated.iter().position(|(u, _)| holds(u)) {
            return Some(self.isolated.remove(at).0);
        }
        let at = self.moving.iter().position(holds)?;
        Some(self.moving.remove(at))
    }

    fn forget(&mut self, run: PageRun) {
        for page in run.iter() {
            let Some(unit) = self.take(page.0) else { continue };
            if unit.pages == 1 {
                continue;
            }
            let folio = Region(unit.first / HUGE_PAGES).run();
            let whole = run.intersect(folio) == folio;
            for page in folio.iter().filter(|p| !whole && !run.contains(*p)) {
                self.listed.push(Unit { first: page.0, pages: 1, ..unit });
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Populate { page: u32, huge: bool, slow: bool },
    Forget { page: u32, pages: u32 },
    Touch(u32),
    File(u32, bool),
    Isolate { slow: bool, active: bool, pages: u64 },
    Answer { from: u32, bits: u64 },
    Settle,
    Abandon,
    Move(u32),
    Depart(u32),
    Land { move_them: bool },
    Split(u32),
    Remap { page: u32, pages: u32, to: u32 },
}

fn step() -> impl Strategy<Value = Step> {
    let page = || 0..REGIONS * HUGE_PAGES;
    prop_oneof![
        6 => (page(), any::<bool>(), any::<bool>())
            .prop_map(|(page, huge, slow)| Step::Populate { page, huge, slow }),
        1 => (page(), 1..700u32).prop_map(|(page, pages)| Step::Forget { page, pages }),
        4 => page().prop_map(Step::Touch),
        2 => (page(), any::<bool>()).prop_map(|(page, active)| Step::File(page, active)),
        4 => (any::<bool>(), any::<bool>(), 1..40u64)
            .prop_map(|(slow, active, pages)| Step::Isolate { slow, active, pages }),
        4 => (0..REGIONS * 8 - 7, any::<u64>()).prop_map(|(from, bits)| Step::Answer { from, bits }),
        4 => Just(Step::Settle),
        1 => Just(Step::Abandon),
        2 => page().prop_map(Step::Move),
        2 => page().prop_map(Step::Depart),
        2 => any::<bool>().prop_map(|move_them| Step::Land { move_them }),
        1 => (0..REGIONS).prop_map(Step::Split),
        1 => (page(), 1..700u32, page())
            .prop_map(|(page, pages, to)| Step::Remap { page, pages, to }),
    ]
}

struct World {
    lru: Lru,
    naive: Naive,
    placement: Placement,
    scanned: u64,
    answered: u64,
    verdicts: [u64; 3],
}

impl World {
    fn new() -> Self {
        let tier = TierLimits {
            capacity: PageCount(1 << 20),
            keep_free: PageCount(0),
            direct_access: true,
        };
        let mut placement = Placement::new(Vec::from([tier, tier]));
        placement.grow(REGIONS * HUGE_PAGES);
        let lru = Lru::new(PageCount::ZERO);
        Self { lru, naive: Naive::default(), placement, scanned: 0, answered: 0, verdicts: [0; 3] }
    }

    fn event(&mut self, event: Event) {
        self.lru.observe(&event, &self.placement.view());
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Populate { page, huge, slow } => {
                let tier = TierId(u8::from(slow));
                let run = if huge {
                    PageId(page).region().run()
                } else {
                    PageRun { start: PageId(page), pages: 20 }
                        .intersect(PageId(page).region().run())
                };
                self.naive.forget(run);
                self.event(Event::Freed { run });
                for page in run.iter() {
                    self.placement.put(page, None);
                    self.placement.put(page, Some(tier));
                    self.placement.set_flag(page, PageState::HUGE, huge);
                }
                self.event(Event::Populated { run, tier, huge });
                let pages = if huge { HUGE_PAGES } else { 1 };
                let units = run.iter().step_by(pages as usize).map(|page| Unit {
                    first: page.0,
                    pages,
                    tier: tier.0,
                    active: false,
                    marked: false,
                });
                self.naive.listed.extend(units);
            }
            Step::Forget { page, pages } => {
                let run = PageRun { start: PageId(page), pages };
                let run = run.intersect(PageRun::between(0, REGIONS * HUGE_PAGES));
                run.iter().for_each(|page| self.placement.put(page, None));
                self.naive.forget(run);
                self.event(Event::Unmapped { run });
            }
            Step::Touch(page) => {
                self.lru.touch(PageId(page));
                self.touch_naive(page);
            }
            Step::File(page, active) => {
                let list = if active { List::Active } else { List::Inactive };
                self.lru.file(PageId(page), list);
                if let Some(unit) = self.naive.take(page) {
                    self.naive.listed.push(Unit { active, ..unit });
                }
            }
            Step::Isolate { slow, active, pages } => self.isolate(slow, active, pages),
            Step::Answer { from, bits } => {
                (from..from + 8).for_each(|block| self.answer(block, bits))
            }
            Step::Settle => {
                self.settle(TierId::FAST);
                self.settle(SLOW);
            }
            Step::Abandon => {
                let back = self.lru.abandon(TierId::FAST) + self.lru.abandon(SLOW);
                assert_eq!(back, self.naive.isolated.len());
                let units = self.naive.isolated.drain(..).map(|(unit, _)| unit);
                self.naive.listed.splice(0..0, units.collect::<Vec<_>>());
            }
            Step::Move(page) => {
                let Some(unit) = self.naive.take(page) else { return };
                let to = TierId(1 - unit.tier);
                let run = PageRun { start: PageId(unit.first), pages: unit.pages };
                run.iter().for_each(|page| self.placement.put(page, Some(to)));
                self.event(Event::Moved { run, to, cause: MoveCause::Unknown });
                self.naive.listed.push(Unit { tier: to.0, ..unit });
            }
            Step::Depart(page) => {
                let holds = |u: &Unit| (u.first..u.first + u.pages).contains(&page);
                self.lru.depart(PageId(page));
                if !self.naive.moving.iter().any(holds)
                    && let Some(unit) = self.naive.take(page)
                {
                    self.naive.moving.push(unit);
                }
            }
            Step::Land { move_them } => self.land(move_them),
            Step::Split(region) => {
                let first = Region(region).first();
                let Some(unit) = self.naive.take(first.0) else { return };
                if unit.pages == 1 {
                    self.naive.listed.push(unit);
                    self.lru.file(first, if unit.active { List::Active } else { List::Inactive });
                    return;
                }
                let pages = Region(region).run().iter();
                pages.clone().for_each(|p| self.placement.set_flag(p, PageState::HUGE, false));
                self.event(Event::SplitDone { region: Region(region), split: true });
                let units = pages.map(|p| Unit { first: p.0, pages: 1, ..unit });
                self.naive.listed.extend(units);
            }
            Step::Remap { page, pages, to } => self.remap(page, pages, to),
        }
    }

    fn touch_naive(&mut self, page: u32) {
        let listed = self.naive.listed.iter().any(|u| (u.first..u.first + u.pages).contains(&page));
        let holds = |u: &Unit| (u.first..u.first + u.pages).contains(&page);
        if listed {
            let at = self.naive.listed.iter().position(holds).unwrap();
            let unit = &mut self.naive.listed[at];
            if unit.marked && !unit.active {
                let unit = self.naive.listed.remove(at);
                self.naive.listed.push(Unit { active: true, marked: false, ..unit });
            } else {
                unit.marked = true;
            }
            return;
        }
        let elsewhere = self.naive.isolated.iter_mut().map(|(unit, _)| unit);
        if let Some(unit) = elsewhere.chain(&mut self.naive.moving).find(|u| holds(u)) {
            unit.marked = true;
        }
    }

    fn isolate(&mut self, slow: bool, active: bool, pages: u64) {
        let (tier, list) =
            (TierId(u8::from(slow)), if active { List::Active } else { List::Inactive });
        let mut plan = Plan::default();
        let taken = self.lru.isolate(tier, list, pages, Lane::SCAN, &mut plan);
        let mut expected = Vec::new();
        let mut sum = 0;
        while sum < pages {
            let here = |u: &Unit| u.tier == tier.0 && u.active == active;
            let Some(at) = self.naive.listed.iter().position(here) else { break };
            let unit = self.naive.listed.remove(at);
            sum += u64::from(unit.pages);
            expected.push(unit);
        }
        assert_eq!(taken, sum);
        let mut asked: Vec<u32> = Vec::new();
        for action in plan.iter() {
            let Action::Scan { scan, .. } = *action else { panic!("{action:?}") };
            assert!(scan.clear);
            let step = if scan.level == Level::Huge { HUGE_PAGES } else { 1 };
            asked.extend(scan.run.iter().step_by(step as usize).map(|p| p.0));
        }
        let mut firsts: Vec<u32> = expected.iter().map(|u| u.first).collect();
        self.naive.isolated.extend(expected.into_iter().map(|unit| (unit, None)));
        firsts.sort_unstable();
        assert_eq!(asked, firsts, "each unit is asked for once");
        self.scanned += sum;
    }

    /// What the kernel reads in a block of 64 pages.
    fn answer(&mut self, block: u32, bits: u64) {
        let run = PageRun { start: PageId(block * 64), pages: 64 };
        self.event(Event::AccessBits(AccessBits { run, accessed: bits, level: Level::Base }));
        for (unit, answer) in &mut self.naive.isolated {
            let unit = PageRun { start: PageId(unit.first), pages: unit.pages };
            let common = unit.intersect(run);
            if common.pages > 0 {
                let set = common.iter().any(|p| bits >> (p.0 - run.start.0) & 1 != 0);
                *answer = Some(answer.unwrap_or(false) | set);
            }
        }
    }

    /// Treats all answers by the kernel's rule; what it would reclaim departs.
    fn settle(&mut self, tier: TierId) {
        while let Some(answer) = self.lru.next_answered(tier) {
            let first = self.naive.isolated.iter().position(|(u, _)| u.tier == tier.0).unwrap();
            let (unit, accessed) = self.naive.isolated.remove(first);
            self.answered += 1;
            let list = if unit.active { List::Active } else { List::Inactive };
            assert_eq!((answer.unit.start.0, answer.unit.pages), (unit.first, unit.pages));
            assert_eq!((answer.tier.0, answer.list), (unit.tier, list));
            assert_eq!(Some(answer.accessed), accessed);
            let verdict = self.lru.check(answer.unit.start, answer.accessed);
            self.verdicts[verdict as usize] += 1;
            let expected = match (answer.accessed, unit.marked) {
                (true, true) => Verdict::Activate,
                (true, false) => Verdict::Keep,
                (false, _) => Verdict::Reclaim,
            };
            assert_eq!(verdict, expected);
            let marked = verdict == Verdict::Keep;
            match verdict {
                Verdict::Activate => {
                    self.lru.file(answer.unit.start, List::Active);
                    self.naive.listed.push(Unit { active: true, marked, ..unit });
                }
                Verdict::Keep => {
                    self.lru.file(answer.unit.start, List::Inactive);
                    self.naive.listed.push(Unit { active: false, marked, ..unit });
                }
                Verdict::Reclaim => {
                    self.lru.depart(answer.unit.start);
                    self.naive.moving.push(Unit { marked, ..unit });
                }
            }
        }
        let first = self.naive.isolated.iter().find(|(unit, _)| unit.tier == tier.0);
        assert!(first.is_none_or(|(_, answer)| answer.is_none()));
    }

    fn land(&mut self, move_them: bool) {
        let moving = core::mem::take(&mut self.naive.moving);
        for unit in moving {
            let tier = if move_them { 1 - unit.tier } else { unit.tier };
            let run = PageRun { start: PageId(unit.first), pages: unit.pages };
            run.iter().for_each(|page| self.placement.put(page, Some(TierId(tier))));
            self.naive.listed.push(Unit { tier, ..unit });
        }
        assert_eq!(self.lru.land(TierId::FAST, &self.placement.view()), 0);
    }

    fn remap(&mut self, page: u32, pages: u32, to: u32) {
        let end = REGIONS * HUGE_PAGES;
        let pages = pages.min(end - page).min(end - to);
        let from = PageRun { start: PageId(page), pages };
        let target = PageRun { start: PageId(to), pages };
        if from.intersect(target).pages > 0 {
            return;
        }
        let old: Vec<PageState> = from.iter().map(|p| self.placement.view().state(p)).collect();
        for page in from.iter().chain(target.iter()) {
            self.placement.put(page, None);
        }
        for (page, state) in target.iter().zip(&old) {
            self.placement.put(page, state.tier());
        }
        self.event(Event::Remapped { from, to: PageId(to) });
        // What is left of folios at the edges, then what was moved, becomes the newest.
        let aligned = from.start.offset() == to % HUGE_PAGES;
        for edge in [from.start, PageId(from.end() - 1)] {
            let folio = edge.region().run();
            if from.intersect(folio) != folio {
                self.split_naive(folio);
            }
        }
        if !aligned {
            for region in from.start.region().0..from.end().div_ceil(HUGE_PAGES) {
                self.split_naive(Region(region).run());
            }
        }
        let moved: Vec<Unit> = from.iter().filter_map(|p| self.naive.take(p.0)).collect();
        self.naive.forget(target);
        let shift = |unit: Unit| Unit { first: unit.first - page + to, ..unit };
        self.naive.listed.extend(moved.into_iter().map(shift));
    }

    fn split_naive(&mut self, folio: PageRun) {
        let whole = |u: &Unit| u.first == folio.start.0 && u.pages == HUGE_PAGES;
        let all = self.naive.isolated.iter().map(|(u, _)| u);
        if !all.chain(&self.naive.listed).chain(&self.naive.moving).any(whole) {
            return;
        }
        let unit = self.naive.take(folio.start.0).unwrap();
        self.naive.listed.extend(folio.iter().map(|p| Unit { first: p.0, pages: 1, ..unit }));
    }

    fn check(&self) {
        for tier in [TierId::FAST, SLOW] {
            for (list, active) in [(List::Inactive, false), (List::Active, true)] {
                assert_eq!(self.lru.pages(tier, list), self.naive.pages(tier.0, active));
                let mut order = Vec::new();
                let mut at = self.lru.lists[tier.index()][list as usize].oldest;
                while at != NONE {
                    let node = self.lru.nodes[at as usize];
                    order.push((at, node.is(flag::REFERENCED)));
                    at = node.newer;
                }
                assert_eq!(order, self.naive.order(tier.0, active), "{tier:?} {list:?}");
            }
        }
        let isolated = self.lru.isolated(TierId::FAST) + self.lru.isolated(SLOW);
        assert_eq!(isolated, self.naive.isolated.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn the_lists_are_what_vectors_would_be(steps in proptest::collection::vec(step(), 1..80)) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
            world.check();
        }
    }
}

#[test]
fn the_random_steps_exercise_every_rule() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut scanned, mut answered, mut verdicts) = (0, 0, [0; 3]);
    for _ in 0..60 {
        let steps = proptest::collection::vec(step(), 200..300);
        let steps = steps.new_tree(&mut runner).expect("no filter").current();
        let mut world = World::new();
        steps.iter().for_each(|step| world.step(step));
        scanned += world.scanned;
        answered += world.answered;
        (0..3).for_each(|i| verdicts[i] += world.verdicts[i]);
    }
    assert!(scanned > 0 && answered > 0 && verdicts.iter().all(|n| *n > 0), "{verdicts:?}");
}

#[test]
fn the_inactive_list_is_low_by_the_square_root_of_the_size() {
    let mut world = World::new();
    world.step(&Step::Populate { page: 0, huge: true, slow: false });
    world.step(&Step::Populate { page: 512, huge: true, slow: false });
    world.step(&Step::File(0, true));
    assert!(!world.lru.inactive_is_low(TierId::FAST, 1.0), "as many inactive as active");
    world.step(&Step::Populate { page: 1024, huge: true, slow: false });
    world.step(&Step::File(1024, true));
    assert!(world.lru.inactive_is_low(TierId::FAST, 1.0), "below 1 GiB the ratio is 1");
    assert!(!world.lru.inactive_is_low(TierId::FAST, 200.0), "1.2 GiB: 3 times as many active");
    assert!(!world.lru.inactive_is_low(TierId::FAST, f64::MAX), "the ratio is as large as can be");
}
