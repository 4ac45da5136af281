//! Memory of a program in the extents that it asked for. The kernel shows neighbours as one
//! mapping; the calls that made them tell them apart.
//!
//! Calls that nobody saw (small ones, those whose records were lost, `mprotect`) are made up for by
//! what `/proc/PID/maps` says. It may be ahead of records that are on their way, hence a difference
//! counts when two readings in succession show it.

use crate::perf::tracepoints::Change;
use crate::process::maps::{self, Kind, Mapping};
use frostline_core::event::Backing;
use frostline_core::mappings;
use frostline_core::span::{ExtentChange, Span, difference, joined};
use frostline_core::types::{PAGE_BYTES, Vpn};
use std::collections::BTreeMap;

/// What is left of an allocation, in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its pages; never empty.
    pub span: Span,
    /// When it was asked for or first seen, in nanoseconds of `CLOCK_MONOTONIC`. Pieces of one
    /// allocation have the same time, what was added to it later included.
    pub since_ns: u64,
    /// What backs it.
    pub backing: Backing,
}

/// The extents of one process that may be moved: private writable memory without a file.
#[derive(Clone, Debug, Default)]
pub struct Extents {
    by_start: BTreeMap<Vpn, Extent>,
    /// From the first page of the `brk` heap to its end.
    heap: Option<Span>,
    /// Calls that ended by then are known from mappings.
    known_ns: u64,
    /// Changes are told: mappings have been read once.
    told: bool,
    /// The next mappings are taken as they are.
    distrusted: bool,
    /// Differences that the last reading showed: what was added, and what removed.
    seen: [Vec<Span>; 2],
}

impl Extents {
    /// Takes in a call that ended at `time_ns`.
    pub fn apply(&mut self, change: Change, time_ns: u64, mut sink: impl FnMut(ExtentChange)) {
        if self.knows(time_ns) {
            return;
        }
        let told = self.told;
        let mut tell = |change| {
            if told {
                sink(change);
            }
        };
        match change {
            Change::Map { address, len_bytes, anonymous, private, writable } => {
                let span = span_of(address, len_bytes);
                self.unmap(span, &mut tell);
                if anonymous && private && writable {
                    self.insert(span, time_ns, Backing::Anonymous, &mut tell);
                }
            }
            Change::Unmap { address, len_bytes } => {
                self.unmap(span_of(address, len_bytes), &mut tell);
            }
            Change::Remap { from, from_len_bytes, to, to_len_bytes } => {
                let (old, new) = (span_of(from, from_len_bytes), span_of(to, to_len_bytes));
                self.remap(old, new, &mut tell);
            }
            Change::Break { end } => {
                self.set_break(Vpn(end.div_ceil(PAGE_BYTES)), time_ns, &mut tell)
            }
        }
    }

    /// Compares with all mappings of the process, as they were read after `at_ns`.
    pub fn compare(
        &mut self,
        mappings: &[Mapping],
        at_ns: u64,
        mut sink: impl FnMut(ExtentChange),
    ) {
        let whole = !self.told || self.distrusted;
        let there = joined(maps::tierable(mappings).map(|(span, _)| span));
        let known = self.spans();
        let found = [difference(&there, &known), difference(&known, &there)];
        let [added, removed] = if whole {
            self.seen = Default::default();
            found
        } else {
            let [added, removed] = std::mem::replace(&mut self.seen, found);
            [common(&self.seen[0], &added), common(&self.seen[1], &removed)]
        };
        let told = self.told;
        let mut tell = |change| {
            if told {
                sink(change);
            }
        };
        removed.iter().for_each(|span| self.unmap(*span, &mut tell));
        for (span, backing) in mappings::parts(maps::tierable(mappings), &added) {
            self.insert(span, at_ns, backing, &mut tell);
        }
        let heap = mappings.iter().filter(|mapping| mapping.kind == Kind::Heap);
        let heap = heap.map(|mapping| mapping.span).reduce(|a, b| Span::between(a.start, b.end()));
        if whole || self.heap.is_none() {
            self.heap = heap.or(self.heap);
        }
        if whole {
            self.known_ns = at_ns;
            self.distrusted = false;
        }
        if !self.told {
            self.told = true;
            for Extent { span, backing, .. } in self.by_start.values().copied() {
                sink(ExtentChange::Mapped { span, backing });
            }
        }
    }

