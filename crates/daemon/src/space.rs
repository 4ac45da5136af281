//! Address space of one process, as far as its pages may be moved.

use alloc::vec::Vec;
use frostline_core::span::{Span, difference};

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Space {
    spans: Vec<Span>,
    fresh: Vec<Span>,
}

impl Space {
    /// All of it, ascending, neighbours joined.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// What is new since this was asked for last, ascending, neighbours joined.
    pub fn take_fresh(&mut self) -> Vec<Span> {
        core::mem::take(&mut self.fresh)
    }

    /// Takes note of new address space.
    pub fn add(&mut self, span: Span) {
        add(&mut self.spans, span);
        add(&mut self.fresh, span);
    }

    /// Takes note that address space is gone.
    pub fn remove(&mut self, span: Span) {
        remove(&mut self.spans, span);
        remove(&mut self.fresh, span);
    }

    /// The parts of a span that are in it, ascending.
    pub fn inside(&self, span: Span) -> Vec<Span> {
        let from = self.spans.partition_point(|other| other.end() <= span.start);
        let inside = self.spans[from..].iter().map(|other| other.intersect(span));
        inside.take_while(|part| !part.is_empty()).collect()
    }
}

/// Adds a span to ascending ones of which no two touch.
fn add(spans: &mut Vec<Span>, span: Span) {
    remove(spans, span);
    let at = spans.partition_point(|other| other.start < span.start);
    spans.insert(at, span);
    // With the neighbour above, then with the one below.
    for at in [Some(at), at.checked_sub(1)].into_iter().flatten() {
        if let Some([low, high]) = spans.get_mut(at..).and_then(<[_]>::first_chunk_mut)
            && low.end() == high.start
        {
            low.pages += high.pages;
            spans.remove(at + 1);
        }
    }
}

/// Takes a span out of ascending ones.
fn remove(spans: &mut Vec<Span>, span: Span) {
    let from = spans.partition_point(|other| other.end() <= span.start);
    let to = spans.partition_point(|other| other.start < span.end());
    if from < to {
        let left = difference(&spans[from..to], &[span]);
        spans.splice(from..to, left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_core::span::joined;
    use frostline_core::types::Vpn;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn spans_are_added_and_removed_as_in_sets(
            steps in proptest::collection::vec((any::<bool>(), 0_u64..60, 1_u64..20), 0..40),
        ) {
            let (mut space, mut set) = (Space::default(), 0_u128);
            for (adds, start, pages) in steps {
                let bits = ((1 << pages) - 1) << start;
                if adds {
                    space.add(Span::new(Vpn(start), pages));
                    set |= bits;
                } else {
                    space.remove(Span::new(Vpn(start), pages));
                    set &= !bits;
                }
                let there = (0..128).filter(|bit| set >> bit & 1 == 1);
                let there = joined(there.map(|bit| Span::single(Vpn(bit))));
                prop_assert_eq!(space.spans(), &there[..]);
            }
        }
    }

    /// Spans that overlap would be looked into twice, and windows over them have no end.
    #[test]
    fn address_space_that_comes_and_goes_between_two_looks_is_new_once() {
        let span = |start, pages| Span::new(Vpn(start), pages);
        let mut space = Space::default();
        space.add(span(100, 50));
        space.remove(span(120, 10));
        space.add(span(110, 30));
        space.remove(span(145, 5));
        space.add(span(300, 1));
        assert_eq!(space.spans(), [span(100, 45), span(300, 1)]);
        assert_eq!(space.inside(span(140, 1000)), [span(140, 5), span(300, 1)]);
        assert_eq!(space.take_fresh(), [span(100, 45), span(300, 1)]);
        assert_eq!(space.take_fresh(), []);
    }
}
