//! A thread of our own in somebody else's process.
//!
//! It is one of the C library's, so that the program's `setuid` and `fork` know of it, and has a
//! table of files of its own: the program sees none of ours and may close all descriptors that
//! there are, and we keep none of its pipes open.

use super::away;
use frostline_linux::Root;
use rustix::fd::{AsRawFd, IntoRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{PidfdGetfdFlags, pidfd_getfd};
use std::ffi::{CStr, c_int, c_void};
use std::os::fd::FromRawFd;
use std::panic::catch_unwind;
use std::ptr;
use std::time::Duration;

/// Exchanges the table of files for a copy (`include/uapi/linux/close_range.h`, Linux 5.9).
const CLOSE_RANGE_UNSHARE: libc::c_uint = 1 << 1;
/// A descriptor of a thread (`include/uapi/linux/pidfd.h`, Linux 6.9).
const PIDFD_THREAD: libc::c_int = libc::O_EXCL;
/// Between two looks whether the program's threads have ended.
const LOOK: Duration = Duration::from_millis(20);

/// How the work of a thread ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The thread ends.
    Quiet,
    /// The program's first thread has ended by itself, and others go on. The process ends when the
    /// last thread does, which then flushes the program's streams: this thread sees to it that it
    /// is the last one, with the program's files in its table.
    ProgramLeft,
}

/// A thread and what it does.
#[derive(Debug)]
pub struct Thread {
    /// As the kernel shows it; at most 15 bytes.
    pub name: &'static CStr,
    /// Room for its stack.
    pub stack_bytes: usize,
    /// Waits for what makes the work worth its while, and says whether it is. It must not open
    /// files, which would be the program's.
    pub rest: fn() -> bool,
    /// Its work. It is told why it has no files of its own, as an error number: it must not open
    /// any then.
    pub work: fn(Result<(), i32>) -> Ending,
}

/// Starts a thread to which no signal is delivered but those of the C library itself. May be called
/// by a handler of [`after_fork`], where it takes the stack of the parent's thread.
///
/// # Errors
/// The kernel's error number.
pub fn start(thread: &'static Thread) -> Result<(), i32> {
    frostline_linux::process::set_in_another_program();
    // SAFETY: all of these are plain memory that is valid when zero, and is filled in by the calls
    // that follow before it is read. `begin` gets what lives as long as the process.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        let mut id: libc::pthread_t = std::mem::zeroed();
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) =
            (std::mem::zeroed(), std::mem::zeroed());
        checked(libc::pthread_attr_init(&raw mut attributes))?;
        libc::pthread_attr_setdetachstate(&raw mut attributes, libc::PTHREAD_CREATE_DETACHED);
        libc::pthread_attr_setstacksize(&raw mut attributes, thread.stack_bytes);
        // The C library leaves its own signals out, by which it changes the user of all threads.
        libc::sigfillset(&raw mut all);
        // The thread inherits the mask: there is no moment in which a signal could reach it.
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let argument = ptr::from_ref(thread).cast_mut().cast();
        let started = libc::pthread_create(&raw mut id, &raw const attributes, begin, argument);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
        libc::pthread_attr_destroy(&raw mut attributes);
        checked(started)
    }
}

fn checked(errno: c_int) -> Result<(), i32> {
    if errno == 0 { Ok(()) } else { Err(errno) }
}

extern "C" fn begin(thread: *mut c_void) -> *mut c_void {
    // SAFETY: `start` handed over a reference that is valid for ever.
    let thread: &'static Thread = unsafe { &*thread.cast::<Thread>() };
    // Whatever fails in here ends this thread and nothing else.
    let _ = catch_unwind(|| {
        let _ = rustix::thread::set_name(thread.name);
        if !(thread.rest)() {
            return;
        }
        speak_plainly();
        if (thread.work)(take_own_files()) == Ending::ProgramLeft {
            wait_for_the_others();
        }
    });
    ptr::null_mut()
}

/// Texts of the C library come in English, and without its allocating memory for translations.
fn speak_plainly() {
    // SAFETY: the name is a text with a zero at its end; this locale always exists, is never freed,
    // and concerns this thread only.
    unsafe {
        let plain = libc::newlocale(libc::LC_ALL_MASK, c"C".as_ptr(), ptr::null_mut());
        if !plain.is_null() {
            libc::uselocale(plain);
        }
    }
}

/// A table of files and a working directory, `/`, for this thread alone. The numbers of the standard
/// streams lead nowhere.
fn take_own_files() -> Result<(), i32> {
    // With others in its directory, a program may not enter another tree of mounts.
    // SAFETY: takes a number, and concerns this thread only.
    if unsafe { libc::unshare(libc::CLONE_FS) } == 0 {
        let _ = rustix::process::chdir("/");
    }
    close_all(CLOSE_RANGE_UNSHARE)?;
    for _ in 0..3 {
        let nowhere = open(c"/dev/null", OFlags::RDWR, Mode::empty());
        let _ = nowhere.map_err(rustix::io::Errno::raw_os_error)?.into_raw_fd();
    }
    Ok(())
}

fn close_all(flags: libc::c_uint) -> Result<(), i32> {
    // SAFETY: takes numbers. It is called where this thread owns no descriptor, by what `Thread`
    // demands: before its work begins in a table that is the program's until then, which stays as
    // it is, and after that has ended.
    let result = unsafe { libc::syscall(libc::SYS_close_range, 0_u32, u32::MAX, flags) };
    if result == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }
}

