//! A whole native trace in memory.

use super::reader::TraceReader;
use super::writer::TraceWriter;
use crate::batch::TraceSource;
use crate::error::TraceError;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The bytes of a native trace, shared by all its readers and clones: several simulations decode
/// the same trace side by side, without a disk in the way and without generating it again.
#[derive(Clone)]
pub struct MemTrace {
    bytes: Arc<[u8]>,
    path: PathBuf,
}

impl std::fmt::Debug for MemTrace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemTrace")
            .field("path", &self.path)
            .field("bytes", &self.bytes.len())
            .finish()
    }
}

impl MemTrace {
    /// Loads a file as it is; damage shows when it is read.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, TraceError> {
        let path = path.as_ref();
        match std::fs::read(path) {
            Ok(bytes) => Ok(Self::from_bytes(bytes, path)),
            Err(source) => Err(TraceError::Io { path: path.to_owned(), doing: "read", source }),
        }
    }

    /// Takes the bytes of a native trace; errors will call them `path`.
    pub fn from_bytes(bytes: impl Into<Arc<[u8]>>, path: impl Into<PathBuf>) -> Self {
        Self { bytes: bytes.into(), path: path.into() }
    }

    /// Reads `source` to its end and encodes it, with all columns.
    ///
    /// # Errors
    /// Those of the source.
    pub fn capture(source: &mut dyn TraceSource) -> Result<Self, TraceError> {
        let header = source.header().clone();
        let path = PathBuf::from(header.name.raw());
        let mut bytes = Vec::new();
        let mut writer = TraceWriter::new(&mut bytes, &path, &header)?;
        writer.copy(source)?;
        writer.finish()?;
        Ok(Self::from_bytes(bytes, path))
    }

    /// A reader from the start; any number of them at once.
    ///
    /// # Errors
    /// As [`TraceReader::open`].
    pub fn reader(&self) -> Result<TraceReader, TraceError> {
        TraceReader::from_memory(Arc::clone(&self.bytes), self.path.clone())
    }

    /// Size of the encoded trace in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The encoded trace.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}
