//! Moving averages, short and long: `arms` (Yadalam et al., ARMS, arXiv 2508.04417, 2025).
//!
//! A page's score is a weighted sum of two moving averages of its samples; those of the highest scores that
//! fill fast memory are hot. The long average weighs more, until a test finds that the hit share has fallen:
//! then the short one. What was hot for several intervals is promoted, if that pays, as bandwidth allows.
//!
//! Not good for: programs that are over within intervals. From the abstract: both averages, cost against
//! benefit, batches by bandwidth; from descriptions: Page-Hinkley's test, both modes, several rounds. Our
//! reading: all numbers, that a page stays hot for as long as it was, batches of a quarter of what is idle,
//! the way back to the first mode, victims that were not sampled first.

mod averages;
mod change;
mod cut;
#[cfg(test)]
mod tests;
mod worth;

use super::contract::{MetricSink, Policy};
use super::entry::{Entry, Group};
use super::facts::{Facts, Telemetry};
use super::offer::Offer;
use super::settings::Settings;
use super::suited;
use crate::action::{Lane, Plan};
use crate::budget::Budget;
use crate::event::{Event, Sample};
use crate::params::{Kind, Param};
use crate::placement::View;
use crate::types::*;
use alloc::boxed::Box;
use alloc::vec::Vec;
use averages::{Averages, Ranked, Weights};
use change::Fall;
use worth::Worth;

/// `arms`.
pub const ENTRY: Entry = Entry {
    name: "arms",
    group: Group::Baselines,
    summary: "scores of two moving averages; the short one counts after a change",
    citation: "Yadalam et al., ARMS, arXiv 2508.04417, 2025",
    pages: None,
    params: &[
        Param::fixed("period", Kind::Count, "5000", "LLC load misses", "per sample"),
        Param::fixed("store-period", Kind::Count, "5000", "retired stores", "per sample; 0 none"),
        Param::scaled("interval", Kind::Duration, "500ms", "", "of averages and of moves"),
        Param::fixed("short", Kind::Ratio, "0.7", "", "part of an interval in the short average"),
        Param::fixed("long", Kind::Ratio, "0.1", "", "part of an interval in the long average"),
        Param::fixed("weight", Kind::Ratio, "0.8", "", "of the average that a mode goes by"),
        Param::fixed("rounds", Kind::Count, "2", "intervals", "that a page is hot before it moves"),
        Param::fixed("tolerated", Kind::Ratio, "0.02", "", "fall of the hit share that is none"),
        Param::fixed("change", Kind::Ratio, "0.15", "", "sum of falls that is a change"),
        Param::fixed(
            "recency",
            Kind::Count,
            "10",
            "intervals",
            "after a change by the short average",
        ),
    ],
    preset: &[],
    suits: suited::period_of_brief_programs,
    facts,
    build: |settings, offer| Ok(Box::new(Arms::new(settings, offer))),
};

/// Pages that are looked at, at most, for those that were not sampled, in one interval.
const LOOKS: usize = 1 << 16;

fn facts(settings: &Settings) -> Facts {
    let needs = Telemetry {
        load_sample_period: settings.period("period"),
        store_sample_period: settings.count_u32("store-period"),
        ..Telemetry::default()
    };
    Facts { needs, ..Facts::default() }
}

/// Constants of a run.
#[derive(Clone, Copy, Debug)]
struct Rules {
    interval: Nanos,
    weight: f32,
    rounds: u8,
    recency: u64,
}

/// What has happened, for reports and tests.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    samples: u64,
    intervals: u64,
    changes: u64,
    promoted: u64,
    demoted: u64,
    unpaid: u64,
    unproved: u64,
}

/// The policy; made by [`ENTRY`].
struct Arms {
    rules: Rules,
    next_wakeup: Nanos,
    since: Nanos,
    averages: Averages,
    worth: Worth,
    fall: Fall,
    /// Intervals that go by the short average yet.
    recent: u64,
    /// Samples of this interval, of fast and of slow memory.
    samples: [u64; 2],
    /// The density from which on pages are hot.
    cut: f32,
    /// Page from which on fast memory is looked through for what was not sampled.
    hand: u32,
    counters: Counters,
}

/// Fast memory that may leave, the coldest first.
struct Victims {
    coldest: Vec<Ranked>,
    next: usize,
}

impl Victims {
    fn peek(&self) -> Option<Ranked> {
        self.coldest.get(self.next).copied()
    }
}

/// What may still be moved in an interval.
struct Batch {
    bytes: Bytes,
    /// Pages of fast memory that are free, and of the next tier.
    free: [u64; 2],
}

