//! Pages by their states, looked at 64 together.

use super::{EACH, PageState};
use crate::types::*;

/// Pages that are looked at together. A region is a multiple.
const BLOCK: u32 = 64;

/// Pages of a run in whose states something is found, in order. Of a folio the first page in the run
/// stands for all.
#[derive(Clone, Debug)]
pub(super) struct PagesThat<'a, F> {
    blocks: &'a [[u8; BLOCK as usize]],
    /// Pages from here on were not looked at.
    next: u32,
    end: u32,
    /// First page of the block that was looked at last, and a bit for each one that is still to be
    /// given.
    first: u32,
    found: u64,
    /// Sets the highest bit in the byte of each page that is one, given the states of eight.
    that: F,
}

impl<'a, F: Fn(u64) -> u64> PagesThat<'a, F> {
    pub(super) fn new(states: &'a [u8], run: PageRun, that: F) -> Self {
        let blocks = states.as_chunks().0;
        let end = run.end().min(blocks.len() as u32 * BLOCK);
        Self { blocks, next: run.start.0, end, first: 0, found: 0, that }
    }

    #[inline(always)]
    fn look(&mut self) {
        let block = self.next / BLOCK;
        let states = &self.blocks[block as usize];
        let found = self.found(states) & u64::MAX << (self.next % BLOCK);
        self.first = block * BLOCK;
        if PageState(states[0]).is_huge() {
            self.next = PageId(self.next).region().run().end();
            self.found = found & found.wrapping_neg();
        } else {
            self.next = self.first + BLOCK;
            self.found = found;
        }
    }

    /// A bit for each page of a block.
    #[inline(always)]
    fn found(&self, block: &[u8; BLOCK as usize]) -> u64 {
        let eights = block.as_chunks::<8>().0.iter().enumerate();
        eights.fold(0, |found, (i, states)| {
            let tops = (self.that)(u64::from_le_bytes(*states)) & (EACH << 7);
            // The bits of the bytes side by side, in the highest byte: no two of the products meet.
            found | ((tops >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * i)
        })
    }
}

impl<F: Fn(u64) -> u64> Iterator for PagesThat<'_, F> {
    type Item = PageId;

    #[inline(always)]
    fn next(&mut self) -> Option<PageId> {
        while self.found == 0 {
            if self.next >= self.end {
                return None;
            }
            self.look();
        }
        let page = self.first + self.found.trailing_zeros();
        self.found &= self.found - 1;
        (page < self.end).then_some(PageId(page))
    }
}
