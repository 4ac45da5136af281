//! Processes, named so that a reused number never hits the wrong program.
//!
//! Sources: proc_pid_stat(5), proc_pid_status(5), pidfd_open(2).

use crate::{LinuxError, Root};
use frostline_core::Foreign;
use frostline_core::types::{Bytes, Nanos, PAGE_BYTES, PageCount};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

pub mod clock;
pub mod delays;
pub mod maps;
pub mod users;

/// A process's number together with its start, which no later process of that number shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// Number of the process.
    pub pid: u32,
    /// When it started, in clock ticks since the system's start.
    pub start_ticks: u64,
}

impl Identity {
    /// Of this process.
    ///
    /// # Errors
    /// Where `/proc` cannot be read.
    pub fn own(root: &Root) -> Result<Self, LinuxError> {
        let pid = std::process::id();
        Ok(Self { pid, start_ticks: stat(root, pid)?.start_ticks })
    }

    /// Whether it still runs; one that has ended and waits for its parent does not.
    pub fn is_alive(&self, root: &Root) -> bool {
        stat(root, self.pid).is_ok_and(|stat| {
            stat.start_ticks == self.start_ticks && !matches!(stat.state, 'Z' | 'X')
        })
    }
}

/// `PF_KTHREAD` (`include/linux/sched.h`).
const KERNEL_THREAD: u64 = 0x0020_0000;
/// `PF_FORKNOEXEC`.
const NOT_EXECUTED: u64 = 0x40;

/// Marks of a program image: they differ before and after an `execve`, because the kernel places
/// stack and heap at random. All 0 without the right to look into the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ImageMark {
    start_stack: u64,
    start_brk: u64,
    arg_start: u64,
}

/// What `/proc/PID/stat` tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Name of the program, cut to 15 bytes by the kernel; may hold any character.
    pub comm: Foreign,
    /// State: `R` running, `S` sleeping, `T` stopped, `Z` ended and not waited for, ...
    pub state: char,
    /// Its parent, 0 for none.
    pub parent: u32,
    /// Page faults that needed no I/O, since the start.
    pub minor_faults: u64,
    /// Page faults that did, refaults from compressed memory among them.
    pub major_faults: u64,
    /// Time on processors in user and kernel mode, in clock ticks.
    pub cpu_ticks: u64,
    /// Of these, in user mode.
    pub user_ticks: u64,
    /// Number of threads.
    pub threads: u32,
    /// Whether it is a thread of the kernel's, without memory of its own.
    pub is_kernel: bool,
    /// Whether it has executed a program since it was forked.
    pub has_executed: bool,
    /// When it started, in clock ticks since the system's start.
    pub start_ticks: u64,
    /// Which program image it runs.
    pub image: ImageMark,
}

impl Stat {
    /// Time on processors in user and kernel mode.
    pub fn cpu(&self) -> Nanos {
        Nanos(self.cpu_ticks * clock::tick().0)
    }
}

/// Memory of a process by `/proc/PID/status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Usage {
    /// Resident, of any kind.
    pub resident: Bytes,
    /// Resident and anonymous.
    pub anonymous: Bytes,
    /// Anonymous memory that is in swap.
    pub swapped: Bytes,
    /// Resident pages of files.
    pub files: Bytes,
    /// Resident, shared and without a file of a disk.
    pub shared: Bytes,
    /// Locked into memory, of whatever kind.
    pub locked: Bytes,
    /// Huge pages that were reserved (hugetlbfs), which are not resident by the other counts.
    pub reserved: Bytes,
}

/// An open process. It stays the same one however often its number is used again.
#[derive(Debug)]
pub struct Target {
    identity: Identity,
    pidfd: OwnedFd,
    root: Root,
}