/// Returns when no other thread is left than the first, which has ended. Has the files of one of
/// the others meanwhile, under their numbers, because the last thread of a process flushes its
/// streams.
fn wait_for_the_others() {
    let (root, own) = (Root::system(), rustix::thread::gettid().as_raw_pid() as u32);
    let pid = std::process::id();
    loop {
        let threads = root.list(format!("/proc/{pid}/task")).unwrap_or_default();
        let mut threads = threads.iter().filter_map(|name| name.parse::<u32>().ok());
        let Some(other) = threads.find(|tid| *tid != own && *tid != pid) else { return };
        // Where that has ended meanwhile, the files of the look before are as good.
        let _ = take_files_of(&root, pid, other);
        std::thread::sleep(LOOK);
    }
}

fn take_files_of(root: &Root, pid: u32, tid: u32) -> Result<(), i32> {
    let errno = rustix::io::Errno::raw_os_error;
    let folder = format!("/proc/{pid}/task/{tid}/fd");
    let numbers = root.list(&folder).map_err(|error| error.errno().unwrap_or(0))?;
    let numbers: Vec<i32> = numbers.iter().filter_map(|name| name.parse().ok()).collect();
    let Some(most) = numbers.iter().max() else { return Err(libc::ESRCH) };
    // SAFETY: takes numbers.
    let thread = unsafe { libc::syscall(libc::SYS_pidfd_open, tid, PIDFD_THREAD) };
    let thread = (thread >= 0).then(|| {
        // SAFETY: the kernel has just made this descriptor for us, nobody else knows it.
        unsafe { OwnedFd::from_raw_fd(thread as i32) }
    });
    // Its number may have become that of somebody else's thread before it was opened.
    if !root.path(format!("/proc/{pid}/task/{tid}")).exists() {
        return Err(libc::ESRCH);
    }
    // Beyond all numbers that are wanted.
    let thread = thread.and_then(|fd| rustix::io::fcntl_dupfd_cloexec(&fd, most + 1).ok());
    close_up_to(*most);
    for number in numbers {
        let file = match &thread {
            Some(thread) => pidfd_getfd(thread, number, PidfdGetfdFlags::empty()).map_err(errno)?,
            None if number > 2 => continue,
            None => {
                let path = root.path(format!("{folder}/{number}"));
                let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOCTTY;
                let Ok(file) = open(path, flags, Mode::empty()) else { continue };
                file
            }
        };
        place(file, number);
    }
    Ok(())
}

/// Closes what this thread holds in place of the program's files.
fn close_up_to(most: i32) {
    // SAFETY: takes numbers; of these descriptors no value in this program knows.
    unsafe { libc::syscall(libc::SYS_close_range, 0_u32, most as libc::c_uint, 0_u32) };
}

/// Gives a file this number; there it stays, owned by nobody.
fn place(file: OwnedFd, number: i32) {
    if file.as_raw_fd() == number {
        let _ = file.into_raw_fd();
        return;
    }
    // SAFETY: takes numbers; `number` belongs to no value in this program.
    unsafe { libc::dup2(file.as_raw_fd(), number) };
}

/// Where the C library keeps what it knows of each thread of this process: an address in it. The
/// kernel writes there when the thread ends (`clear_child_tid`), and does not wait for pages then.
///
/// Source: get_robust_list(2).
pub fn thread_blocks() -> Vec<u64> {
    let tasks = Root::system().list("/proc/self/task").unwrap_or_default();
    let blocks = tasks.iter().filter_map(|tid| {
        let tid: libc::pid_t = tid.parse().ok()?;
        let (mut head, mut len) = (0_u64, 0_usize);
        // SAFETY: the kernel writes an address and a length, which outlive the call.
        let result =
            unsafe { libc::syscall(libc::SYS_get_robust_list, tid, &raw mut head, &raw mut len) };
        (result == 0 && head != 0).then_some(head)
    });
    blocks.collect()
}

/// Has `handler` called in every child that this process forks, in its only thread. It may do what
/// a signal handler may, and call [`start`]. Forks wait for pages that are away from their places.
///
/// # Errors
/// The error number where there is no memory.
pub fn after_fork(handler: extern "C" fn()) -> Result<(), i32> {
    type Handler = Option<extern "C" fn()>;
    unsafe extern "C" {
        fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> c_int;
    }
    let (begins, ends) = (away::fork_begins, away::fork_ends);
    // SAFETY: the handlers are functions of the type that is wanted, and stay where they are.
    checked(unsafe { pthread_atfork(Some(begins), Some(ends), Some(handler)) })
}

/// Address of what the C library keeps for one of this process's threads, at the upper end of its
/// stack, and the kernel writes when the thread ends; `None` where the thread has none, or has ended.
///
/// Source: get_robust_list(2), by which the C library says where that is.
pub fn thread_block(tid: u32) -> Option<u64> {
    let (mut head, mut len) = (0_u64, 0_usize);
    // SAFETY: the kernel writes two numbers, for which there is room.
    let result =
        unsafe { libc::syscall(libc::SYS_get_robust_list, tid, &raw mut head, &raw mut len) };
    (result == 0 && head != 0).then_some(head)
}
