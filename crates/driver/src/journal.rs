//! A run written down, so that it can be repeated: what the engine was told when, and what it
//! wanted done.
//!
//! A file is the line [`MAGIC`], then frames: length and CRC-32 of what follows, both 32-bit
//! little-endian, then one [`Entry`] in postcard's encoding. The first entry is the setup: the
//! engine's tiers, and the policy with the offer that its parameters were chosen by. A run that was
//! killed leaves a file whose last frame is cut off; everything before it counts.

#[cfg(test)]
mod tests;
mod validator;

use crate::error::DriverError;
use frostline_core::engine::{Engine, EngineConfig};
use frostline_core::event::{Event, Fault};
use frostline_core::policy::{Offer, make};
use frostline_core::types::*;
use frostline_core::{Action, Limit};
use frostline_linux::own_files::outputs;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use validator::Validator;

/// First bytes of a journal of any version.
pub const MARK: &[u8] = b"frostline journal ";
/// First bytes of a journal of this version; the number is that of the encoding.
pub const MAGIC: &[u8] = b"frostline journal 3\n";

/// Longest frame that is believed.
const MOST_BYTES: u32 = 64 << 20;

/// Everything that the engine was made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// The policy, as it was asked for; what else suits it follows from the offer.
    pub policy: String,
    /// What the policy was offered.
    pub offer: Offer,
    /// What the engine manages.
    pub config: EngineConfig,
}

impl Setup {
    /// The engine.
    ///
    /// # Errors
    /// Where there is no such policy, or the engine cannot be.
    pub fn engine(&self) -> Result<Engine, DriverError> {
        Ok(Engine::new(self.config.clone(), make(&self.policy, &self.offer)?)?)
    }
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Entry {
    /// The engine was made.
    Setup(Box<Setup>),
    /// It was told a batch.
    Events(Nanos, Vec<Event>),
    /// It was given a chance to decide.
    Timeout(Nanos),
    /// It wanted this done, since the entry before.
    Actions(Vec<Action>),
    /// It was asked about a touch of an armed page.
    Fault(Nanos, Fault),
}

fn failed(path: &Path, what: impl ToString) -> DriverError {
    DriverError::Journal { path: path.into(), what: what.to_string() }
}

/// Writes a journal.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: BufWriter<File>,
    buffer: Vec<u8>,
}

impl Journal {
    /// A new file; what was there is overwritten.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn create(path: &Path, setup: &Setup) -> Result<Self, DriverError> {
        let file = outputs::create(path).map_err(|error| failed(path, error))?;
        let mut journal =
            Self { path: path.into(), file: BufWriter::new(file), buffer: Vec::new() };
        journal.file.write_all(MAGIC).map_err(|error| failed(path, error))?;
        journal.write(&Entry::Setup(Box::new(setup.clone())))?;
        Ok(journal)
    }

    /// Appends an entry.
    ///
    /// # Errors
    /// Where it cannot be written, for instance because the disk is full.
    pub fn write(&mut self, entry: &Entry) -> Result<(), DriverError> {
        self.buffer.clear();
        let buffer = std::mem::take(&mut self.buffer);
        self.buffer =
            postcard::to_extend(entry, buffer).map_err(|error| failed(&self.path, error))?;
        let length = u32::try_from(self.buffer.len()).ok().filter(|n| *n <= MOST_BYTES);
        let length = length.ok_or_else(|| failed(&self.path, "a batch is too long"))?;
        let check = crc32fast::hash(&self.buffer);
        let parts = [&length.to_le_bytes()[..], &check.to_le_bytes(), &self.buffer];
        for part in parts {
            self.file.write_all(part).map_err(|error| failed(&self.path, error))?;
        }
        Ok(())
    }

    /// Hands what is buffered to the kernel.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn flush(&mut self) -> Result<(), DriverError> {
        self.file.flush().map_err(|error| failed(&self.path, error))
    }
}

/// Reads a journal, entry by entry.
#[derive(Debug)]
pub struct Entries<R> {
    path: PathBuf,
    input: R,
    at: u64,
    cut_off: bool,
    validator: Validator,
}

impl Entries<BufReader<File>> {
    /// Opens a file.
    ///
    /// # Errors
    /// Where it cannot be read or is no journal.
    pub fn open(path: &Path) -> Result<Self, DriverError> {
        let file = File::open(path).map_err(|error| failed(path, error))?;
        let len_bytes = file.metadata().map_or(0, |metadata| metadata.len());
        let mut entries = Entries::new(path, BufReader::new(file))?;
        entries.validator = Validator::new(Limit::default(), len_bytes);
        Ok(entries)
    }
}

