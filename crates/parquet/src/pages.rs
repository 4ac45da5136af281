//! Structs of a Parquet file in Thrift's compact protocol, walked through before the library reads them.
//!
//! The library takes as much memory for a page as its header claims, and as much time for a list of truth
//! values in the footer. Here claims are added up, and lists are held against the bytes that are there.

use std::fs::File;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result};
use std::os::unix::fs::FileExt;

/// Numbers of the fields of a page header that tell sizes.
const UNCOMPRESSED: i16 = 2;
const COMPRESSED: i16 = 3;
/// Structs and lists within each other, at most: statistics of a column lie eight deep in the footer.
const MOST_DEPTH: u32 = 16;
/// Length of the footer and the magic behind it.
const TAIL: usize = 8;
/// Bytes of a file read at a time.
const STEP: usize = 512;

/// Walks through the footer of a file of `len` bytes. What has no footer is left to the library.
///
/// # Errors
/// Where the file cannot be read, or the footer is damaged or has lists longer than itself.
pub(crate) fn check_footer(file: &File, len: u64) -> Result<()> {
    let Some(end) = len.checked_sub(TAIL as u64) else { return Ok(()) };
    let mut tail = [0; TAIL];
    file.read_exact_at(&mut tail, end)?;
    let [a, b, c, d, magic @ ..] = tail;
    let start = end.checked_sub(u32::from_le_bytes([a, b, c, d]).into());
    match start {
        Some(pos) if magic == *b"PAR1" => {
            Walker::new(Part { file, pos, end }).pass(Kind::Struct, 0)
        }
        _ => Ok(()),
    }
}

/// Bytes that the pages in this part of a file, which exists, claim to have when they are decompressed.
///
/// # Errors
/// Where the file cannot be read, or a header is damaged or claims more than the part holds.
pub(crate) fn claimed_bytes(file: &File, mut start: u64, len: u64) -> Result<u64> {
    let end = start.saturating_add(len);
    let mut claimed = 0_u64;
    while start < end {
        let mut header = Walker::new(Part { file, pos: start, end });
        let (uncompressed, compressed) = header.sizes()?;
        claimed = claimed.saturating_add(uncompressed);
        start = header.pos();
        if compressed > end - start {
            return Err(damaged());
        }
        start += compressed;
    }
    Ok(claimed)
}

/// Part of a file, read without moving the file's own position.
struct Part<'a> {
    file: &'a File,
    pos: u64,
    end: u64,
}

impl Read for Part<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let left = usize::try_from(self.end - self.pos).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        let read = self.file.read_at(&mut buffer[..wanted], self.pos)?;
        self.pos += read as u64;
        Ok(read)
    }
}

struct Walker<'a> {
    bytes: BufReader<Part<'a>>,
}

fn damaged() -> Error {
    Error::new(ErrorKind::InvalidData, "a page's header or the footer is damaged")
}

impl<'a> Walker<'a> {
    fn new(part: Part<'a>) -> Self {
        Self { bytes: BufReader::with_capacity(STEP, part) }
    }

    /// Where in the file the next byte lies.
    fn pos(&self) -> u64 {
        self.bytes.get_ref().pos - self.bytes.buffer().len() as u64
    }

    /// Reads a page's header to its end: bytes of the page uncompressed and compressed.
    fn sizes(&mut self) -> Result<(u64, u64)> {
        let (mut uncompressed, mut compressed) = (None, None);
        let mut field = 0;
        while let Some(kind) = self.field(&mut field)? {
            match field {
                UNCOMPRESSED if kind == Kind::Number => uncompressed = Some(self.number()?),
                COMPRESSED if kind == Kind::Number => compressed = Some(self.number()?),
                _ => self.pass(kind, 0)?,
            }
        }
        let size = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
        Ok((size(uncompressed).ok_or_else(damaged)?, size(compressed).ok_or_else(damaged)?))
    }

    /// Number and kind of the next field; `None` at the end of a struct.
    fn field(&mut self, number: &mut i16) -> Result<Option<Kind>> {
        let head = self.byte()?;
        if head == 0 {
            return Ok(None);
        }
        *number = match head >> 4 {
            0 => i16::try_from(self.number()?).map_err(|_| damaged())?,
            delta => number.checked_add(delta.into()).ok_or_else(damaged)?,
        };
        Kind::of(head & 15).map(Some)
    }

    fn byte(&mut self) -> Result<u8> {
        let mut byte = [0];
        self.bytes.read_exact(&mut byte)?;
        Ok(byte[0])
    }

    fn unsigned(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Ok(value);
            }
        }
        Err(damaged())
    }

    fn number(&mut self) -> Result<i64> {
        let zigzag = self.unsigned()?;
        Ok((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
    }

    fn pass_bytes(&mut self, mut count: u64) -> Result<()> {
        while count > 0 {
            let here = self.bytes.fill_buf()?.len();
            if here == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let passed = here.min(usize::try_from(count).unwrap_or(usize::MAX));
            self.bytes.consume(passed);
            count -= passed as u64;
        }
        Ok(())
    }

    fn pass(&mut self, kind: Kind, depth: u32) -> Result<()> {
        if depth == MOST_DEPTH {
            return Err(damaged());
        }
        match kind {
            Kind::Said => Ok(()),
            Kind::Number => self.number().map(drop),
            Kind::Fixed(count) => self.pass_bytes(count),
            Kind::Bytes => {
                let count = self.unsigned()?;
                self.pass_bytes(count)
            }
            Kind::List => {
                let head = self.byte()?;
                let count = match head >> 4 {
                    15 => self.unsigned()?,
                    count => count.into(),
                };
                let kind = match Kind::of(head & 15)? {
                    // To the library they take no bytes, so it would count to any number. Nothing has them.
                    Kind::Said => return Err(damaged()),
                    kind => kind,
                };
                // Every element takes a byte at least, so a false count ends with the file.
                (0..count).try_for_each(|_| self.pass(kind, depth + 1))
            }
            Kind::Struct => {
                let mut field = 0;
                while let Some(kind) = self.field(&mut field)? {
                    self.pass(kind, depth + 1)?;
                }
                Ok(())
            }
        }
    }
}

/// Kinds of values, by how they are passed over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The type says the value: true or false.
    Said,
    Fixed(u64),
    Number,
    Bytes,
    List,
    Struct,
}

impl Kind {
    /// The kind of a type's number. Maps are in no page header.
    fn of(number: u8) -> Result<Self> {
        Ok(match number {
            1 | 2 => Self::Said,
            3 => Self::Fixed(1),
            4..=6 => Self::Number,
            7 => Self::Fixed(8),
            8 => Self::Bytes,
            9 | 10 => Self::List,
            12 => Self::Struct,
            _ => return Err(damaged()),
        })
    }
}
