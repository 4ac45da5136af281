//! Physical memory of one tier: which frame holds which page.

use frostline_core::rng::Rng;
use frostline_core::types::*;

const NO_FRAME: u32 = u32::MAX;
const BLOCK: u32 = HUGE_PAGES;
/// Frames that lie side by side where a block is in pieces: 2^3, up to which the kernel takes an
/// allocation for cheap (`PAGE_ALLOC_COSTLY_ORDER`).
const PIECE: u32 = 8;

/// Frames of one tier, in blocks of 2 MiB. Base pages fill one block before they open the next,
/// so that whole blocks stay free for folios. Fragmented memory goes first, piece by piece wherever
/// it lies.
#[derive(Debug)]
struct Pool {
    /// First frame number of the tier, over all tiers.
    first: u32,
    blocks: Vec<Block>,
    /// Free frames of all blocks.
    free: u64,
    /// Blocks that may be wholly free, the next one last; an entry can be out of date.
    whole: Vec<u32>,
    /// Wholly free blocks with something unmovable: for base pages only.
    pinned: Vec<u32>,
    /// First frames, within the tier, of the pieces of fragmented blocks that have room, the next one
    /// last.
    pieces: Vec<u32>,
    /// Partly used blocks with room; an entry can be out of date.
    partial: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Block {
    used: [u64; 8],
    free: u32,
    size: u32,
    pinned: bool,
    /// In pieces, which are handed out by themselves.
    scattered: bool,
}

impl Block {
    fn is_empty(&self) -> bool {
        self.free == self.size
    }

    /// Whether the piece that begins with this frame of the tier has no room.
    fn piece_is_full(&self, first: u32) -> bool {
        let (word, shift) = piece(first);
        self.used[word] >> shift & ((1 << PIECE) - 1) == (1 << PIECE) - 1
    }
}

/// Outcome of the search for a 2 MiB block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HugeFrame {
    /// A free block was there.
    Free,
    /// This many pages had to be moved within the tier to make one.
    Compacted(u32),
    /// There is none, and none can be made.
    None,
}

/// All frames of the machine, and the frame of every page.
#[derive(Debug)]
pub(crate) struct Frames {
    pools: Vec<Pool>,
    frame_of: Vec<u32>,
    page_of: Vec<u32>,
}

impl Frames {
    /// Tiers of these capacities. `fragmentation` is the share of blocks with something unmovable;
    /// these are handed out by pieces of 8 frames, and all others, where it is above 0, in random order.
    pub(crate) fn new(capacities: &[PageCount], fragmentation: f64, rng: &mut Rng) -> Self {
        let mut first = 0u64;
        let mut pools = Vec::new();
        for capacity in capacities {
            // Frames are numbered in 32 bits; what lies beyond can never be used by 32-bit page ids.
            let room = u64::from(u32::MAX) - 1 - first;
            let frames = capacity.0.min(room);
            pools.push(Pool::new(first as u32, frames as u32, fragmentation, rng));
            first += frames;
        }
        Self { pools, frame_of: Vec::new(), page_of: vec![NO_FRAME; first as usize] }
    }

    /// Physical frame of a resident page, over all tiers.
    pub(crate) fn frame(&self, page: PageId) -> Option<u32> {
        self.frame_of.get(page.index()).copied().filter(|&f| f != NO_FRAME)
    }

    /// Puts a page into a tier, away from where it was. False where the tier has no frame left:
    /// the page then stays where it was.
    pub(crate) fn place(&mut self, page: PageId, tier: TierId) -> bool {
        match self.pools[tier.index()].take_base() {
            None => false,
            Some(frame) => {
                self.release(page);
                self.set(page, frame);
                true
            }
        }
    }

    /// Puts a folio into one block of a tier, away from where its pages were.
    pub(crate) fn place_huge(&mut self, region: Region, tier: TierId) -> HugeFrame {
        let (base, found) = match self.pools[tier.index()].take_whole() {
            Some(base) => (base, HugeFrame::Free),
            None => match self.compact(tier) {
                Some((base, moved)) => (base, HugeFrame::Compacted(moved)),
                None => return HugeFrame::None,
            },
        };
        for (page, frame) in region.run().iter().zip(base..) {
            self.release(page);
            self.set(page, frame);
        }
        found
    }

