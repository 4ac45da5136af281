//! Contents of a trace, counted.

use crate::batch::{Batch, TraceSource, Want};
use crate::error::TraceError;
use crate::event::TraceEvent;
use crate::header::TraceHeader;
use crate::native::{Ending, Totals, TraceReader};
use frostline_core::types::{AccessKind, PAGE_BYTES, ProcessId};
use hashbrown::HashSet;
use serde::Serialize;
use std::collections::BTreeMap;

/// Accesses by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KindCounts {
    /// Data loads.
    pub load: u64,
    /// Stores.
    pub store: u64,
    /// Instruction fetches.
    pub fetch: u64,
    /// Write-backs.
    pub write_back: u64,
}

/// A summary of a whole trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceInfo {
    /// What the trace says about itself.
    pub header: TraceHeader,
    /// Size of the file, where it is one.
    pub file_bytes: Option<u64>,
    /// File size by records, where both are there.
    pub bytes_per_record: Option<f64>,
    /// Accesses.
    pub records: u64,
    /// The same by kind.
    pub records_by_kind: KindCounts,
    /// Different pages accessed.
    pub pages_touched: u64,
    /// The same in bytes.
    pub footprint_bytes: u64,
    /// All page ids accessed are below this.
    pub page_ids_end: u64,
    /// 2 MiB regions with at least one page accessed.
    pub regions_touched: u64,
    /// Processes announced by events.
    pub processes: u64,
    /// Threads announced by events or seen in accesses.
    pub threads: u64,
    /// Events.
    pub events: u64,
    /// The same by [`TraceEvent::name`].
    pub events_by_kind: BTreeMap<&'static str, u64>,
    /// Touched-page sets.
    pub epochs: u64,
    /// Store samples in all.
    pub store_samples: u64,
    /// Clock of the first access.
    pub clock_first: u64,
    /// Clock of the last access.
    pub clock_last: u64,
    /// Whether the trace ended as its writer meant it to; always so for generated ones.
    pub finished: bool,
    /// What [`TraceSource::warning`] said.
    pub warning: Option<String>,
}

/// Counts while batches pass.
#[derive(Debug, Default)]
pub struct InfoBuilder {
    by_kind: [u64; 4],
    pages: PageSet,
    processes: HashSet<ProcessId>,
    streams: HashSet<u32>,
    events: BTreeMap<&'static str, u64>,
    store_samples: u64,
    clock_first: Option<u64>,
    clock_last: u64,
}

impl InfoBuilder {
    /// Nothing counted yet. The source should be told to decode `clock_deltas`, or the first
    /// access's clock is that of its block's start.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a batch.
    pub fn add(&mut self, batch: &Batch) {
        for event in &batch.events {
            *self.events.entry(event.event.name()).or_default() += 1;
            match &event.event {
                TraceEvent::Process { process, .. } => {
                    self.processes.insert(*process);
                }
                TraceEvent::Thread { stream, .. } => {
                    self.streams.insert(stream.0);
                }
                TraceEvent::StoreSamples { samples } => self.store_samples += samples.len() as u64,
                _ => {}
            }
        }
        let Some(last) = batch.len().checked_sub(1) else { return };
        for page in &batch.pages {
            self.pages.insert(*page);
        }
        match batch.kinds.constant() {
            Some(kind) => self.by_kind[kind as usize & 3] += batch.len() as u64,
            None => (0..=last).for_each(|i| self.by_kind[batch.kind(i) as usize] += 1),
        }
        match batch.streams.constant() {
            Some(stream) => {
                self.streams.insert(stream);
            }
            None => self.streams.extend(batch.streams.values()),
        }
        let first = batch.clock_start.saturating_add(batch.clock_deltas.get(0).into());
        self.clock_first.get_or_insert(first);
        self.clock_last = batch.clock_end;
    }

    /// Accesses so far.
    pub fn records(&self) -> u64 {
        self.by_kind.iter().sum()
    }

