//! Figures of consolidation.

use frostline_core::consolidation::ConsolidationLimit;
use serde::{Deserialize, Serialize};

/// What was done so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Numbers {
    /// What was asked for.
    pub wanted: ConsolidationLimit,
    /// The last limit that was taken, in hot pages of a region.
    pub limit: u32,
    /// Looks at what is hot.
    pub rounds: u64,
    /// Whether regions are of memory, as its frames say; of address space otherwise.
    pub of_memory: bool,
    /// Nothing is moved.
    pub dry_run: bool,
    /// Hot pages at the last look.
    pub hot_pages: u64,
    /// Regions of 2 MiB in which these would lie, had nothing been moved.
    pub hot_regions_before: u64,
    /// Those in which they lie, after what was done then.
    pub hot_regions_after: u64,
    /// Pages that were worth moving, at all looks together.
    pub chosen: u64,
    /// Pages moved.
    pub pages_moved: u64,
    /// Of these, pages seen afterwards in frames side by side, of one aligned region.
    pub pages_verified: u64,
    /// Regions of memory taken for them.
    pub blocks: u64,
    /// Of these, given up because nothing in them was hot any more.
    pub blocks_undone: u64,
    /// Times that there was no such region; nothing was changed then.
    pub no_memory: u64,
    /// Copies of the process made past `fork` meanwhile, which were seen to.
    pub copies_seen: u64,
    /// Pages left where they were, by reason.
    pub skipped: Skipped,
    /// Processor time for these regions, in nanoseconds.
    pub block_ns: u64,
    /// Processor time for moving, in nanoseconds.
    pub move_ns: u64,
    /// Longest time that a page was away.
    pub longest_stall_ns: u64,
    /// Why it ended, if it did before the program.
    pub refused: Option<String>,
}

impl Numbers {
    /// Takes in another round: what is counted is added up, and what describes one round is that of the other.
    pub fn add(&mut self, other: Self) {
        let skipped = |of: fn(&Skipped) -> u64| of(&self.skipped) + of(&other.skipped);
        *self = Self {
            rounds: self.rounds + other.rounds,
            chosen: self.chosen + other.chosen,
            pages_moved: self.pages_moved + other.pages_moved,
            pages_verified: self.pages_verified + other.pages_verified,
            blocks: self.blocks + other.blocks,
            blocks_undone: self.blocks_undone + other.blocks_undone,
            no_memory: self.no_memory + other.no_memory,
            copies_seen: self.copies_seen + other.copies_seen,
            skipped: Skipped {
                absent: skipped(|all| all.absent),
                shared: skipped(|all| all.shared),
                huge: skipped(|all| all.huge),
                refused: skipped(|all| all.refused),
                busy: skipped(|all| all.busy),
            },
            block_ns: self.block_ns + other.block_ns,
            move_ns: self.move_ns + other.move_ns,
            longest_stall_ns: self.longest_stall_ns.max(other.longest_stall_ns),
            ..other
        };
    }

    /// Processor time for each page that was moved, in nanoseconds.
    pub fn ns_per_page(&self) -> u64 {
        self.move_ns.checked_div(self.pages_moved).unwrap_or(0)
    }
}

/// Pages by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Not in memory, or thrown away meanwhile.
    pub absent: u64,
    /// Of another process, too, or pinned, or merged with equal ones.
    pub shared: u64,
    /// Parts of a huge page.
    pub huge: u64,
    /// Of a mapping from which nothing can be taken: a stack, locked memory, somebody else's.
    pub refused: u64,
    /// In use by the kernel, or mappings were changing.
    pub busy: u64,
}

impl Skipped {
    /// All of them.
    pub fn all(self) -> u64 {
        self.absent + self.shared + self.huge + self.refused + self.busy
    }
}
