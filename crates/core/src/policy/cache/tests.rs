//! Both algorithms against slow ones, and what is moved by them.

use crate::event::{Event, MoveCause};
use crate::policy::testing::World;
use crate::types::*;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use proptest::prelude::*;

const SLOW: TierId = TierId(1);

fn world(fast: u64, spec: &str) -> World {
    let mut w = World::new(fast, spec);
    w.populate(PageRun::between(0, 64), false);
    w
}

fn cached(w: &World) -> Vec<u32> {
    (0..64).filter(|p| w.tier(*p) == Some(TierId::FAST)).collect()
}

/// ARC as its authors print it, figure 4; front is the older end.
#[derive(Default)]
struct NaiveArc {
    lists: [VecDeque<u32>; 4],
    p: usize,
}

impl NaiveArc {
    fn replace(&mut self, c: usize, in_b2: bool) {
        let [t1, t2, b1, b2] = &mut self.lists;
        if t1.len() + t2.len() < c {
            return;
        }
        if !t1.is_empty() && (in_b2 && t1.len() == self.p || t1.len() > self.p) || t2.is_empty() {
            b1.push_back(t1.pop_front().unwrap());
        } else {
            b2.push_back(t2.pop_front().unwrap());
        }
    }

    fn reference(&mut self, x: u32, c: usize) {
        let found = self.lists.iter().position(|list| list.contains(&x));
        let [_, _, b1, b2] = self.lists.each_ref().map(VecDeque::len);
        match found {
            Some(2) => {
                self.p = (self.p + (b2 / b1.max(1)).max(1)).min(c);
                self.replace(c, false);
            }
            Some(3) => {
                self.p = self.p.saturating_sub((b1 / b2.max(1)).max(1));
                self.replace(c, true);
            }
            Some(_) => {}
            None => {
                let [t1, _, b1, _] = self.lists.each_ref().map(VecDeque::len);
                if t1 + b1 == c {
                    if t1 < c {
                        self.lists[2].pop_front();
                        self.replace(c, false);
                    } else {
                        self.lists[0].pop_front();
                    }
                } else {
                    let all: usize = self.lists.iter().map(VecDeque::len).sum();
                    if all >= c {
                        if all == 2 * c {
                            self.lists[3].pop_front();
                        }
                        self.replace(c, false);
                    }
                }
                self.lists[0].push_back(x);
                return;
            }
        }
        self.lists.iter_mut().for_each(|list| list.retain(|y| *y != x));
        self.lists[1].push_back(x);
    }
}

/// 2Q as its authors print it; front is the older end.
struct NaiveTwoQ {
    lists: [VecDeque<u32>; 3],
    kin: usize,
    kout: usize,
}

impl NaiveTwoQ {
    fn reclaim(&mut self, c: usize) {
        let [a1in, am, a1out] = &mut self.lists;
        if a1in.len() + am.len() < c {
            return;
        }
        if a1in.len() > self.kin || am.is_empty() {
            a1out.push_back(a1in.pop_front().unwrap());
            if a1out.len() > self.kout {
                a1out.pop_front();
            }
        } else {
            am.pop_front();
        }
    }

    fn reference(&mut self, x: u32, c: usize) {
        match self.lists.iter().position(|list| list.contains(&x)) {
            Some(0) => {}
            Some(1) => {
                self.lists[1].retain(|y| *y != x);
                self.lists[1].push_back(x);
            }
            Some(_) => {
                self.lists[2].retain(|y| *y != x);
                self.reclaim(c);
                self.lists[1].push_back(x);
            }
            None => {
                self.reclaim(c);
                self.lists[0].push_back(x);
            }
        }
    }
}

fn lengths(w: &World) -> [usize; 4] {
    let list = |name: &str| w.metric(&alloc::format!("list_{name}_pages")) as usize;
    ["first", "second", "first_ghosts", "second_ghosts"].map(list)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn arc_caches_what_the_printed_algorithm_does(
        references in proptest::collection::vec(0..40u32, 1..200),
        fast in 1u64..16,
    ) {
        let mut w = world(fast, "arc:wakeup=1ns");
        let mut naive = NaiveArc::default();
        for page in references {
            w.sample([page], 1);
            naive.reference(page, fast as usize);
            prop_assert_eq!(lengths(&w), naive.lists.each_ref().map(VecDeque::len));
            prop_assert_eq!(w.metric("target_of_first_list_pages"), naive.p as f64);
        }
        (0..4).for_each(|_| w.wake());
        let mut expected: Vec<u32> = naive.lists[..2].iter().flatten().copied().collect();
        expected.sort_unstable();
        prop_assert_eq!(cached(&w), expected);
    }

    #[test]
    fn twoq_caches_what_the_printed_algorithm_does(
        references in proptest::collection::vec(0..40u32, 1..200),
        fast in 1u64..16,
    ) {
        let mut w = world(fast, "twoq:wakeup=1ns");
        let (kin, kout) = (fast as usize / 4, fast as usize / 2);
        let mut naive = NaiveTwoQ { lists: Default::default(), kin, kout };
        for page in references {
            w.sample([page], 1);
            naive.reference(page, fast as usize);
            let [a1in, am, a1out] = naive.lists.each_ref().map(VecDeque::len);
            prop_assert_eq!(lengths(&w), [a1in, am, a1out, 0]);
        }
        (0..4).for_each(|_| w.wake());
        let mut expected: Vec<u32> = naive.lists[..2].iter().flatten().copied().collect();
        expected.sort_unstable();
        prop_assert_eq!(cached(&w), expected);
    }
}

