//! Means of code that lives in the process of another program: memory, a thread, and files that
//! the program has nothing to do with.

pub use crate::sys::arena::Arena;
pub use crate::sys::away::{Away, bell, forget as forget_pages_away, longest_wait, set_bell};
pub use crate::sys::inside::{Ending, Thread, after_fork, start, thread_block};
pub use crate::sys::uffd::{Back, Block, Event, Taken, Userfault, Writes};
use rustix::fd::OwnedFd;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// Looks whether the kernel hands over faults, and changes nothing: those of system calls as well, or those
/// of `user_mode_only`.
///
/// # Errors
/// The error number of userfaultfd(2).
pub fn look_for_faults(user_mode_only: bool) -> Result<(), i32> {
    crate::sys::uffd::open(user_mode_only).map(drop)
}

/// The program's standard error, seen from a thread that has files of its own. To be used at once
/// and dropped: who reads from the other end waits for the last writer.
pub fn standard_error() -> Option<OwnedFd> {
    const STDERR: i32 = 2;
    let process = pidfd_open(getpid(), PidfdFlags::empty()).ok()?;
    pidfd_getfd(process, STDERR, PidfdGetfdFlags::empty()).ok()
}
