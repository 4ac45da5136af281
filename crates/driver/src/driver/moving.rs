//! Moving pages: what the policy wants, and on the driver's own account.

use super::{Driver, MOVE_PAGES};
use crate::accounts::Account;
use crate::clock;
use crate::error::DriverError;
use crate::groups::Way;
use crate::place::Unit;
use frostline_core::action::{Action, Lane, MoveId};
use frostline_core::event::{Event, MoveCause, MoveOutcome};
use frostline_core::types::*;
use frostline_linux::LinuxError;
use frostline_linux::span::Span;
use std::collections::BTreeMap;

/// Free memory that must remain when pages are brought back.
const KEPT_FREE: Bytes = Bytes(256 << 20);

impl Driver {
    /// Carries out what the policy wants, as far as our share of a core goes.
    pub(super) fn work(&mut self) -> Result<(), DriverError> {
        while self.pacer.allows() {
            let Some(action) = self.queue.pop() else { return Ok(()) };
            let (mut events, mut arrived) = (Vec::new(), Vec::new());
            match action {
                Action::Migrate { id, run, to, lane } => {
                    let batch = self.batch(id, run, to, lane);
                    let runs: Vec<PageRun> = batch.iter().map(|(run, _)| *run).collect();
                    for (run, outcome) in self.migrate(&runs, to, Purpose::Policy)? {
                        arrived.push(run);
                        by_move(&batch, run, |run, id| {
                            events.push(Event::MigrationDone { id, run, outcome });
                        });
                    }
                }
                Action::Split { region, .. } => events.extend(self.split(region)?),
                Action::Collapse { region, to, .. } => events.extend(self.collapse(region, to)?),
                Action::SetSampling { kind, period } => {
                    self.sources.iter_mut().for_each(|source| source.set_period(kind, period));
                }
                Action::Scan { scan, lane } => {
                    self.scans.push(scan, lane, self.map.pages());
                    // To ask for the time takes longer, and a policy may want hundreds at a time.
                    continue;
                }
                // What is in swap space faults by itself; policies that need more than can be had are
                // turned down before they start.
                Action::Arm { run, .. } => self.arm_next(run),
                Action::Disarm { run, .. } => self.disarm(run),
                Action::DemoteFile { file, lane } => {
                    if !self.demote_file(file)? {
                        self.queue.push_front(Action::DemoteFile { file, lane });
                    }
                }
            }
            self.tell(events)?;
            self.arm(&arrived);
            self.pacer.charge(clock::thread_cpu());
        }
        Ok(())
    }

    /// What is moved in one go, ascending: the head of this run, and of what is queued next as far
    /// as it goes to the same tier. A call to the kernel costs more than a page that it moves.
    fn batch(
        &mut self,
        id: MoveId,
        run: PageRun,
        to: TierId,
        lane: Lane,
    ) -> Vec<(PageRun, MoveId)> {
        self.queue.push_front(Action::Migrate { id, run, to, lane });
        let mut batch = Vec::new();
        let mut pages = 0;
        while let Some(&Action::Migrate { id, run, to: next, lane }) = self.queue.front()
            && next == to
            && pages < MOVE_PAGES
        {
            self.queue.pop();
            let head = self.head_of(run);
            if head.pages < run.pages {
                let run = PageRun::between(head.end(), run.end());
                self.queue.push_front(Action::Migrate { id, run, to, lane });
            }
            pages += head.pages;
            batch.push((head, id));
        }
        batch.sort_unstable_by_key(|(run, _)| run.start);
        batch
    }

    /// As much of a run as is moved in one go: whole folios.
    fn head_of(&self, run: PageRun) -> PageRun {
        if run.pages <= MOVE_PAGES {
            return run;
        }
        let page = PageId(run.start.0 + MOVE_PAGES);
        let end = if self.engine.view().state(page).is_huge() {
            page.region().run().end()
        } else {
            page.0
        };
        PageRun::between(run.start.0, end.min(run.end()))
    }

