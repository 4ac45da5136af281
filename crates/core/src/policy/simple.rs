//! Policies that never move a page: `first-touch`, `cache-line`, `all-fast`, `all-slow`.
//!
//! They are the references of every comparison. `first-touch` is what Linux does without
//! tiering: memory comes from the fast tier while there is room, then from the next one, and
//! stays. `cache-line` is the same with base pages, HotBox's name for it. `all-fast` describes another machine (enough fast memory for everything), `all-slow`
//! leaves the fast tier unused (the papers' capacity-only case).

use super::registry::{Entry, Group};
use super::settings::{Kind, Param, Settings};
use super::{Allocation, ConfigSink, Policy};
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
    build: |settings, _| Ok(Box::new(Still::new(settings, Home::First))),
};

/// `all-fast`.
pub const ALL_FAST: Entry = Entry {
    name: "all-fast",
    group: Group::Baselines,
    summary: "a machine whose fast tier holds everything",
    citation: "upper reference",
    params: PAGES,
    preset: &[],
    build: |settings, _| Ok(Box::new(Still::new(settings, Home::UnlimitedFast))),
};

/// `all-slow`.
pub const ALL_SLOW: Entry = Entry {
    name: "all-slow",
    group: Group::Baselines,
    summary: "everything in the slowest tier",
    citation: "lower reference (capacity-only)",
    params: PAGES,
    preset: &[],
    build: |settings, _| Ok(Box::new(Still::new(settings, Home::Slowest))),
};

/// `cache-line`.
pub const CACHE_LINE: Entry = Entry {
    name: "cache-line",
    group: Group::Baselines,
    summary: "slow memory is accessed where it is, line by line; nothing ever moves",
    citation: "Bergman et al., HotBox, ISMM '22, section 3.1",
    params: PAGES,
    preset: &[("pages", "base")],
    build: |settings, _| Ok(Box::new(Still::new(settings, Home::First))),
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Home {
    First,
    UnlimitedFast,
    Slowest,
}

struct Still {
    settings: Settings,
    home: Home,
}

impl Still {
    fn new(settings: Settings, home: Home) -> Self {
        Self { settings, home }
    }
}

impl Policy for Still {
    fn name(&self) -> &str {
        self.settings.name()
    }
    fn place(&mut self, _: Nanos, _: &Allocation, view: &View<'_>) -> TierId {
        match self.home {
            Home::First | Home::UnlimitedFast => TierId::FAST,
            Home::Slowest => view.slowest(),
        }
    }
    fn starts_slow(&self) -> bool {
        self.home == Home::Slowest
    }
    fn unlimited_fast(&self) -> bool {
        self.home == Home::UnlimitedFast
    }
    fn base_pages(&self) -> bool {
        self.settings.word("pages") == "base"
    }
    fn config(&self, sink: &mut ConfigSink<'_>) {
        self.settings.report(sink);
    }
    fn metadata_bytes(&self) -> Bytes {
        Bytes::ZERO
    }
}
