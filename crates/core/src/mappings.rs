//! Comparison of a process's mappings with what is known of them.

use crate::event::Backing;
use crate::span::{ExtentChange, Span, difference, joined};
use alloc::vec::Vec;

/// The parts of `spans` that lie in each of the mappings, and what backs them; both ascending and
/// apart.
pub fn parts(
    mappings: impl Iterator<Item = (Span, Backing)>,
    spans: &[Span],
) -> impl Iterator<Item = (Span, Backing)> {
    mappings.flat_map(move |(mapping, backing)| {
        let from = spans.partition_point(|span| span.end() <= mapping.start);
        let parts = spans[from..].iter().map(move |span| span.intersect(mapping));
        parts.take_while(|part| !part.is_empty()).map(move |part| (part, backing))
    })
}

/// What leads from `known` to `mappings` without what is `left_out`; all of them ascending and apart.
pub fn changes(
    mappings: impl Iterator<Item = (Span, Backing)> + Clone,
    known: &[Span],
    left_out: &[Span],
) -> Vec<ExtentChange> {
    let spans = joined(mappings.clone().map(|(span, _)| span));
    let spans = difference(&spans, left_out);
    let unmapped = difference(known, &spans).into_iter();
    let unmapped = unmapped.map(|span| ExtentChange::Unmapped { span });
    let added = difference(&spans, known);
    let mapped =
        parts(mappings, &added).map(|(span, backing)| ExtentChange::Mapped { span, backing });
    unmapped.chain(mapped).collect()
}

/// What backs `parts` of the address space, ascending and apart, as far as each is in one mapping.
/// What is in none of them is anonymous memory.
pub fn backing(
    mappings: impl Iterator<Item = (Span, Backing)>,
    wanted: &[Span],
) -> Vec<(Span, Backing)> {
    let mut backing: Vec<(Span, Backing)> = parts(mappings, wanted).collect();
    let known: Vec<Span> = backing.iter().map(|(part, _)| *part).collect();
    let others = difference(wanted, &known).into_iter();
    backing.extend(others.map(|part| (part, Backing::Anonymous)));
    backing.sort_unstable_by_key(|(part, _)| *part);
    backing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Vpn;

    fn span(start: u64, end: u64) -> Span {
        Span::between(Vpn(start), Vpn(end))
    }

    #[test]
    fn changes_lead_from_what_is_known_to_what_is_there() {
        let there = [(span(0, 10), Backing::Heap), (span(10, 20), Backing::Anonymous)];
        let found = changes(there.iter().copied(), &[span(5, 12), span(30, 31)], &[span(18, 19)]);
        let mapped = |start, end, backing| ExtentChange::Mapped { span: span(start, end), backing };
        let expected = [
            ExtentChange::Unmapped { span: span(30, 31) },
            mapped(0, 5, Backing::Heap),
            mapped(12, 18, Backing::Anonymous),
            mapped(19, 20, Backing::Anonymous),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_in_no_mapping_is_anonymous() {
        let there = [(span(0, 10), Backing::Heap)];
        let found = backing(there.into_iter(), &[span(4, 12), span(20, 21)]);
        let expected = [
            (span(4, 10), Backing::Heap),
            (span(10, 12), Backing::Anonymous),
            (span(20, 21), Backing::Anonymous),
        ];
        assert_eq!(found, expected);
    }
}
