//! A world for tests of policies that read access bits and move pages in faults: it carries every
//! action out at once, and pages are touched when a test says so.

use crate::action::Action;
use crate::engine::{Engine, EngineConfig};
use crate::event::{AccessBits, Event, Fault, Level, MoveCause, MoveOutcome};
use crate::policy::contract::{Allocation, FaultDecision};
use crate::policy::offer::Offer;
use crate::policy::registry::make;
use crate::types::*;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// What a page is moved by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::policy) enum By {
    /// A worker.
    Worker,
    /// The program, in a fault.
    Fault,
}

pub(in crate::policy) struct World {
    pub(in crate::policy) engine: Engine,
    pub(in crate::policy) now: Nanos,
    /// What moves by workers end with.
    pub(in crate::policy) outcome: MoveOutcome,
    /// Moves in their order.
    pub(in crate::policy) moved: Vec<(PageRun, TierId, By)>,
    /// Faults of armed pages.
    pub(in crate::policy) faults: u64,
    /// Who accesses pages.
    pub(in crate::policy) thread: u32,
    /// Pages whose access bit is set.
    accessed: BTreeSet<u32>,
    /// Pages that are accessed all the time.
    pub(in crate::policy) busy: core::ops::Range<u32>,
    /// Pages whose access bit was read.
    pub(in crate::policy) checked: u64,
}

impl World {
    /// `fast` pages of fast memory, and plenty of slow.
    pub(in crate::policy) fn new(spec: &str, fast: u64) -> Self {
        let context = Offer { fast_pages: PageCount(fast), ..Offer::default() };
        let policy = make(spec, &context).unwrap();
        let config = EngineConfig::two_tiers(PageCount(fast), PageCount(1 << 20));
        Self {
            engine: Engine::new(config, policy).unwrap(),
            now: Nanos(1),
            outcome: MoveOutcome::Moved,
            moved: Vec::new(),
            faults: 0,
            thread: 0,
            accessed: BTreeSet::new(),
            busy: 0..0,
            checked: 0,
        }
    }

    /// First touches of base pages.
    pub(in crate::policy) fn populate(&mut self, pages: core::ops::Range<u32>) {
        for page in pages {
            let run = PageRun::single(PageId(page));
            let allocation =
                Allocation { run, huge: false, may_be_huge: false, process: ProcessId(0) };
            self.engine.populate(self.now, &allocation).unwrap();
        }
        self.feed(&[]);
    }

    pub(in crate::policy) fn populate_huge(&mut self, region: u32) {
        let run = Region(region).run();
        let allocation = Allocation { run, huge: true, may_be_huge: false, process: ProcessId(0) };
        self.engine.populate(self.now, &allocation).unwrap();
        self.feed(&[]);
    }

    /// Accesses pages: sets access bits, and faults where a page is armed.
    pub(in crate::policy) fn touch(&mut self, pages: impl IntoIterator<Item = u32>) {
        pages.into_iter().for_each(|page| self.access(page, false));
    }

    pub(in crate::policy) fn write(&mut self, page: u32) {
        self.access(page, true);
    }

    fn access(&mut self, page: u32, write: bool) {
        let id = PageId(page);
        let state = self.engine.view().state(id);
        let folio = state.is_huge();
        self.accessed.insert(if folio { id.region().first().0 } else { page });
        let Some(tier) = state.tier().filter(|_| state.is_armed()) else { return };
        self.faults += 1;
        let fault = Fault { page: id, tier, write, process: ProcessId(0), thread: self.thread };
        let decision = self.engine.on_fault(self.now, &fault);
        let mut events = Vec::from([Event::Fault(fault)]);
        let unit = |page: PageId| if folio { page.region().run() } else { PageRun::single(page) };
        let cause = MoveCause::FaultDecision;
        let mut moved = |run: PageRun, to: TierId, log: &mut Vec<_>| {
            log.push((run, to, By::Fault));
            events.push(Event::Moved { run, to, cause });
        };
        match decision {
            FaultDecision::MoveHere(to) => moved(unit(id), to, &mut self.moved),
            FaultDecision::Exchange(other) => {
                let there = self.engine.view().state(other).tier().unwrap();
                moved(unit(other), tier, &mut self.moved);
                moved(unit(id), there, &mut self.moved);
            }
            FaultDecision::Stay => {}
        }
        self.feed(&events);
    }

