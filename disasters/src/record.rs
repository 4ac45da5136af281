//! Record of what the daemon told and wanted: moves end once, none comes out of nothing, no limit is
//! exceeded by one.

use crate::host::End;
use frostline_core::action::{Action, MoveId};
use frostline_core::event::{Event, MoveOutcome};
use frostline_core::span::Span;
use frostline_core::types::*;
use frostline_daemon::{Found, LogEntry, Unit};
use std::collections::BTreeMap;

/// See the module.
#[derive(Debug, Default)]
pub struct Record {
    /// Pages of moves that have not ended, by move.
    open: BTreeMap<u64, Vec<PageRun>>,
    /// Moves that have ended.
    ended: u64,
    /// Capacity of each tier, as the engine was told last.
    capacities: BTreeMap<TierId, u64>,
    /// Outcomes that were told, by kind.
    outcomes: [u64; 5],
}

fn wrong<T>(what: String) -> Result<T, End> {
    Err(End::Wrong(what))
}

impl Record {
    /// The daemon was told, or wants, something.
    pub fn told(&mut self, told: LogEntry<'_>) -> Result<(), End> {
        match told {
            LogEntry::Actions(actions) => {
                for action in actions {
                    if let Action::Migrate { id, run, .. } = *action
                        && self.open.insert(id.0, vec![run]).is_some()
                    {
                        return wrong(format!("move {} is wanted twice", id.0));
                    }
                }
            }
            LogEntry::Events(_, events) => {
                for event in events {
                    match *event {
                        Event::MigrationDone { id, run, outcome } => self.done(id, run, outcome)?,
                        Event::TierUsage { tier, capacity } => {
                            self.capacities.insert(tier, capacity.0);
                        }
                        _ => {}
                    }
                }
            }
            LogEntry::Timeout(_) | LogEntry::Fault(..) => {}
        }
        Ok(())
    }

    /// No limit holds for what comes now.
    pub fn lift_limits(&mut self) {
        self.capacities.clear();
    }

    /// Part of a move has ended.
    fn done(&mut self, id: MoveId, run: PageRun, outcome: MoveOutcome) -> Result<(), End> {
        self.outcomes[outcome as usize] += 1;
        let Some(left) = self.open.get_mut(&id.0) else {
            return wrong(format!("move {} ends, and was not wanted or has ended", id.0));
        };
        let Some(at) =
            left.iter().position(|part| part.start.0 <= run.start.0 && run.end() <= part.end())
        else {
            return wrong(format!("{run:?} of move {} ends twice or never began: {left:?}", id.0));
        };
        let part = left.swap_remove(at);
        let around =
            [PageRun::between(part.start.0, run.start.0), PageRun::between(run.end(), part.end())];
        left.extend(around.into_iter().filter(|part| part.pages > 0));
        if left.is_empty() {
            self.open.remove(&id.0);
            self.ended += 1;
        }
        Ok(())
    }

    /// Pages are about to be moved to a tier, which holds `taken` of all.
    pub fn moves(
        &self,
        process: ProcessId,
        units: &[Unit],
        to: TierId,
        taken: PageCount,
    ) -> Result<(), End> {
        let mut spans: Vec<Span> = units.iter().map(|unit| unit.span).collect();
        spans.sort_unstable();
        if spans.iter().any(|span| span.is_empty()) {
            return wrong(format!("nothing is moved: {units:?}"));
        }
        if let Some(two) = spans.windows(2).find(|two| two[0].end() > two[1].start) {
            return wrong(format!("a page of {process:?} is moved twice at once: {two:?}"));
        }
        for unit in units.iter().filter(|unit| unit.huge) {
            if Span::region_of(unit.span.start).intersect(unit.span) != unit.span {
                return wrong(format!("a folio of two regions: {unit:?}"));
            }
        }
        let come = units.iter().filter(|unit| unit.from != Some(to));
        let pages: u64 = come.map(|unit| unit.span.pages).sum();
        match self.capacities.get(&to) {
            Some(capacity) if pages > 0 && taken.0 + pages > *capacity => wrong(format!(
                "{pages} pages are moved to tier {}, which holds {} of {capacity}",
                to.0, taken.0
            )),
            _ => Ok(()),
        }
    }

    /// What was found is in what was looked at.
    pub fn found(
        &self,
        process: ProcessId,
        looked: Span,
        runs: &[(Span, Found)],
    ) -> Result<(), End> {
        if looked.is_empty() || runs.iter().any(|(span, _)| span.intersect(looked) != *span) {
            return wrong(format!("{process:?}: nothing is looked at, or too much: {looked:?}"));
        }
        Ok(())
    }

    /// Moves that have not ended.
    pub fn open(&self) -> Vec<u64> {
        self.open.keys().copied().collect()
    }

    /// The first of these moves that has not ended.
    pub fn first_open(&self, of: &[u64]) -> Option<u64> {
        of.iter().copied().find(|id| self.open.contains_key(id))
    }

    /// Moves that have ended.
    pub fn ended(&self) -> u64 {
        self.ended
    }
}
