//! Moves between tiers: what the policy wants, and on the daemon's own account.

use crate::context::Cx;
use crate::ledger::Purpose;
use crate::settings::MOVE_PAGES;
use crate::system::System;
use crate::unit::Unit;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use frostline_core::action::{Action, Lane, MoveId};
use frostline_core::event::{Event, MoveCause, MoveOutcome};
use frostline_core::span::Span;
use frostline_core::types::*;

/// What came of moving pages to a slower tier.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Relocated {
    /// Pages found there.
    pub(crate) moved: u64,
    /// There was no room for some.
    pub(crate) no_space: bool,
}

/// A move that the policy wants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) id: MoveId,
    pub(crate) run: PageRun,
    pub(crate) to: TierId,
    pub(crate) lane: Lane,
}

impl<S: System> Cx<'_, S> {
    /// Carries out the head of a move, and of those that are queued next as far as they go to the
    /// same tier. Gives what was moved, and the events that say so.
    pub(crate) fn migrate_wanted(
        &mut self,
        wanted: Wanted,
    ) -> Result<(Vec<PageRun>, Vec<Event>), S::Error> {
        let (mut arrived, mut events) = (Vec::new(), Vec::new());
        let batch = self.batch(wanted, &mut events);
        let runs: Vec<PageRun> = batch.iter().map(|(run, _)| *run).collect();
        for (run, outcome) in self.migrate(&runs, wanted.to, Purpose::Policy)? {
            arrived.push(run);
            by_move(&batch, run, |run, id| events.push(Event::MigrationDone { id, run, outcome }));
        }
        Ok((arrived, events))
    }

    /// What is moved in one go, ascending: a call to the kernel costs more than a page that it moves.
    /// Pages that have gone since they were wanted are told at once.
    fn batch(
        &mut self,
        Wanted { id, run, to, lane }: Wanted,
        events: &mut Vec<Event>,
    ) -> Vec<(PageRun, MoveId)> {
        self.ledger.queue.push_front(Action::Migrate { id, run, to, lane });
        let mut batch: Vec<(PageRun, MoveId)> = Vec::new();
        let mut pages = 0;
        while let Some(&Action::Migrate { id, run, to: next, lane }) = self.ledger.queue.front()
            && next == to
            && pages < MOVE_PAGES
        {
            self.ledger.queue.pop();
            let head = self.head_of(run);
            if head.pages < run.pages {
                let run = PageRun::between(head.end(), run.end());
                self.ledger.queue.push_front(Action::Migrate { id, run, to, lane });
            }
            pages += head.pages;
            for page in head.iter() {
                let run = PageRun::single(page);
                if !self.ledger.engine.waits_for(id, page) {
                    events.push(Event::MigrationDone { id, run, outcome: MoveOutcome::Gone });
                } else if let Some((last, _)) =
                    batch.last_mut().filter(|(last, same)| *same == id && last.end() == page.0)
                {
                    last.pages += 1;
                } else {
                    batch.push((run, id));
                }
            }
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
        let end = if self.ledger.engine.view().state(page).is_huge() {
            page.region().run().end()
        } else {
            page.0
        };
        PageRun::between(run.start.0, end.min(run.end()))
    }

    /// Moves pages, and tells of each page once. A limit that was lowered since a move was wanted
    /// holds: what would exceed it finds no space.
    pub(crate) fn migrate(
        &mut self,
        runs: &[PageRun],
        to: TierId,
        purpose: Purpose,
    ) -> Result<Vec<(PageRun, MoveOutcome)>, S::Error> {
        let mut units: BTreeMap<ProcessId, Vec<Unit>> = BTreeMap::new();
        let mut done = Vec::new();
        let view = self.ledger.engine.view();
        let mut room = match purpose {
            Purpose::Return => u64::MAX,
            _ => view.limits(to).capacity.saturating_sub(view.used(to)).0,
        };
        let mut held = 0;
        for run in runs {
            let mut next = run.start.0;
            while next < run.end() {
                let page = PageId(next);
                let state = view.state(page);
                let huge = state.is_huge();
                let pages = if huge { page.region().run().end().min(run.end()) - next } else { 1 };
                next += pages;
                let run = PageRun { start: page, pages };
                let from = state.tier();
                let takes = if from == Some(to) { 0 } else { u64::from(pages) };
                match self.ledger.map.place(page) {
                    Some(_) if takes > room => {
                        held += takes;
                        done.push((run, MoveOutcome::NoSpace));
                    }
                    Some((process, vpn)) => {
                        room -= takes;
                        let span = Span::new(vpn, u64::from(pages));
                        push_unit(units.entry(process).or_default(), Unit { span, huge, from });
                    }
                    None => done.push((run, MoveOutcome::Gone)),
                }
            }
        }
        if held > 0 {
            self.ledger.count(purpose, to, held, MoveOutcome::NoSpace);
        }
        let mut outcomes = Vec::new();
        for (process, units) in units {
            let taken = self.ledger.engine.view().used(to);
            self.system.move_to(process, &units, to, taken, &mut outcomes)?;
            for (span, outcome) in outcomes.drain(..) {
                self.ledger.count(purpose, to, span.pages, outcome);
                self.ledger.map.known(process, span, |_, run| done.push((run, outcome)));
            }
        }
        Ok(done)
    }

    /// Moves pages to a slower tier on the daemon's own account and tells the engine what happened.
    pub(crate) fn demote(
        &mut self,
        runs: &[PageRun],
        to: TierId,
        purpose: Purpose,
    ) -> Result<Relocated, S::Error> {
        self.relocate(runs, to, purpose, MoveCause::Reclaim)
    }

    /// Moves pages on the daemon's own account and tells the engine what happened, and by which cause.
    pub(crate) fn relocate(
        &mut self,
        runs: &[PageRun],
        to: TierId,
        purpose: Purpose,
        cause: MoveCause,
    ) -> Result<Relocated, S::Error> {
        let done = self.migrate(runs, to, purpose)?;
        let mut result = Relocated::default();
        let mut events = Vec::new();
        for (run, outcome) in done {
            result.no_space |= outcome == MoveOutcome::NoSpace;
            match outcome {
                MoveOutcome::Moved => {
                    result.moved += u64::from(run.pages);
                    events.push(Event::Moved { run, to, cause });
                }
                MoveOutcome::Gone => events.push(Event::Freed { run }),
                // Who wants them elsewhere comes back to them.
                _ => {}
            }
        }
        self.tell(events)?;
        self.charge();
        Ok(result)
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

/// Appends a unit; base pages of one tier that follow each other are moved together.
fn push_unit(units: &mut Vec<Unit>, unit: Unit) {
    match units.last_mut() {
        Some(last) if last.is_followed_by(&unit) => last.span.pages += unit.span.pages,
        _ => units.push(unit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

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
        assert_eq!(parts(run(5, 9)), vec![]);
    }
}
