//! Translation of the recorder's packets into a native trace: dense page, stream, process and file
//! numbers, and one clock.

use crate::address_space::AddressSpace;
use crate::packet::{HEADER_BYTES, Header, Item, Items};
use frostline_core::types::{PageId, PageRun, ProcessId, Region};
use frostline_trace::event::{FileId, MapKind, StreamId};
use frostline_trace::{PageMapper, Totals, TraceError, TraceEvent, TraceWriter};
use hashbrown::HashMap;
use std::io::Write;

const PAGE: u64 = 4096;
/// Behind all of user space on x86-64.
const USER_END: u64 = 1 << 47;
/// Store samples per event: an event ends a block, so they are gathered for a while.
const SAMPLES_PER_EVENT: usize = 512;

const PROT_READ_WRITE: u32 = 3;
const MAP_SHARED: u32 = 0x01;
const MAP_GROWSDOWN: u32 = 0x100;
const MAP_STACK: u32 = 0x2_0000;
const MADV_DONTNEED: u32 = 4;
const MADV_FREE: u32 = 8;
const MADV_REMOVE: u32 = 9;
const MADV_DONTNEED_LOCKED: u32 = 24;

/// What stops the translation.
#[derive(Debug)]
pub enum Failure {
    /// The packet makes no sense.
    Damaged(String),
    /// The trace cannot be written.
    Output(TraceError),
}

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Self {
        Self::Output(error)
    }
}

impl From<String> for Failure {
    fn from(what: String) -> Self {
        Self::Damaged(what)
    }
}

/// One process, over all images that it executes.
#[derive(Debug, Default)]
struct Process {
    id: ProcessId,
    space: AddressSpace,
    /// Number that its next packet must have.
    next_sequence: u64,
    /// Epoch of its image that has not ended yet.
    epoch: u64,
    /// Seen since the epoch began.
    touched: Vec<(Region, [u64; 8])>,
    /// Accesses of this image by kind, and its store samples, to compare with what it says.
    by_kind: [u64; 4],
    store_samples: u64,
    /// Exit code, once it has said so.
    exit: Option<i32>,
    /// Its last event says that it is about to execute another program.
    executes: bool,
    /// Its exit has been written.
    gone: bool,
}

/// Where the translation stands inside a packet.
struct Place {
    pid: u32,
    process: ProcessId,
    stream: StreamId,
    /// Clock of the trace.
    clock: u64,
}

/// Reads packets, writes a trace.
#[derive(Debug)]
pub struct Translator<W: Write> {
    writer: TraceWriter<W>,
    mapper: PageMapper,
    /// Instructions retired by all processes so far. Packets of several processes follow each
    /// other in it in the order of their arrival.
    now: u64,
    processes: HashMap<u32, Process>,
    n_processes: u32,
    /// The process that was started first.
    main: Option<u32>,
    /// Threads that have not ended.
    streams: HashMap<(ProcessId, u32), StreamId>,
    n_streams: u32,
    files: HashMap<(u64, u64), FileId>,
    samples: Vec<(StreamId, PageId)>,
    next_epoch: u64,
}

impl<W: Write> Translator<W> {
    /// Writes to `writer`.
    pub fn new(writer: TraceWriter<W>) -> Self {
        Self {
            writer,
            mapper: PageMapper::new(),
            now: 0,
            processes: HashMap::new(),
            n_processes: 0,
            main: None,
            streams: HashMap::new(),
            n_streams: 0,
            files: HashMap::new(),
            samples: Vec::new(),
            next_epoch: 0,
        }
    }

    /// The trace so far.
    pub fn writer(&mut self) -> &mut TraceWriter<W> {
        &mut self.writer
    }

    /// Processes so far.
    pub fn processes(&self) -> u32 {
        self.n_processes
    }

    /// Whether any process has begun.
    pub fn has_begun(&self) -> bool {
        self.main.is_some()
    }

    /// Whether the process that was started first has neither told its exit nor executed another
    /// program.
    pub fn is_cut_short(&self) -> bool {
        let main = self.main.and_then(|pid| self.processes.get(&pid));
        main.is_some_and(|process| process.exit.is_none() && !process.executes)
    }

    /// Takes the whole packets that `bytes` begins with, and gives their length.
    ///
    /// # Errors
    /// As [`Self::packet`], with the length of the packets before that one.
    pub fn packets(&mut self, bytes: &[u8]) -> Result<usize, (usize, Failure)> {
        let mut at = 0;
        while let Some(head) = bytes[at..].first_chunk::<HEADER_BYTES>() {
            let header = Header::decode(head).map_err(|what| (at, what.into()))?;
            let Some(payload) = bytes[at..].get(HEADER_BYTES..header.bytes) else { break };
            self.packet(&header, payload).map_err(|failure| (at, failure))?;
            at += header.bytes;
        }
        Ok(at)
    }

