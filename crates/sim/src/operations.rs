//! Latency of the operations that a trace marks.

use crate::report::OpLatency;

/// Sub-buckets per power of two: a value is known to 1/32.
const FINE_BITS: u32 = 5;
const FINE: usize = 1 << FINE_BITS;

/// Histogram of spans in nanoseconds, exact below 32 and to 3 % above.
#[derive(Clone, Debug)]
pub(crate) struct LatencyHistogram {
    counts: Vec<u64>,
    total: u64,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self { counts: vec![0; (64 - FINE_BITS as usize + 1) * FINE], total: 0 }
    }
}

impl LatencyHistogram {
    pub(crate) fn add(&mut self, ns: u64) {
        self.counts[bucket(ns)] += 1;
        self.total += 1;
    }

    /// Smallest value that at least `share` of all spans do not exceed.
    fn quantile(&self, share: f64) -> u64 {
        let rank = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return lowest(bucket);
            }
        }
        0
    }

    /// None where there was no operation.
    pub(crate) fn report(&self) -> Option<OpLatency> {
        (self.total > 0).then(|| OpLatency {
            count: self.total,
            p50: self.quantile(0.5),
            p99: self.quantile(0.99),
        })
    }
}

fn bucket(ns: u64) -> usize {
    if ns < FINE as u64 {
        return ns as usize;
    }
    let exponent = 63 - ns.leading_zeros();
    let fine = (ns >> (exponent - FINE_BITS)) as usize & (FINE - 1);
    (exponent - FINE_BITS + 1) as usize * FINE + fine
}

fn lowest(bucket: usize) -> u64 {
    if bucket < FINE {
        return bucket as u64;
    }
    let exponent = bucket / FINE - 1;
    ((FINE + bucket % FINE) as u64) << exponent
}

/// Time that every thread has run, and the operations it is in.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    threads: Vec<Thread>,
    open: u32,
    pub(crate) latencies: LatencyHistogram,
}

#[derive(Clone, Debug, Default)]
struct Thread {
    ran_ns: f64,
    /// Kind of operation, and the thread's time at its begin.
    open: Vec<(u64, f64)>,
}

impl Operations {
    /// Whether time has to be told: some operation has begun and not ended.
    pub(crate) fn is_open(&self) -> bool {
        self.open > 0
    }

    pub(crate) fn begin(&mut self, stream: u32, op: u64) {
        let thread = self.thread(stream);
        thread.open.push((op, thread.ran_ns));
        self.open += 1;
    }

    /// Ends the thread's innermost operation of this kind; without one nothing happens.
    pub(crate) fn end(&mut self, stream: u32, op: u64) {
        let thread = self.thread(stream);
        let Some(at) = thread.open.iter().rposition(|(kind, _)| *kind == op) else { return };
        let (_, begin_ns) = thread.open.remove(at);
        let span_ns = thread.ran_ns - begin_ns;
        self.open -= 1;
        self.latencies.add(span_ns.round() as u64);
    }

    /// The thread ran for so long.
    pub(crate) fn run(&mut self, stream: u32, ns: f64) {
        self.thread(stream).ran_ns += ns;
    }

    fn thread(&mut self, stream: u32) -> &mut Thread {
        let index = stream as usize;
        if index >= self.threads.len() {
            self.threads.resize(index + 1, Thread::default());
        }
        &mut self.threads[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_thirtysecond() {
        let mut histogram = LatencyHistogram::default();
        (1..=100_000u64).for_each(|ns| histogram.add(ns));
        let found = histogram.report().unwrap();
        assert_eq!(found.count, 100_000);
        for (value, exact) in [(found.p50, 50_000.0), (found.p99, 99_000.0)] {
            assert!((value as f64 / exact - 1.0).abs() < 1.0 / 32.0, "{value} for {exact}");
        }
    }

    #[test]
    fn every_value_has_a_bucket() {
        for ns in [0, 1, 31, 32, 33, 1 << 20, (1 << 40) + 12345, u64::MAX] {
            let low = lowest(bucket(ns));
            assert!(low <= ns && ns - low <= ns / 32, "{ns}: {low}");
        }
        assert_eq!(LatencyHistogram::default().report(), None);
    }

    #[test]
    fn only_the_threads_own_time_counts() {
        let mut ops = Operations::default();
        ops.begin(1, 7);
        ops.run(1, 100.0);
        ops.run(2, 10_000.0);
        ops.end(1, 8);
        assert!(ops.is_open(), "another kind of operation ended");
        ops.run(1, 28.0);
        ops.end(1, 7);
        assert!(!ops.is_open());
        assert_eq!(ops.latencies.report().unwrap().p50, 128);
    }
}
