//! Runs whose pages shall be on one side, moved as there is room and bandwidth.

use super::units::units_in;
use crate::action::{Lane, Plan};
use crate::budget::Budget;
use crate::placement::View;
use crate::policy::runs::{Room, Runs};
use crate::types::*;
use alloc::collections::VecDeque;

/// Moves to come towards one tier.
#[derive(Debug)]
pub(super) struct Queue {
    to: TierId,
    lane: Lane,
    runs: VecDeque<PageRun>,
    proposed: u64,
}

impl Queue {
    /// Towards `to`, by a worker.
    pub(super) fn new(to: TierId, lane: Lane) -> Self {
        Self { to, lane, runs: VecDeque::new(), proposed: 0 }
    }

    /// Pages on the other side shall move, unless the run waits already.
    pub(super) fn push(&mut self, run: PageRun) {
        if !self.runs.contains(&run) {
            self.runs.push_back(run);
        }
    }

    /// Pages proposed so far.
    pub(super) fn proposed(&self) -> u64 {
        self.proposed
    }

    pub(super) fn bytes(&self) -> Bytes {
        Bytes((self.runs.capacity() * size_of::<PageRun>()) as u64)
    }

    /// Proposes what fits into the tier and the budget, in order; the rest waits. Runs that are no
    /// longer `wanted`, by their first page, are dropped.
    pub(super) fn run(
        &mut self,
        budget: &mut Budget,
        view: &View<'_>,
        plan: &mut Plan,
        mut wanted: impl FnMut(PageId) -> bool,
    ) {
        let up = self.to == TierId::FAST;
        let moves_on = |unit: &PageRun| {
            let state = view.state(unit.start);
            !state.is_in_flight() && (state.tier() == Some(TierId::FAST)) != up
        };
        let mut room = Room::of(view, self.to, budget);
        let mut moves = Runs::new(self.to, self.lane);
        'runs: while let Some(run) = self.runs.pop_front() {
            if !wanted(run.start) {
                continue;
            }
            for unit in units_in(run, view).filter(moves_on) {
                if !room.take(unit.pages) {
                    self.runs.push_front(PageRun::between(unit.start.0, run.end()));
                    break 'runs;
                }
                moves.push(unit, plan);
            }
        }
        self.proposed += moves.finish(plan);
    }
}
