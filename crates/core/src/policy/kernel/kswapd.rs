//! The kernel's thread that makes room in a tier by demoting what its inactive list ends with.
//!
//! Woken, it takes batches out of the lists' older ends, has their access bits read, and demotes
//! what was not accessed, until so much is free as was asked for. A round looks at a share of the
//! lists, and ends before where it has demoted as many pages as shall be free. One that saw fewer or
//! demoted nothing lets the next one look at twice as much; where even the whole lists give nothing,
//! it rests. Pages of the active list become inactive where that list is short.
//!
//! A kernel reads access bits in microseconds. Where answers take longer than 10 ms, such as
//! seconds outside of one, 32 pages at a time would make room for 32 in that time, however many are
//! to come. There as much more is kept free, and looked at together, as has come in the time that an
//! answer takes ([`Kswapd::expect`]).
//!
//! Source: `mm/vmscan.c` (`balance_pgdat`, `kswapd_shrink_node`, `shrink_lruvec`,
//! `demote_folio_list`), Linux 6, which calls that many pages the zone's high watermark. Not
//! modelled: file pages apart from anonymous ones, memory groups, reclaim of the slowest tier.

use super::lru::{List, Lru, Verdict};
use crate::action::{Lane, Plan};
use crate::budget::Budget;
use crate::placement::View;
use crate::policy::contract::MetricSink;
use crate::policy::runs::{Room, Runs};
use crate::types::*;

/// Pages that are looked at once, at least (`SWAP_CLUSTER_MAX`).
const BATCH: u64 = 32;
/// The first round looks at a list's pages shifted right by this (`DEF_PRIORITY`).
const FIRST_PRIORITY: u32 = 12;
/// How long an answer about access bits is waited for. Nothing in a kernel can be that late; outside
/// of one, pages are looked at by turns of some seconds.
const TIMEOUT: Nanos = Nanos(30_000_000_000);
/// An answer that takes longer does not come from a kernel.
const LATE: Nanos = Nanos(10_000_000);
/// At most this part of the tier is kept free for what comes until then.
const MOST_AHEAD: u64 = 8;

/// What has happened, for reports and tests; units, unless it says otherwise.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    woken: u64,
    checked: u64,
    activated: u64,
    deactivated: u64,
    kept: u64,
    demoted: u64,
    rests: u64,
    unanswered: u64,
}

/// A look at a share of the lists.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// Pages of the active and the inactive list that are still to be looked at.
    left: [u64; 2],
    /// Pages that were taken out of the inactive list.
    scanned: u64,
    /// Pages that had been demoted before.
    before: u64,
}

/// The thread of the fastest tier.
#[derive(Clone, Debug)]
pub struct Kswapd {
    /// See [`Lru::inactive_is_low`].
    scale: f64,
    /// How long it rests where nothing can be demoted (`HZ / 10`).
    rest: Nanos,
    /// Pages that shall be free; 0 while it sleeps.
    target: u64,
    priority: u32,
    /// `None` before the first one.
    round: Option<Round>,
    resting_until: Nanos,
    /// When the last batch was taken out.
    asked: Nanos,
    /// It has not been answered.
    waits: bool,
    /// How long the last answer took.
    answer: Nanos,
    /// Pages that were to come since the last one was taken out.
    expected: u64,
    counters: Counters,
}

impl Kswapd {
    /// Asleep. `scale` is by how much the tier is smaller than what it stands for, `rest` how long
    /// it rests.
    pub fn new(scale: f64, rest: Nanos) -> Self {
        Self {
            scale,
            rest,
            target: 0,
            priority: FIRST_PRIORITY,
            round: None,
            resting_until: Nanos::ZERO,
            asked: Nanos::ZERO,
            waits: false,
            answer: Nanos::ZERO,
            expected: 0,
            counters: Counters::default(),
        }
    }

