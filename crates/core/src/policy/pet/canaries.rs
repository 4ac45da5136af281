//! Canaries: pages of a block that fault at their next touch, and what a fault of one says (section 4.2).
//!
//! A world may have fewer places for them than are wanted; all blocks then have the same part of what they want, and each
//! fault counts for more. Where pages fault by themselves, canary or not, each fault counts for less.

use super::blocks::{Block, Faults, State};
use super::units::units_in;
use crate::action::{Action, Lane, Plan};
use crate::placement::View;
use crate::policy::telemetry::{self, Offered};
use crate::rng::Rng;
use crate::types::*;

/// How a touch was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touch {
    /// The page was not there.
    First,
    /// It was in memory, and faulted.
    Fault,
    /// It was in swap space.
    Swap,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Canaries {
    /// Part of a block's pages.
    share: f64,
    /// Pages in memory fault only where they are canaries, wherever they lie.
    only_canaries: bool,
    /// Folios have to be split first.
    splits: bool,
    /// How many there can be.
    places: u64,
    /// Part of what is wanted for which there are places.
    part: f64,
    /// Pages released since the start.
    pub(super) released: u64,
}

impl Canaries {
    /// A share of all pages, of 0 to 1, in a world that offers this.
    pub(super) fn new(share: f64, offered: &Offered) -> Self {
        use telemetry::Faults::{Any, Hints, Never, Slower, Swap};
        Self {
            share,
            only_canaries: match offered.faults {
                Any | Slower | Never => true,
                Hints | Swap => false,
            },
            splits: matches!(offered.faults, Slower | Hints),
            places: offered.most_armed.map_or(u64::MAX, |most| most.0),
            part: 1.0,
            released: 0,
        }
    }

    /// Counts a touch of a demoted block; as how many of a full share of canaries.
    pub(super) fn count(&self, touch: Touch, faults: &mut Faults) -> f64 {
        let weight = match touch {
            Touch::Fault if self.only_canaries => faults.weight,
            _ => self.share,
        };
        faults.canaries += u64::from(touch != Touch::First);
        faults.counted += weight;
        weight
    }

    /// Shares the places that there are among blocks that have canaries, or may soon have.
    pub(super) fn share_places(&mut self, blocks: &[Block]) {
        let may = |block: &&Block| !matches!(block.state, State::Normal(_));
        let pages: f64 = blocks.iter().filter(may).map(|block| f64::from(block.run.pages)).sum();
        self.part = (self.places as f64 / (pages * self.share).max(1.0)).min(1.0);
    }

    /// Has the folios of a run split, where they have to be; whether there are any.
    pub(super) fn split(&self, run: PageRun, view: &View<'_>, plan: &mut Plan) -> bool {
        let mut any = false;
        for unit in units_in(run, view).filter(|unit| self.splits && unit.pages > 1) {
            any = true;
            if !view.state(unit.start).is_in_flight() {
                plan.push(Action::Split { region: unit.start.region(), lane: Lane::DEMOTE });
            }
        }
        any
    }

    /// Whether the next touch of these pages will be told.
    fn is_out(&self, unit: PageRun, view: &View<'_>) -> bool {
        let state = view.state(unit.start);
        let there = self.only_canaries || state.tier() != Some(TierId::FAST);
        state.is_armed() && !state.is_in_flight() && there
    }

    /// Canaries of a run that are out, in pages.
    pub(super) fn out(&self, run: PageRun, view: &View<'_>) -> u64 {
        let out = units_in(run, view).filter(|unit| self.is_out(*unit, view));
        out.map(|unit| u64::from(unit.pages)).sum()
    }

    /// Has the share of a run's pages fault, chosen at random, beside those that do. They are demoted, unless they
    /// lie in slow memory anyway. Where more do than there are places for, some are let go.
    pub(super) fn release(
        &mut self,
        run: PageRun,
        rng: &mut Rng,
        view: &View<'_>,
        plan: &mut Plan,
    ) {
        let at_rest = || units_in(run, view).filter(|unit| !view.state(unit.start).is_in_flight());
        let is_armed = |unit: &PageRun| view.state(unit.start).is_armed();
        let (armed, all) = at_rest()
            .fold((0, 0), |(armed, all), unit| (armed + u64::from(is_armed(&unit)), all + 1));
        let wanted = libm::ceil(all as f64 * self.share * self.part) as u64;
        let more = wanted >= armed;
        let mut left = if more { all - armed } else { armed };
        let mut changed = wanted.abs_diff(armed);
        for unit in at_rest().filter(|unit| is_armed(unit) != more) {
            if rng.below(left) < changed {
                changed -= 1;
                match more {
                    true => self.arm(unit, view, plan),
                    false => plan.push(Action::Disarm { run: unit, lane: Lane::DEMOTE }),
                }
            }
            left -= 1;
        }
    }

    fn arm(&mut self, unit: PageRun, view: &View<'_>, plan: &mut Plan) {
        if view.state(unit.start).tier() == Some(TierId::FAST) {
            plan.migrate(unit, TierId::FAST.slower(), Lane::DEMOTE);
        }
        plan.push(Action::Arm { run: unit, lane: Lane::DEMOTE });
        self.released += u64::from(unit.pages);
    }

    /// Has a demoted block's canaries out again that were touched, and counts by as many as there really were;
    /// whether there were none, for the second time.
    pub(super) fn renew(
        &mut self,
        run: PageRun,
        faults: &mut Faults,
        rng: &mut Rng,
        view: &View<'_>,
        plan: &mut Plan,
    ) -> bool {
        let pages: u64 = units_in(run, view).map(|unit| u64::from(unit.pages)).sum();
        let were_out = self.out(run, view) + core::mem::take(&mut faults.canaries);
        let is_blind = were_out == 0 && pages > 0;
        if core::mem::replace(&mut faults.blind, is_blind) && is_blind {
            return true;
        }
        faults.weight = match were_out {
            0 => 1.0,
            _ => self.share * pages as f64 / were_out as f64,
        };
        self.release(run, rng, view, plan);
        false
    }
}