    pub(in crate::policy) fn feed(&mut self, events: &[Event]) {
        self.engine.handle_events(self.now, events);
        loop {
            let mut done = Vec::new();
            while let Some(action) = self.engine.poll_action() {
                self.carry_out(action, &mut done);
            }
            if done.is_empty() {
                break;
            }
            self.engine.handle_events(self.now, &done);
        }
    }

    fn carry_out(&mut self, action: Action, done: &mut Vec<Event>) {
        match action {
            Action::Migrate { id, run, to, .. } => {
                self.moved.push((run, to, By::Worker));
                done.push(Event::MigrationDone { id, run, outcome: self.outcome });
            }
            Action::Scan { scan, .. } => {
                let step = if scan.level == Level::Huge { HUGE_PAGES } else { 1 };
                for page in scan.run.iter().step_by(step as usize) {
                    let run = PageRun { start: page, pages: step };
                    let first = if self.engine.view().state(page).is_huge() {
                        page.region().first()
                    } else {
                        page
                    };
                    let set = if scan.level == Level::Huge {
                        self.accessed.range(run.start.0..run.end()).next().is_some()
                    } else {
                        self.accessed.contains(&first.0) || self.busy.contains(&page.0)
                    };
                    if scan.clear {
                        run.iter().for_each(|page| {
                            self.accessed.remove(&page.0);
                        });
                    }
                    self.checked += 1;
                    let accessed = u64::from(set);
                    done.push(Event::AccessBits(AccessBits { run, accessed, level: scan.level }));
                }
            }
            Action::Split { region, .. } => done.push(Event::SplitDone { region, split: true }),
            Action::Arm { .. } | Action::Disarm { .. } | Action::SetSampling { .. } => {}
            other => panic!("{other:?} is not for this world"),
        }
    }

    /// Lets time pass, and the policy do what is due meanwhile.
    pub(in crate::policy) fn pass(&mut self, span: Nanos) {
        let end = self.now + span;
        while let Some(due) = self.engine.poll_timeout().filter(|due| *due <= end) {
            self.now = due.max(self.now + Nanos(1));
            self.feed(&[]);
        }
        self.now = end;
    }

    /// Lets time pass until there was a scan for hint faults.
    pub(in crate::policy) fn scan(&mut self) {
        let scans = self.metric("hint_scans_total");
        while self.metric("hint_scans_total") == scans {
            self.pass(ms(1));
        }
    }

    /// Moves since the last time: pages, destination and by whom.
    pub(in crate::policy) fn moves(&mut self) -> Vec<(u32, u8, By)> {
        let moved = core::mem::take(&mut self.moved);
        let pages = moved.iter().flat_map(|(run, to, by)| run.iter().map(|p| (p.0, to.0, *by)));
        pages.collect()
    }

    pub(in crate::policy) fn is_armed(&self, page: u32) -> bool {
        self.engine.view().state(PageId(page)).is_armed()
    }

    pub(in crate::policy) fn tier(&self, page: u32) -> Option<u8> {
        self.engine.view().state(PageId(page)).tier().map(|tier| tier.0)
    }

    pub(in crate::policy) fn metric(&self, name: &str) -> f64 {
        let mut found = None;
        self.engine.policy().metrics(&mut |key, value| {
            if key == name {
                found = Some(value);
            }
        });
        found.unwrap_or_else(|| panic!("no metric {name}"))
    }
}

/// Milliseconds.
pub(in crate::policy) fn ms(n: u64) -> Nanos {
    Nanos(n * 1_000_000)
}
