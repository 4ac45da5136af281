//! `userfaultfd(2)`: what the kernel is asked, one call each.
//!
//! Source: `include/uapi/linux/userfaultfd.h`, `Documentation/admin-guide/mm/userfaultfd.rst`.

use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use rustix::io::Errno;
use std::os::fd::{FromRawFd, OwnedFd};

/// `UFFD_USER_MODE_ONLY`: faults of system calls are not handed over.
const USER_MODE_ONLY: libc::c_int = 1;
/// `UFFD_API`.
const VERSION: u64 = 0xAA;

/// Size of a structure, as request numbers have it.
const fn size<T>() -> libc::Ioctl {
    size_of::<T>() as libc::Ioctl
}
const fn reads<T>(number: libc::Ioctl) -> libc::Ioctl {
    (2 << 30 | size::<T>() << 16 | 0xAA << 8 | number) as libc::Ioctl
}
const fn writes_and_reads<T>(number: libc::Ioctl) -> libc::Ioctl {
    (3 << 30 | size::<T>() << 16 | 0xAA << 8 | number) as libc::Ioctl
}

/// What a descriptor is asked for: a set of bits.
pub mod feature {
    /// Copies of the process get a descriptor of their own; takes `CAP_SYS_PTRACE`.
    pub const EVENT_FORK: u64 = 1 << 1;
    /// Tells of `mremap`.
    pub const EVENT_REMAP: u64 = 1 << 2;
    /// Tells of `MADV_DONTNEED` and the like before it is done.
    pub const EVENT_REMOVE: u64 = 1 << 3;
    /// Tells of `munmap` and whatever else ends a mapping.
    pub const EVENT_UNMAP: u64 = 1 << 6;
    /// Protected pages are written without anybody's help, and it is noted (Linux 6.7).
    pub const WP_ASYNC: u64 = 1 << 15;
    /// Pages can be moved (Linux 6.8).
    pub const MOVE: u64 = 1 << 16;
}

/// What is handed over.
pub mod mode {
    /// Touches of pages that are not there.
    pub const MISSING: u64 = 1 << 0;
    /// Writes to pages that are protected.
    pub const WP: u64 = 1 << 1;
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Range {
    start: u64,
    len: u64,
}

/// `uffdio_register`, and with other names `uffdio_zeropage`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct WithRange {
    range: Range,
    mode: u64,
    result: u64,
}

/// `uffdio_copy` and `uffdio_move`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Transfer {
    dst: u64,
    src: u64,
    len: u64,
    mode: u64,
    done: i64,
}

const API: libc::Ioctl = writes_and_reads::<Api>(0x3F);
const REGISTER: libc::Ioctl = writes_and_reads::<WithRange>(0);
const UNREGISTER: libc::Ioctl = reads::<Range>(1);
const WAKE: libc::Ioctl = reads::<Range>(2);
const COPY: libc::Ioctl = writes_and_reads::<Transfer>(3);
const ZEROPAGE: libc::Ioctl = writes_and_reads::<WithRange>(4);
const MOVE: libc::Ioctl = writes_and_reads::<Transfer>(5);
/// `USERFAULTFD_IOC_NEW` of `/dev/userfaultfd`.
const NEW: libc::Ioctl = 0xAA << 8;

/// A descriptor of faults of a process. Nothing else is ever in here.
#[derive(Debug)]
pub struct Uffd(OwnedFd);

impl AsFd for Uffd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn last() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Opens a descriptor of faults of this process, without registering any memory. With
/// `user_only`, for faults outside of system calls.
///
/// # Errors
/// The kernel's error number: `ENOSYS` without it, `EPERM` without the right to it.
pub fn open(user_only: bool) -> Result<Uffd, i32> {
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | if user_only { USER_MODE_ONLY } else { 0 };
    // SAFETY: takes a number; until memory is registered, the descriptor does nothing.
    let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
    if fd < 0 {
        return Err(last());
    }
    // SAFETY: the kernel has just made this descriptor for us, nobody else knows it.
    Ok(Uffd(unsafe { OwnedFd::from_raw_fd(fd as i32) }))
}

