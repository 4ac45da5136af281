//! A connection to a server over a socket in the file system, with requests on the way.

use super::run::Meter;
use anyhow::Context;
use std::io::{BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Requests sent before the first one's answer is read: few enough to fit a socket's buffer.
const DEPTH: usize = 16;

/// Reads one answer; an error where it is none that was expected.
pub type ReadAnswer = fn(&mut BufReader<UnixStream>) -> anyhow::Result<()>;

#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    answers: BufReader<UnixStream>,
    read: ReadAnswer,
    requests: Vec<u8>,
    pending: usize,
}

impl Connection {
    /// Waits for the server.
    pub fn open(socket: &Path, meter: &Meter, read: ReadAnswer) -> anyhow::Result<Self> {
        let mut stream = None;
        meter.wait(|| {
            stream = UnixStream::connect(socket).ok();
            stream.is_some()
        })?;
        Self::over(stream.context("no connection")?, read)
    }

    /// To a server that listens already.
    pub fn over(stream: UnixStream, read: ReadAnswer) -> anyhow::Result<Self> {
        let answers = BufReader::new(stream.try_clone()?);
        Ok(Self { stream, answers, read, requests: Vec::new(), pending: 0 })
    }

    /// Puts a request together and sends it, sooner or later.
    pub fn request(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> anyhow::Result<()> {
        put(&mut self.requests);
        self.pending += 1;
        if self.pending == DEPTH { self.settle() } else { Ok(()) }
    }

    /// Sends what was not sent yet and reads all answers.
    pub fn settle(&mut self) -> anyhow::Result<()> {
        self.stream.write_all(&self.requests).context("the server does not listen")?;
        self.requests.clear();
        for _ in 0..std::mem::take(&mut self.pending) {
            (self.read)(&mut self.answers)?;
        }
        Ok(())
    }

    /// Sends a request that ends the server, after which there may be no answer.
    pub fn last(mut self, request: &[u8]) -> anyhow::Result<()> {
        self.settle()?;
        self.stream.write_all(request).context("the server does not listen")
    }
}
