//! `memtierd`: Intel's daemon that tiers from user space, by age or by heat.
//!
//! Access bits of regions of 2 MiB are read and cleared every `scan`. By age, a region without access for `idle` is
//! demoted, and one accessed at every look for `active` promoted, however much is free. By heat, each scan in which
//! a region was accessed makes it warmer; it keeps `retention` of that a second. Of `classes`, the hottest is
//! promoted, the coldest demoted. One thread moves, at `bandwidth`; moves are looked for once it is idle, demotions first.
//!
//! Not good for: memory of which more is accessed than fits: it does not rank by age, and drops what finds no
//! room. Departs: without folios, too, a region has one access bit, that of its page table. Not modelled:
//! swapping, its other trackers (soft-dirty pages, DAMON), forecasts.
//! Source: its documentation, and `policy_age.go`, `policy_heat.go`, `mover.go` (2024).

#[cfg(test)]
mod tests;

use super::contract::{Allocation, Home, MetricSink, Policy};
use super::entry::{Entry, Group};
use super::facts::{Facts, Telemetry};
use super::offer::Offer;
use super::runs::{Room, joined};
use super::settings::Settings;
use super::suited;
use crate::action::{Action, Lane, Plan, Scan};
use crate::budget::Budget;
use crate::event::{AccessBits, Event, Level};
use crate::params::{Kind, Param};
use crate::placement::View;
use crate::types::*;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// `memtierd`.
pub const ENTRY: Entry = Entry {
    name: "memtierd",
    group: Group::Baselines,
    summary: "idle regions of 2 MiB are demoted and active ones promoted, whatever is free",
    citation: "Intel, memtierd, 2024; host of GPAC",
    pages: None,
    params: &[
        Param::fixed(
            "mode",
            Kind::Choice(&["age", "heat"]),
            "age",
            "",
            "what moves are decided by",
        ),
        Param::scaled("scan", Kind::Duration, "5s", "", "interval of reading access bits"),
        Param::scaled("interval", Kind::Duration, "5s", "", "interval of looking for moves"),
        Param::scaled("idle", Kind::Duration, "15s", "", "without access that demote a region"),
        Param::scaled(
            "active",
            Kind::Duration,
            "10s",
            "",
            "of access at every look that promote it",
        ),
        Param::fixed("bandwidth", Kind::Bytes, "200MiB", "per second", "moved at most"),
        Param::fixed("heat-max", Kind::Float, "1", "scans", "most heat of a region"),
        Param::fixed(
            "retention",
            Kind::Ratio,
            "0.8",
            "",
            "of its heat that a region keeps for a second",
        ),
        Param::fixed("classes", Kind::Count, "4", "", "of heat"),
        Param::fixed("start", Kind::Choice(&["fast", "slow"]), "fast", "", "tier of new memory"),
    ],
    preset: &[],
    suits: suited::anywhere,
    facts,
    build: |settings, context| Ok(Box::new(Memtierd::new(settings, context))),
};

fn facts(settings: &Settings) -> Facts {
    let needs = Telemetry { access_bits: true, ..Telemetry::default() };
    Facts { needs, starts_slow: settings.word("start") == "slow", ..Facts::default() }
}

/// What has happened, for reports and tests.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    scans: u64,
    looks: u64,
    idle: u64,
    active: u64,
    promoted: u64,
    demoted: u64,
    without_room: u64,
    put_off: u64,
}

/// What is known of a region.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// Scans since the last look in which it was accessed.
    counted: u32,
    /// Looks at which it was found accessed, the last one lowest.
    rounds: u64,
    changed: Nanos,
    heat: f64,
    looked: Nanos,
}

/// Memtierd; made by [`ENTRY`].
struct Memtierd {
    settings: Settings,
    by_heat: bool,
    scan: Nanos,
    interval: Nanos,
    idle: Nanos,
    /// Bits of `Known::rounds` that have to be set.
    active: u64,
    scale: f64,
    slow_start: bool,
    next_scan: Nanos,
    next_look: Nanos,
    /// By region; none where it has no memory.
    regions: Vec<Option<Known>>,
    mover: Mover,
    counters: Counters,
}

