//! The replay: trace in, report out.

mod accessed;
mod background;
#[cfg(test)]
mod contract_tests;
#[cfg(test)]
mod daemon_tests;
mod events;
mod hosted;
mod hot;
#[cfg(test)]
mod kernel_tests;
mod outcome;
mod sampling;
#[cfg(test)]
mod swap_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod together;
#[cfg(test)]
mod together_tests;
mod touch;
mod zeroed;

use crate::address_space::AddressSpace;
use crate::clock::{Counts, MemoryClock};
use crate::error::SimError;
use crate::footprint::Footprint;
use crate::frames::Frames;
use crate::guest::Together;
use crate::heatmap::{Heatmaps, HeatmapsBuilder};
use crate::machine::{Machine, Workers};
use crate::operations::Operations;
use crate::options::{Observer, Progress, SimOptions};
use crate::report::{RunReport, SeriesPoint};
use crate::sampler::Countdown;
use crate::series::Series;
use crate::tlb::{Lookup, Tlb};
use accessed::Accessed;
use background::Background;
use frostline_core::event::{Event, SampleKind};
use frostline_core::placement::{PageState, TierLimits};
use frostline_core::policy::{Made, untiered};
use frostline_core::rng::Rng;
use frostline_core::types::*;
use frostline_core::{Engine, EngineConfig, Foreign};
use frostline_trace::batch::Want;
use frostline_trace::header::ClockUnit;
use frostline_trace::{Batch, TraceHeader, TraceSource};
use hosted::Hosted;
use outcome::SeriesBase;
use together::{Alone, Feed, Turn};
use zeroed::Zeroed;

/// Samples that are handed to the engine at once.
const EVENT_BATCH: usize = 256;
/// Records between two calls of the observer.
const PROGRESS_RECORDS: u64 = 1 << 18;
/// Modelled time between `CpuUsage` and between `Counters` events.
const USAGE_INTERVAL_NS: f64 = 10e6;
/// Thread of a trace whose buffer is modelled; more threads share.
const TLBS: u32 = 64;

/// Marks of a page, one byte each. An access stores [`marks::ALL`] blindly, so every mark is a bit
/// that an access sets and somebody else clears.
mod marks {
    /// Every mark.
    pub(super) const ALL: u8 = u8::MAX;
    /// Touched since it became resident; clear for a folio's untouched parts.
    pub(super) const TOUCHED: u8 = 1;
    /// The access bit, cleared by scans.
    pub(super) const ACCESSED: u8 = 2;
    /// The access bit as seen by the kernel's own reclaim.
    pub(super) const REFERENCED: u8 = 4;
    /// Clear from a promotion to the next touch.
    pub(super) const USED: u8 = 8;
    /// Accessed in the while that is looked at.
    pub(super) const COUNTED: u8 = 16;
}

/// A finished run.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    /// Everything that is one number.
    pub report: RunReport,
    /// Time series.
    pub series: Vec<SeriesPoint>,
    /// Address over time, where asked for.
    pub heatmaps: Option<Heatmaps>,
    /// What had happened at the moments asked for, as many of them as the trace reaches.
    pub moments: Vec<Moment>,
}

/// What has happened up to a moment of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moment {
    /// Modelled time.
    pub seconds: f64,
    /// Loads and stores that memory of each tier served, thinning multiplied out; no fetches or
    /// write-backs.
    pub accesses: Vec<u64>,
    /// Pages moved to faster tiers.
    pub promoted_pages: u64,
    /// Pages moved to slower tiers.
    pub demoted_pages: u64,
    /// Processor time of all tiering work, in seconds.
    pub tiering_seconds: f64,
}

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
    source.want(Want::default());
    let header = source.header().clone();
    let replay = Replay { careful, ..Replay::new(&header, footprint, policy, options, None)? };
    run(&mut Alone(source), replay, observer)
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
    let (header, turn) = (programs.header.clone(), Turn::new(&programs));
    let replay = Replay::new(&header, footprint, policy, options, Some(turn))?;
    run(&mut programs, replay, observer)
}

