//! One of several programs: its trace, its clock, and its guest where it has one.

use super::shift::Shift;
use super::tally::Tally;
use super::virtual_machine::VirtualMachine;
use crate::error::SimError;
use crate::machine::CpuModel;
use frostline_core::types::*;
use frostline_trace::batch::Want;
use frostline_trace::event::MapKind;
use frostline_trace::{Batch, TimedEvent, TraceEvent, TraceSource};

/// Count of its fast memory, which is repeated.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    /// The program's time at the last one.
    pub(crate) at_ns: f64,
    /// Records until the next one.
    pub(crate) until: u64,
}

/// A program that takes turns with others.
pub(crate) struct Program {
    source: Box<dyn TraceSource + Send>,
    pub(crate) shift: Shift,
    /// Page ids from `shift.base` on that are its own.
    pub(crate) pages: u32,
    pub(crate) guest: Option<VirtualMachine>,
    /// Its time: how far it has come.
    pub(crate) time_ns: f64,
    /// When it began.
    began_ns: f64,
    /// Share of the first program's records after which it begins; none: it has begun.
    waits_for: Option<f64>,
    pub(crate) counted: Counted,
    clock: u64,
    begun: bool,
    pub(crate) ended: bool,
    threads: u32,
    records: u64,
    records_total: u64,
    pub(crate) tally: Tally,
}

impl Program {
    /// Chooses the optional columns of its trace.
    pub(crate) fn want(&mut self, want: Want) {
        self.source.want(want);
    }

    pub(crate) fn new(
        source: Box<dyn TraceSource + Send>,
        shift: Shift,
        pages: u32,
        records_total: u64,
        guest: Option<VirtualMachine>,
    ) -> Self {
        Self {
            source,
            shift,
            pages,
            guest,
            time_ns: 0.0,
            began_ns: 0.0,
            waits_for: None,
            counted: Counted::default(),
            clock: 0,
            begun: false,
            ended: false,
            threads: 0,
            records: 0,
            records_total,
            tally: Tally::default(),
        }
    }

    /// To the host: the guest's only process.
    pub(crate) fn process(&self) -> ProcessId {
        ProcessId(self.shift.index)
    }

    /// Its pages, of the host.
    pub(crate) fn run(&self) -> PageRun {
        PageRun { start: PageId(self.shift.base), pages: self.pages }
    }

    /// Whether more than half of its accesses are over.
    pub(crate) fn is_late(&self) -> bool {
        2 * self.records > self.records_total
    }

    /// It waits until the first program has come to that share of its records.
    pub(crate) fn hold_back(&mut self, share: f64) {
        self.waits_for = Some(share);
    }

    /// Whether it neither waits nor has ended.
    pub(crate) fn runs(&self) -> bool {
        !self.ended && self.waits_for.is_none()
    }

    /// Begins at this time, if it has waited for that share of the first program's records.
    pub(crate) fn begin(&mut self, share: f64, now_ns: f64) {
        if self.waits_for.is_some_and(|wanted| share >= wanted) {
            self.waits_for = None;
            (self.time_ns, self.began_ns, self.counted.at_ns) = (now_ns, now_ns, now_ns);
        }
    }

    /// The share of its records that is over; 1 at its end.
    pub(crate) fn share_done(&self) -> f64 {
        if self.ended { 1.0 } else { self.records as f64 / self.records_total.max(1) as f64 }
    }

    /// How long it has run.
    pub(crate) fn seconds(&self) -> f64 {
        (self.time_ns - self.began_ns) / 1e9
    }

    /// Records, on average, of one in so many parts of its run.
    pub(crate) fn records_of_part(&self, parts: u64) -> u64 {
        (self.records_total / parts).max(1)
    }

    /// Threads that run at the same time on a processor of its own.
    pub(crate) fn parallel(&self, cpu: &CpuModel) -> f64 {
        if self.runs() { cpu.parallel(self.threads) } else { 0.0 }
    }

