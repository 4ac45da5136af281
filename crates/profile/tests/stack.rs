//! Depths against a stack that is searched from the top, and against memories that are simulated.

use frostline_core::rng::Rng;
use frostline_profile::LruStack;
use proptest::prelude::*;
use std::collections::VecDeque;

/// A list of pages, the latest in front.
#[derive(Default)]
struct Naive(Vec<u32>);

impl Naive {
    fn touch(&mut self, page: u32) -> Option<u32> {
        let at = self.0.iter().position(|p| *p == page);
        if let Some(at) = at {
            self.0.remove(at);
        }
        self.0.insert(0, page);
        at.map(|at| at as u32 + 1)
    }
}

#[test]
fn depths_are_those_of_a_list() {
    // Few slots for many accesses: ranks are closed several times, blocks begin and end.
    let (mut stack, mut naive, mut rng) = (LruStack::new(), Naive::default(), Rng::new(3));
    let mut deepest = 0;
    for i in 0..600_000u32 {
        let page = match i % 3 {
            0 => i / 3 % 700,
            1 => rng.below(40) as u32,
            _ => rng.below(1500) as u32,
        };
        let depth = stack.touch(page);
        assert_eq!(depth, naive.touch(page), "access {i}");
        deepest = deepest.max(depth.unwrap_or(0));
    }
    assert!(deepest > 1400, "the lower part of the stack was used: {deepest}");
    assert_eq!(stack.height() as usize, naive.0.len());
}

/// A memory of so many pages that lets go of the one that was not used for longest.
struct Memory {
    room: usize,
    pages: VecDeque<u32>,
}

impl Memory {
    fn touch(&mut self, page: u32) -> bool {
        let hit = self.free(page);
        self.pages.push_front(page);
        self.pages.truncate(self.room);
        hit
    }

    fn free(&mut self, page: u32) -> bool {
        let at = self.pages.iter().position(|p| *p == page);
        at.is_some_and(|at| self.pages.remove(at).is_some())
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Touch(u32),
    Free(u32),
    Rename(u32, u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let page = || 0..24u32;
    let step = prop_oneof![
        12 => page().prop_map(Step::Touch),
        2 => page().prop_map(Step::Free),
        1 => (page(), page()).prop_map(|(a, b)| Step::Rename(a, b)),
    ];
    prop::collection::vec(step, 0..400)
}

proptest! {
    #[test]
    fn a_depth_says_which_memories_hit(steps in steps()) {
        let mut stack = LruStack::new();
        let mut memories: Vec<Memory> =
            (1..=26).map(|room| Memory { room, pages: VecDeque::new() }).collect();
        let mut known = [false; 24];
        for step in steps {
            match step {
                Step::Touch(page) => {
                    let depth = stack.touch(page);
                    prop_assert_eq!(depth.is_some(), known[page as usize]);
                    known[page as usize] = true;
                    for memory in &mut memories {
                        let hit = depth.is_some_and(|depth| depth as usize <= memory.room);
                        prop_assert_eq!(memory.touch(page), hit, "room for {}", memory.room);
                    }
                }
                Step::Free(page) => {
                    stack.free(page);
                    known[page as usize] = false;
                    memories.iter_mut().for_each(|memory| {
                        memory.free(page);
                    });
                }
                Step::Rename(from, to) if from != to && known[from as usize] => {
                    stack.rename(from, to);
                    known[from as usize] = false;
                    known[to as usize] = true;
                    for memory in &mut memories {
                        memory.free(to);
                        memory.pages.iter_mut().filter(|p| **p == from).for_each(|p| *p = to);
                    }
                }
                Step::Rename(from, to) => stack.rename(from, to),
            }
        }
    }
}

#[test]
fn holes_survive_closing_ranks() {
    let mut stack = LruStack::new();
    for page in 0..1000 {
        stack.touch(page);
    }
    (0..1000).step_by(2).for_each(|page| stack.free(page));
    assert_eq!(stack.height(), 1000, "holes keep their place");
    // Many rows: the two that are touched in turn use up slots, the holes stay.
    for _ in 0..1_000_000 {
        assert!(stack.touch(999).is_some_and(|depth| depth <= 2));
        assert!(stack.touch(997).is_some_and(|depth| depth <= 4));
    }
    assert_eq!(stack.touch(1), Some(999), "page 0's hole is below it, page 998's was filled");
    (2000..2500).for_each(|page| assert_eq!(stack.touch(page), None));
    assert_eq!(stack.height(), 1000, "new pages went into the holes");
    stack.touch(3000);
    assert_eq!(stack.height(), 1001);
}
