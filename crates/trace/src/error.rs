//! Errors of traces.

use frostline_core::LimitError;
use std::path::PathBuf;

/// Errors of reading, writing and making traces. Each says where.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The operating system refused.
    #[error("{path}: {doing}: {source}", path = path.display())]
    Io {
        /// File concerned.
        path: PathBuf,
        /// What was tried: `open`, `read`, `write`.
        doing: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
    /// Not in a format that is known here.
    #[error("{path}: not a Frostline trace: {what}", path = path.display())]
    Foreign {
        /// File concerned.
        path: PathBuf,
        /// What was found instead.
        what: String,
    },
    /// A newer format version.
    #[error("{path}: format version {found} is newer than {supported}, the newest known here", path = path.display())]
    Version {
        /// File concerned.
        path: PathBuf,
        /// Version in the file.
        found: u32,
        /// Newest version known.
        supported: u32,
    },
    /// Bytes that cannot be right.
    #[error("{path}: damaged at byte {offset}: {what}", path = path.display())]
    Damaged {
        /// File concerned.
        path: PathBuf,
        /// Where, in bytes from the file's start.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// What the file says would take more memory than it accounts for.
    #[error("{path}: {source}", path = path.display())]
    Limit {
        /// File concerned.
        path: PathBuf,
        /// What it is.
        source: LimitError,
    },
    /// More pages than a trace has ids for.
    #[error(
        "more than 16 TiB are touched, in regions of 2 MiB; a trace holds no more\nhint: record fewer \
         processes, or a part of the run"
    )]
    Full,
    /// Numbers that no trace can have.
    #[error("{path}: {what}\nhint: {hint}", path = path.display())]
    Absurd {
        /// File concerned.
        path: PathBuf,
        /// What cannot be.
        what: String,
        /// What helps.
        hint: String,
    },
    /// The file ends in the middle of something.
    #[error("{path}: ends short at byte {offset}: {what}", path = path.display())]
    Truncated {
        /// File concerned.
        path: PathBuf,
        /// Where the file ends.
        offset: u64,
        /// What was to come.
        what: String,
    },
    /// A line of a text trace.
    #[error("{path}: line {line}: {what}", path = path.display())]
    Text {
        /// File concerned.
        path: PathBuf,
        /// Line, from 1.
        line: u64,
        /// What is wrong.
        what: String,
    },
    /// A `synth:...` description that cannot be used.
    #[error("{what}")]
    Spec {
        /// What is wrong, and what would be right.
        what: String,
    },
}
