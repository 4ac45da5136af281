//! Layout of small objects by jemalloc: in slabs of their size class, in order, and where the last
//! one of the class was freed.
//!
//! Source: jemalloc 5, the allocator that Redis brings: classes 8, 16 and so on by 16 up to 128 B,
//! then four to each doubling; a slab is the fewest pages that a class fills without rest; a
//! thread's cache hands out what was freed last. Freeing looks the page up in a tree with 8 B for
//! each page. Not: several threads, slabs that become empty, the padding of large objects.

use super::memory::Memory;
use super::stage::Area;
use frostline_core::types::PAGE_BYTES;

/// Places are counted in these: the smallest class.
const UNIT: u64 = 8;
/// Largest heap: places fit in 32 bits.
pub(super) const MAX_HEAP: u64 = UNIT << 32;
/// What is larger is a slab of its own.
const LARGEST_SMALL: u64 = 14 << 10;

/// The size class of so many bytes.
pub(super) fn size_class(bytes: u64) -> u64 {
    match bytes {
        ..=8 => 8,
        9..=128 => bytes.next_multiple_of(16),
        _ => bytes.next_multiple_of(1 << ((bytes - 1).ilog2() - 2)),
    }
}

/// Bytes of a slab of this class.
pub(super) fn slab_bytes(class: u64) -> u64 {
    if class > LARGEST_SMALL {
        return class.next_multiple_of(PAGE_BYTES);
    }
    let pages = (1..).find(|pages| (pages * PAGE_BYTES).is_multiple_of(class));
    pages.unwrap_or(1) * PAGE_BYTES
}

/// Bytes of all slabs for so many objects of so many bytes.
pub(super) fn slabs_for(objects: &[(u64, u64)]) -> u64 {
    let mut classes: Vec<(u64, u64)> = Vec::new();
    for (class, count) in objects.iter().map(|&(bytes, count)| (size_class(bytes), count)) {
        match classes.iter_mut().find(|(other, _)| *other == class) {
            Some((_, all)) => *all += count,
            None => classes.push((class, count)),
        }
    }
    let slabs = |&(class, count): &(u64, u64)| {
        let slab = slab_bytes(class);
        count.div_ceil(slab / class) * slab
    };
    classes.iter().map(slabs).sum()
}

/// The most keys whose objects fit `bytes`, if any do.
pub(super) fn most_keys(bytes: u64, objects: impl Fn(u32) -> Vec<(u64, u64)>) -> Option<u32> {
    let fits = |keys: u32| slabs_for(&objects(keys)) <= bytes;
    let (mut fit, mut not) = (0, 1 << 30);
    while not - fit > 1 {
        let middle = fit + (not - fit) / 2;
        if fits(middle) {
            fit = middle;
        } else {
            not = middle;
        }
    }
    (fit > 0).then_some(fit)
}

/// Where an object lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(u32);

impl Place {
    /// Its offset in the heap.
    #[inline]
    pub(super) fn at(self) -> u64 {
        u64::from(self.0) * UNIT
    }
}

#[derive(Debug)]
struct Class {
    bytes: u64,
    /// The rest of the slab in use.
    next: u64,
    end: u64,
    freed: Vec<Place>,
}

/// The heap of a program with one thread.
#[derive(Debug)]
pub(super) struct Heap {
    pub(super) area: Area,
    pages: Area,
    classes: Vec<Class>,
    used: u64,
}

impl Heap {
    /// Bytes of the tree with all pages of a heap of `bytes`.
    pub(super) const fn tree_bytes(bytes: u64) -> u64 {
        bytes / PAGE_BYTES * 8
    }

    /// An empty heap in `area`; `pages` has [`Self::tree_bytes`] of it.
    pub(super) fn new(area: Area, pages: Area) -> Self {
        Self { area, pages, classes: Vec::new(), used: 0 }
    }

    /// Bytes in slabs.
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// A place for so many bytes.
    #[inline]
    pub(super) fn allocate(&mut self, bytes: u64) -> Place {
        let bytes = size_class(bytes);
        let nth = self.class(bytes);
        let class = &mut self.classes[nth];
        if let Some(place) = class.freed.pop() {
            return place;
        }
        if class.next == class.end {
            class.next = self.used;
            class.end = self.used + slab_bytes(bytes) / bytes * bytes;
            self.used += slab_bytes(bytes);
        }
        let place = Place((class.next / UNIT) as u32);
        class.next += bytes;
        place
    }

    /// Gives back what was allocated with as many bytes.
    #[inline]
    pub(super) fn free(&mut self, memory: &mut impl Memory, place: Place, bytes: u64) {
        memory.load(self.pages, place.at() / PAGE_BYTES * 8);
        let nth = self.class(size_class(bytes));
        self.classes[nth].freed.push(place);
    }

    fn class(&mut self, bytes: u64) -> usize {
        self.classes.iter().position(|class| class.bytes == bytes).unwrap_or_else(|| {
            self.classes.push(Class { bytes, next: 0, end: 0, freed: Vec::new() });
            self.classes.len() - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Untraced;
    use crate::stage::Stage;
    use frostline_trace::event::MapKind;
    use frostline_trace::header::TraceHeader;

    #[test]
    fn size_classes_are_those_of_jemalloc() {
        for (bytes, class) in [
            (7, 8),
            (9, 16),
            (17, 32),
            (128, 128),
            (129, 160),
            (1030, 1280),
            (2048, 2048),
            (16_400, 20_480),
        ] {
            assert_eq!(size_class(bytes), class, "{bytes}");
        }
        for (class, pages) in [(8, 1), (48, 3), (112, 7), (128, 1), (1280, 5), (20_480, 5)] {
            assert_eq!(slab_bytes(class), pages * PAGE_BYTES, "{class}");
        }
    }

    #[test]
    fn nothing_overlaps_and_what_was_freed_last_comes_first() {
        let mut stage = Stage::new(TraceHeader::named("t"), 1);
        let [area, pages] = [1 << 20, 1 << 11].map(|b| stage.map(b, MapKind::Anonymous));
        let mut heap = Heap::new(area, pages);
        let mut bytes = vec![false; 1 << 20];
        let mut last = Vec::new();
        for round in 0..300u64 {
            for len in [6, 16, 24, 104, 1030, round * 3 + 1] {
                let place = heap.allocate(len);
                let slab = slab_bytes(size_class(len)).div_ceil(PAGE_BYTES);
                assert!(slab <= 8 && place.at() + len <= heap.used());
                for byte in &mut bytes[place.at() as usize..(place.at() + len) as usize] {
                    assert!(!std::mem::replace(byte, true));
                }
                last.push((place, len));
            }
        }
        let [a, b] = [last[4], last[10]];
        assert_eq!(a.1, b.1);
        let used = heap.used();
        heap.free(&mut Untraced, a.0, a.1);
        heap.free(&mut Untraced, b.0, b.1);
        assert_eq!([heap.allocate(1030), heap.allocate(1025)], [b.0, a.0]);
        assert_eq!(heap.used(), used);
    }
}
