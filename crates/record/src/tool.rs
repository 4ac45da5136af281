//! Finds the recorder, or builds it.

use crate::error::RecordError;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The tool's file name, as Valgrind's launcher wants it.
const BINARY: &str = "frostline-amd64-linux";
/// Names the directory to take the tool from.
const DIR_VARIABLE: &str = "FROSTLINE_RECORDER_DIR";
/// The launcher without its shell wrapper, which would change the program's environment.
const LAUNCHERS: [&str; 2] = ["/usr/bin/valgrind.bin", "/usr/bin/valgrind"];
const INCLUDE: &str = "/usr/include/valgrind/pub_tool_tooliface.h";
const CORE: &str = "/usr/lib/x86_64-linux-gnu/valgrind/libcoregrind-amd64-linux.a";
const PRELOAD: &str = "/usr/libexec/valgrind/vgpreload_core-amd64-linux.so";

macro_rules! sources {
    ($($path:literal),* $(,)?) => {
        [$(($path, include_str!(concat!("../../../recorder/valgrind/", $path)))),*]
    };
}

/// The tool's sources: a program of its own (GPL-2.0-or-later), carried along to be built where it
/// is missing.
const SOURCES: [(&str, &str); 15] = sources![
    "COPYING",
    "Makefile",
    "src/cache.c",
    "src/cache.h",
    "src/core_extra.h",
    "src/instrument.c",
    "src/instrument.h",
    "src/main.c",
    "src/options.h",
    "src/program.c",
    "src/program.h",
    "src/stream.c",
    "src/stream.h",
    "README.md",
    "frostline_marks.h",
];

/// The recorder, ready to run.
#[derive(Clone, Debug)]
pub struct Tool {
    /// Holds the tool and links to what Valgrind needs beside it.
    pub(crate) dir: PathBuf,
    /// Valgrind's launcher.
    pub(crate) launcher: PathBuf,
}

impl Tool {
    /// Looks in `FROSTLINE_RECORDER_DIR` (nowhere else if it is set), beside the running program,
    /// and in the user's cache directory; builds it there as a last resort, which takes some
    /// seconds and is told to `note` beforehand.
    ///
    /// # Errors
    /// Where it is not there and cannot be built, or where Valgrind itself is missing.
    pub fn find(note: impl FnOnce(&str)) -> Result<Self, RecordError> {
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            return Err(RecordError::Platform);
        }
        let launcher = LAUNCHERS.iter().map(PathBuf::from).find(|path| path.is_file());
        let Some(launcher) = launcher.filter(|_| Path::new(PRELOAD).is_file()) else {
            return Err(RecordError::NoTool {
                why: "Valgrind is not installed".into(),
                hint: "apt-get install valgrind gcc make libc6-dev".into(),
            });
        };
        let ready = |dir: PathBuf| Self { dir, launcher: launcher.clone() };
        if let Some(dir) = std::env::var_os(DIR_VARIABLE).map(PathBuf::from) {
            return if dir.join(BINARY).is_file() {
                Ok(ready(dir))
            } else {
                Err(RecordError::NoTool {
                    why: format!("{DIR_VARIABLE}={} holds no {BINARY}", dir.display()),
                    hint: format!(
                        "unset it, or build there: make -C recorder/valgrind BUILD={}",
                        dir.display()
                    ),
                })
            };
        }
        let beside = std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_owned));
        if let Some(dir) = beside.filter(|dir| dir.join(BINARY).is_file()) {
            return Ok(ready(dir));
        }
        let dir = cache_dir();
        if !dir.join(BINARY).is_file() {
            build(&dir, note)?;
        }
        Ok(ready(dir))
    }
}

/// A directory of its own for each version of the sources and of Valgrind's libraries.
fn cache_dir() -> PathBuf {
    let absolute = |path: &PathBuf| path.is_absolute();
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(absolute)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .filter(absolute)
        .unwrap_or_else(std::env::temp_dir);
    let mut hasher = DefaultHasher::new();
    SOURCES.hash(&mut hasher);
    let stamp = fs::metadata(CORE).and_then(|meta| Ok((meta.len(), meta.modified()?))).ok();
    stamp.hash(&mut hasher);
    base.join("frostline").join(format!("recorder-{:016x}", hasher.finish()))
}

fn build(dir: &Path, note: impl FnOnce(&str)) -> Result<(), RecordError> {
    for (path, what) in [(INCLUDE, "headers"), (CORE, "libraries")] {
        if !Path::new(path).is_file() {
            return Err(RecordError::NoTool {
                why: format!("Valgrind's {what} are missing ({path})"),
                hint: "apt-get install valgrind gcc make libc6-dev".into(),
            });
        }
    }
    note(&format!("building the recorder in {}", dir.display()));
    let refused =
        |source: io::Error| RecordError::Build { dir: dir.to_owned(), why: source.to_string() };
    let parent = dir.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent).map_err(refused)?;
    // Built aside and renamed, so that two recordings at once do not meet a half-built tool.
    let aside = tempfile::Builder::new().prefix("build-").tempdir_in(parent).map_err(refused)?;
    for (path, text) in SOURCES {
        let path = aside.path().join(path);
        fs::create_dir_all(path.parent().unwrap_or(parent)).map_err(refused)?;
        fs::write(path, text).map_err(refused)?;
    }
    let output = Command::new("make")
        .args(["-s", "BUILD=tool"])
        .current_dir(aside.path())
        .env_remove("MAKEFLAGS")
        .output()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => refused(io::Error::other("`make` is not installed")),
            _ => refused(error),
        })?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let last: Vec<&str> = text.lines().rev().take(5).collect();
        let why = last.into_iter().rev().collect::<Vec<_>>().join("\n");
        return Err(RecordError::Build { dir: dir.to_owned(), why });
    }
    match fs::rename(aside.path().join("tool"), dir) {
        // Somebody else was faster; theirs is as good.
        Err(_) if dir.join(BINARY).is_file() => Ok(()),
        other => other.map_err(refused),
    }
}
