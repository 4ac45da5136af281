//! Time of the modelled machine, and what it goes into.

use super::setup::Setup;
use crate::clock::{COVERED_STALL, Counts, MemoryClock};
use frostline_core::types::*;

/// What delays the program besides instructions and accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Sampling,
    Fault,
    Migrate,
    Scan,
}

/// Accesses of a batch.
#[derive(Clone, Copy)]
pub(super) struct Accesses<'a> {
    pub(super) counts: &'a Counts,
    /// Those that the prefetcher covered, where there is one.
    pub(super) covered: Option<&'a Counts>,
    /// Those that opened a granule, where a tier has any.
    pub(super) opened: Option<&'a Counts>,
}

/// Sums over the run, in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct TimeSums {
    waited: [f64; 4],
    /// Waits that every placement would have had.
    pub(super) waited_anyway: f64,
    pub(super) latency: [f64; MAX_TIERS],
    /// Bytes of fast memory in use, times the time.
    pub(super) fast_byte_ns: f64,
    pub(super) walk: f64,
    pub(super) compute: f64,
}

/// The run as it would be with all memory in one tier: the same instructions, first touches and
/// translations, no tiering work.
#[derive(Debug)]
struct Reference {
    tier: usize,
    memory: MemoryClock,
    ns: f64,
}

impl Reference {
    /// All accesses in the one tier.
    fn gathered(&self, counts: &Counts) -> Counts {
        let mut all = Counts::default();
        for counts in counts {
            (0..4).for_each(|kind| all[self.tier][kind] += counts[kind]);
        }
        all
    }

    fn cover(&mut self, covered: &Counts) {
        self.memory.cover(&self.gathered(covered));
    }

    fn open(&mut self, opened: &Counts) {
        self.memory.open(self.gathered(opened));
    }

    fn advance(&mut self, compute_ns: f64, counts: &Counts, parallel: f64, waited_ns: f64) {
        let all = self.gathered(counts);
        let mut unused = [0.0; MAX_TIERS];
        self.ns += self.memory.advance(compute_ns, &all, parallel, &mut unused) + waited_ns;
    }
}

/// The virtual clock.
#[derive(Debug)]
pub(super) struct Time {
    /// As of the last batch, without what has been waited for since.
    pub(super) ns: f64,
    /// Waits that the next batch's span takes in.
    waiting_ns: f64,
    /// Part of them that every placement would have had: first touches.
    waiting_anyway_ns: f64,
    pub(super) memory: MemoryClock,
    references: [Reference; 2],
    /// The trace's clock.
    last_clock: u64,
    ns_per_clock: f64,
    /// The trace's clock is real time, which includes waiting for memory.
    clock_is_time: bool,
    /// Cores that run the program.
    pub(super) parallel: f64,
    /// Threads of the policy that compete with it for its cores without rest.
    spinning: f64,
    cores: f64,
    /// Part of the programs that an interruption stops.
    interrupted: f64,
    /// Background work takes time from the program.
    shared: bool,
    pub(super) sums: TimeSums,
}

impl Time {
    pub(super) fn new(setup: &Setup<'_>, clock_is_time: bool) -> Self {
        let machine = setup.machine;
        let reference = |tier| Reference { tier, memory: MemoryClock::new(machine), ns: 0.0 };
        Self {
            ns: 0.0,
            waiting_ns: 0.0,
            waiting_anyway_ns: 0.0,
            memory: MemoryClock::new(machine),
            references: [reference(0), reference(machine.slowest())],
            last_clock: 0,
            ns_per_clock: if clock_is_time {
                1.0
            } else {
                1.0 / (machine.cpu.ghz * machine.cpu.ipc)
            },
            clock_is_time,
            parallel: machine.cpu.parallel(1),
            cores: f64::from(machine.cpu.cores) * f64::from(setup.programs),
            spinning: if setup.shares_cores() { f64::from(setup.spinning_threads) } else { 0.0 },
            interrupted: 1.0 / f64::from(setup.programs),
            shared: setup.shares_cores(),
            sums: TimeSums::default(),
        }
    }

    /// With what has been waited for.
    pub(super) fn now(&self) -> Nanos {
        Nanos(self.now_ns() as u64)
    }

    pub(super) fn now_ns(&self) -> f64 {
        self.ns + self.waiting_ns
    }

    /// Cores' worth of the program that runs: all threads get equal shares of the cores.
    fn running(&self) -> f64 {
        self.parallel * (self.cores / (self.parallel + self.spinning)).min(1.0)
    }

    /// Processor time of threads that never rest.
    pub(super) fn spun_ns(&self) -> f64 {
        self.spinning * self.ns
    }

    /// Time with all memory in the fastest, and in the slowest tier.
    pub(super) fn references_ns(&self) -> [f64; 2] {
        [self.references[0].ns, self.references[1].ns]
    }

