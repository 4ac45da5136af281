//! Events of a trace as record batches of Arrow.

use arrow_array::{
    ArrayRef, RecordBatch, RecordBatchReader, StringArray, UInt32Array, UInt64Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use frostline_trace::batch::Want;
use frostline_trace::{Batch, Fields, TraceSource};
use std::sync::Arc;

/// Events of a batch, but for the last one, at least.
const EVENTS: usize = 1 << 12;

/// Reader of the events of a trace, which passes over its accesses.
pub struct Events {
    source: Box<dyn TraceSource + Send>,
    schema: SchemaRef,
    batch: Batch,
    /// Accesses so far.
    records: u64,
    ended: bool,
}

#[derive(Default)]
struct Columns {
    records: Vec<u64>,
    clocks: Vec<u64>,
    kinds: Vec<&'static str>,
    processes: Vec<Option<u32>>,
    streams: Vec<Option<u32>>,
    files: Vec<Option<u32>>,
    starts: Vec<Option<u64>>,
    lengths: Vec<Option<u64>>,
    texts: Vec<Option<String>>,
}

impl Events {
    /// Reads on from where the source is.
    pub fn new(mut source: Box<dyn TraceSource + Send>) -> Self {
        source.want(Want { clock_deltas: false, lines: false });
        let always = |name: &str, of: DataType| Field::new(name, of, false);
        let some = |name: &str, of: DataType| Field::new(name, of, true);
        let schema = Schema::new(vec![
            always("record", DataType::UInt64),
            always("clock", DataType::UInt64),
            always("kind", DataType::Utf8),
            some("process", DataType::UInt32),
            some("stream", DataType::UInt32),
            some("file", DataType::UInt32),
            some("start", DataType::UInt64),
            some("len_bytes", DataType::UInt64),
            some("text", DataType::Utf8),
        ]);
        let schema = Arc::new(schema);
        Self { source, schema, batch: Batch::new(), records: 0, ended: false }
    }

    fn read(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let mut columns = Columns::default();
        while columns.clocks.len() < EVENTS {
            let more = self.source.next_batch(&mut self.batch);
            if !more.map_err(|error| ArrowError::ExternalError(Box::new(error)))? {
                self.ended = true;
                break;
            }
            columns.push(&self.batch, self.records);
            self.records += self.batch.len() as u64;
        }
        match columns.clocks.is_empty() {
            true => Ok(None),
            false => RecordBatch::try_new(Arc::clone(&self.schema), columns.arrays()).map(Some),
        }
    }
}

impl Columns {
    /// `records` accesses came before the batch.
    fn push(&mut self, batch: &Batch, records: u64) {
        for event in &batch.events {
            let Fields { process, stream, file, start, len_bytes, text } = Fields::of(&event.event);
            self.records.push(records);
            self.clocks.push(event.clock);
            self.kinds.push(event.event.name());
            self.processes.push(process);
            self.streams.push(stream);
            self.files.push(file);
            self.starts.push(start);
            self.lengths.push(len_bytes);
            self.texts.push(text.map(str::to_owned));
        }
    }

    fn arrays(self) -> Vec<ArrayRef> {
        vec![
            Arc::new(UInt64Array::from(self.records)),
            Arc::new(UInt64Array::from(self.clocks)),
            Arc::new(StringArray::from(self.kinds)),
            Arc::new(UInt32Array::from(self.processes)),
            Arc::new(UInt32Array::from(self.streams)),
            Arc::new(UInt32Array::from(self.files)),
            Arc::new(UInt64Array::from(self.starts)),
            Arc::new(UInt64Array::from(self.lengths)),
            Arc::new(StringArray::from(self.texts)),
        ]
    }
}

impl Iterator for Events {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        self.read().transpose()
    }
}

impl RecordBatchReader for Events {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
