//! Finds a recorder, or builds it.

use crate::error::RecordError;
use crate::session::Options;
use crate::{qemu, valgrind};
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names the directory to take the recorder from.
const DIR_VARIABLE: &str = "FROSTLINE_RECORDER_DIR";

macro_rules! sources {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../../recorder/", $path)))),*]
    };
}
pub(crate) use sources;

/// What records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recorder {
    /// A tool for Valgrind: the quicker one. Threads run in turns.
    #[default]
    Valgrind,
    /// A plugin for QEMU's user mode: runs programs that Valgrind cannot, and threads side by side.
    Qemu,
}

impl Recorder {
    /// All, the default first.
    pub const ALL: [Self; 2] = [Self::Valgrind, Self::Qemu];

    /// As users name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Valgrind => "valgrind",
            Self::Qemu => "qemu",
        }
    }

    fn kit(self) -> &'static Kit {
        match self {
            Self::Valgrind => &valgrind::KIT,
            Self::Qemu => &qemu::KIT,
        }
    }
}

impl fmt::Display for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a recorder is made of: a program of its own (GPL-2.0-or-later), carried along to be built
/// where it is missing.
#[derive(Debug)]
pub(crate) struct Kit {
    /// Its folder below `recorder`.
    pub folder: &'static str,
    /// File name of what `make` makes there.
    pub binary: &'static str,
    /// Paths below `recorder`, with their texts.
    pub sources: &'static [(&'static str, &'static str)],
    /// Programs that run it, the best first.
    pub launchers: &'static [&'static str],
    /// What else must be there for it to run.
    pub support: &'static [&'static str],
    /// What must be there to build it. Another version of the last one needs another build.
    pub headers: &'static [&'static str],
    /// What the launcher is called in a sentence.
    pub called: &'static str,
    /// Debian packages that bring all of it.
    pub packages: &'static str,
    /// A command that tells whether the launcher can run a program at all.
    pub trial: &'static str,
}

impl Kit {
    fn missing(&self, why: String) -> RecordError {
        let hint = format!("apt-get install {}", self.packages);
        RecordError::NoTool { why, hint }
    }
}

/// The recorder, ready to run.
#[derive(Clone, Debug)]
pub struct Tool {
    recorder: Recorder,
    /// Holds what was built.
    pub(crate) dir: PathBuf,
    /// The program that runs it.
    pub(crate) launcher: PathBuf,
}

impl Tool {
    /// Looks in `FROSTLINE_RECORDER_DIR` (nowhere else if it is set), beside the running program,
    /// and in the user's cache directory; builds it there as a last resort, which takes some
    /// seconds and is told to `note` beforehand.
    ///
    /// # Errors
    /// Where it is not there and cannot be built, or where Valgrind or QEMU is missing.
    pub fn find(recorder: Recorder, note: impl FnOnce(&str)) -> Result<Self, RecordError> {
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            return Err(RecordError::Platform);
        }
        let kit = recorder.kit();
        let is_file = |path: &&&str| Path::new(path).is_file();
        let launcher = kit.launchers.iter().find(is_file).map(PathBuf::from);
        let supported = kit.support.iter().all(|path| Path::new(path).is_file());
        let Some(launcher) = launcher.filter(|_| supported) else {
            return Err(kit.missing(format!("{} is not installed", kit.called)));
        };
        let ready = |dir: PathBuf| Self { recorder, dir, launcher: launcher.clone() };
        if let Some(dir) = std::env::var_os(DIR_VARIABLE).map(PathBuf::from) {
            return if dir.join(kit.binary).is_file() {
                Ok(ready(dir))
            } else {
                Err(RecordError::NoTool {
                    why: format!("{DIR_VARIABLE}={} holds no {}", dir.display(), kit.binary),
                    hint: format!(
                        "unset it, or build there: make -C recorder/{} BUILD={}",
                        kit.folder,
                        dir.display()
                    ),
                })
            };
        }
        let beside = std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_owned));
        if let Some(dir) = beside.filter(|dir| dir.join(kit.binary).is_file()) {
            return Ok(ready(dir));
        }
        let dir = cache_dir(kit);
        if !dir.join(kit.binary).is_file() {
            build(kit, &dir, note)?;
        }
        Ok(ready(dir))
    }

    /// Which one it is, of which version: what it is made from is part of the name of its folder.
    /// Two recordings of one program by different ones are not alike to the last record.
    pub fn identity(&self) -> String {
        format!("{} {}", self.signature(), self.dir.display())
    }

    /// Which one it is.
    pub fn recorder(&self) -> Recorder {
        self.recorder
    }

    /// What was built.
    pub(crate) fn binary(&self) -> PathBuf {
        self.dir.join(self.recorder.kit().binary)
    }

    /// Runs `program` (and its arguments) recorded. `pipe` is the descriptor to write to, `logs`
    /// a directory for what the recorder has to say.
    pub(crate) fn command(
        &self,
        options: &Options,
        logs: &Path,
        pipe: i32,
        program: &Path,
        command: &[OsString],
    ) -> Command {
        match self.recorder {
            Recorder::Valgrind => valgrind::command(self, options, logs, pipe, command),
            Recorder::Qemu => qemu::command(self, options, pipe, program, command),
        }
    }

    /// The processor that the program sees, for the trace.
    pub(crate) fn cpu_model(&self) -> String {
        match self.recorder {
            Recorder::Valgrind => valgrind::cpu_model(),
            Recorder::Qemu => qemu::cpu_model(),
        }
    }

    /// Name and version for the trace.
    pub(crate) fn signature(&self) -> String {
        let ours = format!("frostline {} {}", env!("CARGO_PKG_VERSION"), self.recorder);
        match self.recorder {
            Recorder::Valgrind => ours,
            Recorder::Qemu => format!("{ours} {}", qemu::version(&self.launcher)).trim().to_owned(),
        }
    }

    /// The program did not begin.
    pub(crate) fn silent(&self, why: String) -> RecordError {
        RecordError::Silent { why, trial: self.recorder.kit().trial }
    }

    /// How to say that it could not be started.
    pub(crate) fn starting(&self) -> &'static str {
        match self.recorder {
            Recorder::Valgrind => "start Valgrind",
            Recorder::Qemu => "start QEMU",
        }
    }
}

