//! Errors of a recording.

use crate::trust::TrustError;
use frostline_trace::TraceError;
use std::io;
use std::path::PathBuf;

/// Errors of finding the recorder, of starting a program and of writing its trace.
///
/// Texts end with a `hint:` line where there is a remedy.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// No such program.
    #[error("{program}: no such program\nhint: give a path, or a name that is in PATH")]
    NotFound {
        /// As the user gave it.
        program: String,
    },
    /// The program is there and cannot be run, or not be recorded.
    #[error("{program}: {why}\nhint: {hint}")]
    NotExecutable {
        /// As the user gave it.
        program: String,
        /// The reason.
        why: String,
        /// The remedy.
        hint: &'static str,
    },
    /// This machine is not one the recorder runs on.
    #[error("recording needs Linux on x86-64\nhint: record on such a machine; traces are portable")]
    Platform,
    /// The recorder is neither there nor can it be built.
    #[error("the recorder is not there: {why}\nhint: {hint}")]
    NoTool {
        /// What was looked for.
        why: String,
        /// The remedy.
        hint: String,
    },
    /// Others can change what would be run, or where it would be put.
    #[error(transparent)]
    Untrusted(#[from] TrustError),
    /// The recorder's sources did not compile.
    #[error("the recorder could not be built in {dir}: {why}\nhint: apt-get install {packages}", dir = dir.display())]
    Build {
        /// Where.
        dir: PathBuf,
        /// Last lines of the compiler, or the operating system's answer.
        why: String,
        /// Debian packages that it needs.
        packages: &'static str,
    },
    /// A cache geometry that the recorder cannot model.
    #[error("--llc: {what}\nhint: {hint}")]
    Cache {
        /// What is wrong.
        what: String,
        /// What would be right.
        hint: String,
    },
    /// The operating system refused something.
    #[error("{doing}: {source}")]
    System {
        /// What was tried.
        doing: &'static str,
        /// Its answer.
        source: io::Error,
    },
    /// The recorder ended before the program began.
    #[error(
        "the recorder did not start the program: {why}\nhint: try `{trial}`; what that cannot run cannot be recorded"
    )]
    Silent {
        /// What it wrote to its log.
        why: String,
        /// A command that shows whether the program can be run.
        trial: &'static str,
    },
    /// The stream of the recorder makes no sense.
    #[error(
        "the recorder's data are damaged: {what} (byte {offset} of the pipe)\nhint: the recorder may be of another version; remove FROSTLINE_RECORDER_DIR or its cache directory"
    )]
    Damaged {
        /// Where, in bytes since the pipe was opened.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// The disk is full.
    #[error("{path}: no space left; what was written until now is readable\nhint: free some space, or limit the trace with --max-size", path = path.display())]
    DiskFull {
        /// The trace.
        path: PathBuf,
    },
    /// The trace cannot be written.
    #[error("{0}\nhint: choose another place with -o")]
    Output(TraceError),
}

impl RecordError {
    /// Sorts out what failed when the trace at `path` was written.
    pub(crate) fn output(path: &std::path::Path, error: TraceError) -> Self {
        match &error {
            TraceError::Io { source, .. }
                if matches!(
                    source.kind(),
                    io::ErrorKind::StorageFull
                        | io::ErrorKind::QuotaExceeded
                        | io::ErrorKind::FileTooLarge
                ) =>
            {
                Self::DiskFull { path: path.to_owned() }
            }
            _ => Self::Output(error),
        }
    }

    /// Exit code as `env(1)` and `timeout(1)` have it: 127 where the program is not there, 126
    /// where it cannot be executed, 125 for everything else.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound { .. } => 127,
            Self::NotExecutable { .. } => 126,
            _ => 125,
        }
    }
}
