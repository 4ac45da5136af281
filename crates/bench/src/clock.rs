//! CLOCK over dense page ids: a ring of frames, a hand, one state byte per page.

use crate::PageCache;

const ABSENT: u8 = 0;
const RESIDENT: u8 = 1;
const REFERENCED: u8 = 2;

/// A cache that evicts the first page under its hand that was not accessed since the hand passed
/// it, or since it came in (one reference bit, clear at first).
#[derive(Debug)]
pub struct Clock {
    capacity: usize,
    misses: u64,
    /// Page of each frame.
    ring: Vec<u32>,
    hand: usize,
    state: Vec<u8>,
}

impl Clock {
    /// An empty cache of `capacity` pages, for page ids below `pages`.
    ///
    /// # Panics
    /// Where the capacity is 0.
    pub fn new(capacity: usize, pages: usize) -> Self {
        assert!(capacity > 0, "no CLOCK of 0 pages");
        let state = vec![ABSENT; pages];
        Self { capacity, misses: 0, ring: Vec::with_capacity(capacity), hand: 0, state }
    }

    #[inline]
    fn access(&mut self, page: u32) {
        let state = &mut self.state[page as usize];
        if *state != ABSENT {
            *state = REFERENCED;
            return;
        }
        *state = RESIDENT;
        self.misses += 1;
        if self.ring.len() < self.capacity {
            self.ring.push(page);
        } else {
            self.replace(page);
        }
    }

    #[inline]
    fn replace(&mut self, page: u32) {
        loop {
            let frame = &mut self.ring[self.hand];
            self.hand = if self.hand + 1 == self.capacity { 0 } else { self.hand + 1 };
            let state = &mut self.state[*frame as usize];
            if *state == RESIDENT {
                *state = ABSENT;
                *frame = page;
                return;
            }
            *state = RESIDENT;
        }
    }
}

impl PageCache for Clock {
    fn access_all(&mut self, pages: &[u32]) {
        for pages in pages.chunks(crate::GROUP) {
            crate::touch(&self.state, pages);
            for &page in pages {
                self.access(page);
            }
        }
    }

    fn misses(&self) -> u64 {
        self.misses
    }

    fn resident(&self) -> usize {
        self.ring.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// The definition as a queue with second chances: what was referenced goes to its end again.
    fn misses_by_definition(capacity: usize, pages: &[u32]) -> u64 {
        let mut queue: VecDeque<(u32, bool)> = VecDeque::new();
        let mut misses = 0;
        for &page in pages {
            if let Some(entry) = queue.iter_mut().find(|entry| entry.0 == page) {
                entry.1 = true;
                continue;
            }
            misses += 1;
            while queue.len() == capacity {
                match queue.pop_front() {
                    Some((other, true)) => queue.push_back((other, false)),
                    _ => break,
                }
            }
            queue.push_back((page, false));
        }
        misses
    }

    #[test]
    fn a_referenced_page_gets_a_second_chance() {
        let mut clock = Clock::new(2, 4);
        clock.access_all(&[0, 1, 0, 2, 0]);
        assert_eq!(clock.misses(), 3, "the hand passed 0 and took 1");
        clock.access_all(&[3, 2]);
        assert_eq!(clock.misses(), 5, "0 was referenced again; 2 was not and went");
    }

    proptest! {
        #[test]
        fn misses_as_by_definition(
            capacity in 1_usize..40,
            pages in prop::collection::vec(0_u32..64, 0..3000),
        ) {
            let mut clock = Clock::new(capacity, 64);
            clock.access_all(&pages);
            prop_assert_eq!(clock.misses(), misses_by_definition(capacity, &pages));
            let live = clock.state.iter().filter(|&&state| state != ABSENT).count();
            prop_assert_eq!(live, clock.resident());
        }
    }
}
