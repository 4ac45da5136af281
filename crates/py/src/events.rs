//! Events of a trace as columns of Arrow.

use crate::stream::Columns;
use arrow_array::{ArrayRef, StringArray, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use frostline_trace::batch::Want;
use frostline_trace::{Batch, Fields};
use std::sync::Arc;

/// Events of a batch, but for the last one, at least.
const EVENTS: usize = 1 << 12;

/// When each was, what it was, and the parts that it has.
#[derive(Default)]
pub struct Events {
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

impl Columns for Events {
    const WANT: Want = Want { clock_deltas: false, lines: false };

    fn schema() -> Schema {
        let always = |name: &str, of: DataType| Field::new(name, of, false);
        let some = |name: &str, of: DataType| Field::new(name, of, true);
        Schema::new(vec![
            always("record", DataType::UInt64),
            always("clock", DataType::UInt64),
            always("kind", DataType::Utf8),
            some("process", DataType::UInt32),
            some("stream", DataType::UInt32),
            some("file", DataType::UInt32),
            some("start", DataType::UInt64),
            some("len_bytes", DataType::UInt64),
            some("text", DataType::Utf8),
        ])
    }

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

    fn len(&self) -> usize {
        self.clocks.len()
    }

    fn is_full(&self) -> bool {
        self.clocks.len() >= EVENTS
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
