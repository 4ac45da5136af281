//! Export: the writer of the two files.

use crate::files::{
    ACCESSES_SCHEMA, EVENTS_KEY, EVENTS_SCHEMA, HEADER_KEY, events_path, io_error, parquet_error,
};
use frostline_trace::batch::Want;
use frostline_trace::event::TraceEvent;
use frostline_trace::info::kind_name;
use frostline_trace::native::encode_event;
use frostline_trace::{Batch, Fields, TimedEvent, TraceError, TraceHeader, TraceSource};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows per row group: some 4 MiB compressed, and what a reader holds at once.
const GROUP_ROWS: usize = 1 << 20;
const EVENT_GROUP_ROWS: usize = 1 << 16;
const EVENT_GROUP_BYTES: usize = 16 << 20;

/// What [`export`] wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// Rows of the file that was named.
    pub records: u64,
    /// Rows of the file beside it.
    pub events: u64,
    /// The file beside it.
    pub events_path: PathBuf,
}

/// Reads `source` to its end and writes `path` and the events' file beside it, compressed with
/// zstd level 3. `progress` is told the number of records now and then, and stops the export by
/// returning false: the files are then complete, with what was read.
///
/// # Errors
/// Those of the source, and where a file cannot be written. What is left then is no Parquet file.
pub fn export(
    source: &mut dyn TraceSource,
    path: &Path,
    mut progress: impl FnMut(u64) -> bool,
) -> std::result::Result<Exported, TraceError> {
    source.want(Want { clock_deltas: true, lines: true });
    let events_path = events_path(path);
    let mut accesses = Accesses::new(Output::create(path, ACCESSES_SCHEMA, source.header())?);
    let mut events = Events::new(Output::create(&events_path, EVENTS_SCHEMA, source.header())?);
    let mut names = Names::default();
    let mut batch = Batch::new();
    while source.next_batch(&mut batch)? {
        for event in &batch.events {
            names.learn(&event.event);
            events.push(accesses.records, event)?;
        }
        if accesses.push(&batch, &mut names)? && !progress(accesses.records) {
            break;
        }
    }
    let (records, events) = (accesses.records, events.close()?);
    accesses.close(events)?;
    progress(records);
    Ok(Exported { records, events, events_path })
}

/// What events told about ids.
#[derive(Default)]
struct Names {
    /// Region to virtual page number of its first page.
    regions: HashMap<u32, u64>,
    /// Stream to process and tid.
    threads: HashMap<u32, (u32, u32)>,
    recent: Option<(u32, Option<u64>)>,
}

impl Names {
    fn learn(&mut self, event: &TraceEvent) {
        match event {
            TraceEvent::RegionNamed { region, huge_vpn, .. } => {
                self.regions.insert(region.0, huge_vpn << 9);
                self.recent = None;
            }
            TraceEvent::Thread { stream, process, tid } => {
                self.threads.insert(stream.0, (process.0, *tid));
            }
            _ => {}
        }
    }

    fn vpn(&mut self, page: u32) -> Option<u64> {
        let region = page >> 9;
        let base = match self.recent {
            Some((recent, base)) if recent == region => base,
            _ => {
                let base = self.regions.get(&region).copied();
                self.recent = Some((region, base));
                base
            }
        };
        base.map(|base| base + u64::from(page & 511))
    }
}

/// One file being written.
struct Output {
    path: PathBuf,
    writer: SerializedFileWriter<File>,
}

