//! Pages that a batch of samples has shown to be hot.

use crate::hotness::bitmap::Bitmap;
use crate::types::Bytes;
use alloc::vec::Vec;

/// A unit to promote, and whether for its momentum alone. Ordered by unit, frequency first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wanted(u64);

impl Wanted {
    #[inline(always)]
    pub(super) fn new(unit: u32, by_momentum: bool) -> Self {
        Self(u64::from(unit) << 1 | u64::from(by_momentum))
    }

    pub(super) fn unit(self) -> u32 {
        (self.0 >> 1) as u32
    }

    pub(super) fn by_momentum(self) -> bool {
        self.0 & 1 == 1
    }
}

/// Units to promote. Of pages there are many and each is sampled a few times: a list. Of regions there
/// are few, each sampled a hundred times: sets, which stay in the cache.
pub(super) struct Batch {
    list: Vec<Wanted>,
    /// Units wanted by frequency, and by momentum alone; none where the list serves.
    sets: Option<[Bitmap; 2]>,
}

impl Batch {
    /// Of units of so many pages.
    pub(super) fn new(span: u32) -> Self {
        Self { list: Vec::new(), sets: (span > 1).then(Default::default) }
    }

    #[inline(always)]
    pub(super) fn add(&mut self, wanted: Wanted) {
        match &mut self.sets {
            None => self.list.push(wanted),
            Some(sets) => sets[usize::from(wanted.by_momentum())].insert(wanted.unit()),
        }
    }

    /// Every unit once, in order; by frequency where one sample showed that. The batch is empty then.
    pub(super) fn take(&mut self) -> Vec<Wanted> {
        let mut list = core::mem::take(&mut self.list);
        if let Some(sets) = &mut self.sets {
            for (set, by_momentum) in sets.iter_mut().zip([false, true]) {
                set.drain(|unit| list.push(Wanted::new(unit, by_momentum)));
            }
        }
        list.sort_unstable();
        list.dedup_by_key(|wanted| wanted.unit());
        list
    }

    /// Takes the list's memory back.
    pub(super) fn give_back(&mut self, mut list: Vec<Wanted>) {
        list.clear();
        self.list = list;
    }

    pub(super) fn bytes(&self) -> Bytes {
        let sets = self.sets.iter().flatten().map(Bitmap::bytes);
        Bytes((self.list.capacity() * size_of::<Wanted>()) as u64)
            + sets.fold(Bytes::ZERO, |all, set| all + set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sets_hold_what_a_list_holds(
            samples in proptest::collection::vec((0u32..300, any::<bool>()), 0..400),
        ) {
            let (mut list, mut sets) = (Batch::new(1), Batch::new(512));
            for (unit, by_momentum) in samples {
                list.add(Wanted::new(unit, by_momentum));
                sets.add(Wanted::new(unit, by_momentum));
            }
            let (a, b) = (list.take(), sets.take());
            prop_assert_eq!(&a, &b);
            prop_assert!(a.is_sorted_by(|x, y| x.unit() < y.unit()));
            list.give_back(a);
            prop_assert!(list.take().is_empty() && sets.take().is_empty());
        }
    }
}
