//! Policies that never move a page: `first-touch`, `all-fast`, `all-slow`.
//!
//! They are the references of every comparison. `first-touch` is what Linux does without
//! tiering: memory comes from the fast tier while there is room, then from the next one, and
//! stays. `all-fast` describes another machine (enough fast memory for everything), `all-slow`
//! leaves the fast tier unused (the papers' capacity-only case).

use super::registry::{Entry, Group};
use super::settings::Settings;
use super::{Allocation, Policy};
use crate::placement::View;
use crate::types::*;
use alloc::boxed::Box;

/// `first-touch`.
pub const FIRST_TOUCH: Entry = Entry {
    name: "first-touch",
    group: Group::Principal,
    summary: "fast memory to whoever touches first; nothing ever moves",
    citation: "Linux default allocation",
    params: &[],
    preset: &[],
    build: |settings, _| Ok(Box::new(Still { settings, home: Home::First })),
};

/// `all-fast`.
pub const ALL_FAST: Entry = Entry {
    name: "all-fast",
    group: Group::Baselines,
    summary: "a machine whose fast tier holds everything",
    citation: "upper reference",
    params: &[],
    preset: &[],
    build: |settings, _| Ok(Box::new(Still { settings, home: Home::UnlimitedFast })),
};

/// `all-slow`.
pub const ALL_SLOW: Entry = Entry {
    name: "all-slow",
    group: Group::Baselines,
    summary: "everything in the slowest tier",
    citation: "lower reference (capacity-only)",
    params: &[],
    preset: &[],
    build: |settings, _| Ok(Box::new(Still { settings, home: Home::Slowest })),
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
    fn unlimited_fast(&self) -> bool {
        self.home == Home::UnlimitedFast
    }
    fn metadata_bytes(&self) -> Bytes {
        Bytes::ZERO
    }
}
