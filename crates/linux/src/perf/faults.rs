//! Page faults of running programs, one record each: which thread touched which address when.

use super::record::RawSample;
use super::{Collector, Cost, Lifecycle, RING_BYTES, Spec, Start};
use crate::error::LinuxError;
use crate::root::Root;
use crate::sys::perf::Attr;
use perf_event_open_sys::bindings as sys;
use std::os::fd::BorrowedFd;

/// Which faults are sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Those that had to wait for memory to be brought in: what comes back from a swap tier.
    Major,
    /// Those and first touches, copies on write and NUMA hint faults.
    All,
}

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultSample {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Virtual address that was touched; for touches by the kernel the address it began at.
    pub address: u64,
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub time_ns: u64,
}

/// Reports every page fault of the processes it watches, and of all that they start.
///
/// Not seen: pages that others fault in on a program's behalf without its executing
/// (`get_user_pages`: direct I/O, `process_vm_readv`, debuggers).
#[derive(Debug)]
pub struct FaultSampler(Collector);

impl FaultSampler {
    /// A sampler that watches nobody yet, with rings of [`RING_BYTES`].
    ///
    /// # Errors
    /// [`LinuxError::Unsupported`] where the kernel allows no performance events.
    pub fn new(root: &Root, kind: FaultKind) -> Result<Self, LinuxError> {
        Self::with_ring_bytes(root, kind, RING_BYTES)
    }

    /// As [`Self::new`], with rings of another size. A record takes 32 bytes.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_ring_bytes(
        root: &Root,
        kind: FaultKind,
        ring_bytes: usize,
    ) -> Result<Self, LinuxError> {
        let config = match kind {
            FaultKind::Major => sys::PERF_COUNT_SW_PAGE_FAULTS_MAJ,
            FaultKind::All => sys::PERF_COUNT_SW_PAGE_FAULTS,
        };
        let fields = sys::PERF_SAMPLE_TID | sys::PERF_SAMPLE_TIME | sys::PERF_SAMPLE_ADDR;
        let spec = Spec::of(Attr {
            pmu: sys::PERF_TYPE_SOFTWARE,
            config: config.into(),
            period: 1,
            sample_type: fields.into(),
            inherit: true,
            ..Attr::default()
        });
        Ok(Self(Collector::new(root, vec![spec], ring_bytes)?))
    }

    /// A sampler that watches a running process.
    ///
    /// # Errors
    /// As [`Self::new`] and [`Self::attach`].
    pub fn open(root: &Root, pid: u32, kind: FaultKind) -> Result<Self, LinuxError> {
        let mut sampler = Self::new(root, kind)?;
        sampler.attach(root, pid, Start::Now)?;
        Ok(sampler)
    }

    /// Watches all threads of a process and all that they will start. Returns how many there are.
    /// A process that may have inherited its events must be handed to [`Self::follow`] instead.
    /// Where descriptors do not suffice and rights do, the whole system is watched, and what other
    /// processes do is dropped.
    ///
    /// # Errors
    /// [`LinuxError::Gone`] without such a process, [`LinuxError::Unsupported`] where rights or
    /// file descriptors do not suffice.
    pub fn attach(&mut self, root: &Root, pid: u32, start: Start) -> Result<usize, LinuxError> {
        self.0.attach(root, pid, start)
    }

    /// Watches the whole system from now on; what processes do that were not attached to is dropped.
    ///
    /// # Errors
    /// [`LinuxError::Unsupported`] without the right to.
    pub fn watch_system(&mut self) -> Result<(), LinuxError> {
        self.0.watch_system()
    }

    /// Watches a process no longer that runs on. Threads whose events others have inherited stay watched, as long as those
    /// run.
    pub fn detach(&mut self, root: &Root, pid: u32) {
        self.0.detach(root, pid);
    }

    /// Watches no processes that watched ones start, from the next attaching on.
    pub fn keep_to_threads(&mut self) {
        self.0.keep_to_threads();
    }

    /// Lets [`Self::rescan`] look after a process that a watched one may have started.
    pub fn follow(&mut self, pid: u32) {
        self.0.follow(pid);
    }

    /// Attaches to threads that slipped through while their parents were being attached to:
    /// those that two calls have seen unwatched, with a [`Self::poll`] between them. Call it now
    /// and then. Returns how many there were.
    ///
    /// # Errors
    /// As [`Self::attach`].
    pub fn rescan(&mut self, root: &Root) -> Result<usize, LinuxError> {
        self.0.rescan(root)
    }

    /// Hands all faults that have come in to `sink`: in order within a processor, not across.
    pub fn poll(&mut self, sink: &mut impl FnMut(FaultSample)) {
        self.0.poll(|&RawSample { pid, tid, address, time_ns, .. }| {
            sink(FaultSample { pid, tid, address, time_ns });
        });
    }

    /// Whether touches by the kernel on behalf of a program, such as `read(2)` into a page, stay
    /// unseen because rights are missing.
    pub fn excludes_kernel(&self) -> bool {
        self.0.excludes_kernel()
    }

    /// What has happened to watched processes, up to the last [`Self::poll`].
    pub fn take_lifecycle(&mut self) -> Vec<Lifecycle> {
        self.0.take_lifecycle()
    }

    /// Records that did not fit into a ring: exact after each [`Self::rescan`] (from Linux 6.0
    /// on), else as far as the kernel has said so in records that did fit.
    pub fn lost(&self) -> u64 {
        self.0.lost()
    }

    /// What sampling has cost us.
    pub fn cost(&self) -> Cost {
        self.0.cost()
    }

    /// Bytes of all rings.
    pub fn ring_bytes(&self) -> usize {
        self.0.ring_bytes()
    }

    /// Whether the whole system is watched, because there are too many threads to watch.
    pub fn is_system_wide(&self) -> bool {
        self.0.is_system_wide()
    }

    /// Threads that are watched one by one.
    pub fn threads(&self) -> usize {
        self.0.threads()
    }

    /// Descriptors that become readable when a quarter of a ring is unread; to wait on, nothing
    /// else.
    pub fn fds(&self) -> Vec<BorrowedFd<'_>> {
        self.0.fds()
    }
}

#[cfg(test)]
impl FaultSampler {
    pub(super) fn set_period(&mut self, period: Option<std::num::NonZeroU64>) {
        self.0.set_period(period).expect("the events are open");
    }

    pub(super) fn attached(&self) -> usize {
        self.0.attached()
    }

    pub(super) fn attach_thread(&mut self, tid: u32) {
        let attached = self.0.attach_thread(std::process::id(), tid, Start::Now);
        assert!(attached.expect("we may watch ourselves"), "the thread lives");
    }
}
