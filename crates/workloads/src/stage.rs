//! Stage on which generators act: batches under construction, clock, address space,
//! touched-page sets and samples of stores.

use super::page_stream::write_pages;
use frostline_core::types::{
    AccessKind, HUGE_PAGES, PAGE_BYTES, PageId, PageRun, ProcessId, Region,
};
use frostline_trace::batch::{BLOCK_RECORDS, Batch, Want};
use frostline_trace::event::{FileId, MapKind, StreamId, TimedEvent, TraceEvent};
use frostline_trace::header::TraceHeader;
use frostline_trace::mapper::PageMapper;
use std::collections::VecDeque;
use std::mem;

const PROCESS: ProcessId = ProcessId(0);
/// The one file, and the program's descriptor of it.
const DATA: (FileId, ProcessId, i32) = (FileId(0), PROCESS, 3);
const HUGE_BYTES: u64 = PAGE_BYTES * HUGE_PAGES as u64;
const GIB: u64 = 1 << 30;
/// Where the first mapping lies; like `mmap` areas of Linux on x86-64, but growing upwards.
const FIRST_ADDRESS: u64 = 0x7f00_0000_0000;
/// One store in this many is sampled.
const STORE_PERIOD: u32 = 997;
/// Samples of stores in one event.
const STORE_BUNDLE: usize = 16;

/// A mapping of the program: its pages have consecutive ids.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) run: PageRun,
    address: u64,
    len_bytes: u64,
    /// Bytes of its first page that lie in front of it.
    before: u64,
}

impl Area {
    /// Its length.
    pub(super) fn len_bytes(self) -> u64 {
        self.len_bytes
    }

    /// Its pages, from the first one on.
    pub(super) fn pages(self) -> std::ops::Range<u32> {
        self.run.start.0..self.run.end()
    }

    /// Position of the area's byte `offset` in the dense address space of page ids.
    #[inline]
    pub(super) fn at(self, offset: u64) -> u64 {
        debug_assert!(offset < self.len_bytes);
        u64::from(self.run.start.0) * PAGE_BYTES + self.before + offset
    }

    /// The `len_bytes` at `offset` of it, with the pages on which they lie.
    pub(super) fn part(self, offset: u64, len_bytes: u64) -> Self {
        assert!(offset + len_bytes <= self.len_bytes, "a part is not larger than the whole");
        let (offset, address) = (self.before + offset, self.address + offset);
        let (first, before) = (offset / PAGE_BYTES, offset % PAGE_BYTES);
        let start = PageId(self.run.start.0 + first as u32);
        let pages = (before + len_bytes).div_ceil(PAGE_BYTES) as u32;
        Self { run: PageRun { start, pages }, address, len_bytes, before }
    }
}

/// Pages touched in the epoch, one bit each.
#[derive(Debug)]
struct Touched {
    length: u64,
    end: u64,
    number: u64,
    words: Vec<u64>,
}

/// Picks every 997th store.
#[derive(Debug)]
struct StoreSampler {
    until: u32,
    samples: Vec<(StreamId, PageId)>,
}

/// Columns of single records, until the open batch takes them over.
#[derive(Debug, Default)]
struct Columns {
    kinds: Vec<u32>,
    lines: Vec<u32>,
    deltas: Vec<u32>,
}

/// Output of a generator.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) header: TraceHeader,
    pub(super) want: Want,
    mapper: PageMapper,
    next_address: u64,
    areas: Vec<Area>,
    threads: u32,
    clock: u64,
    open: Batch,
    columns: Columns,
    last_record: u64,
    ready: VecDeque<Batch>,
    spare: Vec<Batch>,
    records: u64,
    touched: Touched,
    stores: StoreSampler,
}

