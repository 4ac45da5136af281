//! Lines of a text, with their numbers.

use crate::error::TraceError;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Reads line by line; a file without line ends is not read into memory whole.
#[derive(Debug)]
pub(super) struct Lines<R> {
    reader: R,
    path: PathBuf,
    most_bytes: u64,
    line: Vec<u8>,
    number: u64,
}

/// Opens a file for [`Lines`].
pub(super) fn open(path: &Path) -> Result<BufReader<File>, TraceError> {
    match File::open(path) {
        Ok(file) => Ok(BufReader::with_capacity(1 << 18, file)),
        Err(source) => Err(TraceError::Io { path: path.to_owned(), doing: "open", source }),
    }
}

impl<R: BufRead> Lines<R> {
    /// Errors call it `path`. Lines of `most_bytes` or more are refused.
    pub fn new(reader: R, path: PathBuf, most_bytes: u64) -> Self {
        Self { reader, path, most_bytes, line: Vec::new(), number: 0 }
    }

    /// The next line, maybe with its end; `None` at the text's end.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>, TraceError> {
        self.line.clear();
        self.number += 1;
        let got = (&mut self.reader).take(self.most_bytes).read_until(b'\n', &mut self.line);
        let io = |source| TraceError::Io { path: self.path.clone(), doing: "read", source };
        let got = got.map_err(io)?;
        if got as u64 == self.most_bytes && !self.line.ends_with(b"\n") {
            let what = format!("longer than {} bytes; is this text?", self.most_bytes);
            return Err(self.wrong(what));
        }
        Ok((got > 0).then_some(&self.line))
    }

    /// An error in the line that was read last.
    pub fn wrong(&self, what: impl Into<String>) -> TraceError {
        TraceError::Text { path: self.path.clone(), line: self.number, what: what.into() }
    }
}