impl Arms {
    fn new(settings: &Settings, offer: &Offer) -> Self {
        let interval = Nanos(settings.duration("interval").0.max(1));
        let number = |key| settings.number(key) as f32;
        let alphas = Weights { short: number("short"), long: number("long") };
        let few = |key| u8::try_from(settings.count(key)).unwrap_or(u8::MAX);
        Self {
            rules: Rules {
                interval,
                weight: number("weight"),
                rounds: few("rounds"),
                recency: settings.count("recency"),
            },
            next_wakeup: interval,
            since: Nanos::ZERO,
            averages: Averages::new(alphas, offer.table_pages()),
            worth: Worth::new(offer, settings.period("period")),
            fall: Fall::new(settings.number("tolerated"), settings.number("change")),
            recent: 0,
            samples: [0; 2],
            cut: 0.0,
            hand: 0,
            counters: Counters::default(),
        }
    }

    fn sample(&mut self, sample: &Sample, view: &View<'_>) {
        let Some(tier) = view.state(sample.page).tier() else { return };
        self.counters.samples += 1;
        self.samples[usize::from(tier != TierId::FAST)] += 1;
        self.averages.sample(sample.page, view);
    }

    /// Goes by the short average for a while where the hit share has fallen.
    fn choose_mode(&mut self, [fast, slow]: [u64; 2]) -> Weights {
        self.recent = self.recent.saturating_sub(1);
        if self.fall.add(fast as f64 / (fast + slow) as f64) {
            self.counters.changes += 1;
            self.recent = self.rules.recency;
        }
        let (most, rest) = (self.rules.weight, 1.0 - self.rules.weight);
        match self.recent {
            0 => Weights { short: rest, long: most },
            _ => Weights { short: most, long: rest },
        }
    }

    /// Hot units outside fast memory that have proved to be so, the hottest first, with the intervals for
    /// which they have been, and units of fast memory that are not hot.
    fn divide(&mut self, ranked: Vec<Ranked>, view: &View<'_>) -> (Vec<(Ranked, u8)>, Vec<Ranked>) {
        let rounds = if self.recent > 0 { 1 } else { self.rules.rounds };
        let (mut hot, mut cold) = (Vec::new(), Vec::new());
        for unit in ranked {
            let is_hot = unit.density >= self.cut && unit.density > 0.0;
            let been = self.averages.note_rank(unit.page, is_hot);
            let state = view.state(unit.page);
            let is_fast = state.tier() == Some(TierId::FAST);
            match (is_hot, is_fast) {
                _ if state.is_in_flight() => {}
                (true, false) if been < rounds => self.counters.unproved += 1,
                (true, false) => hot.push((unit, been)),
                (false, true) => cold.push(unit),
                _ => {}
            }
        }
        hot.sort_unstable_by(|(a, _), (b, _)| b.density.total_cmp(&a.density));
        cold.sort_unstable_by(|a, b| a.density.total_cmp(&b.density));
        (hot, cold)
    }

    /// About `wanted` pages of fast memory that were not sampled.
    fn unsampled(&mut self, wanted: u64, view: &View<'_>) -> Vec<Ranked> {
        let (mut found, mut pages, mut looks) = (Vec::new(), 0, LOOKS);
        let start = self.hand.min(view.pages());
        let rounds = [PageRun::between(start, view.pages()), PageRun::between(0, start)];
        for page in rounds.into_iter().flat_map(|run| view.pages_in(TierId::FAST, run)) {
            let unit = view.unit(page);
            if pages >= wanted || looks == 0 {
                break;
            }
            (self.hand, looks) = (unit.end(), looks - 1);
            if !self.averages.knows(unit.start) && !view.state(page).is_in_flight() {
                pages += u64::from(unit.pages);
                found.push(Ranked { page: unit.start, pages: unit.pages, density: 0.0 });
            }
        }
        found
    }

    fn demote_next(
        &mut self,
        victims: &mut Victims,
        batch: &mut Batch,
        view: &View<'_>,
        plan: &mut Plan,
    ) -> bool {
        let Some(victim) = victims.peek() else { return false };
        let run = view.unit(victim.page);
        let pages = u64::from(run.pages);
        if run.bytes() > batch.bytes || pages > batch.free[1] {
            return false;
        }
        batch.bytes = batch.bytes.saturating_sub(run.bytes());
        batch.free[1] -= pages;
        victims.next += 1;
        self.counters.demoted += pages;
        plan.migrate(run, TierId::FAST.slower(), Lane::DEMOTE);
        true
    }

