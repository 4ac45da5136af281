//! `arc` and `twoq`: fast memory as a cache of slow memory, samples as its references.
//!
//! All memory begins in the slowest tier. Each sampled access, load or store, is a reference for a
//! replacement algorithm whose cache is as large as fast memory: what it takes in is promoted, what it
//! evicts is demoted, at the next wakeup. A folio is one entry, as large as 512 pages.
//!
//! Not good for: memory that is accessed once, since a miss is always taken in. Departs from its use in
//! HybridTier (ASPLOS '25): its authors' ARC demotes the page that comes in instead of the one that
//! is evicted; this one evicts what Megiddo and Modha say.

mod arc;
mod twoq;

#[cfg(test)]
mod tests;

use super::contract::{Allocation, BoxedPolicy, Home, MetricSink, PageSize, Policy};
use super::entry::{Entry, Group};
use super::facts::{Facts, Telemetry};
use super::offer::Offer;
use super::runs::Runs;
use super::settings::Settings;
use super::suited;
use crate::action::{Lane, Plan};
use crate::budget::Budget;
use crate::event::{Event, Sample};
use crate::hotness::bitmap::Bitmap;
use crate::hotness::lists::Lists;
use crate::params::{Kind, Param};
use crate::placement::View;
use crate::types::*;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// `arc`.
pub const ARC: Entry = Entry {
    name: "arc",
    group: Group::Baselines,
    summary: "fast memory as a cache: lists of pages sampled once and again, sizes by their ghosts",
    citation: "Megiddo and Modha, ARC, FAST '03; as compared with by HybridTier",
    pages: Some(PageSize::Base),
    params: &[PARAMS[0], PARAMS[1], PARAMS[2]],
    preset: &[],
    suits: suited::period_of_brief_programs,
    facts,
    build: |settings, context| Ok(cache(settings, context, |_| arc::Arc::default())),
};

fn facts(settings: &Settings) -> Facts {
    let needs = Telemetry {
        load_sample_period: settings.period("period"),
        store_sample_period: settings.count_u32("store-period"),
        ..Telemetry::default()
    };
    Facts { needs, starts_slow: true, ..Facts::default() }
}

/// `twoq`.
pub const TWOQ: Entry = Entry {
    name: "twoq",
    summary: "fast memory as a cache: a queue of newcomers, a list of pages sampled after it",
    citation: "Johnson and Shasha, 2Q, VLDB '94; as compared with by HybridTier",
    pages: Some(PageSize::Base),
    params: &[
        PARAMS[0],
        PARAMS[1],
        PARAMS[2],
        Param::fixed("in", Kind::Ratio, "0.25", "", "of the cache, for newcomers (Kin)"),
        Param::fixed("out", Kind::Ratio, "0.5", "", "of the cache, pages remembered (Kout)"),
    ],
    build: |settings, context| {
        Ok(cache(settings, context, |s| twoq::TwoQ::new(s.number("in"), s.number("out"))))
    },
    ..ARC
};

const PARAMS: [Param; 3] = [
    Param::fixed("period", Kind::Count, "200", "LLC load misses", "per sample"),
    Param::fixed("store-period", Kind::Count, "100000", "retired stores", "per sample; 0 none"),
    Param::scaled("wakeup", Kind::Duration, "200ms", "", "interval of moves"),
];

/// Lists of an algorithm: the first two are in the cache, the others are ghosts.
type CacheLists = Lists<4>;

/// Lists whose pages are in the cache.
const CACHED: usize = 2;

/// Units that may not be where they ought to be, each once, in the order in which that came to be.
#[derive(Debug, Default)]
struct Changed {
    units: VecDeque<PageId>,
    noted: Bitmap,
}

impl Changed {
    fn note(&mut self, first: PageId) {
        if !self.noted.contains(first.0) {
            self.noted.insert(first.0);
            self.units.push_back(first);
        }
    }

    /// All of them; there are none after it.
    fn take(&mut self) -> VecDeque<PageId> {
        let units = core::mem::take(&mut self.units);
        units.iter().for_each(|first| self.noted.remove(first.0));
        units
    }

    fn bytes(&self) -> Bytes {
        self.noted.bytes() + Bytes((self.units.capacity() * size_of::<PageId>()) as u64)
    }
}

/// What an algorithm does to its lists.
struct Cache<'a> {
    lists: &'a mut CacheLists,
    /// Units that entered or left the cache.
    changed: &'a mut Changed,
    /// Pages that fit.
    capacity: u64,
}

