//! Import: the reader of the two files.

use crate::files::{EVENTS_KEY, HEADER_KEY, events_path};
use crate::table::Table;
use frostline_core::types::AccessKind;
use frostline_trace::info::kind_name;
use frostline_trace::native::decode_event;
use frostline_trace::{BLOCK_RECORDS, Batch, TimedEvent, TraceError, TraceHeader, TraceSource};
use std::collections::VecDeque;
use std::path::Path;

/// A trace in Parquet files, with what [`crate::export`] writes or at least `clock`, `page` and
/// `kind`. Holds one row group at a time.
pub struct ParquetSource {
    header: TraceHeader,
    accesses: Accesses,
    events: Option<Events>,
    clock: u64,
    held_back: Option<TraceError>,
    done: bool,
}

impl std::fmt::Debug for ParquetSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParquetSource").field("header", &self.header).finish_non_exhaustive()
    }
}

impl ParquetSource {
    /// Opens `path` and, where it was exported with events, the file beside it.
    ///
    /// # Errors
    /// Where a file cannot be opened, is no Parquet, lacks a column that is needed, or where
    /// events belong to it and their file is missing.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TraceError> {
        let path = path.as_ref();
        let accesses = Accesses::open(Table::open(path)?)?;
        let table = &accesses.table;
        let header = match table.metadata(HEADER_KEY) {
            Some(json) => serde_json::from_str(json)
                .map_err(|error| table.foreign(&format!("its trace header is damaged: {error}")))?,
            None => TraceHeader::named(path.display().to_string()),
        };
        let events = match table.metadata(EVENTS_KEY).map(str::parse::<u64>) {
            None => None,
            Some(Ok(count)) => Some(Events::open(Table::open(&events_path(path))?, count)?),
            Some(Err(_)) => return Err(table.foreign("its number of events is damaged")),
        };
        Ok(Self { header, accesses, events, clock: 0, held_back: None, done: false })
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<(), TraceError> {
        let next = self.accesses.peek()?.map(|row| row.record);
        if let Some(events) = &mut self.events {
            events.take_until(next, &mut batch.events)?;
        }
        let limit = match &mut self.events {
            Some(events) => events.peek()?,
            None => None,
        };
        let (mut kinds, mut streams) = (Vec::new(), Vec::new());
        let (mut deltas, mut lines) = (Vec::new(), Vec::new());
        while batch.pages.len() < BLOCK_RECORDS {
            let Some(row) = self.accesses.peek()? else { break };
            if limit.is_some_and(|limit| row.record >= limit) {
                break;
            }
            let mut elapsed = row.clock.checked_sub(self.clock).ok_or_else(|| {
                let record = row.record;
                self.accesses.table.foreign(&format!(
                    "the clock goes back at record {record}\nhint: order the rows by record"
                ))
            })?;
            if elapsed > u64::from(u32::MAX) {
                if !batch.pages.is_empty() {
                    break;
                }
                batch.clock_start = row.clock;
                elapsed = 0;
            }
            self.clock = row.clock;
            batch.pages.push(row.page);
            kinds.push(row.kind);
            streams.push(row.stream);
            deltas.push(elapsed as u32);
            lines.push(row.line);
            self.accesses.advance();
        }
        *batch.kinds.values_mut() = kinds;
        *batch.streams.values_mut() = streams;
        *batch.clock_deltas.values_mut() = deltas;
        *batch.lines.values_mut() = lines;
        batch.clock_end = self.clock;
        Ok(())
    }
}

impl TraceSource for ParquetSource {
    fn header(&self) -> &TraceHeader {
        &self.header
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
        if let Err(error) = self.fill(batch) {
            self.done = true;
            // Columns are set together with the pages, or not at all; so no time passes, either.
            batch.pages.clear();
            batch.clock_start = batch.clock_end;
            if batch.events.is_empty() {
                return Err(error);
            }
            self.held_back = Some(error);
            return Ok(true);
        }
        self.done = batch.is_empty() && batch.events.is_empty();
        Ok(!self.done)
    }
}

#[derive(Clone, Copy)]
struct Row {
    record: u64,
    clock: u64,
    page: u32,
    kind: u32,
    stream: u32,
    line: u32,
}

/// Columns of the current row group; those that are not in the file stay empty.
#[derive(Default)]
struct AccessRows {
    record: Vec<u64>,
    clock: Vec<u64>,
    page: Vec<u64>,
    kind: Vec<u64>,
    stream: Vec<u64>,
    line: Vec<u64>,
}

struct Accesses {
    table: Table,
    clock: usize,
    page: usize,
    kind: usize,
    record: Option<usize>,
    stream: Option<usize>,
    line: Option<usize>,
    next_group: usize,
    rows: AccessRows,
    pos: usize,
    /// Rows passed, and the smallest number that the next record may have.
    passed: u64,
    least: u64,
}

impl Accesses {
    fn open(table: Table) -> Result<Self, TraceError> {
        Ok(Self {
            clock: table.needed("clock")?,
            page: table.needed("page")?,
            kind: table.needed("kind")?,
            record: table.column("record"),
            stream: table.column("stream"),
            line: table.column("line"),
            next_group: 0,
            rows: AccessRows::default(),
            pos: 0,
            passed: 0,
            least: 0,
            table,
        })
    }

