//! Pages that come back from a swap tier, by major-fault samples.
//!
//! Every such fault is one record of a software event, so that nothing is missed and nothing is
//! put into the program. A page is only seen if it was paged out before: the driver pages out some
//! at random to learn who comes back.

use super::faults::Faults;
use super::{Source, SourceStats, Touch, TouchKind};
use frostline_linux::perf::faults::FaultKind;
use frostline_linux::{LinuxError, Root};

/// See the module.
#[derive(Debug)]
pub struct Refaults(Faults);

impl Refaults {
    /// Watches nobody yet.
    ///
    /// # Errors
    /// Where the kernel does not allow it.
    pub fn new(root: &Root) -> Result<Self, LinuxError> {
        Faults::new(root, FaultKind::Major).map(Self)
    }
}

impl Source for Refaults {
    fn name(&self) -> &'static str {
        "refaults"
    }

    fn attach(&mut self, root: &Root, pid: u32, child: bool) -> Result<(), LinuxError> {
        // Where each program manages itself, each would hear of all others.
        if pid != std::process::id() {
            self.0.watch_system();
        }
        self.0.attach(root, pid, child)
    }

    fn detach(&mut self, root: &Root, pid: u32) {
        self.0.detach(root, pid);
    }

    fn poll(&mut self, root: &Root, sink: &mut dyn FnMut(Touch)) -> Result<(), LinuxError> {
        self.0.poll(root, |pid, page| {
            sink(Touch { pid, page, kind: TouchKind::Refault });
            true
        })
    }

    fn buffer_bytes(&self) -> u64 {
        self.0.buffer_bytes()
    }

    fn stats(&self) -> SourceStats {
        self.0.stats()
    }
}
