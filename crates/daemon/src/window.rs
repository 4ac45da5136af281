//! Windows: address space that is looked at in one go.

use crate::unit::Found;
use alloc::vec::Vec;
use frostline_core::span::{REGION_PAGES, Span};
use frostline_core::types::Vpn;

/// Address space that is looked at in one go, at most: 4 GiB, of which the tables alone are 8 MiB.
const WINDOW_PAGES: u64 = 1 << 20;

/// The first address space of `spans`, ascending and apart, from `at` on that is looked at in one go.
/// Spans that share tables are looked at together, with what lies between.
pub(crate) fn window(spans: &[Span], at: Vpn) -> Option<Span> {
    let mut next = spans[spans.partition_point(|span| span.end() <= at)..].iter();
    let first = next.next()?;
    let start = first.start.max(at);
    let most = Vpn(start.0.saturating_add(WINDOW_PAGES));
    let mut end = first.end();
    for span in next {
        if end >= most || span.start.0 - end.0 >= REGION_PAGES {
            break;
        }
        end = span.end();
    }
    Some(Span::between(start, end.min(most)))
}

/// What of `runs` lies in `spans`; both ascending and apart.
pub(crate) fn within(runs: &[(Span, Found)], spans: &[Span]) -> Vec<(Span, Found)> {
    let mut inside = Vec::with_capacity(runs.len());
    for (run, found) in runs {
        let from = spans.partition_point(|span| span.end() <= run.start);
        let parts = spans[from..].iter().take_while(|span| span.start < run.end());
        inside.extend(parts.map(|span| (span.intersect(*run), *found)));
    }
    inside
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use frostline_core::types::TierId;

    #[test]
    fn spans_that_share_tables_are_looked_at_together() {
        let spans = [
            Span::new(Vpn(100), 50),
            Span::new(Vpn(200), 50),
            Span::new(Vpn(1000), 1),
            Span::new(Vpn(1 << 30), 3 * WINDOW_PAGES),
            Span::new(Vpn((1 << 30) + 4 * WINDOW_PAGES), 1),
        ];
        let mut windows = Vec::new();
        let mut at = Vpn(120);
        while let Some(window) = window(&spans, at) {
            windows.push((window.start.0, window.end().0));
            at = window.end();
        }
        let large = |n: u64| (1 << 30) + n * WINDOW_PAGES;
        assert_eq!(
            windows,
            [
                (120, 250),
                (1000, 1001),
                (large(0), large(1)),
                (large(1), large(2)),
                (large(2), large(3)),
                (large(4), large(4) + 1)
            ]
        );
    }

    #[test]
    fn only_what_may_be_moved_counts() {
        let found = Found { tier: TierId(0), huge: false };
        let runs = [(Span::new(Vpn(0), 100), found), (Span::new(Vpn(200), 10), found)];
        let spans = [Span::new(Vpn(10), 5), Span::new(Vpn(90), 20), Span::new(Vpn(205), 1)];
        let inside: Vec<Span> = within(&runs, &spans).into_iter().map(|(span, _)| span).collect();
        assert_eq!(inside, [spans[0], Span::new(Vpn(90), 10), spans[2]]);
    }
}