    /// Moves pages, and tells of each page once.
    pub(super) fn migrate(
        &mut self,
        runs: &[PageRun],
        to: TierId,
        purpose: Purpose,
    ) -> Result<Vec<(PageRun, MoveOutcome)>, DriverError> {
        let mut units: BTreeMap<u32, Vec<Unit>> = BTreeMap::new();
        let mut done = Vec::new();
        for run in runs {
            let mut next = run.start.0;
            while next < run.end() {
                let page = PageId(next);
                let huge = self.engine.view().state(page).is_huge();
                let pages = if huge { page.region().run().end().min(run.end()) - next } else { 1 };
                next += pages;
                match self.map.place(page) {
                    Some((process, vpn)) => {
                        let unit = Unit { span: Span::new(vpn, u64::from(pages)), huge };
                        push_unit(units.entry(process.0).or_default(), unit);
                    }
                    None => done.push((PageRun { start: page, pages }, MoveOutcome::Gone)),
                }
            }
        }
        for (pid, units) in units {
            self.migrate_units(pid, &units, to, purpose, &mut done)?;
        }
        Ok(done)
    }

    fn migrate_units(
        &mut self,
        pid: u32,
        units: &[Unit],
        to: TierId,
        purpose: Purpose,
        done: &mut Vec<(PageRun, MoveOutcome)>,
    ) -> Result<(), DriverError> {
        // The kernel moves what is in its place.
        if let Some(next_touch) = self.next_touch.as_ref().filter(|_| pid == std::process::id()) {
            units.iter().for_each(|unit| next_touch.put_back(unit.span));
        }
        let Admitted { units, held, way, counted } = self.admit(pid, units, to);
        let all = |outcome| units.iter().map(|unit| (unit.span, outcome)).collect();
        let taken = self.engine.view().used(to);
        let outcomes = match self.watched.get_mut(&pid) {
            _ if self.options.dry_run => Ok(all(MoveOutcome::Busy)),
            None => Err(LinuxError::Gone { pid }),
            Some(_) if units.is_empty() => Ok(Vec::new()),
            Some(w) => self.places.move_to(&w.target, &mut w.pagemap, &units, to, taken),
        };
        let mut outcomes: Vec<(Span, MoveOutcome)> = match outcomes {
            Ok(outcomes) => outcomes,
            Err(error) if error.is_gone() => all(MoveOutcome::Gone),
            Err(error) => return Err(error.into()),
        };
        if let (Some(groups), Some(way)) = (&mut self.groups, way) {
            let moved = outcomes.iter().filter(|(_, outcome)| *outcome == MoveOutcome::Moved);
            let moved: u64 = moved.map(|(span, _)| span.pages).sum();
            groups.moved(pid, way, moved.min(counted));
        }
        outcomes.extend(held.into_iter().map(|span| (span, MoveOutcome::NoSpace)));
        for (span, outcome) in outcomes {
            self.account(purpose, to).count(span.pages, outcome);
            self.arrivals[to.index()].count(span.pages, outcome);
            self.map.known(ProcessId(pid), span, |_, run| done.push((run, outcome)));
        }
        Ok(())
    }

    /// What of a process's pages its control group allows to be moved.
    fn admit(&self, pid: u32, units: &[Unit], to: TierId) -> Admitted {
        let (Some(groups), Some(swap)) = (&self.groups, self.places.swap()) else {
            return Admitted { units: units.to_vec(), held: vec![], way: None, counted: 0 };
        };
        let way = if to == swap { Way::Out } else { Way::In };
        let in_swap = |page: Vpn| {
            let page = self.map.page(ProcessId(pid), page);
            page.is_some_and(|page| self.engine.view().state(page).tier() == Some(swap))
        };
        let counts = |page: Vpn| way == Way::Out || in_swap(page);
        let (units, held) = groups.admit(pid, way, units, counts);
        let pages = |unit: &Unit| unit.span.iter().filter(|page| counts(*page)).count() as u64;
        let counted = units.iter().map(pages).sum();
        Admitted { units, held, way: Some(way), counted }
    }

    pub(super) fn account(&mut self, purpose: Purpose, to: TierId) -> &mut Account {
        match purpose {
            Purpose::Policy if to == TierId::FAST => &mut self.accounts.promotions,
            Purpose::Policy => &mut self.accounts.demotions,
            Purpose::Limit => &mut self.accounts.reclaimed,
            Purpose::Probe => &mut self.accounts.probes,
        }
    }

