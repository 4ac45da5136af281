//! Clock of the modelled machine: the time that a batch of accesses takes.

use crate::machine::{LINE_BYTES, Machine};
use frostline_core::types::*;

/// Span over which a tier's utilisation is averaged.
const SMOOTHING_NS: f64 = 100_000.0;
/// Utilisation above which queues grow no further: the rate is then limited by the bandwidth.
const UTILISATION_CAP: f64 = 0.95;

/// Part of its stall that an access still has whose line was fetched ahead. Assumed: what is left where a
/// prefetcher runs a few lines ahead of a sweep.
pub(crate) const COVERED_STALL: f64 = 0.1;

/// Accesses of a batch by tier and by [`AccessKind`] code, thinning multiplied out.
pub(crate) type Counts = [[u32; 4]; MAX_TIERS];

/// Reads of a tier, and what they waited, in the mean of cores that have several in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reads {
    pub(crate) count: u64,
    /// Sum of latencies, not divided by the parallelism.
    pub(crate) waited_ns: f64,
}

/// A tier's latency under load, over time.
#[derive(Clone, Debug)]
struct TierLoad {
    /// Unqueued stall of a read and of a write, divided by the parallelism.
    read_ns: f64,
    write_ns: f64,
    /// Service time divided by the parallelism.
    service_ns: f64,
    read_ns_per_line: f64,
    write_ns_per_line: f64,
    /// Lines that it reads or writes at once.
    granule_lines: f64,
    utilisation: f64,
    /// Added to each access at the present utilisation.
    queue_ns: f64,
}

impl TierLoad {
    fn busy_ns(&self, counts: &[u32; 4]) -> f64 {
        let [loads, stores, fetches, write_backs] = counts.map(f64::from);
        (loads + stores + fetches) * self.read_ns_per_line + write_backs * self.write_ns_per_line
    }

    fn stall_ns(&self, counts: &[u32; 4]) -> f64 {
        let [loads, stores, fetches, _] = counts.map(f64::from);
        (loads + fetches) * (self.read_ns + self.queue_ns)
            + stores * (self.write_ns + self.queue_ns)
    }

    /// M/D/1: the mean wait is `u / (2 (1 - u))` service times at utilisation `u`.
    fn observe(&mut self, busy_ns: f64, span_ns: f64) {
        let weight = span_ns / (span_ns + SMOOTHING_NS);
        self.utilisation += weight * (busy_ns / span_ns - self.utilisation);
        let u = self.utilisation.clamp(0.0, UTILISATION_CAP);
        self.queue_ns = self.service_ns * u / (2.0 * (1.0 - u));
    }
}

/// The memory side of the virtual clock.
#[derive(Clone, Debug)]
pub(crate) struct MemoryClock {
    tiers: Vec<TierLoad>,
    /// Bytes copied by migration, read and written per tier, since the last batch: they take
    /// bandwidth from the program.
    copying_ns: [f64; MAX_TIERS],
    /// What the next batch waits less, since lines were fetched ahead.
    spared_ns: [f64; MAX_TIERS],
    /// Accesses of the next batch that open a granule, where a tier has any.
    opened: Option<Counts>,
    /// Since they were taken.
    reads: [Reads; MAX_TIERS],
    /// Accesses of a core in flight.
    mlp: f64,
}

impl MemoryClock {
    pub(crate) fn new(machine: &Machine) -> Self {
        let mlp = machine.cpu.mlp;
        let tiers = machine.tiers.iter().enumerate().map(|(i, tier)| TierLoad {
            read_ns: machine.stall_ns(AccessKind::Load, i),
            write_ns: machine.stall_ns(AccessKind::Store, i),
            service_ns: tier.service() / mlp,
            read_ns_per_line: LINE_BYTES as f64 * 1e9 / tier.read_bytes_per_second,
            write_ns_per_line: LINE_BYTES as f64 * 1e9 / tier.write_bytes_per_second,
            granule_lines: f64::from(tier.granule_lines()),
            utilisation: 0.0,
            queue_ns: 0.0,
        });
        Self {
            tiers: tiers.collect(),
            copying_ns: [0.0; MAX_TIERS],
            spared_ns: [0.0; MAX_TIERS],
            opened: None,
            reads: Default::default(),
            mlp,
        }
    }