impl Stage {
    /// A stage on which one process with `threads` threads has appeared. `header` says how long
    /// epochs are.
    pub(super) fn new(header: TraceHeader, threads: u32) -> Self {
        let length = header.epoch_length;
        let end = if length == 0 { u64::MAX } else { length };
        let mut stage = Self {
            want: Want::default(),
            mapper: PageMapper::new(),
            next_address: FIRST_ADDRESS,
            areas: Vec::new(),
            threads,
            clock: 0,
            open: Batch::new(),
            columns: Columns::default(),
            last_record: 0,
            ready: VecDeque::new(),
            spare: Vec::new(),
            records: 0,
            touched: Touched { length, end, number: 0, words: Vec::new() },
            stores: StoreSampler { until: STORE_PERIOD, samples: Vec::new() },
            header,
        };
        let command = stage.header.name.raw().to_owned();
        stage.event(TraceEvent::Process { process: PROCESS, parent: None, pid: 1000, command });
        for thread in 0..threads {
            let stream = StreamId(thread);
            stage.event(TraceEvent::Thread { stream, process: PROCESS, tid: 1000 + thread });
        }
        stage
    }

    /// Maps address space, aligned to 2 MiB. Its pages have consecutive ids.
    pub(super) fn map(&mut self, len_bytes: u64, kind: MapKind) -> Area {
        let start = self.next_address;
        self.next_address += len_bytes.next_multiple_of(HUGE_BYTES) + HUGE_BYTES;
        // A gibibyte at a time: the mapper leaves larger mappings to their first touches.
        for offset in (0..len_bytes).step_by(GIB as usize) {
            self.mapper.map(PROCESS, start + offset, (len_bytes - offset).min(GIB));
        }
        let runs = self.mapper.runs(PROCESS, start, len_bytes);
        assert_eq!(runs.len(), 1, "a mapping whose regions were all fresh is one run of pages");
        let run = runs[0];
        let fresh: Vec<_> = self.mapper.take_fresh().collect();
        for (region, process, huge_vpn) in fresh {
            self.event(TraceEvent::RegionNamed { region, process, huge_vpn });
        }
        let process = PROCESS;
        self.event(TraceEvent::Map { process, start, len_bytes, kind, accessible: true, runs });
        if self.touched.length > 0 {
            self.touched.words.resize(self.mapper.pages() as usize / 64, 0);
        }
        let area = Area { run, address: start, len_bytes, before: 0 };
        self.areas.push(area);
        area
    }

    /// A file that is read from end to end and closed.
    pub(super) fn read_file(&mut self, len_bytes: u64) {
        let area = self.open_file(len_bytes);
        write_pages(self, area.pages());
        self.close_file();
    }

    /// A file that will be read: what the system keeps of it in memory. As no program has that in its
    /// address space, it stands for such as a mapping.
    pub(super) fn open_file(&mut self, len_bytes: u64) -> Area {
        let (file, process, fd) = DATA;
        self.event(TraceEvent::FileOpen { file, process, fd, path: "data".to_owned() });
        self.map(len_bytes, MapKind::FileShared { file, offset_bytes: 0 })
    }

    /// The file is closed, and stays in memory.
    pub(super) fn close_file(&mut self) {
        let (file, process, fd) = DATA;
        self.event(TraceEvent::FileClose { file, process, fd });
    }

    /// Maps areas that follow one another without a gap, each on pages of its own, as the kernel
    /// places one large allocation after the other. At the end they are given back together.
    pub(super) fn map_adjacent<const N: usize>(&mut self, lens: [u64; N]) -> [Area; N] {
        let whole = lens.iter().map(|len| len.next_multiple_of(PAGE_BYTES)).sum();
        let whole = self.map(whole, MapKind::Anonymous);
        let mut first = whole.run.start.0;
        lens.map(|len_bytes| {
            let pages = len_bytes.div_ceil(PAGE_BYTES) as u32;
            let run = PageRun { start: PageId(first), pages };
            let before = u64::from(first - whole.run.start.0) * PAGE_BYTES;
            first += pages;
            Area { run, address: whole.address + before, len_bytes, before: 0 }
        })
    }

    /// Maps an area anew that was given back: the same addresses, the same pages.
    pub(super) fn map_again(&mut self, area: Area) {
        self.areas.push(area);
        self.event(TraceEvent::Map {
            process: PROCESS,
            start: area.address,
            len_bytes: area.len_bytes,
            kind: MapKind::Anonymous,
            accessible: true,
            runs: vec![area.run],
        });
    }

