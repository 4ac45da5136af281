//! Address space of a process, as far as the trace's events need it.

use frostline_trace::event::MapKind;
use std::collections::BTreeMap;

/// A stretch of address space with one backing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First byte behind it.
    pub end: u64,
    /// Backing; a file's offset is that of the mapping's first byte.
    pub kind: MapKind,
    /// Readable or writable.
    pub accessible: bool,
}

/// Mappings that do not overlap, by first byte.
#[derive(Clone, Debug, Default)]
pub struct AddressSpace {
    mappings: BTreeMap<u64, Mapping>,
}

impl AddressSpace {
    /// Maps `[start, end)`; what was there is replaced.
    pub fn map(&mut self, start: u64, end: u64, kind: MapKind, accessible: bool) {
        if start < end {
            self.unmap(start, end);
            self.mappings.insert(start, Mapping { end, kind, accessible });
        }
    }

    /// Unmaps `[start, end)`.
    pub fn unmap(&mut self, start: u64, end: u64) {
        self.split(start);
        self.split(end);
        let inside: Vec<u64> =
            self.mappings.range(start..end.max(start)).map(|(s, _)| *s).collect();
        for start in inside {
            self.mappings.remove(&start);
        }
    }

    /// Changes access to `[start, end)`. Gives the parts that were reservations and are
    /// accessible now.
    pub fn protect(&mut self, start: u64, end: u64, accessible: bool) -> Vec<(u64, Mapping)> {
        self.split(start);
        self.split(end);
        let mut opened = Vec::new();
        for (start, mapping) in self.mappings.range_mut(start..end.max(start)) {
            if accessible && !mapping.accessible {
                opened.push((*start, Mapping { accessible, ..*mapping }));
            }
            mapping.accessible = accessible;
        }
        opened
    }

    /// The mapping that holds this byte.
    pub fn find(&self, address: u64) -> Option<Mapping> {
        let (_, mapping) = self.mappings.range(..=address).next_back()?;
        (address < mapping.end).then_some(*mapping)
    }

    /// All mappings in address order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Mapping)> + '_ {
        self.mappings.iter().map(|(start, mapping)| (*start, *mapping))
    }

    /// Makes `at` a border if it is inside a mapping.
    fn split(&mut self, at: u64) {
        let Some((&start, mapping)) = self.mappings.range_mut(..at).next_back() else { return };
        if mapping.end <= at {
            return;
        }
        let behind = Mapping { kind: shifted(mapping.kind, at - start), ..*mapping };
        mapping.end = at;
        self.mappings.insert(at, behind);
    }
}

/// The backing `bytes` further on.
fn shifted(kind: MapKind, bytes: u64) -> MapKind {
    match kind {
        MapKind::FilePrivate { file, offset_bytes } => {
            MapKind::FilePrivate { file, offset_bytes: offset_bytes.saturating_add(bytes) }
        }
        MapKind::FileShared { file, offset_bytes } => {
            MapKind::FileShared { file, offset_bytes: offset_bytes.saturating_add(bytes) }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_trace::event::FileId;
    use proptest::prelude::*;

    const PAGE: u64 = 4096;

    #[test]
    fn a_hole_leaves_both_ends_with_their_offsets() {
        let mut space = AddressSpace::default();
        let file = MapKind::FilePrivate { file: FileId(7), offset_bytes: PAGE };
        space.map(10 * PAGE, 20 * PAGE, file, true);
        space.unmap(12 * PAGE, 15 * PAGE);
        let parts: Vec<_> = space.iter().map(|(start, m)| (start / PAGE, m.end / PAGE)).collect();
        assert_eq!(parts, [(10, 12), (15, 20)]);
        let behind = MapKind::FilePrivate { file: FileId(7), offset_bytes: 6 * PAGE };
        assert_eq!(space.find(15 * PAGE).map(|m| m.kind), Some(behind));
        assert_eq!(space.find(12 * PAGE), None);
    }

    #[test]
    fn opening_a_reservation_names_what_was_opened() {
        let mut space = AddressSpace::default();
        space.map(0, 64 * PAGE, MapKind::Anonymous, false);
        let opened = space.protect(0, 4 * PAGE, true);
        assert_eq!(opened.len(), 1);
        assert_eq!((opened[0].0, opened[0].1.end), (0, 4 * PAGE));
        assert!(space.protect(0, 4 * PAGE, true).is_empty());
        assert_eq!(space.protect(0, 6 * PAGE, true)[0].0, 4 * PAGE);
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Map(u64, u64, bool),
        Unmap(u64, u64),
        Protect(u64, u64, bool),
    }

    fn step() -> impl Strategy<Value = Step> {
        (0u64..40, 0u64..20, any::<bool>(), 0..3).prop_map(|(start, len, open, what)| match what {
            0 => Step::Map(start, start + len, open),
            1 => Step::Unmap(start, start + len),
            _ => Step::Protect(start, start + len, open),
        })
    }

    proptest! {
        /// Against one entry per page.
        #[test]
        fn equals_a_table_of_pages(steps in prop::collection::vec(step(), 1..40)) {
            let mut space = AddressSpace::default();
            let mut table = [None; 64];
            for step in steps {
                match step {
                    Step::Map(a, b, open) => {
                        space.map(a, b, MapKind::Anonymous, open);
                        (a..b).for_each(|page| table[page as usize] = Some(open));
                    }
                    Step::Unmap(a, b) => {
                        space.unmap(a, b);
                        (a..b).for_each(|page| table[page as usize] = None);
                    }
                    Step::Protect(a, b, open) => {
                        let opened = space.protect(a, b, open);
                        let pages: u64 = opened.iter().map(|(start, m)| m.end - start).sum();
                        let mut expected = 0;
                        for page in a..b {
                            if let Some(was) = &mut table[page as usize] {
                                expected += u64::from(open && !*was);
                                *was = open;
                            }
                        }
                        prop_assert_eq!(pages, expected);
                    }
                }
                for page in 0..64 {
                    let found = space.find(page).map(|mapping| mapping.accessible);
                    prop_assert_eq!(found, table[page as usize]);
                }
            }
        }
    }
}
