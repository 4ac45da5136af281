//! A growing set of small numbers, one bit each.

use crate::types::Bytes;
use alloc::vec::Vec;

/// Set of `u32`, sized by its largest member.
#[derive(Clone, Debug, Default)]
pub struct Bitmap {
    words: Vec<u64>,
}

impl Bitmap {
    const fn position(i: u32) -> (usize, u64) {
        (i as usize / 64, 1 << (i % 64))
    }

    /// Whether `i` is a member.
    #[inline]
    pub fn contains(&self, i: u32) -> bool {
        let (word, bit) = Self::position(i);
        self.words.get(word).is_some_and(|w| w & bit != 0)
    }

    /// Makes `i` a member.
    pub fn insert(&mut self, i: u32) {
        let (word, bit) = Self::position(i);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= bit;
    }

    /// Takes `i` out.
    pub fn remove(&mut self, i: u32) {
        let (word, bit) = Self::position(i);
        if let Some(w) = self.words.get_mut(word) {
            *w &= !bit;
        }
    }

    /// Takes all members out, in order.
    pub fn drain(&mut self, mut each: impl FnMut(u32)) {
        for (word, first) in self.words.iter_mut().zip((0..).step_by(64)) {
            let mut left = core::mem::take(word);
            while left != 0 {
                each(first + left.trailing_zeros());
                left &= left - 1;
            }
        }
    }

    /// Memory held.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.words.capacity() as u64 * 8)
    }
}
