//! Which blocks of 2 MiB have ids: those in which something is. What programs map has them in advance as
//! far as that is little beside what they use, so that most allocations are told as a whole.
//!
//! So tables are in proportion to what is resident, however much is reserved: no more blocks have
//! ids than there are pages for 64 of each, and 1024.

use super::Driver;
use super::address_space::map;
use crate::address_map::by_region;
use crate::error::DriverError;
use crate::place::Found;
use frostline_core::event::Event;
use frostline_core::placement::PageState;
use frostline_core::types::*;
use frostline_linux::span::{REGION_PAGES, Span, joined};

/// Blocks that have ids in advance, beyond as many as resident memory would fill: 1 GiB.
const AHEAD_BLOCKS: u64 = 512;
/// Resident pages with which a block always has ids.
const DENSE_PAGES: u64 = 64;
/// Blocks that have ids with fewer pages, beyond those of which there are so many for each.
const SPARSE_BLOCKS: u64 = 1024;

/// How much may have ids, and what has none for that reason.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Numbering {
    /// What programs have in memory and in swap, as the kernel counts it.
    resident: PageCount,
    /// Pages in blocks without ids, in the round that goes on and in the last one.
    left_alone: [PageCount; 2],
}

impl Numbering {
    /// So much is there.
    pub(super) fn set_resident(&mut self, resident: PageCount) {
        self.resident = resident;
    }

    /// Blocks that may have ids in advance.
    fn most_ahead(&self) -> u64 {
        self.resident.0 / REGION_PAGES + AHEAD_BLOCKS
    }

    /// Blocks that may have ids although some have few pages.
    fn most(&self) -> u64 {
        self.resident.0 / DENSE_PAGES + SPARSE_BLOCKS
    }

    /// Whether a block in which so many pages were found gets ids, where `blocks` have them.
    fn takes(&mut self, pages: u64, blocks: u64) -> bool {
        let takes = pages >= DENSE_PAGES || blocks < self.most();
        self.left_alone[0].0 += if takes { 0 } else { pages };
        takes
    }

    /// Pages that the last round has left alone.
    pub(crate) fn left_alone(&self) -> PageCount {
        self.left_alone[1]
    }

    /// A round over all page tables is over.
    pub(super) fn end_round(&mut self) {
        self.left_alone = [PageCount::ZERO, self.left_alone[0]];
    }
}

impl Driver {
    /// Whether new address space gets ids before anything is found in it.
    pub(super) fn numbers_ahead(&self, span: Span) -> bool {
        let blocks = span.end().0.div_ceil(REGION_PAGES) - span.start.0 / REGION_PAGES;
        self.map.blocks() + blocks <= self.numbering.most_ahead()
    }

    /// Gives ids to blocks in which something was found and that have none.
    pub(super) fn number(&mut self, pid: u32, runs: &[(Span, Found)], events: &mut Vec<Event>) {
        let Some(watched) = self.watched.get(&pid) else { return };
        let id = watched.id();
        let mut found: Vec<(Span, u64)> = Vec::new();
        for piece in runs.iter().flat_map(|(span, _)| by_region(*span)) {
            let block = Span::region_of(piece.start);
            match found.last_mut() {
                Some((last, pages)) if *last == block => *pages += piece.pages,
                _ if self.map.has(id, piece.start) => {}
                _ => found.push((block, piece.pages)),
            }
        }
        let mut blocks = self.map.blocks();
        found.retain(|(_, pages)| {
            let takes = self.numbering.takes(*pages, blocks);
            blocks += u64::from(takes);
            takes
        });
        for span in joined(found.into_iter().map(|(block, _)| block)) {
            // All of them first: numbers in a row are one run where nothing lies between.
            self.map.map(id, span, |_, _| {});
            for (part, backing) in watched.parts(span) {
                map(&mut self.map, id, part, backing, events);
            }
        }
    }

    /// Takes back the ids of blocks in which nothing is, and of those with few pages, where more
    /// have ids than may. What is in these stays where it is.
    pub(super) fn give_back(&mut self, events: &mut Vec<Event>) -> Result<(), DriverError> {
        if self.map.blocks() <= self.numbering.most_ahead() {
            return Ok(());
        }
        // What is looked at below must be up to date.
        self.tell(std::mem::take(events))?;
        let states = self.engine.view().states();
        let used = |region: Region| {
            let states = states.get(region.run().range()).unwrap_or_default();
            let used = PageState::RESIDENT | PageState::IN_FLIGHT;
            states.iter().filter(|state| **state & used != 0).count() as u64
        };
        let mut blocks = self.map.blocks();
        let mut unused = Vec::new();
        for region in self.map.regions() {
            let pages = used(region);
            let gives = match pages {
                0 => blocks > self.numbering.most_ahead(),
                1..DENSE_PAGES => blocks > self.numbering.most(),
                _ => false,
            };
            if gives {
                blocks -= 1;
                unused.push(region);
            }
        }
        for region in unused {
            events.push(Event::Unmapped { run: region.run() });
            self.map.release(region);
        }
        self.tell(std::mem::take(events))
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