/// The mover, which takes one region after the other.
#[derive(Debug)]
struct Mover {
    bytes_per_second: f64,
    /// What is to be moved, the next one last.
    tasks: Vec<Region>,
    /// Where all of them go.
    to: TierId,
    /// When it is through with the last one.
    free: Nanos,
}

impl Mover {
    /// Moves what is next as fast as the bandwidth allows.
    fn work(
        &mut self,
        now: Nanos,
        view: &View<'_>,
        mut budget: Budget,
        plan: &mut Plan,
        counters: &mut Counters,
    ) {
        let to = self.to;
        let mut room = Room::above(0, view, to, &mut budget);
        while self.free <= now
            && let Some(region) = self.tasks.pop()
        {
            let moves = |page: &PageId| {
                let state = view.state(*page);
                state.tier().is_some_and(|tier| tier != to) && !state.is_in_flight()
            };
            let pages = || region.run().iter().filter(moves).map(PageRun::single);
            let count = PageCount(pages().count() as u64);
            if count == PageCount::ZERO {
                continue;
            }
            if !room.take(count.0) {
                counters.without_room += 1;
                continue;
            }
            let up = to == TierId::FAST;
            let moved = if up { &mut counters.promoted } else { &mut counters.demoted };
            *moved += count.0;
            joined(pages()).for_each(|run| plan.migrate(run, to, Lane::PROMOTE));
            let ns = count.bytes().0 as f64 / self.bytes_per_second * 1e9;
            self.free = self.free.max(now).saturating_add(Nanos(ns as u64));
        }
    }
}

impl Memtierd {
    fn new(settings: &Settings, context: &Offer) -> Self {
        let some = |span: Nanos| Nanos(span.0.max(1));
        let interval = some(settings.duration("interval"));
        let rounds = (settings.duration("active").0 / interval.0).min(62) as u32;
        Self {
            settings: settings.clone(),
            by_heat: settings.word("mode") == "heat",
            scan: some(settings.duration("scan")),
            interval,
            idle: settings.duration("idle"),
            active: (2 << rounds) - 1,
            scale: context.scale,
            slow_start: settings.word("start") == "slow",
            next_scan: some(settings.duration("scan")),
            next_look: interval,
            regions: Vec::new(),
            mover: Mover {
                bytes_per_second: settings.count("bandwidth").max(1) as f64,
                tasks: Vec::new(),
                to: TierId::FAST,
                free: Nanos::ZERO,
            },
            counters: Counters::default(),
        }
    }

    fn answer(&mut self, bits: &AccessBits) {
        if bits.level != Level::Huge {
            return;
        }
        for (first, accessed) in bits.units() {
            if accessed && let Some(Some(known)) = self.regions.get_mut(first.region().index()) {
                known.counted += 1;
            }
        }
    }

    /// Ages and heats of all regions by what was counted, and what follows from them.
    fn look(&mut self, now: Nanos, view: &View<'_>) {
        self.counters.looks += 1;
        self.regions.resize((view.pages() / HUGE_PAGES) as usize, None);
        let heat_max = self.settings.number("heat-max");
        let retention = self.settings.number("retention");
        for (region, slot) in (0..).map(Region).zip(&mut self.regions) {
            let resident = |page: PageId| view.state(page).is_resident();
            if !region.run().iter().any(resident) {
                *slot = None;
                continue;
            }
            let Some(known) = slot else {
                *slot = Some(Known { counted: 0, rounds: 1, changed: now, heat: 0.0, looked: now });
                continue;
            };
            let counted = core::mem::take(&mut known.counted);
            known.rounds = known.rounds << 1 | u64::from(counted > 0);
            if counted > 0 {
                known.changed = now;
            }
            let seconds = now.saturating_sub(known.looked).as_secs_f64() * self.scale;
            let kept = known.heat * power(retention, seconds);
            known.heat = (kept + f64::from(counted)).min(heat_max);
            known.looked = now;
        }
        if self.mover.tasks.is_empty() {
            self.find_moves(now, view);
        } else {
            self.counters.put_off += 1;
        }
    }

