//! Hint faults: parts of memory are armed in turn, and how long it takes until a page is touched
//! tells how hot it is.
//!
//! Source: `kernel/sched/fair.c` (`task_numa_work`, `should_numa_migrate_memory`,
//! `numa_promotion_adjust_threshold`), Linux 6; how often is in [`super::scan_period`]. Not modelled:
//! that the kernel arms pages in the program's own time (at most 3 % of it; here a worker does),
//! scans apart for every process, and ends a scan's stretch where a mapping ends.

use super::scan_period::{Counts, Ending, FaultReport, Pace, ScanPeriod};
use crate::action::{Action, Lane, Plan};
use crate::event::Fault;
use crate::placement::{PageState, View};
use crate::policy::contract::MetricSink;
use crate::policy::offer::Offer;
use crate::types::*;
use alloc::vec::Vec;

/// Memory that is passed over in one scan, in scans' sizes, where nothing can be armed.
const PASSED_OVER: u64 = 8;

/// Which pages are armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arms {
    /// Those outside the fastest tier.
    Slow,
    /// All.
    Everything,
}

/// Arms memory in turn, and remembers when.
#[derive(Clone, Debug)]
pub struct HintScan {
    arms: Arms,
    /// Pages in one scan.
    size: u64,
    period: ScanPeriod,
    cursor: u32,
    /// Pages that the last scan took beyond its size: a folio is armed whole, and the next ones
    /// wait for it.
    owed: u64,
    /// When a unit was armed last, in microseconds that wrap; at its first page.
    armed_at: Vec<u32>,
    /// Who was the last to fault in a unit, 0 for nobody; at its first page. Empty where that
    /// does not matter.
    last: Vec<u8>,
    remembers: bool,
    scans: u64,
    armed_pages: u64,
}

impl HintScan {
    /// Begins after twice the pace's delay.
    pub fn new(arms: Arms, counts: Counts, pace: Pace, context: &Offer) -> Self {
        let pages = usize::try_from(context.table_pages().0).unwrap_or(0);
        let remembers = counts == Counts::All;
        Self {
            arms,
            size: pace.size,
            period: ScanPeriod::new(pace, counts, context.scale),
            cursor: 0,
            owed: 0,
            armed_at: Vec::with_capacity(pages),
            last: Vec::with_capacity(if remembers { pages } else { 0 }),
            remembers,
            scans: 0,
            armed_pages: 0,
        }
    }

    /// When the next scan is due.
    pub fn next(&self) -> Nanos {
        self.period.due()
    }

    /// Reports scans, passes through all memory that have ended, pages armed, and the period.
    pub fn metrics(&self, sink: &mut MetricSink<'_>) {
        sink("hint_scans_total", self.scans as f64);
        sink("armed_pages_total", self.armed_pages as f64);
        self.period.metrics(sink);
    }

    /// Nobody has faulted in a unit that begins here.
    pub fn fresh(&mut self, first: PageId) {
        if let Some(last) = self.last.get_mut(first.index()) {
            *last = 0;
        }
    }

    /// Takes note of what a fault of an armed page led to.
    pub fn fault(&mut self, now: Nanos, fault: &Fault, ending: Ending, view: &View<'_>) {
        let unit = view.unit(fault.page);
        let thread = 1 + (fault.thread % u32::from(u8::MAX)) as u8;
        let known = if self.remembers { view.pages() as usize } else { 0 };
        self.last.resize(self.last.len().max(known), 0);
        let before = self.last.get_mut(unit.start.index());
        let before = before.map_or(0, |last| core::mem::replace(last, thread));
        let told = FaultReport {
            pages: u64::from(unit.pages),
            local: fault.tier == TierId::FAST,
            private: before == 0 || before == thread,
            ending,
        };
        self.period.fault(now, told, view.resident());
    }

