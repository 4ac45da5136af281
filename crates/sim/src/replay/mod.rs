//! The replay: trace in, report out.

mod accessed;
mod background;
#[cfg(test)]
mod contract_tests;
#[cfg(test)]
mod daemon_tests;
mod faults;
mod granules;
mod hosted;
mod hot;
mod injection;
mod jobs;
mod kernel;
#[cfg(test)]
mod kernel_tests;
#[cfg(test)]
mod lanes_tests;
mod marks;
mod outcome;
mod prefetcher;
mod programs;
mod reclaim;
mod sampling;
mod served;
mod setup;
#[cfg(test)]
mod swap_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod time;
mod together;
#[cfg(test)]
mod together_tests;
mod translations;
mod units;
mod usage;
mod watch;
mod zeroed;

pub use outcome::RunOutcome;
pub use setup::tier_limits;
pub use watch::Moment;

use crate::clock::Counts;
use crate::error::SimError;
use crate::footprint::Footprint;
use crate::guest::Together;
use crate::options::{Observer, Progress, SimOptions};
use faults::Faults;
use frostline_core::event::{Event, SampleKind};
use frostline_core::placement::{PageState, TierLimits};
use frostline_core::policy::{Made, Telemetry, untiered};
use frostline_core::rng::Rng;
use frostline_core::types::*;
use frostline_core::{Engine, EngineConfig, Foreign};
use frostline_daemon::COUNTED;
use frostline_trace::batch::Want;
use frostline_trace::header::ClockUnit;
use frostline_trace::{Batch, TraceHeader, TraceSource};
use granules::Granules;
use hosted::Hosted;
use injection::Exits;
use jobs::finish_jobs;
use kernel::Kernel;
use prefetcher::Prefetcher;
use programs::{Programs, exit_a_process};
use served::Served;
use setup::Setup;
use time::{Accesses, Time};
use together::{Feed, SingleTrace, Turn};
use translations::{Guests, Translations};
use usage::Usage;
use watch::Watch;

/// Records between two calls of the observer.
const PROGRESS_RECORDS: u64 = 1 << 18;

/// Replays a trace on a machine under a policy.
///
/// `footprint` comes from [`crate::measure_footprint`] on the same trace and machine. A policy
/// that describes a machine with [unlimited fast memory](frostline_core::policy::Facts::unlimited_fast) gets
/// as much as the program can need.
///
/// # Errors
/// A trace that cannot be read, a machine that contradicts itself, all tiers full, or the observer
/// asked to stop.
pub fn simulate(
    source: &mut dyn TraceSource,
    footprint: &Footprint,
    policy: Made,
    options: &SimOptions,
    observer: &mut dyn Observer,
) -> Result<RunOutcome, SimError> {
    replay(source, footprint, policy, options, observer, false)
}

/// [`simulate`], where `careful` looks at one access after the other instead of batches: slow, and
/// the same result.
fn replay(
    source: &mut dyn TraceSource,
    footprint: &Footprint,
    policy: Made,
    options: &SimOptions,
    observer: &mut dyn Observer,
    careful: bool,
) -> Result<RunOutcome, SimError> {
    source.want(columns(options));
    let header = source.header().clone();
    let setup = Setup {
        options,
        machine: &options.machine,
        footprint,
        thinning: header.thinning.max(1),
        spinning_threads: if options.daemon.is_none() { policy.facts.spinning_threads } else { 0 },
        programs: 1,
        takes_turns: false,
        careful,
    };
    let replay = Replay::new(&header, setup, policy, None)?;
    run(&mut SingleTrace(source), replay, observer)
}

/// As [`simulate`], for programs side by side; `footprint` is that of [`Together::footprint`].
///
/// # Errors
/// As [`simulate`], and a guest without a free frame.
pub fn simulate_together(
    mut programs: Together,
    footprint: &Footprint,
    policy: Made,
    options: &SimOptions,
    observer: &mut dyn Observer,
) -> Result<RunOutcome, SimError> {
    programs.want(columns(options));
    let header = programs.header.clone();
    let setup = Setup {
        options,
        machine: &options.machine,
        footprint,
        thinning: header.thinning.max(1),
        spinning_threads: if options.daemon.is_none() { policy.facts.spinning_threads } else { 0 },
        programs: programs.programs.len() as u32,
        takes_turns: true,
        careful: false,
    };
    let replay = Replay::new(&header, setup, policy, Guests::of(&programs))?;
    run(&mut programs, replay, observer)
}