    /// From the beginning, no more than so many blocks of a tier fit folios.
    pub(crate) fn limit_whole(&mut self, tier: TierId, blocks: u64) {
        let pool = &mut self.pools[tier.index()];
        let rest = pool.whole.len().saturating_sub(blocks as usize);
        for block in pool.whole.drain(..rest) {
            pool.blocks[block as usize].pinned = true;
            pool.pinned.push(block);
        }
    }

    /// Whether a block is free without compaction.
    pub(crate) fn has_whole(&mut self, tier: TierId) -> bool {
        self.pools[tier.index()].has_whole()
    }

    /// Whether [`Self::place_huge`] would find a block.
    pub(crate) fn has_huge(&mut self, tier: TierId) -> bool {
        self.pools[tier.index()].has_whole() || self.victim(tier).is_some()
    }

    /// Frees a page's frame, if it has one.
    pub(crate) fn release(&mut self, page: PageId) {
        let Some(slot) = self.frame_of.get_mut(page.index()) else { return };
        let frame = std::mem::replace(slot, NO_FRAME);
        if frame != NO_FRAME {
            self.page_of[frame as usize] = NO_FRAME;
            self.pool_of(frame).give_back(frame);
        }
    }

    /// A page id takes over another's frame.
    pub(crate) fn rename(&mut self, from: PageId, to: PageId) {
        let Some(frame) = self.frame(from) else { return };
        self.release(to);
        self.frame_of[from.index()] = NO_FRAME;
        self.set(to, frame);
    }

    /// Two resident pages swap frames.
    pub(crate) fn swap(&mut self, a: PageId, b: PageId) {
        if let (Some(frame_a), Some(frame_b)) = (self.frame(a), self.frame(b)) {
            self.set(a, frame_b);
            self.set(b, frame_a);
        }
    }

    /// Bytes of the tables.
    pub(crate) fn bytes(&self) -> usize {
        4 * (self.frame_of.capacity() + self.page_of.capacity())
    }

    fn set(&mut self, page: PageId, frame: u32) {
        if page.index() >= self.frame_of.len() {
            let pages = page.region().run().end() as usize;
            self.frame_of.resize(pages, NO_FRAME);
        }
        self.frame_of[page.index()] = frame;
        self.page_of[frame as usize] = page.0;
    }

    fn pool_of(&mut self, frame: u32) -> &mut Pool {
        let tier = self.pools.partition_point(|p| p.first <= frame) - 1;
        &mut self.pools[tier]
    }

    /// The block that is cheapest to empty, where the tier's other blocks can take its pages.
    fn victim(&self, tier: TierId) -> Option<u32> {
        let pool = &self.pools[tier.index()];
        if pool.free < u64::from(BLOCK) {
            return None;
        }
        let movable = |b: &Block| !b.pinned && b.size == BLOCK && b.free > 0;
        let (index, _) = pool
            .blocks
            .iter()
            .enumerate()
            .filter(|(_, b)| movable(b))
            .max_by_key(|(i, b)| (b.free, std::cmp::Reverse(*i)))?;
        Some(index as u32)
    }

    /// Empties a block by moving its pages to others of the tier: the block's first frame and the
    /// number of pages moved.
    fn compact(&mut self, tier: TierId) -> Option<(u32, u32)> {
        let victim = self.victim(tier)?;
        let pool = &mut self.pools[tier.index()];
        let base = pool.first + victim * BLOCK;
        let block = &mut pool.blocks[victim as usize];
        let moved = BLOCK - block.free;
        pool.free -= u64::from(block.free);
        block.free = 0;
        block.used = [u64::MAX; 8];
        for frame in base..base + BLOCK {
            let page = self.page_of[frame as usize];
            if page != NO_FRAME {
                let to = self.pools[tier.index()].take_base()?;
                self.page_of[frame as usize] = NO_FRAME;
                self.set(PageId(page), to);
            }
        }
        Some((base, moved))
    }
}

