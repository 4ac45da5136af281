//! `autonuma`: the kernel's own tiering, hint faults that promote (Linux 6, `numa_balancing=2`).
//!
//! Slow memory is armed in turn, 256 MiB at a time. Who touches an armed page soon enough, within a
//! threshold that follows the rate of promotions, promotes it then and there, as long as more than
//! the high watermark is free; otherwise the thread is woken that demotes from the inactive list, or
//! with `lru=generations` from the oldest generation. `autonuma-nodemote` has no such thread;
//! `tiering-0.8`, the ancestor, doubles the threshold for writes.
//!
//! Not good for: memory that is touched once, which is promoted all the same. Not modelled: that
//! arming takes the program's own time; and that fast memory is exchanged between sockets.

#[cfg(test)]
mod generations_tests;
#[cfg(test)]
mod tests;

use super::contract::{Allocation, FaultDecision, Home, MetricSink, Policy};
use super::entry::{Entry, Group};
use super::facts::{Facts, Telemetry};
use super::kernel::Watermarks;
use super::kernel::generations::Generations;
use super::kernel::hint::{Arms, HintScan, Hotness, Threshold};
use super::kernel::kswapd::Kswapd;
use super::kernel::lru::Lru;
use super::kernel::scan_period::{Counts, Ending, PACE, Pace};
use super::offer::Offer;
use super::settings::Settings;
use super::suited;
use crate::action::Plan;
use crate::budget::Budget;
use crate::event::{Event, Fault, MoveCause};
use crate::params::{Kind, Param};
use crate::placement::View;
use crate::types::*;
use alloc::boxed::Box;

const PARAMS: &[Param] = &[
    PACE[0],
    PACE[1],
    PACE[2],
    PACE[3],
    PACE[4],
    PACE[5],
    Param::scaled("hot", Kind::Duration, "1s", "", "latency of a hot page, at first"),
    Param::scaled("adjust", Kind::Duration, "60s", "", "interval of changes of the threshold"),
    Param::fixed("rate", Kind::Bytes, "64GiB", "per second", "promoted at most"),
    Param::scaled("rate-window", Kind::Duration, "1s", "", "in which that rate holds"),
    Param::fixed("write-factor", Kind::Float, "1", "", "of the threshold for writes"),
    Param::scaled("ample", Kind::Bytes, "1GiB", "", "free beyond the watermark: all is hot"),
    Param::fixed("watermark-gap", Kind::Ratio, "0.001", "", "of fast memory, from mark to mark"),
    Param::fixed("demotion", Kind::Switch, "on", "", "make room for promotions"),
    Param::scaled("rest", Kind::Duration, "100ms", "", "of demotion that found nothing"),
    Param::fixed(
        "lru",
        Kind::Choice(&["lists", "generations"]),
        "lists",
        "",
        "how old pages are found: active and inactive, or MGLRU",
    ),
];

/// Share of fast memory that, where free, makes every page hot.
const AMPLE_SHARE: u64 = 16;

/// `autonuma`.
pub const ENTRY: Entry = Entry {
    name: "autonuma",
    group: Group::Baselines,
    summary: "the kernel's tiering: promotion in hint faults, demotion at watermarks",
    citation: "Linux 6, NUMA balancing in memory tiering mode",
    pages: None,
    params: PARAMS,
    preset: &[],
    suits: suited::anywhere,
    facts,
    build: |settings, context| Ok(Box::new(Autonuma::new(settings, context))),
};

fn facts(settings: &Settings) -> Facts {
    let access_bits = settings.switch("demotion");
    let needs = Telemetry { faults: true, access_bits, ..Telemetry::default() };
    Facts { needs, in_kernel: true, ..Facts::default() }
}

/// `autonuma-nodemote`.
pub const NO_DEMOTION: Entry = Entry {
    name: "autonuma-nodemote",
    summary: "autonuma that never demotes",
    citation: "as compared with by Lee et al., MEMTIS, SOSP '23",
    preset: &[("demotion", "off")],
    ..ENTRY
};

