//! Parameters of `memtis` and its variants.

use super::{Memtis, config};
use crate::params::{Kind, Param};
use crate::policy::contract::PageSize;
use crate::policy::entry::{Entry, Group};
use alloc::boxed::Box;

const CITATION: &str = "Lee et al., MEMTIS, SOSP '23";

/// `memtis`.
pub const ENTRY: Entry = Entry {
    name: "memtis",
    group: Group::Principal,
    summary: "hot set by a histogram of sampled accesses; splits skewed huge pages",
    citation: CITATION,
    pages: Some(PageSize::Folio),
    params: PARAMS,
    preset: &[],
    suits: config::suits,
    facts: config::facts,
    build: |settings, context| Ok(Box::new(Memtis::new(settings, context))),
};

/// `memtis-plus`.
pub const PLUS: Entry = Entry {
    name: "memtis-plus",
    summary: "memtis that pauses moves that do not pay, and splits nothing for delays of migration",
    preset: &[("payoff", "on"), ("patient", "on")],
    ..ENTRY
};

/// `memtis-ns`.
pub const NO_SPLIT: Entry = Entry {
    name: "memtis-ns",
    group: Group::Variants,
    summary: "memtis that never splits a huge page",
    preset: &[("split", "off")],
    ..ENTRY
};

/// `memtis-nw`.
pub const NO_WARM: Entry = Entry {
    name: "memtis-nw",
    group: Group::Variants,
    summary: "memtis without a warm set",
    preset: &[("warm", "off")],
    ..ENTRY
};

/// `memtis-artifact`.
pub const ARTIFACT: Entry = Entry {
    name: "memtis-artifact",
    group: Group::Variants,
    summary: "memtis with the values and rules of its authors' code",
    citation: "github.com/cosmoss-jigu/memtis",
    preset: &[
        ("alpha", "0.75"),
        ("bins", "artifact"),
        ("hot-step", "one"),
        ("histogram", "refill"),
        ("growth-cooling", "10GiB"),
        ("estimate", "artifact"),
        ("regret", "3%"),
        ("period", "199"),
        ("periods", "primes"),
        ("period-check", "15s"),
        ("store-period", "100003"),
    ],
    ..ENTRY
};

const PARAMS: &[Param] = &[
    Param::fixed(
        "alpha",
        Kind::Ratio,
        "0.9",
        "",
        "share of fast memory above which a hot set fills it, and no page is warm",
    ),
    Param::fixed("warm", Kind::Switch, "on", "", "leave pages one bin below hot where they are"),
    Param::scaled(
        "adaptation",
        Kind::Count,
        "100000",
        "samples",
        "interval at which thresholds follow the histogram",
    ),
    Param::scaled(
        "cooling",
        Kind::Count,
        "2000000",
        "samples",
        "interval at which all hotness is halved",
    ),
    Param::fixed(
        "bins",
        Kind::Choice(&["paper", "artifact"]),
        "paper",
        "",
        "floor(log2(H)), or floor(log2(H + 1))",
    ),
    Param::fixed(
        "histogram",
        Kind::Choice(&["shift", "refill"]),
        "shift",
        "",
        "at a cooling: moved one bin left, or emptied and filled as pages are sampled and at wakeups",
    ),
    Param::fixed(
        "hot-step",
        Kind::Choice(&["free", "one"]),
        "free",
        "",
        "how far the hot threshold moves: freely, or one bin at once (downwards only at a cooling)",
    ),
    Param::scaled(
        "growth-cooling",
        Kind::Bytes,
        "0",
        "",
        "new memory after which an extra cooling is made; 0 never",
    ),
    Param::fixed(
        "evidence",
        Kind::Count,
        "1",
        "samples",
        "that a page's hotness is worth, at least, when it is promoted",
    ),
    Param::scaled("wakeup", Kind::Duration, "500ms", "", "interval of the migration workers"),
    Param::fixed("free", Kind::Ratio, "2%", "", "share of fast memory that demotion keeps free"),
    Param::fixed("period", Kind::Count, "200", "LLC load misses", "least per sample, and at start"),
    Param::fixed("period-max", Kind::Count, "19997", "LLC load misses", "most per sample"),
    Param::fixed(
        "periods",
        Kind::Choice(&["proportional", "primes"]),
        "proportional",
        "",
        "how the period moves: to where it has to be, or through the primes 199 to 19997",
    ),
    Param::scaled(
        "period-check",
        Kind::Duration,
        "1s",
        "",
        "interval at which the period is adapted",
    ),
    Param::fixed("cpu", Kind::Ratio, "3%", "", "share of one core for the sampler"),
    Param::fixed(
        "hysteresis",
        Kind::Ratio,
        "0.5%",
        "",
        "below that share the period stays; published code: above it, too",
    ),
    Param::fixed("store-period", Kind::Count, "100000", "retired stores", "per sample; 0 none"),
    Param::fixed("split", Kind::Switch, "on", "", "split skewed huge pages"),
    Param::fixed(
        "estimation",
        Kind::Float,
        "0.25",
        "samples per page",
        "interval at which the benefit of splitting is estimated",
    ),
    Param::fixed(
        "benefit",
        Kind::Ratio,
        "5%",
        "",
        "least gain of hit ratio for which huge pages are split",
    ),
    Param::fixed("beta", Kind::Float, "0.4", "", "scale factor of the number of splits"),
    Param::fixed(
        "latency-gap",
        Kind::LatencyGap,
        "machine",
        "",
        "(L_cap - L_fast) / L_fast, weighs the number of splits",
    ),
    Param::fixed(
        "estimate",
        Kind::Choice(&["paper", "artifact"]),
        "paper",
        "",
        "split from `benefit` on and at most what was sampled, or from eHR x 0.95 above rHR on",
    ),
    Param::fixed(
        "patient",
        Kind::Switch,
        "off",
        "",
        "take the share of samples of hot pages for rHR where it is larger: what is missing because \
         migration lags behind, splitting cannot bring",
    ),
    Param::fixed(
        "regret",
        Kind::Ratio,
        "0",
        "",
        "no more splits once hits rose by less than this after some; 0 never gives up",
    ),
    Param::fixed(
        "payoff",
        Kind::Switch,
        "off",
        "",
        "make room for promotions only while promoted pages are hit more than demoted ones",
    ),
    Param::fixed("collapse", Kind::Switch, "on", "", "coalesce 512 base pages that are all hot"),
];
