//! Setup of a run: what stays as it is until the end.

use crate::footprint::Footprint;
use crate::machine::{LINE_BYTES, Machine, Workers};
use crate::options::SimOptions;
use frostline_core::placement::TierLimits;
use frostline_core::types::*;

/// What a run was given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup<'a> {
    pub(super) options: &'a SimOptions,
    pub(super) machine: &'a Machine,
    pub(super) footprint: &'a Footprint,
    /// Records of the program for each one of the trace.
    pub(super) thinning: u32,
    /// Threads of the policy that never rest.
    pub(super) spinning_threads: u32,
    /// How many programs there are, and whether they take turns.
    pub(super) programs: u32,
    pub(super) takes_turns: bool,
    /// Take one access after the other.
    pub(super) careful: bool,
}

impl Setup<'_> {
    /// Whether a daemon decides, and the kernel knows nothing of it.
    pub(super) fn is_hosted(&self) -> bool {
        self.options.daemon.is_some()
    }

    /// Whether workers run where the program does.
    pub(super) fn shares_cores(&self) -> bool {
        self.machine.cpu.workers == Workers::Shared
    }

    pub(super) fn tiers(&self) -> usize {
        self.machine.tiers.len()
    }

    /// Zeroing memory of a tier: at the copying rate, or line by line.
    pub(super) fn zero_ns(&self, bytes: u64, tier: TierId) -> f64 {
        let costs = &self.machine.costs;
        let lines = (bytes / LINE_BYTES) as f64;
        let line_ns =
            self.machine.stall_ns(AccessKind::Store, tier.index()) * costs.zero_line_stalls;
        bytes as f64 * 1e9 / costs.zero_bytes_per_second + lines * line_ns
    }

    /// What it takes to move a unit between tiers with direct access.
    pub(super) fn move_ns(&self, unit: PageRun, from: TierId, to: TierId) -> f64 {
        let costs = &self.machine.costs;
        let fixed = if unit.pages > 1 { costs.migrate_huge_ns } else { costs.migrate_base_ns };
        fixed + f64::from(unit.pages) * self.machine.move_page_ns(from.index(), to.index())
    }
}

/// Frames of a tier that is much larger than the program, as many as may concern it.
pub(super) fn frames_that_concern(footprint: &Footprint) -> PageCount {
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
