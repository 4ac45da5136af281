//! Who is there, and what they have mapped.

use super::Driver;
use super::address_space::{self, allocations};
use crate::error::DriverError;
use crate::left_alone::LeftAlone;
use crate::watched::Watched;
use frostline_core::event::Event;
use frostline_core::types::*;
use frostline_linux::LinuxError;
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
        self.let_go(&pids, events);
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
        self.left_out = self.own_memory();
        for watched in self.watched.values_mut() {
            if watched.has_changed() {
                self.rounds.wake();
            }
        }
        let memory: u64 = self.watched.values().map(|watched| watched.memory().0).sum();
        self.numbering.set_resident(Bytes(memory).pages());
        let known: Vec<u32> = self.watched.keys().copied().collect();
        for pid in known {
            self.follow_mappings(pid, events)?;
        }
        self.read_groups();
        Ok(())
    }

    /// Reads what control groups allow now.
    pub(super) fn read_groups(&mut self) {
        if let Some(groups) = &mut self.groups {
            groups.refresh(self.watched.keys().copied());
        }
    }

    /// Lets those go that run and belong to the selection no longer, and those that have become what is left alone.
    fn let_go(&mut self, pids: &BTreeSet<u32>, events: &mut Vec<Event>) {
        let inside = self.own.is_some();
        let leaves = |pid: &u32| {
            // Whose parent has ended may have another frostline as its next one.
            let itself = || matches!(LeftAlone::when_named(&self.root, *pid), Ok(Some(_)));
            !inside && !pids.contains(pid) && (self.selection.lets_go() || itself())
        };
        let leaving: Vec<u32> = self.watched.keys().copied().filter(leaves).collect();
        for pid in leaving {
            self.forget(pid, events);
            self.sources.iter_mut().for_each(|source| source.detach(&self.root, pid));
        }
    }

    /// Begins to manage a process, unless it has ended.
    fn take_on(&mut self, pid: u32, child: bool) -> Result<(), LinuxError> {
        let attached = Watched::open(&self.root, pid).and_then(|watched| {
            for source in &mut self.sources {
                source.attach(&self.root, pid, child)?;
            }
            if let Some(files) = &mut self.closed_files {
                files.attach(&self.root, pid);
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

    pub(super) fn forget(&mut self, pid: u32, events: &mut Vec<Event>) {
        if let Some(watched) = self.watched.remove(&pid) {
            address_space::unmap(&mut self.map, watched.id(), &watched.spans, &[], events);
            events.push(Event::Exited { process: watched.id() });
        }
        if let Some(allocations) = allocations(&mut self.sources) {
            allocations.forget(pid, false);
        }
    }

    /// A process executed another program, or has ended: what was mapped is gone.
    pub(super) fn reopen(&mut self, pid: u32, events: &mut Vec<Event>) {
        let Some(watched) = self.watched.get_mut(&pid) else { return };
        let (id, spans) = (watched.id(), std::mem::take(&mut watched.spans));
        let alive = watched.target.is_alive() && watched.reopen().is_ok();
        watched.fresh.clear();
        address_space::unmap(&mut self.map, id, &spans, &[], events);
        if let Some(allocations) = allocations(&mut self.sources) {
            allocations.forget(pid, alive);
        }
        if !alive {
            self.watched.remove(&pid);
            events.push(Event::Exited { process: id });
        }
        self.refreshes.hurry();
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