    /// Notes a copy between tiers.
    pub(crate) fn copied(&mut self, from: TierId, to: TierId, bytes: u64) {
        let lines = bytes as f64 / LINE_BYTES as f64;
        self.copying_ns[from.index()] += lines * self.tiers[from.index()].read_ns_per_line;
        self.copying_ns[to.index()] += lines * self.tiers[to.index()].write_ns_per_line;
    }

    /// Notes accesses of the next batch whose lines were fetched ahead: they take bandwidth all the same.
    pub(crate) fn cover(&mut self, covered: &Counts) {
        for (t, tier) in self.tiers.iter().enumerate() {
            self.spared_ns[t] += (1.0 - COVERED_STALL) * tier.stall_ns(&covered[t]);
        }
    }

    /// Notes accesses of the next batch that open a granule: they take the bandwidth of all of it, and the
    /// others none.
    pub(crate) fn open(&mut self, opened: Counts) {
        self.opened = Some(opened);
    }

    /// Span of a batch: instructions and stalls shared by `parallel` cores, but never less than a
    /// tier's bandwidth allows. Counts a tier's loaded latency into `latency_ns`.
    pub(crate) fn advance(
        &mut self,
        compute_ns: f64,
        counts: &Counts,
        parallel: f64,
        latency_ns: &mut [f64; MAX_TIERS],
    ) -> f64 {
        let mut stall_ns = 0.0;
        let mut limit_ns = 0.0f64;
        let mut busy_ns = [0.0; MAX_TIERS];
        let opened = self.opened.take();
        for (t, tier) in self.tiers.iter().enumerate() {
            let spared = std::mem::take(&mut self.spared_ns[t]);
            let stall = tier.stall_ns(&counts[t]) - spared;
            latency_ns[t] += stall;
            stall_ns += stall;
            busy_ns[t] = match &opened {
                Some(opened) if tier.granule_lines > 1.0 => {
                    tier.busy_ns(&opened[t]) * tier.granule_lines
                }
                _ => tier.busy_ns(&counts[t]),
            };
            limit_ns = limit_ns.max(busy_ns[t]);
        }
        let free_ns = (compute_ns + stall_ns) / parallel;
        let span_ns = free_ns.max(limit_ns);
        self.count_reads(counts, &busy_ns, (span_ns - free_ns) * parallel);
        if span_ns > 0.0 {
            for (t, tier) in self.tiers.iter_mut().enumerate() {
                let copying_ns = std::mem::take(&mut self.copying_ns[t]);
                tier.observe(busy_ns[t] + copying_ns, span_ns);
            }
        }
        span_ns
    }

    /// Counts the latencies of a batch's reads. What cores waited longer, since a tier's bandwidth allowed
    /// no more, its reads waited: as many are in flight, and fewer end (Little's law).
    fn count_reads(&mut self, counts: &Counts, busy_ns: &[f64; MAX_TIERS], longer_ns: f64) {
        let limits = |t: &usize| busy_ns[*t];
        let limiting = (0..self.tiers.len()).max_by(|a, b| limits(a).total_cmp(&limits(b)));
        for (t, tier) in self.tiers.iter().enumerate() {
            let [loads, _, fetches, _] = counts[t];
            let reads = u64::from(loads) + u64::from(fetches);
            if reads > 0 {
                let longer_ns = if limiting == Some(t) { longer_ns } else { 0.0 };
                let waited_ns = reads as f64 * (tier.read_ns + tier.queue_ns) + longer_ns;
                self.reads[t].count += reads;
                self.reads[t].waited_ns += waited_ns * self.mlp;
            }
        }
    }

    /// Reads since the last call, by tier.
    pub(crate) fn take_reads(&mut self) -> impl Iterator<Item = Reads> + use<> {
        std::mem::take(&mut self.reads).into_iter().take(self.tiers.len())
    }

