//! `userfaultfd(2)`.

use std::os::fd::{FromRawFd, OwnedFd};

/// `UFFD_USER_MODE_ONLY` of `linux/userfaultfd.h`: faults of system calls are not handed over.
const USER_MODE_ONLY: libc::c_int = 1;

/// Opens a descriptor of faults of this process, without registering any memory. With
/// `user_only`, for faults outside of system calls.
///
/// # Errors
/// The kernel's error number: `ENOSYS` without it, `EPERM` without the right to it.
pub fn open(user_only: bool) -> Result<OwnedFd, i32> {
    let flags = libc::O_CLOEXEC | if user_only { USER_MODE_ONLY } else { 0 };
    // SAFETY: takes a number; until memory is registered, the descriptor does nothing.
    let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0));
    }
    // SAFETY: the kernel has just made this descriptor for us, nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
