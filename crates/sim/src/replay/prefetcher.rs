//! Prefetching of lines that a program sweeps over, as a processor's second-level cache does it.

use crate::clock::Counts;
use frostline_core::placement::PageState;
use frostline_core::types::*;
use frostline_trace::{Batch, Column};

/// Pages that are followed at once, one stream each: 32 in Intel's processors (optimisation manual, "L2
/// streamer").
const STREAMS: usize = 32;
/// A page, and how it was accessed last.
#[derive(Clone, Copy, Debug)]
struct Stream {
    page: u32,
    line: u8,
    /// From the line before. After two lines in a row, in either direction, the next one is fetched ahead.
    step: i8,
}

impl Stream {
    /// Of a page that nobody has.
    const NONE: Self = Self { page: u32::MAX, line: 0, step: 0 };

    /// Whether the line had been fetched ahead.
    #[inline]
    fn follow(&mut self, page: u32, line: u8) -> bool {
        if self.page != page {
            *self = Self { page, line, step: 0 };
            return false;
        }
        let step = line as i8 - self.line as i8;
        let covered = step == self.step && step.abs() == 1;
        (self.line, self.step) = (line, step);
        covered
    }
}

/// What the prefetcher covers of the accesses of a batch.
#[derive(Debug)]
pub(super) struct Prefetcher {
    streams: [Stream; STREAMS],
    /// Accesses covered, by tier and kind, thinning multiplied out.
    covered: Counts,
    /// Kinds of the batch's records, where some were covered: those are said to be write-backs, which no
    /// sampler sees.
    kinds: Column,
    any: bool,
}

impl Prefetcher {
    /// For a machine that has one.
    pub(super) fn new(on: bool) -> Option<Self> {
        on.then(|| Self {
            streams: [Stream::NONE; STREAMS],
            covered: Counts::default(),
            kinds: Column::default(),
            any: false,
        })
    }

    /// Follows the accesses of a batch, served from `states`.
    pub(super) fn follow(&mut self, batch: &Batch, states: &[u8], thinning: u32) {
        self.covered = Counts::default();
        self.any = false;
        let kinds = self.kinds.values_mut();
        for (i, (&page, state)) in batch.pages.iter().zip(states).enumerate() {
            let kind = batch.kinds.get(i);
            let demand = kind != AccessKind::WriteBack as u32;
            let stream = &mut self.streams[page as usize % STREAMS];
            let covered = demand && stream.follow(page, batch.lines.get(i) as u8);
            self.any |= covered;
            let tier = usize::from(state & PageState::TIER);
            self.covered[tier][kind as usize & 3] += u32::from(covered) * thinning;
            kinds.push(if covered { AccessKind::WriteBack as u32 } else { kind });
        }
    }

    /// Accesses of the last batch that were covered.
    pub(super) fn covered(&self) -> &Counts {
        &self.covered
    }

    /// Kinds of the last batch's records as samplers see them, where they differ from its own.
    pub(super) fn kinds(&self) -> Option<&Column> {
        self.any.then_some(&self.kinds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::options::SimOptions;
    use crate::replay::testing::*;
    use crate::size::FastSize;
    use frostline_core::policy::Telemetry;

    fn covered(accesses: &[(u32, u8)]) -> Vec<bool> {
        let mut streams = [Stream::NONE; STREAMS];
        let follow =
            |&(page, line): &(u32, u8)| streams[page as usize % STREAMS].follow(page, line);
        accesses.iter().map(follow).collect()
    }

    #[test]
    fn a_sweep_is_covered_from_its_third_line_on_in_either_direction() {
        let up: Vec<(u32, u8)> = (0..128).map(|i| (i / 64, i as u8 % 64)).collect();
        let down: Vec<(u32, u8)> = up.iter().rev().copied().collect();
        for sweep in [up, down] {
            let found = covered(&sweep);
            let expected = |(i, _): (usize, &bool)| i % 64 >= 2;
            assert!(found.iter().enumerate().all(|(i, f)| *f == expected((i, f))), "{found:?}");
        }
    }

    #[test]
    fn strides_repeats_and_jumps_are_not_covered() {
        for accesses in [
            (0..30).map(|i| (7, i * 2)).collect::<Vec<_>>(),
            (0..30).map(|_| (7, 9)).collect(),
            (0..30).map(|i| (i, i as u8)).collect(),
            (0..60).map(|i| (i % 2 * STREAMS as u32, i as u8 / 2)).collect(),
        ] {
            assert!(!covered(&accesses).contains(&true), "{accesses:?}");
        }
    }

    #[test]
    fn as_many_pages_are_followed_as_there_are_streams() {
        let rounds = (0..64).flat_map(|line| (0..STREAMS as u32).map(move |page| (page, line)));
        let found = covered(&rounds.collect::<Vec<_>>());
        assert_eq!(found.iter().filter(|f| **f).count(), 62 * STREAMS);
    }

    #[test]
    fn a_sweep_takes_a_tenth_of_the_stalls_and_all_of_the_bandwidth_and_hides_from_samplers() {
        let mut steps = map(0, 100);
        steps.extend((0..100).flat_map(|page| [page; 64]).map(load));
        let mut machine = Machine::parse("dram-nvm:thp=off").unwrap();
        let none = 0.0;
        machine.costs.fault_base_ns = none;
        machine.costs.sample_assist_ns = none;
        machine.costs.zero_bytes_per_second = 1e18;
        machine.tiers.iter_mut().for_each(|tier| tier.service_ns = Some(none));
        let run = |prefetch, read_bytes_per_second| {
            let mut machine = machine.clone();
            machine.cpu.prefetch = prefetch;
            machine.tiers[0].read_bytes_per_second = read_bytes_per_second;
            let needs = Telemetry { load_sample_period: 1, ..Telemetry::default() };
            let options = SimOptions::new(machine, FastSize::Bytes(PageCount(200).bytes()));
            let report = run_script(&steps, Script { needs, ..Script::new([]) }, &options).0.report;
            (report.modelled_seconds, report.counters["machine.samples"], report.fast_hit_ratio)
        };
        let ((without, seen, _), (with, few, hits)) = (run(false, 1e17), run(true, 1e17));
        assert_eq!((seen, few, hits), (6400.0, 200.0, 1.0), "two lines of each page");
        let stall = machine.stall_ns(AccessKind::Load, 0) * 1e-9;
        let saved = without - with;
        assert!((saved / (6200.0 * 0.9 * stall) - 1.0).abs() < 1e-6, "{without} {with}");
        assert!(run(true, 1e9).0 >= 6400.0 * 64.0 / 1e9, "lines come over the same wire");
    }
}