    /// Takes a packet; `payload` is what follows its header.
    ///
    /// # Errors
    /// Where the packet makes no sense or the trace cannot be written.
    pub fn packet(&mut self, header: &Header, payload: &[u8]) -> Result<(), Failure> {
        let pid = header.pid;
        let id = match self.processes.get_mut(&pid) {
            // A new image of the process numbers its packets from 0 again.
            Some(process) if header.sequence == process.next_sequence || header.sequence == 0 => {
                process.next_sequence = header.sequence + 1;
                process.id
            }
            None if header.sequence == 0 => self.new_process(pid),
            known => {
                let expected = known.map_or(0, |process| process.next_sequence);
                let found = header.sequence;
                return Err(format!("packet {found} of process {pid} instead of {expected}").into());
            }
        };
        self.process(pid).executes = false;
        let base = self.now.wrapping_sub(header.clock_start);
        let stream = self.stream(id, header.tid, self.now)?;
        let mut place = Place { pid, process: id, stream, clock: self.now };
        let mut by_kind = [0; 4];
        let mut items = Items::new(payload);
        while let Some(item) = items.next()? {
            match item {
                Item::Access { vpn, line, kind, delta } => {
                    place.clock += u64::from(delta);
                    let page = self.page(&place, vpn)?;
                    self.writer.access(place.clock, page, kind, place.stream, line)?;
                    by_kind[kind as usize] += 1;
                }
                Item::Clock(delta) => place.clock = place.clock.saturating_add(delta),
                Item::Thread(tid) => place.stream = self.stream(id, tid, place.clock)?,
                other => {
                    self.count(pid, &mut by_kind);
                    self.event(&mut place, other)?;
                }
            }
        }
        self.count(pid, &mut by_kind);
        self.now = base.wrapping_add(header.clock_end);
        if self.now != place.clock {
            return Err(
                format!("a packet of process {pid} ends at another clock than it says").into()
            );
        }
        Ok(())
    }

    /// Writes what is held back and the ends of all processes, then completes the trace.
    /// `status` is how the first process ended; none: the recording was stopped before.
    ///
    /// # Errors
    /// Where the trace cannot be written.
    pub fn finish(mut self, status: Option<i32>) -> Result<Totals, TraceError> {
        self.flush_samples(self.now)?;
        if let Some(status) = status {
            let mut pids: Vec<u32> =
                self.processes.iter().filter(|(_, p)| !p.gone).map(|(pid, _)| *pid).collect();
            pids.sort_unstable_by_key(|pid| self.processes[pid].id);
            for pid in pids {
                // A program that is not recorded has taken its place, and ends as it likes; else
                // only SIGKILL ends a process without a word.
                let process = &self.processes[&pid];
                let known = process.exit.unwrap_or(if process.executes { 0 } else { 128 + 9 });
                let is_main = self.main == Some(pid);
                self.process_gone(pid, if is_main { status } else { known })?;
            }
        }
        self.writer.finish()
    }

    fn new_process(&mut self, pid: u32) -> ProcessId {
        let id = ProcessId(self.n_processes);
        self.n_processes += 1;
        self.main.get_or_insert(pid);
        self.processes.insert(pid, Process { id, next_sequence: 1, ..Process::default() });
        id
    }

    fn count(&mut self, pid: u32, by_kind: &mut [u64; 4]) {
        let process = self.process(pid);
        for (total, more) in process.by_kind.iter_mut().zip(std::mem::take(by_kind)) {
            *total += more;
        }
    }

    /// The process of this pid; every pid that gets here is known.
    fn process(&mut self, pid: u32) -> &mut Process {
        self.processes.entry(pid).or_default()
    }

    #[inline]
    fn page(&mut self, place: &Place, vpn: u64) -> Result<PageId, TraceError> {
        let page = self.mapper.page(place.process, vpn).ok_or(TraceError::Full)?;
        if self.mapper.has_fresh() {
            self.name_regions(place.clock)?;
        }
        Ok(page)
    }

    fn name_regions(&mut self, clock: u64) -> Result<(), TraceError> {
        for (region, process, huge_vpn) in self.mapper.take_fresh() {
            self.writer.event(clock, TraceEvent::RegionNamed { region, process, huge_vpn })?;
        }
        Ok(())
    }

