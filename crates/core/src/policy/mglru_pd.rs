//! `mglru-pd`: PET's Base+PD, the kernel's tiering that also demotes ahead of need, by generations.
//!
//! Every `aging` all access bits are read and cleared: what was accessed is of the youngest generation,
//! everything else one older. Fast pages of the oldest generation are demoted, however much is free.
//! Promotion, and demotion where promotions find no room, are `autonuma`'s.
//!
//! Not good for: large memories, all of whose bits are read. Departs: the kernel's generations are
//! lists that pages also change when they are reclaimed; here a page's is the number of agings since
//! it was accessed, and `autonuma`, which demotes where fast memory runs short, keeps its own beside them.

#[cfg(test)]
mod tests;

use super::autonuma;
use super::contract::{
    Allocation, BoxedPolicy, FaultDecision, Home, MetricSink, Policy, PolicyError,
};
use super::entry::{Entry, Group};
use super::facts::{Facts, Telemetry};
use super::kernel::{scan_all, units};
use super::offer::Offer;
use super::runs::{Room, Runs};
use super::settings::Settings;
use super::suited;
use crate::action::{Lane, Plan};
use crate::budget::Budget;
use crate::event::{AccessBits, Event, Fault};
use crate::params::{Kind, Param};
use crate::placement::View;
use crate::types::*;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// `mglru-pd`.
pub const ENTRY: Entry = Entry {
    name: "mglru-pd",
    group: Group::Baselines,
    summary: "autonuma that also demotes, every 10 s, what was not accessed for three such times",
    citation: "Doh et al., PET, EuroSys '25 (Base+PD)",
    pages: None,
    params: &[
        Param::scaled("aging", Kind::Duration, "10s", "", "interval of a new generation"),
        Param::fixed("generations", Kind::Count, "4", "", "the oldest of which is demoted"),
    ],
    preset: &[],
    suits: suited::anywhere,
    facts,
    build: |settings, context| Ok(Box::new(MglruPd::new(settings, context)?)),
};

fn facts(_: &Settings) -> Facts {
    let needs = Telemetry { faults: true, access_bits: true, ..Telemetry::default() };
    Facts { needs, in_kernel: true, ..Facts::default() }
}

/// Base+PD; made by [`ENTRY`].
struct MglruPd {
    base: BoxedPolicy,
    aging: Nanos,
    /// Agings without access that make a unit one of the oldest generation.
    oldest: u8,
    next_aging: Nanos,
    /// Agings since a unit was accessed, at its first page.
    ages: Vec<u8>,
    agings: u64,
    demoted: u64,
}

impl MglruPd {
    fn new(settings: &Settings, context: &Offer) -> Result<Self, PolicyError> {
        let aging = Nanos(settings.duration("aging").0.max(1));
        let pages = usize::try_from(context.table_pages().0).unwrap_or(0);
        Ok(Self {
            base: autonuma::ENTRY.plain(context)?,
            aging,
            oldest: settings.count("generations").clamp(2, 255) as u8 - 1,
            next_aging: aging,
            ages: Vec::with_capacity(pages),
            agings: 0,
            demoted: 0,
        })
    }

    fn answer(&mut self, bits: &AccessBits) {
        for (page, accessed) in bits.units() {
            if let Some(age) = self.ages.get_mut(page.index()) {
                *age = if accessed { 0 } else { age.saturating_add(1) };
            }
        }
    }

    /// Demotes the oldest generation, and has all bits read for the next one.
    fn age(&mut self, view: &View<'_>, budget: &mut Budget, plan: &mut Plan) {
        let to = TierId::FAST.slower();
        let mut room = Room::of(view, to, budget);
        let mut runs = Runs::new(to, Lane::DEMOTE);
        for unit in units(view) {
            let state = view.state(unit.start);
            let leaves = state.tier() == Some(TierId::FAST)
                && !state.is_in_flight()
                && self.ages.get(unit.start.index()).is_some_and(|age| *age >= self.oldest);
            if !leaves {
                continue;
            }
            if !room.take(unit.pages) {
                break;
            }
            runs.push(unit, plan);
        }
        self.demoted += runs.finish(plan);
        self.agings += 1;
        scan_all(view, plan);
    }
}

impl Policy for MglruPd {
    fn observe(&mut self, now: Nanos, events: &[Event], view: &View<'_>) {
        self.ages.resize(self.ages.len().max(view.pages() as usize), 0);
        for event in events {
            match event {
                Event::AccessBits(bits) => self.answer(bits),
                Event::Populated { run, .. } => self.ages[run.range()].fill(0),
                Event::SplitDone { region, split: true } => {
                    let age = self.ages[region.first().index()];
                    self.ages[region.run().range()].fill(age);
                }
                Event::Remapped { from, to } => self.ages.copy_within(from.range(), to.index()),
                // It comes to where it was wanted.
                Event::Moved { run, to: TierId::FAST, .. } => self.ages[run.range()].fill(0),
                _ => {}
            }
        }
        self.base.observe(now, events, view);
    }

    fn decide(&mut self, now: Nanos, view: &View<'_>, mut budget: Budget, plan: &mut Plan) {
        if now >= self.next_aging {
            self.next_aging = now.saturating_add(self.aging);
            self.age(view, &mut budget, plan);
        }
        self.base.decide(now, view, budget, plan);
    }

    fn next_wakeup(&self) -> Option<Nanos> {
        let base = self.base.next_wakeup();
        Some(base.map_or(self.next_aging, |base| base.min(self.next_aging)))
    }

    fn on_fault(&mut self, now: Nanos, fault: &Fault, view: &View<'_>) -> FaultDecision {
        self.base.on_fault(now, fault, view)
    }

    fn place(&mut self, now: Nanos, allocation: &Allocation, view: &View<'_>) -> Home {
        self.base.place(now, allocation, view)
    }

    fn metrics(&self, sink: &mut MetricSink<'_>) {
        sink("agings_total", self.agings as f64);
        sink("oldest_demoted_pages_total", self.demoted as f64);
        self.base.metrics(sink);
    }

    fn metadata_bytes(&self) -> Bytes {
        Bytes(self.ages.capacity() as u64) + self.base.metadata_bytes()
    }
}
