//! Configuration of `memtis`: what its parameters mean, and what it takes from the world's offer.

use super::period::{Period, PeriodConfig, Steps};
use super::split::SplitRule;
use crate::policy::facts::{Facts, Telemetry};
use crate::policy::offer::Offer;
use crate::policy::settings::Settings;
use crate::policy::suited::Suited;
use crate::types::*;
use alloc::vec::Vec;

/// Parameters, read once.
#[derive(Clone, Debug)]
pub(super) struct Config {
    pub alpha: f64,
    pub warm: bool,
    pub adaptation: u64,
    pub cooling: u64,
    pub one_bin_steps: bool,
    pub growth_cooling_pages: u64,
    pub evidence: u32,
    pub wakeup: Nanos,
    pub free: f64,
    pub store_period: u32,
    pub split: bool,
    pub estimation: f64,
    pub rule: SplitRule,
    pub regret: f64,
    pub collapse: bool,
}

impl Config {
    pub(super) fn read(settings: &Settings) -> Self {
        let artifact = settings.word("estimate") == "artifact";
        Self {
            alpha: settings.number("alpha"),
            warm: settings.switch("warm"),
            adaptation: settings.count("adaptation").max(1),
            cooling: settings.count("cooling").max(1),
            one_bin_steps: settings.word("hot-step") == "one",
            growth_cooling_pages: settings.count("growth-cooling") / PAGE_BYTES,
            evidence: settings.count_u32("evidence").min(1 << 16),
            wakeup: Nanos(settings.duration("wakeup").0.max(1)),
            free: settings.number("free"),
            store_period: settings.count_u32("store-period"),
            split: settings.switch("split"),
            estimation: settings.number("estimation"),
            rule: SplitRule {
                least_benefit: if artifact { 0.0 } else { settings.number("benefit") },
                discount: if artifact { 0.95 } else { 1.0 },
                latency_gap: settings.number("latency-gap"),
                beta: settings.number("beta"),
                capped: !artifact,
                patient: settings.switch("patient"),
            },
            regret: settings.number("regret"),
            collapse: settings.switch("collapse"),
        }
    }
}

/// The controller of the load period.
pub(super) fn period(settings: &Settings) -> Period {
    let steps =
        if settings.word("periods") == "primes" { Steps::Primes } else { Steps::Proportional };
    let least = settings.period("period");
    Period::new(PeriodConfig {
        limit: settings.number("cpu"),
        hysteresis: settings.number("hysteresis"),
        interval: settings.duration("period-check"),
        least,
        most: settings.count_u32("period-max").max(least),
        steps,
    })
}

/// Intervals in samples follow the rate of samples. Brief programs are sampled more often and judged
/// sooner; a page of theirs that is not hot is seen once, and nothing moves for that. Where pages are
/// looked at in turn, hits do not tell whether a move has paid.
pub(super) fn suits(offer: &Offer) -> Vec<Suited> {
    if offer.brief {
        return [("adaptation", 2000), ("cooling", 40_000), ("evidence", 2), ("period", 50)]
            .map(|(key, value)| Suited::to(key, value))
            .into();
    }
    let Some(loads) = offer.telemetry.loads else { return Vec::new() };
    let mut suited = Vec::new();
    if let Some(rarity) = loads.rarity() {
        suited.push(Suited::to("adaptation", 2000));
        suited.push(Suited::to("cooling", 2_000_000.0 / rarity));
    }
    if loads.looks_in_turn() {
        suited.push(Suited::to("payoff", "off"));
    }
    suited
}

/// What the sampler is asked for.
pub(super) fn facts(settings: &Settings) -> Facts {
    let needs = Telemetry {
        load_sample_period: period(settings).period(),
        store_sample_period: settings.count_u32("store-period"),
        ..Telemetry::default()
    };
    Facts { needs, ..Facts::default() }
}