impl Output {
    fn create(
        path: &Path,
        schema: &str,
        header: &TraceHeader,
    ) -> std::result::Result<Self, TraceError> {
        let file = File::create(path).map_err(|error| io_error(path, "create", error))?;
        let build = || -> Result<SerializedFileWriter<File>> {
            let schema = Arc::new(parse_message_type(schema)?);
            let json = serde_json::to_string(header)
                .map_err(|error| ParquetError::External(Box::new(error)))?;
            let mut properties = WriterProperties::builder()
                .set_created_by(concat!("frostline ", env!("CARGO_PKG_VERSION")).to_owned())
                .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
                .set_key_value_metadata(Some(vec![KeyValue::new(HEADER_KEY.to_owned(), json)]));
            for column in schema.get_fields() {
                let name = ColumnPath::from(column.name());
                let number = column.get_physical_type() != parquet::basic::Type::BYTE_ARRAY;
                properties =
                    properties.set_column_dictionary_enabled(name.clone(), column.name() == "kind");
                if number {
                    properties =
                        properties.set_column_encoding(name, Encoding::DELTA_BINARY_PACKED);
                }
            }
            SerializedFileWriter::new(file, schema, Arc::new(properties.build()))
        };
        match build() {
            Ok(writer) => Ok(Self { path: path.to_owned(), writer }),
            Err(error) => Err(parquet_error(path, "write", error)),
        }
    }

    fn group(
        &mut self,
        write: impl FnOnce(&mut SerializedRowGroupWriter<'_, File>) -> Result<()>,
    ) -> std::result::Result<(), TraceError> {
        let path = &self.path;
        let writer = &mut self.writer;
        let written = writer.next_row_group().and_then(|mut group| {
            write(&mut group)?;
            group.close().map(drop)
        });
        written.map_err(|error| parquet_error(path, "write", error))
    }

    fn close(self) -> std::result::Result<(), TraceError> {
        let path = self.path;
        self.writer.close().map(drop).map_err(|error| parquet_error(&path, "write", error))
    }
}

/// Values of a nullable column, and for each row whether there is one.
#[derive(Default)]
struct Nullable<T> {
    values: Vec<T>,
    levels: Vec<i16>,
}

impl<T> Nullable<T> {
    fn push(&mut self, value: Option<T>) {
        self.levels.push(value.is_some().into());
        self.values.extend(value);
    }
}

fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<()> {
    let mut column = group
        .next_column()?
        .ok_or_else(|| ParquetError::General("more columns than the schema has".to_owned()))?;
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}

fn nullable<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    column_values: &Nullable<T::T>,
) -> Result<()> {
    column::<T>(group, &column_values.values, Some(&column_values.levels))
}

/// Rows of the accesses' file. Parquet's unsigned numbers are the bits of its signed ones.
#[derive(Default)]
struct AccessRows {
    record: Vec<i64>,
    clock: Vec<i64>,
    page: Vec<i32>,
    vpn: Nullable<i64>,
    kind: Vec<ByteArray>,
    process: Nullable<i32>,
    stream: Vec<i32>,
    tid: Nullable<i32>,
    line: Vec<i32>,
}

struct Accesses {
    output: Output,
    rows: AccessRows,
    kinds: [ByteArray; 4],
    records: u64,
}

impl Accesses {
    fn new(output: Output) -> Self {
        let kinds = [0, 1, 2, 3].map(|code| {
            ByteArray::from(kind_name(frostline_core::types::AccessKind::from_bits(code)))
        });
        Self { output, rows: AccessRows::default(), kinds, records: 0 }
    }

    /// True where a row group was written.
    fn push(&mut self, batch: &Batch, names: &mut Names) -> std::result::Result<bool, TraceError> {
        let rows = &mut self.rows;
        let mut clock = batch.clock_start;
        for (i, page) in batch.pages.iter().enumerate() {
            clock = clock.saturating_add(batch.clock_deltas.get(i).into());
            let stream = batch.streams.get(i);
            let thread = names.threads.get(&stream).copied();
            rows.record.push(self.records as i64);
            rows.clock.push(clock as i64);
            rows.page.push(*page as i32);
            rows.vpn.push(names.vpn(*page).map(|vpn| vpn as i64));
            rows.kind.push(self.kinds[batch.kind(i) as usize].clone());
            rows.process.push(thread.map(|(process, _)| process as i32));
            rows.stream.push(stream as i32);
            rows.tid.push(thread.map(|(_, tid)| tid as i32));
            rows.line.push(batch.lines.get(i) as i32);
            self.records += 1;
        }
        let full = self.rows.record.len() >= GROUP_ROWS;
        if full {
            self.write()?;
        }
        Ok(full)
    }

