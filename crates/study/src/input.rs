//! Traces as the user names them: files and `synth:...`.

use super::memory;
use crate::advise::{Part, Thinned};
use crate::{Monitor, Pass, StudyError};
use frostline_core::Limit;
use frostline_trace::batch::Want;
use frostline_trace::{Batch, MemTrace, Sheet, TraceError, TraceHeader, TraceReader, TraceSource};
use std::path::PathBuf;
use std::sync::Arc;

/// Share of the available memory that one trace may take.
const MEMORY_SHARE: f64 = 0.4;
/// Bytes per record of the native format, generously.
const BYTES_PER_RECORD: u64 = 5;

/// A trace that can be read any number of times.
pub struct Input {
    name: String,
    kind: Kind,
    /// Page ids of a file, which whoever wrote it may have chosen.
    sheet: Option<Arc<Sheet>>,
}

enum Kind {
    File(PathBuf),
    Synth(String),
    Memory(MemTrace),
}

impl Input {
    /// Finds the trace and checks that it begins well. `times` is how often it will be read:
    /// generated traces that are read often are kept in memory if they fit. `limit` is what reading
    /// may take without accounting for it.
    ///
    /// # Errors
    /// A file that is missing or no trace, a description that cannot be used, or a stop.
    pub fn open(
        name: &str,
        times: usize,
        limit: Limit,
        monitor: &dyn Monitor,
    ) -> anyhow::Result<Self> {
        let kind = if name.starts_with("synth:") {
            Kind::Synth(name.to_owned())
        } else {
            find_file(name)?
        };
        let input = Self { name: name.to_owned(), kind, sheet: None };
        let header = input.source()?.header().clone();
        let generated = matches!(input.kind, Kind::Synth(_));
        let mut input = if times > 1 { input.into_memory(&header, monitor)? } else { input };
        input.sheet = match &input.kind {
            Kind::File(path) => TraceReader::open(path)?.dense(limit)?.sheet(),
            Kind::Memory(trace) if !generated => trace.reader()?.dense(limit)?.sheet(),
            Kind::Memory(_) | Kind::Synth(_) => None,
        };
        Ok(input)
    }

    /// As the user named it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads from the start.
    ///
    /// # Errors
    /// Those of opening.
    pub fn source(&self) -> Result<Box<dyn TraceSource + Send>, TraceError> {
        let reader = match &self.kind {
            Kind::File(path) => TraceReader::open(path)?,
            Kind::Memory(trace) => trace.reader()?,
            Kind::Synth(spec) => return frostline_workloads::from_spec(spec),
        };
        Ok(match &self.sheet {
            None => Box::new(reader),
            Some(sheet) => Box::new(reader.with_sheet(Arc::clone(sheet))),
        })
    }

    /// What happens in a part of its regions, in memory.
    ///
    /// # Errors
    /// A trace that cannot be read, or a stop.
    pub fn thinned(&self, part: &Part, monitor: &dyn Monitor) -> anyhow::Result<Self> {
        let watched = Watched::new(self.source()?, "drawing a part", None, monitor);
        let trace = MemTrace::capture(&mut Thinned::new(Box::new(watched), part.clone()))?;
        monitor.check()?;
        // Page ids are dense by now.
        Ok(Self { name: self.name.clone(), kind: Kind::Memory(trace), sheet: None })
    }

    fn into_memory(self, header: &TraceHeader, monitor: &dyn Monitor) -> anyhow::Result<Self> {
        let room = (memory::available_bytes() as f64 * MEMORY_SHARE) as u64;
        let trace = match &self.kind {
            Kind::File(path) => match path.metadata() {
                Ok(meta) if meta.is_file() && meta.len() <= room => MemTrace::load(path)?,
                _ => return Ok(self),
            },
            Kind::Synth(_) => match header.expected_records {
                Some(records) if records.saturating_mul(BYTES_PER_RECORD) <= room => {
                    let mut watched = Watched::new(self.source()?, "generating", None, monitor);
                    let trace = MemTrace::capture(&mut watched)?;
                    monitor.check()?;
                    trace
                }
                _ => return Ok(self),
            },
            Kind::Memory(_) => return Ok(self),
        };
        Ok(Self { kind: Kind::Memory(trace), ..self })
    }
}

fn find_file(name: &str) -> Result<Kind, StudyError> {
    let path = PathBuf::from(name);
    match path.metadata() {
        Ok(meta) if meta.is_dir() => {
            Err(StudyError::failed(format!("{name} is a folder"), "name a trace file"))
        }
        Ok(_) => Ok(Kind::File(path)),
        Err(error) => {
            let first = name.split(':').next().unwrap_or_default();
            Err(match frostline_workloads::generator(first) {
                Some(_) => StudyError::usage(
                    format!("there is no trace file {name}"),
                    format!("for a generated trace write synth:{name}"),
                ),
                None => StudyError::failed(
                    format!("cannot read {name}: {error}"),
                    "record a program with `frostline record -o FILE -- PROGRAM`, \
                     or generate accesses with synth:zipf",
                ),
            })
        }
    }
}

/// A pass over a trace that a monitor hears of. It ends early where the monitor says so; the caller
/// then finds out by [`Monitor::check`].
pub struct Watched<'a> {
    inner: Box<dyn TraceSource + Send>,
    monitor: &'a dyn Monitor,
    pass: Box<dyn Pass + 'a>,
    records: u64,
}

impl<'a> Watched<'a> {
    /// A pass called `what`. Without `total` the header's number is taken, if it has one.
    pub fn new(
        inner: Box<dyn TraceSource + Send>,
        what: &str,
        total: Option<u64>,
        monitor: &'a dyn Monitor,
    ) -> Self {
        let total = total.or(inner.header().expected_records);
        Self { inner, monitor, pass: monitor.pass(what, "accesses", total), records: 0 }
    }
}

impl TraceSource for Watched<'_> {
    fn header(&self) -> &TraceHeader {
        self.inner.header()
    }
    fn want(&mut self, want: Want) {
        self.inner.want(want);
    }
    fn warning(&self) -> Option<String> {
        self.inner.warning()
    }
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        if self.monitor.stops() {
            batch.clear();
            return Ok(false);
        }
        let more = self.inner.next_batch(batch)?;
        self.records += batch.len() as u64;
        if self.records >= 1 << 18 {
            self.pass.advance(std::mem::take(&mut self.records));
        }
        Ok(more)
    }
}