    fn stream(&mut self, process: ProcessId, tid: u32, clock: u64) -> Result<StreamId, TraceError> {
        if let Some(stream) = self.streams.get(&(process, tid)) {
            return Ok(*stream);
        }
        let stream = StreamId(self.n_streams);
        self.n_streams += 1;
        self.streams.insert((process, tid), stream);
        self.writer.event(clock, TraceEvent::Thread { stream, process, tid })?;
        Ok(stream)
    }

    /// Number of a file; one that is new is announced, as opened by `fd` where that is known.
    fn file(&mut self, place: &Place, key: (u64, u64), path: &str) -> Result<FileId, TraceError> {
        if let Some(file) = self.files.get(&key) {
            return Ok(*file);
        }
        let file = FileId(self.files.len() as u32);
        self.files.insert(key, file);
        let (process, path) = (place.process, path.to_owned());
        self.writer.event(place.clock, TraceEvent::FileOpen { file, process, fd: -1, path })?;
        Ok(file)
    }

    fn event(&mut self, place: &mut Place, item: Item) -> Result<(), Failure> {
        let (clock, process, pid) = (place.clock, place.process, place.pid);
        let stream = place.stream;
        match item {
            Item::Access { .. } | Item::Clock(_) | Item::Thread(_) => {}
            Item::Exec => self.process(pid).executes = true,
            Item::StoreSample { vpn } => {
                let page = self.page(place, vpn)?;
                self.samples.push((stream, page));
                self.process(pid).store_samples += 1;
                if self.samples.len() == SAMPLES_PER_EVENT {
                    self.flush_samples(clock)?;
                }
            }
            Item::Touched { huge_vpn, pages } => {
                let region = Region(self.page(place, huge_vpn << 9)?.0 >> 9);
                self.process(pid).touched.push((region, pages));
            }
            Item::EpochEnd { epoch, regions } => self.epoch_end(place, epoch, regions)?,
            Item::Map { start, len, prot, flags, file, offset, path } => {
                let kind = self.map_kind(place, flags, file, offset, &path)?;
                self.map(place, start, len, kind, prot & PROT_READ_WRITE != 0)?;
            }
            Item::Unmap { start, len } => self.unmap(place, start, len)?,
            Item::Remap { old_start, old_len, new_start, new_len } => {
                self.remap(place, (old_start, old_len), (new_start, new_len))?;
            }
            Item::Brk { old, new } if new > old => {
                self.map(place, old, new - old, MapKind::Heap, true)?;
            }
            Item::Brk { old, new } => self.unmap(place, new, old - new)?,
            Item::Protect { start, len, prot } => {
                let accessible = prot & PROT_READ_WRITE != 0;
                let end = page_end(start, len);
                for (start, mapping) in self.process(pid).space.protect(start, end, accessible) {
                    self.announce(place, start, mapping.end - start, mapping.kind, true)?;
                }
            }
            Item::Advise { start, len, advice } => {
                let frees = [MADV_DONTNEED, MADV_FREE, MADV_REMOVE, MADV_DONTNEED_LOCKED];
                if frees.contains(&advice) {
                    let runs = self.mapper.runs(process, start, len);
                    let event = TraceEvent::Discard { process, start, len_bytes: len, runs };
                    self.writer.event(clock, event)?;
                }
            }
            Item::Open { fd, file, path } => {
                let next = FileId(self.files.len() as u32);
                let file = *self.files.entry(file).or_insert(next);
                self.writer.event(clock, TraceEvent::FileOpen { file, process, fd, path })?;
            }
            Item::Close { fd, file } => {
                let file = self.file(place, file, "")?;
                self.writer.event(clock, TraceEvent::FileClose { file, process, fd })?;
            }
            Item::Transfer { is_write, file, offset, len } => {
                let file = self.file(place, file, "")?;
                let (offset_bytes, len_bytes) = (offset, len);
                self.writer.event(
                    clock,
                    if is_write {
                        TraceEvent::FileWrite { file, process, offset_bytes, len_bytes }
                    } else {
                        TraceEvent::FileRead { file, process, offset_bytes, len_bytes }
                    },
                )?;
            }
            Item::ThreadStart(tid) => place.stream = self.stream(process, tid, clock)?,
            Item::ThreadExit(tid) => {
                let stream = self.stream(process, tid, clock)?;
                self.streams.remove(&(process, tid));
                self.writer.event(clock, TraceEvent::ThreadExit { stream })?;
            }
            Item::ProcessStart { is_fork, parent_pid, command } => {
                self.process_start(place, is_fork, parent_pid, command)?;
            }
            Item::ProcessExit { code, by_kind, store_samples } => {
                self.process_exit(place, code, by_kind, store_samples)?;
            }
            Item::Operation { is_end: false, id } => {
                self.writer.event(clock, TraceEvent::OpBegin { stream, op: id })?;
            }
            Item::Operation { is_end: true, id } => {
                self.writer.event(clock, TraceEvent::OpEnd { stream, op: id })?;
            }
        }
        Ok(())
    }