/// What is read of a trace besides pages and kinds.
fn columns(options: &SimOptions) -> Want {
    let machine = &options.machine;
    let lines = machine.cpu.prefetch || machine.tiers.iter().any(|tier| tier.granule_lines() > 1);
    Want { lines, ..Want::default() }
}

fn run(
    feed: &mut dyn Feed,
    mut replay: Replay<'_>,
    observer: &mut dyn Observer,
) -> Result<RunOutcome, SimError> {
    let started = std::time::Instant::now();
    let records_total = replay.kernel.setup.footprint.records;
    let mut batch = Batch::new();
    let mut reported = 0;
    while feed.next(&mut replay, &mut batch)? {
        replay.step(&batch)?;
        feed.ran(&mut replay);
        if replay.records - reported >= PROGRESS_RECORDS {
            reported = replay.records;
            let (records, modelled) = (replay.records, replay.kernel.now());
            if !observer.progress(&Progress { records, records_total, modelled }) {
                return Err(SimError::Cancelled);
            }
        }
    }
    let mut outcome = replay.finish(started);
    feed.report(&mut |name, value| {
        outcome.report.counters.insert(name.to_owned(), value);
    });
    Ok(outcome)
}

/// A run under way: programs on a machine, and what is noted of them.
struct Replay<'a> {
    kernel: Kernel<'a>,
    faults: Faults,
    programs: Programs,
    served: Served,
    prefetcher: Option<Prefetcher>,
    granules: Option<Granules>,
    usage: Usage,
    watch: Watch,
    exits: Exits,
    /// Who decides, where that is a daemon and not the kernel.
    hosted: Option<Box<Hosted>>,
    /// Where several programs take turns.
    turn: Option<Turn>,
    trace_name: Foreign,
    records: u64,
    /// Number of the next `Epoch` event.
    epoch: u64,
}

impl<'a> Replay<'a> {
    fn new(
        header: &TraceHeader,
        setup: Setup<'a>,
        policy: Made,
        guests: Option<Guests>,
    ) -> Result<Self, SimError> {
        let options = setup.options;
        options.machine.validate()?;
        let needs = policy.facts.needs;
        let mut limits = tier_limits(options, setup.footprint, policy.facts.unlimited_fast);
        if policy.facts.swaps {
            limits[1..].iter_mut().for_each(|tier| tier.direct_access = false);
        }
        let engine = |tiers: &[TierLimits], policy| {
            Engine::new(
                EngineConfig {
                    tiers: tiers.to_vec(),
                    migration_bytes_per_second: options.migration_bytes_per_second,
                    migration_burst: Bytes(64 << 20),
                },
                policy,
            )
        };
        let (decider, policy) = match &options.daemon {
            Some(daemon) => {
                let decider = engine(&limits, policy)?;
                limits[0].capacity = limits[0].capacity.saturating_add(daemon.spare.pages());
                (Some((daemon, decider)), untiered())
            }
            None => (None, policy),
        };
        let mut dice = Rng::new(options.seed);
        let time = Time::new(&setup, header.clock == ClockUnit::Nanoseconds);
        let engine = engine(&limits, policy)?;
        let mut kernel = Kernel::new(setup, time, engine, Translations::new(guests), &mut dice);
        // As live, a daemon counts what is sampled.
        let counts = decider.is_some() && needs.counters && needs.load_sample_period == 0;
        let loads = if counts { COUNTED } else { needs.load_sample_period };
        kernel.sampling.set_period(SampleKind::LoadMiss, loads);
        kernel.sampling.set_period(SampleKind::Store, needs.store_sample_period);
        let mut exits = Exits::new(&options.faults, dice.fork());
        exits.plan(0, setup.footprint.records);
        let wanted = if decider.is_none() { needs } else { Telemetry::default() };
        let usage = Usage::new(wanted, options.scale.factor(setup.footprint));
        let hosted =
            decider.map(|(daemon, decider)| Box::new(Hosted::new(decider, daemon, &mut kernel)));
        Ok(Self {
            faults: Faults::new(&setup, Bytes(header.llc.map_or(0, |cache| cache.size_bytes))),
            programs: Programs::default(),
            served: Served::default(),
            prefetcher: Prefetcher::new(options.machine.cpu.prefetch),
            granules: Granules::new(&options.machine),
            usage,
            watch: Watch::new(&setup),
            exits,
            hosted,
            turn: setup.takes_turns.then(Turn::default),
            trace_name: header.name.clone(),
            records: 0,
            epoch: 0,
            kernel,
        })
    }