impl<R: Read> Entries<R> {
    /// Reads from `input`; `path` is for messages.
    ///
    /// # Errors
    /// Where it does not begin as a journal does.
    pub fn new(path: &Path, mut input: R) -> Result<Self, DriverError> {
        let mut magic = [0; MAGIC.len()];
        let whole = input.read_exact(&mut magic).is_ok();
        if !whole || magic != *MAGIC {
            let what = match magic.strip_prefix(MARK).filter(|_| whole) {
                Some(version) => format!(
                    "this journal is of version {}, and version {} is read here\nhint: use the \
                     frostline that wrote it, or write one with `frostline run --journal FILE`",
                    version.trim_ascii().escape_ascii(),
                    MAGIC[MARK.len()..].trim_ascii().escape_ascii(),
                ),
                None => "this is no journal\nhint: write one with `frostline run --journal FILE`"
                    .to_owned(),
            };
            return Err(failed(path, what));
        }
        let (at, validator) = (MAGIC.len() as u64, Validator::new(Limit::default(), 0));
        Ok(Self { path: path.into(), input, at, cut_off: false, validator })
    }

    /// Allows what is read to take this much memory where the journal's length does not account for it.
    #[must_use]
    pub fn within(mut self, limit: Limit) -> Self {
        self.validator = self.validator.within(limit);
        self
    }

    /// Whether the file ended inside an entry.
    pub fn is_cut_off(&self) -> bool {
        self.cut_off
    }

    /// The next entry; `None` at the end, also where that cuts an entry off.
    ///
    /// # Errors
    /// Where the file is damaged, or says what cannot be; the text says at which byte.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, DriverError> {
        let mut head = [0; 8];
        let got = self.fill(&mut head)?;
        if got < head.len() {
            self.cut_off = got > 0;
            return Ok(None);
        }
        let [a, b, c, d, e, f, g, h] = head;
        let (length, check) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        let here = self.at;
        let damaged = |what: &str| failed(&self.path, format!("byte {here}: {what}"));
        if length > MOST_BYTES {
            return Err(damaged("an entry longer than any can be"));
        }
        let mut body = Vec::new();
        let read = self.input.by_ref().take(length.into()).read_to_end(&mut body);
        read.map_err(|error| failed(&self.path, error))?;
        if body.len() < length as usize {
            self.cut_off = true;
            return Ok(None);
        }
        if crc32fast::hash(&body) != check {
            return Err(failed(&self.path, format!("byte {here}: the checksum is wrong")));
        }
        self.at += 8 + u64::from(length);
        let entry = postcard::from_bytes(&body)
            .map_err(|error| failed(&self.path, format!("byte {here}: {error}")))?;
        self.validator.check(&entry, self.at).map_err(|wrong| DriverError::Unbelievable {
            path: self.path.clone(),
            at: here,
            what: wrong.what,
            hint: wrong.hint,
        })?;
        Ok(Some(entry))
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, DriverError> {
        let mut got = 0;
        while got < buffer.len() {
            match self.input.read(&mut buffer[got..]) {
                Ok(0) => break,
                Ok(n) => got += n,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(&self.path, error)),
            }
        }
        Ok(got)
    }
}

/// Outcome of a repetition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Replayed {
    /// Batches of events.
    pub batches: u64,
    /// Events in them.
    pub events: u64,
    /// Actions that came out as they are written.
    pub actions: u64,
    /// The journal ends inside an entry.
    pub cut_off: bool,
    /// Number of the first entry after which other actions came out, and what they were.
    pub difference: Option<(u64, String)>,
}

/// Tells a new engine everything that a journal holds and compares what it wants done.
///
/// # Errors
/// Where the journal is damaged or does not begin with a setup.
pub fn replay<R: Read>(entries: &mut Entries<R>) -> Result<Replayed, DriverError> {
    let Some(Entry::Setup(setup)) = entries.next_entry()? else {
        return Err(failed(&entries.path, "it does not begin with the engine's setup"));
    };
    let mut engine = setup.engine()?;
    let mut done = Replayed::default();
    let mut wanted: Vec<Action> = Vec::new();
    let mut number = 0;
    while let Some(entry) = entries.next_entry()? {
        number += 1;
        let written = match entry {
            Entry::Actions(actions) => actions,
            Entry::Events(now, events) => {
                done.batches += 1;
                done.events += events.len() as u64;
                engine.handle_events(now, &events);
                wanted.extend(std::iter::from_fn(|| engine.poll_action()));
                continue;
            }
            Entry::Timeout(now) => {
                engine.handle_timeout(now);
                wanted.extend(std::iter::from_fn(|| engine.poll_action()));
                continue;
            }
            Entry::Fault(now, fault) => {
                engine.on_fault(now, &fault);
                continue;
            }
            Entry::Setup(_) => return Err(failed(&entries.path, "two setups")),
        };
        if written != wanted {
            let what = first_difference(&written, &wanted);
            done.difference = Some((number, what));
            return Ok(done);
        }
        done.actions += wanted.len() as u64;
        wanted.clear();
    }
    // A run that was killed may have written events and not what followed from them.
    done.cut_off = entries.is_cut_off() || !wanted.is_empty();
    Ok(done)
}

fn first_difference(written: &[Action], wanted: &[Action]) -> String {
    let at = written.iter().zip(wanted).take_while(|(a, b)| a == b).count();
    format!("action {at}: written {:?}, now {:?}", written.get(at), wanted.get(at))
}