impl Target {
    /// Opens the process `pid` of the running system; `root` is where its files are read.
    ///
    /// # Errors
    /// [`LinuxError::Gone`] where there is none or it has ended; [`LinuxError::Unsupported`] for
    /// the number of a thread.
    pub fn open(root: &Root, pid: u32) -> Result<Self, LinuxError> {
        let gone = LinuxError::Gone { pid };
        let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
            return Err(gone);
        };
        let pidfd = match pidfd_open(number, PidfdFlags::empty()) {
            Ok(fd) => fd,
            Err(error) if root.path(format!("/proc/{pid}")).exists() => {
                let errno = error.raw_os_error();
                // A number that exists and is no process is a thread's (kernel/pid.c).
                return Err(match errno {
                    libc::EINVAL | libc::ENOENT => LinuxError::Unsupported {
                        what: format!("{pid} is a thread, not a process"),
                        hint: "give the number of its process (Tgid in its status file)".into(),
                    },
                    _ => LinuxError::call("pidfd_open", pid, errno),
                });
            }
            Err(error) => return Err(LinuxError::call("pidfd_open", pid, error.raw_os_error())),
        };
        let start_ticks = stat(root, pid)?.start_ticks;
        let target = Self { identity: Identity { pid, start_ticks }, pidfd, root: root.clone() };
        // The file just read was this process's only if it is alive after the reading.
        if target.is_alive() { Ok(target) } else { Err(gone) }
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.identity.pid
    }

    /// Whether it is the process that asks.
    pub fn is_this_process(&self) -> bool {
        self.pid() == std::process::id()
    }

    /// Number and start.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Where its files are read.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Whether it runs: false as soon as its last thread has ended.
    pub fn is_alive(&self) -> bool {
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut fds, Some(&now)), Ok(0))
    }

    /// [`LinuxError::Gone`] unless it runs.
    ///
    /// # Errors
    /// Where it has ended.
    pub fn check_alive(&self) -> Result<(), LinuxError> {
        if self.is_alive() { Ok(()) } else { Err(LinuxError::Gone { pid: self.pid() }) }
    }

    /// Runs `read` on its number and root; the result counts only if it is alive afterwards.
    fn read<T>(
        &self,
        read: impl FnOnce(&Root, u32) -> Result<T, LinuxError>,
    ) -> Result<T, LinuxError> {
        let result = read(&self.root, self.pid());
        self.check_alive()?;
        result
    }

    /// State, faults, time and threads.
    ///
    /// # Errors
    /// [`LinuxError::Gone`] where it has ended.
    pub fn stat(&self) -> Result<Stat, LinuxError> {
        self.read(stat)
    }

    /// Name of its program, at most 15 bytes.
    ///
    /// # Errors
    /// [`LinuxError::Gone`] where it has ended.
    pub fn comm(&self) -> Result<Foreign, LinuxError> {
        Ok(self.stat()?.comm)
    }

    /// Number of the user as whom it uses files; `None` where that is not told.
    pub fn user(&self) -> Option<u32> {
        let status = self.root.read(format!("/proc/{}/status", self.pid())).ok()?;
        field(&status, "Uid")?.split_ascii_whitespace().nth(3)?.parse().ok()
    }

    /// Its memory.
    ///
    /// # Errors
    /// [`LinuxError::Gone`] where it has ended.
    pub fn usage(&self) -> Result<Usage, LinuxError> {
        self.read(usage)
    }

    /// Its resident memory of all kinds.
    ///
    /// # Errors
    /// [`LinuxError::Gone`] where it has ended.
    pub fn resident(&self) -> Result<Bytes, LinuxError> {
        self.read(|root, pid| {
            let text = read_of(root, pid, &format!("/proc/{pid}/statm"))?;
            let pages = text.split_ascii_whitespace().nth(1).and_then(|word| word.parse().ok());
            Ok(PageCount(pages.unwrap_or(0)).bytes())
        })
    }

    /// Numbers of its threads, ascending.
    ///
    /// # Errors
    /// [`LinuxError::Gone`] where it has ended.
    pub fn threads(&self) -> Result<Vec<u32>, LinuxError> {
        self.read(|root, pid| Ok(numbers(&root.list(format!("/proc/{pid}/task"))?)))
    }

    /// Its children, ascending.
    ///
    /// # Errors
    /// [`LinuxError::Gone`] where it has ended.
    pub fn children(&self) -> Result<Vec<u32>, LinuxError> {
        self.read(children)
    }
}