/// Where the bits of the piece that begins with this frame of the tier are: word, and bit in it.
fn piece(first: u32) -> (usize, u32) {
    ((first % BLOCK / 64) as usize, first % 64)
}

impl Pool {
    fn new(first: u32, frames: u32, fragmentation: f64, rng: &mut Rng) -> Self {
        let count = frames.div_ceil(BLOCK);
        let mut blocks = Vec::with_capacity(count as usize);
        for block in 0..count {
            let size = BLOCK.min(frames - block * BLOCK);
            let scattered = size == BLOCK && fragmentation > 0.0 && rng.unit_f64() < fragmentation;
            let pinned = size < BLOCK || scattered;
            blocks.push(Block { used: [0; 8], free: size, size, pinned, scattered });
        }
        let mut order: Vec<u32> = (0..count).rev().collect();
        if fragmentation > 0.0 {
            rng.shuffle(&mut order);
        }
        let of_block = |&b: &u32| (b * BLOCK..(b + 1) * BLOCK).step_by(PIECE as usize);
        let is_scattered = |b: &&u32| blocks[**b as usize].scattered;
        let mut pieces: Vec<u32> = order.iter().filter(is_scattered).flat_map(of_block).collect();
        rng.shuffle(&mut pieces);
        order.retain(|b| !blocks[*b as usize].scattered);
        let (pinned, whole) = order.into_iter().partition(|&b| blocks[b as usize].pinned);
        let free = u64::from(frames);
        Self { first, blocks, free, whole, pinned, pieces, partial: Vec::new() }
    }

    fn take_base(&mut self) -> Option<u32> {
        let index = loop {
            let Some(&last) = self.partial.last() else {
                if let Some(frame) = self.take_scattered() {
                    return Some(frame);
                }
                let fresh = self.pop_empty(true).or_else(|| self.pop_empty(false))?;
                self.partial.push(fresh);
                break fresh;
            };
            let block = &self.blocks[last as usize];
            if block.free > 0 && !block.is_empty() {
                break last;
            }
            self.partial.pop();
        };
        let block = &mut self.blocks[index as usize];
        let word = block.used.iter().position(|w| *w != u64::MAX)?;
        let bit = block.used[word].trailing_ones();
        block.used[word] |= 1 << bit;
        block.free -= 1;
        self.free -= 1;
        Some(self.first + index * BLOCK + word as u32 * 64 + bit)
    }

    /// The next frame of a fragmented block.
    fn take_scattered(&mut self) -> Option<u32> {
        let first = *self.pieces.last()?;
        let block = &mut self.blocks[(first / BLOCK) as usize];
        let (word, shift) = piece(first);
        let bit = (block.used[word] >> shift).trailing_ones();
        block.used[word] |= 1 << (shift + bit);
        block.free -= 1;
        self.free -= 1;
        if block.piece_is_full(first) {
            self.pieces.pop();
        }
        Some(self.first + first + bit)
    }

    fn pop_empty(&mut self, pinned: bool) -> Option<u32> {
        let list = if pinned { &mut self.pinned } else { &mut self.whole };
        while let Some(block) = list.pop() {
            if self.blocks[block as usize].is_empty() {
                return Some(block);
            }
        }
        None
    }

    fn has_whole(&mut self) -> bool {
        match self.pop_empty(false) {
            Some(block) => {
                self.whole.push(block);
                true
            }
            None => false,
        }
    }

    fn take_whole(&mut self) -> Option<u32> {
        let index = self.pop_empty(false)?;
        let block = &mut self.blocks[index as usize];
        block.used = [u64::MAX; 8];
        block.free = 0;
        self.free -= u64::from(BLOCK);
        Some(self.first + index * BLOCK)
    }

