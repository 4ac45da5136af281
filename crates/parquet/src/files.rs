//! Files of a trace in Parquet: their names, schemas and metadata keys, and errors of theirs.

use frostline_trace::TraceError;
use std::path::{Path, PathBuf};

pub(crate) const HEADER_KEY: &str = "frostline.header";
pub(crate) const EVENTS_KEY: &str = "frostline.events";

pub(crate) const ACCESSES_SCHEMA: &str = "
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

pub(crate) const EVENTS_SCHEMA: &str = "
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

pub(crate) fn io_error(path: &Path, doing: &'static str, source: std::io::Error) -> TraceError {
    TraceError::Io { path: path.to_owned(), doing, source }
}

pub(crate) fn parquet_error(
    path: &Path,
    doing: &'static str,
    error: parquet::errors::ParquetError,
) -> TraceError {
    io_error(path, doing, std::io::Error::other(error))
}
