//! Accesses to pages in slower nodes, by NUMA hint faults: the kernel takes the access rights off
//! pages of lower tiers, round and round, and the next touch of each is a fault.
//!
//! Every page in a slow node that is in use is seen within seconds, for a microsecond of the
//! program's time. Pages in fast memory are not seen. The settings concern the whole system: no
//! program's pages are promoted by the kernel meanwhile.

use super::faults::Faults;
use super::{Source, SourceStats, Touch, TouchKind};
use frostline_linux::accesses::balancing::{plenty, switch_on};
use frostline_linux::changes::Changes;
use frostline_linux::held::Held;
use frostline_linux::perf::faults::FaultKind;
use frostline_linux::{LinuxError, Root};
use std::sync::Arc;

/// Polls between two looks at free memory: about a second.
const CHECK_POLLS: u32 = 20;
/// From this share on of the free memory with which the kernel promotes by itself, faults are
/// switched off, and below the other switched on again.
const TOO_MUCH: f64 = 0.95;
const LITTLE: f64 = 0.85;

/// See the module.
#[derive(Debug)]
pub struct HintFaults {
    changes: Changes,
    faults: Faults,
    armed: Option<Arc<Held>>,
    polls: u32,
}

impl HintFaults {
    /// Name of the source.
    pub const NAME: &'static str = "hint-faults";
    /// What they take, as users are told.
    pub const TAKES: &'static str =
        "kernel.numa_balancing, for the whole system: the kernel promotes nothing meanwhile";

    /// Watches nobody yet. Hint faults are switched on unless the kernel would promote by itself.
    ///
    /// # Errors
    /// Where the kernel does not allow it.
    pub fn new(changes: Changes) -> Result<Self, LinuxError> {
        let faults = Faults::new(changes.root(), FaultKind::All)?;
        let mut source = Self { changes, faults, armed: None, polls: 0 };
        source.arm()?;
        Ok(source)
    }

    /// Switches hint faults on or off, by how much fast memory is free.
    fn arm(&mut self) -> Result<(), LinuxError> {
        let free = plenty(self.changes.root())?;
        if self.armed.is_none() && free < LITTLE {
            self.armed = Some(switch_on(&self.changes)?);
        } else if free >= TOO_MUCH {
            self.armed = None;
        }
        Ok(())
    }
}

impl Source for HintFaults {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn attach(&mut self, root: &Root, pid: u32, child: bool) -> Result<(), LinuxError> {
        self.faults.attach(root, pid, child)
    }

    fn detach(&mut self, root: &Root, pid: u32) {
        self.faults.detach(root, pid);
    }

    fn poll(&mut self, root: &Root, sink: &mut dyn FnMut(Touch)) -> Result<(), LinuxError> {
        self.polls += 1;
        if self.polls.is_multiple_of(CHECK_POLLS) {
            self.arm()?;
        }
        let armed = self.armed.is_some();
        self.faults.poll(root, |pid, page| {
            if armed {
                sink(Touch { pid, page, kind: TouchKind::Fault });
            }
            armed
        })
    }

    fn sees_slower_tiers(&self) -> bool {
        self.armed.is_some()
    }

    fn buffer_bytes(&self) -> u64 {
        self.faults.buffer_bytes()
    }

    fn stats(&self) -> SourceStats {
        self.faults.stats()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{free, two_tiers};
    use super::*;
    use frostline_core::span::Span;
    use frostline_core::types::{PAGE_BYTES, Vpn};
    use frostline_linux::accesses::balancing::MODE;
    use memmap2::MmapMut;

    #[test]
    fn with_much_free_memory_they_are_off() {
        let Some((_dir, root)) = two_tiers("0") else { return };
        let mode = || root.read(MODE).unwrap();
        let changes = || Changes::of_this_process(&root).unwrap();
        free(&root, 240_000);
        let mut source = HintFaults::new(changes()).unwrap();
        assert!(!source.sees_slower_tiers(), "nine tenths: off as it has been");
        let mut second = |pages| {
            free(&root, pages);
            for _ in 0..CHECK_POLLS {
                source.poll(&root, &mut |_| {}).unwrap();
            }
            (source.sees_slower_tiers(), mode())
        };
        assert_eq!(second(200_000), (true, "2".into()));
        assert_eq!(second(240_000), (true, "2".into()), "nine tenths: on as it has been");
        assert_eq!(second(260_000), (false, "0".into()));
        assert_eq!(second(100), (true, "2".into()));
        let other = HintFaults::new(changes()).unwrap();
        drop(source);
        assert_eq!(mode(), "2", "another one in this process needs them");
        drop(other);
        assert_eq!(mode(), "0");
    }

    /// The tree's processes are not those of the system, which is why this one is attached to by
    /// the system's root.
    #[test]
    fn faults_of_this_process_are_reported() {
        let Some((_dir, root)) = two_tiers("0") else { return };
        let system = Root::system();
        let mut source = HintFaults::new(Changes::of_this_process(&root).unwrap()).unwrap();
        source.attach(&system, std::process::id(), false).unwrap();
        // Faults of this process's other tests may fill the buffer.
        let found = (0..20)
            .map(|_| {
                source.poll(&system, &mut |_| {}).unwrap();
                let mut memory = MmapMut::map_anon(1 << 20).unwrap();
                memory.fill(1);
                let pages = Span::new(Vpn(memory.as_ptr().addr() as u64 / PAGE_BYTES), 256);
                let mut found = 0;
                let mut sink = |touch: Touch| {
                    let here = pages.contains(touch.page) && touch.kind == TouchKind::Fault;
                    found += u64::from(here && touch.pid == std::process::id());
                };
                source.poll(&system, &mut sink).unwrap();
                found
            })
            .find(|found| *found > 0)
            .expect("new memory faults");
        assert!(source.stats().touches >= found);
    }
}
