//! Reader of the native format.

use super::block::{EVENT_TAG, Found, take_event};
use super::input::{Input, Source};
use super::layout::{
    END_FRAME_LEN, End, FRAME_HEADER_LEN, FrameHeader, FrameKind, MAGIC, PREAMBLE_LEN, Totals,
    VERSION,
};
use super::wire::{Cursor, u32_at, u64_at};
use crate::batch::{Batch, TraceSource, Want};
use crate::dense::{Numbering, Sheet, Survey, records_hold};
use crate::error::TraceError;
use crate::header::TraceHeader;
use frostline_core::Limit;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Accesses that a record can stand for: so many that those of a block fit 32 bits.
const MOST_THINNING: u32 = 1 << 20;
/// A batch without accesses is handed out at this many events.
const EVENTS_PER_BATCH: usize = 4096;
const FILE_BUFFER_BYTES: usize = 256 << 10;

/// How a trace came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With its totals, which agree with what was read.
    Finished,
    /// Between two frames, without totals: whoever wrote it was stopped. Nothing that was written
    /// is lost.
    Unfinished,
    /// In damage, in prefix mode: everything behind it is lost.
    Lost {
        /// Where the damage begins, in bytes from the start.
        offset: u64,
        /// Bytes from there to the end, where the input's length is known.
        bytes: Option<u64>,
        /// What is wrong there.
        what: String,
    },
}

/// Reads a native trace from a file or from memory.
///
/// Every frame's checksum is verified before anything of it is given out. At damage the batches
/// in front of it have been given out already, then an error says what is wrong and where; in
/// [prefix mode](Self::prefix) the trace ends there, and [`Self::ending`] tells.
pub struct TraceReader {
    path: PathBuf,
    header: TraceHeader,
    input: Input,
    input_len: Option<u64>,
    want: Want,
    prefix: bool,
    /// From the end frame, read ahead where the input can seek.
    end: Option<End>,
    /// Offset of the first frame behind the header's.
    data_offset: u64,
    frame: Frame,
    next: Next,
    passed: Passed,
    held_back: Option<TraceError>,
    ending: Option<Ending>,
    done: bool,
    /// Where numbers are to be dense.
    dense: Option<Box<Numbering>>,
}

/// What is to come next.
#[derive(Clone, Copy, Debug, Default)]
struct Next {
    /// Offset and number of the frame.
    offset: u64,
    number: u32,
    record: u64,
    /// Clock of the last access before.
    clock: u64,
}

/// What was passed, for comparison with the index and the totals.
#[derive(Debug, Default)]
struct Passed {
    /// Counted from the start.
    totals: Totals,
    /// Offset and records of the data frames.
    frames: Vec<(u64, u32)>,
    /// The index was passed, too.
    index: bool,
    /// Something was left out by seeking: nothing can be compared.
    sought: bool,
}

/// What came into a batch.
enum Filled {
    /// A block, and maybe events in front of it.
    Block,
    /// Events alone.
    Events,
    /// The trace has ended.
    Nothing,
}

/// The data frame being read: the input's current piece.
#[derive(Clone, Copy, Debug, Default)]
struct Frame {
    /// Offset of the payload in the file.
    offset: u64,
    /// Next byte of the payload to be read.
    pos: usize,
    /// Payload length; `pos == len` asks for the next frame.
    len: usize,
    /// Records that the header promised and that have not come yet.
    records_left: u32,
}

impl std::fmt::Debug for TraceReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraceReader")
            .field("path", &self.path)
            .field("record", &self.next.record)
            .field("ending", &self.ending)
            .finish_non_exhaustive()
    }
}