impl Cache<'_> {
    fn pages(&self, list: usize) -> u64 {
        self.lists.pages(list)
    }

    /// Pages in the cache.
    fn cached(&self) -> u64 {
        (0..CACHED).map(|list| self.pages(list)).sum()
    }

    /// Puts a unit at the newer end of a list.
    fn put(&mut self, unit: PageRun, list: usize) {
        let was = self.lists.list_of(unit.start).is_some_and(|list| list < CACHED);
        self.lists.put(unit, list);
        if was != (list < CACHED) {
            self.changed.note(unit.start);
        }
    }

    /// Puts the oldest unit of a list at the newer end of another one, or forgets it.
    fn shift(&mut self, from: usize, to: Option<usize>) {
        let Some(unit) = self.lists.oldest(from) else { return };
        match to {
            Some(list) => self.put(unit, list),
            None => {
                self.lists.remove(unit.start);
                if from < CACHED {
                    self.changed.note(unit.start);
                }
            }
        }
    }
}

/// A replacement algorithm.
trait Replacement: Send {
    /// A unit, no larger than the cache, has been referenced. Leaves no more cached than fits.
    fn reference(&mut self, unit: PageRun, cache: &mut Cache<'_>);

    /// Reports its own gauges.
    fn metrics(&self, sink: &mut MetricSink<'_>);
}

fn cache<R: Replacement + 'static>(
    settings: &Settings,
    context: &Offer,
    rule: impl Fn(&Settings) -> R,
) -> BoxedPolicy {
    let rule = rule(settings);
    let wakeup = Nanos(settings.duration("wakeup").0.max(1));
    Box::new(Caching {
        wakeup,
        next_wakeup: wakeup,
        lists: Lists::new(context.table_pages()),
        changed: Changed::default(),
        counters: Counters::default(),
        rule,
    })
}

/// What has happened, for reports and tests.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    samples: u64,
    unknown_pages: u64,
    too_large: u64,
    /// References of pages in each list, and in none.
    found: [u64; 5],
    promoted: u64,
    demoted: u64,
    waiting: u64,
}

struct Caching<R> {
    wakeup: Nanos,
    next_wakeup: Nanos,
    lists: CacheLists,
    changed: Changed,
    rule: R,
    counters: Counters,
}

impl<R: Replacement> Caching<R> {
    fn sample(&mut self, sample: &Sample, view: &View<'_>) {
        self.counters.samples += 1;
        if !view.state(sample.page).is_resident() {
            self.counters.unknown_pages += 1;
            return;
        }
        let unit = view.unit(sample.page);
        let limits = view.limits(TierId::FAST);
        let capacity = limits.capacity.saturating_sub(limits.keep_free).0;
        if u64::from(unit.pages) > capacity {
            self.counters.too_large += 1;
            return;
        }
        self.counters.found[self.lists.list_of(unit.start).unwrap_or(4)] += 1;
        let (lists, changed) = (&mut self.lists, &mut self.changed);
        self.rule.reference(unit, &mut Cache { lists, changed, capacity });
    }

    /// Forgets pages. What is left of a folio is forgotten, too: nobody knows which part was hot.
    fn forget(&mut self, run: PageRun) {
        if run.pages == 0 {
            return;
        }
        for page in [run.start, PageId(run.end() - 1)] {
            let folio = page.region().run();
            if self.lists.unit(folio.start) == Some(folio) {
                self.leave(folio.start);
                folio.iter().for_each(|page| self.changed.note(page));
            }
        }
        run.iter().for_each(|page| self.leave(page));
    }

    /// Takes a unit out of all lists.
    fn leave(&mut self, first: PageId) {
        if self.lists.remove(first).is_some_and(|list| list < CACHED) {
            self.changed.note(first);
        }
    }

    /// A folio has become base pages: all take its place.
    fn split(&mut self, region: Region) {
        if let Some(list) = self.lists.remove(region.first()) {
            for page in region.run().iter() {
                self.lists.put(PageRun::single(page), list);
                self.changed.note(page);
            }
        }
    }

    fn collapse(&mut self, region: Region) {
        let lists = region.run().iter().filter_map(|page| self.lists.remove(page));
        if let Some(list) = lists.min() {
            self.lists.put(region.run(), list);
            self.changed.note(region.first());
        }
    }

    fn remap(&mut self, from: PageRun, to: PageId) {
        let units: Vec<(u32, PageRun, usize)> = from
            .iter()
            .filter_map(|page| {
                let unit = self.lists.unit(page)?;
                Some((page.0 - from.start.0, unit, self.lists.remove(page)?))
            })
            .collect();
        self.forget(PageRun { start: to, pages: from.pages });
        for (offset, unit, list) in units {
            let start = PageId(to.0 + offset);
            // A folio that does not arrive as one is forgotten.
            if unit.pages == 1 || start.offset() == 0 {
                self.lists.put(PageRun { start, ..unit }, list);
                self.changed.note(start);
            }
        }
    }

