//! Where pages are: page tables, read round and round.

use super::Driver;
use crate::clock;
use crate::error::DriverError;
use crate::place::Found;
use crate::reconcile::reconcile;
use frostline_core::event::{Event, MoveCause};
use frostline_core::types::*;
use frostline_linux::LinuxError;
use frostline_linux::span::{REGION_PAGES, Span};
use serde::{Deserialize, Serialize};

/// Address space that is looked at in one go, at most: 4 GiB, of which the tables alone are 8 MiB.
const WINDOW_PAGES: u64 = 1 << 20;
/// Pages that are found in one go, at most: they take memory of ours, and time.
const FOUND_PAGES: u64 = 4096;

/// What looking after pages has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audits {
    /// Rounds over all page tables that have ended.
    pub rounds: u64,
    /// Looks into page tables, in rounds and into new memory: each into 4 GiB of address space at most.
    pub looks: u64,
    /// Pages that they have found.
    pub pages: u64,
}

/// What was looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Looked {
    /// The address space.
    pub(super) span: Span,
    /// Pages of it that are in a tier.
    pub(super) pages: u64,
    /// Pages of which the engine knew something else.
    pub(super) changed: u64,
}

impl Driver {
    /// Looks up the pages at the beginning of a span and tells the engine what it did not know. A
    /// whole region is looked at in one go.
    pub(super) fn places_of(
        &mut self,
        pid: u32,
        span: Span,
        events: &mut Vec<Event>,
    ) -> Result<Looked, LinuxError> {
        // Before the page table is read: what is put back in between is found there.
        let out = self.pages_out(pid, span);
        let Some(watched) = self.watched.get_mut(&pid) else {
            return Ok(Looked { span, ..Looked::default() });
        };
        let id = watched.id();
        let mut runs: Vec<(Span, Found)> = Vec::new();
        let (target, pagemap) = (&watched.target, &mut watched.pagemap);
        let span = self.places.find(target, pagemap, span, FOUND_PAGES, &mut runs)?;
        let runs = within(&runs, &watched.spans);
        self.number(pid, &runs, events);
        let mut next = 0;
        let mut found: Vec<Option<Found>> = Vec::new();
        let before = events.len();
        self.map.known(id, span, |piece, run| {
            found.clear();
            found.resize(piece.pages as usize, None);
            while next < runs.len() && runs[next].0.end() <= piece.start {
                next += 1;
            }
            for (span, what) in runs[next..].iter().take_while(|(s, _)| s.start < piece.end()) {
                let part = span.intersect(piece);
                let from = (part.start.0 - piece.start.0) as usize;
                found[from..from + part.pages as usize].fill(Some(*what));
            }
            let view = self.engine.view();
            let first = out.partition_point(|page| *page < piece.start);
            for page in out[first..].iter().take_while(|page| **page < piece.end()) {
                let at = (page.0 - piece.start.0) as usize;
                let tier = view.state(PageId(run.start.0 + at as u32)).tier();
                let there = tier.map(|tier| Found { tier, huge: false });
                found[at] = found[at].or(there);
            }
            let direct = |tier| self.places.is_direct(tier);
            reconcile(|page| view.state(page), run.start, &found, direct, events);
        });
        let mut changed = 0;
        for event in &events[before..] {
            match event {
                Event::Moved { run, cause, .. } => {
                    let pages = u64::from(run.pages);
                    changed += pages;
                    match cause {
                        MoveCause::Refault => self.accounts.refaults += pages,
                        _ => self.accounts.moved_by_others += pages,
                    }
                }
                Event::Populated { run, .. } | Event::Freed { run } => {
                    changed += u64::from(run.pages)
                }
                _ => {}
            }
        }
        let pages = runs.iter().map(|(span, _)| span.pages).sum();
        self.audits.looks += 1;
        self.audits.pages += pages;
        Ok(Looked { span, pages, changed })
    }

    /// Goes on looking up where pages are, round and round, within its share of a core, and rests
    /// after rounds that found nothing.
    pub(super) fn audit(&mut self, events: &mut Vec<Event>) -> Result<(), DriverError> {
        self.pacer.charge(clock::thread_cpu());
        if !self.rounds.allows(self.now) {
            return Ok(());
        }
        while self.auditor.allows() {
            self.auditor.skip(clock::thread_cpu());
            let Some((pid, span)) = self.next_to_audit() else {
                self.audit_at = (0, Vpn(0));
                self.rounds.end(self.now);
                self.audits.rounds += 1;
                self.numbering.end_round();
                self.give_back(events)?;
                self.auditor.charge(clock::thread_cpu());
                break;
            };
            match self.places_of(pid, span, events) {
                Err(error) if error.is_gone() => {
                    self.audit_at = (pid, span.end());
                    self.reopen(pid, events);
                    // Ids that were given back are used again only once the engine knows.
                    self.tell(std::mem::take(events))?;
                }
                looked => {
                    let looked = looked?;
                    self.audit_at = (pid, looked.span.end());
                    self.rounds.note(looked.pages, looked.changed);
                }
            }
            self.auditor.charge(clock::thread_cpu());
        }
        self.pacer.skip(clock::thread_cpu());
        Ok(())
    }

    /// What to look at next, at most.
    fn next_to_audit(&self) -> Option<(u32, Span)> {
        let (pid, at) = self.audit_at;
        self.watched.range(pid..).find_map(|(&other, watched)| {
            let at = if other == pid { at } else { Vpn(0) };
            Some((other, window(&watched.spans, at)?))
        })
    }
}

/// The first address space of `spans`, ascending and apart, from `at` on that is looked at in one go.
/// Spans that share tables are looked at together, with what lies between.
pub(super) fn window(spans: &[Span], at: Vpn) -> Option<Span> {
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
fn within(runs: &[(Span, Found)], spans: &[Span]) -> Vec<(Span, Found)> {
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
