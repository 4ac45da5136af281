//! Policies that know the future: `oracle-static` and `oracle-epoch`.
//!
//! `oracle-static` places the pages that save most over the whole trace in fast memory when they
//! are allocated, and never moves anything. `oracle-epoch` moves, every `horizon` epochs, the pages
//! that save most in these into fast memory and pays for the moves: a page changes places with
//! another only where that saves more within the horizon than both moves cost. Neither is a bound
//! (see `frostline bound` for one): the first cannot adapt, the second looks no further. Where memory comes in folios, both rank folios by the sum over their pages.

use super::contract::{Allocation, Home, Policy, PolicyError};
use super::entry::{Entry, Group};
use super::facts::{Facts, Telemetry};
use super::offer::Offer;
use super::oracle::{EpochReader, Oracle};
use super::runs::Room;
use super::settings::Settings;
use super::suited;
use crate::action::{Lane, Plan};
use crate::budget::Budget;
use crate::event::Event;
use crate::hotness::bitmap::Bitmap;
use crate::params::{Kind, Param};
use crate::placement::{PageState, View};
use crate::types::*;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// `oracle-static`.
pub const ORACLE_STATIC: Entry = Entry {
    name: "oracle-static",
    group: Group::Offline,
    summary: "the pages that save most over the whole trace, placed once",
    citation: "offline reference",
    pages: None,
    params: &[],
    preset: &[],
    suits: suited::anywhere,
    facts,
    build: |settings, context| {
        let oracle = oracle(settings, context)?;
        Ok(Box::new(OracleStatic { oracle, wanted: None }))
    },
};

/// `oracle-epoch`.
pub const ORACLE_EPOCH: Entry = Entry {
    name: "oracle-epoch",
    group: Group::Offline,
    summary: "the pages that save most in the coming epochs, paying for the moves",
    citation: "offline reference",
    pages: None,
    params: &[Param::fixed(
        "horizon",
        Kind::Count,
        "16",
        "epochs",
        "epochs of the trace that are planned together; moves are made when they begin",
    )],
    preset: &[],
    suits: suited::anywhere,
    facts,
    build: |settings, context| {
        let oracle = oracle(settings, context)?;
        Ok(Box::new(OracleEpoch {
            horizon: settings.count("horizon").max(1),
            oracle,
            epochs: None,
            epoch: 0,
            coming: None,
            wanted: None,
            promotions: Vec::new(),
            wake: None,
            swaps_refused: 0,
        }))
    },
};

fn facts(_: &Settings) -> Facts {
    let needs = Telemetry { offline: true, ..Telemetry::default() };
    Facts { needs, ..Facts::default() }
}

/// The knowledge that an offline policy is made with.
pub(super) fn oracle(settings: &Settings, context: &Offer) -> Result<Arc<dyn Oracle>, PolicyError> {
    context.oracle.clone().ok_or_else(|| PolicyError {
        what: alloc::format!(
            "{} needs to know the whole trace\nhint: offline policies run in the simulator only",
            settings.name()
        ),
    })
}

/// The best pages and the best folios for a given room.
struct Wanted {
    pages: Bitmap,
    regions: Bitmap,
}

impl Wanted {
    fn choose(capacity: PageCount, pages: &Sums) -> Self {
        let mut regions = Sums::default();
        pages.iter().for_each(|(page, ns)| regions.add(page / HUGE_PAGES, ns));
        Self {
            pages: top(pages, capacity.0),
            regions: top(&regions, capacity.0 / u64::from(HUGE_PAGES)),
        }
    }

    fn tier(&self, allocation: &Allocation) -> TierId {
        let first = allocation.run.start;
        let wanted = if allocation.huge {
            self.regions.contains(first.region().0)
        } else {
            self.pages.contains(first.0)
        };
        if wanted { TierId::FAST } else { TierId::FAST.slower() }
    }

    fn bytes(&self) -> Bytes {
        self.pages.bytes() + self.regions.bytes()
    }
}

/// Savings summed by unit: a page, or a region.
#[derive(Default)]
struct Sums {
    /// By unit; negative where nothing was added.
    by_unit: Vec<f64>,
}

impl Sums {
    const NOTHING: f64 = -1.0;