    /// Moves pages to a slower tier on our own account and tells the engine what happened.
    pub(super) fn demote(
        &mut self,
        runs: &[PageRun],
        to: TierId,
        purpose: Purpose,
    ) -> Result<Demoted, DriverError> {
        let done = self.migrate(runs, to, purpose)?;
        let mut result = Demoted::default();
        let mut events = Vec::new();
        for (run, outcome) in done {
            result.no_space |= outcome == MoveOutcome::NoSpace;
            match outcome {
                MoveOutcome::Moved => {
                    result.moved += u64::from(run.pages);
                    events.push(Event::Moved { run, to, cause: MoveCause::Reclaim });
                }
                MoveOutcome::Gone => events.push(Event::Freed { run }),
                // Tried again when the hand comes round.
                _ => {}
            }
        }
        self.tell(events)?;
        self.pacer.charge(clock::thread_cpu());
        Ok(result)
    }

    /// Brings all that is in swap back into memory, as far as there is free memory for it, and room in control groups: what
    /// was set up can be taken down then. Calls `progress` with the bytes that are left, and stops
    /// where it answers false.
    ///
    /// # Errors
    /// Where rights are missing.
    pub fn bring_back(
        &mut self,
        mut progress: impl FnMut(Bytes) -> bool,
    ) -> Result<(), DriverError> {
        let Some(swap) = self.places.swap().filter(|_| !self.options.dry_run) else {
            return Ok(());
        };
        let mut left = self.engine.view().used(swap);
        let mut next = 0;
        while next < self.map.pages() && progress(left.bytes()) {
            let run = Region(next / HUGE_PAGES).run();
            next = run.end();
            let view = self.engine.view();
            let out = |page: PageId| view.state(page).tier() == Some(swap);
            let runs: Vec<PageRun> = run.iter().filter(|p| out(*p)).map(PageRun::single).collect();
            let wanted = PageCount(runs.len() as u64);
            let free = frostline_linux::process::available_memory(&self.root)?;
            if free < wanted.bytes().saturating_add(KEPT_FREE) {
                return Ok(());
            }
            self.read_groups();
            self.migrate(&runs, TierId::FAST, Purpose::Policy)?;
            left = left.saturating_sub(wanted);
        }
        Ok(())
    }
}

/// Hands the parts of a run to `sink` with the moves that they belong to. Those are ascending and
/// do not overlap.
fn by_move(batch: &[(PageRun, MoveId)], run: PageRun, mut sink: impl FnMut(PageRun, MoveId)) {
    let first = batch.partition_point(|(part, _)| part.end() <= run.start.0);
    for (part, id) in batch[first..].iter().take_while(|(part, _)| part.start.0 < run.end()) {
        let start = part.start.0.max(run.start.0);
        sink(PageRun::between(start, part.end().min(run.end())), *id);
    }
}

/// Appends a unit; base pages that follow each other are moved together.
fn push_unit(units: &mut Vec<Unit>, unit: Unit) {
    match units.last_mut() {
        Some(last) if !last.huge && !unit.huge && last.span.end() == unit.span.start => {
            last.span.pages += unit.span.pages;
        }
        _ => units.push(unit),
    }
}

/// Pages that may be moved, and the rest.
struct Admitted {
    units: Vec<Unit>,
    held: Vec<Span>,
    way: Option<Way>,
    /// How many of `units` take room.
    counted: u64,
}

/// What came of moving pages to a slower tier.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Demoted {
    /// Pages found there.
    pub(super) moved: u64,
    /// There was no room for some.
    pub(super) no_space: bool,
}

/// Why pages are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Policy,
    Limit,
    Probe,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_find_their_moves() {
        let run = |start, end| PageRun::between(start, end);
        let batch = [(run(0, 4), MoveId(7)), (run(4, 5), MoveId(8)), (run(9, 12), MoveId(3))];
        let parts = |run| {
            let mut parts = Vec::new();
            by_move(&batch, run, |run, id| parts.push((run.start.0, run.end(), id.0)));
            parts
        };
        assert_eq!(parts(run(0, 5)), [(0, 4, 7), (4, 5, 8)]);
        assert_eq!(parts(run(2, 4)), [(2, 4, 7)]);
        assert_eq!(parts(run(10, 11)), [(10, 11, 3)]);
        assert_eq!(parts(run(5, 9)), []);
    }
}