    /// Records were lost: the next mappings count as they are.
    pub fn distrust(&mut self) {
        self.distrusted = true;
    }

    /// The process executed another program at `time_ns`. Nothing is told of that.
    pub fn replace(&mut self, time_ns: u64) {
        *self = Self { known_ns: time_ns, ..Self::default() };
    }

    /// What a child has that was forked at `time_ns`. All of it is told with its first mappings.
    #[must_use]
    pub fn forked(&self, time_ns: u64) -> Self {
        Self {
            by_start: self.by_start.clone(),
            heap: self.heap,
            known_ns: time_ns,
            ..Self::default()
        }
    }

    /// Whether what happened at `time_ns` is contained in mappings that were read.
    pub fn knows(&self, time_ns: u64) -> bool {
        time_ns <= self.known_ns
    }

    /// Whether mappings have been read and changes are told.
    pub fn is_told(&self) -> bool {
        self.told
    }

    /// All extents, ascending.
    pub fn iter(&self) -> impl Iterator<Item = &Extent> {
        self.by_start.values()
    }

    /// All memory, ascending, neighbours joined.
    pub fn spans(&self) -> Vec<Span> {
        joined(self.iter().map(|extent| extent.span))
    }

    fn insert(
        &mut self,
        span: Span,
        since_ns: u64,
        backing: Backing,
        tell: &mut impl FnMut(ExtentChange),
    ) {
        if span.is_empty() {
            return;
        }
        // A heap is one allocation, however often its end was moved.
        if backing == Backing::Heap && self.last_before(span.start, backing).is_some() {
            self.grow(span, tell);
            return;
        }
        self.by_start.insert(span.start, Extent { span, since_ns, backing });
        tell(ExtentChange::Mapped { span, backing });
    }

    /// The extent that ends where `end` begins.
    fn last_before(&mut self, end: Vpn, backing: Backing) -> Option<&mut Extent> {
        let (_, last) = self.by_start.range_mut(..end).next_back()?;
        (last.span.end() == end && last.backing == backing).then_some(last)
    }

    /// Adds pages to the extent before them.
    fn grow(&mut self, span: Span, tell: &mut impl FnMut(ExtentChange)) {
        let before = self.by_start.range_mut(..span.start).next_back();
        if let Some((_, last)) = before.filter(|(_, last)| last.span.end() == span.start)
            && !span.is_empty()
        {
            last.span.pages += span.pages;
            tell(ExtentChange::Mapped { span, backing: last.backing });
        }
    }

    /// Takes out all that lies in `span`, and gives it back in pieces.
    fn cut(&mut self, span: Span) -> Vec<Extent> {
        if span.is_empty() {
            return Vec::new();
        }
        let reaches_in = |(_, extent): &(&Vpn, &Extent)| extent.span.end() > span.start;
        let first = self.by_start.range(..span.start).next_back().filter(reaches_in);
        let inside = self.by_start.range(span.start..span.end().max(span.start));
        let starts: Vec<Vpn> = first.into_iter().chain(inside).map(|(start, _)| *start).collect();
        let mut pieces = Vec::new();
        for extent in
            starts.iter().filter_map(|start| self.by_start.remove(start)).collect::<Vec<_>>()
        {
            let piece = extent.span.intersect(span);
            let before = Span::between(extent.span.start, piece.start);
            let after = Span::between(piece.end(), extent.span.end());
            for span in [before, after].into_iter().filter(|span| !span.is_empty()) {
                self.by_start.insert(span.start, Extent { span, ..extent });
            }
            pieces.push(Extent { span: piece, ..extent });
        }
        pieces
    }