    fn write(&mut self) -> std::result::Result<(), TraceError> {
        let rows = std::mem::take(&mut self.rows);
        if rows.record.is_empty() {
            return Ok(());
        }
        self.output.group(|group| {
            column::<Int64Type>(group, &rows.record, None)?;
            column::<Int64Type>(group, &rows.clock, None)?;
            column::<Int32Type>(group, &rows.page, None)?;
            nullable::<Int64Type>(group, &rows.vpn)?;
            column::<ByteArrayType>(group, &rows.kind, None)?;
            nullable::<Int32Type>(group, &rows.process)?;
            column::<Int32Type>(group, &rows.stream, None)?;
            nullable::<Int32Type>(group, &rows.tid)?;
            column::<Int32Type>(group, &rows.line, None)
        })
    }

    fn close(mut self, events: u64) -> std::result::Result<(), TraceError> {
        self.write()?;
        let count = KeyValue::new(EVENTS_KEY.to_owned(), events.to_string());
        self.output.writer.append_key_value_metadata(count);
        self.output.close()
    }
}

#[derive(Default)]
struct EventRows {
    record: Vec<i64>,
    clock: Vec<i64>,
    kind: Vec<ByteArray>,
    process: Nullable<i32>,
    stream: Nullable<i32>,
    file: Nullable<i32>,
    start: Nullable<i64>,
    len_bytes: Nullable<i64>,
    text: Nullable<ByteArray>,
    encoded: Vec<ByteArray>,
    encoded_bytes: usize,
}

struct Events {
    output: Output,
    rows: EventRows,
    count: u64,
}

impl Events {
    fn new(output: Output) -> Self {
        Self { output, rows: EventRows::default(), count: 0 }
    }

    fn push(&mut self, record: u64, event: &TimedEvent) -> std::result::Result<(), TraceError> {
        let rows = &mut self.rows;
        let readable = Fields::of(&event.event);
        let mut encoded = Vec::new();
        encode_event(&mut encoded, &event.event);
        rows.encoded_bytes += encoded.len();
        rows.record.push(record as i64);
        rows.clock.push(event.clock as i64);
        rows.kind.push(ByteArray::from(event.event.name()));
        rows.process.push(readable.process.map(|v| v as i32));
        rows.stream.push(readable.stream.map(|v| v as i32));
        rows.file.push(readable.file.map(|v| v as i32));
        rows.start.push(readable.start.map(|v| v as i64));
        rows.len_bytes.push(readable.len_bytes.map(|v| v as i64));
        rows.text.push(readable.text.map(ByteArray::from));
        rows.encoded.push(ByteArray::from(encoded));
        self.count += 1;
        let full = rows.record.len() >= EVENT_GROUP_ROWS || rows.encoded_bytes >= EVENT_GROUP_BYTES;
        if full { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> std::result::Result<(), TraceError> {
        let rows = std::mem::take(&mut self.rows);
        if rows.record.is_empty() {
            return Ok(());
        }
        self.output.group(|group| {
            column::<Int64Type>(group, &rows.record, None)?;
            column::<Int64Type>(group, &rows.clock, None)?;
            column::<ByteArrayType>(group, &rows.kind, None)?;
            nullable::<Int32Type>(group, &rows.process)?;
            nullable::<Int32Type>(group, &rows.stream)?;
            nullable::<Int32Type>(group, &rows.file)?;
            nullable::<Int64Type>(group, &rows.start)?;
            nullable::<Int64Type>(group, &rows.len_bytes)?;
            nullable::<ByteArrayType>(group, &rows.text)?;
            column::<ByteArrayType>(group, &rows.encoded, None)
        })
    }

    fn close(mut self) -> std::result::Result<u64, TraceError> {
        self.write()?;
        self.output.close()?;
        Ok(self.count)
    }
}