    fn peek(&mut self) -> Result<Option<Row>, TraceError> {
        while self.pos == self.rows.clock.len() {
            if self.next_group == self.table.groups() {
                return Ok(None);
            }
            self.load()?;
        }
        let (i, rows) = (self.pos, &self.rows);
        let narrow = |column: &[u64], name: &str, most: u32| {
            let value = column.get(i).copied().unwrap_or(0);
            u32::try_from(value).ok().filter(|v| *v <= most).ok_or_else(|| {
                self.table.foreign(&format!("row {}: {name} {value} is out of range", self.passed))
            })
        };
        let record = rows.record.get(i).copied().unwrap_or(self.passed);
        if record < self.least {
            return Err(self.table.foreign(&format!(
                "row {}: record {record} comes after record {}\nhint: order the rows by record",
                self.passed,
                self.least - 1
            )));
        }
        Ok(Some(Row {
            record,
            clock: rows.clock[i],
            page: narrow(&rows.page, "page", u32::MAX)?,
            kind: narrow(&rows.kind, "kind", 3)?,
            stream: narrow(&rows.stream, "stream", u32::MAX)?,
            line: narrow(&rows.line, "line", 63)?,
        }))
    }

    /// Passes the row that was peeked at.
    fn advance(&mut self) {
        self.least = self.rows.record.get(self.pos).map_or(0, |record| record.saturating_add(1));
        self.pos += 1;
        self.passed += 1;
    }

    fn load(&mut self) -> Result<(), TraceError> {
        let (table, group) = (&self.table, self.next_group);
        let optional = |column: Option<usize>| match column {
            Some(column) => table.numbers(group, column),
            None => Ok(Vec::new()),
        };
        let rows = AccessRows {
            record: optional(self.record)?,
            clock: table.numbers(group, self.clock)?,
            page: table.numbers(group, self.page)?,
            kind: kinds(table, group, self.kind)?,
            stream: optional(self.stream)?,
            line: optional(self.line)?,
        };
        let len = rows.clock.len();
        let same = |column: &[u64], there: bool| !there || column.len() == len;
        let all = same(&rows.page, true)
            && same(&rows.kind, true)
            && same(&rows.record, self.record.is_some())
            && same(&rows.stream, self.stream.is_some())
            && same(&rows.line, self.line.is_some());
        if !all {
            return Err(table.foreign("its columns differ in length"));
        }
        self.rows = rows;
        self.pos = 0;
        self.next_group += 1;
        Ok(())
    }
}

/// Kinds by name or by code.
fn kinds(table: &Table, group: usize, column: usize) -> Result<Vec<u64>, TraceError> {
    if !table.is_bytes(column) {
        return table.numbers(group, column);
    }
    let code = |name: &parquet::data_type::ByteArray| {
        (0..4).find(|code| kind_name(AccessKind::from_bits(*code)).as_bytes() == name.data())
    };
    let names = table.bytes(group, column)?;
    let unknown = |name: &parquet::data_type::ByteArray| {
        let name = String::from_utf8_lossy(name.data()).into_owned();
        table.foreign(&format!("unknown kind `{name}`; known: load, store, fetch, write_back"))
    };
    names.iter().map(|name| code(name).map(u64::from).ok_or_else(|| unknown(name))).collect()
}

struct Events {
    table: Table,
    columns: [usize; 3],
    next_group: usize,
    queue: VecDeque<(u64, TimedEvent)>,
    left: u64,
}

impl Events {
    fn open(table: Table, count: u64) -> Result<Self, TraceError> {
        let columns = [table.needed("record")?, table.needed("clock")?, table.needed("encoded")?];
        Ok(Self { table, columns, next_group: 0, queue: VecDeque::new(), left: count })
    }

    /// Number of the record in front of which the next event lies.
    fn peek(&mut self) -> Result<Option<u64>, TraceError> {
        while self.queue.is_empty() {
            if self.next_group == self.table.groups() {
                let path = self.table.path().display();
                return match self.left {
                    0 => Ok(None),
                    left => {
                        Err(self.table.foreign(&format!("{left} events are missing in {path}")))
                    }
                };
            }
            self.load()?;
        }
        Ok(self.queue.front().map(|(record, _)| *record))
    }

    /// Moves the events in front of record `next` (all, where it is `None`) to `out`.
    fn take_until(
        &mut self,
        next: Option<u64>,
        out: &mut Vec<TimedEvent>,
    ) -> Result<(), TraceError> {
        while let Some(at) = self.peek()?
            && next.is_none_or(|next| at <= next)
        {
            if let Some((_, event)) = self.queue.pop_front() {
                out.push(event);
            }
        }
        Ok(())
    }

    fn load(&mut self) -> Result<(), TraceError> {
        let [record, clock, encoded] = self.columns;
        let (table, group) = (&self.table, self.next_group);
        let records = table.numbers(group, record)?;
        let clocks = table.numbers(group, clock)?;
        let encoded = table.bytes(group, encoded)?;
        if records.len() != clocks.len() || records.len() != encoded.len() {
            return Err(table.foreign("its columns differ in length"));
        }
        for ((record, clock), bytes) in records.into_iter().zip(clocks).zip(encoded) {
            let event = decode_event(bytes.data()).map_err(|what| {
                table.foreign(&format!("the event in front of record {record} is damaged: {what}"))
            })?;
            self.queue.push_back((record, TimedEvent { clock, event }));
        }
        self.left = self
            .left
            .checked_sub(self.queue.len() as u64)
            .ok_or_else(|| table.foreign("more events than the accesses' file says"))?;
        self.next_group += 1;
        Ok(())
    }
}
