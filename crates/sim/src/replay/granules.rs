//! Granules of a tier: memory that reads and writes more than a cache line at once.

use crate::clock::Counts;
use crate::machine::{LINE_BYTES, Machine};
use frostline_core::placement::PageState;
use frostline_core::types::*;
use frostline_trace::Batch;

/// Granules that stay open: 64 in the buffer of each of six modules (Yang et al., *An empirical guide to
/// the behavior and use of scalable persistent memory*, FAST '20: 16 KB in pieces of 256 B).
const OPEN: usize = 6 * 64;

/// Which accesses of a batch opened a granule: all others find it in the memory's buffer.
#[derive(Debug)]
pub(super) struct Granules {
    /// Granules of a page.
    per_page: u32,
    lines: u32,
    open: [u64; OPEN],
    opened: Counts,
}

impl Granules {
    /// For a machine that has a tier with granules of more than a line; those of its largest.
    pub(super) fn new(machine: &Machine) -> Option<Self> {
        let lines = machine.tiers.iter().map(|tier| tier.granule_lines()).max()?;
        let per_page = (PAGE_BYTES / LINE_BYTES) as u32 / lines;
        (lines > 1).then(|| Self {
            per_page,
            lines,
            open: [u64::MAX; OPEN],
            opened: Counts::default(),
        })
    }

    /// Follows the accesses of a batch, served from `states`; those that opened a granule, by tier and
    /// kind, thinning multiplied out.
    pub(super) fn follow(&mut self, batch: &Batch, states: &[u8], thinning: u32) -> &Counts {
        self.opened = Counts::default();
        for (i, (&page, state)) in batch.pages.iter().zip(states).enumerate() {
            let granule = u64::from(page) * u64::from(self.per_page)
                + u64::from(batch.lines.get(i) / self.lines);
            let open = &mut self.open[(granule % OPEN as u64) as usize];
            let opens = *open != granule;
            *open = granule;
            let (tier, kind) = (usize::from(state & PageState::TIER), batch.kinds.get(i));
            self.opened[tier][kind as usize & 3] += u32::from(opens) * thinning;
        }
        &self.opened
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::SimOptions;
    use crate::replay::testing::*;
    use crate::size::FastSize;

    #[test]
    fn a_line_alone_takes_the_bandwidth_of_its_granule_and_lines_in_a_row_share_it() {
        let mut machine = Machine::parse("dram-nvm:thp=off").unwrap();
        machine.costs.fault_base_ns = 0.0;
        machine.costs.zero_bytes_per_second = 1e18;
        let rate = 1e8;
        (machine.tiers[1].service_ns, machine.tiers[1].read_bytes_per_second) = (Some(0.0), rate);
        let seconds = |granule_bytes, pages: &[u32]| {
            let mut machine = machine.clone();
            machine.tiers[1].granule_bytes = granule_bytes;
            let mut steps = map(0, 1000);
            steps.extend(pages.iter().copied().map(load));
            let script = Script { place: TierId(1), ..Script::new([]) };
            let options = SimOptions::new(machine, FastSize::Bytes(PageCount(1).bytes()));
            run_script(&steps, script, &options).0.report.modelled_seconds
        };
        let rows: Vec<u32> = (0..64_000).map(|i| i / 64).collect();
        let scattered: Vec<u32> = (0..64_000).map(|i| i % 1000).collect();
        let lines = 64_000.0 * LINE_BYTES as f64 / rate;
        for (granule, times) in [(64, 1.0), (256, 4.0), (1024, 16.0)] {
            for (pages, times) in [(&rows, 1.0), (&scattered, times)] {
                let (is, closed_form) = (seconds(granule, pages), times * lines);
                assert!((is / closed_form - 1.0).abs() < 1e-3, "{granule}: {is} for {closed_form}");
            }
        }
    }
}