    /// One batch: its events, then its accesses.
    fn step(&mut self, batch: &Batch) -> Result<(), SimError> {
        let options = self.kernel.setup.options;
        self.served.len = batch.len();
        let begin = batch.events.first().map_or(batch.clock_end, |event| event.clock);
        while options.moments.get(self.watch.moments.len()).is_some_and(|clock| begin >= *clock) {
            self.note_moment();
        }
        for event in &batch.events {
            self.run_to(event.clock);
            self.programs.apply(&event.event, &mut self.kernel, &mut self.watch.operations);
        }
        if batch.is_empty() {
            self.run_to(batch.clock_end);
            self.serve();
            return Ok(());
        }
        if options.epoch_records > 0 && self.records >= self.epoch * options.epoch_records {
            self.kernel.tell_one(Event::Epoch { number: self.epoch });
            self.epoch += 1;
            self.serve();
        }
        if self.exits.is_due(self.records) {
            exit_a_process(&mut self.kernel, &mut self.exits);
            self.exits.plan(self.records, self.kernel.setup.footprint.records);
        }
        self.access(batch)?;
        let now_ns = self.kernel.time.ns;
        if now_ns as u64 >= self.kernel.wake || self.usage.is_due(now_ns) {
            self.serve();
        }
        if self.watch.accessed.is_due(self.records, self.kernel.time.ns) {
            self.look_at_accessed();
        }
        if self.watch.series.is_due(self.kernel.time.ns) {
            self.add_point();
        }
        Ok(())
    }

    /// The accesses of a batch, and the time that they take.
    fn access(&mut self, batch: &Batch) -> Result<(), SimError> {
        let Setup { thinning, careful, machine, options, .. } = self.kernel.setup;
        let counts = if careful {
            self.touch_batch(batch)?;
            hot::count_one_by_one(&self.served.states, batch, thinning)
        } else {
            let (states, marks) = (self.kernel.engine.states(), &mut self.kernel.marks);
            let attention = hot::gather(states, marks, &batch.pages, &mut self.served.states);
            if attention || self.faults.zeroed.is_warm() {
                self.touch_batch(batch)?;
            }
            hot::count(&self.served.states, &batch.kinds, machine.tiers.len(), thinning)
        };
        let Self { kernel, served, watch, programs, prefetcher, granules, .. } = self;
        let mut walk_ns = 0.0;
        if options.tlb {
            let program = self.turn.as_ref().map_or(0, |turn| turn.program);
            let states = &served.states;
            walk_ns = kernel.translations.translate(&kernel.setup, program, batch, states);
        }
        served.add(&counts);
        if let Some(prefetcher) = prefetcher {
            prefetcher.follow(batch, &served.states, thinning);
        }
        let fast = kernel.fast_used();
        let covered = prefetcher.as_ref().map(Prefetcher::covered);
        let opened = granules.as_mut().map(|g| g.follow(batch, &served.states, thinning));
        let accesses = Accesses { counts: &counts, covered, opened };
        let span_ns = kernel.time.pass(&kernel.setup, batch.clock_end, accesses, walk_ns, fast);
        if watch.operations.is_open() {
            let (memory, span_ns) = (&kernel.time.memory, span_ns * kernel.time.parallel);
            served.share_time(batch, memory, span_ns, |thread, ns| {
                watch.operations.run(thread, ns);
            });
        }
        if let Some(heatmaps) = &mut watch.heatmaps {
            heatmaps.add(kernel.time.ns, self.records, &batch.pages, &kernel.frames);
        }
        let load = AccessKind::Load as usize;
        let loads = |counts: &Counts| counts.iter().map(|tier| tier[load]).sum::<u32>();
        let loads = (loads(&counts) - covered.map_or(0, loads)) / thinning;
        let kinds = prefetcher.as_ref().and_then(Prefetcher::kinds).unwrap_or(&batch.kinds);
        let process_of = |stream| programs.of(stream);
        kernel.sample_loads(batch, (kinds, u64::from(loads)), &served.states, process_of);
        self.records += batch.len() as u64;
        Ok(())
    }