    /// Nanoseconds that the program waited for one thing.
    pub(super) fn waited_ns(&self, what: Wait) -> f64 {
        self.sums.waited[what as usize]
    }

    /// Instructions without accesses, up to a moment of the trace's clock.
    pub(super) fn run_to(&mut self, clock: u64, fast: Bytes) {
        if clock > self.last_clock {
            let compute_ns = (clock - self.last_clock) as f64 * self.ns_per_clock;
            self.last_clock = clock;
            self.advance(compute_ns, 0.0, &Counts::default(), fast);
        }
    }

    /// Moves the clock over the accesses of a batch that ends at `clock`; the span.
    pub(super) fn pass(
        &mut self,
        setup: &Setup<'_>,
        clock: u64,
        accesses: Accesses<'_>,
        walk_ns: f64,
        fast: Bytes,
    ) -> f64 {
        let Accesses { counts, covered, opened } = accesses;
        let ticks = clock.saturating_sub(self.last_clock);
        self.last_clock = self.last_clock.max(clock);
        let mut compute_ns = ticks as f64 * self.ns_per_clock;
        if self.clock_is_time {
            let fast_ns = |counts: &Counts| -> f64 {
                let of_kind = |kind: usize| {
                    let n: u32 = counts.iter().map(|tier| tier[kind]).sum();
                    f64::from(n) * setup.machine.stall_ns(AccessKind::from_bits(kind as u8), 0)
                };
                (0..4).map(of_kind).sum()
            };
            let spared_ns = covered.map_or(0.0, |covered| fast_ns(covered) * (1.0 - COVERED_STALL));
            compute_ns = (compute_ns - fast_ns(counts) + spared_ns).max(0.0);
        }
        if let Some(covered) = covered {
            self.memory.cover(covered);
            self.references.iter_mut().for_each(|reference| reference.cover(covered));
        }
        if let Some(opened) = opened {
            self.memory.open(*opened);
            self.references.iter_mut().for_each(|reference| reference.open(opened));
        }
        self.advance(compute_ns, walk_ns, counts, fast)
    }

    /// Nothing but waiting; the span.
    pub(super) fn pass_waits(&mut self, fast: Bytes) -> f64 {
        self.advance(0.0, 0.0, &Counts::default(), fast)
    }

    /// Moves the clock, and that of both references, and takes in what has been waited for.
    fn advance(&mut self, compute_ns: f64, walk_ns: f64, counts: &Counts, fast: Bytes) -> f64 {
        let compute_ns = compute_ns + walk_ns;
        let anyway_ns = std::mem::take(&mut self.waiting_anyway_ns);
        self.sums.waited_anyway += anyway_ns;
        let waiting_ns = std::mem::take(&mut self.waiting_ns);
        for reference in &mut self.references {
            reference.advance(compute_ns, counts, self.parallel, anyway_ns);
        }
        let running = self.running();
        let busy_ns = self.memory.advance(compute_ns, counts, running, &mut self.sums.latency);
        self.sums.compute += compute_ns;
        self.sums.walk += walk_ns;
        let span_ns = busy_ns + waiting_ns;
        self.ns += span_ns;
        self.sums.fast_byte_ns += fast.0 as f64 * span_ns;
        span_ns
    }

    /// The program waits: `ns` of one thread, shared by the cores that run in parallel.
    pub(super) fn wait(&mut self, what: Wait, ns: f64) {
        let ns = ns / self.parallel;
        self.sums.waited[what as usize] += ns;
        self.waiting_ns += ns;
    }

    /// As [`Self::wait`], for what every placement would have waited for, too.
    pub(super) fn wait_anyway(&mut self, ns: f64) {
        self.waiting_anyway_ns += ns / self.parallel;
        self.wait(Wait::Fault, ns);
    }

    /// All threads of a program wait at once: an interruption of every core that it runs on.
    pub(super) fn interrupt(&mut self, what: Wait, ns: f64) {
        let ns = ns * self.interrupted;
        self.sums.waited[what as usize] += ns;
        self.waiting_ns += ns;
    }

    /// As [`Self::interrupt`], by a worker. One that takes a core of the program's interrupts the others; its own
    /// part is in its work.
    pub(super) fn interrupt_by_worker(&mut self, what: Wait, ns: f64) {
        let interrupted = if self.shared { 1.0 - 1.0 / self.parallel } else { 1.0 };
        self.interrupt(what, ns * interrupted);
    }

    /// Cores that an interruption stops.
    pub(super) fn interrupted_cores(&self) -> u32 {
        (self.parallel * self.interrupted).round().max(1.0) as u32
    }

    /// Work of a background thread.
    pub(super) fn work(&mut self, what: Wait, ns: f64) {
        if self.shared {
            self.wait(what, ns);
        }
    }
}
