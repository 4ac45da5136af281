//! Neighbouring pages that move together.

use crate::action::{Lane, Plan};
use crate::budget::Budget;
use crate::placement::View;
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

    /// Proposes what is open, so that what comes next is not joined to it.
    pub(super) fn close(&mut self, plan: &mut Plan) {
        if let Some(done) = self.open.take() {
            plan.migrate(done, self.to, self.lane);
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
    pub(super) fn finish(mut self, plan: &mut Plan) -> u64 {
        self.close(plan);
        self.pages
    }
}

/// Units in order, those that follow each other as one run.
pub(super) fn joined(units: impl Iterator<Item = PageRun>) -> impl Iterator<Item = PageRun> {
    joined_where(units, |_| true)
}

/// The same of units in one region.
pub(super) fn joined_in_regions(
    units: impl Iterator<Item = PageRun>,
) -> impl Iterator<Item = PageRun> {
    joined_where(units, |next| next.start.offset() > 0)
}

fn joined_where(
    units: impl Iterator<Item = PageRun>,
    may_join: impl Fn(&PageRun) -> bool,
) -> impl Iterator<Item = PageRun> {
    let mut units = units.peekable();
    core::iter::from_fn(move || {
        let mut run = units.next()?;
        let follows = |run: PageRun, next: &PageRun| next.start.0 == run.end() && may_join(next);
        while let Some(next) = units.next_if(|next| follows(run, next)) {
            run.pages += next.pages;
        }
        Some(run)
    })
}

/// What may still move to a tier in one decision: by the room there and by the budget.
pub(super) struct Room<'a> {
    to: TierId,
    pages: u64,
    budget: &'a mut Budget,
}

impl<'a> Room<'a> {
    /// What is free above the watermark.
    pub(super) fn of(view: &View<'_>, to: TierId, budget: &'a mut Budget) -> Self {
        Self::above(view.limits(to).keep_free.0, view, to, budget)
    }

    /// What is free beyond so many pages.
    pub(super) fn above(keep: u64, view: &View<'_>, to: TierId, budget: &'a mut Budget) -> Self {
        Self { to, pages: view.free(to).0.saturating_sub(keep), budget }
    }

    /// Pages that there is room for.
    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    /// The tier.
    pub(super) fn to(&self) -> TierId {
        self.to
    }

    /// Takes room for so many pages; false, and nothing is taken, where there is not enough.
    pub(super) fn take(&mut self, pages: impl Into<u64>) -> bool {
        let pages = pages.into();
        let bytes = PageCount(pages).bytes();
        let fits = pages <= self.pages && bytes <= self.budget.remaining;
        if fits {
            self.pages -= pages;
            self.budget.remaining = self.budget.remaining.saturating_sub(bytes);
        }
        fits
    }
}
