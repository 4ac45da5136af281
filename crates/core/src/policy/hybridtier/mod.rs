//! `hybridtier`: HybridTier (Song et al., ASPLOS '25), frequency and momentum in Bloom filters.
//!
//! Every sample adds to two averages of its page: *frequency*, halved after many samples, and
//! *momentum*, halved after few. Pages with either high are promoted, by batches of samples. Where
//! fast memory runs short, a scan looks for pages with neither; those of high frequency alone leave
//! if it has not grown some time later. High is what fits into fast memory.
//!
//! Not good for: streams of pages that are touched a few times each. Departs from its source: the
//! momentum filter is sized by what its window can hold, not as 1/128 of the other, which swamps it;
//! only the least counters are raised, as the paper, not its code, has it.

mod batch;
mod chances;
mod pace;
mod table;
mod tiering;
mod tracker;

#[cfg(test)]
mod tests;

use super::contract::{MetricSink, Policy};
use super::offer::Offer;
use super::settings::Settings;
use crate::action::Plan;
use crate::budget::Budget;
use crate::event::Event;
use crate::hotness::bloom::{Increment, counters_per_key};
use crate::hotness::paired::PairedBloom;
use crate::placement::{PageState, View};
use crate::types::*;
use alloc::boxed::Box;
use pace::Pace;
pub use table::{ARTIFACT, ENTRY, EXACT, FREQUENCY, UNBLOCKED};
use tiering::{Rules, Tiering, Work};
use tracker::{Exact, Filters, Tracker};

/// Counters of the momentum filter per sample of its window. At the end of a window the averages
/// add up to two windows of samples, so each counter has been raised at most `4 x 2 / 5` times on
/// average; that all four of a page reach 3 by others is then rarer than 1 in 100.
const COUNTERS_PER_SAMPLE: u64 = 5;

/// Pages that are expected where that many are said to come, before any is seen.
const EXPECTED: u64 = 1 << 20;
/// Pages of fast memory that filters are made for even where the program is small.
const LEAST_CONCERNED: u64 = 1 << 18;

/// HybridTier; made by [`ENTRY`].
struct HybridTier {
    settings: Settings,
    period: u32,
    rules: Rules,
    total_pages: u64,
    next_wakeup: Nanos,
    /// Made at the first sample, when it is known whether memory is mapped huge.
    work: Option<Box<dyn Work>>,
}

impl HybridTier {
    fn new(settings: &Settings, context: &Offer) -> Self {
        let period = u32::try_from(settings.count("period").max(1)).unwrap_or(u32::MAX);
        let momentum = u32::try_from(settings.count("momentum")).unwrap_or(u32::MAX);
        let interval = |key| settings.duration(key).0.max(1);
        let rules = Rules {
            momentum: (momentum > 0).then_some(momentum),
            cool_frequency: settings.number("frequency-cooling"),
            cool_momentum: settings.count("momentum-cooling").max(1),
            batch: settings.count("batch").max(1),
            begin: settings.number("promo-wmark"),
            end: settings.number("demote-wmark"),
            chance: Nanos(interval("second-chance")),
            wakeup: Nanos(interval("wakeup")),
        };
        let next_wakeup = rules.wakeup;
        let total_pages = context.total_pages_hint.0;
        Self { period, rules, total_pages, next_wakeup, work: None, settings: settings.clone() }
    }

    fn is_huge(&self, view: &View<'_>) -> bool {
        match self.settings.word("huge") {
            "on" => true,
            "off" => false,
            _ => {
                let states = view.states().iter().map(|state| PageState(*state));
                let [mut huge, mut base] = [0u64; 2];
                for state in states.filter(|state| state.is_resident()) {
                    *(if state.is_huge() { &mut huge } else { &mut base }) += 1;
                }
                huge > base
            }
        }
    }

