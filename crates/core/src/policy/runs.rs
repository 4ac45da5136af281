//! Neighbouring pages that move together.

use crate::action::{Lane, Plan};
use crate::types::*;

/// Joins neighbouring pages into one proposal each.
pub(super) struct Runs {
    to: TierId,
    lane: Lane,
    open: Option<PageRun>,
    pages: u64,
}

impl Runs {
    /// Towards `to`, by a worker.
    pub(super) fn new(to: TierId, lane: Lane) -> Self {
        Self { to, lane, open: None, pages: 0 }
    }

    /// Adds pages; proposes those before where these do not follow them.
    pub(super) fn push(&mut self, run: PageRun, plan: &mut Plan) {
        self.pages += u64::from(run.pages);
        match &mut self.open {
            Some(open) if open.end() == run.start.0 => open.pages += run.pages,
            open => {
                if let Some(done) = open.replace(run) {
                    plan.migrate(done, self.to, self.lane);
                }
            }
        }
    }

    /// Where the pages go.
    pub(super) fn to(&self) -> TierId {
        self.to
    }

    /// Pages added so far.
    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    /// Proposes the last run; gives the pages of all.
    pub(super) fn finish(self, plan: &mut Plan) -> u64 {
        if let Some(run) = self.open {
            plan.migrate(run, self.to, self.lane);
        }
        self.pages
    }
}
