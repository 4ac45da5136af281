//! Memory of another process, read and written at its addresses.

use frostline_linux::{LinuxError, Target};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// See the module. It is that of the program that ran when this was opened, whatever it executes later.
#[derive(Debug)]
pub struct Memory {
    file: File,
    path: PathBuf,
}

impl Memory {
    /// Of a process.
    ///
    /// # Errors
    /// Without the right to look into it.
    pub fn open(target: &Target) -> Result<Self, LinuxError> {
        let path = target.root().path(format!("/proc/{}/mem", target.pid()));
        let file = File::options().read(true).write(true).open(&path);
        let file = file.map_err(|error| LinuxError::io("open", &path, &error))?;
        Ok(Self { file, path })
    }

    /// Reads all of `bytes` from `at`.
    ///
    /// # Errors
    /// Where there is no memory.
    pub fn read(&self, at: u64, bytes: &mut [u8]) -> Result<(), LinuxError> {
        let read = self.file.read_exact_at(bytes, at);
        read.map_err(|error| LinuxError::io("read", &self.path, &error))
    }

    /// A word; `None` where there is no memory.
    pub fn word(&self, at: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(at, &mut bytes).ok()?;
        Some(u64::from_ne_bytes(bytes))
    }

    /// A text up to its zero byte, the first 200 bytes of it.
    pub fn text(&self, at: u64) -> String {
        let bytes = (at..at + 200).map_while(|at| {
            let mut byte = [0];
            self.read(at, &mut byte).ok()?;
            Some(byte[0]).filter(|byte| *byte != 0)
        });
        String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned()
    }

    /// Writes all of `bytes` to `at`, also where the program itself may not write.
    ///
    /// # Errors
    /// Where there is no memory, or the kernel refuses it.
    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<(), LinuxError> {
        let written = self.file.write_all_at(bytes, at);
        written.map_err(|error| LinuxError::io("write", &self.path, &error))
    }
}