    fn begin(&self, view: &View<'_>) -> Box<dyn Work> {
        let huge = self.is_huge(view);
        let bits = match self.settings.word("bits") {
            "auto" if huge => "16",
            "auto" => "4",
            given => given,
        };
        let span = if huge { HUGE_PAGES } else { 1 };
        let increment = match self.settings.word("increment") {
            "all" => Increment::All,
            _ => Increment::Conservative,
        };
        let counters = self.counters(view, span, bits.parse().unwrap_or(4.0));
        match (self.settings.word("tracker"), bits) {
            ("exact", "4") => self.tier(Exact::<u8>::default(), span, view),
            ("exact", _) => self.tier(Exact::<u32>::default(), span, view),
            ("standard", "4") => {
                self.tier(Filters::<4, false>::new(counters, increment), span, view)
            }
            ("standard", "8") => {
                self.tier(Filters::<8, false>::new(counters, increment), span, view)
            }
            ("standard", _) => {
                self.tier(Filters::<16, false>::new(counters, increment), span, view)
            }
            (_, "4") => match self.paired_lines(counters) {
                Some(lines) => self.tier(PairedBloom::new(lines, increment), span, view),
                None => self.tier(Filters::<4, true>::new(counters, increment), span, view),
            },
            (_, "8") => self.tier(Filters::<8, true>::new(counters, increment), span, view),
            (_, _) => self.tier(Filters::<16, true>::new(counters, increment), span, view),
        }
    }

    /// Counters of the frequency filter and of the momentum filter.
    fn counters(&self, view: &View<'_>, span: u32, bits: f64) -> [u64; 2] {
        let per_key = counters_per_key(self.settings.number("error").clamp(1e-9, 0.999));
        let of_keys = |keys: u64| libm::ceil(keys as f64 * per_key) as u64;
        let span = u64::from(span);
        // Of fast memory that is much larger than the program, as much as may concern it.
        let seen = u64::from(view.pages());
        let known = self.total_pages.min((64 * seen).max(EXPECTED)).max(seen);
        let concerned = known.saturating_mul(4).max(LEAST_CONCERNED);
        let units = view.limits(TierId::FAST).capacity.0.min(concerned).div_ceil(span);
        let frequency = match self.settings.number("filter-size") {
            bytes if bytes > 0.0 => (bytes * units as f64 * 8.0 / bits).max(1.0) as u64,
            _ => of_keys(units),
        };
        let momentum = match self.settings.word("momentum-filter") {
            "paper" => frequency.div_ceil(128),
            _ => {
                let pages = self.total_pages.max(view.resident().0).div_ceil(span);
                let pages = pages.min(concerned);
                (self.rules.cool_momentum.saturating_mul(COUNTERS_PER_SAMPLE)).min(of_keys(pages))
            }
        };
        [frequency, momentum]
    }

    /// Lines that hold both filters, where the momentum filter has the size of its window and fits
    /// beside the frequency filter's counters.
    fn paired_lines(&self, counters: [u64; 2]) -> Option<u64> {
        let [frequency, momentum] = PairedBloom::lines_for(counters);
        (self.settings.word("momentum-filter") == "window" && momentum <= frequency)
            .then_some(frequency)
    }

    fn tier<T: Tracker + 'static>(&self, tracker: T, span: u32, view: &View<'_>) -> Box<dyn Work> {
        let adapts = self.settings.switch("adaptive-effort");
        let rate = Bytes(self.settings.count("promotion-rate"));
        let pace = adapts.then(|| Pace::new(self.period, rate));
        let huge = view.states().iter().any(|state| PageState(*state).is_huge());
        let audited = self.settings.switch("audit");
        Box::new(Tiering::new(tracker, self.rules, pace, span, view).mixed(huge).audited(audited))
    }
}

impl Policy for HybridTier {
    fn observe(&mut self, _: Nanos, events: &[Event], view: &View<'_>) {
        if self.work.is_none() && events.iter().any(|event| matches!(event, Event::Sample(_))) {
            self.work = Some(self.begin(view));
        }
        if let Some(work) = &mut self.work {
            work.observe(events, view);
        }
    }

    fn decide(&mut self, now: Nanos, view: &View<'_>, budget: Budget, plan: &mut Plan) {
        self.next_wakeup = now.saturating_add(self.rules.wakeup);
        if let Some(work) = &mut self.work {
            work.decide(now, view, budget, plan);
        }
    }

    fn next_wakeup(&self) -> Option<Nanos> {
        let ready = self.work.as_ref().is_some_and(|work| work.is_ready());
        Some(if ready { Nanos::ZERO } else { self.next_wakeup })
    }

    fn metrics(&self, sink: &mut MetricSink<'_>) {
        if let Some(work) = &self.work {
            work.metrics(sink);
        }
    }

    fn metadata_bytes(&self) -> Bytes {
        self.work.as_ref().map_or(Bytes::ZERO, |work| work.bytes())
    }

    fn classes(&self) -> Option<[u64; 3]> {
        let [hot, cold] = self.work.as_ref()?.classes();
        Some([hot, 0, cold])
    }
}
