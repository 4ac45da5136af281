//! Traces: the accesses of a program that reached memory, with the allocations, file operations
//! and markers around them.
//!
//! A trace is read through [`TraceSource`], batch by batch, no matter whether it comes from a
//! file in the native format, from a text file or from a generator of `frostline-workloads`.
#![forbid(unsafe_code)]

pub mod batch;
mod dense;
pub mod error;
pub mod event;
mod fields;
pub mod header;
pub mod import;
pub mod info;
pub mod mapper;
pub mod native;

pub use batch::{BLOCK_RECORDS, Batch, Column, TraceSource};
pub use dense::Sheet;
pub use error::TraceError;
pub use event::{TimedEvent, TraceEvent};
pub use fields::Fields;
pub use header::TraceHeader;
pub use info::{InfoBuilder, TraceInfo, verify};
pub use mapper::PageMapper;
pub use native::{Ending, MemTrace, Totals, TraceReader, TraceWriter};