    /// The next batch as the host sees it, with its clock moved behind `clock`, which moves on. Pages
    /// as the program knows them go to `own_pages` where it is in a guest. False at its end.
    pub(crate) fn next_batch(
        &mut self,
        batch: &mut Batch,
        own_pages: &mut Vec<u32>,
        clock: &mut u64,
    ) -> Result<bool, SimError> {
        if !self.source.next_batch(batch)? {
            self.ended = true;
            return Ok(false);
        }
        self.records += batch.len() as u64;
        let behind = |own: u64, clock: u64| clock + own.saturating_sub(self.clock);
        for event in &mut batch.events {
            event.clock = behind(event.clock, *clock);
        }
        let (start, end) = (batch.clock_start, batch.clock_end);
        batch.clock_start = behind(start, *clock);
        batch.clock_end = behind(end, *clock);
        *clock = batch.clock_end;
        self.clock = self.clock.max(end);
        self.translate_events(batch);
        match batch.streams.constant() {
            Some(stream) => batch.streams.set_constant(self.shift.stream(stream)),
            None => {
                let streams = batch.streams.values().iter();
                let streams: Vec<u32> = streams.map(|s| self.shift.stream(*s)).collect();
                *batch.streams.values_mut() = streams;
            }
        }
        self.translate_pages(batch, own_pages)?;
        Ok(true)
    }

    fn translate_pages(
        &mut self,
        batch: &mut Batch,
        own_pages: &mut Vec<u32>,
    ) -> Result<(), SimError> {
        let base = self.host_base();
        if let Some(guest) = &mut self.guest {
            own_pages.clone_from(&batch.pages);
            if !guest.map.access(&mut batch.pages) {
                let mapped = PageCount(guest.map.mapped()).bytes().0;
                return Err(SimError::GuestOutOfMemory { mapped_bytes: mapped });
            }
        }
        batch.pages.iter_mut().for_each(|page| *page += base);
        Ok(())
    }

    fn host_base(&self) -> u32 {
        self.shift.base
    }

    fn translate_events(&mut self, batch: &mut Batch) {
        let (base, process) = (self.host_base(), self.process());
        // A guest's pages are looked up in its own page table.
        let shift = Shift { base: if self.guest.is_some() { 0 } else { base }, ..self.shift };
        let mut events = Vec::with_capacity(batch.events.len());
        if !std::mem::replace(&mut self.begun, true) && self.guest.is_some() {
            let clock = batch.events.first().map_or(batch.clock_start, |event| event.clock);
            events.extend(self.boot().map(|event| TimedEvent { clock, event }));
        }
        for TimedEvent { clock, mut event } in batch.events.drain(..) {
            match event {
                TraceEvent::Thread { .. } => self.threads += 1,
                TraceEvent::ThreadExit { .. } => self.threads = self.threads.saturating_sub(1),
                _ => {}
            }
            shift.event(&mut event);
            let event = match &mut self.guest {
                Some(guest) => guest.event(event, process, base),
                None => Some(event),
            };
            events.extend(event.map(|event| TimedEvent { clock, event }));
        }
        batch.events = events;
    }

    /// What the host sees of a guest's beginning: a process that maps all of the guest's memory.
    fn boot(&self) -> impl Iterator<Item = TraceEvent> + use<> {
        let (process, run) = (self.process(), self.run());
        let regions = run.start.region().0..run.start.region().0 + run.pages / HUGE_PAGES;
        let names = regions.map(Region).map(move |region| TraceEvent::RegionNamed {
            region,
            process,
            huge_vpn: u64::from(region.0),
        });
        let begins = TraceEvent::Process {
            process,
            parent: None,
            pid: process.0,
            command: format!("guest {}", process.0 + 1),
        };
        let map = TraceEvent::Map {
            process,
            start: u64::from(run.start.0) * PAGE_BYTES,
            len_bytes: run.bytes().0,
            kind: MapKind::Anonymous,
            accessible: true,
            runs: vec![run],
        };
        std::iter::once(begins).chain(names).chain([map])
    }
}
