//! Ranges of one process's address space, in pages.

use crate::event::Backing;
use crate::types::{Bytes, HUGE_PAGES, PAGE_BYTES, Vpn};
use alloc::vec::Vec;
use core::fmt;

/// Pages of a 2 MiB region, as the 64-bit number that page arithmetic needs.
pub const REGION_PAGES: u64 = HUGE_PAGES as u64;

/// Consecutive virtual pages `[start, start + pages)` of one process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span {
    /// First page.
    pub start: Vpn,
    /// Number of pages; 0 is an empty span.
    pub pages: u64,
}

impl Span {
    /// `pages` pages from `start`.
    pub const fn new(start: Vpn, pages: u64) -> Self {
        Self { start, pages }
    }

    /// One page.
    pub const fn single(page: Vpn) -> Self {
        Self { start: page, pages: 1 }
    }

    /// The pages `[start, end)`; empty where `end <= start`.
    pub const fn between(start: Vpn, end: Vpn) -> Self {
        Self { start, pages: end.0.saturating_sub(start.0) }
    }

    /// The whole pages inside the addresses `[start, end)`.
    pub const fn of_addresses(start: u64, end: u64) -> Self {
        Self::between(Vpn(start.div_ceil(PAGE_BYTES)), Vpn(end / PAGE_BYTES))
    }

    /// The 2 MiB region that holds `page`.
    pub const fn region_of(page: Vpn) -> Self {
        Self { start: Vpn(page.0 - page.0 % REGION_PAGES), pages: REGION_PAGES }
    }

    /// One past the last page.
    pub const fn end(self) -> Vpn {
        Vpn(self.start.0.saturating_add(self.pages))
    }

    /// Address of the first byte. Saturates beyond the end of a 64-bit address space.
    pub const fn address(self) -> u64 {
        self.start.0.saturating_mul(PAGE_BYTES)
    }

    /// Size. Saturates.
    pub const fn bytes(self) -> Bytes {
        Bytes(self.pages.saturating_mul(PAGE_BYTES))
    }

    /// Whether there is no page in it.
    pub const fn is_empty(self) -> bool {
        self.pages == 0
    }

    /// Whether `page` lies inside.
    pub const fn contains(self, page: Vpn) -> bool {
        page.0 >= self.start.0 && page.0 < self.end().0
    }

    /// The common part, empty where there is none.
    pub fn intersect(self, other: Self) -> Self {
        Self::between(self.start.max(other.start), self.end().min(other.end()))
    }

    /// Its pages, ascending.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = Vpn> + Clone {
        (self.start.0..self.end().0).map(Vpn)
    }

    /// Pieces of at most `pages` pages each, ascending. With 0 for `pages`, single pages.
    pub fn pieces(self, pages: u64) -> impl Iterator<Item = Self> + Clone {
        let step = pages.max(1);
        (0..self.pages.div_ceil(step)).map(move |piece| {
            let done = piece * step;
            Self::new(Vpn(self.start.0 + done), step.min(self.pages - done))
        })
    }

    /// The aligned 2 MiB regions that lie wholly inside, ascending.
    pub fn whole_regions(self) -> impl Iterator<Item = Self> + Clone {
        let first = self.start.0.div_ceil(REGION_PAGES);
        let end = self.end().0 / REGION_PAGES;
        (first..end).map(|region| Self::new(Vpn(region * REGION_PAGES), REGION_PAGES))
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}+{}", self.start.0, self.pages)
    }
}

/// A change of what a process has mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentChange {
    /// A new extent, or what was added to one.
    Mapped {
        /// The new pages.
        span: Span,
        /// What backs them.
        backing: Backing,
    },
    /// Pages were given back.
    Unmapped {
        /// The pages.
        span: Span,
    },
    /// Pages have another address now.
    Remapped {
        /// The old pages.
        from: Span,
        /// The first page's new place.
        to: Vpn,
    },
}

