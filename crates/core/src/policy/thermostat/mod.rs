//! `thermostat`: Thermostat (Agarwal and Wenisch, ASPLOS '17), cold memory by sampled faults and a budget.
//!
//! A period has three steps. First, a share of the regions of fast memory is drawn and their folios
//! are split. A step later, of the pages accessed in it, at most 50 of each region are armed; another step
//! later, their faults, times the accessed pages for each armed one, tell how often a region was accessed.
//! The coldest are demoted, up to that share of the accesses to slow memory that cost a slowdown of 3 %.
//! All slow memory is armed: where it is accessed more often than that, the most accessed comes back.
//!
//! Not good for: fast memory that is too small for what is hot; it demotes what is cold, however much
//! fits. Departs: a poisoned page faults at each TLB miss there, here at most once in `rearm`;
//! base pages are judged by region, too.

mod sample;
#[cfg(test)]
mod tests;

use super::contract::{MetricSink, PageSize, Policy};
use super::entry::{Entry, Group};
use super::facts::{Facts, Telemetry};
use super::kernel::units;
use super::offer::Offer;
use super::runs::{Room, joined};
use super::settings::Settings;
use super::suited;
use crate::action::{Action, Lane, Plan, Scan};
use crate::budget::Budget;
use crate::event::{AccessBits, Event, Fault, Level};
use crate::params::{Kind, Param};
use crate::placement::View;
use crate::rng::Rng;
use crate::types::*;
use alloc::boxed::Box;
use alloc::vec::Vec;
use sample::{Sample, of};

/// `thermostat`.
pub const ENTRY: Entry = Entry {
    name: "thermostat",
    group: Group::Baselines,
    summary: "demotion of sampled regions whose faults fit a budget of slowdown",
    citation: "Agarwal and Wenisch, Thermostat, ASPLOS '17",
    pages: Some(PageSize::Folio),
    params: &[
        Param::scaled("period", Kind::Duration, "30s", "", "of three steps, for each sample"),
        Param::fixed("share", Kind::Ratio, "0.05", "", "of fast regions in a sample"),
        Param::fixed("poisoned", Kind::Count, "50", "pages", "armed in a region at most"),
        Param::fixed("slowdown", Kind::Ratio, "0.03", "", "that accesses to slow memory may cost"),
        Param::fixed("penalty", Kind::Duration, "1us", "", "what one of them costs"),
        Param::fixed(
            "rearm",
            Kind::Duration,
            "1ms",
            "",
            "until a page that faulted is armed again",
        ),
    ],
    preset: &[],
    suits: suited::anywhere,
    facts: |_| Facts {
        needs: Telemetry { access_bits: true, faults: true, ..Telemetry::default() },
        in_kernel: true,
        ..Facts::default()
    },
    build: |settings, context| Ok(Box::new(Thermostat::new(settings, context))),
};

/// What the step under way is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Nothing is sampled.
    Idle,
    /// The pages of the sample that are accessed are looked for.
    Access,
    /// Their faults are counted.
    Count,
}

/// What has happened, for reports and tests.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    sampled: u64,
    split: u64,
    poisoned: u64,
    sampled_faults: u64,
    slow_faults: u64,
    cold: u64,
    demoted: u64,
    corrections: u64,
    promoted: u64,
    collapsed: u64,
}

/// Thermostat; made by [`ENTRY`].
struct Thermostat {
    rng: Rng,
    /// Length of a step.
    step: Nanos,
    share: f64,
    most: usize,
    rearm: Nanos,
    /// Accesses to slow memory in a period that cost the slowdown allowed.
    allowed: f64,
    now_is: Step,
    next_step: Nanos,
    next_rearm: Nanos,
    /// Regions drawn, by number.
    samples: Vec<Sample>,
    /// Faults of a region's slow pages in this period.
    slow_faults: Vec<u32>,
    /// Pages that faulted and shall again.
    again: Vec<PageId>,
    /// Folios split for a sample that is over.
    broken: Vec<Region>,
    counters: Counters,
}

