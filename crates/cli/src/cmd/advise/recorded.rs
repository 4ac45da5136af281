//! A program that is recorded so that advice can be given on it.

use super::Args;
use crate::cmd::record::{How, to_file};
use frostline_record::trust::temporary_folder;
use frostline_record::{Options, Recorder};
use frostline_terminal::errors::failure;
use frostline_terminal::{files, progress};
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// Largest trace.
const MOST_BYTES: u64 = 1 << 30;

/// Its trace, which goes with this where nobody keeps it.
pub(super) struct Recorded {
    trace: PathBuf,
    program: String,
    _folder: Option<TempDir>,
}

impl Recorded {
    /// Runs the program, with progress and errors as `frostline record` has them.
    ///
    /// # Errors
    /// Where the program cannot be run or its trace not be written.
    pub(super) fn of(args: &Args) -> anyhow::Result<Self> {
        let (trace, folder) = match &args.output {
            Some(path) => (path.clone(), None),
            None => {
                let folder = temporary_folder("frostline-advise-")?;
                (folder.path().join("program.flt"), Some(folder))
            }
        };
        files::check(&trace)?;
        let output = args.json.then(|| "/dev/null".into());
        let options = Options { max_bytes: Some(MOST_BYTES), output, ..Options::default() };
        let most = args.time.map_or(Duration::MAX, |time| Duration::from_nanos(time.0));
        let how = How { from: Recorder::Valgrind, lines: false, most: Some(most) };
        let outcome = to_file(&args.command, &trace, &options, &how)?;
        let words: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
        let program = words.join(" ");
        let by_us = args.time.is_some() || outcome.bytes >= MOST_BYTES;
        if outcome.code != 0 && !by_us {
            progress::note(&format!("note: {program} ended with {}", outcome.code));
        }
        Ok(Self { trace, program, _folder: folder })
    }

    /// The program and its arguments.
    pub(super) fn program(&self) -> &str {
        &self.program
    }

    /// Its trace.
    ///
    /// # Errors
    /// A name that is no text.
    pub(super) fn trace(&self) -> anyhow::Result<&str> {
        let hint = "name the trace in UTF-8";
        self.trace.to_str().ok_or_else(|| failure("the trace has no name to be read by", hint))
    }
}
