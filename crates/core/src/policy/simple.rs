//! Policies that never move a page: `first-touch`, `cache-line`, `all-fast`, `all-slow`.
//!
//! They are the references of every comparison. `first-touch` is what Linux does without
//! tiering: memory comes from the fast tier while there is room, then from the next one, and
//! stays. `cache-line` is the same with base pages, HotBox's name for it. `all-fast` describes another machine (enough fast memory for everything), `all-slow`
//! leaves the fast tier unused (the papers' capacity-only case).

use super::contract::{Allocation, Home, Policy};
use super::entry::{Entry, Group, Made};
use super::facts::Facts;
use super::settings::Settings;
use super::suited;
use crate::params::{Kind, Param};
use crate::placement::View;
use crate::types::*;
use alloc::boxed::Box;

/// Parameters of policies that only place.
pub(super) const PAGES: &[Param] = &[Param::fixed(
    "pages",
    Kind::Choice(&["world", "base"]),
    "world",
    "",
    "`base`: new memory is mapped by base pages, whatever the world does otherwise",
)];

/// `first-touch`.
pub const FIRST_TOUCH: Entry = Entry {
    name: "first-touch",
    group: Group::Principal,
    summary: "fast memory to whoever touches first; nothing ever moves",
    citation: "Linux default allocation",
    params: PAGES,
    preset: &[],
    suits: suited::anywhere,
    facts: |settings| facts(settings, Start::First),
    build: |_, _| Ok(Box::new(Still(Start::First))),
};

/// `all-fast`.
pub const ALL_FAST: Entry = Entry {
    name: "all-fast",
    group: Group::Baselines,
    summary: "a machine whose fast tier holds everything",
    citation: "upper reference",
    params: PAGES,
    preset: &[],
    suits: suited::anywhere,
    facts: |settings| facts(settings, Start::Unlimited),
    build: |_, _| Ok(Box::new(Still(Start::Unlimited))),
};

/// `all-slow`.
pub const ALL_SLOW: Entry = Entry {
    name: "all-slow",
    group: Group::Baselines,
    summary: "everything in the slowest tier",
    citation: "lower reference (capacity-only)",
    params: PAGES,
    preset: &[],
    suits: suited::anywhere,
    facts: |settings| facts(settings, Start::Slowest),
    build: |_, _| Ok(Box::new(Still(Start::Slowest))),
};

/// `cache-line`.
pub const CACHE_LINE: Entry = Entry {
    name: "cache-line",
    group: Group::Baselines,
    summary: "slow memory is accessed where it is, line by line; nothing ever moves",
    citation: "Bergman et al., HotBox, ISMM '22, section 3.1",
    params: PAGES,
    preset: &[("pages", "base")],
    suits: suited::anywhere,
    facts: |settings| facts(settings, Start::First),
    build: |_, _| Ok(Box::new(Still(Start::First))),
};

/// Policy of a kernel without tiering, on which somebody else builds: as [`FIRST_TOUCH`], and with
/// the world's page sizes.
pub fn untiered() -> Made {
    Made::unlisted("untiered", Box::new(Still(Start::First)), Facts::default())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    First,
    Unlimited,
    Slowest,
}

fn facts(settings: &Settings, start: Start) -> Facts {
    Facts {
        starts_slow: start == Start::Slowest,
        unlimited_fast: start == Start::Unlimited,
        base_pages: settings.word("pages") == "base",
        ..Facts::default()
    }
}

struct Still(Start);

impl Policy for Still {
    fn place(&mut self, _: Nanos, _: &Allocation, view: &View<'_>) -> Home {
        match self.0 {
            Start::First | Start::Unlimited => TierId::FAST.into(),
            Start::Slowest => view.slowest().into(),
        }
    }
    fn metadata_bytes(&self) -> Bytes {
        Bytes::ZERO
    }
}
