//! The scanner of slow memory: blocks of pages in turn, and a state for each page (section 5.2).

use crate::action::{Action, Lane, Plan, Scan};
use crate::budget::Budget;
use crate::event::{AccessBits, Level};
use crate::placement::{PageState, View};
use crate::policy::runs::{Room, Runs};
use crate::types::*;
use alloc::vec::Vec;

/// A thread of its own.
const LANE: Lane = Lane(3);

/// State of pages in slow memory that no scan has raised; 0 is as cold, of a page that was never scanned.
const COLD: u8 = 1;

/// What is known of pages outside the fastest tier.
#[derive(Clone, Debug)]
pub(super) struct Remote {
    /// Pages of a block, and the time from one to the next.
    batch: u64,
    period: Nanos,
    /// State of pages that are hot.
    hottest: u8,
    next: Nanos,
    cursor: u32,
    states: Vec<u8>,
    /// Pages found hot, to be armed.
    hot: Vec<PageId>,
    pub(super) blocks: u64,
    pub(super) passes: u64,
    pub(super) raised: u64,
    pub(super) lowered: u64,
    pub(super) armed: u64,
    pub(super) moved: u64,
}

impl Remote {
    /// A page that as many scans as `scans`, 1 to 254, have raised is hot.
    pub(super) fn new(batch: PageCount, period: Nanos, scans: u64, hint: PageCount) -> Self {
        Self {
            batch: batch.0.max(1),
            period: Nanos(period.0.max(1)),
            hottest: COLD + scans.clamp(1, 254) as u8,
            next: Nanos(period.0.max(1)),
            cursor: 0,
            states: Vec::with_capacity(usize::try_from(hint.0).unwrap_or(0)),
            hot: Vec::new(),
            blocks: 0,
            passes: 0,
            raised: 0,
            lowered: 0,
            armed: 0,
            moved: 0,
        }
    }

    /// When there is something to do.
    pub(super) fn next_wakeup(&self) -> Nanos {
        if self.hot.is_empty() { self.next } else { Nanos::ZERO }
    }

    /// Whether the last scans found the page accessed.
    pub(super) fn is_hot(&self, page: PageId) -> bool {
        self.states.get(page.index()) == Some(&self.hottest)
    }

    /// Forgets what was known of pages: they have gone, or have moved.
    pub(super) fn forget(&mut self, run: PageRun) {
        let end = run.range().end.min(self.states.len());
        let start = run.range().start.min(end);
        self.states[start..end].fill(0);
    }

    pub(super) fn remap(&mut self, from: PageRun, to: PageId) {
        let target = PageRun { start: to, pages: from.pages };
        self.grow(target.end().max(from.end()));
        let states: Vec<u8> = self.states[from.range()].to_vec();
        self.states[from.range()].fill(0);
        self.states[target.range()].copy_from_slice(&states);
    }

    /// Takes in what a scan has read. Pages of the fastest tier are somebody else's, and one that is
    /// armed cannot be accessed: it stays as hot as it was.
    pub(super) fn learn(&mut self, bits: &AccessBits, view: &View<'_>) {
        if bits.level != Level::Base {
            return;
        }
        self.grow(bits.run.end());
        for (page, accessed) in bits.units() {
            if !is_slow(view.state(page)) || view.state(page).is_armed() {
                continue;
            }
            let state = &mut self.states[page.index()];
            let before = (*state).max(COLD);
            if accessed {
                *state = self.hottest.min(before.saturating_add(1));
                self.raised += u64::from(*state > before);
                if *state == self.hottest {
                    self.hot.push(page);
                }
            } else {
                *state = COLD.max(before - 1);
                self.lowered += u64::from(*state < before);
            }
        }
    }

    /// Arms what was found hot, and has the next block scanned where its time has come.
    pub(super) fn run(&mut self, now: Nanos, view: &View<'_>, plan: &mut Plan) {
        self.arm(view, plan);
        if now >= self.next {
            self.next = now.saturating_add(self.period);
            self.scan_block(view, plan);
        }
    }

    /// Proposes what was found hot for the fastest tier, in place of arming it; gives the pages that
    /// found no room: they are found again by later scans.
    pub(super) fn move_hot(
        &mut self,
        view: &View<'_>,
        budget: &mut Budget,
        plan: &mut Plan,
    ) -> u64 {
        let mut room = Room::of(view, TierId::FAST, budget);
        let mut refused = 0;
        let mut runs = Runs::new(TierId::FAST, Lane::PROMOTE);
        self.hot.sort_unstable();
        let mut next = 0;
        for page in self.hot.drain(..) {
            let (state, unit) = (view.state(page), view.unit(page));
            if !is_slow(state) || state.is_in_flight() || page.0 < next {
                continue;
            }
            next = unit.end();
            if !room.take(unit.pages) {
                refused += u64::from(unit.pages);
                continue;
            }
            // It was hot there; where it comes back, that has to be found anew.
            self.states[unit.range()].fill(0);
            runs.push(unit, plan);
        }
        self.moved += runs.finish(plan);
        refused
    }

    /// Nothing is armed any more.
    pub(super) fn pause(&mut self) {
        self.hot.clear();
    }

    fn arm(&mut self, view: &View<'_>, plan: &mut Plan) {
        let mut open = PageRun { start: PageId(0), pages: 0 };
        for page in self.hot.drain(..) {
            let state = view.state(page);
            if !is_slow(state) || state.is_armed() || state.is_in_flight() {
                continue;
            }
            self.armed += 1;
            if open.pages > 0 && open.end() == page.0 {
                open.pages += 1;
                continue;
            }
            propose_arm(open, plan);
            open = PageRun::single(page);
        }
        propose_arm(open, plan);
    }

    /// Has the next slow pages scanned, no page twice. Those between them are passed over, which
    /// takes time where there are few: not at all where there are none.
    fn scan_block(&mut self, view: &View<'_>, plan: &mut Plan) {
        self.blocks += 1;
        let slow = view.resident().saturating_sub(view.used(TierId::FAST)).0;
        let mut open = PageRun { start: PageId(0), pages: 0 };
        for _ in 0..self.batch.min(slow) {
            let rest = PageRun::between(self.cursor.min(view.pages()), view.pages());
            let Some(page) = view.first_slow(rest).or_else(|| {
                self.passes += 1;
                view.first_slow(PageRun::between(0, view.pages()))
            }) else {
                break;
            };
            self.cursor = page.0 + 1;
            if open.pages > 0 && open.end() == page.0 {
                open.pages += 1;
            } else {
                propose_scan(open, plan);
                open = PageRun::single(page);
            }
        }
        propose_scan(open, plan);
    }

    fn grow(&mut self, pages: u32) {
        if self.states.len() < pages as usize {
            self.states.resize((pages as usize).next_multiple_of(HUGE_PAGES as usize), 0);
        }
    }

    pub(super) fn bytes(&self) -> Bytes {
        let hot = self.hot.capacity() * size_of::<PageId>();
        Bytes((self.states.capacity() + hot) as u64)
    }
}

fn is_slow(state: PageState) -> bool {
    state.tier().is_some_and(|tier| tier != TierId::FAST)
}

fn propose_arm(run: PageRun, plan: &mut Plan) {
    if run.pages > 0 {
        plan.push(Action::Arm { run, lane: LANE });
    }
}

fn propose_scan(run: PageRun, plan: &mut Plan) {
    if run.pages > 0 {
        let scan = Scan { run, clear: true, level: Level::Base, skip_untouched: true };
        plan.push(Action::Scan { scan, lane: LANE });
    }
}
