//! The loop that couples an engine to a live system.

use crate::accounts::{Account, Accounts};
use crate::address_map::AddressMap;
use crate::clock;
use crate::error::DriverError;
use crate::journal::{Entry, Journal, Setup};
use crate::pacer::{Pacer, Patience};
use crate::place::{Found, Place, Places, Unit};
use crate::reconcile::reconcile;
use crate::source::{Source, Touch, TouchKind};
use crate::watched::{Selection, Watched};
use crate::{FastLimit, SlowTier};
use frostline_core::Action;
use frostline_core::engine::Engine;
use frostline_core::event::{Backing, Event, Fault, MoveCause, MoveOutcome, Sample, SampleKind};
use frostline_core::hotness::bitmap::Bitmap;
use frostline_core::rng::Rng;
use frostline_core::types::*;
use frostline_linux::process::Target;
use frostline_linux::span::Span;
use frostline_linux::{LinuxError, Root};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;

mod limit;

/// How often targets, mappings and limits are looked at.
const REFRESH: Nanos = Nanos(1_000_000_000);
/// How often sources are polled, and work is handed out.
const STEP: Nanos = Nanos(50_000_000);
/// Pages moved between two looks at the clock.
const MOVE_PAGES: u32 = 256;
/// Part of our share of a core that goes into knowing where pages are.
const AUDIT_PART: f64 = 0.25;

/// Free memory that must remain when pages are brought back.
const KEPT_FREE: Bytes = Bytes(256 << 20);

