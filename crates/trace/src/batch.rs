//! Batches of a trace as it is read: structures of arrays.

use crate::event::TimedEvent;
use crate::header::TraceHeader;
use frostline_core::types::AccessKind;

/// Records per block of the native format, and the largest number in a [`Batch`].
pub const BLOCK_RECORDS: usize = 256;

/// One value per record, stored once where all are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    constant: u32,
    values: Vec<u32>,
}

impl Column {
    /// All records have this value.
    pub fn set_constant(&mut self, value: u32) {
        self.constant = value;
        self.values.clear();
    }
    /// A buffer to be filled with one value per record; empty at first.
    pub fn values_mut(&mut self) -> &mut Vec<u32> {
        self.values.clear();
        &mut self.values
    }
    /// The common value, where all records have the same by construction.
    pub fn constant(&self) -> Option<u32> {
        self.values.is_empty().then_some(self.constant)
    }
    /// One value per record; empty where all records have the same by construction.
    pub fn values(&self) -> &[u32] {
        &self.values
    }
    /// A buffer of `len` values to be overwritten, with whatever was in it.
    #[inline]
    pub(crate) fn buffer(&mut self, len: usize) -> &mut [u32] {
        self.values.resize(len, 0);
        &mut self.values
    }
    /// Every value is replaced by that of the function.
    pub(crate) fn renumber(&mut self, mut number: impl FnMut(u32) -> u32) {
        self.constant = if self.values.is_empty() { number(self.constant) } else { 0 };
        self.values.iter_mut().for_each(|value| *value = number(*value));
    }
    /// Value of record `i`; `i` must be below the batch's length.
    #[inline]
    pub fn get(&self, i: usize) -> u32 {
        if self.values.is_empty() { self.constant } else { self.values[i] }
    }
}

/// Events, then at most [`BLOCK_RECORDS`] accesses with no event between them.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Happened before this batch's first access and after the previous batch's last.
    pub events: Vec<TimedEvent>,
    /// Dense page id of each access.
    pub pages: Vec<u32>,
    /// [`AccessKind`] as its code.
    pub kinds: Column,
    /// [`crate::event::StreamId`] of each access.
    pub streams: Column,
    /// Clock units since the access before (of any thread), for the first one since `clock_start`.
    /// Constant 0 where the source was told not to decode it.
    pub clock_deltas: Column,
    /// Line inside the page, `0..64`; constant 0 where the trace does not hold it.
    pub lines: Column,
    /// Clock before the first access.
    pub clock_start: u64,
    /// Clock at the last access; not below `clock_start`.
    pub clock_end: u64,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }
    /// Number of accesses.
    pub fn len(&self) -> usize {
        self.pages.len()
    }
    /// Whether it holds no access; it may still hold events.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }
    /// Kind of access `i`.
    #[inline]
    pub fn kind(&self, i: usize) -> AccessKind {
        AccessKind::from_bits(self.kinds.get(i) as u8)
    }
    /// Forgets events and accesses and keeps the memory; the clock stays at `clock_end`.
    pub fn clear(&mut self) {
        self.events.clear();
        self.clear_accesses();
    }
    /// Forgets the accesses.
    pub(crate) fn clear_accesses(&mut self) {
        self.pages.clear();
        self.kinds.set_constant(0);
        self.streams.set_constant(0);
        self.clock_deltas.set_constant(0);
        self.lines.set_constant(0);
        self.clock_start = self.clock_end;
    }
}

/// Which optional columns a reader shall decode. Pages, kinds, streams and the batch's clock are
/// always there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Want {
    /// `clock_deltas`.
    pub clock_deltas: bool,
    /// `lines`.
    pub lines: bool,
}

/// A stream of batches.
pub trait TraceSource {
    /// Describes the trace.
    fn header(&self) -> &TraceHeader;

    /// Chooses the optional columns; the default is none. Sources that compute them anyway may
    /// ignore it.
    fn want(&mut self, want: Want) {
        let _ = want;
    }

    /// What a user should be told about how the trace ended, once it has: it was cut off when
    /// recorded, or damage was passed over on request.
    fn warning(&self) -> Option<String> {
        None
    }

    /// Replaces `batch` by the next one; false at the end, the batch then being empty.
    ///
    /// # Errors
    /// Where the trace is damaged, ends short or cannot be read. After an error the source is at
    /// its end.
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, crate::TraceError>;
}
