//! The loop that couples an engine to a live system.

use crate::accounts::{Account, Accounts};
use crate::address_map::AddressMap;
use crate::clock;
use crate::error::DriverError;
use crate::groups::Groups;
use crate::journal::{Entry, Journal, Setup};
use crate::place::Places;
use crate::scans::Scans;
use crate::source::Source;
use crate::source::choice::{Choice, Samples};
use crate::source::rotation::Rotation;
use crate::watched::{Selection, Watched};
use crate::{Limit, SlowTiers};
use frostline_core::Action;
use frostline_core::engine::Engine;
use frostline_core::event::Event;
use frostline_core::hotness::bitmap::Bitmap;
use frostline_core::rng::Rng;
use frostline_core::types::*;
use frostline_daemon::{Growth, Pacer, Queue, Reclaimer, Rounds};
use frostline_linux::Root;
use frostline_linux::next_touch::NextTouch;
use frostline_linux::process::Target;
use frostline_linux::span::{Span, joined};
use std::collections::BTreeMap;
use std::path::PathBuf;

mod address_space;
mod audit;
mod closed_files;
mod folios;
mod limit;
mod listen;
mod moving;
mod numbering;
mod refreshes;
#[cfg(test)]
mod reserved_tests;
mod targets;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod touches;

pub use audit::Audits;
use closed_files::ClosedFiles;
use moving::Purpose;
use numbering::Numbering;
use refreshes::Refreshes;

/// How often limits are looked at.
const REPORT: Nanos = Nanos(1_000_000_000);
/// How often sources are polled, and work is handed out.
const STEP: Nanos = Nanos(50_000_000);
/// Pages moved between two looks at the clock.
const MOVE_PAGES: u32 = 256;
/// Part of our share of a core that goes into knowing where pages are.
const AUDIT_PART: f64 = 0.25;

/// What to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// Policy, with all its parameters.
    pub policy: String,
    /// Below fast memory.
    pub slow: SlowTiers,
    /// The only swap device that pages shall go to; `None` for whichever the kernel takes.
    pub swap_device: Option<PathBuf>,
    /// How much may be fast.
    pub fast: Limit,
    /// Our share of a core once the limit holds.
    pub cpu_share: f64,
    /// Our share of a core until then, for a minute at most.
    pub settling_cpu_share: f64,
    /// Most bytes per second that the policy may have moved.
    pub migration_bytes_per_second: Option<Bytes>,
    /// Seed of all random choices.
    pub seed: u64,
    /// Where samples of accesses shall come from.
    pub samples: Samples,
    /// Only watch: nothing is moved.
    pub dry_run: bool,
    /// Where to write the journal.
    pub journal: Option<PathBuf>,
    /// Follow allocations in the extents that were asked for, also where the policy does without.
    pub extents: bool,
}

/// Drives one engine.
pub struct Driver {
    pub(crate) root: Root,
    pub(crate) options: Options,
    pub(crate) selection: Selection,
    /// The process that the selection names; another one may get its number later.
    chosen: Option<Target>,
    pub(crate) engine: Engine,
    pub(crate) places: Places,
    /// Where pages go to swap: what control groups allow.
    pub(crate) groups: Option<Groups>,
    pub(crate) map: AddressMap,
    pub(crate) watched: BTreeMap<u32, Watched>,
    pub(crate) sources: Vec<Box<dyn Source>>,
    /// What each of them has looked at.
    rotations: Vec<Rotation>,
    pub(crate) accounts: Accounts,
    /// Moves towards each tier.
    pub(crate) arrivals: Vec<Account>,
    pub(crate) now: Nanos,
    pub(crate) footprint: Bytes,
    /// Why a process that belongs to the selection is left alone.
    pub(crate) refused: BTreeMap<u32, String>,
    /// Asked for the memory of a driver that manages its own process.
    pub(crate) own: Option<fn() -> Vec<Span>>,
    /// Address space in which nothing is looked at, ascending and apart: what that has said last.
    left_out: Vec<Span>,
    journal: Option<Journal>,
    queue: Queue,
    pacer: Pacer,
    auditor: Pacer,
    rounds: Rounds,
    rng: Rng,
    /// Pages that were touched since the reclaimer last passed.
    referenced: Bitmap,
    /// Of each tier but the slowest.
    reclaimers: Vec<Reclaimer>,
    growth: Growth,
    settling_since: Option<Nanos>,
    refreshes: Refreshes,
    report_due: Nanos,
    pub(crate) numbering: Numbering,
    /// Where the audit goes on: process, page.
    audit_at: (u32, Vpn),
    pub(crate) audits: Audits,
    /// Whether pages are paged out at random to see who comes back.
    probes: bool,
    /// Pages that came back since they were last asked about, where that stands for access bits.
    returned: Option<Bitmap>,
    probe_credit: f64,
    wants_samples: bool,
    scans: Scans,
    /// What takes armed pages out of their places, in the program's own process.
    next_touch: Option<NextTouch>,
    /// Files that targets have closed, where the policy wants to know.
    closed_files: Option<ClosedFiles>,
    reported_cpu: (Nanos, Nanos),
    lost: u64,
    /// Pages that were touched, for others who want to know.
    overheard: Option<Vec<Vpn>>,
}