    fn add(&mut self, unit: u32, saving_ns: f64) {
        let at = unit as usize;
        if at >= self.by_unit.len() {
            self.by_unit.resize((at + 1).next_multiple_of(HUGE_PAGES as usize), Self::NOTHING);
        }
        let sum = &mut self.by_unit[at];
        *sum = sum.max(0.0) + saving_ns;
    }

    /// The sum of a unit, 0 where nothing was added.
    fn get(&self, unit: u32) -> f64 {
        self.by_unit.get(unit as usize).map_or(0.0, |sum| sum.max(0.0))
    }

    fn bytes(&self) -> Bytes {
        Bytes((self.by_unit.capacity() * size_of::<f64>()) as u64)
    }

    /// Units and their sums, ascending by unit.
    fn iter(&self) -> impl Iterator<Item = (u32, f64)> {
        (0..).zip(self.by_unit.iter().copied()).filter(|(_, sum)| *sum >= 0.0)
    }
}

/// The `k` units with the largest savings; equal ones by ascending id.
fn top(sums: &Sums, k: u64) -> Bitmap {
    let mut units: Vec<(u32, f64)> = sums.iter().collect();
    let k = usize::try_from(k).unwrap_or(usize::MAX);
    if k < units.len() {
        units.select_nth_unstable_by(k, |a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        units.truncate(k);
    }
    let mut out = Bitmap::default();
    units.iter().for_each(|(unit, _)| out.insert(*unit));
    out
}

struct OracleStatic {
    oracle: Arc<dyn Oracle>,
    wanted: Option<Wanted>,
}

impl Policy for OracleStatic {
    fn place(&mut self, _: Nanos, allocation: &Allocation, view: &View<'_>) -> Home {
        let choose = || {
            let mut pages = Sums::default();
            self.oracle.totals(&mut |s| pages.add(s.page.0, s.saving_ns));
            Wanted::choose(view.limits(TierId::FAST).capacity, &pages)
        };
        self.wanted.get_or_insert_with(choose).tier(allocation).into()
    }
    fn metadata_bytes(&self) -> Bytes {
        self.wanted.as_ref().map_or(Bytes::ZERO, Wanted::bytes)
    }
}

struct OracleEpoch {
    oracle: Arc<dyn Oracle>,
    horizon: u64,
    epochs: Option<EpochReader>,
    /// The first of those that are planned now.
    epoch: u64,
    /// Of the epochs planned now, from the first need until the moves are planned.
    coming: Option<Coming>,
    /// Of the epochs planned now.
    wanted: Option<Wanted>,
    /// Units of the current plan still to be promoted, the best last.
    promotions: Vec<PageRun>,
    wake: Option<Nanos>,
    swaps_refused: u64,
}

/// What pages and regions save in the coming epochs.
#[derive(Default)]
struct Coming {
    pages: Sums,
    regions: Sums,
}

/// A page or folio that could change places.
struct Unit {
    run: PageRun,
    saving_ns: f64,
}

impl Unit {
    fn density(&self) -> f64 {
        self.saving_ns / f64::from(self.run.pages)
    }
}

impl OracleEpoch {
    /// Movable units inside and outside fast memory; outside only those that are accessed.
    fn units(coming: &Coming, view: &View<'_>) -> (Vec<Unit>, Vec<Unit>) {
        let (mut inside, mut outside) = (Vec::new(), Vec::new());
        let mut next = 0;
        while next < view.pages() {
            let page = PageId(next);
            let state: PageState = view.state(page);
            let (run, saving_ns) = match state.is_huge() {
                true => (page.region().run(), coming.regions.get(page.region().0)),
                false => (PageRun::single(page), coming.pages.get(page.0)),
            };
            next = run.end();
            match state.tier() {
                Some(TierId::FAST) if !state.is_in_flight() => inside.push(Unit { run, saving_ns }),
                Some(tier) if tier != TierId::FAST && saving_ns > 0.0 && !state.is_in_flight() => {
                    outside.push(Unit { run, saving_ns });
                }
                _ => {}
            }
        }
        (inside, outside)
    }

    fn plan_epoch(&mut self, coming: &Coming, view: &View<'_>, plan: &mut Plan) {
        let (mut inside, mut outside) = Self::units(coming, view);
        let (promotion, demotion) =
            (self.oracle.promotion_cost_ns(), self.oracle.demotion_cost_ns());
        let best_first = |a: &Unit, b: &Unit| {
            b.density().total_cmp(&a.density()).then(a.run.start.cmp(&b.run.start))
        };
        outside.sort_unstable_by(best_first);
        inside.sort_unstable_by(best_first);
        let keep_free = view.limits(TierId::FAST).keep_free;
        let mut room = view.free(TierId::FAST).saturating_sub(keep_free).0;
        self.promotions.clear();
        for candidate in outside {
            let pages = u64::from(candidate.run.pages);
            let (mut victims, mut found, mut cost) = (inside.len(), room, pages as f64 * promotion);
            while found < pages && victims > 0 {
                victims -= 1;
                let victim = &inside[victims];
                found += u64::from(victim.run.pages);
                cost += victim.saving_ns + f64::from(victim.run.pages) * demotion;
            }
            if found < pages || candidate.saving_ns <= cost {
                self.swaps_refused += 1;
                // A smaller unit further down may still pay where folios and pages are mixed.
                if candidate.run.pages == 1 {
                    break;
                }
                continue;
            }
            for victim in inside.drain(victims..) {
                plan.migrate(victim.run, TierId::FAST.slower(), Lane::DEMOTE);
            }
            room = found - pages;
            self.promotions.push(candidate.run);
        }
        self.promotions.reverse();
    }
}

impl Policy for OracleEpoch {
    fn observe(&mut self, now: Nanos, events: &[Event], _: &View<'_>) {
        for event in events {
            match event {
                Event::Epoch { number } if number.is_multiple_of(self.horizon) => {
                    self.epoch = *number;
                    self.coming = None;
                    self.wanted = None;
                    self.wake = Some(now);
                }
                Event::MigrationDone { .. } if !self.promotions.is_empty() => {
                    self.wake = Some(now);
                }
                _ => {}
            }
        }
    }
    fn decide(&mut self, _: Nanos, view: &View<'_>, mut budget: Budget, plan: &mut Plan) {
        self.wake = None;
        if self.wanted.is_none() {
            let coming = self.take_coming();
            self.wanted = Some(Self::choose(&coming, view));
            self.plan_epoch(&coming, view, plan);
        }
        let mut room = Room::of(view, TierId::FAST, &mut budget);
        while let Some(run) = self.promotions.last().copied() {
            if !room.take(run.pages) {
                break;
            }
            self.promotions.pop();
            plan.migrate(run, TierId::FAST, Lane::PROMOTE);
        }
    }
    fn next_wakeup(&self) -> Option<Nanos> {
        self.wake
    }
    fn place(&mut self, _: Nanos, allocation: &Allocation, view: &View<'_>) -> Home {
        match &self.wanted {
            Some(wanted) => wanted.tier(allocation).into(),
            None => {
                let coming = self.take_coming();
                let wanted = Self::choose(&coming, view);
                let tier = wanted.tier(allocation);
                // Kept only where the epoch's moves are not waiting for it to be chosen.
                if self.wake.is_none() {
                    self.wanted = Some(wanted);
                } else {
                    self.coming = Some(coming);
                }
                tier.into()
            }
        }
    }
    fn metrics(&self, sink: &mut super::MetricSink<'_>) {
        sink("swaps_refused_total", self.swaps_refused as f64);
    }
    fn metadata_bytes(&self) -> Bytes {
        let queue = Bytes((self.promotions.capacity() * size_of::<PageRun>()) as u64);
        let wanted = self.wanted.as_ref().map_or(Bytes::ZERO, Wanted::bytes);
        let coming = self.coming.as_ref();
        queue + wanted + coming.map_or(Bytes::ZERO, |c| c.pages.bytes() + c.regions.bytes())
    }
}

impl OracleEpoch {
    fn choose(coming: &Coming, view: &View<'_>) -> Wanted {
        Wanted::choose(view.limits(TierId::FAST).capacity, &coming.pages)
    }

    /// What the epochs planned now save; read unless they have been already.
    fn take_coming(&mut self) -> Coming {
        if let Some(coming) = self.coming.take() {
            return coming;
        }
        let read = self.epochs.get_or_insert_with(|| self.oracle.epochs());
        let mut coming = Coming::default();
        for number in self.epoch..self.epoch.saturating_add(self.horizon) {
            let there = read(number, &mut |s| {
                coming.pages.add(s.page.0, s.saving_ns);
                coming.regions.add(s.page.region().0, s.saving_ns);
            });
            if !there {
                break;
            }
        }
        coming
    }
}
