//! `interleave`: allocations dealt to the tiers in turn, by weight; nothing ever moves.
//!
//! Models Linux's weighted interleave (`MPOL_WEIGHTED_INTERLEAVE`): the next `fast` allocations go
//! to the fastest tier, the next `slow` ones to the slower tiers in turn. One allocation is one
//! page, or one folio where a folio is wanted. Good for bandwidth, blind to hotness.

use super::contract::{Allocation, Home, Policy, PolicyError};
use super::entry::{Entry, Group};
use super::facts::Facts;
use super::suited;
use crate::params::{Kind, Param};
use crate::placement::View;
use crate::types::*;
use alloc::boxed::Box;
use alloc::string::ToString;

/// `interleave`.
pub const ENTRY: Entry = Entry {
    name: "interleave",
    group: Group::Baselines,
    summary: "allocations dealt to the tiers in turn, by weight",
    citation: "Linux weighted interleave, mm/mempolicy.c",
    pages: None,
    params: &[
        Param::fixed("fast", Kind::Count, "1", "allocations", "turns of the fastest tier"),
        Param::fixed("slow", Kind::Count, "1", "allocations", "turns of the slower tiers together"),
    ],
    preset: &[],
    suits: suited::anywhere,
    facts: |_| Facts { starts_slow: true, ..Facts::default() },
    build: |settings, _| {
        let (fast, slow) = (settings.count("fast"), settings.count("slow"));
        if fast.checked_add(slow).is_none_or(|sum| sum == 0) {
            let what = "interleave: the weights make no sum\nhint: give at least one turn in all";
            return Err(PolicyError { what: what.to_string() });
        }
        Ok(Box::new(Interleave { fast, slow, turn: 0, slower_turn: 0 }))
    },
};

struct Interleave {
    fast: u64,
    slow: u64,
    turn: u64,
    slower_turn: u64,
}

impl Policy for Interleave {
    fn place(&mut self, _: Nanos, _: &Allocation, view: &View<'_>) -> Home {
        let turn = self.turn;
        self.turn = (turn + 1) % (self.fast + self.slow);
        if turn < self.fast {
            return Home::default();
        }
        let slower = view.tiers() as u64 - 1;
        let tier = 1 + self.slower_turn % slower;
        self.slower_turn = (self.slower_turn + 1) % slower;
        TierId(tier as u8).into()
    }
    fn metadata_bytes(&self) -> Bytes {
        Bytes::ZERO
    }
}