impl Thermostat {
    fn new(settings: &Settings, context: &Offer) -> Self {
        let period = settings.duration("period");
        let step = Nanos((period.0 / 3).max(1));
        let penalty = settings.duration("penalty").0.max(1) as f64;
        Self {
            rng: Rng::new(context.seed),
            step,
            share: settings.number("share"),
            most: usize::try_from(settings.count("poisoned").max(1)).unwrap_or(usize::MAX),
            rearm: Nanos(settings.duration("rearm").0.max(1)),
            allowed: settings.number("slowdown") * period.0 as f64 / penalty,
            now_is: Step::Idle,
            next_step: step,
            next_rearm: Nanos(0),
            samples: Vec::new(),
            slow_faults: Vec::new(),
            again: Vec::new(),
            broken: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// Draws regions that have fast pages, and splits their folios.
    fn draw(&mut self, view: &View<'_>, plan: &mut Plan) {
        let regions = (0..view.pages() / HUGE_PAGES).map(Region);
        let mut fast: Vec<Region> = regions
            .filter(|region| view.first_in(TierId::FAST, region.run()).is_some())
            .filter(|region| !region.run().iter().any(|page| view.state(page).is_in_flight()))
            .collect();
        let share = (fast.len() as f64 * self.share) as usize;
        let wanted = share.max(1).min(fast.len());
        for i in 0..wanted {
            let other = i + self.rng.below((fast.len() - i) as u64) as usize;
            fast.swap(i, other);
        }
        fast.truncate(wanted);
        fast.sort_unstable();
        self.counters.sampled += wanted as u64;
        for region in fast {
            let was_huge = view.state(region.first()).is_huge();
            if was_huge {
                self.counters.split += 1;
                plan.push(Action::Split { region, lane: Lane::SCAN });
            }
            self.samples.push(Sample::new(region, was_huge));
            scan(region, true, plan);
        }
    }

    /// Has the bits of the sample read.
    fn read(&mut self, plan: &mut Plan) {
        for sample in &mut self.samples {
            sample.begin_reading();
            scan(sample.region(), false, plan);
        }
    }

    /// Arms some of the accessed pages of every region that has been read.
    fn poison(&mut self, late: bool, plan: &mut Plan) {
        for sample in &mut self.samples {
            for page in sample.poison(late, self.most, &mut self.rng) {
                self.counters.poisoned += 1;
                plan.push(Action::Arm { run: PageRun::single(page), lane: Lane::SCAN });
            }
        }
    }

    fn answer(&mut self, bits: &AccessBits) {
        if bits.level == Level::Base
            && let Some(sample) = of(&mut self.samples, bits.run.start.region())
        {
            sample.read(bits);
        }
    }

    fn fault(&mut self, fault: &Fault, view: &View<'_>) {
        let first = view.unit(fault.page).start;
        let region = first.region();
        if of(&mut self.samples, region).is_some_and(|sample| sample.fault(fault.page)) {
            self.counters.sampled_faults += 1;
        } else if fault.tier != TierId::FAST {
            self.counters.slow_faults += 1;
            let faults = &mut self.slow_faults[region.0 as usize];
            *faults = faults.saturating_add(1);
        } else {
            return;
        }
        self.again.push(first);
    }

    /// Where slow memory was accessed too often, its most accessed regions come back.
    fn correct(&mut self, view: &View<'_>, budget: &mut Budget, plan: &mut Plan) {
        let mut left: f64 = self.slow_faults.iter().map(|faults| f64::from(*faults)).sum();
        if left > self.allowed {
            self.counters.corrections += 1;
            let regions = (0..self.slow_faults.len() as u32).map(Region);
            let mut accessed: Vec<(u32, Region)> =
                regions.map(|r| (self.slow_faults[r.0 as usize], r)).filter(|r| r.0 > 0).collect();
            accessed.sort_unstable_by_key(|(faults, region)| (u32::MAX - faults, *region));
            let mut room = Room::of(view, TierId::FAST, budget);
            for (faults, region) in accessed {
                if left <= self.allowed {
                    break;
                }
                left -= f64::from(faults);
                self.counters.promoted += relocate(region, &mut room, view, plan);
            }
        }
        self.slow_faults.fill(0);
    }

    /// Demotes the coldest regions of the sample, as far as its share of what is allowed goes.
    fn classify(&mut self, view: &View<'_>, budget: &mut Budget, plan: &mut Plan) {
        let samples = core::mem::take(&mut self.samples);
        // The armed stay so in no fast page.
        let armed = samples.iter().flat_map(Sample::armed).copied();
        let armed = armed.filter(|page| view.state(*page).is_armed()).map(PageRun::single);
        joined(armed).for_each(|run| plan.push(Action::Disarm { run, lane: Lane::SCAN }));
        self.broken.extend(samples.iter().filter(|s| s.was_huge()).map(Sample::region));
        // Faults were counted in one step of three.
        let mut allowed = self.share * self.allowed / 3.0;
        let mut room = Room::of(view, TierId::FAST.slower(), budget);
        let mut judged: Vec<(f64, Region)> =
            samples.iter().filter_map(|s| Some((s.accesses()?, s.region()))).collect();
        judged.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for (accesses, region) in judged {
            allowed -= accesses;
            if allowed < 0.0 {
                break;
            }
            self.counters.cold += 1;
            self.counters.demoted += relocate(region, &mut room, view, plan);
        }
    }

    /// Makes folios again of what was split for the last sample, where most of it is and there is room.
    fn mend(&mut self, view: &View<'_>, budget: &mut Budget, plan: &mut Plan) {
        let collapsed = &mut self.counters.collapsed;
        self.broken.retain(|region| {
            let mut pages = region.run().iter().map(|page| view.state(page));
            if pages.clone().any(|state| state.is_huge() || !state.is_resident()) {
                return false;
            }
            let fast = pages.clone().filter(|state| state.tier() == Some(TierId::FAST)).count();
            let fast = fast * 2 > HUGE_PAGES as usize;
            let to = if fast { TierId::FAST } else { TierId::FAST.slower() };
            let busy = pages.any(|state| state.is_in_flight());
            if !busy && Room::of(view, to, budget).take(u64::from(HUGE_PAGES)) {
                *collapsed += 1;
                plan.push(Action::Collapse { region: *region, to, lane: Lane::SCAN });
            }
            true
        });
    }

    /// Arms all slow memory that is not armed.
    fn arm_slow(view: &View<'_>, plan: &mut Plan) {
        let slow = units(view).filter(|unit| {
            let state = view.state(unit.start);
            state.tier() != Some(TierId::FAST) && !state.is_armed()
        });
        joined(slow).for_each(|run| plan.push(Action::Arm { run, lane: Lane::SCAN }));
    }

    /// Arms what has faulted, where it is still watched.
    fn rearm(&mut self, view: &View<'_>, plan: &mut Plan) {
        self.again.sort_unstable();
        self.again.dedup();
        let samples = &mut self.samples;
        let watched = self.again.drain(..).filter(|page| {
            let state = view.state(*page);
            let mut sampled = || {
                of(samples, page.region()).is_some_and(|s| s.armed().binary_search(page).is_ok())
            };
            !state.is_armed() && state.tier().is_some_and(|tier| tier != TierId::FAST || sampled())
        });
        let watched = watched.map(|page| view.unit(page));
        joined(watched).for_each(|run| plan.push(Action::Arm { run, lane: Lane::SCAN }));
    }

    fn next_step(&mut self, view: &View<'_>, budget: &mut Budget, plan: &mut Plan) {
        self.now_is = match self.now_is {
            Step::Idle => {
                self.draw(view, plan);
                Step::Access
            }
            Step::Access => {
                self.read(plan);
                Step::Count
            }
            Step::Count => {
                self.correct(view, budget, plan);
                self.classify(view, budget, plan);
                Step::Idle
            }
        };
        Self::arm_slow(view, plan);
    }
}

/// Reads access bits of base pages.
fn scan(region: Region, clear: bool, plan: &mut Plan) {
    let scan = Scan { run: region.run(), clear, level: Level::Base, skip_untouched: false };
    plan.push(Action::Scan { scan, lane: Lane::SCAN });
}

/// Moves what a region has elsewhere, where all of that finds room; gives its pages.
fn relocate(region: Region, room: &mut Room, view: &View<'_>, plan: &mut Plan) -> u64 {
    let to = room.to();
    let elsewhere = |page: &PageId| view.state(*page).tier().is_some_and(|tier| tier != to);
    let pages = region.run().iter().filter(elsewhere).count() as u64;
    if !room.take(pages) {
        return 0;
    }
    let lane = if to == TierId::FAST { Lane::PROMOTE } else { Lane::DEMOTE };
    joined(region.run().iter().filter(elsewhere).map(PageRun::single))
        .for_each(|run| plan.migrate(run, to, lane));
    pages
}

impl Policy for Thermostat {
    fn observe(&mut self, _: Nanos, events: &[Event], view: &View<'_>) {
        let regions = (view.pages() / HUGE_PAGES) as usize;
        self.slow_faults.resize(self.slow_faults.len().max(regions), 0);
        for event in events {
            match event {
                Event::AccessBits(bits) => self.answer(bits),
                Event::Fault(fault) => self.fault(fault, view),
                _ => {}
            }
        }
    }

    fn decide(&mut self, now: Nanos, view: &View<'_>, mut budget: Budget, plan: &mut Plan) {
        if now >= self.next_step {
            self.next_step = now.saturating_add(self.step);
            self.next_step(view, &mut budget, plan);
        } else {
            self.poison(now.0 + self.step.0 / 2 >= self.next_step.0, plan);
            self.rearm(view, plan);
            if self.now_is == Step::Idle && !self.broken.is_empty() {
                self.mend(view, &mut budget, plan);
            }
        }
        self.next_rearm = now.saturating_add(self.rearm);
    }

    fn next_wakeup(&self) -> Option<Nanos> {
        Some(self.next_step.min(self.next_rearm))
    }

    fn metrics(&self, sink: &mut MetricSink<'_>) {
        let c = &self.counters;
        sink("sampled_regions_total", c.sampled as f64);
        sink("splits_proposed_total", c.split as f64);
        sink("collapses_proposed_total", c.collapsed as f64);
        sink("poisoned_pages_total", c.poisoned as f64);
        sink("sampled_faults_total", c.sampled_faults as f64);
        sink("slow_faults_total", c.slow_faults as f64);
        sink("cold_regions_total", c.cold as f64);
        sink("demotions_proposed_pages_total", c.demoted as f64);
        sink("corrections_total", c.corrections as f64);
        sink("promotions_proposed_pages_total", c.promoted as f64);
    }

    fn metadata_bytes(&self) -> Bytes {
        let samples: usize = self.samples.iter().map(Sample::metadata_bytes).sum();
        let words = self.slow_faults.capacity() + self.again.capacity() + self.broken.capacity();
        Bytes((samples + words * 4) as u64)
    }
}
