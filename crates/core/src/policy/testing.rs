//! A small world for tests of policies: it carries every action out at once and keeps a record.

use super::contract::{Allocation, FaultDecision};
use super::offer::Offer;
use super::registry::make;
use crate::action::{Action, Lane, Scan};
use crate::engine::{Engine, EngineConfig};
use crate::event::{AccessBits, Event, Fault, Level, MoveCause, MoveOutcome, Sample, SampleKind};
use crate::types::*;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

pub(super) const SLOW: TierId = TierId(1);

/// An engine, and the memory that it manages.
pub(super) struct World {
    pub engine: Engine,
    pub now: Nanos,
    /// Subpages that a split finds to be all zero.
    pub zero: Vec<PageId>,
    /// How moves end.
    pub outcome: MoveOutcome,
    /// Actions carried out, in order.
    pub done: Vec<Action>,
    /// Pages whose access bit is set.
    pub accessed: BTreeSet<u32>,
    /// How long questions of [`Lane::SCAN`] take.
    pub answer: Nanos,
    /// No question is answered; they are kept.
    pub silent: bool,
    kept: Vec<Scan>,
    told: usize,
}

impl World {
    pub(super) fn new(fast: u64, spec: &str) -> Self {
        Self::tiered(EngineConfig::two_tiers(PageCount(fast), PageCount(1 << 20)), spec)
    }

    pub(super) fn tiered(config: EngineConfig, spec: &str) -> Self {
        let fast_pages = config.tiers[0].capacity;
        Self::with(config, spec, &Offer { fast_pages, ..Offer::default() })
    }

    pub(super) fn with(config: EngineConfig, spec: &str, context: &Offer) -> Self {
        Self {
            engine: Engine::new(config, make(spec, context).unwrap()).unwrap(),
            now: Nanos(1),
            zero: Vec::new(),
            outcome: MoveOutcome::Moved,
            done: Vec::new(),
            accessed: BTreeSet::new(),
            answer: Nanos::ZERO,
            silent: false,
            kept: Vec::new(),
            told: 0,
        }
    }

    /// First touches, in order; of base pages where the policy wants no folio.
    pub(super) fn populate(&mut self, run: PageRun, huge: bool) {
        let piece = if huge { HUGE_PAGES } else { 1 };
        for start in run.range().step_by(piece as usize) {
            let run = PageRun { start: PageId(start as u32), pages: piece };
            let allocation = Allocation { run, huge, may_be_huge: false, process: ProcessId(0) };
            if self.engine.populate(self.now, &allocation).is_none() {
                for page in run.iter() {
                    let run = PageRun::single(page);
                    let allocation = Allocation { run, huge: false, ..allocation };
                    self.engine.populate(self.now, &allocation).expect("there is room");
                }
            }
        }
        self.feed(&[]);
    }

    pub(super) fn feed(&mut self, events: &[Event]) {
        self.engine.handle_events(self.now, events);
        self.act();
    }

    pub(super) fn sample_of(&self, page: u32, kind: SampleKind) -> Event {
        let page = PageId(page);
        let tier = self.engine.view().state(page).tier().unwrap_or(SLOW);
        Event::Sample(Sample::new(page, kind, tier, ProcessId(0)))
    }

    /// Samples of loads, `times` of each page.
    pub(super) fn sample(&mut self, pages: impl IntoIterator<Item = u32>, times: usize) {
        for page in pages {
            let sample = self.sample_of(page, SampleKind::LoadMiss);
            self.feed(&alloc::vec![sample; times]);
        }
    }

    /// A plain access: sets the access bit, and faults where the page is armed.
    pub(super) fn touch(&mut self, pages: impl IntoIterator<Item = u32>) {
        for page in pages {
            self.accessed.insert(page);
            let state = self.engine.view().state(PageId(page));
            let Some(tier) = state.tier().filter(|_| state.is_armed()) else { continue };
            let fault =
                Fault { page: PageId(page), tier, write: false, process: ProcessId(0), thread: 0 };
            let cause = MoveCause::FaultDecision;
            let moved = |page, to| Event::Moved { run: PageRun::single(page), to, cause };
            let mut events = alloc::vec![Event::Fault(fault)];
            match self.engine.on_fault(self.now, &fault) {
                FaultDecision::Stay => {}
                FaultDecision::MoveHere(to) => events.push(moved(fault.page, to)),
                FaultDecision::Exchange(other) => {
                    let to = self.engine.view().state(other).tier().unwrap();
                    events.extend([moved(other, tier), moved(fault.page, to)]);
                }
            }
            self.feed(&events);
        }
    }

