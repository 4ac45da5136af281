//! Reclaim by the kernel, where a tier has no room for memory that is needed at once.

use super::kernel::Kernel;
use super::marks;
use super::time::Wait;
use frostline_core::event::{Event, MoveCause};
use frostline_core::types::*;

/// Pages that the kernel's reclaim evicts at once (`SWAP_CLUSTER_MAX`).
const RECLAIM_PAGES: u64 = 32;

/// Second chance in the order of page ids.
#[derive(Debug, Default)]
pub(super) struct Reclaim {
    hand: u32,
    /// Pages evicted.
    pub(super) reclaimed: u64,
}

impl Reclaim {
    /// Makes room for `pages` and a few more in a tier, into the next slower tiers with room. The policy's victims go first, then others by second chance in the order of page ids.
    pub(super) fn make_room(&mut self, kernel: &mut Kernel<'_>, tier: TierId, pages: u64) {
        let wanted = pages.max(RECLAIM_PAGES);
        if tier == TierId::FAST {
            for page in kernel.engine.victims(kernel.now(), PageCount(wanted)) {
                let unit = kernel.unit(page);
                let there = kernel.engine.view().state(page).tier() == Some(tier);
                if kernel.engine.view().free(tier).0 >= wanted
                    || there && !self.evict(kernel, unit, tier)
                {
                    break;
                }
            }
        }
        let known = kernel.engine.view().pages();
        let mut looked = 0u64;
        while kernel.engine.view().free(tier).0 < wanted && looked < 2 * u64::from(known) {
            if self.hand >= known {
                self.hand = 0;
            }
            let page = PageId(self.hand);
            let unit = kernel.unit(page);
            self.hand = unit.end();
            looked += u64::from(unit.pages);
            let state = kernel.engine.view().state(page);
            if state.tier() != Some(tier) || state.is_in_flight() {
                continue;
            }
            let marks = &mut kernel.marks[unit.range()];
            let referenced = marks::any(marks, marks::REFERENCED);
            marks::clear(marks, marks::REFERENCED);
            if referenced {
                continue;
            }
            if !self.evict(kernel, unit, tier) {
                return;
            }
        }
    }

    fn evict(&mut self, kernel: &mut Kernel<'_>, unit: PageRun, from: TierId) -> bool {
        let tiers = kernel.setup.machine.tiers.len() as u8;
        let view = kernel.engine.view();
        let room = |t: &TierId| view.free(*t).0 >= u64::from(unit.pages);
        let Some(to) = (from.0 + 1..tiers).map(TierId).find(room) else { return false };
        let page_ns = kernel.setup.machine.swap_ns(from.index(), to.index());
        kernel.time.wait(Wait::Migrate, f64::from(unit.pages) * page_ns);
        kernel.relocate(unit, from, to);
        kernel.shootdown(unit, 1);
        self.reclaimed += u64::from(unit.pages);
        kernel.pending.push(Event::Moved { run: unit, to, cause: MoveCause::Reclaim });
        kernel.tell();
        true
    }
}