/// `tiering-0.8`.
pub const TIERING: Entry = Entry {
    name: "tiering-0.8",
    summary: "autonuma's ancestor: writes are hot at twice the latency",
    citation: "Huang and Verma, tiering-0.8, 2022",
    preset: &[("write-factor", "2")],
    ..ENTRY
};

/// What has happened, for reports and tests.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    faults: u64,
    cold: u64,
    limited: u64,
    no_room: u64,
    ample: u64,
    promoted: u64,
}

/// Who makes room.
enum Reclaim {
    Nobody,
    Lists(Box<Lru>, Kswapd),
    Generations(Generations),
}

impl Reclaim {
    fn new(settings: &Settings, context: &Offer) -> Self {
        let rest = settings.duration("rest");
        let hint = context.table_pages();
        match (settings.switch("demotion"), settings.word("lru")) {
            (false, _) => Self::Nobody,
            (true, "generations") => Self::Generations(Generations::new(hint, rest)),
            (true, _) => Self::Lists(Box::new(Lru::new(hint)), Kswapd::new(context.scale, rest)),
        }
    }

    fn wake(&mut self, free: u64) {
        match self {
            Self::Nobody => {}
            Self::Lists(_, kswapd) => kswapd.wake(free),
            Self::Generations(generations) => generations.wake(free),
        }
    }

    fn observe(&mut self, event: &Event, view: &View<'_>) {
        match self {
            Self::Nobody => {}
            Self::Lists(lru, _) => lru.observe(event, view),
            Self::Generations(generations) => generations.observe(event, view),
        }
    }

    fn run(&mut self, now: Nanos, view: &View<'_>, budget: &mut Budget, plan: &mut Plan) {
        match self {
            Self::Nobody => {}
            Self::Lists(lru, kswapd) => {
                let leaving = lru.land(TierId::FAST, view);
                kswapd.run(now, lru, leaving, view, budget, plan);
            }
            Self::Generations(generations) => generations.run(now, view, budget, plan),
        }
    }

    fn next_wakeup(&self) -> Option<Nanos> {
        match self {
            Self::Nobody => None,
            Self::Lists(lru, kswapd) => kswapd.next_wakeup(lru),
            Self::Generations(generations) => generations.next_wakeup(),
        }
    }

    fn metrics(&self, sink: &mut MetricSink<'_>) {
        match self {
            Self::Nobody => {}
            Self::Lists(_, kswapd) => kswapd.metrics(sink),
            Self::Generations(generations) => generations.metrics(sink),
        }
    }

    fn bytes(&self) -> Bytes {
        match self {
            Self::Nobody => Bytes::ZERO,
            Self::Lists(lru, _) => lru.bytes(),
            Self::Generations(generations) => generations.bytes(),
        }
    }
}

/// The kernel's tiering; made by [`ENTRY`].
struct Autonuma {
    scan: HintScan,
    threshold: Threshold,
    reclaim: Reclaim,
    write_factor: f64,
    ample: u64,
    gap: f64,
    counters: Counters,
}

impl Autonuma {
    fn new(settings: &Settings, context: &Offer) -> Self {
        let window = settings.duration("rate-window");
        let rate = Bytes(settings.count("rate")).pages().0 as f64;
        let pace = Pace::read(settings);
        let limit = (rate * window.as_secs_f64()) as u64;
        Self {
            scan: HintScan::new(Arms::Slow, Counts::Fast, pace, context),
            threshold: Threshold::new(
                settings.duration("hot"),
                settings.duration("adjust"),
                limit,
                window,
            ),
            reclaim: Reclaim::new(settings, context),
            write_factor: settings.number("write-factor"),
            ample: Bytes(settings.count("ample")).pages().0,
            gap: settings.number("watermark-gap"),
            counters: Counters::default(),
        }
    }