/// The same by `/dev/userfaultfd`, for whom its rights let in.
///
/// # Errors
/// The kernel's error number.
pub fn open_by(device: impl AsFd) -> Result<Uffd, i32> {
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: the request takes a number; another device refuses it with ENOTTY.
    let fd = unsafe { libc::ioctl(device.as_fd().as_raw_fd(), NEW, flags) };
    if fd < 0 {
        return Err(last());
    }
    // SAFETY: as above.
    Ok(Uffd(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// A request that says nothing of memory's contents, or is called by what sees to them.
fn ask<T>(fd: &Uffd, request: libc::Ioctl, argument: &mut T) -> Result<(), i32> {
    // SAFETY: the request's number has the size of `T`, and the kernel reads and writes that much.
    // What requests do to memory is discussed where they are made.
    let result = unsafe { libc::ioctl(fd.0.as_raw_fd(), request, std::ptr::from_mut(argument)) };
    if result < 0 { Err(last()) } else { Ok(()) }
}

/// Begins with a descriptor: asks for features.
///
/// # Errors
/// `EINVAL` where the kernel does not have one of them, `EPERM` without the right.
pub fn begin(fd: &Uffd, features: u64) -> Result<(), i32> {
    ask(fd, API, &mut Api { api: VERSION, features, ioctls: 0 })
}

/// Hands over faults of `[start, start + len)`. Threads that make one wait: contents stay.
///
/// # Errors
/// `EBUSY` where another descriptor has a part of it, `EINVAL` where it is not mapped, or memory of
/// another kind.
pub fn register(fd: &Uffd, start: u64, len: u64, mode: u64) -> Result<(), i32> {
    ask(fd, REGISTER, &mut WithRange { range: Range { start, len }, mode, result: 0 })
}

/// Ends that; who waits goes on. Pages that are not there read as zeros again: what was taken out
/// must be back, which [`super::Userfault`] sees to.
///
/// # Errors
/// `EINVAL` where it is not mapped.
pub fn unregister(fd: &Uffd, start: u64, len: u64) -> Result<(), i32> {
    ask(fd, UNREGISTER, &mut Range { start, len })
}

/// Has all who wait there try again.
///
/// # Errors
/// The kernel's error number.
pub fn wake(fd: &Uffd, start: u64, len: u64) -> Result<(), i32> {
    ask(fd, WAKE, &mut Range { start, len })
}

/// Puts zeros where there is nothing, and wakes who waits.
///
/// # Errors
/// `EEXIST` where there is something, `EAGAIN` while mappings change.
pub fn zero(fd: &Uffd, start: u64, len: u64) -> Result<(), i32> {
    ask(fd, ZEROPAGE, &mut WithRange { range: Range { start, len }, mode: 0, result: 0 })
}

/// Moves a page of this process, whatever Rust knows of both places; wakes who waits at `dst`.
/// [`super::Userfault`] is what makes that a safe thing to do.
///
/// # Errors
/// `EEXIST` where there is something, `ENOENT` where there is nothing to move, `EBUSY` where it
/// belongs to others, too, `EAGAIN` while mappings change.
pub fn move_page(fd: &Uffd, dst: u64, src: u64) -> Result<(), i32> {
    ask(fd, MOVE, &mut Transfer { dst, src, len: PAGE, mode: 0, done: 0 })
}

/// Fills a page that is not there, of the process to which the descriptor belongs, with the
/// contents of one of ours; wakes who waits.
///
/// # Errors
/// As [`move_page`].
pub fn copy_page(fd: &Uffd, dst: u64, src: u64) -> Result<(), i32> {
    ask(fd, COPY, &mut Transfer { dst, src, len: PAGE, mode: 0, done: 0 })
}

const PAGE: u64 = frostline_core::types::PAGE_BYTES;

/// What a descriptor tells; addresses are in bytes.
#[derive(Debug)]
pub enum Message {
    /// Somebody waits at this address; with `write`, to write it.
    Fault { address: u64, write: bool },
    /// The process was copied; the descriptor of the copy.
    Fork(Uffd),
    /// Mapped elsewhere.
    Remap { from: u64, to: u64, len: u64 },
    /// Contents are about to be thrown away.
    Remove { start: u64, end: u64 },
    /// Unmapped.
    Unmap { start: u64, end: u64 },
    /// Something else.
    Other,
}

/// The next message; `None` where there is none.
///
/// # Errors
/// The kernel's error number.
pub fn read(fd: &Uffd) -> Result<Option<Message>, i32> {
    let mut bytes = [0; 32];
    match rustix::io::read(fd, &mut bytes) {
        Ok(32) => {}
        Err(Errno::AGAIN | Errno::INTR) | Ok(_) => return Ok(None),
        Err(errno) => return Err(errno.raw_os_error()),
    }
    let word = |at: usize| {
        let word: [u8; 8] = std::array::from_fn(|byte| bytes[at + byte]);
        u64::from_ne_bytes(word)
    };
    let (first, second, third) = (word(8), word(16), word(24));
    Ok(Some(match bytes[0] {
        0x12 => Message::Fault { address: second, write: first & 1 != 0 },
        // SAFETY: the kernel has just made this descriptor for us, nobody else knows it.
        0x13 => Message::Fork(Uffd(unsafe { OwnedFd::from_raw_fd(first as u32 as i32) })),
        0x14 => Message::Remap { from: first, to: second, len: third },
        0x15 => Message::Remove { start: first, end: second },
        0x16 => Message::Unmap { start: first, end: second },
        _ => Message::Other,
    }))
}