    fn give_back(&mut self, frame: u32) {
        let index = (frame - self.first) / BLOCK;
        let bit = (frame - self.first) % BLOCK;
        let block = &mut self.blocks[index as usize];
        let piece = (frame - self.first) / PIECE * PIECE;
        let was_full = block.scattered && block.piece_is_full(piece);
        block.used[bit as usize / 64] &= !(1 << (bit % 64));
        block.free += 1;
        self.free += 1;
        if block.scattered {
            self.pieces.extend(was_full.then_some(piece));
            return;
        }
        if block.free == 1 {
            self.partial.push(index);
        }
        if block.is_empty() {
            if block.pinned { &mut self.pinned } else { &mut self.whole }.push(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_core::rng::Rng;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    const FAST: TierId = TierId::FAST;

    /// Pages in each block that holds any, of pages placed in the order of their addresses.
    fn pages_by_block(fragmentation: f64) -> BTreeMap<u32, BTreeSet<u32>> {
        let mut frames = Frames::new(&[PageCount(64 * 512)], fragmentation, &mut Rng::new(5));
        let mut blocks: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for page in 0..16 * 512 {
            assert!(frames.place(PageId(page), FAST));
            let frame = frames.frame(PageId(page)).unwrap();
            blocks.entry(frame / BLOCK).or_default().insert(page);
        }
        blocks
    }

    #[test]
    fn fragmented_memory_goes_by_pieces_and_other_memory_by_blocks() {
        let fresh = pages_by_block(0.0);
        assert_eq!(fresh.len(), 16);
        assert!(fresh.iter().all(|(block, pages)| pages.iter().all(|p| p / 512 == *block)));
        let scattered = pages_by_block(1.0);
        assert_eq!(scattered.len(), 64, "everywhere");
        for pages in scattered.values() {
            let regions: BTreeSet<u32> = pages.iter().map(|page| page / 512).collect();
            let pieces: BTreeSet<u32> = pages.iter().map(|page| page / PIECE).collect();
            assert!(3 * regions.len() >= pieces.len(), "{regions:?}");
            assert_eq!(pages.len(), pieces.len() * PIECE as usize, "8 pages stay together");
        }
        // What is in pieces goes first, and as a whole.
        let some = pages_by_block(0.125);
        assert_eq!(some.len(), 16);
        let whole = some.values().filter(|pages| {
            let first = pages.first().map_or(0, |page| page / PIECE);
            pages.iter().zip(first * PIECE..).all(|(page, expected)| *page == expected)
        });
        assert!((5..15).contains(&whole.count()));
    }

    proptest! {
        #[test]
        fn every_page_has_a_frame_of_its_own_until_none_is_left(
            fragmentation in prop_oneof![Just(0.0), Just(1.0), 0.0..1.0],
            seed: u64,
            steps in proptest::collection::vec((0u32..4, 0u32..2000, 1u32..300), 1..40),
        ) {
            let capacity = 3 * 512 + 100;
            let mut frames = Frames::new(&[PageCount(capacity)], fragmentation, &mut Rng::new(seed));
            let mut resident = BTreeSet::new();
            for (what, first, pages) in steps {
                let region = Region(first / BLOCK);
                let is_new = |page: PageId| !resident.contains(&page.0);
                if what == 3 && region.run().iter().all(is_new) {
                    if !matches!(frames.place_huge(region, FAST), HugeFrame::None) {
                        resident.extend(region.run().iter().map(|page| page.0));
                    }
                    continue;
                }
                for page in first..first + pages {
                    if what == 0 {
                        frames.release(PageId(page));
                        resident.remove(&page);
                    } else if !resident.contains(&page) {
                        let placed = frames.place(PageId(page), FAST);
                        prop_assert_eq!(placed, (resident.len() as u64) < capacity);
                        if placed {
                            resident.insert(page);
                        }
                    }
                }
                let taken: BTreeSet<u32> =
                    resident.iter().filter_map(|page| frames.frame(PageId(*page))).collect();
                prop_assert_eq!(taken.len(), resident.len());
                prop_assert_eq!(frames.pools[0].free, capacity - resident.len() as u64);
                prop_assert!(taken.iter().all(|frame| u64::from(*frame) < capacity));
            }
        }
    }
}