impl Driver {
    /// A driver that has looked at nothing yet.
    ///
    /// # Errors
    /// Where the policy does not exist or the journal cannot be written.
    pub fn new(
        root: Root,
        options: Options,
        selection: Selection,
        setup: &Setup,
        places: Places,
        choice: Choice,
    ) -> Result<Self, DriverError> {
        let engine = setup.engine()?;
        let journal = match &options.journal {
            Some(path) => Some(Journal::create(path, setup)?),
            None => None,
        };
        let needs = engine.facts().needs;
        let chosen = match selection {
            Selection::Process { pid, .. } => Some(Target::open(&root, pid)?),
            _ => None,
        };
        let swaps = !options.slow.is_empty() && places.swap().is_some();
        Ok(Self {
            chosen,
            engine,
            groups: swaps.then(|| Groups::new(&root)).transpose()?,
            reclaimers: vec![Reclaimer::default(); places.tiers.len() - 1],
            growth: Growth::default(),
            arrivals: vec![Account::default(); places.tiers.len()],
            places,
            map: AddressMap::default(),
            watched: BTreeMap::new(),
            rotations: vec![Rotation::default(); choice.sources.len()],
            sources: choice.sources,
            accounts: Accounts::default(),
            now: Nanos::ZERO,
            footprint: Bytes::ZERO,
            refused: BTreeMap::new(),
            own: None,
            left_out: Vec::new(),
            journal,
            queue: Queue::default(),
            pacer: Pacer::new(options.settling_cpu_share, clock::thread_cpu()),
            auditor: Pacer::new(options.cpu_share * AUDIT_PART, Nanos::ZERO),
            rounds: Rounds::default(),
            rng: Rng::new(options.seed),
            referenced: Bitmap::default(),
            settling_since: None,
            refreshes: Refreshes::new(options.cpu_share),
            report_due: Nanos::ZERO,
            numbering: Numbering::default(),
            audit_at: (0, Vpn(0)),
            audits: Audits::default(),
            probes: choice.probes,
            returned: choice.returns.then(Bitmap::default),
            probe_credit: 0.0,
            wants_samples: needs.load_sample_period > 0,
            scans: Scans::default(),
            next_touch: None,
            closed_files: None,
            reported_cpu: (Nanos::ZERO, Nanos::ZERO),
            lost: 0,
            overheard: None,
            root,
            options,
            selection,
        })
    }

    /// Another limit of fast memory; takes effect within a second.
    pub fn set_fast(&mut self, fast: Limit) {
        self.options.fast = fast;
    }

    /// What a driver that manages its own process needs itself, ascending and apart.
    fn own_memory(&self) -> Vec<Span> {
        let Some(own) = self.own else { return Vec::new() };
        let mut spans = own();
        spans.extend(self.next_touch.iter().flat_map(NextTouch::own_memory));
        spans.sort_unstable_by_key(|span| span.start);
        joined(spans.into_iter())
    }

