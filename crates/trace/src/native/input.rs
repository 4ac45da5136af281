//! Input of the reader.

use super::layout::read_full;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::Arc;

/// What a file, or anything like it, must offer.
pub(crate) trait Source: Read + Seek + Send {}
impl<T: Read + Seek + Send> Source for T {}

/// Gives bytes piece by piece. Memory is handed out in place, files are read into one buffer.
pub(crate) enum Input {
    File { source: Box<dyn Source>, buffer: Vec<u8>, filled: usize },
    Memory { bytes: Arc<[u8]>, piece: Range<usize> },
}

/// A buffer grows by at most this much before the bytes for it have been seen.
const STEP_BYTES: usize = 1 << 20;

impl Input {
    pub(crate) fn file(source: Box<dyn Source>) -> Self {
        Self::File { source, buffer: Vec::new(), filled: 0 }
    }

    pub(crate) fn memory(bytes: Arc<[u8]>) -> Self {
        Self::Memory { bytes, piece: 0..0 }
    }

    /// Makes the next `len` bytes the current piece; fewer where the input ends before. Gives the
    /// piece's length.
    pub(crate) fn advance(&mut self, len: usize) -> io::Result<usize> {
        match self {
            Self::File { source, buffer, filled } => {
                *filled = 0;
                while *filled < len {
                    let end = len.min(*filled + STEP_BYTES);
                    if buffer.len() < end {
                        buffer.resize(end, 0);
                    }
                    let got = read_full(source, &mut buffer[*filled..end])?;
                    *filled += got;
                    if *filled < end {
                        break;
                    }
                }
                Ok(*filled)
            }
            Self::Memory { bytes, piece } => {
                let start = piece.end;
                *piece = start..bytes.len().min(start.saturating_add(len));
                Ok(piece.len())
            }
        }
    }

    /// The current piece.
    #[inline]
    pub(crate) fn piece(&self) -> &[u8] {
        match self {
            Self::File { buffer, filled, .. } => &buffer[..*filled],
            Self::Memory { bytes, piece } => &bytes[piece.clone()],
        }
    }

    /// The next piece begins at `offset`.
    pub(crate) fn seek(&mut self, offset: u64) -> io::Result<()> {
        match self {
            Self::File { source, .. } => source.seek(SeekFrom::Start(offset)).map(drop),
            Self::Memory { bytes, piece } => {
                let at = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
                *piece = at..at;
                Ok(())
            }
        }
    }

    /// Length of the input, where it can be known (pipes: no). The next piece begins at
    /// `return_to` afterwards.
    pub(crate) fn len(&mut self, return_to: u64) -> Option<u64> {
        match self {
            Self::File { source, .. } => {
                let len = source.seek(SeekFrom::End(0)).ok()?;
                source.seek(SeekFrom::Start(return_to)).ok()?;
                Some(len)
            }
            Self::Memory { bytes, .. } => Some(bytes.len() as u64),
        }
    }
}