impl AsFd for Target {
    /// The pidfd; it becomes readable when the process ends.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

/// Reads and parses `/proc/PID/stat`.
///
/// # Errors
/// [`LinuxError::Gone`] where there is no such process; [`LinuxError::Malformed`].
pub fn stat(root: &Root, pid: u32) -> Result<Stat, LinuxError> {
    let path = format!("/proc/{pid}/stat");
    let text = read_of(root, pid, &path)?;
    parse_stat(&text).ok_or_else(|| LinuxError::Malformed {
        path: root.path(path),
        what: "not the fields of a process".into(),
    })
}

/// Reads a process's file; one that does not exist (any more) means that it has ended. Names that
/// are not UTF-8 come with replacement characters.
fn read_of(root: &Root, pid: u32, path: &str) -> Result<String, LinuxError> {
    let path = root.path(path);
    match std::fs::read(&path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => {
            Err(LinuxError::Gone { pid })
        }
        Err(error) => Err(LinuxError::io("read", path, &error)),
    }
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The name may itself hold parentheses and spaces: it ends at the last one.
    let (open, close) = (text.find('(')?, text.rfind(')')?);
    let comm = text.get(open + 1..close)?.into();
    let fields: Vec<&str> = text.get(close + 1..)?.split_ascii_whitespace().collect();
    // Numbered as in the manual page, where the state is field 3.
    let field = |number: usize| fields.get(number - 3).copied();
    let number = |index: usize| field(index).and_then(|text| text.parse::<u64>().ok());
    Some(Stat {
        comm,
        state: field(3)?.chars().next()?,
        parent: field(4)?.parse().ok()?,
        minor_faults: number(10)?,
        major_faults: number(12)?,
        cpu_ticks: number(14)?.saturating_add(number(15)?),
        user_ticks: number(14)?,
        threads: field(20)?.parse().ok()?,
        is_kernel: number(9)? & KERNEL_THREAD != 0,
        has_executed: number(9)? & NOT_EXECUTED == 0,
        start_ticks: number(22)?,
        image: ImageMark {
            start_stack: number(28).unwrap_or(0),
            start_brk: number(47).unwrap_or(0),
            arg_start: number(48).unwrap_or(0),
        },
    })
}

fn usage(root: &Root, pid: u32) -> Result<Usage, LinuxError> {
    let text = read_of(root, pid, &format!("/proc/{pid}/status"))?;
    let of = |name: &str| Bytes(kib_field(&text, name).unwrap_or(0).saturating_mul(1024));
    Ok(Usage {
        resident: of("VmRSS"),
        anonymous: of("RssAnon"),
        swapped: of("VmSwap"),
        files: of("RssFile"),
        shared: of("RssShmem"),
        locked: of("VmLck"),
        reserved: of("HugetlbPages"),
    })
}

/// The number in a line `Name:   123 kB`, as it stands there.
pub(crate) fn kib_field(text: &str, name: &str) -> Option<u64> {
    field(text, name)?.split_ascii_whitespace().next()?.parse().ok()
}

/// What stands in a line `Name:   value`, as `/proc/PID/status` has them.
pub fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let value = |line: &'a str| line.strip_prefix(name)?.strip_prefix(':');
    text.lines().find_map(value).map(str::trim)
}