    /// Lets the policy wake up.
    pub(super) fn wake(&mut self) {
        self.now = self.engine.poll_timeout().unwrap().max(self.now);
        self.feed(&[]);
    }

    /// Wakes the policy up and gives the pages that moved since the last call: first page and tier.
    pub(super) fn moves(&mut self) -> Vec<(u32, u8)> {
        self.wake();
        let new = &self.done[core::mem::replace(&mut self.told, self.done.len())..];
        let moved = new.iter().filter_map(|action| match action {
            Action::Migrate { run, to, .. } => Some((*run, to.0)),
            _ => None,
        });
        moved.flat_map(|(run, to)| run.iter().map(move |page| (page.0, to))).collect()
    }

    fn act(&mut self) {
        let (mut events, mut late) = (Vec::new(), false);
        while let Some(action) = self.engine.poll_action() {
            self.done.push(action);
            match action {
                Action::Migrate { id, run, .. } => {
                    events.push(Event::MigrationDone { id, run, outcome: self.outcome });
                }
                Action::Split { region, .. } => {
                    events.push(Event::SplitDone { region, split: true });
                    for page in self.zero.drain(..) {
                        events.push(Event::Freed { run: PageRun::single(page) });
                    }
                }
                Action::Collapse { region, to, .. } => {
                    events.push(Event::CollapseDone { region, tier: Some(to) });
                }
                Action::Scan { scan, .. } if self.silent => self.kept.push(scan),
                Action::Scan { scan, lane } => {
                    late |= lane == Lane::SCAN;
                    self.scan(&scan, &mut events);
                }
                _ => {}
            }
        }
        if late {
            self.now += self.answer;
        }
        if !events.is_empty() {
            self.engine.handle_events(self.now, &events);
            self.act();
        }
    }

    /// Answers what was kept.
    pub(super) fn answer_late(&mut self) {
        let mut events = Vec::new();
        for scan in core::mem::take(&mut self.kept) {
            self.scan(&scan, &mut events);
        }
        self.feed(&events);
    }

    fn scan(&mut self, scan: &Scan, events: &mut Vec<Event>) {
        let unit = if scan.level == Level::Huge { HUGE_PAGES } else { 1 };
        for start in scan.run.range().step_by(64 * unit as usize) {
            let run = PageRun { start: PageId(start as u32), pages: 64 * unit };
            let run = run.intersect(scan.run);
            let mut accessed = 0;
            for page in run.iter().filter(|page| self.accessed.contains(&page.0)) {
                accessed |= 1 << ((page.0 - run.start.0) / unit);
            }
            if scan.clear {
                run.iter().for_each(|page| {
                    self.accessed.remove(&page.0);
                });
            }
            events.push(Event::AccessBits(AccessBits { run, accessed, level: scan.level }));
        }
    }

    pub(super) fn metric(&self, name: &str) -> f64 {
        let mut found = None;
        self.engine.policy().metrics(&mut |key, value| {
            if key == name {
                found = Some(value);
            }
        });
        found.unwrap_or_else(|| panic!("no metric {name}"))
    }

    pub(super) fn tier(&self, page: u32) -> Option<TierId> {
        self.engine.view().state(PageId(page)).tier()
    }

    pub(super) fn classes(&self) -> [u64; 3] {
        self.engine.policy().classes().unwrap()
    }

    pub(super) fn count(&self, what: impl Fn(&Action) -> bool) -> usize {
        self.done.iter().filter(|action| what(action)).count()
    }

    pub(super) fn used(&self) -> u64 {
        self.engine.view().used(TierId::FAST).0
    }
}
