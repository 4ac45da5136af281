//! Copies of this process.

use crate::error::LinuxError;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Exit code of a copy whose work panicked, the one that Rust programs panic with.
const PANICKED: u8 = 101;

/// Runs `work` in a copy of this process, fork(2), which then ends with the exit code that `work`
/// gives (101 where it panics). Gives the copy's process number; it is the caller's to wait for.
///
/// The copy has the calling thread only. Locks that other threads held stay locked in it: it must
/// not use the standard streams through the standard library, nor any lock shared between threads.
/// It can allocate. Neither destructors nor exit handlers are run in it.
///
/// # Errors
/// Where the system refuses another process.
pub fn in_forked_child(work: impl FnOnce() -> u8) -> Result<u32, LinuxError> {
    // SAFETY: memory of the copy is its own, and the C library makes its allocator usable there.
    // The copy never returns from here, so that what this thread owns is not dropped twice.
    match unsafe { libc::fork() } {
        -1 => {
            let errno = io::Error::last_os_error().raw_os_error().unwrap_or(0);
            Err(LinuxError::call("fork", 0, errno))
        }
        0 => {
            let code = catch_unwind(AssertUnwindSafe(work)).unwrap_or(PANICKED);
            // SAFETY: it does not return and runs no code of this process.
            unsafe { libc::_exit(i32::from(code)) }
        }
        pid => Ok(pid as u32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, WaitOptions, waitpid};

    fn exit_code(work: impl FnOnce() -> u8) -> Option<i32> {
        let _forks = frostline_testing::forks();
        let pid = in_forked_child(work).expect("another process is possible");
        let pid = Pid::from_raw(pid as i32);
        let (_, status) = waitpid(pid, WaitOptions::empty()).expect("ours").expect("it has ended");
        status.exit_status()
    }

    #[test]
    fn a_copy_works_on_memory_of_its_own() {
        let mut value = 1;
        let code = exit_code(|| {
            value += 6;
            value
        });
        assert_eq!((code, value), (Some(7), 1));
    }

    #[test]
    fn a_panic_ends_the_copy_alone() {
        let code = exit_code(|| std::panic::resume_unwind(Box::new("no message")));
        assert_eq!(code, Some(101));
    }
}