    /// Completes the header: `more` records are to be expected than it says, and pages as mapped
    /// by now.
    pub(super) fn expect(&mut self, more: u64) {
        let records = self.header.expected_records.unwrap_or(0) + more;
        self.header.expected_records = Some(records);
        self.header.expected_pages = Some(self.mapper.pages());
    }

    /// Gives an area back.
    pub(super) fn unmap(&mut self, area: Area) {
        self.end_store_bundle();
        self.areas.retain(|a| a.address != area.address);
        self.event(TraceEvent::Unmap {
            process: PROCESS,
            start: area.address,
            len_bytes: area.len_bytes,
            runs: vec![area.run],
        });
    }

    /// An event now.
    pub(super) fn event(&mut self, event: TraceEvent) {
        if !self.open.pages.is_empty() {
            self.seal_records();
        }
        self.open.events.push(TimedEvent { clock: self.clock, event });
    }

    /// Records handed over up to now.
    pub(super) fn records(&self) -> u64 {
        self.records
    }

    /// Instructions that have passed.
    #[inline]
    pub(super) fn clock(&self) -> u64 {
        self.clock
    }

    /// Instructions pass.
    #[inline]
    pub(super) fn advance(&mut self, instructions: u64) {
        self.clock += instructions;
        if self.clock >= self.touched.end {
            self.end_epoch();
        }
    }

    /// A page is touched, in front of the last-level cache.
    #[inline]
    pub(super) fn touch(&mut self, page: u32) {
        if let Some(word) = self.touched.words.get_mut(page as usize / 64) {
            *word |= 1 << (page % 64);
        }
    }

    /// Stores to `page` retire; one in 997 is sampled.
    #[inline]
    pub(super) fn retire_stores(&mut self, stream: u32, page: u32, count: u32) {
        if count < self.stores.until {
            self.stores.until -= count;
        } else {
            self.sample_stores(stream, page, count);
        }
    }

    #[cold]
    fn sample_stores(&mut self, stream: u32, page: u32, mut count: u32) {
        while count >= self.stores.until {
            count -= self.stores.until;
            self.stores.until = STORE_PERIOD;
            self.stores.samples.push((StreamId(stream), PageId(page)));
        }
        self.stores.until -= count;
        if self.stores.samples.len() >= STORE_BUNDLE {
            self.end_store_bundle();
        }
    }

    fn end_store_bundle(&mut self) {
        if !self.stores.samples.is_empty() {
            let samples = mem::take(&mut self.stores.samples);
            self.event(TraceEvent::StoreSamples { samples });
        }
    }

    /// One record of thread 0, now.
    #[inline]
    pub(super) fn record(&mut self, page: u32, kind: AccessKind, line: u32) {
        let delta = self.clock - self.last_record;
        if delta > u64::from(u32::MAX) {
            self.bridge();
        }
        self.columns.deltas.push((self.clock - self.last_record) as u32);
        self.last_record = self.clock;
        self.open.pages.push(page);
        self.columns.kinds.push(kind as u32);
        self.columns.lines.push(line);
        if self.open.pages.len() == BLOCK_RECORDS {
            self.seal_records();
        }
    }

    /// Ends a stretch of more than 2^32 instructions without a record by an empty batch.
    #[cold]
    fn bridge(&mut self) {
        if !self.open.pages.is_empty() {
            self.seal_records();
        }
        self.last_record = self.clock;
        self.seal();
    }

    fn seal_records(&mut self) {
        mem::swap(self.open.kinds.values_mut(), &mut self.columns.kinds);
        mem::swap(self.open.lines.values_mut(), &mut self.columns.lines);
        mem::swap(self.open.clock_deltas.values_mut(), &mut self.columns.deltas);
        self.seal();
    }

    /// How many records with `gap` instructions each the next chunk may have, at most `limit`.
    pub(super) fn chunk_room(&self, gap: u64, limit: u64) -> usize {
        let to_epoch = (self.touched.end - self.clock).div_ceil(gap);
        limit.min(to_epoch).min(BLOCK_RECORDS as u64) as usize
    }

