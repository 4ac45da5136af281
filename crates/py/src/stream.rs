//! Accesses of a trace as record batches of Arrow.

use arrow_array::{ArrayRef, RecordBatch, RecordBatchReader, UInt8Array, UInt32Array, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use frostline_trace::batch::Want;
use frostline_trace::{BLOCK_RECORDS, Batch, Column, TraceSource};
use std::sync::Arc;

/// Records of a batch, but for the last one: some megabytes, which stay in a cache.
const RECORDS: usize = 1 << 16;

/// Reader of a trace, batch by batch.
pub struct Records {
    source: Box<dyn TraceSource + Send>,
    schema: SchemaRef,
    batch: Batch,
    ended: bool,
}

/// Columns of a batch that is being filled.
struct Columns {
    pages: Vec<u32>,
    kinds: Vec<u8>,
    streams: Vec<u32>,
    clocks: Vec<u64>,
}

impl Records {
    /// Reads on from where the source is.
    pub fn new(mut source: Box<dyn TraceSource + Send>) -> Self {
        source.want(Want { clock_deltas: true, lines: false });
        let field = |name: &str, of: DataType| Field::new(name, of, false);
        let schema = Schema::new(vec![
            field("page", DataType::UInt32),
            field("kind", DataType::UInt8),
            field("stream", DataType::UInt32),
            field("clock", DataType::UInt64),
        ]);
        Self { source, schema: Arc::new(schema), batch: Batch::new(), ended: false }
    }

    fn read(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let mut columns = Columns::new();
        while columns.pages.len() + BLOCK_RECORDS <= RECORDS {
            let more = self.source.next_batch(&mut self.batch);
            if !more.map_err(|error| ArrowError::ExternalError(Box::new(error)))? {
                self.ended = true;
                break;
            }
            columns.push(&self.batch);
        }
        match columns.pages.is_empty() {
            true => Ok(None),
            false => RecordBatch::try_new(Arc::clone(&self.schema), columns.arrays()).map(Some),
        }
    }
}

impl Columns {
    fn new() -> Self {
        Self {
            pages: Vec::with_capacity(RECORDS),
            kinds: Vec::with_capacity(RECORDS),
            streams: Vec::with_capacity(RECORDS),
            clocks: Vec::with_capacity(RECORDS),
        }
    }

    fn push(&mut self, batch: &Batch) {
        let len = batch.len();
        self.pages.extend_from_slice(&batch.pages);
        match batch.kinds.constant() {
            Some(kind) => self.kinds.resize(self.kinds.len() + len, kind as u8),
            None => self.kinds.extend(batch.kinds.values().iter().map(|kind| *kind as u8)),
        }
        match batch.streams.constant() {
            Some(stream) => self.streams.resize(self.streams.len() + len, stream),
            None => self.streams.extend_from_slice(batch.streams.values()),
        }
        let mut clock = batch.clock_start;
        let mut after = |delta: u32| {
            clock = clock.saturating_add(delta.into());
            clock
        };
        let deltas: &Column = &batch.clock_deltas;
        match deltas.constant() {
            Some(delta) => self.clocks.extend((0..len).map(|_| after(delta))),
            None => self.clocks.extend(deltas.values().iter().map(|delta| after(*delta))),
        }
    }

    fn arrays(self) -> Vec<ArrayRef> {
        vec![
            Arc::new(UInt32Array::from(self.pages)),
            Arc::new(UInt8Array::from(self.kinds)),
            Arc::new(UInt32Array::from(self.streams)),
            Arc::new(UInt64Array::from(self.clocks)),
        ]
    }
}

impl Iterator for Records {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let read = self.read();
        // After an error there is nothing more.
        self.ended |= read.is_err();
        read.transpose()
    }
}

impl RecordBatchReader for Records {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
