//! `hotbox`: HotBox (Bergman et al., ISMM '22), migration page by page, at the touch.
//!
//! Slow memory is accessed where it is. Blocks of it are scanned in turn; a page whose access bit was
//! set twice is hot and unmapped, and its next touch moves it, if there is room. Room is made in the
//! background by the kernel's lists, the faster the less is free. Where the share of accesses that
//! fast memory serves has settled, all of that pauses, until the share is another one than right after
//! it (`hotbox-nothrottle`: never). `hotbox-eager` does not wait for the touch: for worlds that have no
//! faults to offer.
//!
//! Not good for: memory whose hot pages change faster than slow memory is scanned. Departs from its
//! source: one share for all processes; lists of Linux 6, not 4.9. Page tables and kernel memory are
//! not modelled; the world keeps them in fast memory.

mod remote;
#[cfg(test)]
mod tests;
mod utility;

use super::contract::{FaultDecision, MetricSink, PageSize, Policy};
use super::entry::{Entry, Group};
use super::facts::{Facts, Telemetry};
use super::kernel::Watermarks;
use super::kernel::kswapd::Kswapd;
use super::kernel::lru::Lru;
use super::offer::Offer;
use super::settings::Settings;
use super::suited::{Lack, Suited};
use super::telemetry::Faults;
use crate::action::{Action, Lane, Plan};
use crate::budget::Budget;
use crate::event::{Event, Fault, MoveCause};
use crate::params::{Kind, Param};
use crate::placement::View;
use crate::types::*;
use alloc::boxed::Box;
use alloc::vec::Vec;
use remote::Remote;
use utility::{Rule, Utility};

/// `hotbox`.
pub const ENTRY: Entry = Entry {
    name: "hotbox",
    group: Group::Principal,
    summary: "hot pages move one by one at their next touch, while that changes anything",
    citation: "Bergman et al., HotBox, ISMM '22",
    pages: Some(PageSize::Base),
    params: &[
        Param::fixed("batch", Kind::Bytes, "2MiB", "", "slow memory scanned at once"),
        Param::fixed("period", Kind::Duration, "1ms", "", "from one such scan to the next"),
        Param::fixed("scans", Kind::Count, "2", "", "that have to raise a page until it is hot"),
        Param::fixed("throttle", Kind::Switch, "on", "", "pause where hits have settled"),
        Param::scaled("window", Kind::Duration, "5s", "", "over which hits are counted"),
        Param::fixed("windows", Kind::Count, "3", "", "that have to be alike for a pause"),
        Param::fixed("deviation", Kind::Ratio, "3%", "", "of hits that are still alike"),
        Param::fixed(
            "watermark-gap",
            Kind::Ratio,
            "0.001",
            "",
            "of fast memory, from mark to mark",
        ),
        Param::scaled("rest", Kind::Duration, "100ms", "", "of eviction that found nothing"),
        Param::fixed("eager", Kind::Switch, "off", "", "move what is hot before its next touch"),
    ],
    preset: &[],
    suits,
    facts,
    build: |settings, context| Ok(Box::new(Hotbox::new(settings, context))),
};

/// It does without counters and without faults, where it has to.
fn suits(offer: &Offer) -> Vec<Suited> {
    let telemetry = offer.telemetry;
    let never_pauses = Suited::without(Lack::Counters, "throttle", "off", "never pauses");
    let moves = "moves what it finds hot at once, not at the next touch";
    let eager = Suited::without(Lack::Faults, "eager", "on", moves);
    let lacks = [(!telemetry.counters, never_pauses), (telemetry.faults == Faults::Never, eager)];
    lacks.into_iter().filter_map(|(lacks, suited)| lacks.then_some(suited)).collect()
}

fn facts(settings: &Settings) -> Facts {
    let faults = !settings.switch("eager");
    let needs = Telemetry {
        faults,
        swap_faults: faults,
        access_bits: true,
        counters: settings.switch("throttle"),
        ..Telemetry::default()
    };
    let touched_to = faults.then_some(TierId::FAST);
    Facts { needs, touched_to, in_kernel: true, ..Facts::default() }
}

