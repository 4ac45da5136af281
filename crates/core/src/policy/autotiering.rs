//! `autotiering`: AutoTiering (Kim, Choe and Ahn, ATC '21), histories of hint faults.
//!
//! All memory is armed in turn. Each unit keeps eight bits, one for every pass of the scan: whether
//! it faulted until the next. Every fault of a slow page promotes it, then and there. Where there is
//! no room, `mode=background` (as MEMTIS compares with) wakes a thread that keeps a reserve for
//! promotions by demoting what faulted in fewest passes; `mode=exchange` swaps the page with such a
//! one in the fault, if that one's history is the shorter.
//!
//! Not good for: memory that is touched once, which goes up all the same. Not modelled: sockets, of
//! which the source places pages on the nearest.

#[cfg(test)]
mod tests;

use super::contract::{Allocation, FaultDecision, Home, MetricSink, Policy};
use super::entry::{Entry, Group};
use super::facts::{Facts, Telemetry};
use super::kernel::hint::{Arms, HintScan};
use super::kernel::scan_period::{Counts, Ending, PACE, Pace};
use super::offer::Offer;
use super::runs::Room;
use super::settings::Settings;
use super::suited;
use crate::action::{Lane, Plan};
use crate::budget::Budget;
use crate::event::{Event, Fault, MoveCause};
use crate::params::{Kind, Param};
use crate::placement::View;
use crate::types::*;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// `autotiering`.
pub const ENTRY: Entry = Entry {
    name: "autotiering",
    group: Group::Baselines,
    summary: "promotion at every hint fault, demotion of the shortest history of faults",
    citation: "Kim, Choe and Ahn, AutoTiering, ATC '21",
    pages: None,
    params: &[
        PACE[0],
        PACE[1],
        PACE[2],
        PACE[3],
        PACE[4],
        PACE[5],
        Param::fixed(
            "mode",
            Kind::Choice(&["background", "exchange"]),
            "background",
            "",
            "who makes room: a thread, or the fault",
        ),
        Param::fixed("reserve", Kind::Ratio, "0.003", "", "of fast memory, for promotions"),
    ],
    preset: &[],
    suits: suited::anywhere,
    facts: |_| Facts {
        needs: Telemetry { faults: true, ..Telemetry::default() },
        in_kernel: true,
        ..Facts::default()
    },
    build: |settings, context| Ok(Box::new(Autotiering::new(settings, context))),
};

/// Histories with so many bits set make a level: none to eight.
const LEVELS: usize = 9;
/// Entries of a level that are looked at for a unit of the right size.
const SEARCHED: usize = 256;
/// Entries that may be out of date, beside as many as there are pages.
const SLACK: usize = 1024;

/// What has happened, for reports and tests.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    faults: u64,
    no_room: u64,
    not_colder: u64,
    exchanged: u64,
    promoted: u64,
    demoted: u64,
    woken: u64,
}

/// AutoTiering; made by [`ENTRY`].
struct Autotiering {
    scan: HintScan,
    exchanges: bool,
    reserve: f64,
    /// One bit for every pass, the latest lowest; at a unit's first page.
    history: Vec<u8>,
    /// Units of fast memory by level, those filed first in front. An entry is valid while its unit
    /// is where and as it was.
    levels: [VecDeque<PageId>; LEVELS],
    entries_full: usize,
    /// Pages that shall be free; 0 while nothing is demoted.
    target: u64,
    counters: Counters,
}

impl Autotiering {
    fn new(settings: &Settings, context: &Offer) -> Self {
        let pages = usize::try_from(context.table_pages().0).unwrap_or(0);
        Self {
            scan: HintScan::new(Arms::Everything, Counts::All, Pace::read(settings), context),
            exchanges: settings.word("mode") == "exchange",
            reserve: settings.number("reserve"),
            history: Vec::with_capacity(pages),
            levels: Default::default(),
            entries_full: SLACK,
            target: 0,
            counters: Counters::default(),
        }
    }

    fn level(&self, first: PageId) -> usize {
        self.history.get(first.index()).map_or(0, |bits| bits.count_ones() as usize)
    }

