//! Accesses of a trace as columns of Arrow.

use crate::stream::Columns;
use arrow_array::{ArrayRef, UInt8Array, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use frostline_trace::batch::Want;
use frostline_trace::{BLOCK_RECORDS, Batch, Column};
use std::sync::Arc;

/// Records of a batch, but for the last one: some megabytes, which stay in a cache.
const RECORDS: usize = 1 << 16;

/// Page, kind, thread and clock of each.
pub struct Accesses {
    pages: Vec<u32>,
    kinds: Vec<u8>,
    streams: Vec<u32>,
    clocks: Vec<u64>,
}

impl Default for Accesses {
    fn default() -> Self {
        Self {
            pages: Vec::with_capacity(RECORDS),
            kinds: Vec::with_capacity(RECORDS),
            streams: Vec::with_capacity(RECORDS),
            clocks: Vec::with_capacity(RECORDS),
        }
    }
}

impl Columns for Accesses {
    const WANT: Want = Want { clock_deltas: true, lines: false };

    fn schema() -> Schema {
        let field = |name: &str, of: DataType| Field::new(name, of, false);
        Schema::new(vec![
            field("page", DataType::UInt32),
            field("kind", DataType::UInt8),
            field("stream", DataType::UInt32),
            field("clock", DataType::UInt64),
        ])
    }

    fn push(&mut self, batch: &Batch, _: u64) {
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

    fn len(&self) -> usize {
        self.pages.len()
    }

    fn is_full(&self) -> bool {
        self.pages.len() + BLOCK_RECORDS > RECORDS
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
