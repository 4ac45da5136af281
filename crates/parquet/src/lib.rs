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
mod import;
mod table;

pub use export::{Exported, export};
pub use import::ParquetSource;

use frostline_trace::TraceError;
use std::path::{Path, PathBuf};

const HEADER_KEY: &str = "frostline.header";
const EVENTS_KEY: &str = "frostline.events";

const ACCESSES_SCHEMA: &str = "
message accesses {
    required int64 record (INTEGER(64, false));
    required int64 clock (INTEGER(64, false));
    required int32 page (INTEGER(32, false));
    optional int64 vpn (INTEGER(64, false));
    required binary kind (STRING);
    optional int32 process (INTEGER(32, false));
    required int32 stream (INTEGER(32, false));
    optional int32 tid (INTEGER(32, false));
    required int32 line (INTEGER(8, false));
}";

const EVENTS_SCHEMA: &str = "
message events {
    required int64 record (INTEGER(64, false));
    required int64 clock (INTEGER(64, false));
    required binary kind (STRING);
    optional int32 process (INTEGER(32, false));
    optional int32 stream (INTEGER(32, false));
    optional int32 file (INTEGER(32, false));
    optional int64 start (INTEGER(64, false));
    optional int64 len_bytes (INTEGER(64, false));
    optional binary text (STRING);
    required binary encoded;
}";

/// Where the events of `NAME.parquet` are: `NAME.events.parquet`.
pub fn events_path(path: &Path) -> PathBuf {
    path.with_extension("events.parquet")
}

fn io_error(path: &Path, doing: &'static str, source: std::io::Error) -> TraceError {
    TraceError::Io { path: path.to_owned(), doing, source }
}

fn parquet_error(
    path: &Path,
    doing: &'static str,
    error: parquet::errors::ParquetError,
) -> TraceError {
    io_error(path, doing, std::io::Error::other(error))
}

#[cfg(test)]
mod tests;
