//! The native format: blocks of at most 256 records, bit-packed by columns, in checksummed frames
//! with an index at the end.
//!
//! `docs/reference/formats/trace-v1.md` describes every byte.

mod block;
mod column;
mod events;
mod input;
mod layout;
mod memory;
mod reader;
mod repair;
mod wire;
mod writer;

pub use events::{decode_event, encode_event};
pub use layout::{Totals, VERSION};
pub use memory::MemTrace;
pub use reader::{Ending, TraceReader};
pub use repair::repair_checksums;
pub use writer::TraceWriter;

#[cfg(test)]
mod tests;
