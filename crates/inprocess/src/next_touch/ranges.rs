//! Parts of the address space whose faults are handed over, and where not to take anything.

use frostline_core::span::Span;
use frostline_core::types::Vpn;

/// Ranges at a time: each divides a mapping in up to three, of which a process may have 65 530.
const MOST: usize = 1024;
/// Looks for which nothing is taken where contents were thrown away: the kernel says so before it
/// does so, and the thread that does may be kept from going on. A look takes a second at least.
const LONG: u64 = 60;
/// Pages of a range that are used for the first time, from one look to the next: with more, its
/// program is better off without us.
const MOST_FRESH: u32 = 256;

#[derive(Clone, Copy, Debug)]
struct Range {
    span: Span,
    registered: bool,
    /// Look from which on pages may be taken.
    from: u64,
    /// Pages used for the first time since the last look.
    fresh: u32,
}

/// Ascending and apart.
#[derive(Debug)]
pub(super) struct Ranges {
    all: Vec<Range>,
    look: u64,
}

impl Ranges {
    pub(super) fn new() -> Self {
        Self { all: Vec::with_capacity(MOST), look: 0 }
    }

    /// Whether a page lies in a range from which pages may be taken. Where it lies in none, what is
    /// not in another one of `wanted` is made one, by `register`.
    pub(super) fn has(
        &mut self,
        page: Vpn,
        wanted: Span,
        register: impl FnOnce(Span) -> bool,
    ) -> bool {
        let at = self.all.partition_point(|range| range.span.end() <= page);
        if let Some(range) = self.all.get(at).filter(|range| range.span.contains(page)) {
            return range.registered && range.from <= self.look;
        }
        let before = at.checked_sub(1).map_or(Vpn(0), |at| self.all[at].span.end());
        let after = self.all.get(at).map_or(Vpn(u64::MAX), |range| range.span.start);
        let span = wanted.intersect(Span::between(before, after));
        if self.all.len() == MOST || !span.contains(page) || !register(span) {
            return false;
        }
        self.all.insert(at, Range { span, registered: true, from: self.look, fresh: 0 });
        true
    }

    /// Nothing shall be taken there until the next look but one.
    pub(super) fn avoid(&mut self, span: Span) {
        self.avoid_for(span, 2);
    }

    /// Nothing shall be taken there for long.
    pub(super) fn avoid_long(&mut self, span: Span) {
        self.avoid_for(span, LONG);
    }

    fn avoid_for(&mut self, span: Span, looks: u64) {
        for range in self.all.iter_mut().filter(|range| !range.span.intersect(span).is_empty()) {
            range.from = range.from.max(self.look + looks);
        }
    }

    /// A page is used for the first time, and that took us. Gives the range to be left alone for
    /// long, where there are too many of them: it counts as no longer registered.
    pub(super) fn used_first(&mut self, page: Vpn) -> Option<Span> {
        let range = self.all.iter_mut().find(|range| range.span.contains(page))?;
        range.fresh += 1;
        if range.fresh < MOST_FRESH || !range.registered {
            return None;
        }
        range.registered = false;
        range.from = self.look + LONG;
        Some(range.span)
    }

    /// A look: ends what `release` says is not needed, and forgets what was to be avoided so far.
    pub(super) fn tend(&mut self, mut release: impl FnMut(Span) -> bool) {
        self.look += 1;
        for range in &mut self.all {
            range.fresh = 0;
            range.registered = range.registered && !release(range.span);
        }
        let look = self.look;
        self.all.retain(|range| range.registered || range.from > look);
    }

    /// Ends all.
    pub(super) fn clear(&mut self, mut release: impl FnMut(Span)) {
        for range in self.all.drain(..).filter(|range| range.registered) {
            release(range.span);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_avoided_for_a_while_after_its_contents_were_thrown_away() {
        let (mut ranges, registered) = (Ranges::new(), std::cell::Cell::new(0));
        let (page, whole) = (Vpn(600), Span::new(Vpn(550), 400));
        let has = |ranges: &mut Ranges, page| {
            ranges.has(page, whole, |_| {
                registered.set(registered.get() + 1);
                true
            })
        };
        assert!(has(&mut ranges, page) && has(&mut ranges, Vpn(601)));
        assert!(!has(&mut ranges, Vpn(549)), "beside what is wanted");
        assert!(
            ranges
                .has(Vpn(540), Span::new(Vpn(500), 80), |span| { span == Span::new(Vpn(500), 50) })
        );
        ranges.tend(|span| span.start == Vpn(500));
        ranges.avoid_long(Span::new(Vpn(550), 1));
        assert!(!has(&mut ranges, page));
        for _ in 0..LONG - 1 {
            ranges.tend(|_| true);
            assert!(!has(&mut ranges, page));
        }
        ranges.tend(|_| true);
        assert!(has(&mut ranges, page));
        ranges.tend(|_| false);
        assert!(has(&mut ranges, page));
        ranges.avoid(whole);
        assert!(!has(&mut ranges, page));
        ranges.tend(|_| false);
        ranges.tend(|_| false);
        assert!(has(&mut ranges, page));
        assert_eq!(registered.get(), 2);
        for _ in 1..MOST_FRESH {
            assert_eq!(ranges.used_first(page), None);
        }
        assert!(has(&mut ranges, page));
        assert_eq!(ranges.used_first(page), Some(whole));
        assert!(!has(&mut ranges, page));
        (0..=LONG).for_each(|_| ranges.tend(|_| unreachable!()));
        assert!(has(&mut ranges, page));
        assert_eq!(registered.get(), 3);
        let mut ended = Vec::new();
        ranges.clear(|span| ended.push(span));
        assert_eq!(ended, [whole]);
    }
}