    /// Reports what has happened so far.
    pub fn metrics(&self, sink: &mut MetricSink<'_>) {
        let c = &self.counters;
        for (name, value) in [
            ("kswapd_woken_total", c.woken),
            ("kswapd_checked_total", c.checked),
            ("kswapd_activated_total", c.activated),
            ("kswapd_deactivated_total", c.deactivated),
            ("kswapd_kept_total", c.kept),
            ("kswapd_demoted_pages_total", c.demoted),
            ("kswapd_rests_total", c.rests),
            ("kswapd_unanswered_total", c.unanswered),
        ] {
            sink(name, value as f64);
        }
    }

    /// Asks for `free` pages to be free. A larger wish replaces a smaller one.
    pub fn wake(&mut self, free: u64) {
        self.counters.woken += u64::from(self.target == 0);
        self.target = self.target.max(free);
    }

    /// Notes pages that come into the tier, or find no room there.
    pub fn expect(&mut self, pages: u64) {
        self.expected += pages;
    }

    /// Pages that are to come until a question is answered; 0 where that takes no time.
    pub fn ahead(&self, now: Nanos, view: &View<'_>) -> u64 {
        if self.answer < LATE {
            return 0;
        }
        let passed = now.saturating_sub(self.asked).max(self.answer);
        let pages = self.expected as f64 * self.answer.0 as f64 / passed.0 as f64;
        (pages as u64).min(view.limits(TierId::FAST).capacity.0 / MOST_AHEAD)
    }

    /// When [`Self::run`] has something to do; `None` while it sleeps.
    pub fn next_wakeup(&self, lru: &Lru) -> Option<Nanos> {
        if lru.isolated(TierId::FAST) > 0 {
            let answered = lru.next_answered(TierId::FAST).is_some();
            Some(if answered { Nanos::ZERO } else { self.asked.saturating_add(TIMEOUT) })
        } else if self.target > 0 {
            Some(self.resting_until)
        } else {
            None
        }
    }

    /// Goes on: treats what is known of pages that were taken out, and takes out more. To be called
    /// in `decide`, after [`Lru::land`], which gives `leaving`.
    pub fn run(
        &mut self,
        now: Nanos,
        lru: &mut Lru,
        leaving: u64,
        view: &View<'_>,
        budget: &mut Budget,
        plan: &mut Plan,
    ) {
        let leaving = leaving + self.settle(lru, view, budget, plan);
        let departed = lru.departed(TierId::FAST) + leaving;
        if lru.isolated(TierId::FAST) > 0 {
            if now >= self.asked.saturating_add(TIMEOUT) {
                self.waits = false;
                self.counters.unanswered += lru.abandon(TierId::FAST) as u64;
            }
            return;
        }
        if core::mem::take(&mut self.waits) {
            self.answer = now.saturating_sub(self.asked);
        }
        if self.target == 0 || now < self.resting_until {
            return;
        }
        let ahead = self.ahead(now, view);
        let target = self.target + ahead;
        if let Some(round) = self.round
            && round.left != [0; 2]
            && departed < round.before + target
        {
            return self.take_out(now, round, ahead, lru, plan);
        }
        if view.free(TierId::FAST).0 + leaving >= target {
            (self.target, self.priority, self.round) = (0, FIRST_PRIORITY, None);
            return;
        }
        if let Some(round) = self.round
            && (round.scanned < target || departed <= round.before)
        {
            if self.priority > 0 {
                self.priority -= 1;
            } else {
                self.priority = FIRST_PRIORITY;
                if departed <= round.before {
                    self.counters.rests += 1;
                    self.resting_until = now.saturating_add(self.rest);
                    self.round = None;
                    return;
                }
            }
        }
        let share = |list| (lru.pages(TierId::FAST, list) >> self.priority).max(BATCH);
        let low = lru.inactive_is_low(TierId::FAST, self.scale);
        let left = [if low { share(List::Active) } else { 0 }, share(List::Inactive)];
        self.take_out(now, Round { left, scanned: 0, before: departed }, ahead, lru, plan);
    }