/// `hotbox-nothrottle`.
pub const NO_THROTTLE: Entry = Entry {
    name: "hotbox-nothrottle",
    group: Group::Variants,
    summary: "hotbox that never pauses",
    preset: &[("throttle", "off")],
    ..ENTRY
};

/// `hotbox-eager`.
pub const EAGER: Entry = Entry {
    name: "hotbox-eager",
    group: Group::Variants,
    summary: "hotbox that moves hot pages when it finds them, not at their next touch",
    preset: &[("eager", "on")],
    ..ENTRY
};

/// Pages that eviction looks at together: watermarks nearer to each other than that would be passed
/// before one batch is through.
const CLUSTER: u64 = 32;

/// The watermarks, at least a cluster apart.
pub(super) fn marks(view: &View<'_>, gap: f64) -> Watermarks {
    let capacity = view.limits(TierId::FAST).capacity.0.max(1);
    Watermarks::of(view, gap.max(CLUSTER as f64 / capacity as f64))
}

/// What has happened, for reports and tests; pages.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    touched: u64,
    cooled: u64,
    paused: u64,
    no_room: u64,
    promoted: u64,
    splits: u64,
}

/// HotBox; made by [`ENTRY`].
struct Hotbox {
    remote: Remote,
    lru: Lru,
    kswapd: Kswapd,
    /// `None` where nothing ever pauses.
    utility: Option<Utility>,
    gap: f64,
    eager: bool,
    /// Folios that came under management and are to be split.
    folios: Vec<Region>,
    counters: Counters,
}

impl Hotbox {
    fn new(settings: &Settings, context: &Offer) -> Self {
        let rule = Rule {
            window: settings.duration("window"),
            windows: usize::try_from(settings.count("windows").max(1)).unwrap_or(usize::MAX),
            deviation: settings.number("deviation"),
            passes: settings.count("scans"),
        };
        let batch = Bytes(settings.count("batch")).pages();
        let hint = context.table_pages();
        Self {
            remote: Remote::new(batch, settings.duration("period"), settings.count("scans"), hint),
            lru: Lru::new(hint),
            kswapd: Kswapd::new(context.scale, settings.duration("rest")),
            utility: settings.switch("throttle").then(|| Utility::new(rule)),
            gap: settings.number("watermark-gap"),
            eager: settings.switch("eager"),
            folios: Vec::new(),
            counters: Counters::default(),
        }
    }

    fn is_paused(&self) -> bool {
        self.utility.as_ref().is_some_and(Utility::is_paused)
    }

    fn count(&mut self, now: Nanos, fast: u64, slow: u64) {
        if let Some(utility) = &mut self.utility {
            utility.count(now, (fast, slow), self.remote.passes);
            if utility.is_paused() {
                self.remote.pause();
            }
        }
    }

    fn split_folios(&mut self, view: &View<'_>, plan: &mut Plan) {
        for region in self.folios.drain(..).filter(|r| view.state(r.first()).is_huge()) {
            plan.push(Action::Split { region, lane: Lane::SCAN });
        }
    }

    /// Wakes eviction below the low watermark.
    fn watch(&mut self, now: Nanos, view: &View<'_>) {
        let marks = marks(view, self.gap);
        let low = marks.low + self.kswapd.ahead(now, view);
        if view.free(TierId::FAST).0 < low && !self.is_paused() {
            self.kswapd.wake(marks.high);
        }
    }
}

