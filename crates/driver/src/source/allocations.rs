//! Allocations in the extents that programs asked for, by tracepoints of the system calls.
//!
//! Mappings are the truth about what is there; the calls tell where one allocation ends and the
//! next one begins, at what time it came, and where `mremap` has put it.

use super::{Rescan, Source, SourceStats, Touch};
use frostline_core::span::ExtentChange;
use frostline_core::types::Nanos;
use frostline_linux::pages::extents::Extents;
use frostline_linux::perf::tracepoints::{Allocation, AllocationTracer};
use frostline_linux::perf::{Lifecycle, Start};
use frostline_linux::process::maps::Mapping;
use frostline_linux::{LinuxError, Root};
use std::collections::BTreeMap;

/// See the module.
#[derive(Debug)]
pub struct Allocations {
    tracer: AllocationTracer,
    processes: BTreeMap<u32, Extents>,
    /// Starts, ends and new programs that wait for the calls before them.
    lives: Vec<Lifecycle>,
    /// Processes that run another program now, and were told of.
    executed: Vec<u32>,
    changes: u64,
    lost: u64,
    rescan: Rescan,
}

/// Something that happened to a process, at a time.
#[derive(Clone, Copy, Debug)]
enum Happened {
    Called(Allocation),
    Lived(Lifecycle),
}

impl Happened {
    fn time_ns(&self) -> u64 {
        match self {
            Self::Called(allocation) => allocation.time_ns,
            Self::Lived(
                Lifecycle::Forked { time_ns, .. }
                | Lifecycle::Executed { time_ns, .. }
                | Lifecycle::Exited { time_ns, .. },
            ) => *time_ns,
        }
    }
}

impl Allocations {
    /// Follows nobody yet.
    ///
    /// # Errors
    /// [`LinuxError::Unsupported`] where there are no tracepoints, or no right to them.
    pub fn new(root: &Root) -> Result<Self, LinuxError> {
        let tracer = AllocationTracer::new(root).map_err(|error| match error {
            LinuxError::Unsupported { what, hint } => LinuxError::Unsupported {
                what: format!("allocations cannot be followed: {what}"),
                hint,
            },
            error => error,
        })?;
        Ok(Self {
            tracer,
            processes: BTreeMap::new(),
            lives: Vec::new(),
            executed: Vec::new(),
            changes: 0,
            lost: 0,
            rescan: Rescan::default(),
        })
    }

    /// Hands over what has changed since the last call, oldest first, for processes whose mappings
    /// have been [compared](Self::compare).
    pub fn take(&mut self, sink: &mut impl FnMut(u32, ExtentChange)) {
        let mut happened = Vec::new();
        let settled_ns = self.tracer.poll(&mut |allocation| {
            happened.push(Happened::Called(allocation));
        });
        self.lives.extend(self.tracer.take_lifecycle());
        let lives = std::mem::take(&mut self.lives);
        let is_settled = |life: &Lifecycle| Happened::Lived(*life).time_ns() <= settled_ns;
        let (settled, later): (Vec<_>, Vec<_>) = lives.into_iter().partition(is_settled);
        self.lives = later;
        happened.extend(settled.into_iter().map(Happened::Lived));
        happened.sort_by_key(Happened::time_ns);
        let changes = &mut self.changes;
        for what in happened {
            let mut sink = |pid, change| {
                *changes += 1;
                sink(pid, change);
            };
            self.executed.extend(apply(&mut self.processes, &what, &mut sink));
        }
        let lost = self.tracer.lost();
        if lost > self.lost {
            self.lost = lost;
            self.processes.values_mut().for_each(Extents::distrust);
        }
    }

    /// Processes that have executed another program, up to the last [`Self::take`], which has told
    /// that all of their memory is gone.
    pub fn take_executed(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.executed)
    }

    /// Compares with all mappings of a process, read after `at_ns` on the clock of
    /// [`frostline_linux::perf::monotonic_ns`]. The first time, everything is told.
    pub fn compare(
        &mut self,
        pid: u32,
        mappings: &[Mapping],
        at_ns: u64,
        mut sink: impl FnMut(ExtentChange),
    ) {
        let changes = &mut self.changes;
        self.processes.entry(pid).or_default().compare(mappings, at_ns, |change| {
            *changes += 1;
            sink(change);
        });
    }

    /// Whoever asks has forgotten all that they were told of a process. Where it goes on, `alive`,
    /// with another program, everything is told anew with its next mappings.
    pub fn forget(&mut self, pid: u32, alive: bool) {
        match self.processes.get_mut(&pid) {
            // When it executed that program will be known later.
            Some(extents) if alive && extents.is_told() => extents.replace(0),
            Some(_) if !alive => {
                self.processes.remove(&pid);
            }
            _ => {}
        }
    }
}

/// Gives the process that had to be told that it executed another program.
fn apply(
    processes: &mut BTreeMap<u32, Extents>,
    what: &Happened,
    sink: &mut impl FnMut(u32, ExtentChange),
) -> Option<u32> {
    let time_ns = what.time_ns();
    match *what {
        Happened::Called(Allocation { pid, change, .. }) => {
            let extents = processes.get_mut(&pid)?;
            extents.apply(change, time_ns, |change| sink(pid, change));
            None
        }
        Happened::Lived(Lifecycle::Forked { parent, child, .. }) => {
            let forked = processes.get(&parent)?.forked(time_ns);
            // The mappings of one that was told of were read after that.
            if !processes.get(&child).is_some_and(Extents::is_told) {
                processes.insert(child, forked);
            }
            None
        }
        Happened::Lived(Lifecycle::Executed { pid, .. }) => {
            let extents = processes.get_mut(&pid)?;
            // Its mappings were read after that.
            if extents.knows(time_ns) {
                return None;
            }
            let told = extents.is_told();
            for span in extents.spans().into_iter().filter(|_| told) {
                sink(pid, ExtentChange::Unmapped { span });
            }
            extents.replace(time_ns);
            told.then_some(pid)
        }
        // Other threads may go on; who was told of this process says when it has ended.
        Happened::Lived(Lifecycle::Exited { pid, .. }) => {
            if !processes.get(&pid)?.is_told() {
                processes.remove(&pid);
            }
            None
        }
    }
}

impl Source for Allocations {
    fn name(&self) -> &'static str {
        "allocations"
    }

    fn attach(&mut self, root: &Root, pid: u32, child: bool) -> Result<(), LinuxError> {
        self.processes.entry(pid).or_default();
        if child {
            self.tracer.follow(pid);
            return Ok(());
        }
        self.tracer.attach(root, pid, Start::Now).map(|_| ())
    }

    fn detach(&mut self, root: &Root, pid: u32) {
        self.tracer.detach(root, pid);
    }

    fn poll(&mut self, root: &Root, _: &mut dyn FnMut(Touch)) -> Result<(), LinuxError> {
        self.rescan.poll(|| self.tracer.rescan(root))
    }

    fn allocations(&mut self) -> Option<&mut Allocations> {
        Some(self)
    }

    fn stats(&self) -> SourceStats {
        let cpu = Nanos(self.tracer.cost().busy_ns);
        SourceStats { touches: self.changes, lost: self.tracer.lost(), cpu }
    }
}