    fn unmap(&mut self, span: Span, tell: &mut impl FnMut(ExtentChange)) {
        for extent in self.cut(span) {
            tell(ExtentChange::Unmapped { span: extent.span });
        }
    }

    fn remap(&mut self, old: Span, new: Span, tell: &mut impl FnMut(ExtentChange)) {
        // Of no length: another mapping of shared memory.
        if old.is_empty() {
            return;
        }
        let kept = old.pages.min(new.pages);
        let moved = Span::new(old.start, kept);
        let rest = Span::between(moved.end(), old.end());
        let grown = Span::between(Vpn(new.start.0.saturating_add(kept)), new.end());
        if old.start == new.start {
            self.unmap(rest, tell);
            self.unmap(grown, tell);
            self.grow(grown, tell);
            return;
        }
        let pieces = self.cut(moved);
        self.unmap(rest, tell);
        self.unmap(new, tell);
        for extent in pieces {
            let to = Vpn(new.start.0 + (extent.span.start.0 - old.start.0));
            let span = Span::new(to, extent.span.pages);
            self.by_start.insert(to, Extent { span, ..extent });
            tell(ExtentChange::Remapped { from: extent.span, to });
        }
        self.grow(grown, tell);
    }

    fn set_break(&mut self, end: Vpn, time_ns: u64, tell: &mut impl FnMut(ExtentChange)) {
        // Before a program has a heap, it asks where that would begin.
        let heap = *self.heap.get_or_insert(Span::new(end, 0));
        let grown = Span::between(heap.end(), end);
        self.unmap(Span::between(end.max(heap.start), heap.end()), tell);
        self.unmap(grown, tell);
        self.insert(grown, time_ns, Backing::Heap, tell);
        self.heap = Some(Span::between(heap.start, end));
    }
}

fn span_of(address: u64, len_bytes: u64) -> Span {
    Span::of_addresses(address, address.saturating_add(len_bytes))
}