impl Policy for Hotbox {
    fn observe(&mut self, now: Nanos, events: &[Event], view: &View<'_>) {
        for event in events {
            self.lru.observe(event, view);
            match event {
                Event::AccessBits(bits) => self.remote.learn(bits, view),
                Event::Counters { fast, slow } => self.count(now, *fast, *slow),
                Event::Populated { run, huge: true, .. } => {
                    self.folios.push(run.start.region());
                }
                Event::CollapseDone { region, tier: Some(_) } => self.folios.push(*region),
                Event::SplitDone { split: true, .. } => self.counters.splits += 1,
                Event::SplitDone { region, split: false } => self.folios.push(*region),
                Event::Unmapped { run } | Event::Freed { run } => self.remote.forget(*run),
                Event::Remapped { from, to } => self.remote.remap(*from, *to),
                Event::Moved { run, to, cause } => {
                    self.remote.forget(*run);
                    if *cause == MoveCause::FaultDecision && *to == TierId::FAST {
                        self.counters.promoted += u64::from(run.pages);
                    }
                }
                _ => {}
            }
        }
        self.watch(now, view);
    }

    fn decide(&mut self, now: Nanos, view: &View<'_>, mut budget: Budget, plan: &mut Plan) {
        self.split_folios(view, plan);
        let leaving = self.lru.land(TierId::FAST, view);
        self.kswapd.run(now, &mut self.lru, leaving, view, &mut budget, plan);
        if self.is_paused() {
            return;
        }
        if self.eager {
            let before = self.remote.moved;
            let refused = self.remote.move_hot(view, &mut budget, plan);
            self.kswapd.expect(self.remote.moved - before + refused);
            if refused > 0 {
                self.counters.no_room += refused;
                self.kswapd.wake(marks(view, self.gap).high);
            }
        }
        self.remote.run(now, view, plan);
    }

    fn next_wakeup(&self) -> Option<Nanos> {
        let folios = (!self.folios.is_empty()).then_some(Nanos::ZERO);
        let remote = (!self.is_paused()).then(|| self.remote.next_wakeup());
        [folios, remote, self.kswapd.next_wakeup(&self.lru)].into_iter().flatten().min()
    }

    fn on_fault(&mut self, _: Nanos, fault: &Fault, view: &View<'_>) -> FaultDecision {
        self.counters.touched += 1;
        if self.is_paused() {
            self.counters.paused += 1;
            return FaultDecision::Stay;
        }
        if fault.tier == TierId::FAST || !self.remote.is_hot(fault.page) {
            self.counters.cooled += 1;
            return FaultDecision::Stay;
        }
        self.kswapd.expect(1);
        if view.free(TierId::FAST) <= view.limits(TierId::FAST).keep_free {
            self.counters.no_room += 1;
            self.kswapd.wake(marks(view, self.gap).high);
            return FaultDecision::Stay;
        }
        FaultDecision::MoveHere(TierId::FAST)
    }

    fn metrics(&self, sink: &mut MetricSink<'_>) {
        let (c, r) = (&self.counters, &self.remote);
        for (name, value) in [
            ("remote_blocks_total", r.blocks),
            ("remote_passes_total", r.passes),
            ("remote_raised_pages_total", r.raised),
            ("remote_lowered_pages_total", r.lowered),
            ("armed_pages_total", r.armed),
            ("armed_pages_touched_total", c.touched),
            ("touched_when_not_hot_pages_total", c.cooled),
            ("touched_while_paused_pages_total", c.paused),
            ("touched_without_room_pages_total", c.no_room),
            ("promoted_in_fault_pages_total", c.promoted),
            ("promoted_at_once_pages_total", r.moved),
            ("folios_split_total", c.splits),
        ] {
            sink(name, value as f64);
        }
        if let Some(u) = &self.utility {
            sink("windows_total", u.windows as f64);
            sink("pauses_total", u.pauses as f64);
            sink("resumptions_total", u.resumptions as f64);
            sink("paused", f64::from(u8::from(u.is_paused())));
        }
        self.kswapd.metrics(sink);
    }

    fn metadata_bytes(&self) -> Bytes {
        let folios = Bytes((self.folios.capacity() * size_of::<Region>()) as u64);
        let utility = self.utility.as_ref().map_or(Bytes::ZERO, Utility::bytes);
        self.remote.bytes() + self.lru.bytes() + folios + utility
    }
}
