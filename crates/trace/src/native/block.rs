//! Blocks of accesses, and events, inside a data frame's payload.
//!
//! A block begins with a byte that tells which columns follow the pages; absent columns are 0
//! throughout. An event begins with [`EVENT_TAG`].

use super::column::{self, Packed};
use super::events::{decode_event, encode_event};
use super::wire::{Cursor, Wrong, put_varint, unzigzag, zigzag};
use crate::batch::{BLOCK_RECORDS, Batch, Column, Want};
use crate::event::TimedEvent;

pub(crate) const EVENT_TAG: u8 = 0x80;
const KINDS: u8 = 1;
const STREAMS: u8 = 2;
const CLOCK_DELTAS: u8 = 4;
const LINES: u8 = 8;

const KIND_BITS: u32 = 2;
const LINE_BITS: u32 = 6;

/// One access as it lies in a block. Kinds are below 4 and lines below 64.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) page: u32,
    pub(crate) kind: u32,
    pub(crate) stream: u32,
    pub(crate) line: u32,
    pub(crate) clock_delta: u32,
}

/// A block being filled.
#[derive(Debug)]
pub(crate) struct BlockBuilder {
    len: usize,
    pages: [u32; BLOCK_RECORDS],
    kinds: [u32; BLOCK_RECORDS],
    streams: [u32; BLOCK_RECORDS],
    clock_deltas: [u32; BLOCK_RECORDS],
    lines: [u32; BLOCK_RECORDS],
    /// Clock units between the block before and this one's `clock_start`.
    jump: u64,
}

impl BlockBuilder {
    pub(crate) fn new() -> Self {
        let column = [0; BLOCK_RECORDS];
        Self {
            len: 0,
            pages: column,
            kinds: column,
            streams: column,
            clock_deltas: column,
            lines: column,
            jump: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Moves the clock in front of the first record; the block must be empty.
    pub(crate) fn jump(&mut self, units: u64) {
        debug_assert_eq!(self.len, 0);
        self.jump += units;
    }

    /// The block must not be full.
    pub(crate) fn push(&mut self, record: Record) {
        let i = self.len;
        self.pages[i] = record.page;
        self.kinds[i] = record.kind;
        self.streams[i] = record.stream;
        self.lines[i] = record.line;
        self.clock_deltas[i] = record.clock_delta;
        self.len += 1;
    }

    /// Appends the block's bytes and empties it; nothing where it is empty.
    pub(crate) fn encode(&mut self, out: &mut Vec<u8>) {
        let n = std::mem::take(&mut self.len);
        let Some(last) = n.checked_sub(1) else { return };
        let span: u64 = self.clock_deltas[..n].iter().map(|d| u64::from(*d)).sum();
        let tag_at = out.len();
        out.extend([0, last as u8]);
        put_varint(out, std::mem::take(&mut self.jump));
        put_varint(out, span);
        column::encode(out, &mut self.pages[..n], false);
        for (bit, values, from_zero) in [
            (KINDS, &mut self.kinds, true),
            (STREAMS, &mut self.streams, false),
            (CLOCK_DELTAS, &mut self.clock_deltas, false),
            (LINES, &mut self.lines, true),
        ] {
            if values[..n].iter().any(|v| *v != 0) {
                out[tag_at] |= bit;
                column::encode(out, &mut values[..n], from_zero);
            }
        }
    }
}

/// Appends an event; its clock is stored relative to `clock`.
pub(crate) fn put_event(out: &mut Vec<u8>, scratch: &mut Vec<u8>, clock: u64, event: &TimedEvent) {
    scratch.clear();
    put_varint(scratch, zigzag(event.clock.wrapping_sub(clock) as i64));
    encode_event(scratch, &event.event);
    out.push(EVENT_TAG);
    put_varint(out, scratch.len() as u64);
    out.extend_from_slice(scratch);
}

/// The event behind an [`EVENT_TAG`].
pub(crate) fn take_event(cursor: &mut Cursor<'_>, clock: u64) -> Result<TimedEvent, Wrong> {
    let len = cursor.count(1)?;
    let bytes = cursor.take(len)?;
    let mut inner = Cursor::new(bytes, 0);
    let clock = clock.wrapping_add(unzigzag(inner.varint()?) as u64);
    let event = decode_event(&bytes[inner.pos()..])?;
    Ok(TimedEvent { clock, event })
}

/// A block found in a payload, with nothing unpacked yet.
pub(crate) struct Found<'a> {
    pub(crate) len: usize,
    pub(crate) clock_start: u64,
    pub(crate) clock_end: u64,
    pages: Packed<'a>,
    kinds: Option<Packed<'a>>,
    streams: Option<Packed<'a>>,
    clock_deltas: Option<Packed<'a>>,
    lines: Option<Packed<'a>>,
}

impl<'a> Found<'a> {
    /// The block behind `tag`; `clock` is that of the block before.
    #[inline]
    pub(crate) fn find(cursor: &mut Cursor<'a>, tag: u8, clock: u64) -> Result<Self, Wrong> {
        if tag & !(KINDS | STREAMS | CLOCK_DELTAS | LINES) != 0 {
            return Err("neither a block nor an event");
        }
        let n = usize::from(cursor.byte()?) + 1;
        let late = "the clock goes beyond 64 bits";
        let clock_start = clock.checked_add(cursor.varint()?).ok_or(late)?;
        let clock_end = clock_start.checked_add(cursor.varint()?).ok_or(late)?;
        let pages = Packed::find(cursor, n, 32, false)?;
        let mut column = |bit, max_width, from_zero| match tag & bit {
            0 => Ok(None),
            _ => Packed::find(cursor, n, max_width, from_zero).map(Some),
        };
        Ok(Self {
            len: n,
            clock_start,
            clock_end,
            pages,
            kinds: column(KINDS, KIND_BITS, true)?,
            streams: column(STREAMS, 32, false)?,
            clock_deltas: column(CLOCK_DELTAS, 32, false)?,
            lines: column(LINES, LINE_BITS, true)?,
        })
    }

