//! Exact depths in an LRU stack of pages.
//!
//! Every access takes the next of a row of slots; a page's mark stands in the slot of its last
//! access, and the depth of a page is the number of marks from there on (Bennett and Kruskal,
//! "LRU stack processing", IBM J. Res. Dev. 1975). Marks are bits. Whole blocks of them are counted
//! by a Fenwick tree, the rest by counting bits. When the row is used up, the marks close ranks.

use frostline_core::types::PageRun;
use std::collections::BTreeSet;

const WORD_BITS: u32 = 64;
/// Slots, as a power of two, of a block; and of what the counts above count as one.
const BLOCK: u32 = 8;
const FAN: u32 = 6;
const MIDDLE: u32 = BLOCK + FAN;
const TOP: u32 = MIDDLE + FAN;
const BLOCK_WORDS: usize = (1 << BLOCK) / WORD_BITS as usize;
/// Free slots at the beginning of a row, at least.
const MIN_ROOM: u64 = 1 << 18;
/// Most slots of a row.
const MAX_SLOTS: u64 = 1 << 31;
/// No slot: the page is not in the stack.
const NONE: u32 = u32::MAX;

/// Pages in the order of their last accesses.
///
/// A depth tells for all sizes at once whether an LRU memory would have held the page: one of
/// `c` pages hits exactly where the depth is at most `c`. Pages that are freed leave a hole, which
/// the next page from below it (or from outside) fills, as it would a free page of memory
/// (Mattson et al., "Evaluation techniques for storage hierarchies", IBM Syst. J. 1970, with
/// deletions). At most 2^30 pages.
#[derive(Debug, Default)]
pub struct LruStack {
    /// Slot of each page's mark.
    slots: Vec<u32>,
    marks: Vec<u64>,
    /// Marks by block, by 64 blocks and by 64 times 64.
    blocks: Vec<u16>,
    middles: Vec<u32>,
    tops: Vec<u32>,
    /// Next slot to be taken.
    next: u32,
    /// Marks in all.
    height: u32,
    /// Slots whose marks belong to no page any more.
    holes: BTreeSet<u32>,
    /// Last of `holes`; 0 where there is none, which no page's slot is below.
    top_hole: u32,
}

impl LruStack {
    /// An empty stack.
    pub fn new() -> Self {
        Self::default()
    }

    /// Pages that can be in the stack.
    pub(crate) fn known(&self) -> PageRun {
        PageRun::between(0, u32::try_from(self.slots.len()).unwrap_or(u32::MAX))
    }

    /// Pages and holes: no depth is above this.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// An access: takes the page to the top. Gives its depth before, the top being 1, or `None`
    /// where it was not in the stack.
    #[inline]
    pub fn touch(&mut self, page: u32) -> Option<u32> {
        let index = page as usize;
        if index >= self.slots.len() {
            self.grow(index);
        }
        let slot = self.slots[index];
        if slot == NONE {
            self.fill_hole();
            self.push(index);
            return None;
        }
        if slot + 1 == self.next {
            return Some(1);
        }
        let depth = self.marks_from(slot);
        if slot < self.top_hole {
            // The hole goes down to where the page was.
            self.fill_hole();
            self.add_hole(slot);
        } else {
            self.clear(slot);
        }
        self.push(index);
        Some(depth)
    }

    /// The page's memory is given back. Nothing happens where it is not in the stack.
    pub fn free(&mut self, page: u32) {
        if let Some(slot) = self.slots.get_mut(page as usize).filter(|slot| **slot != NONE) {
            let slot = std::mem::replace(slot, NONE);
            self.add_hole(slot);
        }
    }

    /// What was at page `from` is at `to` now; what was there is freed.
    pub fn rename(&mut self, from: u32, to: u32) {
        let Some(slot) = self.slots.get(from as usize).copied() else { return };
        if slot == NONE || from == to {
            return;
        }
        self.free(to);
        if to as usize >= self.slots.len() {
            self.grow(to as usize);
        }
        self.slots[from as usize] = NONE;
        self.slots[to as usize] = slot;
    }

