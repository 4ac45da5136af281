//! Lists of units through which replacement algorithms such as ARC and 2Q pass their pages.

use crate::types::*;
use alloc::vec::Vec;

/// No page.
const NONE: u32 = u32::MAX;
/// Number of a unit that is in no list.
const NOWHERE: u8 = u8::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    newer: u32,
    older: u32,
    pages: u16,
    list: u8,
}

impl Node {
    const EMPTY: Self = Self { newer: NONE, older: NONE, pages: 0, list: NOWHERE };
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    newest: u32,
    oldest: u32,
    pages: u64,
}

/// `N` lists of units, each unit in at most one, named by its first page.
#[derive(Clone, Debug)]
pub struct Lists<const N: usize> {
    nodes: Vec<Node>,
    ends: [Ends; N],
}

impl<const N: usize> Lists<N> {
    /// Empty lists with room for `hint` pages.
    pub fn new(hint: PageCount) -> Self {
        let nodes = Vec::with_capacity(usize::try_from(hint.0).unwrap_or(0));
        Self { nodes, ends: [Ends { newest: NONE, oldest: NONE, pages: 0 }; N] }
    }

    /// Pages in a list.
    pub fn pages(&self, list: usize) -> u64 {
        self.ends[list].pages
    }

    /// The list that a unit is in.
    pub fn list_of(&self, first: PageId) -> Option<usize> {
        let list = self.nodes.get(first.index())?.list;
        (list != NOWHERE).then_some(usize::from(list))
    }

    /// The unit of that first page, where it is in a list.
    pub fn unit(&self, first: PageId) -> Option<PageRun> {
        self.list_of(first)?;
        Some(PageRun { start: first, pages: u32::from(self.nodes[first.index()].pages) })
    }

    /// The unit that has been in a list for longest.
    pub fn oldest(&self, list: usize) -> Option<PageRun> {
        let oldest = self.ends[list].oldest;
        (oldest != NONE).then(|| self.unit(PageId(oldest))).flatten()
    }

    /// Puts a unit, a page or a folio, at the newer end of a list, wherever it was.
    pub fn put(&mut self, unit: PageRun, list: usize) {
        let end = unit.range().end;
        if end > self.nodes.len() {
            self.nodes.resize(end.next_multiple_of(HUGE_PAGES as usize), Node::EMPTY);
        }
        self.remove(unit.start);
        let ends = &mut self.ends[list];
        let older = core::mem::replace(&mut ends.newest, unit.start.0);
        ends.pages += u64::from(unit.pages);
        match older {
            NONE => ends.oldest = unit.start.0,
            older => self.nodes[older as usize].newer = unit.start.0,
        }
        self.nodes[unit.start.index()] =
            Node { newer: NONE, older, pages: unit.pages as u16, list: list as u8 };
    }

    /// Takes a unit out; gives its list.
    pub fn remove(&mut self, first: PageId) -> Option<usize> {
        let list = self.list_of(first)?;
        let node = core::mem::replace(&mut self.nodes[first.index()], Node::EMPTY);
        let ends = &mut self.ends[list];
        ends.pages -= u64::from(node.pages);
        match node.newer {
            NONE => ends.newest = node.older,
            newer => self.nodes[newer as usize].older = node.older,
        }
        match node.older {
            NONE => ends.oldest = node.newer,
            older => self.nodes[older as usize].newer = node.newer,
        }
        Some(list)
    }

    /// Memory held.
    pub fn bytes(&self) -> Bytes {
        Bytes((self.nodes.capacity() * size_of::<Node>()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn they_are_what_vectors_would_be(
            steps in proptest::collection::vec((0..1200u32, any::<bool>(), 0..4usize), 1..300),
        ) {
            let mut lists = Lists::<3>::new(PageCount::ZERO);
            let mut naive: [Vec<PageRun>; 3] = Default::default();
            for (page, huge, list) in steps {
                let run = PageId(page).region().run();
                let unit = if huge { run } else { PageRun::single(PageId(page)) };
                let was = naive.iter().position(|l| l.iter().any(|u| u.start == unit.start));
                naive.iter_mut().for_each(|l| l.retain(|u| u.start != unit.start));
                prop_assert_eq!(lists.list_of(unit.start), was);
                if list == 3 {
                    prop_assert_eq!(lists.remove(unit.start), was);
                } else {
                    lists.put(unit, list);
                    naive[list].push(unit);
                }
                for (list, naive) in naive.iter().enumerate() {
                    let pages = naive.iter().map(|u| u64::from(u.pages)).sum::<u64>();
                    prop_assert_eq!(lists.pages(list), pages);
                    prop_assert_eq!(lists.oldest(list), naive.first().copied());
                }
            }
            for (list, naive) in naive.iter().enumerate() {
                for unit in naive {
                    prop_assert_eq!(lists.oldest(list), Some(*unit));
                    lists.remove(unit.start);
                }
            }
        }
    }
}