fn numbers(names: &[String]) -> Vec<u32> {
    let mut numbers: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// Numbers of all processes, ascending.
///
/// # Errors
/// Where `/proc` cannot be listed.
pub fn pids(root: &Root) -> Result<Vec<u32>, LinuxError> {
    Ok(numbers(&root.list("/proc")?))
}

/// Children of `pid`, ascending; empty where it has none or has ended.
///
/// # Errors
/// Where `/proc` cannot be read.
pub fn children(root: &Root, pid: u32) -> Result<Vec<u32>, LinuxError> {
    let mut found = Vec::new();
    let mut listed = false;
    for thread in root.list(format!("/proc/{pid}/task"))? {
        let path = format!("/proc/{pid}/task/{thread}/children");
        // A thread that ends meanwhile has handed its children to another one.
        if let Ok(text) = root.read(path) {
            listed = true;
            found.extend(text.split_ascii_whitespace().filter_map(|word| word.parse::<u32>().ok()));
        }
    }
    if !listed {
        // A kernel without CONFIG_PROC_CHILDREN has no such file.
        found = by_parent(root)?.remove(&pid).unwrap_or_default();
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// Children of `pids`, their children and so on, each once, without `pids` themselves, and without those of which `belongs` says
/// otherwise and what they have started. A process whose parent ended before the call belongs to another parent by
/// now and is not among them.
///
/// # Errors
/// Where `/proc` cannot be read.
pub fn descendants(
    root: &Root,
    pids: &[u32],
    belongs: impl Fn(u32) -> bool,
) -> Result<Vec<u32>, LinuxError> {
    if pids.is_empty() {
        return Ok(Vec::new());
    }
    let tree = by_parent(root)?;
    let mut seen: BTreeSet<u32> = pids.iter().copied().collect();
    let mut found = Vec::new();
    let mut next = pids.to_vec();
    while let Some(parent) = next.pop() {
        for &child in tree.get(&parent).into_iter().flatten() {
            // Numbers change hands while we read: without the check a cycle would not end.
            if seen.insert(child) && belongs(child) {
                found.push(child);
                next.push(child);
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn by_parent(root: &Root) -> Result<BTreeMap<u32, Vec<u32>>, LinuxError> {
    let mut tree: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for pid in pids(root)? {
        if let Ok(stat) = stat(root, pid) {
            tree.entry(stat.parent).or_default().push(pid);
        }
    }
    Ok(tree)
}

/// Memory that the kernel thinks can be had without swapping (`MemAvailable`).
///
/// # Errors
/// Where `/proc/meminfo` cannot be read or does not say.
pub fn available_memory(root: &Root) -> Result<Bytes, LinuxError> {
    meminfo(root, "MemAvailable")
}

/// Memory that the kernel has (`MemTotal`).
///
/// # Errors
/// Where `/proc/meminfo` cannot be read or does not say.
pub fn total_memory(root: &Root) -> Result<Bytes, LinuxError> {
    meminfo(root, "MemTotal")
}

/// Swap space that there is (`SwapTotal`).
///
/// # Errors
/// Where `/proc/meminfo` cannot be read or does not say.
pub fn total_swap(root: &Root) -> Result<Bytes, LinuxError> {
    meminfo(root, "SwapTotal")
}

/// Swap space that nothing is in (`SwapFree`).
///
/// # Errors
/// Where `/proc/meminfo` cannot be read or does not say.
pub fn free_swap(root: &Root) -> Result<Bytes, LinuxError> {
    meminfo(root, "SwapFree")
}

fn meminfo(root: &Root, field: &str) -> Result<Bytes, LinuxError> {
    let text = root.read("/proc/meminfo")?;
    let kib = kib_field(&text, field).ok_or_else(|| LinuxError::Malformed {
        path: root.path("/proc/meminfo"),
        what: format!("no {field}"),
    })?;
    Ok(Bytes(kib.saturating_mul(1024)))
}

/// Fails where pages are not 4 KiB: nothing in this project is right then.
///
/// # Errors
/// [`LinuxError::Unsupported`] on such a kernel.
pub fn check_page_size() -> Result<(), LinuxError> {
    let bytes = rustix::param::page_size() as u64;
    if bytes == PAGE_BYTES {
        return Ok(());
    }
    Err(LinuxError::Unsupported {
        what: format!("this kernel's pages have {bytes} bytes"),
        hint: "use a kernel with pages of 4 KiB".into(),
    })
}

pub use crate::sys::memory::{share_heap, trim_heap};

/// This process, or one that it was forked by, is another program's.
static IN_ANOTHER_PROGRAM: AtomicBool = AtomicBool::new(false);

/// Notes that this code runs in the process of another program, as an agent does.
pub fn set_in_another_program() {
    IN_ANOTHER_PROGRAM.store(true, Ordering::Relaxed);
}

/// Whether this code runs in the process of another program. That one may fork: what threads of ours
/// own is lost in the child, and locks that they hold stay locked there.
pub fn in_another_program() -> bool {
    IN_ANOTHER_PROGRAM.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests;
