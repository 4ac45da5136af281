//! Errors between us and the kernel.

use std::io;
use std::path::PathBuf;

/// An operation failed for a reason that is not an expected outcome.
#[derive(Debug, thiserror::Error)]
pub enum LinuxError {
    /// A file of the kernel, or an ordinary one.
    #[error("cannot {what} {}: {}", path.display(), describe(*errno))]
    File {
        /// What was attempted, a verb.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Error number of the kernel; 0 where there was none.
        errno: i32,
    },
    /// A system call.
    #[error("{call}{}: {}", of_pid(*pid), describe(*errno))]
    Call {
        /// Name of the system call.
        call: &'static str,
        /// The process it concerned; 0 for none.
        pid: u32,
        /// Error number of the kernel.
        errno: i32,
    },
    /// The process has ended, or its number belongs to another one by now.
    #[error("process {pid} has ended")]
    Gone {
        /// Its former number.
        pid: u32,
    },
    /// A file has contents that we do not understand.
    #[error("{}: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is odd.
        what: String,
    },
    /// This system cannot do it.
    #[error("{what}\nhint: {hint}")]
    Unsupported {
        /// What cannot be done, and why.
        what: String,
        /// What would help.
        hint: String,
    },
}

impl LinuxError {
    /// A failed operation on a file.
    pub fn io(what: &'static str, path: impl Into<PathBuf>, error: &io::Error) -> Self {
        Self::File { what, path: path.into(), errno: error.raw_os_error().unwrap_or(0) }
    }

    /// The failed system call `call` on process `pid`; a process that has ended is [`Self::Gone`].
    pub fn call(call: &'static str, pid: u32, errno: i32) -> Self {
        if errno == libc::ESRCH && pid != 0 {
            Self::Gone { pid }
        } else {
            Self::Call { call, pid, errno }
        }
    }

    /// Error number, where the kernel gave one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::File { errno, .. } | Self::Call { errno, .. } => Some(*errno),
            _ => None,
        }
    }

    /// Whether the file does not exist.
    pub fn is_not_found(&self) -> bool {
        self.errno() == Some(libc::ENOENT)
    }

    /// Whether rights are missing.
    pub fn is_denied(&self) -> bool {
        matches!(self.errno(), Some(libc::EPERM | libc::EACCES))
    }

    /// Whether the process it concerned has ended.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Gone { .. }) || self.errno() == Some(libc::ESRCH)
    }
}

fn describe(errno: i32) -> String {
    if errno == 0 {
        "not as expected".into()
    } else {
        io::Error::from_raw_os_error(errno).to_string()
    }
}

fn of_pid(pid: u32) -> String {
    if pid == 0 { String::new() } else { format!(" of process {pid}") }
}