    /// Records made by the chunk: `fill` puts pages and all columns but the clock into the batch.
    /// `len` as allowed by [`Self::chunk_room`], and every store retires `stores_each` times.
    pub(super) fn chunk(
        &mut self,
        len: usize,
        gap: u32,
        stores_each: u32,
        fill: impl FnOnce(&mut Batch),
    ) {
        debug_assert!(self.open.pages.is_empty(), "chunks and single records do not mix");
        let mut batch = mem::take(&mut self.open);
        batch.pages.resize(len, 0);
        fill(&mut batch);
        batch.clock_deltas.set_constant(gap);
        self.clock += u64::from(gap) * len as u64;
        self.last_record = self.clock;
        if !self.touched.words.is_empty() {
            for &page in &batch.pages {
                self.touch(page);
            }
        }
        self.open = batch;
        self.sample_chunk_stores(stores_each);
        if !self.open.pages.is_empty() {
            self.seal();
        }
        self.end_due();
    }

    fn sample_chunk_stores(&mut self, stores_each: u32) {
        const STORE: u32 = AccessKind::Store as u32;
        let batch = &self.open;
        let stores = match batch.kinds.constant() {
            Some(STORE) => batch.len() as u32,
            Some(_) => 0,
            None => (0..batch.len()).map(|i| u32::from(batch.kinds.get(i) == STORE)).sum(),
        };
        if stores * stores_each < self.stores.until {
            self.stores.until -= stores * stores_each;
            return;
        }
        let stored: Vec<_> = (0..batch.len())
            .filter(|&i| batch.kinds.get(i) == STORE)
            .map(|i| (batch.streams.get(i), batch.pages[i]))
            .collect();
        // Sealed first: a full bundle becomes an event behind these records.
        self.seal();
        for (stream, page) in stored {
            self.retire_stores(stream, page, stores_each);
        }
    }

    fn end_due(&mut self) {
        if self.clock >= self.touched.end {
            self.end_epoch();
        }
    }

    #[cold]
    fn end_epoch(&mut self) {
        self.end_store_bundle();
        let regions: Vec<(Region, [u64; 8])> = self
            .touched
            .words
            .chunks_exact_mut(8)
            .enumerate()
            .filter_map(|(region, words)| {
                let bits: [u64; 8] = std::array::from_fn(|i| mem::take(&mut words[i]));
                (bits != [0; 8]).then_some((Region(region as u32), bits))
            })
            .collect();
        let epoch = self.touched.number;
        self.event(TraceEvent::Touched { epoch, regions });
        self.touched.number += 1;
        self.touched.end = self.clock - self.clock % self.touched.length + self.touched.length;
    }

    /// The process ends: its last samples, its address space, its threads.
    pub(super) fn finish(&mut self) {
        self.end_store_bundle();
        if self.touched.length > 0 && self.touched.words.iter().any(|&word| word != 0) {
            self.end_epoch();
        }
        while let Some(&area) = self.areas.first() {
            self.unmap(area);
        }
        for thread in 0..self.threads {
            self.event(TraceEvent::ThreadExit { stream: StreamId(thread) });
        }
        self.event(TraceEvent::ProcessExit { process: PROCESS, status: 0 });
        self.seal();
    }

    fn seal(&mut self) {
        let next = self.spare.pop().unwrap_or_default();
        let mut batch = mem::replace(&mut self.open, next);
        // Events after the last record belong to the next batch.
        batch.clock_end = if batch.pages.is_empty() { self.clock } else { self.last_record };
        self.open.clock_start = batch.clock_end;
        self.last_record = batch.clock_end;
        self.records += batch.pages.len() as u64;
        self.ready.push_back(batch);
    }

    /// The next finished batch, in exchange for a used one; false where there is none.
    pub(super) fn take(&mut self, batch: &mut Batch) -> bool {
        let Some(next) = self.ready.pop_front() else { return false };
        let mut used = mem::replace(batch, next);
        used.clear();
        if self.spare.len() < 4 {
            self.spare.push(used);
        }
        true
    }
}
