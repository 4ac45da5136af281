//! Dense numbers for the processes, threads and pages of a foreign trace.

use super::feed::{Access, Item};
use crate::event::{StreamId, TimedEvent, TraceEvent};
use crate::mapper::PageMapper;
use frostline_core::types::{AccessKind, PAGE_BYTES, ProcessId};
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use std::collections::VecDeque;

const LINE_BYTES: u64 = 64;

/// An access as a foreign format tells it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Touch<'a> {
    pub clock: u64,
    /// Tells processes apart.
    pub process: u64,
    pub pid: u32,
    pub command: &'a str,
    pub tid: u32,
    pub address: u64,
    pub kind: AccessKind,
}

/// Makes items of accesses: announces what appears in one for the first time.
#[derive(Debug, Default)]
pub(super) struct Names {
    mapper: PageMapper,
    processes: HashMap<u64, ProcessId>,
    threads: HashMap<(ProcessId, u32), StreamId>,
    items: VecDeque<Item>,
}

impl Names {
    /// Takes an access in; [`Self::pop`] then gives what follows from it.
    ///
    /// Fails where there are more pages than page ids.
    pub fn touch(&mut self, touch: Touch<'_>) -> Result<(), &'static str> {
        let clock = touch.clock;
        let mut add = |event| self.items.push_back(Item::Event(TimedEvent { clock, event }));
        let number = self.processes.len() as u32;
        let process = *self.processes.entry(touch.process).or_insert_with(|| {
            let (process, command) = (ProcessId(number), touch.command.to_owned());
            add(TraceEvent::Process { process, parent: None, pid: touch.pid, command });
            process
        });
        let number = self.threads.len() as u32;
        let stream = match self.threads.entry((process, touch.tid)) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                add(TraceEvent::Thread { stream: StreamId(number), process, tid: touch.tid });
                *entry.insert(StreamId(number))
            }
        };
        let vpn = touch.address / PAGE_BYTES;
        let Some(page) = self.mapper.page(process, vpn) else {
            return Err("more than 16 TiB are touched, as 2 MiB regions; a trace holds no more");
        };
        for (region, process, huge_vpn) in self.mapper.take_fresh() {
            let event = TraceEvent::RegionNamed { region, process, huge_vpn };
            self.items.push_back(Item::Event(TimedEvent { clock, event }));
        }
        let line = (touch.address % PAGE_BYTES / LINE_BYTES) as u8;
        self.items.push_back(Item::Access(Access { clock, page, kind: touch.kind, stream, line }));
        Ok(())
    }

    /// The next item.
    pub fn pop(&mut self) -> Option<Item> {
        self.items.pop_front()
    }
}