impl TraceReader {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// Where it cannot be read, is no native trace or of a newer version, or its header is damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TraceError> {
        let path = path.as_ref();
        let file = File::open(path).and_then(|file| match file.metadata()?.is_dir() {
            true => Err(io::ErrorKind::IsADirectory.into()),
            false => Ok(file),
        });
        match file {
            Ok(file) => Self::new(BufReader::with_capacity(FILE_BUFFER_BYTES, file), path),
            Err(source) => Err(TraceError::Io { path: path.to_owned(), doing: "open", source }),
        }
    }

    /// Reads from anything; errors call it `path`. What cannot seek can still be read from start
    /// to end.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn new(
        source: impl Read + Seek + Send + 'static,
        path: impl Into<PathBuf>,
    ) -> Result<Self, TraceError> {
        let source: Box<dyn Source> = Box::new(source);
        Self::start(Input::file(source), path.into())
    }

    pub(super) fn from_memory(bytes: Arc<[u8]>, path: PathBuf) -> Result<Self, TraceError> {
        Self::start(Input::memory(bytes), path)
    }

    fn start(mut input: Input, path: PathBuf) -> Result<Self, TraceError> {
        let input_len = input.len(0);
        let mut reader = Self {
            path,
            header: TraceHeader::named(""),
            input,
            input_len,
            want: Want::default(),
            prefix: false,
            end: None,
            data_offset: 0,
            frame: Frame::default(),
            next: Next::default(),
            passed: Passed::default(),
            held_back: None,
            ending: None,
            done: false,
            dense: None,
        };
        reader.read_preamble()?;
        let Some(first) = reader.next_frame()? else {
            return Err(reader.short("the header"));
        };
        if first.kind != FrameKind::Header {
            return Err(reader.damaged(PREAMBLE_LEN as u64, "the header is missing"));
        }
        reader.header = serde_json::from_slice(reader.input.piece()).map_err(|error| {
            reader.damaged(reader.frame.offset, format!("the header cannot be understood: {error}"))
        })?;
        if reader.header.thinning > MOST_THINNING {
            let what = format!("a record stands for {} accesses", reader.header.thinning);
            return Err(reader.damaged(reader.frame.offset, what));
        }
        reader.data_offset = reader.next.offset;
        reader.frame = Frame::default();
        reader.read_end_ahead()?;
        if let Some(totals) = reader.totals() {
            reader.header.expected_records.get_or_insert(totals.records);
            if let Ok(pages) = u32::try_from(totals.pages) {
                reader.header.expected_pages.get_or_insert(pages);
            }
        }
        Ok(reader)
    }

    /// Whether to end at damage as if the trace ended there, instead of with an error. Either way
    /// everything in front of the damage is given out. [`Self::ending`] and
    /// [`TraceSource::warning`] tell what was lost.
    #[must_use]
    pub fn prefix(mut self, prefix: bool) -> Self {
        self.prefix = prefix;
        self
    }

    /// Gives out dense numbers of pages, processes, threads and files, so that tables by number stay in
    /// proportion to the trace: see `docs/reference/limits.md`. A trace whose page ids are not dense is read once for
    /// that.
    ///
    /// # Errors
    /// Where the input cannot be read.
    pub fn dense(mut self, limit: Limit) -> Result<Self, TraceError> {
        let sheet = Arc::new(self.survey(limit)?);
        Ok(self.with_sheet(sheet))
    }

    /// As [`Self::dense`], with the page ids of another reader of the same trace.
    #[must_use]
    pub fn with_sheet(mut self, sheet: Arc<Sheet>) -> Self {
        let end = sheet.end();
        self.header.expected_pages = match sheet.plain() {
            0 => Some(end),
            _ => self.header.expected_pages.map(|pages| pages.min(end)),
        };
        self.dense = Some(Box::new(Numbering::new(sheet)));
        self
    }

    /// The page ids that [`Self::dense`] gives out.
    pub fn sheet(&self) -> Option<Arc<Sheet>> {
        self.dense.as_ref().map(|dense| Arc::clone(dense.sheet()))
    }

    fn survey(&mut self, limit: Limit) -> Result<Sheet, TraceError> {
        let held = records_hold(self.totals().map(|totals| totals.records), self.input_len);
        let allowed = limit.pages(held);
        if self.totals().is_some_and(|totals| totals.pages <= allowed) || self.input_len.is_none() {
            return Ok(Sheet::as_is(allowed));
        }
        let (mut survey, mut batch) = (Survey::default(), Batch::new());
        // Damage is met again, and told, when reading comes to it.
        while let Ok(true) = self.next_batch(&mut batch) {
            survey.add(&batch);
        }
        self.rewind()?;
        Ok(survey.sheet(limit, held))
    }

    /// Begins anew.
    fn rewind(&mut self) -> Result<(), TraceError> {
        self.go_to(self.data_offset)?;
        self.frame = Frame::default();
        self.next = Next { offset: self.data_offset, number: 1, ..Next::default() };
        self.passed = Passed::default();
        self.held_back = None;
        self.ending = None;
        self.done = false;
        Ok(())
    }

    /// The totals of a finished trace, known from the start where the input can seek.
    pub fn totals(&self) -> Option<Totals> {
        self.end.map(|end| end.totals)
    }

    /// How the trace ended, once it has.
    pub fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    /// Number of the next batch's first record, from 0.
    pub fn record(&self) -> u64 {
        self.next.record
    }

    /// Bytes read of how many; the latter unknown for pipes.
    pub fn progress_bytes(&self) -> (u64, Option<u64>) {
        (self.next.offset, self.input_len)
    }

    /// Continues with the block that holds record `record`, or at the end where there are fewer.
    /// Gives the number of the block's first record. Events between the start and that block are
    /// not given out.
    ///
    /// Without an index (unfinished traces) the frames' headers are walked through.
    ///
    /// # Errors
    /// Where the input cannot seek, or the index or frames on the way are damaged.
    pub fn seek_record(&mut self, record: u64) -> Result<u64, TraceError> {
        let sought = self.seek_block(record);
        self.done = sought.is_err();
        sought
    }

    fn seek_block(&mut self, record: u64) -> Result<u64, TraceError> {
        self.ending = None;
        self.held_back = None;
        self.passed.sought = true;
        let index = self.load_index()?;
        self.frame = Frame::default();
        let place = index.partition_point(|frame| frame.first_record <= record);
        let start = index.get(place.saturating_sub(1));
        let (offset, number) = start.map_or((self.data_offset, 1), |f| (f.offset, f.number));
        self.go_to(offset)?;
        self.next.number = number;
        self.next.record = start.map_or(0, |frame| frame.first_record);
        self.skip_to(record)?;
        Ok(self.next.record)
    }

    /// Passes whole blocks and events in front of record `record` of the frames that follow.
    fn skip_to(&mut self, record: u64) -> Result<(), TraceError> {
        while self.enter_frame()? {
            let bytes = self.input.piece();
            let mut cursor = Cursor::new(bytes, self.frame.pos);
            let item = cursor.byte().and_then(|tag| match tag {
                EVENT_TAG => take_event(&mut cursor, self.next.clock).map(|_| None),
                tag => Found::find(&mut cursor, tag, self.next.clock).map(Some),
            });
            let found = match item {
                Ok(found) => found.map(|found| (found.len as u64, found.clock_end)),
                Err(what) => return Err(self.damaged(self.place(cursor.pos()), what)),
            };
            let pos = cursor.pos();
            if let Some((len, clock_end)) = found {
                if self.next.record + len > record {
                    return Ok(());
                }
                self.pass_block(len)?;
                self.next.clock = clock_end;
            }
            self.frame.pos = pos;
        }
        Ok(())
    }

    fn read_preamble(&mut self) -> Result<(), TraceError> {
        let got = self.advance(PREAMBLE_LEN)?;
        let bytes = self.input.piece();
        let version = bytes.get(8..12).map(|b| u32_at(b, 0));
        let checksum = bytes.get(12..16).map(|b| u32_at(b, 0));
        if got == 0 || !bytes.starts_with(&MAGIC[..got.min(8)]) {
            let what = foreign(bytes).to_owned();
            return Err(TraceError::Foreign { path: self.path.clone(), what });
        }
        let (Some(found), Some(checksum)) = (version, checksum) else {
            return Err(self.short("the first 16 bytes"));
        };
        if crc32fast::hash(&bytes[..12]) != checksum {
            return Err(self.damaged(0, "the checksum of the first 16 bytes does not match"));
        }
        self.next.offset = PREAMBLE_LEN as u64;
        match found {
            VERSION => Ok(()),
            0 => Err(self.damaged(8, "format version 0 does not exist")),
            found => {
                let path = self.path.clone();
                Err(TraceError::Version { path, found, supported: VERSION })
            }
        }
    }

    /// Looks for an end frame in the last bytes; whether it is right will be seen when the
    /// sequential read comes to it.
    fn read_end_ahead(&mut self) -> Result<(), TraceError> {
        let Some(at) = self.input_len.and_then(|len| len.checked_sub(END_FRAME_LEN as u64)) else {
            return Ok(());
        };
        if at < self.data_offset {
            return Ok(());
        }
        self.seek(at)?;
        if self.advance(END_FRAME_LEN)? == END_FRAME_LEN {
            let (header, payload) = self.input.piece().split_at(FRAME_HEADER_LEN);
            self.end = FrameHeader::decode(header)
                .ok()
                .filter(|header| header.kind == FrameKind::End)
                .filter(|header| header.payload_crc == crc32fast::hash(payload))
                .and_then(|_| End::decode(payload).ok());
        }
        self.seek(self.next.offset)
    }

    /// Reads the next frame's header and payload, which becomes the input's piece; `None` where
    /// the input ends cleanly in front of it.
    fn next_frame(&mut self) -> Result<Option<FrameHeader>, TraceError> {
        let start = self.next.offset;
        let Some(header) = self.next_frame_header()? else { return Ok(None) };
        let len = header.payload_len as usize;
        if self.advance(len)? < len {
            return Err(self.short_at(start, "the rest of a frame"));
        }
        if crc32fast::hash(self.input.piece()) != header.payload_crc {
            return Err(self.damaged(start, "the checksum of the frame does not match"));
        }
        self.next.offset = start + (FRAME_HEADER_LEN + len) as u64;
        self.frame =
            Frame { offset: start + FRAME_HEADER_LEN as u64, pos: 0, len, records_left: 0 };
        Ok(Some(header))
    }

    fn next_frame_header(&mut self) -> Result<Option<FrameHeader>, TraceError> {
        let start = self.next.offset;
        match self.advance(FRAME_HEADER_LEN)? {
            0 => return Ok(None),
            FRAME_HEADER_LEN => {}
            _ => return Err(self.short_at(start, "the rest of a frame's header")),
        }
        let header =
            FrameHeader::decode(self.input.piece()).map_err(|what| self.damaged(start, what))?;
        if header.number != self.next.number {
            let (found, expected) = (header.number, self.next.number);
            let what = format!("frame {found} where frame {expected} was to come");
            return Err(self.damaged(start, what));
        }
        if header.first_record != self.next.record {
            let (found, expected) = (header.first_record, self.next.record);
            let what = format!("a frame that begins at record {found} instead of {expected}");
            return Err(self.damaged(start, what));
        }
        self.next.number = self.next.number.wrapping_add(1);
        Ok(Some(header))
    }

    /// Makes sure that unread bytes of a data frame are at hand; false at the trace's end.
    fn enter_frame(&mut self) -> Result<bool, TraceError> {
        while self.frame.pos == self.frame.len {
            if self.frame.records_left > 0 {
                let what = "a frame that holds fewer records than its header says";
                return Err(self.damaged(self.frame.offset, what));
            }
            let start = self.next.offset;
            let Some(header) = self.next_frame()? else {
                self.ending.get_or_insert(Ending::Unfinished);
                return Ok(false);
            };
            match header.kind {
                FrameKind::Header => return Err(self.damaged(start, "a second header")),
                FrameKind::Data if self.passed.index => {
                    return Err(self.damaged(start, "data behind the index"));
                }
                FrameKind::Data => self.enter_data(start, &header)?,
                FrameKind::Index => self.check_index()?,
                FrameKind::End => {
                    self.check_end()?;
                    self.ending = Some(Ending::Finished);
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn enter_data(&mut self, start: u64, header: &FrameHeader) -> Result<(), TraceError> {
        let payload = self.input.piece();
        if payload.len() < 8 {
            return Err(self.damaged(start, "a data frame without its clock"));
        }
        let clock = u64_at(payload, 0);
        if !self.passed.sought && clock != self.next.clock {
            return Err(self.damaged(start, "a frame whose clock does not continue the one before"));
        }
        self.next.clock = clock;
        self.frame.pos = 8;
        self.frame.records_left = header.records;
        if !self.passed.sought {
            self.passed.frames.push((start, header.records));
        }
        Ok(())
    }

    /// The index frame must agree with the frames passed.
    fn check_index(&mut self) -> Result<(), TraceError> {
        let at = self.frame.offset;
        let index = self.decode_index()?;
        let same =
            index.iter().map(|f| (f.offset, f.records)).eq(self.passed.frames.iter().copied());
        if !self.passed.sought && !same {
            return Err(self.damaged(at, "the index does not agree with the frames"));
        }
        self.passed.index = true;
        self.frame.pos = self.frame.len;
        Ok(())
    }

    fn check_end(&mut self) -> Result<(), TraceError> {
        let at = self.frame.offset;
        let end = End::decode(self.input.piece()).map_err(|what| self.damaged(at, what))?;
        let seen = Totals { clock_end: self.next.clock, ..self.passed.totals };
        // Kinds and page ids are not counted here, it would cost more than decoding.
        let told = Totals { by_kind: seen.by_kind, pages: seen.pages, ..end.totals };
        if !self.passed.sought && seen != told {
            let what = format!(
                "the totals ({} records, {} events) differ from what came before ({}, {})",
                told.records, told.events, seen.records, seen.events
            );
            return Err(self.damaged(at, what));
        }
        self.end = Some(end);
        self.frame.pos = self.frame.len;
        if self.advance(1)? > 0 {
            return Err(self.damaged(self.next.offset, "bytes behind the end"));
        }
        Ok(())
    }

    fn decode_index(&self) -> Result<Vec<IndexEntry>, TraceError> {
        decode_index(self.input.piece()).map_err(|what| self.damaged(self.frame.offset, what))
    }

    /// The index from the file, or else made from the frames' headers.
    fn load_index(&mut self) -> Result<Vec<IndexEntry>, TraceError> {
        let Some(End { index_offset, totals }) = self.end else { return self.walk_frames() };
        self.go_to(index_offset)?;
        if self.advance(FRAME_HEADER_LEN)? < FRAME_HEADER_LEN {
            return Err(self.short_at(index_offset, "the index"));
        }
        let header = FrameHeader::decode(self.input.piece())
            .map_err(|what| self.damaged(index_offset, what))?;
        self.next.number = header.number;
        self.next.record = totals.records;
        self.seek(index_offset)?;
        match self.next_frame()? {
            Some(header) if header.kind == FrameKind::Index => self.decode_index(),
            _ => Err(self.damaged(index_offset, "the index is missing")),
        }
    }

    fn walk_frames(&mut self) -> Result<Vec<IndexEntry>, TraceError> {
        self.go_to(self.data_offset)?;
        self.next.number = 1;
        self.next.record = 0;
        let mut index = Vec::new();
        loop {
            let offset = self.next.offset;
            let header = match self.next_frame_header() {
                Ok(Some(header)) if header.kind == FrameKind::Data => header,
                // The damage will be met, and reported, when reading comes to it.
                Ok(_) | Err(TraceError::Damaged { .. } | TraceError::Truncated { .. }) => break,
                Err(error) => return Err(error),
            };
            index.push(IndexEntry {
                offset,
                number: header.number,
                first_record: self.next.record,
                records: header.records,
            });
            self.next.record += u64::from(header.records);
            self.go_to(offset + FRAME_HEADER_LEN as u64 + u64::from(header.payload_len))?;
        }
        Ok(index)
    }

    /// Counts a block against its frame.
    #[inline]
    fn pass_block(&mut self, len: u64) -> Result<(), TraceError> {
        match u64::from(self.frame.records_left).checked_sub(len) {
            Some(left) => self.frame.records_left = left as u32,
            None => {
                let what = "a frame that holds more records than its header says";
                return Err(self.damaged(self.place(self.frame.pos), what));
            }
        }
        self.next.record += len;
        self.passed.totals.records += len;
        Ok(())
    }

    /// Replaces the batch's accesses, if it fills in a block: clearing them first would cost as
    /// much as unpacking.
    fn fill(&mut self, batch: &mut Batch) -> Result<Filled, TraceError> {
        while self.enter_frame()? {
            let mut cursor = Cursor::new(self.input.piece(), self.frame.pos);
            let tag = match cursor.byte() {
                Ok(tag) => tag,
                Err(what) => return Err(self.damaged(self.place(cursor.pos()), what)),
            };
            if tag == EVENT_TAG {
                let event = take_event(&mut cursor, self.next.clock);
                let pos = cursor.pos();
                let event = event.map_err(|what| self.damaged(self.place(pos), what))?;
                batch.events.extend(match &mut self.dense {
                    None => Some(event),
                    Some(dense) => dense.event(event),
                });
                self.frame.pos = pos;
                self.passed.totals.events += 1;
                if batch.events.len() == EVENTS_PER_BATCH {
                    return Ok(Filled::Events);
                }
                continue;
            }
            let unpacked = Found::find(&mut cursor, tag, self.next.clock).and_then(|found| {
                found.unpack(batch, self.want)?;
                Ok((found.len, found.reach()))
            });
            let pos = cursor.pos();
            let (len, reach) = unpacked.map_err(|what| self.damaged(self.place(pos), what))?;
            if let Some(dense) = &mut self.dense
                && dense.concerns(reach)
            {
                dense
                    .renumber(batch)
                    .map_err(|source| TraceError::Limit { path: self.path.clone(), source })?;
            }
            self.pass_block(len as u64)?;
            self.frame.pos = pos;
            self.next.clock = batch.clock_end;
            return Ok(Filled::Block);
        }
        Ok(if batch.events.is_empty() { Filled::Nothing } else { Filled::Events })
    }

    /// Ends the trace at an error: as a loss in prefix mode, else by handing the error on.
    fn stop_at(&mut self, error: TraceError) -> Result<bool, TraceError> {
        self.done = true;
        match error {
            TraceError::Damaged { offset, what, .. }
            | TraceError::Truncated { offset, what, .. }
                if self.prefix =>
            {
                let bytes = self.input_len.map(|len| len.saturating_sub(offset));
                self.ending = Some(Ending::Lost { offset, bytes, what });
                Ok(false)
            }
            error => Err(error),
        }
    }

    fn advance(&mut self, len: usize) -> Result<usize, TraceError> {
        self.input.advance(len).map_err(|source| TraceError::Io {
            path: self.path.clone(),
            doing: "read",
            source,
        })
    }

    fn seek(&mut self, offset: u64) -> Result<(), TraceError> {
        self.input.seek(offset).map_err(|source| TraceError::Io {
            path: self.path.clone(),
            doing: "seek",
            source,
        })
    }

    /// The next frame to be read is the one at `offset`.
    fn go_to(&mut self, offset: u64) -> Result<(), TraceError> {
        self.seek(offset)?;
        self.next.offset = offset;
        self.passed.index = false;
        Ok(())
    }

    /// File offset of a place in the current payload.
    fn place(&self, pos: usize) -> u64 {
        self.frame.offset + pos as u64
    }

    fn damaged(&self, offset: u64, what: impl Into<String>) -> TraceError {
        TraceError::Damaged { path: self.path.clone(), offset, what: what.into() }
    }

    /// The error for a trace that just stops.
    pub(crate) fn no_end(&self) -> TraceError {
        self.short_at(
            self.next.offset,
            "the end with the totals (whoever wrote the trace was stopped)",
        )
    }

    /// The error for totals that a complete count contradicts.
    pub(crate) fn wrong_totals(&self, seen: &Totals) -> TraceError {
        let what = format!(
            "the totals do not agree with the records: counted {:?} by kind and page ids below {}",
            seen.by_kind, seen.pages
        );
        self.damaged(self.frame.offset, what)
    }

    fn short(&self, what: &str) -> TraceError {
        self.short_at(self.next.offset, what)
    }

    /// The input ended; the frame that is cut off begins at `start`.
    fn short_at(&self, start: u64, missing: &str) -> TraceError {
        let what = format!("{missing} is missing");
        TraceError::Truncated { path: self.path.clone(), offset: start, what }
    }
}

impl TraceSource for TraceReader {
    fn header(&self) -> &TraceHeader {
        &self.header
    }

    fn want(&mut self, want: Want) {
        self.want = want;
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.events.clear();
        let filled = match self.held_back.take() {
            Some(error) => Err(error),
            None if self.done => Ok(Filled::Nothing),
            None => self.fill(batch),
        };
        if let Ok(Filled::Block) = filled {
            return Ok(true);
        }
        batch.clock_end = self.next.clock;
        batch.clear_accesses();
        match filled {
            Ok(Filled::Block | Filled::Events) => Ok(true),
            Ok(Filled::Nothing) => {
                self.done = true;
                Ok(false)
            }
            Err(error) if batch.events.is_empty() => self.stop_at(error),
            Err(error) => {
                // The events in front of the damage are good.
                self.held_back = Some(error);
                Ok(true)
            }
        }
    }

    fn warning(&self) -> Option<String> {
        let path = self.path.display();
        let note = self.dense.as_ref().and_then(|dense| dense.sheet().note());
        match self.ending.as_ref()? {
            Ending::Finished => note.map(|note| format!("{path}: {note}")),
            Ending::Unfinished => Some(format!(
                "{path}: has no end: whoever wrote it was stopped; read up to record {}",
                self.next.record
            )),
            Ending::Lost { offset, bytes, what } => {
                let bytes = bytes.map_or(String::new(), |bytes| format!(" ({bytes} bytes)"));
                Some(format!(
                    "{path}: everything from byte {offset} on{bytes} is lost: {what}; read up to record {}",
                    self.next.record
                ))
            }
        }
    }
}

/// A data frame, as the index knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct IndexEntry {
    offset: u64,
    number: u32,
    first_record: u64,
    records: u32,
}

fn decode_index(payload: &[u8]) -> Result<Vec<IndexEntry>, &'static str> {
    let mut cursor = Cursor::new(payload, 0);
    let count = cursor.count(2)?;
    let (mut offset, mut first_record, mut index) = (0u64, 0u64, Vec::new());
    for number in 1..=count {
        offset = offset.checked_add(cursor.varint()?).ok_or("an index entry out of range")?;
        let records = cursor.varint_u32()?;
        let number = u32::try_from(number).map_err(|_| "an index of more than 2^32 frames")?;
        index.push(IndexEntry { offset, number, first_record, records });
        first_record += u64::from(records);
    }
    if cursor.remaining() > 0 { Err("an index with bytes left over") } else { Ok(index) }
}

/// Says what a file that is no native trace looks like, and what to do about it.
fn foreign(start: &[u8]) -> &'static str {
    let text = start.iter().all(|b| matches!(b, b'\t' | b'\n' | b'\r' | b' '..=b'~'));
    match start {
        [] => "the file is empty",
        [b'P', b'A', b'R', b'1', ..] => {
            "it is a Parquet file\nhint: `frostline trace import FILE TRACE` converts it"
        }
        [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] | [0xfd, b'7', b'z', b'X', ..] => {
            "it is compressed\nhint: decompress it first"
        }
        _ if text => {
            "it looks like text\nhint: `frostline trace import FILE TRACE` converts lines of `time vaddr r|w [tid]`"
        }
        _ => {
            "its first bytes are not those of a trace\nhint: traces are made by `frostline record` and `frostline trace synth`"
        }
    }
}
