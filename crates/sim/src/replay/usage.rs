//! Usage reports for policies: processor time of the sampler, counts and latencies of accesses.

use super::kernel::Kernel;
use frostline_core::event::Event;
use frostline_core::policy::Telemetry;
use frostline_core::types::*;

/// Modelled time between two reports.
const INTERVAL_NS: f64 = 10e6;

/// Whoever tells policies every 10 ms.
#[derive(Debug)]
pub(super) struct Usage {
    due_ns: f64,
    wants_counters: bool,
    wants_latencies: bool,
    fast: u64,
    slow: u64,
}

impl Usage {
    pub(super) fn new(wants: Telemetry) -> Self {
        Self {
            due_ns: INTERVAL_NS,
            wants_counters: wants.counters,
            wants_latencies: wants.read_latencies,
            fast: 0,
            slow: 0,
        }
    }

    #[inline]
    pub(super) fn is_due(&self, now_ns: f64) -> bool {
        now_ns >= self.due_ns
    }

    /// Reports, of `fast` accesses among `all` so far. A daemon looks for itself.
    pub(super) fn report(&mut self, kernel: &mut Kernel<'_>, (fast, all): (u64, u64)) {
        let now_ns = kernel.time.ns;
        self.due_ns = now_ns + INTERVAL_NS;
        if kernel.setup.is_hosted() {
            return;
        }
        kernel.pending.extend(kernel.sampling.take_usage(now_ns));
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
