//! Live driver: a daemon on Linux.

use crate::closed_files::ClosedFiles;
use crate::error::DriverError;
use crate::groups::Groups;
use crate::host::Linux;
use crate::journal::{Journal, Setup};
use crate::losses::Losses;
use crate::options::Options;
use crate::place::Places;
use crate::source::choice::Choice;
use crate::watched::Selection;
use frostline_core::policy::Faults;
use frostline_core::span::Span;
use frostline_core::types::*;
use frostline_daemon::{Accounts, Cold, Daemon, Limit, Settings, Tier};
use frostline_inprocess::next_touch::NextTouch;
use frostline_linux::Root;
use frostline_linux::files::closings::Closings;
use frostline_linux::groups::Trees;
use frostline_linux::process::Target;
use std::collections::BTreeMap;

#[cfg(test)]
mod reserved_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

/// Drives one engine.
pub struct Driver {
    pub(crate) daemon: Daemon,
    pub(crate) system: Linux,
}

impl Driver {
    /// A driver that has looked at nothing yet.
    ///
    /// # Errors
    /// Where the policy does not exist or the journal cannot be written.
    pub(crate) fn new(
        root: Root,
        options: Options,
        selection: Selection,
        setup: &Setup,
        places: Places,
        choice: Choice,
        losses: Losses,
    ) -> Result<Self, DriverError> {
        let engine = setup.engine()?;
        let journal = match &options.journal {
            Some(path) => Some(Journal::create(path, setup)?),
            None => None,
        };
        let chosen = match selection {
            Selection::Process { pid, .. } => Some(Target::open(&root, pid)?),
            _ => None,
        };
        let slow = options.tiers();
        // What shall be saved is a limit where nobody gets there step by step.
        let fast = options.fast.as_deref().copied().filter(|_| losses.goal.is_none());
        let fast = fast.unwrap_or(options.most_fast());
        let tiers = (0..places.tiers.len()).map(|index| TierId(index as u8));
        let tiers = tiers.map(|tier| Tier {
            limit: if tier == TierId::FAST { Some(fast) } else { slow.limit(tier) },
            direct: places.is_direct(tier),
        });
        let settings = Settings {
            tiers: tiers.collect(),
            swap: places.swap(),
            cpu_share: options.cpu_limit.get(),
            settling_cpu_share: options.settling_cpu_limit.get(),
            dry_run: options.dry_run,
            reclaims: !slow.is_empty() && !options.dry_run,
            probes: choice.probes,
            answers: choice.answers,
            wants_samples: engine.facts().needs.load_sample_period > 0,
            counts: engine.facts().needs.counters,
            hinted: engine.facts().needs.faults && setup.offer.telemetry.faults == Faults::Hints,
            goal: losses.goal,
            node_loads: losses.node_loads,
            interruption: losses.interruption,
            seed: options.seed,
        };
        let swaps = !slow.is_empty() && places.swap().is_some();
        let system = Linux {
            chosen,
            watched: BTreeMap::new(),
            refused: BTreeMap::new(),
            // Without them, what the kernel tells of groups is not known.
            trees: Trees::read(&root).unwrap_or_default(),
            groups: swaps.then(|| Groups::new(&root)).transpose()?,
            places,
            sources: choice.sources,
            own: None,
            next_touch: None,
            closed_files: None,
            journal,
            spending: losses.spending,
            dry_run: options.dry_run,
            root,
            selection,
        };
        Ok(Self { daemon: Daemon::new(engine, settings, &system), system })
    }

    /// Manages the process that it lives in; `own` tells the memory that it needs itself.
    pub(crate) fn live_inside(&mut self, own: fn() -> Vec<Span>) {
        self.system.own = Some(own);
    }

    /// Takes pages out that the policy has armed, from now on. Its only target is this process.
    pub(crate) fn arm_by(&mut self, next_touch: NextTouch) {
        self.system.next_touch = Some(next_touch);
    }

    /// Follows closed files from now on.
    pub(crate) fn follow_closings(&mut self, closings: Closings) {
        let share = self.daemon.settings().cpu_share;
        self.system.closed_files = Some(ClosedFiles::new(closings, share));
    }

    /// Does what is due at `now`, in nanoseconds since the driver began, and returns when it wants
    /// to be called again.
    ///
    /// # Errors
    /// Where going on makes no sense: rights were lost, a source has broken down, or the journal's
    /// disk is full. The targets go on unharmed, with their pages where they are.
    pub fn step(&mut self, now: Nanos) -> Result<Nanos, DriverError> {
        let next = self.daemon.step(now, &mut self.system)?;
        if let Some(journal) = &mut self.system.journal {
            journal.flush()?;
        }
        Ok(next)
    }

    /// Brings all that is in swap back into memory, as far as there is free memory for it, and room
    /// in control groups: what was set up can be taken down then. Calls `progress` with the bytes
    /// that are left, and stops where it answers false.
    ///
    /// # Errors
    /// Where rights are missing.
    pub fn bring_back(&mut self, progress: impl FnMut(Bytes) -> bool) -> Result<(), DriverError> {
        self.daemon.bring_back(&mut self.system, progress)
    }

    /// Another limit of fast memory, and what is fast at least where there is a goal; takes effect within a second.
    pub fn set_fast(&mut self, fast: Limit, least: Option<Limit>) {
        self.daemon.set_fast(fast, least);
    }

    /// Pages that could be in swap, and what that would cost; see [`Daemon::cold`].
    pub fn cold(&self) -> &[Cold] {
        self.daemon.cold()
    }

    /// Whether what sources see shall be kept until it is taken.
    pub fn set_touch_log(&mut self, on: bool) {
        self.daemon.set_touch_log(on);
    }

    /// Pages of all targets that were touched since the last time.
    pub fn take_touch_log(&mut self) -> Vec<Vpn> {
        self.daemon.take_touch_log()
    }

    /// Memory that sources share with the kernel, beside what is allocated.
    pub fn buffer_bytes(&self) -> u64 {
        self.system.sources.iter().map(|source| source.buffer_bytes()).sum()
    }

    /// Takes less memory, where that is possible: fewer pages are watched at a time, and what was
    /// freed goes back to the kernel.
    pub fn save_memory(&mut self) {
        self.system.sources.iter_mut().for_each(|source| source.save_memory());
        self.daemon.release_buffers();
        frostline_linux::process::trim_heap();
    }

    /// All moves since the start.
    pub fn accounts(&self) -> Accounts {
        let lost_closings = self.system.closed_files.as_ref().map_or(0, ClosedFiles::lost);
        Accounts { lost_closings, ..self.daemon.accounts() }
    }

    /// What users should know of limits of others, and have not been told.
    pub fn take_remarks(&mut self) -> Vec<String> {
        self.system.groups.as_mut().map(Groups::take_remarks).unwrap_or_default()
    }

    /// Whether there is nobody left to manage.
    pub fn is_idle(&self) -> bool {
        self.system.watched.is_empty()
    }
}
