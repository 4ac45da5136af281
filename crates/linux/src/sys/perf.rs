//! `perf_event_open(2)`, its ioctls, and the memory that the kernel writes records into.

use perf_event_open_sys::{self as perf, bindings};
use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// What an event counts and what its records hold: the part of `perf_event_attr` that is used
/// here. Times are those of `CLOCK_MONOTONIC`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attr {
    /// Number of the PMU, as in its `type` file.
    pub pmu: u32,
    /// Event, in the PMU's own encoding.
    pub config: u64,
    /// More of the same.
    pub config1: u64,
    /// More of the same.
    pub config2: u64,
    /// A record every so many events; 0 counts without records.
    pub period: u64,
    /// Mask of `PERF_SAMPLE_*`: what a record holds.
    pub sample_type: u64,
    /// Accuracy of the instruction, `0..=3`; above 0 the processor itself takes the record.
    pub precise: u8,
    /// Whether the event does not count until it is enabled.
    pub disabled: bool,
    /// Whether threads and processes that a watched thread starts are watched, too.
    pub inherit: bool,
    /// Of these, only threads (Linux 5.13).
    pub inherit_threads: bool,
    /// Whether the event is enabled when the watched thread executes another program.
    pub enable_on_exec: bool,
    /// Whether what the kernel does for a program is left out.
    pub exclude_kernel: bool,
    /// Whether starts and ends of threads, and program changes, are recorded.
    pub lifecycle: bool,
    /// Whether reading the event's descriptor tells how many records were lost (Linux 6.0).
    pub count_lost: bool,
    /// Wake a waiting reader when so many bytes are unread; 0 where no reader waits.
    pub wake_bytes: u32,
}

impl Attr {
    fn raw(&self) -> bindings::perf_event_attr {
        let mut attr = bindings::perf_event_attr::default();
        attr.size = size_of_val(&attr) as u32;
        attr.type_ = self.pmu;
        attr.config = self.config;
        attr.__bindgen_anon_1.sample_period = self.period;
        attr.__bindgen_anon_3.config1 = self.config1;
        attr.__bindgen_anon_4.config2 = self.config2;
        attr.sample_type = self.sample_type;
        if self.count_lost {
            attr.read_format = bindings::PERF_FORMAT_LOST.into();
        }
        attr.clockid = libc::CLOCK_MONOTONIC;
        attr.set_use_clockid(1);
        attr.set_precise_ip(u64::from(self.precise.min(3)));
        attr.set_disabled(u64::from(self.disabled));
        attr.set_inherit(u64::from(self.inherit));
        attr.set_inherit_thread(u64::from(self.inherit && self.inherit_threads));
        attr.set_enable_on_exec(u64::from(self.enable_on_exec));
        attr.set_exclude_kernel(u64::from(self.exclude_kernel));
        attr.set_exclude_hv(u64::from(self.exclude_kernel));
        attr.set_task(u64::from(self.lifecycle));
        attr.set_comm(u64::from(self.lifecycle));
        attr.set_comm_exec(u64::from(self.lifecycle));
        attr.set_sample_id_all(u64::from(self.lifecycle));
        if self.wake_bytes > 0 {
            attr.set_watermark(1);
            attr.__bindgen_anon_2.wakeup_watermark = self.wake_bytes;
        }
        attr
    }
}

