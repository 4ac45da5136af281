//! Batches made of single accesses and events.

use crate::batch::{BLOCK_RECORDS, Batch, TraceSource};
use crate::error::TraceError;
use crate::event::{StreamId, TimedEvent};
use crate::header::TraceHeader;
use frostline_core::types::{AccessKind, PageId};

/// A batch without accesses is handed out at this many events.
const EVENTS_PER_BATCH: usize = 4096;

/// One access, on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// In the header's [`crate::header::ClockUnit`]; one below its predecessor's counts as equal
    /// to it.
    pub clock: u64,
    /// The page.
    pub page: PageId,
    /// What was done.
    pub kind: AccessKind,
    /// The thread.
    pub stream: StreamId,
    /// 64-byte line inside the page, `0..64`; 0 where unknown.
    pub line: u8,
}

/// What a trace consists of.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// Everything but accesses.
    Event(TimedEvent),
    /// An access.
    Access(Access),
}

/// Reads a foreign format, one item after the other.
pub trait Feed {
    /// The next item; `None` at the end.
    ///
    /// # Errors
    /// Where the input makes no sense or cannot be read. It is not called again after that.
    fn next_item(&mut self) -> Result<Option<Item>, TraceError>;

    /// What a user should be told once all was read: what was left out, and what the records are.
    fn warning(&self) -> Option<String> {
        None
    }
}

/// A [`Feed`] as a trace.
///
/// An error of the feed is given out after everything in front of it.
#[derive(Debug)]
pub struct Batches<F> {
    header: TraceHeader,
    feed: F,
    /// Taken from the feed, but the batch was closed in front of it.
    waiting: Option<Item>,
    clock: u64,
    done: bool,
    held_back: Option<TraceError>,
}

impl<F: Feed> Batches<F> {
    /// A trace with this header.
    pub fn from_feed(header: TraceHeader, feed: F) -> Self {
        Self { header, feed, waiting: None, clock: 0, done: false, held_back: None }
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<(), TraceError> {
        let mut columns = [const { Vec::<u32>::new() }; 4];
        let mut result = Ok(());
        while batch.pages.len() < BLOCK_RECORDS {
            let next = match self.waiting.take() {
                Some(item) => Ok(Some(item)),
                None => self.feed.next_item(),
            };
            let access = match next {
                Ok(Some(Item::Access(access))) => access,
                Ok(Some(Item::Event(event))) if batch.pages.is_empty() => {
                    batch.events.push(event);
                    if batch.events.len() == EVENTS_PER_BATCH {
                        break;
                    }
                    continue;
                }
                Ok(Some(event)) => {
                    self.waiting = Some(event);
                    break;
                }
                Ok(None) => {
                    self.done = true;
                    break;
                }
                Err(error) => {
                    result = Err(error);
                    break;
                }
            };
            let mut elapsed = access.clock.saturating_sub(self.clock);
            if elapsed > u64::from(u32::MAX) && !batch.pages.is_empty() {
                self.waiting = Some(Item::Access(access));
                break;
            }
            if batch.pages.is_empty() {
                if elapsed > u64::from(u32::MAX) {
                    self.clock = access.clock;
                    elapsed = 0;
                }
                batch.clock_start = self.clock;
            }
            self.clock += elapsed;
            batch.pages.push(access.page.0);
            let line = u32::from(access.line % 64);
            let values = [access.kind as u32, access.stream.0, elapsed as u32, line];
            columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
        }
        let [kinds, streams, clock_deltas, lines] = columns;
        *batch.kinds.values_mut() = kinds;
        *batch.streams.values_mut() = streams;
        *batch.clock_deltas.values_mut() = clock_deltas;
        *batch.lines.values_mut() = lines;
        batch.clock_end = self.clock;
        result
    }
}

impl<F: Feed> TraceSource for Batches<F> {
    fn header(&self) -> &TraceHeader {
        &self.header
    }

    fn warning(&self) -> Option<String> {
        self.feed.warning()
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.clear();
        batch.clock_start = self.clock;
        batch.clock_end = self.clock;
        if let Some(error) = self.held_back.take() {
            return Err(error);
        }
        if self.done {
            return Ok(false);
        }
        let filled = self.fill(batch);
        let holds_something = !(batch.is_empty() && batch.events.is_empty());
        if let Err(error) = filled {
            self.done = true;
            if !holds_something {
                return Err(error);
            }
            // What stands in front of it is good.
            self.held_back = Some(error);
        }
        Ok(holds_something)
    }
}

/// Helps tests of importers.
#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// Events by name, accesses as `clock page kind stream line`, and how it ended.
    pub fn read(source: &mut dyn TraceSource) -> (Vec<String>, Result<(), TraceError>) {
        let (mut batch, mut found) = (Batch::new(), Vec::new());
        loop {
            match source.next_batch(&mut batch) {
                Ok(true) => {}
                Ok(false) => return (found, Ok(())),
                Err(error) => return (found, Err(error)),
            }
            found.extend(batch.events.iter().map(|e| e.event.name().to_owned()));
            let mut clock = batch.clock_start;
            for (i, page) in batch.pages.iter().enumerate() {
                clock += u64::from(batch.clock_deltas.get(i));
                let (kind, stream) = (batch.kind(i), batch.streams.get(i));
                found.push(format!("{clock} {page} {kind:?} {stream} {}", batch.lines.get(i)));
            }
            assert_eq!(clock, batch.clock_end);
        }
    }
}