    /// No page and no stream of the block is above these numbers.
    #[inline]
    pub(crate) fn reach(&self) -> (u64, u64) {
        (self.pages.most(), self.streams.map_or(0, |streams| streams.most()))
    }

    /// Unpacks what is wanted over the batch's accesses; its events stay. After an error the
    /// accesses are of no use.
    #[inline]
    pub(crate) fn unpack(&self, batch: &mut Batch, want: Want) -> Result<(), Wrong> {
        let n = self.len;
        if want.clock_deltas {
            fill(&mut batch.clock_deltas, self.clock_deltas, n);
            let span: u64 = match batch.clock_deltas.constant() {
                Some(delta) => u64::from(delta) * n as u64,
                None => batch.clock_deltas.values().iter().map(|d| u64::from(*d)).sum(),
            };
            if span != self.clock_end - self.clock_start {
                return Err("clock differences that do not add up");
            }
        } else {
            batch.clock_deltas.set_constant(0);
        }
        if want.lines {
            fill(&mut batch.lines, self.lines, n);
        } else {
            batch.lines.set_constant(0);
        }
        fill(&mut batch.kinds, self.kinds, n);
        fill(&mut batch.streams, self.streams, n);
        batch.pages.resize(n, 0);
        self.pages.unpack(&mut batch.pages);
        batch.clock_start = self.clock_start;
        batch.clock_end = self.clock_end;
        Ok(())
    }
}

#[inline]
fn fill(column: &mut Column, packed: Option<Packed<'_>>, n: usize) {
    match packed {
        None => column.set_constant(0),
        Some(packed) if packed.width == 0 => column.set_constant(packed.base),
        Some(packed) => packed.unpack(column.buffer(n)),
    }
}