    /// Scans where the time has come. `note` is told of every unit that is armed or still is.
    pub fn run(
        &mut self,
        now: Nanos,
        view: &View<'_>,
        plan: &mut Plan,
        note: &mut dyn FnMut(PageRun),
    ) {
        if now < self.next() || !self.period.start(now, view.resident()) {
            return;
        }
        self.scans += 1;
        let known = view.pages();
        self.armed_at.resize(self.armed_at.len().max(known as usize), 0);
        let mut looked = 0;
        let (mut size, mut passed) = (self.size.saturating_sub(self.owed), PASSED_OVER * self.size);
        self.owed = self.owed.saturating_sub(self.size);
        let mut open = PageRun { start: PageId(self.cursor), pages: 0 };
        while size > 0 && passed > 0 && self.cursor < known {
            // A stretch in which anything is armed counts as a whole.
            let stretch = size.min(u64::from(known - self.cursor));
            let (mut seen, mut armed) = (0, 0);
            while seen < stretch {
                let page = PageId(self.cursor);
                let huge = view.state(page).is_huge();
                let first = if huge { page.region().first() } else { page };
                let rest = u64::from(page.region().run().end() - first.0);
                let pages = if huge { rest } else { rest.min(stretch - seen) };
                let part = PageRun { start: first, pages: pages as u32 };
                armed += self.arm(now, part, view, &mut open, plan, note);
                looked += self.resident(part, view);
                seen += pages;
                self.cursor = part.end();
            }
            if armed > 0 {
                self.owed += seen.saturating_sub(size);
                size = size.saturating_sub(seen);
            }
            passed = passed.saturating_sub(seen);
        }
        propose(open, plan);
        self.period.took(looked);
        if self.cursor >= known {
            self.cursor = 0;
            if known > 0 {
                self.period.passed();
            }
        }
    }

    /// Entries of page tables that a part has.
    fn resident(&self, part: PageRun, view: &View<'_>) -> u64 {
        if view.state(part.start).is_huge() {
            return 1;
        }
        let states = &view.states()[part.range()];
        states.iter().filter(|state| PageState(**state).is_resident()).count() as u64
    }

    /// Arms what can be armed of a part of a region; gives the pages.
    fn arm(
        &mut self,
        now: Nanos,
        part: PageRun,
        view: &View<'_>,
        open: &mut PageRun,
        plan: &mut Plan,
        note: &mut dyn FnMut(PageRun),
    ) -> u64 {
        let huge = view.state(part.start).is_huge();
        let unit_pages = if huge { HUGE_PAGES } else { 1 };
        let states = &view.states()[part.range()];
        let mut armed = 0;
        for (i, state) in states.iter().enumerate().step_by(unit_pages as usize) {
            let state = PageState(*state);
            let slow = state.tier().is_some_and(|tier| tier != TierId::FAST);
            let wanted = state.is_resident() && (slow || self.arms == Arms::Everything);
            if !wanted || state.is_in_flight() {
                continue;
            }
            let unit = PageRun { start: PageId(part.start.0 + i as u32), pages: unit_pages };
            note(unit);
            if state.is_armed() {
                continue;
            }
            self.armed_at[unit.start.index()] = micros(now);
            armed += u64::from(unit.pages);
            if open.end() == unit.start.0 {
                open.pages += unit.pages;
            } else {
                propose(*open, plan);
                *open = unit;
            }
        }
        self.armed_pages += armed;
        armed
    }

    /// Time since the unit that holds a page was armed, to the microsecond.
    pub fn latency(&self, now: Nanos, page: PageId, view: &View<'_>) -> Nanos {
        let first = view.unit(page).start;
        let armed = self.armed_at.get(first.index()).copied().unwrap_or(0);
        Nanos(u64::from(micros(now).wrapping_sub(armed)) * 1000)
    }

    /// Memory held.
    pub fn bytes(&self) -> Bytes {
        Bytes((self.armed_at.capacity() * size_of::<u32>() + self.last.capacity()) as u64)
    }
}

