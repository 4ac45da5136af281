//! Exact depths in an LRU stack of pages.
//!
//! Every access takes the next of a row of slots; a page's mark stands in the slot of its last
//! access, and the depth of a page is the number of marks from there on (Bennett and Kruskal,
//! "LRU stack processing", IBM J. Res. Dev. 1975). Marks are bits. Whole blocks of them are counted
//! by a Fenwick tree, the rest by counting bits. When the row is used up, the marks close ranks.

use std::collections::BTreeSet;

const WORD_BITS: u32 = 64;
/// Words in a block of slots that the tree counts as one.
const BLOCK_WORDS: usize = 8;
const BLOCK_SLOTS: u32 = WORD_BITS * BLOCK_WORDS as u32;
/// The row has at least so many slots to go when it begins.
const MIN_ROOM: u64 = 1 << 18;
/// No slot: the page is not in the stack.
const NONE: u32 = u32::MAX;

/// Pages in the order of their last accesses.
///
/// A depth tells for all sizes at once whether an LRU memory would have held the page: one of
/// `c` pages hits exactly where the depth is at most `c`. Pages that are freed leave a hole, which
/// the next page from below it (or from outside) fills, as it would a free page of memory
/// (Mattson et al., "Evaluation techniques for storage hierarchies", IBM Syst. J. 1970, with
/// deletions). At most 2^31 pages.
#[derive(Debug, Default)]
pub struct LruStack {
    /// Slot of each page's mark.
    slots: Vec<u32>,
    marks: Vec<u64>,
    /// Counts of marks by block, for blocks in front of the open one.
    tree: Vec<u32>,
    /// Next slot to be taken; the block in which it lies is open.
    next: u32,
    /// Marks in front of the open block, and in it.
    closed: u32,
    open: u32,
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

    /// Pages and holes: no depth is above this.
    pub fn height(&self) -> u32 {
        self.closed + self.open
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
        let (word, bit) = ((slot / WORD_BITS) as usize, slot % WORD_BITS);
        let block = word / BLOCK_WORDS;
        let mut count = (self.marks[word] >> bit).count_ones();
        for word in &self.marks[word + 1..(block + 1) * BLOCK_WORDS] {
            count += word.count_ones();
        }
        if block == (self.next / BLOCK_SLOTS) as usize {
            return count;
        }
        count + self.closed - self.before(block + 1) + self.open
    }

    /// Marks in the first `blocks` blocks, all of them closed.
    #[inline]
    fn before(&self, blocks: usize) -> u32 {
        let (mut at, mut sum) = (blocks, 0);
        while at > 0 {
            sum += self.tree[at];
            at &= at - 1;
        }
        sum
    }

    #[inline]
    fn add(&mut self, block: usize, by: u32) {
        let mut at = block + 1;
        while at < self.tree.len() {
            self.tree[at] = self.tree[at].wrapping_add(by);
            at += at & at.wrapping_neg();
        }
    }

    #[inline]
    fn clear(&mut self, slot: u32) {
        self.marks[(slot / WORD_BITS) as usize] &= !(1 << (slot % WORD_BITS));
        let block = slot / BLOCK_SLOTS;
        if block == self.next / BLOCK_SLOTS {
            self.open -= 1;
        } else {
            self.closed -= 1;
            self.add(block as usize, 1u32.wrapping_neg());
        }
    }

    #[inline]
    fn push(&mut self, index: usize) {
        if (self.next / WORD_BITS) as usize == self.marks.len() {
            self.close_ranks();
        }
        let slot = self.next;
        self.marks[(slot / WORD_BITS) as usize] |= 1 << (slot % WORD_BITS);
        self.slots[index] = slot;
        self.open += 1;
        self.next += 1;
        if self.next.is_multiple_of(BLOCK_SLOTS) {
            self.closed += self.open;
            self.add((slot / BLOCK_SLOTS) as usize, self.open);
            self.open = 0;
        }
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

        let height = u64::from(sum);
        let wanted = (height + (3 * height).max(MIN_ROOM)).min(u64::from(NONE - BLOCK_SLOTS));
        assert!(wanted > height, "2^31 pages are the most");
        let blocks = wanted.div_ceil(BLOCK_SLOTS.into()) as usize;
        self.marks.clear();
        self.marks.resize(blocks * BLOCK_WORDS, 0);
        for slot in 1..sum {
            self.marks[(slot / WORD_BITS) as usize] |= 1 << (slot % WORD_BITS);
        }
        self.next = sum;
        self.tree.clear();
        self.tree.resize(blocks + 1, 0);
        (self.closed, self.open) = (0, 0);
        for block in 0..=(self.next / BLOCK_SLOTS) as usize {
            let words = &self.marks[block * BLOCK_WORDS..(block + 1) * BLOCK_WORDS];
            let count = words.iter().map(|word| word.count_ones()).sum();
            if block == (self.next / BLOCK_SLOTS) as usize {
                self.open = count;
            } else {
                self.closed += count;
                self.add(block, count);
            }
        }
    }
}
