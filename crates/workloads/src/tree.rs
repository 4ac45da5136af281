//! Layout of a bulk of keys in the nodes of a B+tree, computed and not stored; and the search in one.

use super::permutation::Permutation;
use frostline_core::rng::Rng;

/// Enough for 2^64 keys with a fanout of 4.
const MAX_LEVELS: usize = 33;

/// Shape of a B+tree whose nodes are equally filled. A node has its slot in an array of nodes in
/// the order of allocation: after each `fanout` leaves (the last: fewer) follows one node of the
/// level above, as splits bring them; the few nodes of the levels above that come last.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    keys_per_leaf: u64,
    fanout: u64,
    /// Nodes per level, leaves first.
    levels: Vec<u64>,
    /// Order of allocation of the leaves and of the level above them, where it is not key order.
    shuffles: Option<[Permutation; 2]>,
}

impl Tree {
    /// `fanout` at least 4. With `shuffled`, keys were inserted in random order.
    pub(super) fn new(
        keys: u64,
        keys_per_leaf: u64,
        fanout: u64,
        shuffled: Option<&mut Rng>,
    ) -> Self {
        let mut levels = vec![keys.div_ceil(keys_per_leaf).max(1)];
        while *levels.last().unwrap_or(&1) > 1 {
            levels.push(levels[levels.len() - 1].div_ceil(fanout));
        }
        let shuffles = shuffled.map(|rng| {
            [0, 1]
                .map(|level| Permutation::new(levels.get(level).copied().unwrap_or(1) as u32, rng))
        });
        Self { keys_per_leaf, fanout, levels, shuffles }
    }

    /// Slots of all nodes are below this.
    pub(super) fn slots(&self) -> u64 {
        self.lower_slots() + self.levels.iter().skip(2).sum::<u64>()
    }

    fn lower_slots(&self) -> u64 {
        self.levels[0] + self.levels.get(1).copied().unwrap_or(0)
    }

    /// Calls `visit(slot, position in the node, is a leaf)` for each node on the way to `key`,
    /// from the root.
    #[inline]
    pub(super) fn descend(&self, key: u64, mut visit: impl FnMut(u64, u64, bool)) {
        let mut path = [(0, 0); MAX_LEVELS];
        let mut index = key / self.keys_per_leaf;
        let mut position = key - index * self.keys_per_leaf;
        for step in &mut path[..self.levels.len()] {
            *step = (index, position);
            let above = index / self.fanout;
            position = index - above * self.fanout;
            index = above;
        }
        for (level, &(index, position)) in path[..self.levels.len()].iter().enumerate().rev() {
            visit(self.slot(level, index), position, level == 0);
        }
    }

    fn slot(&self, level: usize, index: u64) -> u64 {
        let allocated = match &self.shuffles {
            Some(shuffles) if level < 2 => u64::from(shuffles[level].apply(index as u32)),
            _ => index,
        };
        match level {
            0 => allocated + allocated / self.fanout,
            1 => (allocated * (self.fanout + 1) + self.fanout).min(self.lower_slots() - 1),
            _ => self.lower_slots() + self.levels[2..level].iter().sum::<u64>() + allocated,
        }
    }
}

/// The positions at which a binary search among `filled` sorted keys looks until it is at
/// `position`.
#[inline]
pub(super) fn search(filled: u64, position: u64, mut probe: impl FnMut(u64)) {
    let (mut low, mut high) = (0, filled);
    while low < high {
        let middle = low.midpoint(high);
        probe(middle);
        match position.cmp(&middle) {
            std::cmp::Ordering::Equal => break,
            std::cmp::Ordering::Less => high = middle,
            std::cmp::Ordering::Greater => low = middle + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn every_node_has_a_slot_of_its_own() {
        for (keys, shuffled) in [(1, false), (10, true), (11, false), (5000, false), (5000, true)] {
            let mut rng = Rng::new(1);
            let tree = Tree::new(keys, 10, 4, shuffled.then_some(&mut rng));
            let mut owner: HashMap<u64, (usize, u64)> = HashMap::new();
            let depth = tree.levels.len();
            for key in 0..keys {
                let (mut path, mut level) = (key / 10, 0);
                let mut expected = Vec::new();
                while level < depth {
                    expected.push((level, path));
                    (path, level) = (path / 4, level + 1);
                }
                tree.descend(key, |slot, _, leaf| {
                    let node = expected.pop().expect("as many nodes as levels");
                    assert_eq!(leaf, node.0 == 0);
                    assert!(slot < tree.slots());
                    assert_eq!(*owner.entry(slot).or_insert(node), node);
                });
                assert!(expected.is_empty());
            }
            assert_eq!(owner.len() as u64, tree.levels.iter().sum::<u64>());
            assert_eq!(tree.slots(), owner.len() as u64, "none is left empty");
        }
    }

    #[test]
    fn a_binary_search_ends_at_its_position() {
        for filled in [1, 2, 28, 42] {
            for position in 0..filled {
                let mut probes = Vec::new();
                search(filled, position, |at| probes.push(at));
                assert_eq!(probes.last(), Some(&position));
                assert!(probes.len() <= 6 && probes.iter().all(|&at| at < filled));
            }
        }
    }

    #[test]
    fn leaves_of_keys_loaded_in_order_follow_each_other() {
        let tree = Tree::new(1000, 10, 4, None);
        let leaf_slot = |key| {
            let mut slot = 0;
            tree.descend(key, |s, _, _| slot = s);
            slot
        };
        assert!((10..1000).step_by(10).all(|key| leaf_slot(key) > leaf_slot(key - 10)));
    }
}
