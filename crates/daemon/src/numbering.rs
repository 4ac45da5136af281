//! Limits of page ids, for blocks of 2 MiB: those in which something is have some. What programs map
//! has them in advance as far as that is little beside what they use, so that most allocations are
//! told as a whole.
//!
//! So tables are in proportion to what is resident, however much is reserved: no more blocks have
//! ids than there are pages for 64 of each, and 1024.

use frostline_core::span::REGION_PAGES;
use frostline_core::types::PageCount;

/// Blocks that have ids in advance, beyond as many as resident memory would fill: 1 GiB.
const AHEAD_BLOCKS: u64 = 512;
/// Resident pages with which a block always has ids.
pub(crate) const DENSE_PAGES: u64 = 64;
/// Blocks that have ids with fewer pages, beyond those of which there are so many for each.
const SPARSE_BLOCKS: u64 = 1024;

/// How much may have ids, and what has none for that reason.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Numbering {
    /// What programs have in memory and in swap, as the system counts it.
    resident: PageCount,
    /// Pages in blocks without ids, in the round that goes on and in the last one.
    left_alone: [PageCount; 2],
}

impl Numbering {
    /// So much is there.
    pub(crate) fn set_resident(&mut self, resident: PageCount) {
        self.resident = resident;
    }

    /// Blocks that may have ids in advance.
    pub(crate) fn most_ahead(&self) -> u64 {
        self.resident.0 / REGION_PAGES + AHEAD_BLOCKS
    }

    /// Blocks that may have ids although some have few pages.
    pub(crate) fn most(&self) -> u64 {
        self.resident.0 / DENSE_PAGES + SPARSE_BLOCKS
    }

    /// Whether a block in which so many pages were found gets ids, where `blocks` have them.
    pub(crate) fn takes(&mut self, pages: u64, blocks: u64) -> bool {
        let takes = pages >= DENSE_PAGES || blocks < self.most();
        self.left_alone[0].0 += if takes { 0 } else { pages };
        takes
    }

    /// Pages that the last round has left alone.
    pub(crate) fn left_alone(&self) -> PageCount {
        self.left_alone[1]
    }

    /// A round over all page tables is over.
    pub(crate) fn end_round(&mut self) {
        self.left_alone = [PageCount::ZERO, self.left_alone[0]];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_blocks_have_ids_as_pages_are_resident_for() {
        let mut numbering = Numbering::default();
        numbering.set_resident(PageCount(6400));
        assert_eq!((numbering.most_ahead(), numbering.most()), (12 + 512, 100 + 1024));
        assert!(numbering.takes(1, 1123) && !numbering.takes(63, 1124));
        assert!(numbering.takes(64, 1 << 40), "a dense block always has ids");
        assert_eq!(numbering.left_alone(), PageCount(0), "the round is not over");
        numbering.end_round();
        assert_eq!(numbering.left_alone(), PageCount(63));
        numbering.end_round();
        assert_eq!(numbering.left_alone(), PageCount(0));
    }
}
