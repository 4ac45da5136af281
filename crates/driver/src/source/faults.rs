//! Page faults as sources of samples: what those that listen to them have in common.

use super::{Rescan, SourceStats};
use frostline_core::types::{Nanos, PAGE_BYTES, Vpn};
use frostline_linux::perf::Start;
use frostline_linux::perf::faults::{FaultKind, FaultSampler};
use frostline_linux::{LinuxError, Root};

/// Faults of one kind, of the processes that it is attached to.
#[derive(Debug)]
pub struct Faults {
    sampler: FaultSampler,
    touches: u64,
    rescan: Rescan,
}

impl Faults {
    /// Watches nobody yet.
    ///
    /// # Errors
    /// Where the kernel does not allow it.
    pub fn new(root: &Root, kind: FaultKind) -> Result<Self, LinuxError> {
        let sampler = FaultSampler::new(root, kind)?;
        Ok(Self { sampler, touches: 0, rescan: Rescan::default() })
    }

    /// Watches all processes at once where rights allow it: such faults are rare, and an event of a thread's own makes each
    /// of its switches 1 us longer.
    pub fn watch_system(&mut self) {
        if !self.sampler.is_system_wide() {
            // Without rights, threads are watched one by one.
            let _ = self.sampler.watch_system();
        }
    }

    /// As [`super::Source::attach`].
    ///
    /// # Errors
    /// As there.
    pub fn attach(&mut self, root: &Root, pid: u32, child: bool) -> Result<(), LinuxError> {
        if child {
            self.sampler.follow(pid);
            return Ok(());
        }
        // Where a process manages itself, so do its children.
        if pid == std::process::id() {
            self.sampler.keep_to_threads();
        }
        self.sampler.attach(root, pid, Start::Now).map(|_| ())
    }

    /// As [`super::Source::detach`].
    pub fn detach(&mut self, root: &Root, pid: u32) {
        self.sampler.detach(root, pid);
    }

    /// Hands process and page of each fault to `sink`, which says whether it counts as a touch.
    ///
    /// # Errors
    /// As [`super::Source::poll`].
    pub fn poll(
        &mut self,
        root: &Root,
        mut sink: impl FnMut(u32, Vpn) -> bool,
    ) -> Result<(), LinuxError> {
        let touches = &mut self.touches;
        self.sampler.poll(&mut |fault| {
            *touches += u64::from(sink(fault.pid, Vpn(fault.address / PAGE_BYTES)));
        });
        self.sampler.take_lifecycle();
        self.rescan.poll(|| self.sampler.rescan(root))
    }

    /// As [`super::Source::buffer_bytes`].
    pub fn buffer_bytes(&self) -> u64 {
        self.sampler.ring_bytes() as u64
    }

    /// As [`super::Source::stats`].
    pub fn stats(&self) -> SourceStats {
        let cpu = Nanos(self.sampler.cost().busy_ns);
        SourceStats { touches: self.touches, lost: self.sampler.lost(), cpu }
    }
}
