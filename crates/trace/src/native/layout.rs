//! Fixed-size parts of the file: preamble, frame header, end frame's payload.

use super::wire::{Wrong, u32_at, u64_at};
use std::io;

/// First bytes of every native trace. The first is no text, so that text tools see binary; the
/// line ends show damage by programs that convert them.
pub(crate) const MAGIC: [u8; 8] = *b"\x89FLT\r\n\x1a\n";
/// Newest format version known here.
pub const VERSION: u32 = 1;
/// Magic, version, CRC of both.
pub(crate) const PREAMBLE_LEN: usize = 16;
/// Bytes in front of every frame's payload.
pub(crate) const FRAME_HEADER_LEN: usize = 32;
/// Longest payload that a reader accepts.
pub(crate) const MAX_PAYLOAD: u32 = 1 << 30;
const FRAME_MAGIC: [u8; 3] = *b"FLf";

pub(crate) fn preamble() -> [u8; PREAMBLE_LEN] {
    let mut bytes = [0; PREAMBLE_LEN];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let crc = crc32fast::hash(&bytes[..12]);
    bytes[12..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FrameKind {
    /// The trace's description, as JSON.
    Header = b'H',
    /// Accesses and events.
    Data = b'D',
    /// Where the data frames are.
    Index = b'I',
    /// Totals; the last frame of a finished file.
    End = b'E',
}

impl FrameKind {
    fn from_code(code: u8) -> Option<Self> {
        [Self::Header, Self::Data, Self::Index, Self::End].into_iter().find(|k| *k as u8 == code)
    }
}

/// What stands in front of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) kind: FrameKind,
    pub(crate) payload_len: u32,
    /// Number of this frame in the file, from 0.
    pub(crate) number: u32,
    /// Records in this frame.
    pub(crate) records: u32,
    /// Records in front of this frame.
    pub(crate) first_record: u64,
    pub(crate) payload_crc: u32,
}

impl FrameHeader {
    pub(crate) fn encode(&self) -> [u8; FRAME_HEADER_LEN] {
        let mut bytes = [0; FRAME_HEADER_LEN];
        bytes[..3].copy_from_slice(&FRAME_MAGIC);
        bytes[3] = self.kind as u8;
        bytes[4..8].copy_from_slice(&self.payload_len.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.number.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.records.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.first_record.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.payload_crc.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..28]);
        bytes[28..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// `bytes` has [`FRAME_HEADER_LEN`] bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Wrong> {
        if bytes[..3] != FRAME_MAGIC {
            return Err("no frame begins here");
        }
        if crc32fast::hash(&bytes[..28]) != u32_at(bytes, 28) {
            return Err("the checksum of a frame's header does not match");
        }
        let kind = FrameKind::from_code(bytes[3]).ok_or("a frame of unknown kind")?;
        let payload_len = u32_at(bytes, 4);
        if payload_len > MAX_PAYLOAD {
            return Err("a frame longer than 1 GiB");
        }
        Ok(Self {
            kind,
            payload_len,
            number: u32_at(bytes, 8),
            records: u32_at(bytes, 12),
            first_record: u64_at(bytes, 16),
            payload_crc: u32_at(bytes, 24),
        })
    }
}

/// What a finished trace holds in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Accesses.
    pub records: u64,
    /// Events.
    pub events: u64,
    /// Accesses by the code of their [`frostline_core::types::AccessKind`].
    pub by_kind: [u64; 4],
    /// All page ids of accesses are below this; 0 without accesses.
    pub pages: u64,
    /// Clock of the last access.
    pub clock_end: u64,
}

/// Payload of the end frame: the totals and where the index frame begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) totals: Totals,
    pub(crate) index_offset: u64,
}

pub(crate) const END_PAYLOAD_LEN: usize = 72;
pub(crate) const END_FRAME_LEN: usize = FRAME_HEADER_LEN + END_PAYLOAD_LEN;

impl End {
    fn fields(&self) -> [u64; 9] {
        let t = &self.totals;
        let [loads, stores, fetches, write_backs] = t.by_kind;
        let index = self.index_offset;
        [t.records, t.events, loads, stores, fetches, write_backs, t.pages, t.clock_end, index]
    }

    pub(crate) fn encode(&self) -> [u8; END_PAYLOAD_LEN] {
        let mut bytes = [0; END_PAYLOAD_LEN];
        for (field, at) in self.fields().iter().zip(bytes.chunks_exact_mut(8)) {
            at.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Wrong> {
        if bytes.len() != END_PAYLOAD_LEN {
            return Err("an end frame of wrong length");
        }
        let field = |i: usize| u64_at(bytes, 8 * i);
        Ok(Self {
            totals: Totals {
                records: field(0),
                events: field(1),
                by_kind: [field(2), field(3), field(4), field(5)],
                pages: field(6),
                clock_end: field(7),
            },
            index_offset: field(8),
        })
    }
}

/// Reads until `buffer` is full or the input ends; gives the bytes read.
pub(crate) fn read_full(reader: &mut dyn io::Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