/// What of `a` is also in `b`; both ascending and free of overlap.
fn common(a: &[Span], b: &[Span]) -> Vec<Span> {
    difference(a, &difference(a, b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::maps;
    use proptest::prelude::*;

    fn bytes(pages: u64) -> u64 {
        pages * PAGE_BYTES
    }

    fn map(start: u64, pages: u64, writable: bool) -> Change {
        let (address, len_bytes) = (bytes(start), bytes(pages));
        Change::Map { address, len_bytes, anonymous: true, private: true, writable }
    }

    fn mappings(text: &str) -> Vec<Mapping> {
        let mut mappings = Vec::new();
        maps::parse(text.as_bytes(), &mut mappings);
        mappings
    }

    fn spans(extents: &Extents) -> Vec<(u64, u64)> {
        extents.iter().map(|extent| (extent.span.start.0, extent.span.pages)).collect()
    }

    fn compare(extents: &mut Extents, text: &str, at_ns: u64) -> Vec<ExtentChange> {
        let mut told = Vec::new();
        extents.compare(&mappings(text), at_ns, |change| told.push(change));
        told
    }

    fn mapped(start: u64, pages: u64) -> ExtentChange {
        let span = Span::new(Vpn(start), pages);
        ExtentChange::Mapped { span, backing: Backing::Anonymous }
    }

    fn unmapped(start: u64, pages: u64) -> ExtentChange {
        ExtentChange::Unmapped { span: Span::new(Vpn(start), pages) }
    }

    #[test]
    fn neighbours_that_the_kernel_joins_stay_apart() {
        let mut extents = Extents::default();
        let mut told = Vec::new();
        for (time_ns, start) in [(10, 16), (20, 24)] {
            extents.apply(map(start, 8, true), time_ns, |change| told.push(change));
        }
        assert!(told.is_empty(), "not before the mappings are known");
        let text =
            "1000-3000 rw-p 0 00:00 0\n10000-20000 rw-p 0 00:00 0\n20000-21000 r--p 0 00:00 0\n";
        let told = compare(&mut extents, text, 30);
        assert_eq!(told, [mapped(1, 2), mapped(16, 8), mapped(24, 8)]);
        let since: Vec<u64> = extents.iter().map(|extent| extent.since_ns).collect();
        assert_eq!(since, [30, 10, 20]);
        assert_eq!(extents.spans(), [Span::new(Vpn(1), 2), Span::new(Vpn(16), 16)]);
        extents.apply(map(40, 8, true), 30, |_| panic!("older than the mappings"));
        extents.apply(map(40, 8, false), 31, |_| panic!("not writable"));
    }

    #[test]
    fn differences_count_when_they_are_seen_twice() {
        let mut extents = Extents::default();
        let both = "1000-3000 rw-p 0 00:00 0\n10000-20000 rw-p 0 00:00 0\n";
        compare(&mut extents, both, 10);
        let one = "1000-4000 rw-p 0 00:00 0\n";
        assert!(compare(&mut extents, one, 20).is_empty(), "a record may be on its way");
        let mut told = Vec::new();
        let unmap = Change::Unmap { address: bytes(16), len_bytes: bytes(8) };
        extents.apply(unmap, 15, |change| told.push(change));
        assert_eq!(told, [unmapped(16, 8)]);
        assert_eq!(compare(&mut extents, one, 30), [unmapped(24, 8), mapped(3, 1)]);
        assert!(compare(&mut extents, one, 40).is_empty());
        // After a loss once is enough, and what was called before is in there.
        extents.distrust();
        assert_eq!(compare(&mut extents, both, 50), [unmapped(3, 1), mapped(16, 16)]);
        extents.apply(map(16, 8, true), 50, |_| panic!("older than the mappings"));
        assert!(compare(&mut extents, one, 60).is_empty());
        assert!(compare(&mut extents, both, 70).is_empty());
        assert!(compare(&mut extents, one, 80).is_empty(), "it came and went");
    }

    #[test]
    fn a_child_has_what_its_parent_had_and_a_new_program_nothing() {
        let mut parent = Extents::default();
        compare(&mut parent, "10000-20000 rw-p 0 00:00 0\n", 10);
        parent.apply(map(32, 8, true), 20, |_| {});
        let mut child = parent.forked(30);
        child.apply(map(64, 8, true), 30, |_| panic!("its parent's"));
        child.apply(map(40, 8, true), 31, |_| panic!("nobody has looked at it"));
        let told = compare(&mut child, "10000-30000 rw-p 0 00:00 0\n", 40);
        assert_eq!(told, [mapped(16, 16), mapped(32, 8), mapped(40, 8)]);
        assert_eq!(child.iter().map(|extent| extent.since_ns).collect::<Vec<_>>(), [10, 20, 31]);
        assert_eq!(spans(&parent), [(16, 16), (32, 8)]);
        child.replace(50);
        assert!(child.spans().is_empty() && !child.is_told());
        child.apply(map(40, 8, true), 50, |_| panic!("of the program before"));
        child.apply(map(48, 8, true), 51, |_| {});
        assert_eq!(compare(&mut child, "30000-40000 rw-p 0 00:00 0\n", 60).len(), 2);
        assert_eq!(spans(&child), [(48, 8), (56, 8)]);
    }

    #[test]
    fn a_heap_is_one_extent() {
        let mut extents = Extents::default();
        let set = |extents: &mut Extents, end: u64, time_ns| {
            let mut told = Vec::new();
            extents.apply(Change::Break { end }, time_ns, |change| told.push(change));
            told
        };
        set(&mut extents, bytes(100), 1);
        set(&mut extents, bytes(110) - 5, 2);
        let heap = |start, pages| ExtentChange::Mapped {
            span: Span::new(Vpn(start), pages),
            backing: Backing::Heap,
        };
        let text = "64000-6e000 rw-p 0 00:00 0 [heap]\n";
        assert_eq!(compare(&mut extents, text, 10), [heap(100, 10)]);
        assert_eq!(set(&mut extents, bytes(130), 11), [heap(110, 20)]);
        assert_eq!(spans(&extents), [(100, 30)]);
        assert!(set(&mut extents, bytes(130), 12).is_empty());
        assert_eq!(set(&mut extents, bytes(105), 13), [unmapped(105, 25)]);
        assert_eq!(set(&mut extents, bytes(90), 14), [unmapped(100, 5)], "below its beginning");
    }

    const PAGES: usize = 64;
    /// Pages from which on the heap grows.
    const HEAP: usize = 48;

    #[derive(Clone, Debug)]
    enum Op {
        Map(usize, usize, bool),
        Unmap(usize, usize),
        Remap(usize, usize, usize, usize),
        Break(usize),
    }

    fn op() -> impl Strategy<Value = Op> {
        let (at, len) = (0..HEAP - 12, 1..12usize);
        prop_oneof![
            4 => (at.clone(), len.clone(), any::<bool>()).prop_map(|(a, n, w)| Op::Map(a, n, w)),
            2 => (at.clone(), len.clone()).prop_map(|(a, n)| Op::Unmap(a, n)),
            2 => (at.clone(), len.clone(), at.clone(), len.clone())
                .prop_map(|(a, n, b, m)| Op::Remap(a, n, b, m)),
            1 => (at, len.clone(), len).prop_map(|(a, n, m)| Op::Remap(a, n, a, m)),
            1 => (HEAP..PAGES).prop_map(Op::Break),
        ]
    }

    /// A page: the operation that its allocation is from, and the one that brought this page.
    type Page = Option<(usize, (usize, usize))>;

    /// What a list of pages makes of an operation.
    fn naively(pages: &mut [Page; PAGES], op: &Op, number: usize) {
        let clear =
            |pages: &mut [Page; PAGES], range: std::ops::Range<usize>| pages[range].fill(None);
        match *op {
            Op::Map(at, len, writable) => {
                for (page, is) in pages.iter_mut().enumerate().skip(at).take(len) {
                    *is = writable.then_some((number, (number, page)));
                }
            }
            Op::Unmap(at, len) => clear(pages, at..at + len),
            Op::Remap(at, len, to, new) => {
                let kept = len.min(new);
                let moved: Vec<Page> = pages[at..at + kept].to_vec();
                clear(pages, at..at + len);
                clear(pages, to..to + new);
                pages[to..to + kept].copy_from_slice(&moved);
                // What is added belongs to the allocation at whose end it is.
                let of = pages[to + kept - 1].map(|(allocation, _)| allocation);
                for (page, is) in pages.iter_mut().enumerate().take(to + new).skip(to + kept) {
                    *is = of.map(|of| (of, (number, page)));
                }
            }
            Op::Break(end) => {
                let heap = usize::MAX;
                for (page, is) in pages.iter_mut().enumerate().skip(HEAP) {
                    *is = (page < end).then(|| is.unwrap_or((heap, (number, page))));
                }
            }
        }
    }

    fn change(op: &Op) -> Change {
        match *op {
            Op::Map(at, len, writable) => map(at as u64, len as u64, writable),
            Op::Unmap(at, len) => {
                Change::Unmap { address: bytes(at as u64), len_bytes: bytes(len as u64) }
            }
            Op::Remap(at, len, to, new) => Change::Remap {
                from: bytes(at as u64),
                from_len_bytes: bytes(len as u64),
                to: bytes(to as u64),
                to_len_bytes: bytes(new as u64),
            },
            Op::Break(end) => Change::Break { end: bytes(end as u64) },
        }
    }

    #[test]
    fn what_is_moved_to_where_no_whole_page_is_leaves_nothing_behind() {
        let mut extents = Extents::default();
        extents.compare(&[], 0, |_| {});
        extents.apply(map(16, 4, true), 1, |_| {});
        let (from_len_bytes, to_len_bytes) = (bytes(1), bytes(1));
        let (from, to) = (bytes(17), bytes(100) + 1);
        let mut told = Vec::new();
        let moved = Change::Remap { from, from_len_bytes, to, to_len_bytes };
        extents.apply(moved, 2, |change| told.push(change));
        assert_eq!(told, [ExtentChange::Unmapped { span: Span::new(Vpn(17), 1) }]);
        let left: Vec<Span> = extents.iter().map(|extent| extent.span).collect();
        assert_eq!(left, [Span::new(Vpn(16), 1), Span::new(Vpn(18), 2)]);
    }

    proptest! {
        #[test]
        fn extents_are_those_of_a_list_of_pages(ops in proptest::collection::vec(op(), 1..60)) {
            let mut extents = Extents::default();
            extents.compare(&[], 0, |_| {});
            extents.apply(Change::Break { end: bytes(HEAP as u64) }, 1, |_| {});
            let mut pages: [Page; PAGES] = [None; PAGES];
            // What somebody who is told of the changes only takes to be there.
            let mut view: BTreeMap<u64, (usize, usize)> = BTreeMap::new();
            for (number, op) in ops.iter().enumerate() {
                // The kernel lets nothing move onto itself.
                if let Op::Remap(at, len, to, new) = *op
                    && at != to && at < to + new && to < at + len
                {
                    continue;
                }
                naively(&mut pages, op, number);
                let mut wrong = None;
                extents.apply(change(op), number as u64 + 2, |change| match change {
                    ExtentChange::Mapped { span, .. } => for page in span.iter() {
                        let before = view.insert(page.0, (number, page.0 as usize));
                        wrong = wrong.or(before.map(|_| change));
                    },
                    ExtentChange::Unmapped { span } => for page in span.iter() {
                        let gone = view.remove(&page.0);
                        wrong = wrong.or(gone.is_none().then_some(change));
                    },
                    ExtentChange::Remapped { from, to } => for (i, page) in from.iter().enumerate() {
                        let moved = view.remove(&page.0);
                        let before = moved.and_then(|page| view.insert(to.0 + i as u64, page));
                        wrong = wrong.or((moved.is_none() || before.is_some()).then_some(change));
                    },
                });
                prop_assert_eq!(wrong, None, "told of what cannot be, at {:?}", op);
                let there: BTreeMap<u64, (usize, usize)> = pages
                    .iter()
                    .enumerate()
                    .filter_map(|(page, is)| Some((page as u64, (*is)?.1)))
                    .collect();
                prop_assert_eq!(&view, &there);
                let mut covered = 0;
                for extent in extents.iter() {
                    let of: Vec<_> = extent.span.iter().map(|p| pages[p.0 as usize]).collect();
                    prop_assert!(of.iter().all(|is| is.map(|i| i.0) == of[0].map(|i| i.0)));
                    covered += extent.span.pages;
                }
                prop_assert_eq!(covered, there.len() as u64);
            }
        }

        #[test]
        fn any_call_is_survived(
            calls in proptest::collection::vec((0_u8..4, any::<[u64; 4]>()), 0..30),
        ) {
            let mut extents = Extents::default();
            extents.compare(&[], 0, |_| {});
            for (kind, [a, b, c, d]) in calls {
                let change = match kind {
                    0 => Change::Map {
                        address: a, len_bytes: b, anonymous: true, private: true, writable: true,
                    },
                    1 => Change::Unmap { address: a, len_bytes: b },
                    2 => Change::Remap {
                        from: a, from_len_bytes: b, to: c, to_len_bytes: d,
                    },
                    _ => Change::Break { end: a },
                };
                extents.apply(change, 1, |_| {});
                let all: Vec<Span> = extents.iter().map(|extent| extent.span).collect();
                prop_assert!(all.iter().all(|span| !span.is_empty()));
                prop_assert!(all.windows(2).all(|pair| pair[0].end() <= pair[1].start));
            }
        }
    }
}
