//! `tmts`: Google's tiering (Duraisamy et al., ASPLOS '23), ages by scans and promotion by samples.
//!
//! All access bits are read and cleared every `scan`; a page's age is the number of scans since it was
//! accessed. A slow page is promoted when it is sampled once or accessed in two scans in a row. At
//! each scan the histogram of the ages at which pages were accessed again gives the least age from
//! which on so few were that it is within `target`; fast pages of that age are demoted, folios split.
//!
//! Not good for: hot sets larger than fast memory, which it was not made for. Departs: where promotions
//! wait for room, the oldest idle fast pages are demoted; interval and target are ours, following
//! Lagar-Cavilla et al. (ASPLOS '19). Not modelled: hints by programs, cluster scheduling.

#[cfg(test)]
mod tests;

use super::contract::{MetricSink, Policy};
use super::entry::{Entry, Group};
use super::facts::{Facts, Telemetry};
use super::kernel::{scan_all, units};
use super::offer::Offer;
use super::runs::{Room, Runs};
use super::settings::Settings;
use super::suited;
use crate::action::{Action, Lane, Plan};
use crate::budget::Budget;
use crate::event::{AccessBits, Event, Level, Sample};
use crate::hotness::bitmap::Bitmap;
use crate::params::{Kind, Param};
use crate::placement::View;
use crate::types::*;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// `tmts`.
pub const ENTRY: Entry = Entry {
    name: "tmts",
    group: Group::Baselines,
    summary: "promotion by one sample or two scans, demotion by age, which follows re-accesses",
    citation: "Duraisamy et al., TMTS, ASPLOS '23",
    pages: None,
    params: &[
        Param::scaled("scan", Kind::Duration, "30s", "", "interval of scans"),
        Param::fixed("target", Kind::Ratio, "0.005", "", "re-accesses that may be of demoted age"),
        Param::fixed("least-age", Kind::Count, "2", "scans", "of pages that are demoted"),
        Param::scaled("wakeup", Kind::Duration, "1s", "", "interval of moves"),
        Param::fixed("period", Kind::Count, "5000", "LLC load misses", "per sample"),
        Param::fixed("split", Kind::Switch, "on", "", "split folios that are demoted"),
    ],
    preset: &[],
    suits: suited::period_of_brief_programs,
    facts,
    build: |settings, context| Ok(Box::new(Tmts::new(settings, context))),
};

/// Oldest age that is told apart.
const OLDEST: u8 = 255;

fn facts(settings: &Settings) -> Facts {
    let load_sample_period = settings.period("period");
    let needs = Telemetry { access_bits: true, load_sample_period, ..Telemetry::default() };
    Facts { needs, ..Facts::default() }
}

/// What has happened, for reports and tests.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    scans: u64,
    samples: u64,
    by_sample: u64,
    by_scans: u64,
    promoted: u64,
    demoted: u64,
    pressed: u64,
    split: u64,
}

/// TMTS; made by [`ENTRY`].
struct Tmts {
    scan: Nanos,
    wakeup: Nanos,
    target: f64,
    least_age: u8,
    splits: bool,
    next_scan: Nanos,
    next_wakeup: Nanos,
    /// Scans since a unit was accessed, at its first page.
    ages: Vec<u8>,
    /// Units that were accessed in the last scan.
    accessed: Bitmap,
    /// Pages accessed again by the age that they had, in the last complete scan and this one.
    again: [u64; 256],
    now_again: [u64; 256],
    /// Age from which on fast pages are demoted.
    threshold: u8,
    /// Slow units to be promoted, and those that are among them.
    hot: VecDeque<PageId>,
    waits: Bitmap,
    counters: Counters,
}

