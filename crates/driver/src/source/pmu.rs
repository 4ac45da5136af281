//! Accesses sampled by the processor: Intel's precise events, AMD's IBS.
//!
//! What the published policies were made for: samples come as fast as the policy wants them, of
//! pages wherever they are. Few virtual machines have it.

use super::{Rescan, Source, SourceStats, Touch, TouchKind};
use frostline_core::event::SampleKind;
use frostline_core::types::{Nanos, PAGE_BYTES, Vpn};
use frostline_linux::perf::Start;
use frostline_linux::perf::pmu::{PmuKind, PmuSampler, PmuSource, ServedBy};
use frostline_linux::{LinuxError, Root};
use std::collections::BTreeSet;

/// See the module.
#[derive(Debug)]
pub struct Pmu {
    root: Root,
    source: PmuSource,
    kind: SampleKind,
    sampler: Option<PmuSampler>,
    pids: BTreeSet<u32>,
    touches: u64,
    /// Of samplers that were replaced.
    before: SourceStats,
    rescan: Rescan,
    broken: Option<LinuxError>,
}

impl Pmu {
    /// Name of the source of stores.
    pub const STORES: &str = "pmu-stores";

    /// Samples loads or stores by `source`, one per `period` of its events; watches nobody yet.
    ///
    /// # Errors
    /// Where the kernel does not allow it.
    pub fn new(
        root: &Root,
        source: PmuSource,
        kind: SampleKind,
        period: u32,
    ) -> Result<Self, LinuxError> {
        let sampler = PmuSampler::new(root, &source, period.into())?;
        Ok(Self {
            root: root.clone(),
            source,
            kind,
            sampler: Some(sampler),
            pids: BTreeSet::new(),
            touches: 0,
            before: SourceStats::default(),
            rescan: Rescan::default(),
            broken: None,
        })
    }

    /// The best of `sources` for this kind of access.
    pub fn best(sources: &[PmuSource], kind: SampleKind) -> Option<PmuSource> {
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
        order.iter().find_map(found).cloned()
    }

    fn retire(&mut self) {
        if let Some(sampler) = self.sampler.take() {
            self.before.lost += sampler.lost();
            self.before.cpu = self.before.cpu.saturating_add(Nanos(sampler.cost().busy_ns));
        }
    }

    fn attach_to(sampler: &mut PmuSampler, root: &Root, pid: u32) -> Result<usize, LinuxError> {
        // Where a process manages itself, so do its children.
        if pid == std::process::id() {
            sampler.keep_to_threads();
        }
        sampler.attach(root, pid, Start::Now)
    }

    fn replace(&mut self, period: u32) -> Result<(), LinuxError> {
        self.retire();
        if period == 0 {
            return Ok(());
        }
        let mut sampler = PmuSampler::new(&self.root, &self.source, period.into())?;
        self.pids.retain(|pid| match Self::attach_to(&mut sampler, &self.root, *pid) {
            Err(error) if error.is_gone() => false,
            Err(error) => {
                self.broken = Some(error);
                true
            }
            Ok(_) => true,
        });
        self.sampler = Some(sampler);
        Ok(())
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
        self.pids.insert(pid);
        match &mut self.sampler {
            Some(sampler) if child => sampler.follow(pid),
            Some(sampler) => {
                Self::attach_to(sampler, root, pid)?;
            }
            None => {}
        }
        Ok(())
    }

    fn poll(&mut self, root: &Root, sink: &mut dyn FnMut(Touch)) -> Result<(), LinuxError> {
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        let Some(sampler) = &mut self.sampler else { return Ok(()) };
        let (touches, wanted) = (&mut self.touches, self.kind);
        sampler.poll(&mut |sample| {
            // Loads that a cache served say nothing about memory.
            let cached = wanted == SampleKind::LoadMiss && sample.served_by == ServedBy::Cache;
            if sample.kind == wanted && !cached {
                *touches += 1;
                let page = Vpn(sample.address / PAGE_BYTES);
                sink(Touch { pid: sample.pid, page, kind: TouchKind::Sample(wanted) });
            }
        });
        sampler.take_lifecycle();
        self.rescan.poll(|| sampler.rescan(root))
    }

    fn set_period(&mut self, kind: SampleKind, period: u32) {
        if kind == self.kind
            && let Err(error) = self.replace(period)
        {
            self.broken = Some(error);
        }
    }

    fn stats(&self) -> SourceStats {
        let now = self.sampler.as_ref().map_or((0, 0), |s| (s.lost(), s.cost().busy_ns));
        SourceStats {
            touches: self.touches,
            lost: self.before.lost + now.0,
            cpu: self.before.cpu.saturating_add(Nanos(now.1)),
        }
    }
}
