//! Root of `/proc`, `/sys` and `/dev`.

use crate::error::LinuxError;
use rustix::fs::{Dir, Mode, OFlags, open};
use rustix::io::Errno;
use std::fs;
use std::path::{Path, PathBuf};

/// The directory below which `proc`, `sys`, `dev`, `run` and `var` are looked up: `/` on a live
/// system, any other directory in tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Root {
    /// The running system.
    pub fn system() -> Self {
        Self(PathBuf::from("/"))
    }

    /// A tree elsewhere.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Where a path such as `/proc/meminfo` or `proc/meminfo` is.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Whether this is the running system.
    pub fn is_system(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// A text file's contents without white space at the end.
    ///
    /// # Errors
    /// Where it cannot be read, or is not UTF-8.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<String, LinuxError> {
        let path = self.path(path);
        match fs::read_to_string(&path) {
            Ok(mut text) => {
                text.truncate(text.trim_end().len());
                Ok(text)
            }
            Err(error) => Err(LinuxError::io("read", path, &error)),
        }
    }

    /// A file's contents; `None` where it does not exist.
    ///
    /// # Errors
    /// Where it exists and cannot be read.
    pub fn read_optional(&self, path: impl AsRef<Path>) -> Result<Option<String>, LinuxError> {
        match self.read(path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a control file of the kernel.
    ///
    /// # Errors
    /// Where the kernel refuses it.
    pub fn write(&self, path: impl AsRef<Path>, text: &str) -> Result<(), LinuxError> {
        #[cfg(test)]
        frostline_testing::death::come_closer();
        let path = self.path(path);
        fs::write(&path, text).map_err(|error| LinuxError::io("write", path, &error))
    }

    /// Names in a directory, sorted; empty where it does not exist.
    ///
    /// # Errors
    /// Where it exists and cannot be read.
    pub fn list(&self, path: impl AsRef<Path>) -> Result<Vec<String>, LinuxError> {
        let path = self.path(path);
        // Not by the C library, which would take memory from the program that we may live in.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let entries = match open(&path, flags, Mode::empty()).and_then(Dir::new) {
            Ok(entries) => entries,
            Err(Errno::NOENT) => return Ok(Vec::new()),
            Err(errno) => return Err(LinuxError::io("list", path, &errno.into())),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|errno| LinuxError::io("list", &path, &errno.into()))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }
}
