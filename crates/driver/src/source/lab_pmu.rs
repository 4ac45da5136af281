//! Accesses sampled by the lab's emulated machine, as a processor's sampling unit would.

use super::{Sampled, Source, SourceStats, Touch, TouchKind};
use frostline_core::event::SampleKind;
use frostline_core::types::{Nanos, PAGE_BYTES, Vpn};
use frostline_linux::lab::LabMemory;
use frostline_linux::process::clock;
use frostline_linux::{LinuxError, Root};
use std::collections::BTreeSet;

/// See the module. It has one ring for the machine, which has one reader.
#[derive(Debug)]
pub struct LabPmu {
    memory: LabMemory,
    pids: BTreeSet<u32>,
    touches: u64,
    lost_before: u64,
    cpu: Nanos,
}

impl LabPmu {
    /// Samples one per so many loads and stores; watches nobody yet. 0 leaves a kind out.
    pub fn new(memory: LabMemory, loads: u32, stores: u32) -> Self {
        memory.skip();
        memory.set_period(SampleKind::LoadMiss, loads);
        memory.set_period(SampleKind::Store, stores);
        let lost_before = memory.lost();
        Self { memory, pids: BTreeSet::new(), touches: 0, lost_before, cpu: Nanos::ZERO }
    }
}

impl Source for LabPmu {
    fn name(&self) -> &'static str {
        super::LAB_PMU
    }

    fn attach(&mut self, _root: &Root, pid: u32, _child: bool) -> Result<(), LinuxError> {
        self.pids.insert(pid);
        Ok(())
    }

    fn poll(&mut self, _root: &Root, sink: &mut dyn FnMut(Touch)) -> Result<(), LinuxError> {
        let begin = clock::thread_cpu();
        let (pids, touches) = (&self.pids, &mut self.touches);
        self.memory.drain(|sample| {
            if pids.contains(&sample.pid) {
                *touches += 1;
                let page = Vpn(sample.address / PAGE_BYTES);
                let missed = (sample.kind == SampleKind::LoadMiss).then_some(true);
                let kind = TouchKind::Sample(Sampled { missed, ..sample.kind.into() });
                sink(Touch { pid: sample.pid, page, kind });
            }
        });
        self.cpu = self.cpu.saturating_add(clock::thread_cpu().saturating_sub(begin));
        Ok(())
    }

    fn set_period(&mut self, kind: SampleKind, period: u32) {
        self.memory.set_period(kind, period);
    }

    fn stats(&self) -> SourceStats {
        let lost = self.memory.lost().saturating_sub(self.lost_before);
        SourceStats { touches: self.touches, lost, cpu: self.cpu }
    }
}

impl Drop for LabPmu {
    fn drop(&mut self) {
        for kind in [SampleKind::LoadMiss, SampleKind::Store] {
            self.memory.set_period(kind, 0);
        }
    }
}
