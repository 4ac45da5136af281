//! Record batches of Arrow that are filled from a trace as they are asked for.

use arrow_array::{ArrayRef, RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use frostline_trace::batch::Want;
use frostline_trace::{Batch, TraceSource};
use std::marker::PhantomData;
use std::sync::Arc;

/// Columns that are being filled.
pub trait Columns: Default {
    /// What of the accesses they take.
    const WANT: Want;

    /// Their names and types.
    fn schema() -> Schema;

    /// Takes a batch of a trace; `records` accesses came before it.
    fn push(&mut self, batch: &Batch, records: u64);

    /// Rows so far.
    fn len(&self) -> usize;

    /// Whether another batch of a trace may be too much.
    fn is_full(&self) -> bool;

    /// The columns, in the order of the schema.
    fn arrays(self) -> Vec<ArrayRef>;
}

/// Reader of a trace, batch by batch.
pub struct Stream<C> {
    source: Box<dyn TraceSource + Send>,
    schema: SchemaRef,
    batch: Batch,
    /// Accesses so far.
    records: u64,
    ended: bool,
    columns: PhantomData<fn() -> C>,
}

impl<C: Columns> Stream<C> {
    /// Reads on from where the source is.
    pub fn new(mut source: Box<dyn TraceSource + Send>) -> Self {
        source.want(C::WANT);
        let (schema, batch) = (Arc::new(C::schema()), Batch::new());
        Self { source, schema, batch, records: 0, ended: false, columns: PhantomData }
    }

    fn read(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let mut columns = C::default();
        while !columns.is_full() {
            let more = self.source.next_batch(&mut self.batch);
            if !more.map_err(|error| ArrowError::ExternalError(Box::new(error)))? {
                self.ended = true;
                break;
            }
            columns.push(&self.batch, self.records);
            self.records += self.batch.len() as u64;
        }
        match columns.len() {
            0 => Ok(None),
            _ => RecordBatch::try_new(Arc::clone(&self.schema), columns.arrays()).map(Some),
        }
    }
}

impl<C: Columns> Iterator for Stream<C> {
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

impl<C: Columns> RecordBatchReader for Stream<C> {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