/// What to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// Policy, with all its parameters.
    pub policy: String,
    /// Below fast memory.
    pub slow: SlowTier,
    /// How much may be fast.
    pub fast: FastLimit,
    /// Our share of a core once the limit holds.
    pub cpu_share: f64,
    /// Our share of a core until then.
    pub settling_cpu_share: f64,
    /// Most bytes per second that the policy may have moved.
    pub migration_bytes_per_second: Option<Bytes>,
    /// Seed of all random choices.
    pub seed: u64,
    /// Only watch: nothing is moved.
    pub dry_run: bool,
    /// Where to write the journal.
    pub journal: Option<PathBuf>,
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
    pub(crate) map: AddressMap,
    pub(crate) watched: BTreeMap<u32, Watched>,
    pub(crate) sources: Vec<Box<dyn Source>>,
    pub(crate) accounts: Accounts,
    pub(crate) now: Nanos,
    pub(crate) footprint: Bytes,
    /// Why a process that belongs to the selection is left alone.
    pub(crate) refused: BTreeMap<u32, String>,
    journal: Option<Journal>,
    queue: VecDeque<Action>,
    pacer: Pacer,
    auditor: Pacer,
    rng: Rng,
    /// Pages that came back since the hand last passed.
    spared: Bitmap,
    hand: u32,
    patience: Patience,
    /// Pages that the hand has passed since the patience was last put to the test.
    passed: u64,
    over_since: Option<Nanos>,
    refresh_due: Nanos,
    /// Where the audit goes on: process, page.
    audit_at: (u32, Vpn),
    probe_credit: f64,
    wants_samples: bool,
    reported_cpu: (Nanos, Nanos),
    lost: u64,
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
        sources: Vec<Box<dyn Source>>,
    ) -> Result<Self, DriverError> {
        let engine = setup.engine()?;
        let journal = match &options.journal {
            Some(path) => Some(Journal::create(path, setup)?),
            None => None,
        };
        let needs = engine.policy().needs();
        let chosen = match selection {
            Selection::Process { pid, .. } => Some(Target::open(&root, pid)?),
            _ => None,
        };
        Ok(Self {
            chosen,
            engine,
            places,
            map: AddressMap::default(),
            watched: BTreeMap::new(),
            sources,
            accounts: Accounts::default(),
            now: Nanos::ZERO,
            footprint: Bytes::ZERO,
            refused: BTreeMap::new(),
            journal,
            queue: VecDeque::new(),
            pacer: Pacer::new(options.settling_cpu_share),
            auditor: Pacer::new(options.cpu_share * AUDIT_PART),
            rng: Rng::new(options.seed),
            spared: Bitmap::default(),
            hand: 0,
            patience: Patience::default(),
            passed: 0,
            over_since: None,
            refresh_due: Nanos::ZERO,
            audit_at: (0, Vpn(0)),
            probe_credit: 0.0,
            wants_samples: needs.load_sample_period > 0,
            reported_cpu: (Nanos::ZERO, Nanos::ZERO),
            lost: 0,
            root,
            options,
            selection,
        })
    }

    /// Another limit of fast memory; takes effect within a second.
    pub fn set_fast(&mut self, fast: FastLimit) {
        self.options.fast = fast;
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
        let mut events = Vec::new();
        if now >= self.refresh_due {
            self.refresh_due = now.saturating_add(REFRESH);
            self.refresh(&mut events)?;
            // Limits are shares of what the engine knows to be there.
            self.tell(std::mem::take(&mut events))?;
            self.report(&mut events)?;
        }
        self.listen(&mut events)?;
        self.audit(&mut events)?;
        self.tell(events)?;
        self.work()?;
        self.keep_limit()?;
        self.probe(passed)?;
        self.assign()?;
        if let Some(journal) = &mut self.journal {
            journal.flush()?;
        }
        let policy = self.engine.poll_timeout().unwrap_or(Nanos::MAX);
        let policy = policy.max(now.saturating_add(Nanos(STEP.0 / 10)));
        Ok(policy.min(now.saturating_add(STEP)))
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
        self.queue.extend(&actions);
        if let Some(journal) = &mut self.journal {
            journal.write(&entry)?;
            journal.write(&Entry::Actions(actions))?;
        }
        Ok(())
    }

    // ---- who is there, and what they have mapped

    fn refresh(&mut self, events: &mut Vec<Event>) -> Result<(), DriverError> {
        let ended = self.chosen.as_ref().is_some_and(|chosen| !chosen.is_alive());
        let pids = match self.selection.pids(&self.root) {
            Ok(_) if ended => BTreeSet::new(),
            Ok(pids) => pids,
            Err(error) if error.is_gone() || error.is_not_found() => BTreeSet::new(),
            Err(error) => return Err(error.into()),
        };
        let ended: Vec<u32> =
            self.watched.iter().filter(|(_, w)| !w.target.is_alive()).map(|(p, _)| *p).collect();
        for pid in ended {
            self.forget(pid, events);
        }
        self.refused.retain(|pid, _| pids.contains(pid));
        let first = self.watched.is_empty();
        let mut refusal = None;
        for pid in pids {
            if self.watched.contains_key(&pid) || self.refused.contains_key(&pid) {
                continue;
            }
            if let Err(error) = self.take_on(pid, !first) {
                self.refused.insert(pid, error.to_string());
                refusal = refusal.or(Some((pid, error)));
            }
        }
        if let (true, Some((pid, error))) = (self.watched.is_empty(), refusal) {
            return Err(with_hint(pid, error).into());
        }
        let known: Vec<u32> = self.watched.keys().copied().collect();
        for pid in known {
            self.follow_mappings(pid, events)?;
        }
        Ok(())
    }

    /// Begins to manage a process, unless it has ended.
    fn take_on(&mut self, pid: u32, child: bool) -> Result<(), LinuxError> {
        let attached = Watched::open(&self.root, pid).and_then(|watched| {
            for source in &mut self.sources {
                source.attach(&self.root, pid, child)?;
            }
            Ok(watched)
        });
        match attached {
            Ok(watched) => {
                self.watched.insert(pid, watched);
                Ok(())
            }
            Err(error) if error.is_gone() || error.is_not_found() => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn forget(&mut self, pid: u32, events: &mut Vec<Event>) {
        if let Some(watched) = self.watched.remove(&pid) {
            self.unmap(watched.id(), &watched.spans, &[], events);
            events.push(Event::Exited { process: watched.id() });
        }
    }

    fn follow_mappings(&mut self, pid: u32, events: &mut Vec<Event>) -> Result<(), DriverError> {
        let Some(watched) = self.watched.get_mut(&pid) else { return Ok(()) };
        let id = watched.id();
        let changes = match watched.refresh() {
            Ok(changes) => changes,
            Err(error) if error.is_gone() => {
                self.forget(pid, events);
                return Ok(());
            }
            // It runs a program of another user by now.
            Err(error) if error.is_denied() => {
                self.forget(pid, events);
                self.refused.insert(pid, error.to_string());
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let spans = watched.spans.clone();
        self.unmap(id, &changes.unmapped, &spans, events);
        for span in changes.mapped {
            self.map.map(id, span, |_, run| {
                events.push(Event::Mapped { run, backing: Backing::Anonymous, process: id });
            });
            match self.places_of(pid, span, events) {
                // Another program was executed in between: the old page table is gone.
                Err(error) if error.is_gone() => {
                    self.reopen(pid, events);
                    return Ok(());
                }
                other => other?,
            }
        }
        Ok(())
    }

    /// Takes address space out of the map; blocks in which nothing of `left`, ascending, lies are
    /// given back.
    fn unmap(&mut self, id: ProcessId, spans: &[Span], left: &[Span], events: &mut Vec<Event>) {
        let mut released = Vec::new();
        for span in spans {
            self.map.known(id, *span, |piece, run| {
                events.push(Event::Unmapped { run });
                let block = Span::region_of(piece.start);
                let next = left.partition_point(|span| span.end() <= block.start);
                if left.get(next).is_none_or(|span| span.start >= block.end()) {
                    released.push(run.start.region());
                }
            });
        }
        // Not before all of them have been looked up: several may lie in one block.
        for region in released {
            self.map.release(region);
        }
    }

    // ---- where pages are

    /// Looks up the pages of a span and tells the engine what it did not know.
    fn places_of(
        &mut self,
        pid: u32,
        span: Span,
        events: &mut Vec<Event>,
    ) -> Result<(), LinuxError> {
        let Some(watched) = self.watched.get_mut(&pid) else { return Ok(()) };
        let id = watched.id();
        let mut runs: Vec<(Span, Found)> = Vec::new();
        self.places.find(&watched.target, &mut watched.pagemap, span, &mut runs)?;
        let mut next = 0;
        let mut found: Vec<Option<Found>> = Vec::new();
        let before = events.len();
        self.map.known(id, span, |piece, run| {
            found.clear();
            found.resize(piece.pages as usize, None);
            while next < runs.len() && runs[next].0.end() <= piece.start {
                next += 1;
            }
            for (span, what) in runs[next..].iter().take_while(|(s, _)| s.start < piece.end()) {
                let part = span.intersect(piece);
                let from = (part.start.0 - piece.start.0) as usize;
                found[from..from + part.pages as usize].fill(Some(*what));
            }
            let view = self.engine.view();
            let direct = |tier| self.places.is_direct(tier);
            reconcile(|page| view.state(page), run.start, &found, direct, events);
        });
        for event in &events[before..] {
            if let Event::Moved { run, cause, .. } = event {
                let pages = u64::from(run.pages);
                match cause {
                    MoveCause::Refault => self.accounts.refaults += pages,
                    _ => self.accounts.moved_by_others += pages,
                }
            }
        }
        Ok(())
    }

    /// Goes on looking up where pages are, round and round, within its share of a core.
    fn audit(&mut self, events: &mut Vec<Event>) -> Result<(), DriverError> {
        let mut left = self.watched.values().map(|w| w.spans.len()).sum::<usize>() + 1;
        while self.auditor.allows() && left > 0 {
            let began = clock::thread_cpu();
            let Some((pid, span)) = self.next_to_audit() else { return Ok(()) };
            match self.places_of(pid, span, events) {
                Err(error) if error.is_gone() => self.reopen(pid, events),
                other => other?,
            }
            self.auditor.charge(clock::thread_cpu().saturating_sub(began));
            left -= 1;
        }
        Ok(())
    }

    /// The next 16 MiB, at most, to look at.
    fn next_to_audit(&mut self) -> Option<(u32, Span)> {
        const PAGES: u64 = 4096;
        let (pid, at) = self.audit_at;
        let rest = self.watched.range(pid..).find_map(|(&other, watched)| {
            let at = if other == pid { at } else { Vpn(0) };
            let span = watched.spans.get(watched.spans.partition_point(|span| span.end() <= at))?;
            let start = span.start.max(at);
            Some((other, Span::between(start, span.end().min(Vpn(start.0 + PAGES)))))
        });
        match rest {
            Some((pid, span)) => {
                self.audit_at = (pid, span.end());
                Some((pid, span))
            }
            None => {
                self.audit_at = (0, Vpn(0));
                None
            }
        }
    }

    /// A process executed another program, or has ended: what was mapped is gone.
    fn reopen(&mut self, pid: u32, events: &mut Vec<Event>) {
        let Some(watched) = self.watched.get_mut(&pid) else { return };
        let (id, spans) = (watched.id(), std::mem::take(&mut watched.spans));
        let alive = watched.target.is_alive() && watched.reopen().is_ok();
        self.unmap(id, &spans, &[], events);
        if !alive {
            self.watched.remove(&pid);
            events.push(Event::Exited { process: id });
        }
        self.refresh_due = Nanos::ZERO;
    }

    // ---- what is touched

    fn listen(&mut self, events: &mut Vec<Event>) -> Result<(), DriverError> {
        let mut touches: Vec<Touch> = Vec::new();
        for source in &mut self.sources {
            source.poll(&self.root, &mut |touch| touches.push(touch))?;
        }
        for touch in touches {
            let process = ProcessId(touch.pid);
            let Some(page) = self.map.page(process, touch.page) else { continue };
            let Some(tier) = self.engine.view().state(page).tier() else { continue };
            let kind = match touch.kind {
                TouchKind::Sample(kind) => kind,
                TouchKind::Refault => {
                    self.spared.insert(page.0);
                    self.accounts.refaults += 1;
                    if !self.places.is_direct(tier) {
                        let run = PageRun::single(page);
                        events.push(Event::Fault(Fault { page, tier, write: false, process }));
                        let cause = MoveCause::Refault;
                        events.push(Event::Moved { run, to: TierId::FAST, cause });
                    }
                    SampleKind::LoadMiss
                }
            };
            if self.wants_samples {
                events.push(Event::Sample(Sample { page, kind, tier, process }));
            }
        }
        let lost: u64 = self.sources.iter().map(|source| source.stats().lost).sum();
        if lost > self.lost {
            events.push(Event::SamplesLost { count: lost - self.lost });
            self.lost = lost;
        }
        Ok(())
    }

    /// Gives sources that look at a part of the pages another part: evenly spread, from another
    /// page on each time.
    fn assign(&mut self) -> Result<(), DriverError> {
        let pages = u64::from(self.map.pages());
        for source in &mut self.sources {
            let wanted = source.wants_pages(self.now) as u64;
            if wanted == 0 || pages == 0 {
                continue;
            }
            let step = pages.div_ceil(wanted).max(2);
            let first = self.rng.below(step);
            let view = self.engine.view();
            let chosen = (0..pages / step).filter_map(|i| {
                let page = PageId((first + i * step) as u32);
                let tier = view.state(page).tier()?;
                let (process, vpn) = self.map.place(page)?;
                self.places.is_direct(tier).then_some((process.0, vpn))
            });
            let chosen: Vec<(u32, Vpn)> = chosen.collect();
            source.watch(self.now, &chosen)?;
        }
        Ok(())
    }

    /// Sizes of tiers, and what sampling costs.
    fn report(&mut self, events: &mut Vec<Event>) -> Result<(), DriverError> {
        let view = self.engine.view();
        self.footprint = view.resident().bytes();
        let fast = self.options.fast.bytes(self.footprint).pages();
        let mut usage = |tier: TierId, capacity: PageCount| {
            if view.limits(tier).capacity != capacity {
                events.push(Event::TierUsage { tier, capacity });
            }
        };
        usage(TierId::FAST, fast);
        for (index, place) in self.places.0.iter().enumerate().skip(1) {
            let tier = TierId(index as u8);
            let free = crate::place::free(&self.root, *place)?.pages();
            usage(tier, view.used(tier).saturating_add(free));
        }
        let cpu: Nanos = Nanos(self.sources.iter().map(|source| source.stats().cpu.0).sum());
        let (at, before) = std::mem::replace(&mut self.reported_cpu, (self.now, cpu));
        let (wall, sampler) = (self.now.saturating_sub(at), cpu.saturating_sub(before));
        events.push(Event::CpuUsage { wall, sampler });
        Ok(())
    }

    // ---- moving

    /// Carries out what the policy wants, as far as our share of a core goes.
    fn work(&mut self) -> Result<(), DriverError> {
        while self.pacer.allows() {
            let Some(action) = self.queue.pop_front() else { return Ok(()) };
            let began = clock::thread_cpu();
            let mut events = Vec::new();
            match action {
                Action::Migrate { id, run, to, lane } => {
                    let head = self.head_of(run);
                    if head.pages < run.pages {
                        let rest = PageRun::between(head.end(), run.end());
                        self.queue.push_front(Action::Migrate { id, run: rest, to, lane });
                    }
                    for (run, outcome) in self.migrate(&[head], to, Purpose::Policy)? {
                        events.push(Event::MigrationDone { id, run, outcome });
                    }
                }
                Action::Split { region, .. } => events.extend(self.split(region)?),
                Action::Collapse { region, to, .. } => events.extend(self.collapse(region, to)?),
                Action::SetSampling { kind, period } => {
                    self.sources.iter_mut().for_each(|source| source.set_period(kind, period));
                }
                // Policies that need these are turned down before they start.
                Action::Scan { .. }
                | Action::Arm { .. }
                | Action::Disarm { .. }
                | Action::Consolidate { .. }
                | Action::DemoteFile { .. } => {}
            }
            self.pacer.charge(clock::thread_cpu().saturating_sub(began));
            self.tell(events)?;
        }
        Ok(())
    }

    /// As much of a run as is moved in one go: whole folios.
    fn head_of(&self, run: PageRun) -> PageRun {
        if run.pages <= MOVE_PAGES {
            return run;
        }
        let page = PageId(run.start.0 + MOVE_PAGES);
        let end = if self.engine.view().state(page).is_huge() {
            page.region().run().end()
        } else {
            page.0
        };
        PageRun::between(run.start.0, end.min(run.end()))
    }

    /// Moves pages, and tells of each page once.
    fn migrate(
        &mut self,
        runs: &[PageRun],
        to: TierId,
        purpose: Purpose,
    ) -> Result<Vec<(PageRun, MoveOutcome)>, DriverError> {
        let mut units: BTreeMap<u32, Vec<Unit>> = BTreeMap::new();
        let mut done = Vec::new();
        for run in runs {
            let mut next = run.start.0;
            while next < run.end() {
                let page = PageId(next);
                let huge = self.engine.view().state(page).is_huge();
                let pages = if huge { page.region().run().end().min(run.end()) - next } else { 1 };
                next += pages;
                match self.map.place(page) {
                    Some((process, vpn)) => {
                        let unit = Unit { span: Span::new(vpn, u64::from(pages)), huge };
                        push_unit(units.entry(process.0).or_default(), unit);
                    }
                    None => done.push((PageRun { start: page, pages }, MoveOutcome::Gone)),
                }
            }
        }
        for (pid, units) in units {
            self.migrate_units(pid, &units, to, purpose, &mut done)?;
        }
        Ok(done)
    }

    fn migrate_units(
        &mut self,
        pid: u32,
        units: &[Unit],
        to: TierId,
        purpose: Purpose,
        done: &mut Vec<(PageRun, MoveOutcome)>,
    ) -> Result<(), DriverError> {
        let all = |outcome| units.iter().map(|unit| (unit.span, outcome)).collect();
        let outcomes = match self.watched.get_mut(&pid) {
            _ if self.options.dry_run => Ok(all(MoveOutcome::Busy)),
            None => Err(LinuxError::Gone { pid }),
            Some(w) => self.places.move_to(&w.target, &mut w.pagemap, units, to),
        };
        let outcomes: Vec<(Span, MoveOutcome)> = match outcomes {
            Ok(outcomes) => outcomes,
            Err(error) if error.is_gone() => all(MoveOutcome::Gone),
            Err(error) => return Err(error.into()),
        };
        for (span, outcome) in outcomes {
            self.account(purpose, to).count(span.pages, outcome);
            self.map.known(ProcessId(pid), span, |_, run| done.push((run, outcome)));
        }
        Ok(())
    }

    fn account(&mut self, purpose: Purpose, to: TierId) -> &mut Account {
        match purpose {
            Purpose::Policy if to == TierId::FAST => &mut self.accounts.promotions,
            Purpose::Policy => &mut self.accounts.demotions,
            Purpose::Limit => &mut self.accounts.reclaimed,
            Purpose::Probe => &mut self.accounts.probes,
        }
    }

    /// Moves pages on our own account and tells the engine what happened.
    fn demote(&mut self, runs: &[PageRun], purpose: Purpose) -> Result<Demoted, DriverError> {
        let to = TierId::FAST.slower();
        let began = clock::thread_cpu();
        let done = self.migrate(runs, to, purpose)?;
        let mut result = Demoted::default();
        let mut events = Vec::new();
        for (run, outcome) in done {
            result.no_space |= outcome == MoveOutcome::NoSpace;
            match outcome {
                MoveOutcome::Moved => {
                    result.moved += u64::from(run.pages);
                    events.push(Event::Moved { run, to, cause: MoveCause::Reclaim });
                }
                MoveOutcome::Gone => events.push(Event::Freed { run }),
                // Tried again when the hand comes round.
                _ => {}
            }
        }
        self.pacer.charge(clock::thread_cpu().saturating_sub(began));
        self.tell(events)?;
        Ok(result)
    }

    /// Brings all that is in swap back into memory, as far as there is free memory for it: what
    /// was set up can be taken down then. Calls `progress` with the bytes that are left, and stops
    /// where it answers false.
    ///
    /// # Errors
    /// Where rights are missing.
    pub fn bring_back(
        &mut self,
        mut progress: impl FnMut(Bytes) -> bool,
    ) -> Result<(), DriverError> {
        if self.places.0.get(1) != Some(&Place::Swap) || self.options.dry_run {
            return Ok(());
        }
        let mut left = self.engine.view().used(TierId::FAST.slower());
        let mut next = 0;
        while next < self.map.pages() && progress(left.bytes()) {
            let run = Region(next / HUGE_PAGES).run();
            next = run.end();
            let view = self.engine.view();
            let out = |page: PageId| view.state(page).tier().is_some_and(|t| t != TierId::FAST);
            let runs: Vec<PageRun> = run.iter().filter(|p| out(*p)).map(PageRun::single).collect();
            let wanted = PageCount(runs.len() as u64);
            let free = frostline_linux::process::available_memory(&self.root)?;
            if free < wanted.bytes().saturating_add(KEPT_FREE) {
                return Ok(());
            }
            self.migrate(&runs, TierId::FAST, Purpose::Policy)?;
            left = left.saturating_sub(wanted);
        }
        Ok(())
    }

    // ---- folios

    fn split(&mut self, region: Region) -> Result<Vec<Event>, DriverError> {
        let split = self.reshape(region, true)?;
        self.accounts.splits += u64::from(split);
        self.accounts.failed_splits += u64::from(!split);
        let mut events = vec![Event::SplitDone { region, split }];
        if split && let Some((process, vpn)) = self.map.place(region.first()) {
            // All-zero pages are freed by the split.
            self.tell(std::mem::take(&mut events))?;
            let span = Span::region_of(vpn);
            if let Err(error) = self.places_of(process.0, span, &mut events)
                && !error.is_gone()
            {
                return Err(error.into());
            }
        }
        Ok(events)
    }

    fn collapse(&mut self, region: Region, to: TierId) -> Result<Vec<Event>, DriverError> {
        let built = self.reshape(region, false)?;
        self.accounts.collapses += u64::from(built);
        self.accounts.failed_collapses += u64::from(!built);
        let tier = built.then_some(to);
        Ok(vec![Event::CollapseDone { region, tier }])
    }

    /// Splits or rebuilds one folio; whether that was found done.
    fn reshape(&mut self, region: Region, split: bool) -> Result<bool, DriverError> {
        let place = self.map.place(region.first());
        let Some((process, vpn)) = place.filter(|_| !self.options.dry_run) else {
            return Ok(false);
        };
        let Some(watched) = self.watched.get_mut(&process.0) else { return Ok(false) };
        match crate::place::reshape(&watched.target, &mut watched.pagemap, vpn, split) {
            Err(error) if error.is_gone() => Ok(false),
            other => Ok(other?),
        }
    }
}

/// Appends a unit; base pages that follow each other are moved together.
fn push_unit(units: &mut Vec<Unit>, unit: Unit) {
    match units.last_mut() {
        Some(last) if !last.huge && !unit.huge && last.span.end() == unit.span.start => {
            last.span.pages += unit.span.pages;
        }
        _ => units.push(unit),
    }
}

/// Says what helps, where rights to look into a process are missing.
fn with_hint(pid: u32, error: LinuxError) -> LinuxError {
    if !error.is_denied() {
        return error;
    }
    let hint = format!("run as root, or as the user of process {pid}");
    LinuxError::Unsupported { what: error.to_string(), hint }
}

/// What came of moving pages to a slower tier.
#[derive(Clone, Copy, Debug, Default)]
struct Demoted {
    /// Pages found there.
    moved: u64,
    /// There was no room for some.
    no_space: bool,
}

/// Why pages are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Policy,
    Limit,
    Probe,
}
