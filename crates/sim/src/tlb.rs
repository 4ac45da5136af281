//! Translation lookaside buffer of one thread.

use crate::machine::TlbModel;

const EMPTY: u32 = u32::MAX;
/// Tags of folios differ from those of base pages in their top bit; ids of pages above 2^31 would
/// need 8 TiB.
const HUGE_TAG: u32 = 1 << 31;

/// Set-associative with true LRU: within a set, the most recently used tag comes first.
#[derive(Clone, Debug)]
struct Level {
    ways: usize,
    sets: u32,
    tags: Vec<u32>,
}

impl Level {
    fn new(entries: u32, ways: u32) -> Self {
        Self { ways: ways as usize, sets: entries / ways, tags: vec![EMPTY; entries as usize] }
    }

    fn set(&mut self, tag: u32) -> &mut [u32] {
        let key = tag & !HUGE_TAG;
        let set = if self.sets.is_power_of_two() { key & (self.sets - 1) } else { key % self.sets };
        let start = set as usize * self.ways;
        &mut self.tags[start..start + self.ways]
    }

    /// Whether the tag was there; it is the most recent one afterwards.
    #[inline]
    fn access(&mut self, tag: u32) -> bool {
        // Every tag moves back by one, up to the place where this one was.
        let mut moving = tag;
        for slot in self.set(tag) {
            moving = std::mem::replace(slot, moving);
            if moving == tag {
                return true;
            }
        }
        false
    }

    fn remove(&mut self, tag: u32) {
        let set = self.set(tag);
        if let Some(at) = set.iter().position(|&t| t == tag) {
            set.copy_within(at + 1.., at);
            set[set.len() - 1] = EMPTY;
        }
    }
}

/// What a translation needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    L1,
    L2,
    Walk,
}

/// Two levels: the first apart for base pages and folios, the second shared.
#[derive(Clone, Debug)]
pub(crate) struct Tlb {
    base: Level,
    huge: Level,
    shared: Level,
}

impl Tlb {
    pub(crate) fn new(model: &TlbModel) -> Self {
        Self {
            base: Level::new(model.l1_base_entries, model.l1_ways),
            huge: Level::new(model.l1_huge_entries, model.l1_ways),
            shared: Level::new(model.l2_entries, model.l2_ways),
        }
    }

    /// Translates a page, mapped huge or not; what was missing is filled in.
    #[inline]
    pub(crate) fn translate(&mut self, page: u32, huge: bool) -> Lookup {
        let tag = if huge { (page / 512) | HUGE_TAG } else { page };
        let first = if huge { &mut self.huge } else { &mut self.base };
        if first.access(tag) {
            Lookup::L1
        } else if self.shared.access(tag) {
            Lookup::L2
        } else {
            Lookup::Walk
        }
    }

    /// Forgets everything.
    pub(crate) fn flush_all(&mut self) {
        for level in [&mut self.base, &mut self.huge, &mut self.shared] {
            level.tags.fill(EMPTY);
        }
    }

    /// Forgets a base page.
    pub(crate) fn flush_base(&mut self, page: u32) {
        self.base.remove(page);
        self.shared.remove(page);
    }

    /// Forgets a folio.
    pub(crate) fn flush_huge(&mut self, region: u32) {
        self.huge.remove(region | HUGE_TAG);
        self.shared.remove(region | HUGE_TAG);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_core::rng::Rng;
    use std::collections::VecDeque;

    /// An independent, slow LRU: one queue per set, the most recent tag in front.
    struct Slow {
        sets: Vec<VecDeque<(u32, bool)>>,
        ways: usize,
    }

    impl Slow {
        fn new(entries: u32, ways: u32) -> Self {
            let sets = vec![VecDeque::new(); (entries / ways) as usize];
            Self { sets, ways: ways as usize }
        }
        fn access(&mut self, key: (u32, bool)) -> bool {
            let n = self.sets.len() as u32;
            let set = &mut self.sets[(key.0 % n) as usize];
            let hit = set.iter().any(|k| *k == key);
            set.retain(|k| *k != key);
            set.push_front(key);
            set.truncate(self.ways);
            hit
        }
        fn remove(&mut self, key: (u32, bool)) {
            let n = self.sets.len() as u32;
            self.sets[(key.0 % n) as usize].retain(|k| *k != key);
        }
    }

    #[test]
    fn agrees_with_a_slow_lru() {
        let model = TlbModel { l2_entries: 96, l2_ways: 6, ..TlbModel::default() };
        let mut fast = Tlb::new(&model);
        let mut base = Slow::new(model.l1_base_entries, model.l1_ways);
        let mut huge = Slow::new(model.l1_huge_entries, model.l1_ways);
        let mut shared = Slow::new(model.l2_entries, model.l2_ways);
        let mut rng = Rng::new(3);
        let mut seen = [0u32; 3];
        for step in 0..200_000 {
            let page = (rng.below(40) * rng.below(300)) as u32;
            let is_huge = page / 512 % 2 == 1;
            if step % 50 == 0 {
                if is_huge {
                    fast.flush_huge(page / 512);
                    huge.remove((page / 512, true));
                    shared.remove((page / 512, true));
                } else {
                    fast.flush_base(page);
                    base.remove((page, false));
                    shared.remove((page, false));
                }
            }
            let key = if is_huge { (page / 512, true) } else { (page, false) };
            let first = if is_huge { &mut huge } else { &mut base };
            let expected = if first.access(key) {
                Lookup::L1
            } else if shared.access(key) {
                Lookup::L2
            } else {
                Lookup::Walk
            };
            assert_eq!(fast.translate(page, is_huge), expected, "step {step}");
            seen[expected as usize] += 1;
        }
        assert!(seen.iter().all(|&n| n > 1000), "every outcome has to occur: {seen:?}");
    }
}
