//! Free frames of a guest, handed out as an aged system's buddy allocator would.

use frostline_core::rng::Rng;
use frostline_core::types::*;

const ALL: [u64; 8] = [u64::MAX; 8];
/// Pages of what is free in one piece where others have memory, too: up to 2^3 the kernel takes an
/// allocation for cheap (`PAGE_ALLOC_COSTLY_ORDER`).
const PIECE: u32 = 8;

/// Frames `0 ..` in regions of 512. Pieces come first, in random order; then whole regions, the
/// lowest first and frame by frame. What is given back is handed out next.
#[derive(Debug)]
pub(crate) struct FreeFrames {
    /// By region: bit `i` for its frame `i`, set while that is free.
    free: Vec<[u64; 8]>,
    is_whole: Vec<bool>,
    /// Regions that may be wholly free, the next one last.
    whole: Vec<Region>,
    /// Frames of other regions that may be free, the next one last, and which are among them.
    pieces: Vec<u32>,
    queued: Vec<[u64; 8]>,
}

impl FreeFrames {
    /// So many regions. In a share `aged` of them others hold half of the frames, for ever.
    pub(crate) fn new(regions: u32, aged: f64, rng: &mut Rng) -> Self {
        let mut all = Self {
            free: vec![ALL; regions as usize],
            is_whole: vec![true; regions as usize],
            whole: Vec::new(),
            pieces: Vec::new(),
            queued: vec![[0; 8]; regions as usize],
        };
        let mut pieces = Vec::new();
        for region in (0..regions).rev().map(Region) {
            if rng.unit_f64() >= aged {
                all.whole.push(region);
                continue;
            }
            all.is_whole[region.index()] = false;
            for first in (0..HUGE_PAGES).step_by(PIECE as usize) {
                let first = region.first().0 + first;
                if rng.unit_f64() < 0.5 {
                    (first..first + PIECE).for_each(|frame| all.set_free(frame, false));
                } else {
                    pieces.push(first);
                }
            }
        }
        rng.shuffle(&mut pieces);
        for first in pieces {
            (first..first + PIECE).rev().for_each(|frame| all.queue(frame));
        }
        all
    }

    /// A frame; none where all are taken.
    pub(crate) fn take(&mut self) -> Option<u32> {
        loop {
            while let Some(frame) = self.pieces.pop() {
                let (region, word, mask) = place(frame);
                self.queued[region][word] &= !mask;
                if self.free[region][word] & mask != 0 && !self.is_whole[region] {
                    self.set_free(frame, false);
                    return Some(frame);
                }
            }
            let region = self.pop_whole()?;
            self.is_whole[region.index()] = false;
            region.run().iter().rev().for_each(|frame| self.queue(frame.0));
        }
    }

    /// All frames of a region; none, and nothing changed, where no region is free as a whole.
    pub(crate) fn take_region(&mut self) -> Option<Region> {
        let region = self.pop_whole()?;
        self.is_whole[region.index()] = false;
        self.free[region.index()] = [0; 8];
        Some(region)
    }

    /// Gives a frame back that was taken.
    pub(crate) fn give_back(&mut self, frame: u32) {
        debug_assert!(!self.is_free(frame), "frame {frame} is free already");
        self.set_free(frame, true);
        let region = PageId(frame).region();
        if self.free[region.index()] == ALL {
            self.is_whole[region.index()] = true;
            self.whole.push(region);
        } else {
            self.queue(frame);
        }
    }

    /// Whether nobody has the frame.
    pub(crate) fn is_free(&self, frame: u32) -> bool {
        let (region, word, mask) = place(frame);
        self.free[region][word] & mask != 0
    }

    /// Regions, free or not.
    pub(crate) fn regions(&self) -> u32 {
        self.free.len() as u32
    }

    fn pop_whole(&mut self) -> Option<Region> {
        while let Some(region) = self.whole.pop() {
            if self.is_whole[region.index()] {
                return Some(region);
            }
        }
        None
    }

    fn queue(&mut self, frame: u32) {
        let (region, word, mask) = place(frame);
        if self.queued[region][word] & mask == 0 {
            self.queued[region][word] |= mask;
            self.pieces.push(frame);
        }
    }

    fn set_free(&mut self, frame: u32, on: bool) {
        let (region, word, mask) = place(frame);
        if on {
            self.free[region][word] |= mask;
        } else {
            self.free[region][word] &= !mask;
        }
    }
}

fn place(frame: u32) -> (usize, usize, u64) {
    let offset = PageId(frame).offset();
    (PageId(frame).region().index(), offset as usize / 64, 1 << (offset % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_regions_come_in_order_and_pieces_before_them() {
        let mut fresh = FreeFrames::new(4, 0.0, &mut Rng::new(1));
        let taken: Vec<u32> = (0..600).filter_map(|_| fresh.take()).collect();
        assert!(taken.iter().copied().eq(0..600));
        fresh.give_back(17);
        assert_eq!(fresh.take(), Some(17), "what was given back comes next");
        assert_eq!(fresh.take_region(), Some(Region(2)));

        let mut aged = FreeFrames::new(64, 0.5, &mut Rng::new(1));
        let others = (0..64 * 512).filter(|frame| !aged.is_free(*frame)).count();
        assert!((5000..12_000).contains(&others), "about a quarter: {others}");
        let first: Vec<u32> = (0..4096).filter_map(|_| aged.take()).collect();
        let regions: std::collections::BTreeSet<u32> = first.iter().map(|f| f / 512).collect();
        assert!(regions.len() > 20, "scattered over {}", regions.len());
        assert!(first.chunks(8).all(|piece| piece[7] == piece[0] + 7), "in pieces of eight");
    }

    #[test]
    fn every_frame_is_handed_out_once_and_regions_become_whole_again() {
        let mut rng = Rng::new(5);
        let mut free = FreeFrames::new(16, 0.3, &mut rng);
        let mut taken = Vec::new();
        while let Some(frame) = free.take() {
            taken.push(frame);
        }
        let all = taken.len();
        assert_eq!(free.take_region(), None);
        taken.sort_unstable();
        taken.dedup();
        assert_eq!(taken.len(), all);
        rng.shuffle(&mut taken);
        taken.iter().for_each(|frame| free.give_back(*frame));
        let mut whole = 0;
        while free.take_region().is_some() {
            whole += 1;
        }
        let expected = (0..16).filter(|r| taken.iter().filter(|f| *f / 512 == *r).count() == 512);
        assert_eq!(whole, expected.count());
        assert!(whole > 0 && whole < 16, "{whole}");
    }
}
