//! Policies that never move a page: `first-touch`, `all-fast`, `all-slow`.
//!
//! They are the references of every comparison. `first-touch` is what Linux does without
//! tiering: memory comes from the fast tier while there is room, then from the next one, and
//! stays. HotBox calls it cache-line access, with base pages. `all-fast` describes another machine
//! (enough fast memory for everything), `all-slow` leaves the fast tier unused (the papers'
//! capacity-only case).

use super::contract::{Allocation, Home, Policy};
use super::entry::{Entry, Group, Made};
use super::facts::Facts;
use super::suited;
use crate::placement::View;
use crate::types::*;
use alloc::boxed::Box;

/// `first-touch`.
pub const FIRST_TOUCH: Entry = Entry {
    name: "first-touch",
    group: Group::Principal,
    summary: "fast memory to whoever touches first; nothing ever moves",
    citation: "Linux default allocation",
    pages: None,
    params: &[],
    preset: &[],
    suits: suited::anywhere,
    facts: |_| facts(Start::First),
    build: |_, _| Ok(Box::new(Still(Start::First))),
};

/// `all-fast`.
pub const ALL_FAST: Entry = Entry {
    name: "all-fast",
    group: Group::Baselines,
    summary: "a machine whose fast tier holds everything",
    citation: "upper reference",
    pages: None,
    params: &[],
    preset: &[],
    suits: suited::anywhere,
    facts: |_| facts(Start::Unlimited),
    build: |_, _| Ok(Box::new(Still(Start::Unlimited))),
};

/// `all-slow`.
pub const ALL_SLOW: Entry = Entry {
    name: "all-slow",
    group: Group::Baselines,
    summary: "everything in the slowest tier",
    citation: "lower reference (capacity-only)",
    pages: None,
    params: &[],
    preset: &[],
    suits: suited::anywhere,
    facts: |_| facts(Start::Slowest),
    build: |_, _| Ok(Box::new(Still(Start::Slowest))),
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

fn facts(start: Start) -> Facts {
    Facts {
        starts_slow: start == Start::Slowest,
        unlimited_fast: start == Start::Unlimited,
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
