//! Writer of the native format.

use super::block::{BlockBuilder, Record, put_event};
use super::layout::{End, FRAME_HEADER_LEN, FrameHeader, FrameKind, MAX_PAYLOAD, Totals, preamble};
use super::wire::put_varint;
use crate::batch::{BLOCK_RECORDS, Batch, TraceSource, Want};
use crate::error::TraceError;
use crate::event::{StreamId, TimedEvent, TraceEvent};
use crate::header::TraceHeader;
use frostline_core::types::{AccessKind, PageId};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A frame is closed at this many records: 64 full blocks.
const FRAME_RECORDS: u32 = 64 * BLOCK_RECORDS as u32;
/// A frame is closed at this many bytes, so that large events do not pile up.
const FRAME_BYTES: usize = 256 << 10;

/// Writes a trace to a file, a pipe or memory; never seeks.
///
/// Frames reach the output one at a time. Dropped without [`Self::finish`], it writes what it
/// holds and leaves a readable trace without index and totals, which readers report as unfinished.
#[derive(Debug)]
pub struct TraceWriter<W: Write = File> {
    out: W,
    path: PathBuf,
    /// Bytes handed to `out`.
    offset: u64,
    frames: u32,
    block: Box<BlockBuilder>,
    /// Header space, then the payload of the data frame that is being filled.
    frame: Vec<u8>,
    frame_records: u32,
    scratch: Vec<u8>,
    /// Clock of the last access.
    clock: u64,
    totals: Totals,
    /// Offset and records of each data frame.
    index: Vec<(u64, u32)>,
    /// Finished, or stopped by an error: nothing is to be written any more.
    closed: bool,
}

impl TraceWriter<File> {
    /// Creates the file, or empties it where it exists, and writes the header.
    ///
    /// # Errors
    /// Where the file cannot be created or written.
    pub fn create(path: impl AsRef<Path>, header: &TraceHeader) -> Result<Self, TraceError> {
        let path = path.as_ref();
        let file = File::create(path).map_err(|source| TraceError::Io {
            path: path.to_owned(),
            doing: "create",
            source,
        })?;
        Self::new(file, path, header)
    }
}

impl<W: Write> TraceWriter<W> {
    /// Writes to `out`; `path` is what errors call it. No buffer is needed in between.
    ///
    /// # Errors
    /// Where the header cannot be written.
    pub fn new(out: W, path: impl Into<PathBuf>, header: &TraceHeader) -> Result<Self, TraceError> {
        let mut writer = Self {
            out,
            path: path.into(),
            offset: 0,
            frames: 0,
            block: Box::new(BlockBuilder::new()),
            frame: Vec::new(),
            frame_records: 0,
            scratch: Vec::new(),
            clock: 0,
            totals: Totals::default(),
            index: Vec::new(),
            closed: false,
        };
        let json = serde_json::to_vec(header).map_err(|error| writer.io("encode", error.into()))?;
        writer.emit(&preamble())?;
        writer.write_frame(FrameKind::Header, &json)?;
        writer.begin_frame();
        Ok(writer)
    }

    /// Appends one access.
    ///
    /// `clock` is absolute, in the header's unit; one below its predecessor's counts as equal to
    /// it. `line` is the line inside the page, `0..64` (higher bits are ignored); 0 where unknown.
    ///
    /// # Errors
    /// Where a frame is full and cannot be written. The writer then accepts nothing more.
    #[inline]
    pub fn access(
        &mut self,
        clock: u64,
        page: PageId,
        kind: AccessKind,
        stream: StreamId,
        line: u8,
    ) -> Result<(), TraceError> {
        self.push(clock, page.0, kind, stream.0, line.into())
    }

    /// Appends one event; it lies behind all accesses so far.
    ///
    /// # Errors
    /// Where a frame cannot be written or the event has more than 1 GiB.
    pub fn event(&mut self, clock: u64, event: TraceEvent) -> Result<(), TraceError> {
        self.events(&[TimedEvent { clock, event }])
    }