    /// The summary; `source` must have come to its end for `finished` and `warning` to be right.
    pub fn build(self, source: &dyn TraceSource, file_bytes: Option<u64>) -> TraceInfo {
        let [load, store, fetch, write_back] = self.by_kind;
        let records = self.records();
        let (pages_touched, regions_touched) = self.pages.count();
        let warning = source.warning();
        TraceInfo {
            header: source.header().clone(),
            file_bytes,
            bytes_per_record: file_bytes
                .filter(|_| records > 0)
                .map(|bytes| bytes as f64 / records as f64),
            records,
            records_by_kind: KindCounts { load, store, fetch, write_back },
            pages_touched,
            footprint_bytes: pages_touched * PAGE_BYTES,
            page_ids_end: self.pages.end(),
            regions_touched,
            processes: self.processes.len() as u64,
            threads: self.streams.len() as u64,
            events: self.events.values().sum(),
            epochs: self.events.get("touched").copied().unwrap_or(0),
            events_by_kind: self.events,
            store_samples: self.store_samples,
            clock_first: self.clock_first.unwrap_or(0),
            clock_last: self.clock_last,
            finished: warning.is_none(),
            warning,
        }
    }
}

impl TraceInfo {
    /// Reads a source to its end. `progress` is told the number of records now and then, and
    /// stops the reading by returning false; the summary is then of what was read.
    ///
    /// # Errors
    /// Those of the source.
    pub fn collect(
        source: &mut dyn TraceSource,
        file_bytes: Option<u64>,
        mut progress: impl FnMut(u64) -> bool,
    ) -> Result<Self, TraceError> {
        let builder = count(source, &mut progress)?;
        Ok(builder.build(source, file_bytes))
    }
}