    /// Proposes a hot unit, or room for it; whether there may be more.
    fn promote(
        &mut self,
        (hot, been): (Ranked, u8),
        victims: &mut Victims,
        batch: &mut Batch,
        view: &View<'_>,
        plan: &mut Plan,
    ) -> bool {
        let (run, pages) = (view.unit(hot.page), u64::from(hot.pages));
        let fits = pages <= batch.free[0];
        let victim = victims.peek().filter(|_| !fits);
        let gain = hot.density - victim.map_or(0.0, |victim| victim.density);
        if !self.worth.pays(hot.pages, gain, been) {
            self.counters.unpaid += 1;
            return true;
        }
        if fits && run.bytes() <= batch.bytes {
            batch.bytes = batch.bytes.saturating_sub(run.bytes());
            batch.free[0] -= pages;
            self.counters.promoted += pages;
            plan.migrate(run, TierId::FAST, Lane::PROMOTE);
            return true;
        }
        let Some(victim) = victim else { return false };
        if victim.pages != hot.pages {
            // The room that they leave is for the next interval.
            let mut pages = pages;
            while pages > 0 && self.demote_next(victims, batch, view, plan) {
                pages = pages.saturating_sub(u64::from(victim.pages));
            }
            return pages == 0;
        }
        if run.bytes() + run.bytes() > batch.bytes {
            return false;
        }
        batch.bytes = batch.bytes.saturating_sub(run.bytes() + run.bytes());
        victims.next += 1;
        self.counters.promoted += pages;
        self.counters.demoted += pages;
        plan.exchange(run, view.unit(victim.page), Lane::PROMOTE);
        true
    }

    fn plan(
        &mut self,
        samples: [u64; 2],
        took: Nanos,
        view: &View<'_>,
        most: Bytes,
        plan: &mut Plan,
    ) {
        let limits = view.limits(TierId::FAST);
        let weights = self.choose_mode(samples);
        let ranked = self.averages.end_interval(weights, view);
        self.cut = cut::cut(&ranked, limits.capacity.saturating_sub(limits.keep_free).0);
        let (hot, cold) = self.divide(ranked, view);
        let free = |tier| view.free(tier).saturating_sub(view.limits(tier).keep_free).0;
        let mut batch = Batch {
            bytes: self.worth.batch(samples, took).min(most),
            free: [TierId::FAST, TierId::FAST.slower()].map(free),
        };
        let over = view.over(TierId::FAST).0;
        let wanted = over + hot.iter().map(|(unit, _)| u64::from(unit.pages)).sum::<u64>();
        let wanted = wanted.min(batch.bytes.0 / PAGE_BYTES);
        let mut coldest = self.unsampled(wanted, view);
        coldest.extend(cold);
        let mut victims = Victims { coldest, next: 0 };
        let demoted = self.counters.demoted;
        while self.counters.demoted - demoted < over
            && self.demote_next(&mut victims, &mut batch, view, plan)
        {}
        for one in hot {
            if !self.promote(one, &mut victims, &mut batch, view, plan) {
                break;
            }
        }
    }
}

impl Policy for Arms {
    fn observe(&mut self, _: Nanos, events: &[Event], view: &View<'_>) {
        self.averages.grow(view.pages());
        for event in events {
            match event {
                Event::Sample(sample) => self.sample(sample, view),
                Event::Unmapped { run } | Event::Freed { run } => self.averages.forget(*run),
                Event::Remapped { from, to } => {
                    self.averages.forget(*from);
                    self.averages.forget(PageRun { start: *to, pages: from.pages });
                }
                Event::SplitDone { region, split: true } => self.averages.split(*region),
                Event::CollapseDone { region, tier: Some(_) } => self.averages.collapse(*region),
                _ => {}
            }
        }
    }

    fn decide(&mut self, now: Nanos, view: &View<'_>, budget: Budget, plan: &mut Plan) {
        self.next_wakeup = now.saturating_add(self.rules.interval);
        let took = now.saturating_sub(self.since);
        // A program that rests stays as it was.
        if self.samples == [0; 2] {
            return;
        }
        self.since = now;
        self.counters.intervals += 1;
        let samples = core::mem::take(&mut self.samples);
        self.averages.grow(view.pages());
        self.plan(samples, took, view, budget.remaining, plan);
    }

    fn next_wakeup(&self) -> Option<Nanos> {
        Some(self.next_wakeup)
    }

    fn metrics(&self, sink: &mut MetricSink<'_>) {
        let c = &self.counters;
        for (name, value) in [
            ("samples_total", c.samples),
            ("intervals_total", c.intervals),
            ("changes_total", c.changes),
            ("intervals_of_recency_left", self.recent),
            ("promotions_proposed_pages_total", c.promoted),
            ("demotions_proposed_pages_total", c.demoted),
            ("promotions_unpaid_total", c.unpaid),
            ("promotions_unproved_total", c.unproved),
        ] {
            sink(name, value as f64);
        }
        sink("hot_samples_per_page", f64::from(self.cut));
    }

    fn metadata_bytes(&self) -> Bytes {
        self.averages.bytes()
    }
}