    /// Instructions without accesses, up to a moment of the trace's clock.
    fn run_to(&mut self, clock: u64) {
        let fast = self.kernel.fast_used();
        self.kernel.time.run_to(clock, fast);
    }

    /// The batch again, one access after the other; leaves in `served` how each was served.
    #[cold]
    fn touch_batch(&mut self, batch: &Batch) -> Result<(), SimError> {
        self.served.states.resize(batch.len(), 0);
        let mut spared_ns = 0.0;
        for i in 0..batch.len() {
            let page = PageId(batch.pages[i]);
            let mut state = self.kernel.engine.view().state(page);
            if state.0 & PageState::ATTENTION != 0 {
                let stream = batch.streams.get(i);
                if !state.is_resident() {
                    let process = self.programs.of(stream);
                    self.faults.first_touch(&mut self.kernel, page, process)?;
                    state = self.kernel.engine.view().state(page);
                }
                if state.0 & PageState::ATTENTION != 0 {
                    self.fault(page, batch.kind(i).is_write(), stream)?;
                    state = self.kernel.engine.view().state(page);
                }
            }
            // Again, after the batch's pass: a folio mapped meanwhile came without marks.
            self.kernel.marks[page.index()] = marks::ALL;
            self.served.states[i] = state.0;
            if let Some(tier) = state.tier() {
                let (setup, kind) = (&self.kernel.setup, batch.kind(i));
                spared_ns += self.faults.zeroed.spared_ns(setup, page, kind, tier);
            }
        }
        if spared_ns > 0.0 {
            let thinning = f64::from(self.kernel.setup.thinning);
            self.kernel.time.wait_anyway(-spared_ns * thinning);
        }
        Ok(())
    }

    /// A fault of a thread. Background work goes on while it waits.
    fn fault(&mut self, page: PageId, write: bool, stream: u32) -> Result<(), SimError> {
        let by = (self.programs.of(stream), stream);
        self.faults.fault(&mut self.kernel, page, write, by)?;
        if self.kernel.now().0 >= self.kernel.wake {
            let fast = self.kernel.fast_used();
            let span_ns = self.kernel.time.pass_waits(fast);
            if self.watch.operations.is_open() {
                self.watch.operations.run(stream, span_ns * self.kernel.time.parallel);
            }
            self.serve();
        }
        Ok(())
    }

    /// What is due: ends of background work, usage reports, the policy's wake-up, its actions.
    fn serve(&mut self) {
        finish_jobs(&mut self.kernel);
        if self.usage.is_due(self.kernel.time.ns) {
            self.usage.report(&mut self.kernel, self.served.sums());
        }
        self.kernel.tell();
        let now = self.kernel.now();
        self.kernel.engine.handle_timeout(now);
        self.kernel.collect_actions();
        if let Some(hosted) = &mut self.hosted
            && self.kernel.daemon_due <= self.kernel.now().0
        {
            hosted.step(&mut self.kernel);
        }
    }

    /// The engine that decides where pages are to be.
    fn decider(&self) -> &Engine {
        self.hosted.as_ref().map_or(&self.kernel.engine, |hosted| hosted.engine())
    }

    #[cold]
    fn look_at_accessed(&mut self) {
        let limit = self.decider().view().limits(TierId::FAST).capacity;
        let Kernel { engine, marks, time, .. } = &mut self.kernel;
        self.watch.accessed.look((self.records, time.ns), engine.states(), marks, limit);
    }

    #[cold]
    fn add_point(&mut self) {
        let decider = self.hosted.as_ref().map_or(&self.kernel.engine, |hosted| hosted.engine());
        self.watch.add_point(&self.kernel, &self.served, decider);
    }

    #[cold]
    fn note_moment(&mut self) {
        let (tiering_seconds, spared) = (self.tiering_seconds(), &self.faults.zeroed.spared);
        self.watch.note_moment(&self.kernel, &self.served, spared, tiering_seconds);
    }
}