#[test]
fn memory_begins_slow_and_a_miss_is_promoted() {
    for spec in ["arc", "twoq"] {
        let mut w = world(8, spec);
        assert_eq!((0..64).filter(|p| w.tier(*p) == Some(SLOW)).count(), 64);
        w.sample([3, 5], 1);
        assert_eq!(cached(&w), [], "at the next wakeup");
        assert_eq!(w.moves(), [(3, 0), (5, 0)], "{spec}");
        w.sample([900], 1);
        assert_eq!(w.metric("samples_unknown_page_total"), 1.0);
        assert_eq!(w.metric("references_missed_total"), 2.0);
    }
}

#[test]
fn arc_demotes_the_victim_and_not_the_page_that_comes_in() {
    let mut w = world(4, "arc");
    w.sample([0, 1, 2, 3], 2);
    assert_eq!(w.moves().len(), 4);
    w.sample([9], 1);
    let mut moves = w.moves();
    moves.extend(w.moves());
    assert_eq!(moves, [(0, 1), (9, 0)]);
    assert_eq!(w.metric("list_second_ghosts_pages"), 1.0);
    // A ghost comes back: the list of those that were sampled once gets less.
    w.sample([0], 1);
    assert_eq!(w.metric("references_in_second_ghosts_total"), 1.0);
    assert_eq!(w.metric("target_shrunk_total"), 1.0);
}

#[test]
fn arc_gives_newcomers_more_where_their_ghosts_come_back() {
    let mut w = world(4, "arc");
    w.sample([0, 1], 2);
    w.sample([2, 3, 4], 1);
    assert_eq!(w.metric("list_first_ghosts_pages"), 1.0, "2 was the oldest newcomer");
    w.sample([2], 1);
    assert_eq!(w.metric("references_in_first_ghosts_total"), 1.0);
    assert_eq!(
        (w.metric("target_grown_total"), w.metric("target_of_first_list_pages")),
        (1.0, 1.0)
    );
}

#[test]
fn twoq_lets_a_scan_pass_and_keeps_what_is_sampled_after_it() {
    let mut w = world(8, "twoq");
    // The queue is as long as the cache until something is in the main list.
    w.sample(0..12, 1);
    assert_eq!(w.metric("list_first_ghosts_pages"), 4.0);
    w.sample([0, 1, 2, 3], 1);
    assert_eq!(w.metric("references_in_first_ghosts_total"), 4.0);
    assert_eq!(w.metric("list_second_pages"), 4.0);
    w.sample(20..60, 1);
    (0..3).for_each(|_| w.wake());
    assert_eq!(&cached(&w)[..4], [0, 1, 2, 3], "40 others have passed");
    assert!(w.metric("evicted_newcomers_total") >= 40.0);
    // Full of others: the oldest of these leave.
    w.sample([56, 57, 58, 59, 52, 53, 54, 55], 1);
    assert!(w.metric("evicted_others_total") > 0.0);
}

#[test]
fn folios_are_entries_as_large_as_they_are() {
    let mut w = World::new(1024, "arc");
    w.populate(PageRun::between(0, 4 * HUGE_PAGES), true);
    w.sample([5, 600, 1300], 1);
    (0..2).for_each(|_| w.wake());
    assert_eq!([0, 512, 1024].map(|p| w.tier(p)), [Some(SLOW), Some(TierId(0)), Some(TierId(0))]);
    let mut w = World::new(100, "arc");
    w.populate(PageRun::between(0, HUGE_PAGES), true);
    w.sample([5], 3);
    assert_eq!(w.metric("samples_too_large_total"), 3.0);
}

#[test]
fn changes_of_memory_are_followed() {
    let mut w = World::new(1024, "twoq");
    w.populate(PageRun::between(0, 2 * HUGE_PAGES), true);
    w.populate(PageRun::between(1024, 1124), false);
    w.sample([5, 1030, 1031], 1);
    w.wake();
    assert_eq!(w.metric("list_first_pages"), 514.0);
    w.feed(&[Event::Remapped { from: PageRun::single(PageId(1030)), to: PageId(3000) }]);
    assert_eq!(w.metric("list_first_pages"), 514.0);
    w.feed(&[Event::Unmapped { run: PageRun::single(PageId(3000)) }]);
    assert_eq!(w.metric("list_first_pages"), 513.0);
    w.feed(&[Event::Freed { run: PageRun::between(0, 10) }]);
    assert_eq!(w.metric("list_first_pages"), 1.0, "a folio that lost a part is forgotten");
    w.wake();
    assert_eq!(w.tier(20), Some(SLOW), "and gives its room back");
    let cause = MoveCause::Unknown;
    w.feed(&[Event::Moved { run: PageRun::single(PageId(1031)), to: SLOW, cause }]);
    assert_eq!(w.moves().last(), Some(&(1031, 0)), "others moved it: it goes back");
}
