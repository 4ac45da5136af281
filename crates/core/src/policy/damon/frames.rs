//! Physical memory of one tier, as far as a policy can know: which frame holds which page.
//!
//! Frames are numbered from 0 and handed out as a kernel does that has just started: base pages one
//! after the other within a block of 2 MiB, folios a block each, what was freed last first; or as one
//! that has run for long: base pages by pieces of 8 wherever in the tier they are free.

use crate::rng::Rng;
use crate::types::*;
use alloc::vec::Vec;

const NOBODY: u32 = u32::MAX;
/// Frames that lie side by side in memory that is in pieces (`PAGE_ALLOC_COSTLY_ORDER`).
const PIECE: u32 = 8;

/// What a block is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Free,
    /// Base pages; so many.
    Base(u16),
    Folio,
}

/// Frames of one tier.
#[derive(Clone, Debug, Default)]
pub(super) struct Frames {
    page_at: Vec<u32>,
    blocks: Vec<Block>,
    /// Free frames, the next one last. An entry can be out of date, and stand there twice.
    free: Vec<u32>,
    free_blocks: Vec<u32>,
}

impl Frames {
    /// Frames that were ever used, a multiple of 512.
    pub(super) fn len(&self) -> u32 {
        self.page_at.len() as u32
    }

    /// Makes all of a tier's frames free, in pieces and in random order. Before any is taken.
    pub(super) fn scatter(&mut self, capacity: PageCount, rng: &mut Rng) {
        let blocks = capacity.0.div_ceil(u64::from(HUGE_PAGES)) as u32;
        (0..blocks).for_each(|_| {
            self.open(Block::Base(0));
        });
        let mut pieces: Vec<u32> = (0..self.len()).step_by(PIECE as usize).collect();
        rng.shuffle(&mut pieces);
        self.free.extend(pieces.into_iter().flat_map(|first| (first..first + PIECE).rev()));
    }

    /// The page in a frame.
    pub(super) fn page(&self, frame: u32) -> Option<PageId> {
        self.page_at.get(frame as usize).copied().filter(|page| *page != NOBODY).map(PageId)
    }

    /// A frame for a base page.
    pub(super) fn take(&mut self, page: PageId) -> u32 {
        let frame = loop {
            let Some(frame) = self.free.pop() else {
                let block = self.open(Block::Base(0));
                self.free.extend((block * HUGE_PAGES..(block + 1) * HUGE_PAGES).rev());
                continue;
            };
            let ours = matches!(self.blocks[(frame / HUGE_PAGES) as usize], Block::Base(_));
            if ours && self.page_at[frame as usize] == NOBODY {
                break frame;
            }
        };
        self.page_at[frame as usize] = page.0;
        if let Block::Base(used) = &mut self.blocks[(frame / HUGE_PAGES) as usize] {
            *used += 1;
        }
        frame
    }

    /// A block for a folio; gives its first frame.
    pub(super) fn take_block(&mut self, region: Region) -> u32 {
        let first = self.open(Block::Folio) * HUGE_PAGES;
        for (i, page) in region.run().iter().enumerate() {
            self.page_at[first as usize + i] = page.0;
        }
        first
    }

    /// Gives a frame back. A folio's becomes a base page's, if others of its block stay.
    pub(super) fn give(&mut self, frame: u32) {
        let block = frame / HUGE_PAGES;
        let used = match self.blocks[block as usize] {
            Block::Free => return,
            Block::Base(used) => used,
            Block::Folio => HUGE_PAGES as u16,
        };
        if core::mem::replace(&mut self.page_at[frame as usize], NOBODY) == NOBODY {
            return;
        }
        self.blocks[block as usize] = match used - 1 {
            0 => {
                self.free_blocks.push(block);
                Block::Free
            }
            used => {
                self.free.push(frame);
                Block::Base(used)
            }
        };
    }

    fn open(&mut self, kind: Block) -> u32 {
        let block = self.free_blocks.pop().unwrap_or_else(|| {
            self.blocks.push(Block::Free);
            self.page_at.resize(self.page_at.len() + HUGE_PAGES as usize, NOBODY);
            self.blocks.len() as u32 - 1
        });
        self.blocks[block as usize] = kind;
        block
    }

    pub(super) fn metadata_bytes(&self) -> usize {
        let words = self.page_at.capacity() + self.free.capacity() + self.free_blocks.capacity();
        words * 4 + self.blocks.capacity() * size_of::<Block>()
    }
}

/// Frames of all tiers, and where every page is among them.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    tiers: Vec<Frames>,
    /// Tier and frame of a page.
    places: Vec<Option<(TierId, u32)>>,
}

impl Memory {
    pub(super) fn tier(&self, tier: TierId) -> Option<&Frames> {
        self.tiers.get(tier.index())
    }

    /// All memory is in pieces: tiers of these capacities.
    pub(super) fn scatter(&mut self, capacities: impl Iterator<Item = PageCount>, rng: &mut Rng) {
        for (tier, capacity) in (0..).map(TierId).zip(capacities) {
            self.frames(tier).scatter(capacity, rng);
        }
    }

    /// Follows a page to where it is now, if anywhere.
    pub(super) fn put(&mut self, page: PageId, tier: Option<TierId>) {
        if self.place(page).map(|(tier, _)| tier) != tier {
            self.remove(page);
            if let Some(tier) = tier {
                let frame = self.frames(tier).take(page);
                self.set(page, tier, frame);
            }
        }
    }

    /// Follows a folio to a block there, unless it has been in one.
    pub(super) fn put_folio(&mut self, region: Region, tier: TierId) {
        let first = self.place(region.first());
        let block = |i: usize, page| {
            first.is_some_and(|(at, frame)| {
                at == tier
                    && frame % HUGE_PAGES == 0
                    && self.place(page) == Some((at, frame + i as u32))
            })
        };
        if region.run().iter().enumerate().all(|(i, page)| block(i, page)) {
            return;
        }
        region.run().iter().for_each(|page| self.remove(page));
        let first = self.frames(tier).take_block(region);
        for (i, page) in region.run().iter().enumerate() {
            self.set(page, tier, first + i as u32);
        }
    }

    fn place(&self, page: PageId) -> Option<(TierId, u32)> {
        self.places.get(page.index()).copied().flatten()
    }

    fn remove(&mut self, page: PageId) {
        if let Some((tier, frame)) = self.place(page) {
            self.frames(tier).give(frame);
            self.places[page.index()] = None;
        }
    }

    fn set(&mut self, page: PageId, tier: TierId, frame: u32) {
        if self.places.len() <= page.index() {
            self.places.resize((page.index() + 1).next_multiple_of(HUGE_PAGES as usize), None);
        }
        self.places[page.index()] = Some((tier, frame));
    }

    fn frames(&mut self, tier: TierId) -> &mut Frames {
        if self.tiers.len() <= tier.index() {
            self.tiers.resize(tier.index() + 1, Frames::default());
        }
        &mut self.tiers[tier.index()]
    }

    pub(super) fn metadata_bytes(&self) -> usize {
        let tiers: usize = self.tiers.iter().map(Frames::metadata_bytes).sum();
        tiers + self.places.capacity() * size_of::<Option<(TierId, u32)>>()
    }
}