    /// Appends several events.
    ///
    /// # Errors
    /// As [`Self::event`].
    pub fn events(&mut self, events: &[TimedEvent]) -> Result<(), TraceError> {
        self.check_open()?;
        for event in events {
            self.close_block()?;
            let before = self.frame.len();
            put_event(&mut self.frame, &mut self.scratch, self.clock, event);
            if self.frame.len() - FRAME_HEADER_LEN > MAX_PAYLOAD as usize {
                self.frame.truncate(before);
                let large = io::Error::new(io::ErrorKind::InvalidInput, "an event exceeds 1 GiB");
                return Err(self.io("write", large));
            }
            self.totals.events += 1;
            self.close_full_frame()?;
        }
        Ok(())
    }

    /// Appends a batch: its events, then its accesses. Columns that its source was told not to
    /// decode are written as 0, see [`Self::copy`].
    ///
    /// # Errors
    /// As [`Self::access`] and [`Self::event`].
    pub fn append(&mut self, batch: &Batch) -> Result<(), TraceError> {
        self.events(&batch.events)?;
        let mut clock = batch.clock_start;
        for (i, page) in batch.pages.iter().enumerate() {
            clock = clock.saturating_add(batch.clock_deltas.get(i).into());
            let (stream, line) = (batch.streams.get(i), batch.lines.get(i));
            self.push(clock, *page, batch.kind(i), stream, line)?;
        }
        Ok(())
    }

    /// Appends all that `source` holds, with all columns. Gives the number of accesses.
    ///
    /// # Errors
    /// Those of the source and of writing.
    pub fn copy(&mut self, source: &mut dyn TraceSource) -> Result<u64, TraceError> {
        source.want(Want { clock_deltas: true, lines: true });
        let before = self.totals.records;
        let mut batch = Batch::new();
        while source.next_batch(&mut batch)? {
            self.append(&batch)?;
        }
        Ok(self.totals.records - before)
    }

