//! Pages ahead of streams, which are brought in before they are used, and leave when they were.

use super::density::Densities;
use super::exchange::{Exchange, bring, is_used, movable};
use super::streams::Sweep;
use crate::action::{Lane, Plan};
use crate::hotness::bitmap::Bitmap;
use crate::placement::View;
use crate::policy::runs::Runs;
use crate::types::*;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Pages that may be brought in without return: so many, and a share of fast memory.
const TRIAL: (f32, f32) = (2048.0, 0.25);
/// Samples over which pages and returns are averaged, after which there is another trial.
const SPAN: f32 = 16_384.0;

/// Pages that streams bring in, the guests.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// Wait for room; the first one is the next.
    soon: VecDeque<PageId>,
    /// What is in it.
    awaited: Bitmap,
    /// In fast memory, the oldest first.
    guests: VecDeque<PageId>,
    within: Bitmap,
    /// Averages of pages brought in, and of samples that hit guests.
    pages: f32,
    hits: f32,
    pub brought: u64,
}

impl Ahead {
    /// A page is sampled in the order of a stream. `unit` is the first page of what holds it.
    #[inline]
    pub(super) fn sample(&mut self, unit: PageId) {
        if self.within.contains(unit.0) {
            self.hits += 1.0;
        }
    }

    /// Pages for which room is wanted.
    pub(super) fn wanted(&self, view: &View<'_>) -> u64 {
        self.soon.iter().map(|page| u64::from(view.unit(*page).pages)).sum()
    }

    /// Samples pass.
    pub(super) fn pass(&mut self, samples: u64) {
        let keep = (1.0 - samples as f32 / SPAN).max(0.0);
        self.pages *= keep;
        self.hits *= keep;
    }

    /// Samples in order that a page brought in had of late.
    pub(super) fn return_of(&self) -> f32 {
        self.hits / self.pages.max(1.0)
    }

    /// Whether what is brought in is hit as often as `price` says, in samples a page.
    fn pays(&self, price: f32, capacity: PageCount) -> bool {
        let trial = TRIAL.0.min(TRIAL.1 * capacity.0 as f32);
        self.hits >= price * (self.pages - trial)
    }

    /// Takes up what streams reach next, and makes room for it: first by guests that were passed, then by
    /// what is least dense. `price` is in samples a page; `room` is kept free for others.
    pub(super) fn plan(
        &mut self,
        view: &View<'_>,
        densities: &Densities,
        exchange: &mut Exchange,
        sweeps: &[Sweep],
        (price, room, rent): (f32, u64, usize),
        plan: &mut Plan,
    ) {
        let limits = view.limits(TierId::FAST);
        if !self.pays(price, limits.capacity) {
            self.soon.drain(..).for_each(|page| self.awaited.remove(page.0));
            return;
        }
        let most = limits.capacity.saturating_sub(limits.keep_free).0 / 2;
        let mut wanted = self.wanted(view);
        for sweep in sweeps {
            let mut next = sweep.ahead.start;
            while next.0 < sweep.ahead.end() {
                let unit = view.unit(next);
                next = PageId(unit.end());
                let comes = movable(view, unit.start, false).is_some();
                let is_new = comes && !self.awaited.contains(unit.start.0);
                if is_new && wanted + u64::from(unit.pages) <= most {
                    wanted += u64::from(unit.pages);
                    self.soon.push_back(unit.start);
                    self.awaited.insert(unit.start.0);
                }
            }
        }
        let keep = limits.keep_free.0 + room;
        let free = (view.free(TierId::FAST).0 + exchange.leaving(view)).saturating_sub(keep);
        let mut need = wanted.saturating_sub(free);
        let mut leave: Vec<PageRun> = Vec::new();
        let mut stay = VecDeque::new();
        while need > 0
            && let Some(page) = self.guests.pop_front()
        {
            let (state, run) = (view.state(page), view.unit(page));
            let here = state.tier() == Some(TierId::FAST) && run.start == page;
            if state.is_in_flight() || here && is_used(sweeps, run) {
                stay.push_back(page);
                continue;
            }
            self.within.remove(page.0);
            if here {
                need = need.saturating_sub(u64::from(run.pages));
                leave.push(run);
            }
        }
        while let Some(page) = stay.pop_back() {
            self.guests.push_front(page);
        }
        while need > 0
            && let Some(victim) = exchange.victim(view, densities, rent, sweeps)
        {
            if victim.is_too_large(need) {
                exchange.spare(victim);
                break;
            }
            need = need.saturating_sub(u64::from(victim.run.pages));
            leave.push(victim.run);
        }
        exchange.demote(leave, view, plan);
    }

    /// Proposes to bring in what there is room for.
    pub(super) fn land(&mut self, view: &View<'_>, room: u64, plan: &mut Plan) {
        let keep = view.limits(TierId::FAST).keep_free.0 + room;
        let mut free = view.free(TierId::FAST).0.saturating_sub(keep);
        let mut runs = Runs::new(TierId::FAST, Lane::PROMOTE);
        while let Some(&page) = self.soon.front() {
            let come = movable(view, page, false);
            if come.is_some_and(|run| u64::from(run.pages) > free) {
                break;
            }
            self.soon.pop_front();
            self.awaited.remove(page.0);
            let Some(run) = come else { continue };
            free -= u64::from(run.pages);
            self.guests.push_back(page);
            self.within.insert(page.0);
            bring(&mut runs, run, plan);
        }
        let brought = runs.finish(plan);
        self.pages += brought as f32;
        self.brought += brought;
    }

    pub(super) fn bytes(&self) -> Bytes {
        let units = self.soon.capacity() + self.guests.capacity();
        self.within.bytes() + self.awaited.bytes() + Bytes(units as u64 * 4)
    }
}
