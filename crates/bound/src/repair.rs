//! Repair of the residencies that pages ask for, so that the placement keeps to the capacity.
//!
//! One sweep over time. Where there is no room for a page that wants to come, whoever gets the
//! least per rent stays out: the newcomer or one that is there. Room that becomes free goes to the
//! best of those that were turned away, if what is left for it to save pays for the move.

use crate::matrix::{EpochMatrix, tick_of};
use crate::plan::{Plan, Residency, Stay};
use crate::walk::{Terms, best};
use rayon::prelude::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A residency that a page asks for.
#[derive(Clone, Copy)]
struct Request {
    wanted: Residency,
    /// Net saving per rent, as the bits of an `f32` that is not negative: those order as it does.
    worth: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    /// In fast memory from this tick.
    Inside(u32),
    Done,
}

/// A feasible plan, made from the best residencies at the prices of `terms`.
pub(crate) fn feasible(matrix: &EpochMatrix, terms: &Terms<'_>, capacity_pages: u64) -> Plan {
    let mut requests = requests(matrix, terms);
    requests.par_sort_unstable_by_key(|r| (r.wanted.start, r.wanted.page));
    let mut sweep = Sweep::new(matrix, terms, &requests, capacity_pages);
    sweep.run();
    sweep.out.par_sort_unstable();
    let mut residencies = joined(matrix, &terms.savings, sweep.out);
    residencies.retain(|&r| {
        Stay::of(matrix, r, &terms.savings).is_some_and(|stay| stay.value_ns(terms) > 0.0)
    });
    Plan::new(residencies)
}

/// Residencies of a page that meet or overlap become one, except where the page dies between them.
fn joined(matrix: &EpochMatrix, savings: &[f64; 4], sorted: Vec<Residency>) -> Vec<Residency> {
    let mut joined: Vec<Residency> = Vec::with_capacity(sorted.len());
    for mut next in sorted {
        if let Some(last) = joined.last_mut()
            && last.page == next.page
            && last.end >= next.start
        {
            let both = Residency { end: last.end.max(next.end), ..*last };
            if Stay::of(matrix, both, savings).is_some() {
                *last = both;
                continue;
            }
            next.start = last.end;
        }
        if next.start < next.end {
            joined.push(next);
        }
    }
    joined
}

fn requests(matrix: &EpochMatrix, terms: &Terms<'_>) -> Vec<Request> {
    let parts: Vec<Vec<Request>> = matrix
        .page_ranges(64)
        .into_par_iter()
        .map(|pages| {
            let mut wanted = Vec::new();
            for page in pages {
                best(matrix.page(page), terms, |start, end| {
                    wanted.push(Residency {
                        page: frostline_core::types::PageId(page),
                        start,
                        end,
                    });
                });
            }
            wanted.into_iter().filter_map(|w| request(matrix, terms, w)).collect()
        })
        .collect();
    parts.concat()
}

fn request(matrix: &EpochMatrix, terms: &Terms<'_>, mut wanted: Residency) -> Option<Request> {
    let mut stay = Stay::of(matrix, wanted, &terms.savings)?;
    if terms.access_ticks == 0 && !stay.dies {
        // All of the last tick, which the prices do not charge for where records share it.
        wanted.end += 1;
        stay = Stay::of(matrix, wanted, &terms.savings)?;
    }
    let rent = terms.prices.between(wanted.start, wanted.end);
    let worth = (stay.value_ns(terms) / rent.max(f64::MIN_POSITIVE)).clamp(0.0, 1e30) as f32;
    (wanted.start < wanted.end).then_some(Request { wanted, worth: worth.to_bits() })
}

struct Sweep<'a> {
    matrix: &'a EpochMatrix,
    terms: &'a Terms<'a>,
    requests: &'a [Request],
    states: Vec<State>,
    room: u64,
    /// Worst first; may hold some that have left.
    inside: BinaryHeap<Reverse<(u32, u32)>>,
    /// Best first; may hold some whose time is over.
    waiting: BinaryHeap<(u32, u32)>,
    out: Vec<Residency>,
}

impl<'a> Sweep<'a> {
    fn new(
        matrix: &'a EpochMatrix,
        terms: &'a Terms<'a>,
        requests: &'a [Request],
        capacity_pages: u64,
    ) -> Self {
        Self {
            matrix,
            terms,
            requests,
            states: vec![State::Waiting; requests.len()],
            room: capacity_pages,
            inside: BinaryHeap::new(),
            waiting: BinaryHeap::new(),
            out: Vec::with_capacity(requests.len()),
        }
    }

    fn run(&mut self) {
        let mut ends: Vec<u32> = (0..self.requests.len() as u32).collect();
        ends.par_sort_unstable_by_key(|&i| (self.requests[i as usize].wanted.end, i));
        let mut ends = ends.into_iter().peekable();
        for index in 0..self.requests.len() as u32 {
            let now = self.requests[index as usize].wanted.start;
            while let Some(&ending) = ends.peek()
                && self.requests[ending as usize].wanted.end <= now
            {
                ends.next();
                self.end(ending);
            }
            self.start(index, now);
        }
        for ending in ends {
            self.end(ending);
        }
    }

    fn start(&mut self, index: u32, now: u32) {
        if self.room > 0 {
            self.room -= 1;
            return self.admit(index, now);
        }
        let worth = self.requests[index as usize].worth;
        while let Some(&Reverse((least, who))) = self.inside.peek() {
            let State::Inside(since) = self.states[who as usize] else {
                self.inside.pop();
                continue;
            };
            if least >= worth {
                break;
            }
            self.inside.pop();
            self.leave(who, since, now);
            self.states[who as usize] = State::Waiting;
            self.waiting.push((least, who));
            return self.admit(index, now);
        }
        self.waiting.push((worth, index));
    }

    fn end(&mut self, index: u32) {
        let end = self.requests[index as usize].wanted.end;
        let state = std::mem::replace(&mut self.states[index as usize], State::Done);
        if let State::Inside(since) = state {
            self.leave(index, since, end);
            self.room += 1;
            self.refill(end);
        }
    }

    /// Gives free room to one that waits.
    fn refill(&mut self, now: u32) {
        while let Some((_, who)) = self.waiting.pop() {
            if self.states[who as usize] != State::Waiting {
                continue;
            }
            let mut wanted = self.requests[who as usize].wanted;
            let entries = self.matrix.page(wanted.page.0);
            let next = entries.partition_point(|&e| tick_of(e) < now.max(wanted.start));
            let Some(start) = entries.get(next).map(|&e| tick_of(e)) else { continue };
            if start >= wanted.end {
                continue;
            }
            wanted.start = start;
            let stay = Stay::of(self.matrix, wanted, &self.terms.savings);
            if stay.is_some_and(|stay| stay.value_ns(self.terms) > 0.0) {
                self.room -= 1;
                return self.admit(who, start);
            }
        }
    }

    fn admit(&mut self, index: u32, since: u32) {
        self.states[index as usize] = State::Inside(since);
        self.inside.push(Reverse((self.requests[index as usize].worth, index)));
    }

    fn leave(&mut self, index: u32, since: u32, now: u32) {
        if since < now {
            let page = self.requests[index as usize].wanted.page;
            self.out.push(Residency { page, start: since, end: now });
        }
    }
}