    /// Marks in `slot` and behind it.
    #[inline]
    fn marks_from(&self, slot: u32) -> u32 {
        let word = (slot / WORD_BITS) as usize;
        let mut count = (self.marks[word] >> (slot % WORD_BITS)).count_ones();
        let block = (slot >> BLOCK) as usize;
        for (i, bits) in self.marks[block * BLOCK_WORDS..][..BLOCK_WORDS].iter().enumerate() {
            let behind = if i > word % BLOCK_WORDS { *bits } else { 0 };
            count += behind.count_ones();
        }
        let middle = (slot >> MIDDLE) as usize;
        count += u32::from(sum_behind(&self.blocks, middle, block as u16 % (1 << FAN)));
        let top = (slot >> TOP) as usize;
        count += sum_behind(&self.middles, top, middle as u32 % (1 << FAN));
        count + self.tops[top + 1..].iter().sum::<u32>()
    }

    #[inline]
    fn count(&mut self, slot: u32, by: u32) {
        let block = &mut self.blocks[(slot >> BLOCK) as usize];
        *block = block.wrapping_add(by as u16);
        let middle = &mut self.middles[(slot >> MIDDLE) as usize];
        *middle = middle.wrapping_add(by);
        let top = &mut self.tops[(slot >> TOP) as usize];
        *top = top.wrapping_add(by);
        self.height = self.height.wrapping_add(by);
    }

    #[inline]
    fn clear(&mut self, slot: u32) {
        self.marks[(slot / WORD_BITS) as usize] &= !(1 << (slot % WORD_BITS));
        self.count(slot, 1u32.wrapping_neg());
    }

    #[inline]
    fn push(&mut self, index: usize) {
        if (self.next / WORD_BITS) as usize == self.marks.len() {
            self.close_ranks();
        }
        let slot = self.next;
        self.marks[(slot / WORD_BITS) as usize] |= 1 << (slot % WORD_BITS);
        self.slots[index] = slot;
        self.count(slot, 1);
        self.next += 1;
    }

    /// The topmost hole is filled from outside.
    #[inline]
    fn fill_hole(&mut self) {
        if self.top_hole > 0 {
            self.remove_top_hole();
        }
    }

    #[cold]
    fn remove_top_hole(&mut self) {
        let hole = self.top_hole;
        self.holes.remove(&hole);
        self.clear(hole);
        self.top_hole = self.holes.last().copied().unwrap_or(0);
    }

    #[cold]
    fn add_hole(&mut self, slot: u32) {
        self.holes.insert(slot);
        self.top_hole = self.top_hole.max(slot);
    }

    #[cold]
    fn grow(&mut self, index: usize) {
        self.slots.resize((index + 1).next_multiple_of(512), NONE);
    }

    /// Renumbers the marks without gaps, in front of a new row.
    #[cold]
    fn close_ranks(&mut self) {
        let mut before = Vec::with_capacity(self.marks.len());
        // Slot 0 stays empty: 0 means that there is no hole.
        let mut sum = 1;
        for word in &self.marks {
            before.push(sum);
            sum += word.count_ones();
        }
        let rank = |slot: u32| {
            let (word, bit) = ((slot / WORD_BITS) as usize, slot % WORD_BITS);
            before[word] + (self.marks[word] & ((1 << bit) - 1)).count_ones()
        };
        self.slots.iter_mut().filter(|s| **s != NONE).for_each(|slot| *slot = rank(*slot));
        self.holes = self.holes.iter().map(|slot| rank(*slot)).collect();
        self.top_hole = self.holes.last().copied().unwrap_or(0);

        let taken = u64::from(sum);
        let wanted = (taken + (3 * taken).max(MIN_ROOM)).min(MAX_SLOTS);
        assert!(wanted / 2 >= taken, "2^30 pages are the most");
        let tops = wanted.div_ceil(1 << TOP) as usize;
        self.marks = vec![0; tops << (TOP - WORD_BITS.ilog2())];
        self.blocks = vec![0; tops << (2 * FAN)];
        self.middles = vec![0; tops << FAN];
        self.tops = vec![0; tops];
        self.height = 0;
        for slot in 1..sum {
            self.marks[(slot / WORD_BITS) as usize] |= 1 << (slot % WORD_BITS);
            self.count(slot, 1);
        }
        self.next = sum;
    }
}

/// Sum of the counts behind the one at `at` of group `group`, of [`FAN`] counts each.
#[inline]
fn sum_behind<T>(counts: &[T], group: usize, at: T) -> T
where
    T: Copy + Default + PartialOrd + From<u8> + std::ops::Add<Output = T>,
{
    let counts = &counts[group << FAN..][..1 << FAN];
    let mut sum = T::default();
    for (i, count) in counts.iter().enumerate() {
        sum = sum + if T::from(i as u8) > at { *count } else { T::default() };
    }
    sum
}