fn micros(now: Nanos) -> u32 {
    (now.0 / 1000) as u32
}

fn propose(run: PageRun, plan: &mut Plan) {
    if run.pages > 0 {
        plan.push(Action::Arm { run, lane: Lane::SCAN });
    }
}

/// What became of a page whose latency is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hotness {
    /// To be promoted.
    Hot,
    /// Touched too late.
    Cold,
    /// Hot, but enough was promoted in this second.
    Limited,
}

/// The latency below which a page is hot: lowered where more pages were hot than may be promoted,
/// raised where fewer were.
#[derive(Clone, Debug)]
pub struct Threshold {
    /// What it begins with, and half of what it may become.
    initial: Nanos,
    current: Nanos,
    /// Interval of its changes, and when the one under way began.
    interval: Nanos,
    interval_began: Nanos,
    /// Pages promoted per window, at most.
    limit: u64,
    window: Nanos,
    window_began: Nanos,
    candidates: u64,
    candidates_in_interval: u64,
    candidates_in_window: u64,
    lowered: u64,
    raised: u64,
    resets: u64,
}

/// Parts of the initial threshold by which it changes: 8, twice that to the largest one
/// (`NUMA_MIGRATION_ADJUST_STEPS`).
const STEPS: u64 = 8;

impl Threshold {
    /// `initial` until the first `interval` has passed; at most `limit` pages per `window`.
    pub fn new(initial: Nanos, interval: Nanos, limit: u64, window: Nanos) -> Self {
        Self {
            initial,
            current: initial,
            interval,
            interval_began: Nanos::ZERO,
            limit: limit.max(1),
            window: Nanos(window.0.max(1)),
            window_began: Nanos::ZERO,
            candidates: 0,
            candidates_in_interval: 0,
            candidates_in_window: 0,
            lowered: 0,
            raised: 0,
            resets: 0,
        }
    }

    /// The threshold now.
    pub fn current(&self) -> Nanos {
        self.current
    }

    /// Pages that were hot, how often it was lowered and raised, and set back.
    pub fn totals(&self) -> [u64; 4] {
        [self.candidates, self.lowered, self.raised, self.resets]
    }

    /// There is ample room: everything is hot, and the threshold is set back.
    pub fn reset(&mut self) {
        self.resets += u64::from(self.current != self.initial);
        self.current = self.initial;
    }

    /// Judges `pages` pages that were touched `latency` after they were armed; `factor` raises the
    /// threshold for them.
    pub fn judge(&mut self, now: Nanos, latency: Nanos, pages: u64, factor: f64) -> Hotness {
        self.adjust(now);
        if latency.0 as f64 >= self.current.0 as f64 * factor {
            return Hotness::Cold;
        }
        if now.saturating_sub(self.window_began) > self.window {
            (self.window_began, self.candidates_in_window) = (now, 0);
        }
        let limited = self.candidates_in_window + pages > self.limit.max(pages);
        self.candidates += pages;
        self.candidates_in_interval += pages;
        self.candidates_in_window += pages;
        if limited { Hotness::Limited } else { Hotness::Hot }
    }

    fn adjust(&mut self, now: Nanos) {
        if now.saturating_sub(self.interval_began) <= self.interval {
            return;
        }
        let allowed = self.limit as f64 * self.interval.0 as f64 / self.window.0 as f64;
        let step = Nanos((self.initial.0 / STEPS).max(1));
        let hot = self.candidates_in_interval as f64;
        if hot > allowed * 1.1 {
            self.current = Nanos(self.current.saturating_sub(step).0.max(step.0));
            self.lowered += 1;
        } else if hot < allowed * 0.9 {
            self.current = self.current.saturating_add(step).min(Nanos(2 * self.initial.0));
            self.raised += 1;
        }
        (self.interval_began, self.candidates_in_interval) = (now, 0);
    }
}
