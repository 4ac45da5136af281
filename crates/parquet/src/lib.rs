//! Export and import of traces as Parquet, for DuckDB, Polars, pandas and the like.
//!
//! A trace becomes two files: `NAME.parquet` with a row per access, and `NAME.events.parquet`
//! beside it with a row per event. Numbers are absolute, so that every row can be understood
//! alone. Nothing is lost: importing what was exported gives the same accesses and events.
//!
//! | accesses | type | |
//! | --- | --- | --- |
//! | `record` | UINT64 | number of the access, from 0 |
//! | `clock` | UINT64 | in the trace's unit |
//! | `page` | UINT32 | dense page id |
//! | `vpn` | UINT64, nullable | virtual page number, where the trace names it |
//! | `kind` | STRING | `load`, `store`, `fetch` or `write_back` |
//! | `process` | UINT32, nullable | number of the process, where the trace names it |
//! | `stream` | UINT32 | number of the thread |
//! | `tid` | UINT32, nullable | the thread's id when recorded |
//! | `line` | UINT8 | 64-byte line inside the page |
//!
//! | events | type | |
//! | --- | --- | --- |
//! | `record` | UINT64 | number of the access that follows |
//! | `clock` | UINT64 | |
//! | `kind` | STRING | `map`, `file_open`, ... |
//! | `process`, `stream`, `file` | UINT32, nullable | whom it concerns |
//! | `start`, `len_bytes` | UINT64, nullable | address (or file offset) and length in bytes |
//! | `text` | STRING, nullable | path or command |
//! | `encoded` | BYTE_ARRAY | the whole event, as in the native format |
//!
//! The trace's header is JSON under the key `frostline.header` of both files' metadata. On import
//! only `clock`, `page` and `kind` must be there; rows that a query left out are simply not there.
#![forbid(unsafe_code)]

mod export;
mod files;
mod import;
mod pages;
mod table;

pub use export::{Exported, export};
pub use files::events_path;
pub use import::ParquetSource;

#[cfg(test)]
mod tests;
