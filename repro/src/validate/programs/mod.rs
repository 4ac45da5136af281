//! Real programs that generators stand for: how each is fed, recorded and told apart from its
//! loading. Inputs are made here, from seeds; nothing is downloaded. What is not installed is said
//! with the command that installs it.

pub mod connection;
pub mod h2;
pub mod laws;
mod liblinear;
pub mod memcached;
pub mod recipe;
mod redis;
pub mod resp;
mod run;
mod sqlite;
pub mod store;
mod xgboost;

use frostline_record::{Options, Progress, Recorder, Tool};
use frostline_terminal::{errors, progress};
use recipe::Recipe;
use std::path::{Path, PathBuf};

/// The last-level cache of all recordings, in bytes: to these programs what 32 MiB are to one of
/// 12 GiB, and what generators take for their size.
const LLC_BYTES: u64 = 256 << 10;

/// A program beside the generator that stands for it.
#[derive(Debug)]
pub struct Program {
    /// The generator.
    pub name: &'static str,
    /// The program.
    pub program: &'static str,
    /// Its recording among others that a tournament takes.
    pub recording: &'static str,
    /// What brings it, as `frostline list workloads` says it.
    pub package: &'static str,
    /// Describes the generator for this very run: the same footprint, counts and popularity. Empty
    /// where nothing stands for the program yet.
    pub generator: &'static str,
    recorder: Recorder,
    recipe: &'static dyn Recipe,
}

/// A recorded run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// The trace.
    pub path: PathBuf,
    /// So many records were made while the program started and loaded its data.
    pub from_record: u64,
    /// Of the program.
    pub version: String,
}

/// All programs.
pub static ALL: &[Program] = &[
    Program {
        name: "gauss-kv",
        program: "redis-server",
        recording: "redis-gauss",
        package: "Debian: redis-server",
        generator: "synth:gauss-kv:size=64MiB:llc=256KiB",
        recorder: Recorder::Valgrind,
        recipe: &redis::GAUSS,
    },
    Program {
        name: "ycsb-a",
        program: "redis-server",
        recording: "redis",
        package: "Debian: redis-server",
        generator: "synth:ycsb-a:size=64MiB:llc=256KiB",
        recorder: Recorder::Valgrind,
        recipe: &redis::YCSB_A,
    },
    Program {
        name: "ycsb-b",
        program: "redis-server",
        recording: "redis-b",
        package: "Debian: redis-server",
        generator: "synth:ycsb-b:size=64MiB:llc=256KiB",
        recorder: Recorder::Valgrind,
        recipe: &redis::YCSB_B,
    },
    Program {
        name: "etc",
        program: "memcached",
        recording: "memcached",
        package: "Debian: memcached",
        generator: "synth:etc:size=80MiB:llc=256KiB",
        recorder: Recorder::Qemu,
        recipe: &memcached::ETC,
    },
    Program {
        name: "liblinear",
        program: "liblinear-train",
        recording: "liblinear",
        package: "Debian: liblinear-tools",
        generator: "synth:liblinear:size=72MiB:llc=256KiB",
        recorder: Recorder::Valgrind,
        recipe: &liblinear::KDD,
    },
    Program {
        name: "xgboost",
        program: "xgboost",
        recording: "xgboost",
        package: "PyPI: xgboost",
        generator: "synth:xgboost:pages=28226:parts=15:bins=139:llc=256KiB",
        recorder: Recorder::Valgrind,
        recipe: &xgboost::CRITEO,
    },
    Program {
        name: "ycsb-c",
        program: "sqlite3",
        recording: "sqlite",
        package: "Debian: sqlite3",
        generator: "synth:ycsb-c:engine=sqlite:size=66948KiB:llc=256KiB:gap=240",
        recorder: Recorder::Valgrind,
        recipe: &sqlite::YCSB_C,
    },
    Program {
        name: "java-heap",
        program: "h2",
        recording: "h2",
        package: "Maven: com.h2database:h2",
        generator: "synth:java-heap:size=110MiB:llc=256KiB",
        recorder: Recorder::Qemu,
        recipe: &h2::TABLE,
    },
];

impl Program {
    /// What is not installed, and the command that installs it; none where it can be recorded.
    pub fn missing(&self) -> Option<String> {
        self.recipe.missing()
    }

    /// The recording kept in `dir` if there is one, by this recipe, of this version of the
    /// program and by this recorder; otherwise records it there. What is interrupted is removed.
    /// `progress` hears how far the recorder is.
    ///
    /// # Errors
    /// Where the program or the recorder is not there, fails or takes longer than ten minutes, and
    /// after a Ctrl-C.
    pub fn record(
        &self,
        dir: &Path,
        progress: &mut dyn FnMut(&Progress),
    ) -> anyhow::Result<Recording> {
        if let Some(missing) = self.missing() {
            let (what, hint) = missing.split_once(": ").unwrap_or((&missing, ""));
            return Err(errors::failure(format!("{}: {what}", self.program), hint));
        }
        let tool = Tool::find(self.recorder, progress::note)?;
        let options = self.options();
        let version = self.recipe.version()?;
        let key = store::Key {
            name: self.name,
            recipe: format!("{:?} {options:?} {:?}", self.recipe, self.recipe.texts()),
            version: version.clone(),
            recorder: tool.identity(),
        };
        let (path, from_record) = store::get_or_make(dir, &key, |folder, trace| {
            run::run(&tool, self.recipe.prepare(folder)?, folder, trace, options, progress)
        })?;
        Ok(Recording { path, from_record, version })
    }

    /// Fetches of instructions are left out, as generators make none.
    fn options(&self) -> Options {
        Options { llc_bytes: LLC_BYTES, fetch: false, ..Options::default() }
    }
}

#[cfg(test)]
mod tests;