    /// Whether what sources see shall be kept until it is taken.
    pub fn overhear(&mut self, on: bool) {
        match on {
            true => drop(self.overheard.get_or_insert_default()),
            false => self.overheard = None,
        }
    }

    /// Pages of all targets that were touched since the last time.
    pub fn overheard(&mut self) -> impl Iterator<Item = Vpn> + use<> {
        let heard = self.overheard.as_mut().map(std::mem::take).unwrap_or_default();
        heard.into_iter()
    }

    /// Memory that sources share with the kernel, beside what is allocated.
    pub fn buffer_bytes(&self) -> u64 {
        self.sources.iter().map(|source| source.buffer_bytes()).sum()
    }

    /// Gives up room that buffers do not use.
    pub(crate) fn release_buffers(&mut self) {
        self.queue.shrink();
    }

    /// All moves since the start.
    pub fn accounts(&self) -> Accounts {
        self.accounts
    }

    /// What users should know of limits of others, and have not been told.
    pub fn take_remarks(&mut self) -> Vec<String> {
        self.groups.as_mut().map(Groups::take_remarks).unwrap_or_default()
    }

    /// Whether there is nobody left to manage.
    pub fn is_idle(&self) -> bool {
        self.watched.is_empty()
    }

    /// Does what is due at `now`, in nanoseconds since the driver began, and returns when it wants
    /// to be called again.
    ///
    /// # Errors
    /// Where going on makes no sense: rights were lost, a source has broken down, or the journal's
    /// disk is full. The targets go on unharmed, with their pages where they are.
    pub fn step(&mut self, now: Nanos) -> Result<Nanos, DriverError> {
        let passed = now.saturating_sub(self.now);
        self.now = now;
        self.pacer.refill(now);
        self.auditor.refill(now);
        // Others may use this thread in between.
        self.pacer.skip(clock::thread_cpu());
        self.follow_allocations()?;
        let mut events = Vec::new();
        if self.refreshes.allows(now) {
            self.refreshes.begin(now, clock::thread_cpu());
            self.refresh(&mut events)?;
            // Limits are shares of what the engine knows to be there.
            self.tell(std::mem::take(&mut events))?;
            self.refreshes.end(clock::thread_cpu());
        }
        if now >= self.report_due {
            self.report_due = now.saturating_add(REPORT);
            self.report(&mut events)?;
            self.arm_again();
        }
        self.hear_touches(&mut events)?;
        self.listen(&mut events)?;
        self.hear_closings(&mut events)?;
        self.audit(&mut events)?;
        self.tell(events)?;
        self.work()?;
        self.keep_limits()?;
        self.probe(passed)?;
        self.allow_moves_at_touch();
        self.pacer.charge(clock::thread_cpu());
        self.assign()?;
        if let Some(journal) = &mut self.journal {
            journal.flush()?;
        }
        let policy = self.engine.poll_timeout().unwrap_or(Nanos::MAX);
        let (soonest, step) = (now.saturating_add(Nanos(STEP.0 / 10)), now.saturating_add(STEP));
        // A policy that wants to be called all the time waits where our share is used up: nothing
        // of what it wants would be done.
        let waits = policy < soonest && !self.pacer.allows();
        Ok(if waits { step } else { policy.max(soonest).min(step) })
    }

    /// Hands events to the engine, lets the policy decide, and queues what it wants.
    fn tell(&mut self, events: Vec<Event>) -> Result<(), DriverError> {
        let due = self.engine.poll_timeout().is_some_and(|due| due <= self.now);
        if events.is_empty() && !due {
            return Ok(());
        }
        let entry = if events.is_empty() {
            self.engine.handle_timeout(self.now);
            Entry::Timeout(self.now)
        } else {
            self.engine.handle_events(self.now, &events);
            Entry::Events(self.now, events)
        };
        let actions: Vec<Action> = std::iter::from_fn(|| self.engine.poll_action()).collect();
        actions.iter().for_each(|action| self.queue.push(*action));
        if let Some(journal) = &mut self.journal {
            journal.write(&entry)?;
            journal.write(&Entry::Actions(actions))?;
        }
        Ok(())
    }
}
