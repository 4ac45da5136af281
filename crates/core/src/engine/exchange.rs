//! Exchanges under way: the second of two moves waits until the first has ended.

use super::Engine;
use crate::action::{Exchange, Lane, MoveId};
use crate::types::*;
use alloc::vec::Vec;

/// The second half of an exchange.
#[derive(Clone, Debug)]
struct Waiting {
    /// Moves of the first half that have not ended.
    first: Vec<MoveId>,
    run: PageRun,
    to: TierId,
    lane: Lane,
}

/// All exchanges under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Exchanges(Vec<Waiting>);

impl Exchanges {
    /// Takes out the half that a move was the last to be waited for by.
    fn ended(&mut self, id: MoveId) -> Option<Waiting> {
        for (at, waiting) in self.0.iter_mut().enumerate() {
            waiting.first.retain(|first| *first != id);
            if waiting.first.is_empty() {
                return Some(self.0.swap_remove(at));
            }
        }
        None
    }
}

impl Engine {
    /// Has two runs change places: first goes what leaves a tier without room, or the one to be
    /// demoted where both have some.
    pub(super) fn consider_exchange(&mut self, exchange: &Exchange) {
        let Exchange { one, other, lane } = *exchange;
        let tier = |run: PageRun| self.view().state(run.start).tier();
        let (Some(a), Some(b)) = (tier(one), tier(other)) else {
            self.reject(super::Rejected::NotResident, one.pages + other.pages);
            return;
        };
        // By the tier in which each is; the slower one is promoted.
        let (down, up) = if a <= b { ((one, b), (other, a)) } else { ((other, a), (one, b)) };
        let fits = |(run, to): (PageRun, TierId)| self.check_room(to, run.pages).is_ok();
        let (first, second) = if fits(down) || !fits(up) { (down, up) } else { (up, down) };
        let before = self.next_move;
        self.consider_migration(first.0, first.1, lane);
        let waiting = (before..self.next_move).map(MoveId).collect();
        self.wait_for(waiting, second, lane);
    }

    fn wait_for(&mut self, first: Vec<MoveId>, (run, to): (PageRun, TierId), lane: Lane) {
        if first.is_empty() {
            self.reject(super::Rejected::NoRoom, run.pages);
        } else {
            self.exchanges.0.push(Waiting { first, run, to, lane });
        }
    }

    /// A move has ended: whatever has waited for it takes the room before anybody else.
    pub(super) fn go_on_after(&mut self, id: MoveId) {
        while let Some(Waiting { run, to, lane, .. }) = self.exchanges.ended(id) {
            self.consider_migration(run, to, lane);
        }
    }

    /// Exchanges whose second half has not begun.
    pub fn exchanges_waiting(&self) -> usize {
        self.exchanges.0.len()
    }
}
