//! Pages that come back from a swap tier, by major-fault samples.
//!
//! Every such fault is one record of a software event, so that nothing is missed and nothing is
//! put into the program. A page is only seen if it was paged out before: the driver pages out some
//! at random to learn who comes back.

use super::{Rescan, Source, SourceStats, Touch, TouchKind};
use frostline_core::types::{Nanos, PAGE_BYTES, Vpn};
use frostline_linux::perf::Start;
use frostline_linux::perf::faults::{FaultKind, FaultSampler};
use frostline_linux::{LinuxError, Root};

/// See the module.
#[derive(Debug)]
pub struct Refaults {
    sampler: FaultSampler,
    touches: u64,
    rescan: Rescan,
}

impl Refaults {
    /// Watches nobody yet.
    ///
    /// # Errors
    /// Where the kernel does not allow it.
    pub fn new(root: &Root) -> Result<Self, LinuxError> {
        Ok(Self {
            sampler: FaultSampler::new(root, FaultKind::Major)?,
            touches: 0,
            rescan: Rescan::default(),
        })
    }
}

impl Source for Refaults {
    fn name(&self) -> &'static str {
        "refaults"
    }

    fn attach(&mut self, root: &Root, pid: u32, child: bool) -> Result<(), LinuxError> {
        if child {
            self.sampler.follow(pid);
            return Ok(());
        }
        self.sampler.attach(root, pid, Start::Now).map(|_| ())
    }

    fn poll(&mut self, root: &Root, sink: &mut dyn FnMut(Touch)) -> Result<(), LinuxError> {
        let touches = &mut self.touches;
        self.sampler.poll(&mut |fault| {
            *touches += 1;
            let page = Vpn(fault.address / PAGE_BYTES);
            sink(Touch { pid: fault.pid, page, kind: TouchKind::Refault });
        });
        self.sampler.take_lifecycle();
        self.rescan.poll(|| self.sampler.rescan(root))
    }

    fn stats(&self) -> SourceStats {
        let cost = self.sampler.cost();
        SourceStats { touches: self.touches, lost: self.sampler.lost(), cpu: Nanos(cost.busy_ns) }
    }
}
