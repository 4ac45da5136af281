//! What the engine asks the world to do, and what a policy may propose.

use crate::event::{Level, SampleKind};
use crate::types::*;
use alloc::vec::Vec;

/// Names one `Migrate` action; its `MigrationDone` events carry it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MoveId(pub u64);

/// Background worker to which an action belongs, `0..MAX_LANES`. Actions of one lane are executed
/// in order; lanes run side by side and their processor time is charged apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Lane(pub u8);

impl Lane {
    /// Moves towards faster tiers, by convention.
    pub const PROMOTE: Self = Self(0);
    /// Moves towards slower tiers, by convention.
    pub const DEMOTE: Self = Self(1);
    /// Scans, splits and collapses, by convention.
    pub const SCAN: Self = Self(2);
}

/// Largest number of lanes.
pub const MAX_LANES: usize = 4;

/// Reads access bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Scan {
    /// Pages to look at.
    pub run: PageRun,
    /// Clear the bits that were set, so that the next scan sees new touches only.
    pub clear: bool,
    /// Level of the bits.
    pub level: Level,
    /// Skip base pages of a region whose upper-level bit is clear, at the price of one look.
    pub skip_untouched: bool,
}

/// A proposal of a policy, or an action that the engine has approved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Action {
    /// Move pages to another tier. A huge folio is named by all 512 pages of its region.
    Migrate {
        /// Set by the engine; [`MoveId`] 0 in a proposal.
        id: MoveId,
        /// The pages.
        run: PageRun,
        /// Destination.
        to: TierId,
        /// Worker.
        lane: Lane,
    },
    /// Split a huge folio into base pages; all-zero subpages are freed (reported as `Freed`).
    Split {
        /// The folio.
        region: Region,
        /// Worker.
        lane: Lane,
    },
    /// Rebuild a huge folio out of 512 resident base pages, in the tier given.
    Collapse {
        /// The region.
        region: Region,
        /// Where the folio shall be.
        to: TierId,
        /// Worker.
        lane: Lane,
    },
    /// Read access bits; the results come as `AccessBits`.
    Scan {
        /// What and how.
        scan: Scan,
        /// Worker.
        lane: Lane,
    },
    /// Make the next touch of each page fault (once).
    Arm {
        /// The pages.
        run: PageRun,
        /// Worker.
        lane: Lane,
    },
    /// Take the arming back.
    Disarm {
        /// The pages.
        run: PageRun,
        /// Worker.
        lane: Lane,
    },
    /// Set a sampler's period: one sample every `period` events; 0 switches it off.
    SetSampling {
        /// The event counted.
        kind: SampleKind,
        /// Events per sample.
        period: u32,
    },
    /// Move the cached pages of a closed file to a slower tier.
    DemoteFile {
        /// Dense file number.
        file: u32,
        /// Worker.
        lane: Lane,
    },
}

/// Proposals of one `decide` call, in order of preference.
#[derive(Debug, Default)]
pub struct Plan {
    proposals: Vec<Action>,
}

impl Plan {
    /// Proposes any action.
    pub fn push(&mut self, action: Action) {
        self.proposals.push(action);
    }
    /// Proposes to move pages.
    pub fn migrate(&mut self, run: PageRun, to: TierId, lane: Lane) {
        self.push(Action::Migrate { id: MoveId(0), run, to, lane });
    }
    /// Proposals so far.
    pub fn len(&self) -> usize {
        self.proposals.len()
    }
    /// Whether nothing has been proposed.
    pub fn is_empty(&self) -> bool {
        self.proposals.is_empty()
    }
    /// The proposals, in order.
    pub fn iter(&self) -> core::slice::Iter<'_, Action> {
        self.proposals.iter()
    }
    /// Empties the plan and keeps its memory.
    pub fn clear(&mut self) {
        self.proposals.clear();
    }
}