/// Opens an event for a thread (`-1`: for all) on a processor (`-1`: on any), as a member of
/// `group` where one is given.
///
/// # Errors
/// The kernel's error number.
pub fn open(
    attr: &Attr,
    tid: i32,
    cpu: i32,
    group: Option<BorrowedFd<'_>>,
) -> Result<OwnedFd, i32> {
    let mut raw = attr.raw();
    let group = group.map_or(-1, |fd| fd.as_raw_fd());
    let flags = bindings::PERF_FLAG_FD_CLOEXEC.into();
    // SAFETY: `raw` is initialized, is as large as its `size` says, and lives for the call. It
    // holds no address that the kernel would write to.
    let fd = unsafe { perf::perf_event_open(&raw mut raw, tid, cpu, group, flags) };
    if fd < 0 {
        return Err(last_errno());
    }
    // SAFETY: the kernel has just made this descriptor for us, nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sends the records of an event to the ring of another one.
///
/// # Errors
/// The kernel's error number; `EINVAL` where they are of different processors or clocks.
pub fn redirect(event: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), i32> {
    // SAFETY: takes two descriptors, which are open.
    checked(unsafe { perf::ioctls::SET_OUTPUT(event.as_raw_fd(), to.as_raw_fd()) })
}

/// Lets only records of a tracepoint through whose fields satisfy `filter`.
///
/// # Errors
/// The kernel's error number; `EINVAL` where it does not understand the filter.
pub fn set_filter(event: BorrowedFd<'_>, filter: &CStr) -> Result<(), i32> {
    // SAFETY: the text ends with a zero byte and lives for the call; the kernel only reads it.
    checked(unsafe { perf::ioctls::SET_FILTER(event.as_raw_fd(), filter.as_ptr().cast_mut()) })
}

/// Starts an event that was opened disabled.
///
/// # Errors
/// The kernel's error number.
pub fn enable(event: BorrowedFd<'_>) -> Result<(), i32> {
    // SAFETY: takes a descriptor, which is open, and no memory.
    checked(unsafe { perf::ioctls::ENABLE(event.as_raw_fd(), 0) })
}

/// Stops an event and all that were inherited from it, until they are enabled again.
///
/// # Errors
/// The kernel's error number.
pub fn disable(event: BorrowedFd<'_>) -> Result<(), i32> {
    // SAFETY: takes a descriptor, which is open, and no memory.
    checked(unsafe { perf::ioctls::DISABLE(event.as_raw_fd(), 0) })
}

/// Has the event write a record every `period` events from now on, and those that will be inherited
/// from it; those that were inherited already go on as before (`_perf_event_period` of
/// `kernel/events/core.c`).
///
/// # Errors
/// The kernel's error number; `EINVAL` for period 0 and for an event that writes no records.
pub fn set_period(event: BorrowedFd<'_>, period: u64) -> Result<(), i32> {
    // The wrapper's argument is a number, the kernel's the address of one.
    let address = (&raw const period) as u64;
    // SAFETY: takes a descriptor, which is open, and a number that lives for the call; the kernel
    // only reads it.
    checked(unsafe { perf::ioctls::PERIOD(event.as_raw_fd(), address) })
}

fn checked(result: i32) -> Result<(), i32> {
    if result < 0 { Err(last_errno()) } else { Ok(()) }
}

fn last_errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Bytes of a page of the running kernel.
pub fn page_bytes() -> usize {
    // SAFETY: takes and returns numbers.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}

/// A mapped ring of records: a page with the positions of writer and reader, then the data.
#[derive(Debug)]
pub struct Ring {
    base: NonNull<u8>,
    header_bytes: usize,
    data_bytes: usize,
    /// Position up to which we have read; the kernel only ever sees copies of it.
    tail: u64,
}

// SAFETY: the mapping belongs to this value alone and is as valid on one thread as on another.
unsafe impl Send for Ring {}

/// The writer's position cannot be: it is further away than the ring is long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun;

impl Ring {
    /// Maps the ring of an event. `data_bytes` is rounded up to a power of two pages.
    ///
    /// # Errors
    /// The kernel's error number; `EPERM` beyond what this user may lock
    /// (`/proc/sys/kernel/perf_event_mlock_kb`).
    pub fn map(event: BorrowedFd<'_>, data_bytes: usize) -> Result<Self, i32> {
        Self::of(event.as_raw_fd(), libc::MAP_SHARED, data_bytes)
    }

    fn of(fd: i32, flags: i32, data_bytes: usize) -> Result<Self, i32> {
        let page = page_bytes();
        let pages = data_bytes.div_ceil(page).checked_next_power_of_two().ok_or(libc::EINVAL)?;
        let data_bytes = pages.checked_mul(page).ok_or(libc::EINVAL)?;
        let len = data_bytes.checked_add(page).ok_or(libc::EINVAL)?;
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: asks for a mapping at an address of the kernel's choice; replaces nothing.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, prot, flags, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(last_errno());
        }
        let base = NonNull::new(base.cast()).ok_or(libc::ENOMEM)?;
        let mut ring = Self { base, header_bytes: page, data_bytes, tail: 0 };
        ring.tail = ring.tail_word().load(Ordering::Relaxed);
        Ok(ring)
    }

    /// Bytes of data that fit.
    pub fn data_bytes(&self) -> usize {
        self.data_bytes
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the header page is mapped for the life of `self`, the offsets handed in are
        // those of aligned 8-byte fields in it, and it is only accessed through atomics.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    fn head_word(&self) -> &AtomicU64 {
        self.word(std::mem::offset_of!(bindings::perf_event_mmap_page, data_head))
    }

    fn tail_word(&self) -> &AtomicU64 {
        self.word(std::mem::offset_of!(bindings::perf_event_mmap_page, data_tail))
    }

    /// Appends all unread bytes to `out` and gives their room back to the kernel.
    ///
    /// # Errors
    /// [`Overrun`] where the positions make no sense; all is skipped, nothing appended.
    pub fn take(&mut self, out: &mut Vec<u8>) -> Result<(), Overrun> {
        let head = self.head_word().load(Ordering::Acquire);
        let unread = head.wrapping_sub(self.tail);
        let fits = unread <= self.data_bytes as u64;
        if fits && unread > 0 {
            let unread = unread as usize;
            let start = (self.tail % self.data_bytes as u64) as usize;
            let first = unread.min(self.data_bytes - start);
            out.reserve(unread);
            for (offset, len) in [(start, first), (0, unread - first)] {
                // SAFETY: `offset + len <= data_bytes`, so the source is mapped, and the kernel
                // does not write between tail and head. The destination has been reserved, is
                // ours alone, and is initialized by the copy before its length says so.
                unsafe {
                    let from = self.base.as_ptr().add(self.header_bytes + offset);
                    let to = out.as_mut_ptr().add(out.len());
                    std::ptr::copy_nonoverlapping(from, to, len);
                    out.set_len(out.len() + len);
                }
            }
        }
        self.tail = head;
        self.tail_word().store(head, Ordering::Release);
        if fits { Ok(()) } else { Err(Overrun) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: unmaps what `of` mapped; no reference into it outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.header_bytes + self.data_bytes) };
    }
}

