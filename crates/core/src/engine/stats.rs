//! Counters of an engine.

use crate::event::MoveOutcome;
use crate::types::*;

/// Why the engine did not approve a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rejected {
    /// The page is not in memory.
    NotResident,
    /// It is where, or what, it should become.
    AlreadyThere,
    /// A move, split or collapse of it is under way.
    InFlight,
    /// The destination has no room.
    NoRoom,
    /// The migration rate is used up.
    RateBudget,
    /// The run covers a part of a folio only.
    PartialFolio,
    /// Not a huge folio.
    NotHuge,
    /// No such tier.
    UnknownTier,
}

impl Rejected {
    /// Every reason, in the order of [`EngineStats::rejected`].
    pub const ALL: [Self; 8] = [
        Self::NotResident,
        Self::AlreadyThere,
        Self::InFlight,
        Self::NoRoom,
        Self::RateBudget,
        Self::PartialFolio,
        Self::NotHuge,
        Self::UnknownTier,
    ];

    /// As in reports: `no_room`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotResident => "not_resident",
            Self::AlreadyThere => "already_there",
            Self::InFlight => "in_flight",
            Self::NoRoom => "no_room",
            Self::RateBudget => "rate_budget",
            Self::PartialFolio => "partial_folio",
            Self::NotHuge => "not_huge",
            Self::UnknownTier => "unknown_tier",
        }
    }
}

/// What has happened since the start. Counts are pages unless they say otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Pages that went to a faster tier, by whomever.
    pub promoted_pages: u64,
    /// Pages that went to a slower tier, by whomever.
    pub demoted_pages: u64,
    /// Pages of approved moves.
    pub approved_pages: u64,
    /// Ends of approved moves, by [`MoveOutcome`].
    pub outcomes: [u64; MoveOutcome::COUNT],
    /// Pages that others moved, by [`crate::event::MoveCause`].
    pub moved_by_others: [u64; 5],
    /// Proposals not approved, in pages (splits and collapses: regions), by [`Rejected`].
    pub rejected: [u64; Rejected::ALL.len()],
    /// Folios split.
    pub splits: u64,
    /// Splits that failed.
    pub failed_splits: u64,
    /// Folios rebuilt.
    pub collapses: u64,
    /// Collapses that failed.
    pub failed_collapses: u64,
    /// Reports that contradict what the engine knows: unknown move, page reported twice, move of
    /// an absent page. Ignored and counted.
    pub anomalies: u64,
}

impl EngineStats {
    pub(super) fn count_move(&mut self, from: TierId, to: TierId) {
        if to < from {
            self.promoted_pages += 1;
        } else if to > from {
            self.demoted_pages += 1;
        }
    }
}