    /// Files a unit of fast memory by its history.
    fn file(&mut self, first: PageId, view: &View<'_>) {
        if view.state(first).tier() == Some(TierId::FAST) {
            let level = self.level(first);
            self.levels[level].push_back(first);
            let entries: usize = self.levels.iter().map(VecDeque::len).sum();
            if entries > self.entries_full {
                self.tidy(view);
            }
        }
    }

    /// Keeps of every unit the last entry only.
    fn tidy(&mut self, view: &View<'_>) {
        let mut seen = crate::hotness::bitmap::Bitmap::default();
        let mut levels = core::mem::take(&mut self.levels);
        for (level, entries) in levels.iter_mut().enumerate() {
            let mut kept: VecDeque<PageId> = VecDeque::with_capacity(entries.len());
            for first in entries.iter().rev() {
                let fast = view.state(*first).tier() == Some(TierId::FAST);
                if fast && self.level(*first) == level && !seen.contains(first.0) {
                    seen.insert(first.0);
                    kept.push_front(*first);
                }
            }
            *entries = kept;
        }
        self.levels = levels;
        let entries: usize = self.levels.iter().map(VecDeque::len).sum();
        self.entries_full = 2 * entries + SLACK;
    }

    /// Takes out a unit of fast memory with the shortest history below `below`, of `huge` size
    /// where that matters.
    fn take_coldest(
        &mut self,
        below: usize,
        huge: Option<bool>,
        view: &View<'_>,
    ) -> Option<PageRun> {
        for level in 0..below.min(LEVELS) {
            let mut at = 0;
            while let Some(first) = self.levels[level].get(at).copied() {
                let state = view.state(first);
                let here = state.tier() == Some(TierId::FAST) && !state.is_in_flight();
                if !here || self.level(first) != level || first != view.unit(first).start {
                    self.levels[level].remove(at);
                } else if huge.is_none_or(|huge| huge == state.is_huge()) {
                    self.levels[level].remove(at);
                    return Some(view.unit(first));
                } else if at < SEARCHED {
                    at += 1;
                } else {
                    break;
                }
            }
        }
        None
    }

    fn demote(&mut self, view: &View<'_>, mut budget: Budget, plan: &mut Plan) {
        let to = TierId::FAST.slower();
        let mut room = Room::of(view, to, &mut budget);
        let limits = view.limits(TierId::FAST);
        let leaving = view.reserved(to).0;
        let mut coming = view.free(TierId::FAST).0 + leaving;
        let mut taken = 0;
        while coming < self.target + limits.keep_free.0 {
            let Some(victim) = self.take_coldest(LEVELS, None, view) else { break };
            let pages = u64::from(victim.pages);
            if !room.take(pages) {
                self.file(victim.start, view);
                break;
            }
            taken += pages;
            coming += pages;
            plan.migrate(victim, to, Lane::DEMOTE);
        }
        self.counters.demoted += taken;
        self.target = 0;
    }

    /// Pages that demotion keeps free for promotions.
    fn reserve(&self, view: &View<'_>) -> u64 {
        (view.limits(TierId::FAST).capacity.0 as f64 * self.reserve) as u64
    }

    fn judge(&mut self, fault: &Fault, view: &View<'_>) -> FaultDecision {
        let first = view.unit(fault.page).start;
        if let Some(bits) = self.history.get_mut(first.index()) {
            *bits |= 1;
        }
        if fault.tier == TierId::FAST {
            self.file(first, view);
            return FaultDecision::Stay;
        }
        let huge = view.state(fault.page).is_huge();
        let pages = u64::from(view.unit(fault.page).pages);
        if view.free(TierId::FAST).0 >= view.limits(TierId::FAST).keep_free.0 + pages {
            return FaultDecision::MoveHere(TierId::FAST);
        }
        self.counters.no_room += 1;
        if !self.exchanges {
            self.counters.woken += u64::from(self.target == 0);
            self.target = self.reserve(view).max(pages);
            return FaultDecision::Stay;
        }
        match self.take_coldest(self.level(first), Some(huge), view) {
            Some(victim) => {
                self.counters.exchanged += pages;
                FaultDecision::Exchange(victim.start)
            }
            None => {
                self.counters.not_colder += 1;
                FaultDecision::Stay
            }
        }
    }
}

