//! Actions: what the engine asks the world to do, and what a policy may propose.

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

/// A proposal that two runs change tiers: the one in the slower tier is promoted, the other demoted.
/// The world is asked for two moves, in an order in which no tier is overfilled. The second one begins
/// when the first has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Pages of one tier.
    pub one: PageRun,
    /// Pages of another one, as many.
    pub other: PageRun,
    /// Worker.
    pub lane: Lane,
}

/// Proposals of one `decide` call, in order of preference.
#[derive(Debug, Default)]
pub struct Plan {
    proposals: Vec<Action>,
    /// After how many of the others each comes.
    exchanges: Vec<(usize, Exchange)>,
    newborn_room: Option<PageCount>,
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
    /// Proposes that two runs change tiers in the background.
    pub fn exchange(&mut self, one: PageRun, other: PageRun, lane: Lane) {
        self.exchanges.push((self.proposals.len(), Exchange { one, other, lane }));
    }
    /// Has moves leave so many pages of the fastest tier free for new memory, until another plan says
    /// otherwise. New memory itself may take them. At the beginning none are.
    pub fn keep_for_newborn(&mut self, room: PageCount) {
        self.newborn_room = Some(room);
    }
    /// What [`Self::keep_for_newborn`] was last told.
    pub fn newborn_room(&self) -> Option<PageCount> {
        self.newborn_room
    }
    /// Exchanges that come after so many of the other proposals.
    pub fn exchanges_after(&self, proposals: usize) -> impl Iterator<Item = &Exchange> {
        let from = self.exchanges.partition_point(|(after, _)| *after < proposals);
        let rest = self.exchanges[from..].iter();
        rest.take_while(move |(after, _)| *after == proposals).map(|(_, exchange)| exchange)
    }
    /// Proposals so far, apart from exchanges.
    pub fn len(&self) -> usize {
        self.proposals.len()
    }
    /// Whether nothing has been proposed.
    pub fn is_empty(&self) -> bool {
        self.proposals.is_empty() && self.exchanges.is_empty()
    }
    /// The proposals but for exchanges, in order.
    pub fn iter(&self) -> core::slice::Iter<'_, Action> {
        self.proposals.iter()
    }
    /// Empties the plan and keeps its memory.
    pub fn clear(&mut self) {
        self.proposals.clear();
        self.exchanges.clear();
        self.newborn_room = None;
    }
}
