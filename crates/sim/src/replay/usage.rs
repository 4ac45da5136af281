//! Usage reports for policies: processor time of the sampler, counts and latencies of accesses.

use super::kernel::Kernel;
use frostline_core::event::Event;
use frostline_core::policy::Telemetry;
use frostline_core::types::*;

/// Longest modelled time between two reports, and the shortest where intervals are scaled.
const INTERVAL_NS: f64 = 10e6;
const LEAST_INTERVAL_NS: f64 = 100e3;

/// Whoever tells policies every 10 ms, as scaled as their own intervals.
#[derive(Debug)]
pub(super) struct Usage {
    due_ns: f64,
    interval_ns: f64,
    wants_counters: bool,
    wants_latencies: bool,
    fast: u64,
    slow: u64,
    /// Cores that run a program, as told.
    cores: u32,
}

impl Usage {
    /// Intervals are divided by `scale`.
    pub(super) fn new(wants: Telemetry, scale: f64) -> Self {
        let interval_ns = (INTERVAL_NS / scale).clamp(LEAST_INTERVAL_NS, INTERVAL_NS);
        Self {
            due_ns: interval_ns,
            interval_ns,
            wants_counters: wants.counters,
            wants_latencies: wants.read_latencies,
            fast: 0,
            slow: 0,
            cores: 1,
        }
    }

    #[inline]
    pub(super) fn is_due(&self, now_ns: f64) -> bool {
        now_ns >= self.due_ns
    }

    /// Reports, of `fast` accesses among `all` so far. A daemon looks for itself.
    pub(super) fn report(&mut self, kernel: &mut Kernel<'_>, (fast, all): (u64, u64)) {
        let now_ns = kernel.time.ns;
        self.due_ns = now_ns + self.interval_ns;
        if kernel.setup.is_hosted() {
            return;
        }
        kernel.pending.extend(kernel.sampling.take_usage(now_ns));
        let cores = kernel.time.interrupted_cores();
        if cores != std::mem::replace(&mut self.cores, cores) {
            kernel.pending.push(Event::Running { cores });
        }
        if self.wants_counters {
            let slow = all - fast;
            kernel.pending.push(Event::Counters { fast: fast - self.fast, slow: slow - self.slow });
            (self.fast, self.slow) = (fast, slow);
        }
        if self.wants_latencies {
            let reads = kernel.time.memory.take_reads().enumerate();
            kernel.pending.extend(reads.map(|(tier, reads)| Event::ReadLatency {
                tier: TierId(tier as u8),
                reads: reads.count,
                waited: Nanos(reads.waited_ns as u64),
            }));
        }
    }
}