/// Where the user's files lie that can be made again.
pub fn cache_home() -> PathBuf {
    let absolute = |path: &PathBuf| path.is_absolute();
    std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(absolute)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .filter(absolute)
        .unwrap_or_else(std::env::temp_dir)
        .join("frostline")
}

/// A directory of its own for each version of the sources and of what they are built against.
fn cache_dir(kit: &Kit) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    kit.sources.hash(&mut hasher);
    let built_against = kit.headers.last().map(fs::metadata);
    let stamp = built_against.and_then(|meta| meta.and_then(|m| Ok((m.len(), m.modified()?))).ok());
    stamp.hash(&mut hasher);
    cache_home().join(format!("recorder-{}-{:016x}", kit.folder, hasher.finish()))
}

fn build(kit: &Kit, dir: &Path, note: impl FnOnce(&str)) -> Result<(), RecordError> {
    if let Some(path) = kit.headers.iter().find(|path| !Path::new(path).is_file()) {
        return Err(kit.missing(format!("{path} is missing, which it is built with")));
    }
    note(&format!("building the recorder in {}", dir.display()));
    let failed =
        |why: String| RecordError::Build { dir: dir.to_owned(), why, packages: kit.packages };
    let refused = |source: io::Error| failed(source.to_string());
    let parent = dir.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent).map_err(refused)?;
    // Built aside and renamed, so that two recordings at once do not meet a half-built tool.
    let aside = tempfile::Builder::new().prefix("build-").tempdir_in(parent).map_err(refused)?;
    for (path, text) in kit.sources {
        let path = aside.path().join(path);
        fs::create_dir_all(path.parent().unwrap_or(parent)).map_err(refused)?;
        fs::write(path, text).map_err(refused)?;
    }
    let output = Command::new("make")
        .args(["-s", "-C", kit.folder, "BUILD=../tool"])
        .current_dir(aside.path())
        .env_remove("MAKEFLAGS")
        .output()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => failed("`make` is not installed".into()),
            _ => refused(error),
        })?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let last: Vec<&str> = text.lines().rev().take(5).collect();
        return Err(failed(last.into_iter().rev().collect::<Vec<_>>().join("\n")));
    }
    match fs::rename(aside.path().join("tool"), dir) {
        // Somebody else was faster; theirs is as good.
        Err(_) if dir.join(kit.binary).is_file() => Ok(()),
        other => other.map_err(refused),
    }
}