fn run(
    feed: &mut dyn Feed,
    mut replay: Replay<'_>,
    observer: &mut dyn Observer,
) -> Result<RunOutcome, SimError> {
    let started = std::time::Instant::now();
    let total = replay.footprint.records;
    let mut batch = Batch::new();
    let mut reported = 0;
    while feed.next(&mut replay, &mut batch)? {
        replay.step(&batch)?;
        feed.ran(&mut replay);
        if replay.records - reported >= PROGRESS_RECORDS {
            reported = replay.records;
            let progress =
                Progress { records: replay.records, records_total: total, modelled: replay.now() };
            if !observer.progress(&progress) {
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

/// Frames of a tier that is much larger than the program, as many as may concern it.
fn frames_that_concern(footprint: &Footprint) -> PageCount {
    const LEAST: u64 = 1 << 20;
    let pages = footprint.peak_resident_pages.max(footprint.guest_pages);
    PageCount(pages.saturating_mul(8).saturating_add(LEAST))
}

/// What each tier of the modelled machine offers to the engine, for a run of these options.
pub fn tier_limits(options: &SimOptions, footprint: &Footprint, all_fast: bool) -> Vec<TierLimits> {
    let machine = &options.machine;
    // Splits and collapses can make the program larger than the pass without a policy found; of a
    // guest, the host may come to hold all memory.
    let pages = footprint.peak_resident_pages.max(footprint.guest_pages);
    let ample = PageCount(pages + pages / 16 + 16 * u64::from(HUGE_PAGES));
    let limits = machine.tiers.iter().enumerate().map(|(i, tier)| {
        let limit = options.limits.iter().rev().find(|(t, _)| usize::from(*t) == i);
        let capacity = match (limit, i) {
            (_, 0) if all_fast => ample,
            (Some((_, bytes)), _) => bytes.pages(),
            (None, 0) => options.fast.pages(footprint),
            (None, _) => tier.capacity_bytes.map_or(ample, |bytes| Bytes(bytes).pages()),
        };
        let keep_free = PageCount((capacity.0 as f64 * machine.os.low_watermark) as u64);
        TierLimits { capacity, keep_free, direct_access: tier.direct_access }
    });
    limits.collect()
}

/// What delays the program besides instructions and accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Sampling,
    Fault,
    Migrate,
    Scan,
}

/// Sums over the run, in nanoseconds unless they say otherwise.
#[derive(Debug, Default)]
struct Totals {
    waited: [f64; 4],
    latency: [f64; MAX_TIERS],
    accesses: [[u64; 4]; MAX_TIERS],
    /// Of them, those that found what zeroing had brought into the cache.
    spared: [u64; MAX_TIERS],
    fast_byte_ns: f64,
    resident_max: [u64; MAX_TIERS],
    resident_sum_max: u64,
    moved_pages: [[u64; MAX_TIERS]; MAX_TIERS],
    sampler_cpu: f64,
    policy_cpu: f64,
    /// Of guests, for what they do about their own memory.
    guest_cpu: f64,
    sampling_assist: f64,
    walk: f64,
    compute: f64,
    tlb_lookups: [u64; 3],
    samples: u64,
    samples_lost: u64,
    samples_absent: u64,
    huge_faults: u64,
    base_faults: u64,
    hint_faults: u64,
    refaults: u64,
    reclaimed: u64,
    huge_frame_shortages: u64,
    compacted: u64,
    zero_pages_freed: u64,
    promoted_pages: u64,
    promoted_unused: u64,
    page_checks: u64,
    /// Time of scans, by whether they began in fast memory.
    scan: [f64; 2],
    /// Waits that every placement would have had.
    waited_anyway: f64,
    armed_pages: u64,
    shootdowns: u64,
    not_modelled: u64,
    injected_busy: u64,
    injected_full: u64,
    injected_exits: u64,
    exited_pages: u64,
}

/// The run as it would be with all memory in one tier: the same instructions, first touches and
/// translations, no tiering work.
#[derive(Debug)]
struct Reference {
    tier: usize,
    clock: MemoryClock,
    ns: f64,
}

impl Reference {
    fn advance(&mut self, compute_ns: f64, counts: &Counts, parallel: f64, waited_ns: f64) {
        let mut all = Counts::default();
        for counts in counts {
            (0..4).for_each(|kind| all[self.tier][kind] += counts[kind]);
        }
        let mut unused = [0.0; MAX_TIERS];
        self.ns += self.clock.advance(compute_ns, &all, parallel, &mut unused) + waited_ns;
    }
}

/// Seeded generators, one per mechanism, so that none disturbs another's sequence.
struct Dice {
    lost: Rng,
    busy: Rng,
    full: Rng,
    exit: Rng,
}

struct Replay<'a> {
    options: &'a SimOptions,
    machine: &'a Machine,
    footprint: &'a Footprint,
    trace_name: Foreign,
    thinning: u32,
    /// Take one access after the other.
    careful: bool,
    ns_per_clock: f64,
    /// The trace's clock is real time, which includes waiting for memory.
    clock_is_time: bool,

    engine: Engine,
    space: AddressSpace,
    frames: Frames,
    marks: Vec<u8>,
    low: Vec<bool>,

    now_ns: f64,
    /// Waits that the next batch's span takes in.
    waiting_ns: f64,
    /// Part of them that every placement would have had: first touches.
    waiting_anyway_ns: f64,
    clock: MemoryClock,
    references: [Reference; 2],
    last_clock: u64,
    parallel: f64,
    live_threads: u32,
    process_of: Vec<ProcessId>,
    open_files: Vec<u32>,

    /// State byte of each access of the batch, as it was served.
    states: Vec<u8>,
    /// Accesses of the last step.
    served: usize,
    pending: Vec<Event>,
    /// Allocations that the engine has not told the policy of yet, at most.
    populated: usize,
    load_sampler: Countdown,
    store_sampler: Countdown,
    unsaid_lost: u64,
    usage_due_ns: f64,
    usage_since_ns: f64,
    usage_sampler_ns: f64,
    usage_fast: u64,
    usage_slow: u64,
    wants_counters: bool,
    wake: u64,
    background: Background,
    /// Where several programs take turns.
    turn: Option<Turn>,
    /// Who decides, where that is a daemon and not the kernel.
    hosted: Option<Box<Hosted>>,
    zeroed: Zeroed,
    moments: Vec<Moment>,
    dice: Dice,
    exits_left: u32,
    next_exit: u64,

    tlbs: Vec<Tlb>,
    /// Accesses of the batch that walked the page table, where that is modelled.
    walked: Vec<bool>,
    operations: Operations,
    series: Series,
    series_base: SeriesBase,
    heatmaps: Option<HeatmapsBuilder>,
    accessed: Accessed,
    clock_hand: u32,
    epoch: u64,
    records: u64,
    totals: Totals,
}

impl<'a> Replay<'a> {
    fn new(
        header: &TraceHeader,
        footprint: &'a Footprint,
        policy: Made,
        options: &'a SimOptions,
        turn: Option<Turn>,
    ) -> Result<Self, SimError> {
        options.machine.validate()?;
        let cache_bytes = header.llc.map_or(0, |cache| cache.size_bytes);
        let machine = &options.machine;
        let needs = policy.facts.needs;
        let mut limits = tier_limits(options, footprint, policy.facts.unlimited_fast);
        if policy.facts.swaps {
            limits[1..].iter_mut().for_each(|tier| tier.direct_access = false);
        }
        let mut dice = Rng::new(options.seed);
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
                limits[0].capacity = daemon.kernel_fast.pages();
                (Some((daemon, decider)), untiered())
            }
            None => (None, policy),
        };
        let mut capacities: Vec<PageCount> = limits.iter().map(|l| l.capacity).collect();
        let concerns = frames_that_concern(footprint);
        capacities.iter_mut().for_each(|capacity| *capacity = (*capacity).min(concerns));
        let mut frames = Frames::new(&capacities, machine.os.fragmentation, &mut dice.fork());
        if let Some(blocks) = options.kernel_blocks {
            frames.limit_whole(TierId::FAST, blocks);
        }
        let engine = engine(&limits, policy)?;
        let thinning = header.thinning.max(1);
        let reference = |tier| Reference { tier, clock: MemoryClock::new(machine), ns: 0.0 };
        let clock_is_time = header.clock == ClockUnit::Nanoseconds;
        let mut replay = Self {
            options,
            machine,
            footprint,
            trace_name: header.name.clone(),
            thinning,
            careful: false,
            ns_per_clock: if clock_is_time {
                1.0
            } else {
                1.0 / (machine.cpu.ghz * machine.cpu.ipc)
            },
            clock_is_time,
            low: vec![false; machine.tiers.len()],
            wake: engine.poll_timeout().map_or(u64::MAX, |n| n.0),
            engine,
            space: AddressSpace::default(),
            frames,
            marks: Vec::new(),
            now_ns: 0.0,
            waiting_ns: 0.0,
            waiting_anyway_ns: 0.0,
            clock: MemoryClock::new(machine),
            references: [reference(0), reference(machine.slowest())],
            last_clock: 0,
            parallel: 1.0,
            live_threads: 0,
            process_of: Vec::new(),
            open_files: Vec::new(),
            states: Vec::new(),
            pending: Vec::with_capacity(2 * EVENT_BATCH),
            populated: 0,
            load_sampler: Countdown::new(0),
            store_sampler: Countdown::new(0),
            unsaid_lost: 0,
            usage_due_ns: USAGE_INTERVAL_NS,
            usage_since_ns: 0.0,
            usage_sampler_ns: 0.0,
            usage_fast: 0,
            usage_slow: 0,
            wants_counters: needs.counters && decider.is_none(),
            background: Background::new(&machine.cpu, turn.as_ref().map_or(1, Turn::programs)),
            turn,
            served: 0,
            hosted: None,
            zeroed: Zeroed::new(if machine.costs.zero_line_stalls > 0.0 { cache_bytes } else { 0 }),
            moments: Vec::new(),
            dice: Dice {
                lost: dice.fork(),
                busy: dice.fork(),
                full: dice.fork(),
                exit: dice.fork(),
            },
            exits_left: options.faults.exits,
            next_exit: u64::MAX,
            tlbs: Vec::new(),
            walked: Vec::new(),
            operations: Operations::default(),
            series: Series::new(options.series_interval, options.series_points),
            series_base: SeriesBase::default(),
            heatmaps: options.heatmaps.then(|| HeatmapsBuilder::new(thinning)),
            accessed: Accessed::new(footprint.records, options.scale.factor(footprint)),
            clock_hand: 0,
            epoch: 0,
            records: 0,
            totals: Totals::default(),
        };
        replay.set_sampling(SampleKind::LoadMiss, needs.load_sample_period);
        replay.set_sampling(SampleKind::Store, needs.store_sample_period);
        replay.plan_exit();
        if let Some((daemon, decider)) = decider {
            replay.host(decider, daemon);
        }
        Ok(replay)
    }

    fn now(&self) -> Nanos {
        Nanos((self.now_ns + self.waiting_ns) as u64)
    }

    /// One batch: its events, then its accesses.
    fn step(&mut self, batch: &Batch) -> Result<(), SimError> {
        self.served = batch.len();
        let begin = batch.events.first().map_or(batch.clock_end, |event| event.clock);
        while self.options.moments.get(self.moments.len()).is_some_and(|clock| begin >= *clock) {
            self.note_moment();
        }
        for event in &batch.events {
            self.run_to(event.clock);
            self.trace_event(&event.event);
        }
        if batch.is_empty() {
            self.run_to(batch.clock_end);
            self.serve();
            return Ok(());
        }
        if self.options.epoch_records > 0 && self.records >= self.epoch * self.options.epoch_records
        {
            self.pending.push(Event::Epoch { number: self.epoch });
            self.epoch += 1;
            self.tell();
            self.serve();
        }
        if self.records >= self.next_exit {
            self.exit_a_process();
        }
        let counts = if self.careful {
            self.touch_batch(batch)?;
            hot::count_one_by_one(&self.states, batch, self.thinning)
        } else {
            let states = self.engine.states();
            let attention = hot::gather(states, &mut self.marks, &batch.pages, &mut self.states);
            if attention || self.zeroed.is_warm() {
                self.touch_batch(batch)?;
            }
            hot::count(&self.states, &batch.kinds, self.machine.tiers.len(), self.thinning)
        };
        let walk_ns = if self.options.tlb { self.translate(batch) } else { 0.0 };
        self.pass_time(batch, &counts, walk_ns);
        let load = AccessKind::Load as usize;
        let loads: u32 = counts.iter().map(|tier| tier[load]).sum();
        self.sample_loads(batch, u64::from(loads / self.thinning));
        self.records += batch.len() as u64;
        if self.now_ns as u64 >= self.wake || self.now_ns >= self.usage_due_ns {
            self.serve();
        }
        if self.accessed.is_due(self.records, self.now_ns) {
            self.look_at_accessed();
        }
        if self.series.is_due(self.now_ns) {
            self.add_point();
        }
        Ok(())
    }

    /// Instructions without accesses, up to a moment of the trace's clock.
    fn run_to(&mut self, clock: u64) {
        if clock > self.last_clock {
            let compute_ns = (clock - self.last_clock) as f64 * self.ns_per_clock;
            self.last_clock = clock;
            self.advance(compute_ns, 0.0, &Counts::default());
        }
    }

    /// Moves the virtual clock over the accesses of a batch.
    fn pass_time(&mut self, batch: &Batch, counts: &Counts, walk_ns: f64) {
        let ticks = batch.clock_end.saturating_sub(self.last_clock);
        self.last_clock = self.last_clock.max(batch.clock_end);
        let mut compute_ns = ticks as f64 * self.ns_per_clock;
        if self.clock_is_time {
            let fast_ns: f64 = (0..4)
                .map(|kind| {
                    let n: u32 = counts.iter().map(|tier| tier[kind]).sum();
                    f64::from(n) * self.machine.stall_ns(AccessKind::from_bits(kind as u8), 0)
                })
                .sum();
            compute_ns = (compute_ns - fast_ns).max(0.0);
        }
        for (total, counts) in self.totals.accesses.iter_mut().zip(counts) {
            (0..4).for_each(|kind| total[kind] += u64::from(counts[kind]));
        }
        let span_ns = self.advance(compute_ns, walk_ns, counts);
        if self.operations.is_open() {
            self.share_time(batch, span_ns);
        }
        if let Some(heatmaps) = &mut self.heatmaps {
            heatmaps.add(self.now_ns, self.records, &batch.pages, &self.frames);
        }
    }

    /// Moves the virtual clock, and that of both references, and takes in what has been waited for.
    fn advance(&mut self, compute_ns: f64, walk_ns: f64, counts: &Counts) -> f64 {
        let compute_ns = compute_ns + walk_ns;
        let anyway_ns = std::mem::take(&mut self.waiting_anyway_ns);
        self.totals.waited_anyway += anyway_ns;
        let waiting_ns = std::mem::take(&mut self.waiting_ns);
        for reference in &mut self.references {
            reference.advance(compute_ns, counts, self.parallel, anyway_ns);
        }
        let busy_ns =
            self.clock.advance(compute_ns, counts, self.parallel, &mut self.totals.latency);
        self.totals.compute += compute_ns;
        self.totals.walk += walk_ns;
        let span_ns = busy_ns + waiting_ns;
        self.now_ns += span_ns;
        let fast = self.engine.view().used(TierId::FAST);
        self.totals.fast_byte_ns += fast.bytes().0 as f64 * span_ns;
        span_ns
    }

    /// The program waits: `ns` of one thread, shared by the cores that run in parallel.
    fn wait(&mut self, what: Wait, ns: f64) {
        let ns = ns / self.parallel;
        self.totals.waited[what as usize] += ns;
        self.waiting_ns += ns;
    }

    /// All threads of a program wait at once: an interruption of every core that it runs on.
    fn interrupt(&mut self, what: Wait, ns: f64) {
        let ns = ns * self.turn.as_ref().map_or(1.0, Turn::interrupted);
        self.totals.waited[what as usize] += ns;
        self.waiting_ns += ns;
    }

    /// Work of a background thread.
    fn work(&mut self, what: Wait, ns: f64) {
        if self.machine.cpu.workers == Workers::Shared {
            self.wait(what, ns);
        }
    }

    /// The time of a batch goes to the threads that ran: in shares of their stalls. A thread takes as
    /// many times as long as its part of the time of all as there are threads that run beside it.
    fn share_time(&mut self, batch: &Batch, span_ns: f64) {
        let span_ns = span_ns * self.parallel;
        if let Some(stream) = batch.streams.constant() {
            self.operations.run(stream, span_ns);
            return;
        }
        let clock = &self.clock;
        let states = &self.states;
        let weight = |i: usize| {
            1.0 + clock.access_ns(batch.kind(i), usize::from(states[i] & PageState::TIER))
        };
        let sum: f64 = (0..batch.len()).map(weight).sum();
        for i in 0..batch.len() {
            self.operations.run(batch.streams.get(i), span_ns * weight(i) / sum);
        }
    }

    /// Translates every access of the batch; the time of its misses.
    fn translate(&mut self, batch: &Batch) -> f64 {
        self.walked.clear();
        if self.is_nested() {
            return self.translate_nested(batch);
        }
        let mut found = [0u64; 3];
        let mut base_walks = 0u64;
        let accesses = batch.pages.iter().zip(&self.states);
        let walked = &mut self.walked;
        let mut note = |lookup: Lookup, huge: bool| {
            walked.push(lookup == Lookup::Walk);
            found[lookup as usize] += 1;
            base_walks += u64::from(lookup == Lookup::Walk && !huge);
        };
        if let Some(stream) = batch.streams.constant() {
            let tlb = tlb_of(&mut self.tlbs, self.machine, stream);
            for (page, state) in accesses {
                let huge = PageState(*state).is_huge();
                note(tlb.translate(*page, huge), huge);
            }
        } else {
            for (i, (page, state)) in accesses.enumerate() {
                let tlb = tlb_of(&mut self.tlbs, self.machine, batch.streams.get(i));
                let huge = PageState(*state).is_huge();
                note(tlb.translate(*page, huge), huge);
            }
        }
        let [_, l2, walks] = found;
        (0..3).for_each(|i| self.totals.tlb_lookups[i] += found[i]);
        let model = &self.machine.tlb;
        let span_ns = l2 as f64 * model.l2_hit_ns
            + base_walks as f64 * model.walk_base_ns
            + (walks - base_walks) as f64 * model.walk_huge_ns;
        span_ns * f64::from(self.thinning)
    }

    /// Hands all pending events to the engine.
    fn tell(&mut self) {
        if self.unsaid_lost > 0 {
            self.pending.push(Event::SamplesLost { count: self.unsaid_lost });
            self.unsaid_lost = 0;
        }
        if !self.pending.is_empty() {
            self.tell_all();
        }
    }

    /// As [`Self::tell`], also where the engine itself has something that the policy does not know.
    fn tell_all(&mut self) {
        let now = self.now();
        self.engine.handle_events(now, &self.pending);
        self.pending.clear();
        self.populated = 0;
        self.collect_actions();
    }

    /// The engine's arrays may have grown, and its next wish may have changed.
    fn after_events(&mut self) {
        let known = self.engine.states().len();
        if self.marks.len() < known {
            self.marks.resize(known, 0);
        }
        let timeout = self.engine.poll_timeout().map_or(u64::MAX, |n| n.0);
        let daemon = self.hosted.as_ref().map_or(u64::MAX, |hosted| hosted.due.0);
        self.wake = timeout.min(self.background.next_end()).min(daemon);
    }

    /// What is due: ends of background work, usage reports, the policy's wake-up, its actions.
    fn serve(&mut self) {
        self.finish_jobs();
        if self.now_ns >= self.usage_due_ns {
            self.report_usage();
        }
        self.tell();
        let now = self.now();
        self.engine.handle_timeout(now);
        self.collect_actions();
        self.step_daemon();
    }

    fn report_usage(&mut self) {
        self.usage_due_ns = self.now_ns + USAGE_INTERVAL_NS;
        if self.hosted.is_some() {
            return;
        }
        if self.load_sampler.is_on() || self.store_sampler.is_on() {
            let wall_ns = self.now_ns - self.usage_since_ns;
            self.pending.push(Event::CpuUsage {
                wall: Nanos(wall_ns as u64),
                sampler: Nanos(self.usage_sampler_ns as u64),
            });
        }
        self.usage_since_ns = self.now_ns;
        self.usage_sampler_ns = 0.0;
        if self.wants_counters {
            let (fast, all) = self.access_sums();
            let slow = all - fast;
            self.pending.push(Event::Counters {
                fast: fast - self.usage_fast,
                slow: slow - self.usage_slow,
            });
            (self.usage_fast, self.usage_slow) = (fast, slow);
        }
    }

    /// The engine that decides where pages are to be.
    fn decider(&self) -> &Engine {
        self.hosted.as_ref().map_or(&self.engine, |hosted| hosted.engine())
    }

    /// Accesses served by tier 0, and all.
    fn access_sums(&self) -> (u64, u64) {
        let sum = |tier: &[u64; 4]| tier.iter().sum::<u64>();
        (sum(&self.totals.accesses[0]), self.totals.accesses.iter().map(sum).sum())
    }

    fn process_of(&self, stream: u32) -> ProcessId {
        self.process_of.get(stream as usize).copied().unwrap_or_default()
    }
}

fn tlb_of<'t>(tlbs: &'t mut Vec<Tlb>, machine: &Machine, stream: u32) -> &'t mut Tlb {
    let index = (stream % TLBS) as usize;
    if index >= tlbs.len() {
        tlbs.resize_with(index + 1, || Tlb::new(&machine.tlb));
    }
    &mut tlbs[index]
}