    fn find_moves(&mut self, now: Nanos, view: &View<'_>) {
        let slow = TierId::FAST.slower();
        let known = |(region, known): (u32, &Option<Known>)| Some((Region(region), (*known)?));
        let all = || (0..).zip(&self.regions).filter_map(known);
        let elsewhere = |region: Region, to: TierId| {
            let stays = |page| view.state(page).tier().is_none_or(|tier| tier == to);
            !region.run().iter().all(stays)
        };
        let mut demote: Vec<Region> = Vec::new();
        let mut promote: Vec<(f64, Region)> = Vec::new();
        if self.by_heat {
            let (most, classes) =
                (self.settings.number("heat-max"), self.settings.count("classes"));
            let top = classes.saturating_sub(1);
            for (region, known) in all() {
                match ((classes as f64 * known.heat / most) as u64).min(top) {
                    class if class == top => promote.push((known.heat, region)),
                    0 => demote.push(region),
                    _ => {}
                }
            }
            promote.sort_by(|a, b| b.0.total_cmp(&a.0));
        } else {
            for (region, known) in all() {
                if self.idle > Nanos::ZERO && known.changed.saturating_add(self.idle) < now {
                    demote.push(region);
                }
                if known.rounds & self.active == self.active {
                    promote.push((0.0, region));
                }
            }
        }
        demote.retain(|region| elsewhere(*region, slow));
        promote.retain(|(_, region)| elsewhere(*region, TierId::FAST));
        self.counters.idle += demote.len() as u64;
        self.counters.active += promote.len() as u64;
        (self.mover.tasks, self.mover.to) = if demote.is_empty() {
            (promote.into_iter().map(|(_, region)| region).collect(), TierId::FAST)
        } else {
            (demote, slow)
        };
        self.mover.tasks.reverse();
    }
}

/// `base` to a power that need not be whole, as far as heat needs it: within a hundredth.
fn power(base: f64, exponent: f64) -> f64 {
    let whole = exponent as u32;
    let part = exponent - f64::from(whole);
    let mut value = 1.0 - part * (1.0 - base);
    for _ in 0..whole.min(10_000) {
        value *= base;
    }
    value
}

impl Policy for Memtierd {
    fn observe(&mut self, _: Nanos, events: &[Event], _: &View<'_>) {
        for event in events {
            if let Event::AccessBits(bits) = event {
                self.answer(bits);
            }
        }
    }

    fn decide(&mut self, now: Nanos, view: &View<'_>, budget: Budget, plan: &mut Plan) {
        if now >= self.next_look {
            self.next_look = now.saturating_add(self.interval);
            self.look(now, view);
        }
        if now >= self.next_scan {
            self.next_scan = now.saturating_add(self.scan);
            self.counters.scans += 1;
            let run = PageRun::between(0, view.pages());
            let scan = Scan { run, clear: true, level: Level::Huge, skip_untouched: false };
            plan.push(Action::Scan { scan, lane: Lane::SCAN });
        }
        self.mover.work(now, view, budget, plan, &mut self.counters);
    }

    fn next_wakeup(&self) -> Option<Nanos> {
        let due = self.next_scan.min(self.next_look);
        Some(if self.mover.tasks.is_empty() { due } else { due.min(self.mover.free) })
    }

    fn place(&mut self, _: Nanos, _: &Allocation, _: &View<'_>) -> Home {
        if self.slow_start { TierId::FAST.slower().into() } else { Home::default() }
    }

    fn metrics(&self, sink: &mut MetricSink<'_>) {
        let c = &self.counters;
        for (name, value) in [
            ("scans_total", c.scans),
            ("looks_total", c.looks),
            ("idle_regions_found_total", c.idle),
            ("active_regions_found_total", c.active),
            ("promotions_proposed_pages_total", c.promoted),
            ("demotions_proposed_pages_total", c.demoted),
            ("regions_without_room_total", c.without_room),
            ("looks_put_off_total", c.put_off),
        ] {
            sink(name, value as f64);
        }
    }

    fn metadata_bytes(&self) -> Bytes {
        let regions = self.regions.capacity() * size_of::<Option<Known>>();
        let tasks = self.mover.tasks.capacity() * size_of::<Region>();
        Bytes((regions + tasks) as u64)
    }
}
