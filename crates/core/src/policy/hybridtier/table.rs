//! Parameters of `hybridtier` and its variants.

use super::HybridTier;
use crate::params::{Kind, Param};
use crate::policy::contract::PageSize;
use crate::policy::entry::{Entry, Group};
use crate::policy::facts::{Facts, Telemetry};
use crate::policy::offer::Offer;
use crate::policy::settings::Settings;
use crate::policy::suited::{Suited, period_of_brief_programs};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Most bytes of filters for a page: 16 bits for each of 32 counters, four times what the smallest error takes.
const MOST_FILTER_BYTES: u32 = 64;

/// `hybridtier`.
pub const ENTRY: Entry = Entry {
    name: "hybridtier",
    group: Group::Principal,
    summary: "frequency and momentum of sampled accesses, in counting Bloom filters",
    citation: "Song et al., HybridTier, ASPLOS '25",
    pages: Some(PageSize::Base),
    params: PARAMS,
    preset: &[],
    suits,
    facts,
    build: |settings, context| Ok(Box::new(HybridTier::new(settings, context))),
};

/// Intervals in samples follow the rate of samples.
fn suits(offer: &Offer) -> Vec<Suited> {
    if offer.brief {
        return period_of_brief_programs(offer);
    }
    let Some(rarity) = offer.telemetry.loads.and_then(|loads| loads.rarity()) else {
        return Vec::new();
    };
    Vec::from([
        Suited::to("frequency-cooling", 160.0 / rarity),
        Suited::to("momentum-cooling", 1_100_000.0 / rarity),
        Suited::to("batch", 2000),
    ])
}

fn facts(settings: &Settings) -> Facts {
    let needs = Telemetry {
        load_sample_period: settings.period("period"),
        counters: settings.switch("adaptive-effort"),
        ..Telemetry::default()
    };
    Facts { needs, ..Facts::default() }
}

/// `hybridtier-exact`.
pub const EXACT: Entry = Entry {
    name: "hybridtier-exact",
    group: Group::Variants,
    summary: "hybridtier that counts exactly, in one byte a page",
    preset: &[("tracker", "exact")],
    ..ENTRY
};

/// `hybridtier-cbf`.
pub const UNBLOCKED: Entry = Entry {
    name: "hybridtier-cbf",
    group: Group::Variants,
    summary: "hybridtier with filters whose counters of a page are anywhere",
    preset: &[("tracker", "standard")],
    ..ENTRY
};

/// `hybridtier-freq`.
pub const FREQUENCY: Entry = Entry {
    name: "hybridtier-freq",
    group: Group::Variants,
    summary: "hybridtier by frequency alone",
    preset: &[("momentum", "0")],
    ..ENTRY
};

/// `hybridtier-artifact`.
pub const ARTIFACT: Entry = Entry {
    name: "hybridtier-artifact",
    group: Group::Variants,
    summary: "hybridtier with the rules of its authors' code",
    citation: "github.com/kevins981/hybridtier-asplos25-artifact",
    preset: &[("increment", "all"), ("momentum-filter", "paper"), ("adaptive-effort", "on")],
    ..ENTRY
};

const PARAMS: &[Param] = &[
    Param::fixed("period", Kind::Count, "200", "LLC load misses", "per sample"),
    Param::fixed(
        "tracker",
        Kind::Choice(&["blocked", "standard", "exact"]),
        "blocked",
        "",
        "filters with a page's counters in one cache line or anywhere, or an array",
    ),
    Param::fixed("error", Kind::Ratio, "0.1%", "", "probability of error that sizes the filters"),
    Param::fixed(
        "filter-size",
        Kind::Most(MOST_FILTER_BYTES),
        "0",
        "bytes per page of fast memory",
        "size of the frequency filter; 0: what `error` makes it",
    ),
    Param::fixed(
        "bits",
        Kind::Choice(&["auto", "4", "8", "16"]),
        "auto",
        "",
        "of a counter; auto: 4, and 16 for huge pages (an exact tracker has 4 or 16)",
    ),
    Param::fixed(
        "increment",
        Kind::Choice(&["least", "all"]),
        "least",
        "",
        "counters of a page that a sample raises",
    ),
    Param::fixed(
        "momentum-filter",
        Kind::Choice(&["window", "paper"]),
        "window",
        "",
        "sized by the samples of its window, or 1/128 of the frequency filter",
    ),
    Param::fixed(
        "huge",
        Kind::Choice(&["auto", "on", "off"]),
        "auto",
        "",
        "count and move by 2 MiB; auto: where most memory is mapped so at the first sample",
    ),
    Param::fixed("momentum", Kind::Count, "3", "samples", "from which on it is high; 0 ignores it"),
    Param::fixed(
        "frequency-cooling",
        Kind::Float,
        "160",
        "samples per page of fast memory",
        "interval at which frequency is halved",
    ),
    Param::scaled(
        "momentum-cooling",
        Kind::Count,
        "1100000",
        "samples",
        "interval at which momentum is halved",
    ),
    Param::scaled("batch", Kind::Count, "100000", "samples", "after which pages are promoted"),
    Param::fixed(
        "promo-wmark",
        Kind::Ratio,
        "1.25%",
        "",
        "free share of fast memory below which demotion begins",
    ),
    Param::fixed("demote-wmark", Kind::Ratio, "5%", "", "free share at which demotion ends"),
    Param::scaled(
        "second-chance",
        Kind::Duration,
        "60s",
        "",
        "after which a page of high frequency and low momentum leaves, unless it was sampled",
    ),
    Param::scaled("wakeup", Kind::Duration, "500ms", "", "interval of looking for free memory"),
    Param::fixed(
        "adaptive-effort",
        Kind::Switch,
        "off",
        "",
        "fewer samples on full counters, none while placement is stable, a limit on promotion",
    ),
    Param::fixed("promotion-rate", Kind::Bytes, "100MiB", "per second", "that limit"),
    Param::fixed(
        "audit",
        Kind::Switch,
        "off",
        "",
        "count exactly, too, and report how often that would have decided the same",
    ),
];
