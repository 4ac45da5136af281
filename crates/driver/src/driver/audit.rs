//! Where pages are: page tables, read round and round.

use super::Driver;
use crate::clock;
use crate::error::DriverError;
use crate::place::Found;
use crate::reconcile::reconcile;
use frostline_core::event::{Event, MoveCause};
use frostline_core::types::*;
use frostline_linux::LinuxError;
use frostline_linux::span::Span;

impl Driver {
    /// Looks up the pages of a span and tells the engine what it did not know: gives of how many
    /// pages.
    pub(super) fn places_of(
        &mut self,
        pid: u32,
        span: Span,
        events: &mut Vec<Event>,
    ) -> Result<u64, LinuxError> {
        // Before the page table is read: what is put back in between is found there.
        let out = self.pages_out(pid, span);
        let Some(watched) = self.watched.get_mut(&pid) else { return Ok(0) };
        let id = watched.id();
        let mut runs: Vec<(Span, Found)> = Vec::new();
        self.places.find(&watched.target, &mut watched.pagemap, span, &mut runs)?;
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
        let mut found = 0;
        for event in &events[before..] {
            match event {
                Event::Moved { run, cause, .. } => {
                    let pages = u64::from(run.pages);
                    found += pages;
                    match cause {
                        MoveCause::Refault => self.accounts.refaults += pages,
                        _ => self.accounts.moved_by_others += pages,
                    }
                }
                Event::Populated { run, .. } | Event::Freed { run } => {
                    found += u64::from(run.pages)
                }
                _ => {}
            }
        }
        Ok(found)
    }

    /// Goes on looking up where pages are, round and round, within its share of a core, and rests
    /// after rounds that found nothing.
    pub(super) fn audit(&mut self, events: &mut Vec<Event>) -> Result<(), DriverError> {
        self.pacer.charge(clock::thread_cpu());
        if !self.rounds.allows(self.now) {
            return Ok(());
        }
        let mut left = self.watched.values().map(|w| w.spans.len()).sum::<usize>() + 1;
        while self.auditor.allows() && left > 0 {
            self.auditor.skip(clock::thread_cpu());
            let Some((pid, span)) = self.next_to_audit() else {
                self.rounds.end(self.now);
                break;
            };
            match self.places_of(pid, span, events) {
                Err(error) if error.is_gone() => self.reopen(pid, events),
                found => self.rounds.note(span.pages, found?),
            }
            self.auditor.charge(clock::thread_cpu());
            left -= 1;
        }
        self.pacer.skip(clock::thread_cpu());
        Ok(())
    }

    /// The next 16 MiB, at most, to look at.
    fn next_to_audit(&mut self) -> Option<(u32, Span)> {
        const PAGES: u64 = 4096;
        let (pid, at) = self.audit_at;
        let rest = self.watched.range(pid..).find_map(|(&other, watched)| {
            let at = if other == pid { at } else { Vpn(0) };
            let span = watched.spans.get(watched.spans.partition_point(|span| span.end() <= at))?;
            let start = span.start.max(at);
            Some((other, Span::between(start, span.end().min(Vpn(start.0 + PAGES)))))
        });
        match rest {
            Some((pid, span)) => {
                self.audit_at = (pid, span.end());
                Some((pid, span))
            }
            None => {
                self.audit_at = (0, Vpn(0));
                None
            }
        }
    }
}