impl Policy for Autotiering {
    fn observe(&mut self, _: Nanos, events: &[Event], view: &View<'_>) {
        let known = view.pages() as usize;
        if self.history.len() < known {
            self.history.resize(known, 0);
        }
        for event in events {
            match *event {
                Event::Populated { run, huge, .. } => {
                    let step = if huge { HUGE_PAGES } else { 1 };
                    for start in run.iter().step_by(step as usize) {
                        self.history[start.index()] = 0;
                        self.scan.fresh(start);
                        self.file(start, view);
                    }
                }
                Event::Remapped { from, to } => {
                    let old: Vec<u8> = from.iter().map(|p| self.history[p.index()]).collect();
                    for (i, bits) in old.into_iter().enumerate() {
                        self.history[to.index() + i] = bits;
                        self.file(PageId(to.0 + i as u32), view);
                    }
                }
                Event::SplitDone { region, split: true } => {
                    let bits = self.history[region.first().index()];
                    self.history[region.run().range()].fill(bits);
                    region.run().iter().for_each(|page| self.file(page, view));
                }
                Event::Moved { run, to, cause } => {
                    if to == TierId::FAST && cause == MoveCause::FaultDecision {
                        self.counters.promoted += u64::from(run.pages);
                    }
                    run.iter().for_each(|page| {
                        if view.unit(page).start == page {
                            self.file(page, view);
                        }
                    });
                }
                // A unit that could not be moved waits as before.
                Event::MigrationDone { run, .. } => run.iter().for_each(|page| {
                    if view.unit(page).start == page {
                        self.file(page, view);
                    }
                }),
                _ => {}
            }
        }
    }

    fn decide(&mut self, now: Nanos, view: &View<'_>, budget: Budget, plan: &mut Plan) {
        if self.target > 0 {
            self.demote(view, budget, plan);
        }
        let mut seen = Vec::new();
        let history = &mut self.history;
        self.scan.run(now, view, plan, &mut |unit| {
            if let Some(bits) = history.get_mut(unit.start.index()) {
                *bits <<= 1;
                seen.push(unit.start);
            }
        });
        seen.into_iter().for_each(|first| self.file(first, view));
    }

    fn next_wakeup(&self) -> Option<Nanos> {
        Some(if self.target > 0 { Nanos::ZERO } else { self.scan.next() })
    }

    fn on_fault(&mut self, now: Nanos, fault: &Fault, view: &View<'_>) -> FaultDecision {
        self.counters.faults += 1;
        let decision = self.judge(fault, view);
        let ending = match decision {
            FaultDecision::Stay if fault.tier == TierId::FAST => Ending::Stayed,
            FaultDecision::Stay => Ending::Failed,
            _ => Ending::Promoted,
        };
        self.scan.fault(now, fault, ending, view);
        decision
    }

    fn place(&mut self, _: Nanos, _: &Allocation, _: &View<'_>) -> Home {
        let leave_free = if self.exchanges { 0.0 } else { self.reserve.min(0.99) };
        Home { leave_free, ..Home::default() }
    }

    fn metrics(&self, sink: &mut MetricSink<'_>) {
        let c = &self.counters;
        for (name, value) in [
            ("hint_faults_total", c.faults),
            ("hint_faults_without_room_total", c.no_room),
            ("hint_faults_without_colder_total", c.not_colder),
            ("exchanged_pages_total", c.exchanged),
            ("promoted_in_fault_pages_total", c.promoted),
            ("demotions_proposed_pages_total", c.demoted),
            ("demotion_woken_total", c.woken),
        ] {
            sink(name, value as f64);
        }
        self.scan.metrics(sink);
    }

    fn metadata_bytes(&self) -> Bytes {
        let entries: usize = self.levels.iter().map(VecDeque::capacity).sum();
        let own = self.history.capacity() + entries * size_of::<PageId>();
        self.scan.bytes() + Bytes(own as u64)
    }
}
