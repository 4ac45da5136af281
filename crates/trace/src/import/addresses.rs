//! Writer of a trace from accesses that somebody has in memory.

use super::feed::Item;
use super::names::{Names, Touch};
use crate::error::TraceError;
use crate::header::{ClockUnit, TraceHeader};
use crate::native::{Totals, TraceWriter};
use frostline_core::types::AccessKind;
use std::fs::File;
use std::path::{Path, PathBuf};

/// An access of a process by its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accessed {
    /// In the unit of the trace; no less than that of the access before.
    pub clock: u64,
    /// Virtual address.
    pub address: u64,
    /// What was done.
    pub kind: AccessKind,
    /// Number of the thread.
    pub thread: u32,
}

/// Writes accesses of one process; its pages and threads are numbered as they appear.
pub struct AddressWriter {
    writer: TraceWriter<File>,
    names: Names,
    path: PathBuf,
    name: String,
    clock: u64,
}

impl AddressWriter {
    /// Creates the file, or empties it where it exists. `name` is what the trace calls its program.
    ///
    /// # Errors
    /// Where the file cannot be created or written.
    pub fn create(path: &Path, name: &str, clock: ClockUnit) -> Result<Self, TraceError> {
        let header = TraceHeader {
            clock,
            recorder: concat!("frostline ", env!("CARGO_PKG_VERSION"), " addresses").into(),
            ..TraceHeader::named(name)
        };
        Ok(Self {
            writer: TraceWriter::create(path, &header)?,
            names: Names::default(),
            path: path.to_owned(),
            name: name.to_owned(),
            clock: 0,
        })
    }

    /// Appends an access.
    ///
    /// # Errors
    /// Where its clock is below that of the one before, where there are more pages than page ids, or the file cannot be
    /// written.
    pub fn push(&mut self, access: Accessed) -> Result<(), TraceError> {
        let Accessed { clock, address, kind, thread: tid } = access;
        if clock < self.clock {
            let what = format!(
                "time {clock} is before {}, that of the access before\nhint: sort the accesses by time",
                self.clock
            );
            return Err(self.wrong(what));
        }
        self.clock = clock;
        let touch = Touch { clock, process: 0, pid: 0, command: &self.name, tid, address, kind };
        if let Err(what) = self.names.touch(touch) {
            return Err(self.wrong(what.to_owned()));
        }
        while let Some(item) = self.names.pop() {
            match item {
                Item::Event(event) => self.writer.events(&[event])?,
                Item::Access(access) => self.writer.access(
                    access.clock,
                    access.page,
                    access.kind,
                    access.stream,
                    access.line,
                )?,
            }
        }
        Ok(())
    }

    /// Writes the rest. Gives the totals.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn finish(self) -> Result<Totals, TraceError> {
        self.writer.finish()
    }

    /// As in a text, whose lines are accesses.
    fn wrong(&self, what: String) -> TraceError {
        TraceError::Text { path: self.path.clone(), line: self.writer.records() + 1, what }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{TraceSource, Want};
    use crate::import::TextSource;
    use crate::import::feed::testing::read;
    use crate::native::TraceReader;
    use proptest::prelude::*;

    fn write(accesses: &[Accessed]) -> Result<Vec<String>, TraceError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.flt");
        let mut writer = AddressWriter::create(&path, "t.txt", ClockUnit::Nanoseconds)?;
        accesses.iter().try_for_each(|access| writer.push(*access))?;
        assert_eq!(writer.finish()?.records, accesses.len() as u64);
        let mut reader = TraceReader::open(&path)?;
        reader.want(Want { clock_deltas: true, lines: true });
        let (found, result) = read(&mut reader);
        result.map(|()| found)
    }

    proptest! {
        #[test]
        fn accesses_are_those_of_a_text(
            steps in proptest::collection::vec((0_u64..1000, any::<u32>(), any::<bool>(), 0_u32..3), 0..200)
        ) {
            let mut clock = 0;
            let accesses = steps.iter().map(|&(delta, address, is_write, thread)| {
                clock += delta;
                let kind = if is_write { AccessKind::Store } else { AccessKind::Load };
                Accessed { clock, address: address.into(), kind, thread }
            });
            let accesses: Vec<Accessed> = accesses.collect();
            let line = |a: &Accessed| {
                let kind = if a.kind == AccessKind::Store { 'w' } else { 'r' };
                format!("{} {} {kind} {}\n", a.clock, a.address, a.thread)
            };
            let text: String = accesses.iter().map(line).collect();
            let mut source = TextSource::new(text.as_bytes(), "t.txt", ClockUnit::Nanoseconds);
            let (found, result) = read(&mut source);
            result.unwrap();
            prop_assert_eq!(write(&accesses).unwrap(), found);
        }
    }

    #[test]
    fn times_must_not_decrease() {
        let at = |clock| Accessed { clock, address: 4096, kind: AccessKind::Load, thread: 0 };
        let error = write(&[at(5), at(5), at(4)]).unwrap_err().to_string();
        assert!(
            error.contains("line 3: time 4 is before 5") && error.contains("hint: "),
            "{error}"
        );
    }
}