    /// The next batch of a round: `least` pages, where there are so many.
    fn take_out(
        &mut self,
        now: Nanos,
        mut round: Round,
        least: u64,
        lru: &mut Lru,
        plan: &mut Plan,
    ) {
        (self.asked, self.waits, self.expected) = (now, true, 0);
        for (list, left) in [List::Active, List::Inactive].into_iter().zip(&mut round.left) {
            let pages = if *left == 0 { 0 } else { (*left).min(BATCH).max(least) };
            let taken = lru.isolate(TierId::FAST, list, pages, Lane::SCAN, plan);
            *left = if taken == 0 { 0 } else { left.saturating_sub(taken) };
            round.scanned += if list == List::Inactive { taken } else { 0 };
        }
        self.round = Some(round);
    }

    /// Treats what is known of pages that were taken out; gives the pages proposed to leave.
    fn settle(
        &mut self,
        lru: &mut Lru,
        view: &View<'_>,
        budget: &mut Budget,
        plan: &mut Plan,
    ) -> u64 {
        let to = TierId::FAST.slower();
        let mut room = Room::of(view, to, budget);
        let mut leaving = 0;
        let mut runs = Runs::new(to, Lane::DEMOTE);
        while let Some(answer) = lru.next_answered(TierId::FAST) {
            let page = answer.unit.start;
            let pages = u64::from(answer.unit.pages);
            self.counters.checked += 1;
            if answer.list == List::Active {
                self.counters.deactivated += 1;
                lru.file(page, List::Inactive);
                continue;
            }
            match lru.check(page, answer.accessed) {
                Verdict::Activate => {
                    self.counters.activated += 1;
                    lru.file(page, List::Active);
                }
                Verdict::Reclaim if room.take(pages) => {
                    leaving += pages;
                    lru.depart(page);
                    runs.push(answer.unit, plan);
                }
                Verdict::Reclaim | Verdict::Keep => {
                    self.counters.kept += 1;
                    lru.file(page, List::Inactive);
                }
            }
        }
        self.counters.demoted += runs.finish(plan);
        leaving
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{AccessBits, Event, Level};
    use crate::policy::testing::World;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn what_comes_until_an_answer_is_provided_for_where_answers_take_long() {
        let mut world = World::new(1024, "first-touch");
        world.populate(PageRun::between(0, 1024), false);
        let view = world.engine.view();
        let mut lru = Lru::new(PageCount(1024));
        let run = PageRun::between(0, 1024);
        lru.observe(&Event::Populated { run, tier: TierId::FAST, huge: false }, &view);
        let mut kswapd = Kswapd::new(1.0, Nanos(1));
        kswapd.wake(64);
        // Asks, has everything answered after `answer`, in which 100 pages were to come, and asks
        // again. Gives the pages it asks for then.
        let mut ask = |now: u64, answer: u64, kswapd: &mut Kswapd| {
            for at in [now, now + answer] {
                let (mut plan, mut budget) = (Plan::default(), Budget { remaining: Bytes::MAX });
                kswapd.run(Nanos(at), &mut lru, 0, &view, &mut budget, &mut plan);
                let bits = AccessBits { run, accessed: u64::MAX, level: Level::Base };
                for start in (0..1024).step_by(64) {
                    let run = PageRun { start: PageId(start), pages: 64 };
                    lru.answer(&AccessBits { run, ..bits });
                }
                kswapd.expect(100);
            }
            lru.isolated(TierId::FAST)
        };
        assert_eq!(ask(SECOND, LATE.0 - 1, &mut kswapd), 32);
        assert_eq!(kswapd.ahead(Nanos(3 * SECOND), &view), 0);
        assert_eq!(ask(4 * SECOND, 2 * SECOND, &mut kswapd), 100);
        let at = |seconds: u64| kswapd.ahead(Nanos(seconds * SECOND), &view);
        assert_eq!([at(6), at(8), at(10)], [100, 100, 50], "as many as come in two seconds");
        kswapd.expect(1000);
        assert_eq!(kswapd.ahead(Nanos(8 * SECOND), &view), 128, "an eighth at most");
    }
}
