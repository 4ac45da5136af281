//! Accesses sampled by the processor: Intel's precise events, AMD's IBS.
//!
//! What the published policies were made for: samples come as fast as the policy wants them, of
//! pages wherever they are. Few virtual machines have it.

use super::{Rescan, Sampled, Source, SourceStats, Touch, TouchKind};
use frostline_core::event::SampleKind;
use frostline_core::types::{Nanos, PAGE_BYTES, Vpn};
use frostline_linux::perf::Start;
use frostline_linux::perf::pmu::{PmuKind, PmuSampler, PmuSource, ServedBy};
use frostline_linux::{LinuxError, Root};
use std::num::NonZeroU32;

/// See the module.
#[derive(Debug)]
pub struct Pmu {
    kind: SampleKind,
    sampler: PmuSampler,
    touches: u64,
    rescan: Rescan,
    broken: Option<LinuxError>,
}

impl Pmu {
    /// Name of the source of stores.
    pub const STORES: &str = "pmu-stores";

    /// Samples loads or stores by `source`, one in `period` of them; watches nobody yet.
    ///
    /// # Errors
    /// Where the kernel does not allow it.
    pub fn new(
        root: &Root,
        source: &PmuSource,
        kind: SampleKind,
        period: NonZeroU32,
    ) -> Result<Self, LinuxError> {
        let sampler = PmuSampler::new(root, source, period)?;
        Ok(Self { kind, sampler, touches: 0, rescan: Rescan::default(), broken: None })
    }

    /// The best of `sources` for this kind of access.
    pub fn best(sources: &[PmuSource], kind: SampleKind) -> Option<&PmuSource> {
        let order: &[PmuKind] = match kind {
            SampleKind::LoadMiss => &[
                PmuKind::IntelLoadMiss,
                PmuKind::AmdIbsMiss,
                PmuKind::IntelLoadLatency,
                PmuKind::AmdIbs,
            ],
            // IBS reports stores along with loads.
            SampleKind::Store => &[PmuKind::IntelStore],
        };
        let found = |kind: &PmuKind| sources.iter().find(|source| source.kind == *kind);
        order.iter().find_map(found)
    }

    /// What samples, and in which unit the processor counts.
    pub fn source(&self) -> String {
        self.sampler.source().to_string()
    }
}

impl Source for Pmu {
    fn name(&self) -> &'static str {
        match self.kind {
            SampleKind::LoadMiss => "pmu-loads",
            SampleKind::Store => Self::STORES,
        }
    }

    fn attach(&mut self, root: &Root, pid: u32, child: bool) -> Result<(), LinuxError> {
        if child {
            self.sampler.follow(pid);
            return Ok(());
        }
        // Where a process manages itself, so do its children.
        if pid == std::process::id() {
            self.sampler.keep_to_threads();
        }
        self.sampler.attach(root, pid, Start::Now)?;
        Ok(())
    }

    fn detach(&mut self, root: &Root, pid: u32) {
        self.sampler.detach(root, pid);
    }

    fn poll(&mut self, root: &Root, sink: &mut dyn FnMut(Touch)) -> Result<(), LinuxError> {
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        let (sampler, touches, wanted) = (&mut self.sampler, &mut self.touches, self.kind);
        sampler.poll(&mut |sample| {
            // Loads that a cache served say nothing about memory.
            let cached = wanted == SampleKind::LoadMiss && sample.served_by == ServedBy::Cache;
            if sample.kind == wanted && !cached {
                *touches += 1;
                let page = Vpn(sample.address / PAGE_BYTES);
                let (missed, walked) = (sample.served_by.missed(), sample.walked);
                let kind = TouchKind::Sample(Sampled { kind: wanted, missed, walked });
                sink(Touch { pid: sample.pid, page, kind });
            }
        });
        sampler.take_lifecycle();
        self.rescan.poll(|| sampler.rescan(root))
    }

    fn set_period(&mut self, kind: SampleKind, period: u32) {
        if kind == self.kind
            && let Err(error) = self.sampler.set_period(NonZeroU32::new(period))
        {
            self.broken = Some(error);
        }
    }

    fn stats(&self) -> SourceStats {
        SourceStats {
            touches: self.touches,
            lost: self.sampler.lost(),
            cpu: Nanos(self.sampler.cost().busy_ns),
        }
    }
}