/// A ring without a kernel behind it, and the kernel's part.
#[cfg(test)]
pub mod synthetic {
    use super::*;

    /// Memory laid out as a ring, all positions at `start`.
    pub fn ring(data_bytes: usize, start: u64) -> Ring {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let mut ring = Ring::of(-1, flags, data_bytes).expect("memory can be mapped");
        ring.head_word().store(start, Ordering::Relaxed);
        ring.tail_word().store(start, Ordering::Relaxed);
        ring.tail = start;
        ring
    }

    impl Ring {
        /// Writes a record where it fits, as the kernel does; false where it is lost.
        pub fn produce(&mut self, record: &[u8]) -> bool {
            let head = self.head_word().load(Ordering::Relaxed);
            let tail = self.tail_word().load(Ordering::Acquire);
            let used = head.wrapping_sub(tail);
            if used + record.len() as u64 > self.data_bytes as u64 {
                return false;
            }
            for (i, byte) in record.iter().enumerate() {
                let at = (head.wrapping_add(i as u64) % self.data_bytes as u64) as usize;
                // SAFETY: `at < data_bytes`, and `self` is borrowed alone.
                unsafe { *self.base.as_ptr().add(self.header_bytes + at) = *byte };
            }
            self.jump(head.wrapping_add(record.len() as u64));
            true
        }

        /// Sets the writer's position.
        pub fn jump(&mut self, head: u64) {
            self.head_word().store(head, Ordering::Release);
        }
    }
}