impl Tmts {
    fn new(settings: &Settings, context: &Offer) -> Self {
        let some = |span: Nanos| Nanos(span.0.max(1));
        let (scan, wakeup) = (some(settings.duration("scan")), some(settings.duration("wakeup")));
        let pages = usize::try_from(context.table_pages().0).unwrap_or(0);
        Self {
            scan,
            wakeup,
            target: settings.number("target"),
            least_age: settings.count("least-age").clamp(1, 255) as u8,
            splits: settings.switch("split"),
            next_scan: scan,
            next_wakeup: wakeup,
            ages: Vec::with_capacity(pages),
            accessed: Bitmap::default(),
            again: [0; 256],
            now_again: [0; 256],
            threshold: OLDEST,
            hot: VecDeque::new(),
            waits: Bitmap::default(),
            counters: Counters::default(),
        }
    }

    fn age(&self, first: PageId) -> u8 {
        self.ages.get(first.index()).copied().unwrap_or(0)
    }

    fn want(&mut self, first: PageId) -> bool {
        let fresh = !self.waits.contains(first.0);
        if fresh {
            self.waits.insert(first.0);
            self.hot.push_back(first);
        }
        fresh
    }

    fn sample(&mut self, sample: &Sample, view: &View<'_>) {
        self.counters.samples += 1;
        let first = view.unit(sample.page).start;
        if view.state(sample.page).tier().is_some_and(|tier| tier != TierId::FAST)
            && self.want(first)
        {
            self.counters.by_sample += 1;
        }
    }

    fn answer(&mut self, bits: &AccessBits, view: &View<'_>) {
        for (page, accessed) in bits.units() {
            let state = view.state(page);
            let Some(tier) = state.tier() else { continue };
            let huge = state.is_huge();
            if huge != (bits.level == Level::Huge) || page.index() >= self.ages.len() {
                continue;
            }
            let age = self.ages[page.index()];
            if !accessed {
                self.ages[page.index()] = age.saturating_add(1);
                self.accessed.remove(page.0);
                continue;
            }
            self.now_again[usize::from(age)] += if huge { u64::from(HUGE_PAGES) } else { 1 };
            self.ages[page.index()] = 0;
            if tier != TierId::FAST && self.accessed.contains(page.0) && self.want(page) {
                self.counters.by_scans += 1;
            }
            self.accessed.insert(page.0);
        }
    }

    /// The threshold by the last scan's answers, and the next scan.
    fn begin_scan(&mut self, view: &View<'_>, plan: &mut Plan) {
        if self.counters.scans > 0 {
            self.again = core::mem::replace(&mut self.now_again, [0; 256]);
            let allowed = (self.again.iter().sum::<u64>() as f64 * self.target) as u64;
            let (mut age, mut sum) = (OLDEST, self.again[usize::from(OLDEST)]);
            while age > self.least_age && sum + self.again[usize::from(age) - 1] <= allowed {
                age -= 1;
                sum += self.again[usize::from(age)];
            }
            self.threshold = age;
        }
        self.counters.scans += 1;
        scan_all(view, plan);
    }

    /// Promotes what is hot while there is room; gives the pages that found none.
    fn promote(&mut self, view: &View<'_>, budget: &mut Budget, plan: &mut Plan) -> u64 {
        let mut room = Room::of(view, TierId::FAST, budget);
        let mut waiting = 0;
        let mut runs = Runs::new(TierId::FAST, Lane::PROMOTE);
        for first in core::mem::take(&mut self.hot) {
            let state = view.state(first);
            if state.tier().is_none_or(|tier| tier == TierId::FAST) {
                self.waits.remove(first.0);
                continue;
            }
            let unit = view.unit(first);
            let pages = u64::from(unit.pages);
            self.hot.push_back(first);
            if state.is_in_flight() {
                continue;
            }
            if room.take(pages) {
                runs.push(unit, plan);
            } else {
                waiting += pages;
            }
        }
        self.counters.promoted += runs.finish(plan);
        waiting
    }