    /// Whether a unit ought to be in fast memory.
    fn is_cached(&self, first: PageId) -> bool {
        self.lists.list_of(first).is_some_and(|list| list < CACHED)
    }

    /// Proposes to move what is not where it ought to be; what finds no room waits.
    fn settle(&mut self, view: &View<'_>, mut budget: Budget, plan: &mut Plan) {
        let limits = view.limits(TierId::FAST);
        let slow = TierId::FAST.slower();
        let mut room = view.free(TierId::FAST).saturating_sub(limits.keep_free).0;
        let mut below = view.free(slow).saturating_sub(view.limits(slow).keep_free).0;
        let mut up = Runs::new(TierId::FAST, Lane::PROMOTE);
        let mut down = Runs::new(slow, Lane::DEMOTE);
        for first in self.changed.take() {
            let state = view.state(first);
            let Some(tier) = state.tier() else { continue };
            if state.is_huge() && first.offset() != 0 {
                continue;
            }
            let wanted = self.is_cached(first);
            if state.is_in_flight() {
                self.changed.note(first);
                continue;
            }
            if wanted == (tier == TierId::FAST) {
                continue;
            }
            let unit = view.unit(first);
            let pages = u64::from(unit.pages);
            let (runs, left) = if wanted { (&mut up, &mut room) } else { (&mut down, &mut below) };
            self.changed.note(first);
            if pages > *left || unit.bytes() > budget.remaining {
                self.counters.waiting += 1;
                continue;
            }
            *left -= pages;
            budget.remaining = budget.remaining.saturating_sub(unit.bytes());
            runs.push(unit, plan);
        }
        self.counters.promoted += up.finish(plan);
        self.counters.demoted += down.finish(plan);
    }
}

impl<R: Replacement> Policy for Caching<R> {
    fn place(&mut self, _: Nanos, _: &Allocation, view: &View<'_>) -> Home {
        view.slowest().into()
    }

    fn observe(&mut self, _: Nanos, events: &[Event], view: &View<'_>) {
        for event in events {
            match event {
                Event::Sample(sample) => self.sample(sample, view),
                Event::Populated { run, tier, huge } => {
                    self.forget(*run);
                    // Where the slow tiers were full: it has no right to be there.
                    if *tier == TierId::FAST {
                        let step = if *huge { HUGE_PAGES } else { 1 };
                        let firsts = run.iter().step_by(step as usize);
                        firsts.for_each(|first| self.changed.note(first));
                    }
                }
                Event::Unmapped { run } | Event::Freed { run } => self.forget(*run),
                Event::Remapped { from, to } => self.remap(*from, *to),
                Event::SplitDone { region, split: true } => self.split(*region),
                Event::CollapseDone { region, tier: Some(_) } => self.collapse(*region),
                Event::Moved { run, .. } => run.iter().for_each(|page| self.changed.note(page)),
                _ => {}
            }
        }
    }

    fn decide(&mut self, now: Nanos, view: &View<'_>, budget: Budget, plan: &mut Plan) {
        self.next_wakeup = now.saturating_add(self.wakeup);
        self.settle(view, budget, plan);
    }

    fn next_wakeup(&self) -> Option<Nanos> {
        Some(self.next_wakeup)
    }

    fn metrics(&self, sink: &mut MetricSink<'_>) {
        let c = &self.counters;
        let [newcomers, again, ghosts, others, none] = c.found;
        for (name, value) in [
            ("samples_total", c.samples),
            ("samples_unknown_page_total", c.unknown_pages),
            ("samples_too_large_total", c.too_large),
            ("references_in_first_list_total", newcomers),
            ("references_in_second_list_total", again),
            ("references_in_first_ghosts_total", ghosts),
            ("references_in_second_ghosts_total", others),
            ("references_missed_total", none),
            ("promotions_proposed_pages_total", c.promoted),
            ("demotions_proposed_pages_total", c.demoted),
            ("moves_without_room_total", c.waiting),
        ] {
            sink(name, value as f64);
        }
        for (list, name) in ["first", "second", "first_ghosts", "second_ghosts"].iter().enumerate()
        {
            sink(&alloc::format!("list_{name}_pages"), self.lists.pages(list) as f64);
        }
        self.rule.metrics(sink);
    }

    fn metadata_bytes(&self) -> Bytes {
        self.lists.bytes() + self.changed.bytes()
    }
}