    /// Writes everything held so far, so that it is readable whatever happens next. Costs some
    /// bytes where frames are not full: for once in a while, not for every access.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn flush(&mut self) -> Result<(), TraceError> {
        self.check_open()?;
        self.close_block()?;
        self.close_frame()?;
        self.out.flush().map_err(|error| self.failed(error))
    }

    /// Writes the rest, the index and the totals. Gives the totals.
    ///
    /// # Errors
    /// Where they cannot be written; what was written before stays readable.
    pub fn finish(mut self) -> Result<Totals, TraceError> {
        self.finish_inner()
    }

    /// Bytes of the trace so far, without the index; what is held back counts.
    pub fn bytes_written(&self) -> u64 {
        let held = self.frame.len() + 4 * self.block.len();
        self.offset + if self.closed { 0 } else { held as u64 }
    }

    /// Accesses so far.
    pub fn records(&self) -> u64 {
        self.totals.records
    }

    /// Totals so far.
    pub fn totals(&self) -> Totals {
        Totals { clock_end: self.clock, ..self.totals }
    }

    #[inline]
    fn push(
        &mut self,
        clock: u64,
        page: u32,
        kind: AccessKind,
        stream: u32,
        line: u32,
    ) -> Result<(), TraceError> {
        self.check_open()?;
        let mut elapsed = clock.saturating_sub(self.clock);
        if elapsed > u64::from(u32::MAX) {
            self.close_block()?;
            self.block.jump(std::mem::take(&mut elapsed));
        }
        self.clock = self.clock.max(clock);
        self.totals.records += 1;
        self.totals.by_kind[kind as usize] += 1;
        self.totals.pages = self.totals.pages.max(u64::from(page) + 1);
        let (kind, line, clock_delta) = (kind as u32, line & 63, elapsed as u32);
        self.block.push(Record { page, kind, stream, line, clock_delta });
        if self.block.len() == BLOCK_RECORDS { self.close_block() } else { Ok(()) }
    }

    fn close_block(&mut self) -> Result<(), TraceError> {
        self.frame_records += self.block.len() as u32;
        self.block.encode(&mut self.frame);
        self.close_full_frame()
    }

    fn close_full_frame(&mut self) -> Result<(), TraceError> {
        let full = self.frame_records >= FRAME_RECORDS || self.frame.len() >= FRAME_BYTES;
        if full { self.close_frame() } else { Ok(()) }
    }

    /// A new data frame: space for the header, and the clock so far.
    fn begin_frame(&mut self) {
        self.frame.clear();
        self.frame.resize(FRAME_HEADER_LEN, 0);
        self.frame.extend_from_slice(&self.clock.to_le_bytes());
    }

    /// Writes the data frame if it holds anything. The block in progress must have been closed.
    fn close_frame(&mut self) -> Result<(), TraceError> {
        if self.frame.len() <= FRAME_HEADER_LEN + 8 {
            return Ok(());
        }
        let records = std::mem::take(&mut self.frame_records);
        let first_record = self.totals.records - u64::from(records);
        self.index.push((self.offset, records));
        let mut frame = std::mem::take(&mut self.frame);
        let (header, payload) = frame.split_at_mut(FRAME_HEADER_LEN);
        header.copy_from_slice(&self.header_for(FrameKind::Data, records, first_record, payload));
        let written = self.emit(&frame);
        self.frame = frame;
        self.begin_frame();
        written
    }

    fn header_for(
        &mut self,
        kind: FrameKind,
        records: u32,
        first_record: u64,
        payload: &[u8],
    ) -> [u8; FRAME_HEADER_LEN] {
        let number = self.frames;
        self.frames += 1;
        let payload_crc = crc32fast::hash(payload);
        let payload_len = payload.len() as u32;
        FrameHeader { kind, payload_len, number, records, first_record, payload_crc }.encode()
    }

    fn write_frame(&mut self, kind: FrameKind, payload: &[u8]) -> Result<(), TraceError> {
        if payload.len() > MAX_PAYLOAD as usize {
            let large = io::Error::new(io::ErrorKind::InvalidInput, "a frame exceeds 1 GiB");
            return Err(self.io("write", large));
        }
        let header = self.header_for(kind, 0, self.totals.records, payload);
        self.emit(&header)?;
        self.emit(payload)
    }

    fn finish_inner(&mut self) -> Result<Totals, TraceError> {
        self.check_open()?;
        self.close_block()?;
        self.close_frame()?;
        let index_offset = self.offset;
        let mut index = Vec::new();
        put_varint(&mut index, self.index.len() as u64);
        let mut previous = 0;
        for (offset, records) in &self.index {
            put_varint(&mut index, offset - previous);
            put_varint(&mut index, u64::from(*records));
            previous = *offset;
        }
        self.write_frame(FrameKind::Index, &index)?;
        let totals = self.totals();
        self.write_frame(FrameKind::End, &End { totals, index_offset }.encode())?;
        self.out.flush().map_err(|error| self.failed(error))?;
        self.closed = true;
        Ok(totals)
    }

    fn emit(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        match self.out.write_all(bytes) {
            Ok(()) => {
                self.offset += bytes.len() as u64;
                Ok(())
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    fn check_open(&self) -> Result<(), TraceError> {
        if self.closed {
            return Err(self.io("write", io::Error::other("writing had failed before")));
        }
        Ok(())
    }

    fn failed(&mut self, source: io::Error) -> TraceError {
        self.closed = true;
        self.io("write", source)
    }

    fn io(&self, doing: &'static str, source: io::Error) -> TraceError {
        TraceError::Io { path: self.path.clone(), doing, source }
    }
}

impl<W: Write> Drop for TraceWriter<W> {
    fn drop(&mut self) {
        if !self.closed {
            // Nobody is left to be told of an error; the reader will notice the end missing.
            let _ = self.flush();
        }
    }
}