    /// Whether a page is to be promoted, by its latency and the rate of promotions.
    fn is_hot(&mut self, now: Nanos, fault: &Fault, pages: u64, view: &View<'_>) -> bool {
        let marks = Watermarks::of(view, self.gap);
        let capacity = view.limits(TierId::FAST).capacity.0;
        let free = view.free(TierId::FAST).0;
        if free > marks.promote + self.ample.max(capacity / AMPLE_SHARE) {
            self.counters.ample += 1;
            self.threshold.reset();
            return true;
        }
        let latency = self.scan.latency(now, fault.page, view);
        let factor = if fault.write { self.write_factor } else { 1.0 };
        match self.threshold.judge(now, latency, pages, factor) {
            Hotness::Hot => true,
            Hotness::Cold => {
                self.counters.cold += 1;
                false
            }
            Hotness::Limited => {
                self.counters.limited += 1;
                false
            }
        }
    }

    fn judge(&mut self, now: Nanos, fault: &Fault, view: &View<'_>) -> Ending {
        let pages = u64::from(view.unit(fault.page).pages);
        if fault.tier == TierId::FAST || !self.is_hot(now, fault, pages, view) {
            return Ending::Stayed;
        }
        let marks = Watermarks::of(view, self.gap);
        if view.free(TierId::FAST).0 < marks.high + pages {
            self.counters.no_room += 1;
            self.reclaim.wake(marks.promote.max(marks.high + pages));
            return Ending::Failed;
        }
        Ending::Promoted
    }
}

impl Policy for Autonuma {
    fn observe(&mut self, _: Nanos, events: &[Event], view: &View<'_>) {
        for event in events {
            self.reclaim.observe(event, view);
            if let Event::Moved { run, to: TierId::FAST, cause: MoveCause::FaultDecision } = event {
                self.counters.promoted += u64::from(run.pages);
            }
        }
    }

    fn place(&mut self, _: Nanos, _: &Allocation, view: &View<'_>) -> Home {
        let leave_free = Watermarks::of(view, self.gap).low_share(view);
        Home { leave_free, ..Home::default() }
    }

    fn decide(&mut self, now: Nanos, view: &View<'_>, mut budget: Budget, plan: &mut Plan) {
        self.reclaim.run(now, view, &mut budget, plan);
        self.scan.run(now, view, plan, &mut |_| {});
    }

    fn next_wakeup(&self) -> Option<Nanos> {
        Some(
            self.reclaim
                .next_wakeup()
                .map_or(self.scan.next(), |wakeup| wakeup.min(self.scan.next())),
        )
    }

    fn on_fault(&mut self, now: Nanos, fault: &Fault, view: &View<'_>) -> FaultDecision {
        self.counters.faults += 1;
        let ending = self.judge(now, fault, view);
        self.scan.fault(now, fault, ending, view);
        match ending {
            Ending::Promoted => FaultDecision::MoveHere(TierId::FAST),
            Ending::Failed | Ending::Stayed => FaultDecision::Stay,
        }
    }

    fn metrics(&self, sink: &mut MetricSink<'_>) {
        let c = &self.counters;
        let [candidates, lowered, raised, resets] = self.threshold.totals();
        for (name, value) in [
            ("hint_faults_total", c.faults),
            ("hint_faults_cold_total", c.cold),
            ("hint_faults_rate_limited_total", c.limited),
            ("hint_faults_without_room_total", c.no_room),
            ("hint_faults_with_ample_room_total", c.ample),
            ("promoted_in_fault_pages_total", c.promoted),
            ("candidate_pages_total", candidates),
            ("threshold_lowered_total", lowered),
            ("threshold_raised_total", raised),
            ("threshold_reset_total", resets),
            ("threshold_ns", self.threshold.current().0),
        ] {
            sink(name, value as f64);
        }
        self.scan.metrics(sink);
        self.reclaim.metrics(sink);
    }

    fn metadata_bytes(&self) -> Bytes {
        self.scan.bytes() + self.reclaim.bytes()
    }
}