fn count(
    source: &mut dyn TraceSource,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<InfoBuilder, TraceError> {
    /// Batches between two looks at the progress.
    const BATCHES: u32 = 256;
    source.want(Want { clock_deltas: true, lines: true });
    let (mut builder, mut batch) = (InfoBuilder::new(), Batch::new());
    let mut batches = 0u32;
    while source.next_batch(&mut batch)? {
        builder.add(&batch);
        batches = batches.wrapping_add(1);
        if batches.is_multiple_of(BATCHES) && !progress(builder.records()) {
            break;
        }
    }
    progress(builder.records());
    Ok(builder)
}

/// Reads a native trace completely, every column of it, and checks all that can be checked: every
/// checksum, the order of the frames, the index, the totals. A trace without an end fails.
/// `progress` is as in [`TraceInfo::collect`]; stopped by it, the rest is not checked.
///
/// # Errors
/// What is wrong and where.
pub fn verify(
    reader: &mut TraceReader,
    mut progress: impl FnMut(u64) -> bool,
) -> Result<TraceInfo, TraceError> {
    let mut stopped = false;
    let builder = count(reader, &mut |records| {
        stopped |= !progress(records);
        !stopped
    })?;
    let (by_kind, pages) = (builder.by_kind, builder.pages.end());
    let info = builder.build(reader, reader.progress_bytes().1);
    if stopped {
        return Ok(info);
    }
    if reader.ending() != Some(&Ending::Finished) {
        return Err(reader.no_end());
    }
    if let Some(totals) = reader.totals() {
        let seen = Totals { by_kind, pages, ..totals };
        if seen != totals {
            return Err(reader.wrong_totals(&seen));
        }
    }
    Ok(info)
}

/// Pages seen, as bits; chunks come into being when first needed.
#[derive(Debug, Default)]
struct PageSet {
    chunks: Vec<Option<Box<[u64; CHUNK_WORDS]>>>,
}

const CHUNK_WORDS: usize = 512;
const CHUNK_PAGES: usize = 64 * CHUNK_WORDS;
const REGION_WORDS: usize = 8;

impl PageSet {
    #[inline]
    fn insert(&mut self, page: u32) {
        let (chunk, bit) = (page as usize / CHUNK_PAGES, page as usize % CHUNK_PAGES);
        if chunk >= self.chunks.len() {
            self.chunks.resize_with(chunk + 1, || None);
        }
        let words = self.chunks[chunk].get_or_insert_with(|| Box::new([0; CHUNK_WORDS]));
        words[bit / 64] |= 1 << (bit % 64);
    }

    /// Pages, and regions with at least one.
    fn count(&self) -> (u64, u64) {
        let words = || self.chunks.iter().flatten();
        let pages = words().flat_map(|chunk| chunk.iter()).map(|w| u64::from(w.count_ones())).sum();
        let regions = words()
            .flat_map(|chunk| chunk.chunks_exact(REGION_WORDS))
            .filter(|region| region.iter().any(|word| *word != 0))
            .count();
        (pages, regions as u64)
    }

    /// One above the highest page; 0 without pages.
    fn end(&self) -> u64 {
        let Some(chunk) = self.chunks.iter().rposition(Option::is_some) else { return 0 };
        let words = self.chunks[chunk].as_deref().map_or(&[][..], |words| words);
        let word = words.iter().rposition(|word| *word != 0).unwrap_or(0);
        let bit = 64 - words.get(word).map_or(64, |word| word.leading_zeros() as usize);
        (chunk * CHUNK_PAGES + word * 64 + bit) as u64
    }
}

/// Name of a kind of access, for tables and exports.
pub const fn kind_name(kind: AccessKind) -> &'static str {
    match kind {
        AccessKind::Load => "load",
        AccessKind::Store => "store",
        AccessKind::Fetch => "fetch",
        AccessKind::WriteBack => "write_back",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::StreamId;
    use crate::native::{MemTrace, TraceWriter};
    use frostline_core::types::{PageId, Region};

    fn bytes() -> Vec<u8> {
        let mut bytes = Vec::new();
        let header = TraceHeader::named("t");
        let mut writer = TraceWriter::new(&mut bytes, "t", &header).unwrap();
        let process = ProcessId(0);
        let command = "x".to_owned();
        writer.event(0, TraceEvent::Process { process, parent: None, pid: 1, command }).unwrap();
        for (clock, page, kind, stream) in [
            (10, 5, AccessKind::Load, 0),
            (20, 5, AccessKind::Store, 1),
            (30, 511, AccessKind::Load, 0),
            (45, 70_000, AccessKind::WriteBack, 0),
        ] {
            writer.access(clock, PageId(page), kind, StreamId(stream), 0).unwrap();
        }
        let samples = vec![(StreamId(0), PageId(5)); 3];
        writer.event(45, TraceEvent::StoreSamples { samples }).unwrap();
        let regions = vec![(Region(0), [1; 8])];
        writer.event(46, TraceEvent::Touched { epoch: 0, regions }).unwrap();
        writer.finish().unwrap();
        bytes
    }

    #[test]
    fn everything_is_counted() {
        let bytes = bytes();
        let trace = MemTrace::from_bytes(bytes.clone(), "t");
        let mut reader = trace.reader().unwrap();
        let info = verify(&mut reader, |_| true).unwrap();
        let kinds = KindCounts { load: 2, store: 1, fetch: 0, write_back: 1 };
        assert_eq!((info.records, info.records_by_kind), (4, kinds));
        assert_eq!((info.pages_touched, info.page_ids_end, info.regions_touched), (3, 70_001, 2));
        assert_eq!(info.footprint_bytes, 3 * 4096);
        assert_eq!((info.processes, info.threads, info.events), (1, 2, 3));
        assert_eq!((info.epochs, info.store_samples), (1, 3));
        assert_eq!((info.clock_first, info.clock_last), (10, 45));
        assert!(info.finished && info.warning.is_none());
        assert_eq!(info.file_bytes, Some(bytes.len() as u64));
        assert_eq!(info.events_by_kind["store_samples"], 1);
    }

    #[test]
    fn traces_without_an_end_do_not_verify() {
        let bytes = bytes();
        let mut found = 0;
        for cut in 0..bytes.len() {
            if let Ok(mut reader) = MemTrace::from_bytes(&bytes[..cut], "t").reader() {
                assert!(verify(&mut reader, |_| true).is_err(), "cut at {cut}");
                found += 1;
            }
        }
        assert!(found > 200);
    }

    #[test]
    fn reading_stops_when_asked() {
        let trace = MemTrace::from_bytes(bytes(), "t");
        let mut reader = trace.reader().unwrap();
        let mut calls = 0;
        let info = TraceInfo::collect(&mut reader, None, |records| {
            assert!(records <= 4);
            calls += 1;
            false
        })
        .unwrap();
        assert_eq!((calls, info.records), (1, 4));
        assert_eq!(info.bytes_per_record, None);
    }

    #[test]
    fn page_sets_know_their_end() {
        let mut set = PageSet::default();
        assert_eq!((set.end(), set.count()), (0, (0, 0)));
        for (page, end) in [(0, 1), (63, 64), (64, 65), (u32::MAX, 1 << 32), (7, 1 << 32)] {
            set.insert(page);
            assert_eq!(set.end(), end);
        }
        assert_eq!(set.count(), (5, 2));
    }
}
