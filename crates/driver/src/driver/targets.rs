//! Who is there, and what they have mapped.

use super::Driver;
use crate::error::DriverError;
use crate::watched::Watched;
use frostline_core::event::{Backing, Event};
use frostline_core::types::*;
use frostline_linux::LinuxError;
use frostline_linux::span::Span;
use std::collections::BTreeSet;

impl Driver {
    pub(super) fn refresh(&mut self, events: &mut Vec<Event>) -> Result<(), DriverError> {
        let ended = self.chosen.as_ref().is_some_and(|chosen| !chosen.is_alive());
        let pids = match self.selection.pids(&self.root) {
            Ok(_) if ended => BTreeSet::new(),
            Ok(pids) => pids,
            Err(error) if error.is_gone() || error.is_not_found() => BTreeSet::new(),
            Err(error) => return Err(error.into()),
        };
        let ended: Vec<u32> =
            self.watched.iter().filter(|(_, w)| !w.target.is_alive()).map(|(p, _)| *p).collect();
        for pid in ended {
            self.forget(pid, events);
        }
        self.refused.retain(|pid, _| pids.contains(pid));
        let first = self.watched.is_empty();
        let mut refusal = None;
        for pid in pids {
            if self.watched.contains_key(&pid) || self.refused.contains_key(&pid) {
                continue;
            }
            if let Err(error) = self.take_on(pid, !first) {
                self.refused.insert(pid, error.to_string());
                refusal = refusal.or(Some((pid, error)));
            }
        }
        if let (true, Some((pid, error))) = (self.watched.is_empty(), refusal) {
            return Err(with_hint(pid, error).into());
        }
        let known: Vec<u32> = self.watched.keys().copied().collect();
        for pid in known {
            self.follow_mappings(pid, events)?;
        }
        Ok(())
    }

    /// Begins to manage a process, unless it has ended.
    fn take_on(&mut self, pid: u32, child: bool) -> Result<(), LinuxError> {
        let attached = Watched::open(&self.root, pid).and_then(|watched| {
            for source in &mut self.sources {
                source.attach(&self.root, pid, child)?;
            }
            Ok(watched)
        });
        match attached {
            Ok(watched) => {
                self.watched.insert(pid, watched);
                Ok(())
            }
            Err(error) if error.is_gone() || error.is_not_found() => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn forget(&mut self, pid: u32, events: &mut Vec<Event>) {
        if let Some(watched) = self.watched.remove(&pid) {
            self.unmap(watched.id(), &watched.spans, &[], events);
            events.push(Event::Exited { process: watched.id() });
        }
    }

    fn follow_mappings(&mut self, pid: u32, events: &mut Vec<Event>) -> Result<(), DriverError> {
        let Some(watched) = self.watched.get_mut(&pid) else { return Ok(()) };
        let id = watched.id();
        let changes = match watched.refresh() {
            Ok(changes) => changes,
            Err(error) if error.is_gone() => {
                self.forget(pid, events);
                return Ok(());
            }
            // It runs a program of another user by now.
            Err(error) if error.is_denied() => {
                self.forget(pid, events);
                self.refused.insert(pid, error.to_string());
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let spans = watched.spans.clone();
        self.unmap(id, &changes.unmapped, &spans, events);
        for span in changes.mapped {
            self.map.map(id, span, |_, run| {
                events.push(Event::Mapped { run, backing: Backing::Anonymous, process: id });
            });
            match self.places_of(pid, span, events) {
                // Another program was executed in between: the old page table is gone.
                Err(error) if error.is_gone() => {
                    self.reopen(pid, events);
                    return Ok(());
                }
                other => other?,
            }
        }
        Ok(())
    }

    /// Takes address space out of the map; blocks in which nothing of `left`, ascending, lies are
    /// given back.
    fn unmap(&mut self, id: ProcessId, spans: &[Span], left: &[Span], events: &mut Vec<Event>) {
        let mut released = Vec::new();
        for span in spans {
            self.map.known(id, *span, |piece, run| {
                events.push(Event::Unmapped { run });
                let block = Span::region_of(piece.start);
                let next = left.partition_point(|span| span.end() <= block.start);
                if left.get(next).is_none_or(|span| span.start >= block.end()) {
                    released.push(run.start.region());
                }
            });
        }
        // Not before all of them have been looked up: several may lie in one block.
        for region in released {
            self.map.release(region);
        }
    }

    /// A process executed another program, or has ended: what was mapped is gone.
    pub(super) fn reopen(&mut self, pid: u32, events: &mut Vec<Event>) {
        let Some(watched) = self.watched.get_mut(&pid) else { return };
        let (id, spans) = (watched.id(), std::mem::take(&mut watched.spans));
        let alive = watched.target.is_alive() && watched.reopen().is_ok();
        self.unmap(id, &spans, &[], events);
        if !alive {
            self.watched.remove(&pid);
            events.push(Event::Exited { process: id });
        }
        self.refresh_due = Nanos::ZERO;
    }
}

/// Says what helps, where rights to look into a process are missing.
fn with_hint(pid: u32, error: LinuxError) -> LinuxError {
    if !error.is_denied() {
        return error;
    }
    let hint = format!("run as root, or as the user of process {pid}");
    LinuxError::Unsupported { what: error.to_string(), hint }
}