    fn flush_samples(&mut self, clock: u64) -> Result<(), TraceError> {
        if self.samples.is_empty() {
            return Ok(());
        }
        let samples = std::mem::take(&mut self.samples);
        self.writer.event(clock, TraceEvent::StoreSamples { samples })
    }

    fn epoch_end(&mut self, place: &Place, epoch: u64, regions: u64) -> Result<(), Failure> {
        self.flush_samples(place.clock)?;
        let process = self.process(place.pid);
        let touched = std::mem::take(&mut process.touched);
        if touched.len() as u64 != regions {
            let found = touched.len();
            return Err(format!("an epoch touched {regions} regions, but {found} arrived").into());
        }
        // Epochs in which nothing left the first-level cache are not sent.
        let passed = epoch.saturating_sub(process.epoch);
        process.epoch = epoch + 1;
        let epoch = self.next_epoch + passed;
        self.next_epoch = epoch + 1;
        self.writer.event(place.clock, TraceEvent::Touched { epoch, regions: touched })?;
        Ok(())
    }

    // ---- address space -----------------------------------------------------------------------

    fn map_kind(
        &mut self,
        place: &Place,
        flags: u32,
        file: (u64, u64),
        offset_bytes: u64,
        path: &str,
    ) -> Result<MapKind, TraceError> {
        let shared = flags & MAP_SHARED != 0;
        if file == (0, 0) {
            return Ok(match () {
                () if shared => MapKind::SharedAnonymous,
                () if flags & (MAP_GROWSDOWN | MAP_STACK) != 0 => MapKind::Stack,
                () => MapKind::Anonymous,
            });
        }
        let file = self.file(place, file, path)?;
        Ok(if shared {
            MapKind::FileShared { file, offset_bytes }
        } else {
            MapKind::FilePrivate { file, offset_bytes }
        })
    }

    fn map(
        &mut self,
        place: &Place,
        start: u64,
        len: u64,
        kind: MapKind,
        accessible: bool,
    ) -> Result<(), TraceError> {
        let end = page_end(start, len);
        let process = self.process(place.pid);
        if process.space.iter().any(|(s, m)| s < end && start < m.end) && kind != MapKind::Heap {
            // A fixed mapping replaces what was there.
            self.unmap(place, start, end - start)?;
        }
        self.process(place.pid).space.map(start, end, kind, accessible);
        self.announce(place, start, len, kind, accessible)
    }

    fn announce(
        &mut self,
        place: &Place,
        start: u64,
        len_bytes: u64,
        kind: MapKind,
        accessible: bool,
    ) -> Result<(), TraceError> {
        let process = place.process;
        let runs = if accessible { self.mapper.map(process, start, len_bytes) } else { Vec::new() };
        self.name_regions(place.clock)?;
        let event = TraceEvent::Map { process, start, len_bytes, kind, accessible, runs };
        self.writer.event(place.clock, event)
    }

    fn unmap(&mut self, place: &Place, start: u64, len_bytes: u64) -> Result<(), TraceError> {
        let process = place.process;
        self.process(place.pid).space.unmap(start, page_end(start, len_bytes));
        let runs = self.mapper.runs(process, start, len_bytes);
        let event = TraceEvent::Unmap { process, start, len_bytes, runs };
        self.writer.event(place.clock, event)
    }

    fn remap(
        &mut self,
        place: &Place,
        (old_start, old_len): (u64, u64),
        (new_start, new_len): (u64, u64),
    ) -> Result<(), TraceError> {
        let process = place.process;
        let (old_len, new_len) = (round_up(old_len), round_up(new_len));
        let common = old_len.min(new_len);
        let space = &mut self.process(place.pid).space;
        let before = space.find(old_start);
        let kind = before.map_or(MapKind::Anonymous, |mapping| mapping.kind);
        let accessible = before.is_none_or(|mapping| mapping.accessible);
        if old_start != new_start || new_len < old_len {
            space.unmap(old_start, old_start.saturating_add(old_len));
        }
        space.map(new_start, new_start.saturating_add(new_len), kind, accessible);
        let moves = if old_start == new_start {
            Vec::new()
        } else {
            self.mapper.map(process, new_start, common);
            self.moves(process, old_start, new_start, common)?
        };
        let lost = self.mapper.runs(process, old_start.saturating_add(common), old_len - common);
        let gained = match new_len - common {
            0 => Vec::new(),
            more => self.mapper.map(process, new_start.saturating_add(common), more),
        };
        self.name_regions(place.clock)?;
        let event = TraceEvent::Remap {
            process,
            old_start,
            old_len_bytes: old_len,
            new_start,
            new_len_bytes: new_len,
            moves,
            gained,
            lost,
        };
        self.writer.event(place.clock, event)
    }