    /// Stall of one access at the present load.
    pub(crate) fn access_ns(&self, kind: AccessKind, tier: usize) -> f64 {
        let tier = &self.tiers[tier];
        match kind {
            AccessKind::Load | AccessKind::Fetch => tier.read_ns + tier.queue_ns,
            AccessKind::Store => tier.write_ns + tier.queue_ns,
            AccessKind::WriteBack => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(tier: usize, kind: AccessKind, n: u32) -> Counts {
        let mut counts = Counts::default();
        counts[tier][kind as usize] = n;
        counts
    }

    fn clock() -> (Machine, MemoryClock) {
        let machine = Machine::parse("dram-nvm").unwrap();
        let clock = MemoryClock::new(&machine);
        (machine, clock)
    }

    #[test]
    fn an_idle_tier_serves_at_its_latency_over_the_parallelism() {
        let (machine, mut clock) = clock();
        let mut latency = [0.0; MAX_TIERS];
        let one = counts(1, AccessKind::Load, 1);
        let span = clock.advance(0.0, &one, 1.0, &mut latency);
        assert_eq!(span, 300.0 / machine.cpu.mlp);
        assert_eq!(latency[1], span);
    }

    #[test]
    fn write_backs_take_bandwidth_but_nobody_waits() {
        let (_, mut clock) = clock();
        let mut latency = [0.0; MAX_TIERS];
        let few = counts(1, AccessKind::WriteBack, 10);
        let span = clock.advance(1e6, &few, 1.0, &mut latency);
        assert_eq!((span, latency[1]), (1e6, 0.0));
        let span = clock.advance(0.0, &counts(1, AccessKind::WriteBack, 1000), 1.0, &mut latency);
        let at_full_rate = 1000.0 * 64.0 / 14.0;
        assert!((span - at_full_rate).abs() < 1.0, "{span}");
    }

    #[test]
    fn load_raises_latency_and_idleness_lowers_it() {
        let (_, mut clock) = clock();
        let mut latency = [0.0; MAX_TIERS];
        let idle = clock.access_ns(AccessKind::Load, 1);
        for _ in 0..1000 {
            clock.advance(0.0, &counts(1, AccessKind::Load, 256), 64.0, &mut latency);
        }
        let loaded = clock.access_ns(AccessKind::Load, 1);
        assert!(loaded > 1.5 * idle, "{loaded} after {idle}");
        for _ in 0..1000 {
            clock.advance(1e6, &Counts::default(), 1.0, &mut latency);
        }
        assert!((clock.access_ns(AccessKind::Load, 1) - idle).abs() < 0.1);
    }

    #[test]
    fn a_tier_that_limits_the_rate_has_its_reads_wait_for_that() {
        let (machine, mut clock) = clock();
        let mut latency = [0.0; MAX_TIERS];
        let mut both = counts(1, AccessKind::Load, 1000);
        both[0][AccessKind::Load as usize] = 10;
        clock.advance(1e6, &both, 1.0, &mut latency);
        let [fast, slow] = [0, 1].map(|t| clock.take_reads().nth(t).unwrap());
        assert_eq!((fast.count, fast.waited_ns), (10, 800.0), "nothing waits for anything");
        assert_eq!(slow.count, 0, "both were taken");
        // At 64 cores with 4 reads in flight, 39 GB/s are 420 ns a read, with queues not yet grown.
        let span = clock.advance(0.0, &both, 64.0, &mut latency);
        let reads: Vec<Reads> = clock.take_reads().collect();
        let mean = |reads: Reads| reads.waited_ns / reads.count as f64;
        let in_flight = reads.iter().map(|reads| reads.waited_ns).sum::<f64>() / span;
        assert!((in_flight - 64.0 * machine.cpu.mlp).abs() < 1.0, "{in_flight}");
        assert!(mean(reads[1]) > 400.0 && mean(reads[0]) < 100.0, "{reads:?}");
    }

    #[test]
    fn copies_slow_the_program_down() {
        let (_, mut clock) = clock();
        let mut latency = [0.0; MAX_TIERS];
        let idle = clock.access_ns(AccessKind::Load, 1);
        clock.copied(TierId(0), TierId(1), 64 << 20);
        clock.advance(100_000.0, &Counts::default(), 1.0, &mut latency);
        assert!(clock.access_ns(AccessKind::Load, 1) > idle);
    }
}