    /// Demotes fast units of the threshold's age; and where `wanted` pages wait, the oldest others
    /// that are idle.
    fn demote(&mut self, mut wanted: u64, view: &View<'_>, budget: &mut Budget, plan: &mut Plan) {
        let to = TierId::FAST.slower();
        let mut room = Room::of(view, to, budget);
        wanted = wanted.saturating_sub(view.reserved(to).0);
        let idle = |policy: &Self, unit: &PageRun, least: u8| {
            let state = view.state(unit.start);
            let fast = state.tier() == Some(TierId::FAST) && !state.is_in_flight();
            fast && policy.age(unit.start) >= least
        };
        let mut leaving: Vec<PageRun> =
            units(view).filter(|unit| idle(self, unit, self.threshold)).collect();
        if wanted > 0 {
            let least = self.threshold;
            let mut others: Vec<PageRun> = units(view)
                .filter(|unit| idle(self, unit, 1) && self.age(unit.start) < least)
                .collect();
            others.sort_by_key(|unit| core::cmp::Reverse(self.age(unit.start)));
            let due: u64 = leaving.iter().map(|unit| u64::from(unit.pages)).sum();
            let mut more = wanted.saturating_sub(due);
            for unit in others {
                if more == 0 {
                    break;
                }
                more = more.saturating_sub(u64::from(unit.pages));
                self.counters.pressed += u64::from(unit.pages);
                leaving.push(unit);
            }
        }
        let mut runs = Runs::new(to, Lane::DEMOTE);
        for unit in leaving {
            if self.splits && unit.pages > 1 {
                self.counters.split += 1;
                plan.push(Action::Split { region: unit.start.region(), lane: Lane::DEMOTE });
                continue;
            }
            if !room.take(unit.pages) {
                break;
            }
            runs.push(unit, plan);
        }
        self.counters.demoted += runs.finish(plan);
    }
}

impl Policy for Tmts {
    fn observe(&mut self, _: Nanos, events: &[Event], view: &View<'_>) {
        let known = view.pages() as usize;
        if self.ages.len() < known {
            self.ages.resize(known, 0);
        }
        for event in events {
            match event {
                Event::Sample(sample) => self.sample(sample, view),
                Event::AccessBits(bits) => self.answer(bits, view),
                Event::Populated { run, .. } => {
                    self.ages[run.range()].fill(0);
                    run.iter().for_each(|page| self.accessed.remove(page.0));
                }
                Event::SplitDone { region, split: true } => {
                    let age = self.age(region.first());
                    self.ages[region.run().range()].fill(age);
                    self.next_wakeup = Nanos::ZERO;
                }
                Event::Remapped { from, to } => {
                    self.ages.copy_within(from.range(), to.index());
                }
                _ => {}
            }
        }
    }

    fn decide(&mut self, now: Nanos, view: &View<'_>, mut budget: Budget, plan: &mut Plan) {
        if now >= self.next_scan {
            self.next_scan = now.saturating_add(self.scan);
            self.begin_scan(view, plan);
        }
        if now >= self.next_wakeup {
            self.next_wakeup = now.saturating_add(self.wakeup);
            let waiting = self.promote(view, &mut budget, plan);
            if waiting > 0 || self.threshold < OLDEST {
                self.demote(waiting, view, &mut budget, plan);
            }
        }
    }

    fn next_wakeup(&self) -> Option<Nanos> {
        Some(self.next_wakeup.min(self.next_scan))
    }

    fn metrics(&self, sink: &mut MetricSink<'_>) {
        let c = &self.counters;
        for (name, value) in [
            ("scans_total", c.scans),
            ("samples_total", c.samples),
            ("hot_by_sample_total", c.by_sample),
            ("hot_by_scans_total", c.by_scans),
            ("promotions_proposed_pages_total", c.promoted),
            ("demotions_proposed_pages_total", c.demoted),
            ("demoted_for_room_pages_total", c.pressed),
            ("splits_proposed_total", c.split),
            ("threshold_scans", u64::from(self.threshold)),
        ] {
            sink(name, value as f64);
        }
    }

    fn metadata_bytes(&self) -> Bytes {
        let hot = self.hot.capacity() * size_of::<PageId>();
        let own = self.ages.capacity() + hot + size_of_val(&self.again) * 2;
        self.accessed.bytes() + self.waits.bytes() + Bytes(own as u64)
    }
}