/// Appends `span` to an ascending list, merging it with the last one where both touch and carry
/// the same `value`.
pub fn push_run<T: PartialEq>(runs: &mut Vec<(Span, T)>, span: Span, value: T) {
    if span.is_empty() {
        return;
    }
    match runs.last_mut() {
        Some((last, held)) if last.end() == span.start && *held == value => {
            last.pages += span.pages;
        }
        _ => runs.push((span, value)),
    }
}

/// Ascending spans with neighbours joined.
pub fn joined(spans: impl Iterator<Item = Span>) -> Vec<Span> {
    let mut out: Vec<Span> = Vec::new();
    spans.for_each(|span| push_joined(&mut out, span));
    out
}

/// Appends `span` to an ascending list, as a part of the last one where both touch.
#[inline]
pub fn push_joined(spans: &mut Vec<Span>, span: Span) {
    match spans.last_mut() {
        Some(last) if last.end() == span.start => last.pages += span.pages,
        _ => spans.push(span),
    }
}

/// What of `a` is not in `b`; both ascending and free of overlap.
pub fn difference(a: &[Span], b: &[Span]) -> Vec<Span> {
    let mut out = Vec::new();
    let mut next = 0;
    for span in a {
        let mut at = span.start;
        while next < b.len() && b[next].end() <= at {
            next += 1;
        }
        for hole in b[next..].iter().take_while(|hole| hole.start < span.end()) {
            if hole.start > at {
                out.push(Span::between(at, hole.start));
            }
            at = Vpn(at.0.max(hole.end().0));
        }
        if at < span.end() {
            out.push(Span::between(at, span.end()));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_are_cut_to_whole_pages() {
        assert_eq!(Span::of_addresses(1, 0x3fff), Span::new(Vpn(1), 2));
        assert_eq!(Span::of_addresses(0x1000, 0x3000), Span::new(Vpn(1), 2));
        assert!(Span::of_addresses(0x1001, 0x1fff).is_empty());
        assert!(Span::of_addresses(0x3000, 0x1000).is_empty());
    }

    #[test]
    fn regions_must_fit_wholly() {
        let span = Span::between(Vpn(511), Vpn(512 * 3 + 1));
        let regions: Vec<Span> = span.whole_regions().collect();
        assert_eq!(regions, [Span::new(Vpn(512), 512), Span::new(Vpn(1024), 512)]);
        assert_eq!(Span::region_of(Vpn(1023)).start, Vpn(512));
        assert_eq!(Span::between(Vpn(1), Vpn(511)).whole_regions().count(), 0);
    }

    #[test]
    fn runs_merge_only_where_they_touch_and_agree() {
        let mut runs = Vec::new();
        push_run(&mut runs, Span::new(Vpn(1), 2), 'a');
        push_run(&mut runs, Span::new(Vpn(3), 1), 'a');
        push_run(&mut runs, Span::new(Vpn(4), 1), 'b');
        push_run(&mut runs, Span::new(Vpn(6), 1), 'b');
        push_run(&mut runs, Span::new(Vpn(7), 0), 'b');
        let expected =
            [(Span::new(Vpn(1), 3), 'a'), (Span::new(Vpn(4), 1), 'b'), (Span::new(Vpn(6), 1), 'b')];
        assert_eq!(runs, expected);
    }

    fn spans(bits: u32) -> Vec<Span> {
        joined((0..32).filter(|i| bits >> i & 1 == 1).map(|i| Span::single(Vpn(i))))
    }

    proptest! {
        #[test]
        fn differences_are_those_of_sets(a in any::<u32>(), b in any::<u32>()) {
            prop_assert_eq!(difference(&spans(a), &spans(b)), spans(a & !b));
        }
    }

    proptest! {
        #[test]
        fn pieces_cover_a_span_exactly(start in 0_u64..1 << 40, pages in 0_u64..5000, step in 0_u64..700) {
            let span = Span::new(Vpn(start), pages);
            let mut next = span.start;
            for piece in span.pieces(step) {
                prop_assert_eq!(piece.start, next);
                prop_assert!(!piece.is_empty() && piece.pages <= step.max(1));
                next = piece.end();
            }
            prop_assert_eq!(next, span.end());
        }
    }
}