    /// Where the pages of a moved mapping that have ids go.
    fn moves(
        &mut self,
        process: ProcessId,
        old_start: u64,
        new_start: u64,
        len: u64,
    ) -> Result<Vec<(PageRun, PageId)>, TraceError> {
        let mut moves: Vec<(PageRun, PageId)> = Vec::new();
        for (first, known) in self.mapper.known(process, old_start, len) {
            for i in 0..known.pages {
                let from = PageId(known.start.0 + i);
                let vpn = first + u64::from(i) - old_start / PAGE + new_start / PAGE;
                let to = self.mapper.page(process, vpn).ok_or(TraceError::Full)?;
                match moves.last_mut() {
                    Some((run, first)) if run.end() == from.0 && first.0 + run.pages == to.0 => {
                        run.pages += 1;
                    }
                    _ => moves.push((PageRun { start: from, pages: 1 }, to)),
                }
            }
        }
        Ok(moves)
    }

    // ---- processes ---------------------------------------------------------------------------

    fn process_start(
        &mut self,
        place: &Place,
        is_fork: bool,
        parent_pid: u32,
        command: String,
    ) -> Result<(), TraceError> {
        let (process, pid) = (place.process, place.pid);
        let parent = self.processes.get(&parent_pid).filter(|_| is_fork);
        let (parent, inherited) = match parent {
            Some(parent) => (Some(parent.id), parent.space.clone()),
            None => (None, AddressSpace::default()),
        };
        let had_image = self.process(pid).space.iter().next().is_some();
        if had_image && !is_fork {
            // The image that called exec is gone with all of its memory.
            self.unmap(place, 0, USER_END)?;
        }
        let entry = self.process(pid);
        *entry = Process {
            id: process,
            next_sequence: entry.next_sequence,
            space: inherited.clone(),
            ..Process::default()
        };
        self.writer.event(place.clock, TraceEvent::Process { process, parent, pid, command })?;
        // A child begins with copies of all mappings. Its pages get ids when they are touched.
        for (start, mapping) in inherited.iter() {
            let (len_bytes, kind, accessible) =
                (mapping.end - start, mapping.kind, mapping.accessible);
            let runs = Vec::new();
            let event = TraceEvent::Map { process, start, len_bytes, kind, accessible, runs };
            self.writer.event(place.clock, event)?;
        }
        Ok(())
    }

    fn process_exit(
        &mut self,
        place: &Place,
        code: i32,
        by_kind: [u64; 4],
        store_samples: u64,
    ) -> Result<(), Failure> {
        self.flush_samples(place.clock)?;
        let is_main = self.main == Some(place.pid);
        let pid = place.pid;
        let process = self.process(pid);
        if (by_kind, store_samples) != (process.by_kind, process.store_samples) {
            return Err(format!(
                "process {pid} sent {by_kind:?} accesses and {store_samples} samples, but {:?} and {} arrived",
                process.by_kind, process.store_samples
            )
            .into());
        }
        process.exit = Some(code);
        // How the first process ended is known when it has been waited for.
        if !is_main {
            self.process_gone(pid, code)?;
        }
        Ok(())
    }

    fn process_gone(&mut self, pid: u32, status: i32) -> Result<(), TraceError> {
        let process = self.process(pid);
        process.gone = true;
        let id = process.id;
        let place = Place { pid, process: id, stream: StreamId(0), clock: self.now };
        self.unmap(&place, 0, USER_END)?;
        self.writer.event(self.now, TraceEvent::ProcessExit { process: id, status })
    }
}

fn round_up(len: u64) -> u64 {
    len.saturating_add(PAGE - 1) & !(PAGE - 1)
}

/// Never before `start`, which may lie in the last page of all.
fn page_end(start: u64, len: u64) -> u64 {
    round_up(start.saturating_add(len)).max(start)
}

#[cfg(test)]
mod tests;
