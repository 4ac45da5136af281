//! The limit of fast memory where a kernel allocates that does not know it.

use super::background::Job;
use super::{Replay, Wait};
use frostline_core::action::Lane;
use frostline_core::event::{Event, MoveCause};
use frostline_core::hotness::bitmap::Bitmap;
use frostline_core::types::*;

/// How long a policy is given to make room before that is done for it: usually, and where memory
/// has grown by one part in so many within that time.
const GRACE_NS: f64 = 0.6e9;
const GROWING_GRACE_NS: f64 = 0.1e9;
const GROWN_PART: u64 = 128;
/// How many pages then go at once.
const RECLAIM_PAGES: u64 = 256;

/// Keeps the limit of fast memory where the kernel does not.
#[derive(Debug, Default)]
pub(super) struct Keeper {
    over_since_ns: Option<f64>,
    /// Pages that were there when memory last grew, and until when it is said to grow.
    resident: u64,
    grows_until_ns: f64,
    hand: u32,
    /// Sampled since the hand last passed.
    pub(super) spared: Bitmap,
    picked: Vec<PageRun>,
}

impl Keeper {
    /// So many pages are there now; how long the policy is given.
    fn grace_ns(&mut self, now_ns: f64, resident: u64) -> f64 {
        if resident > self.resident + self.resident / GROWN_PART {
            self.grows_until_ns = now_ns + GRACE_NS;
            self.resident = resident;
        }
        self.resident = self.resident.min(resident);
        if now_ns < self.grows_until_ns { GROWING_GRACE_NS } else { GRACE_NS }
    }
}

impl Replay<'_> {
    /// Makes room where the program has had more fast memory than it may for a while and the policy
    /// has made none: what has not been sampled lately goes, in turn.
    pub(super) fn keep_limit(&mut self) {
        if self.options.kernel_fast.is_none() || self.upkeep <= 0.0 {
            return;
        }
        let (fast, next) = (TierId::FAST, TierId::FAST.slower());
        let view = self.engine.view();
        let resident = view.resident().0;
        let excess = view.over(fast).saturating_sub(view.reserved(next)).0;
        let grace_ns = self.keeper.grace_ns(self.now_ns, resident);
        if excess == 0 {
            self.keeper.over_since_ns = None;
            return;
        }
        let since_ns = *self.keeper.over_since_ns.get_or_insert(self.now_ns);
        if self.now_ns - since_ns < grace_ns || !self.background.is_idle() {
            return;
        }
        let wanted = excess.min(RECLAIM_PAGES).min(view.free(next).0);
        let (mut found, mut ns) = (0, 0.0);
        let mut left = 2 * u64::from(view.pages());
        while found < wanted && left > 0 {
            if self.keeper.hand >= self.engine.view().pages() {
                self.keeper.hand = 0;
            }
            let page = PageId(self.keeper.hand);
            let unit = self.unit(page);
            self.keeper.hand = unit.end();
            left = left.saturating_sub(u64::from(unit.pages));
            let state = self.engine.view().state(page);
            if state.tier() != Some(fast) || state.is_in_flight() {
                continue;
            }
            if self.keeper.spared.contains(page.0) {
                self.keeper.spared.remove(page.0);
                continue;
            }
            found += u64::from(unit.pages);
            ns += self.move_ns(unit, fast, next);
            self.keeper.picked.push(unit);
        }
        if found > 0 {
            self.schedule(Lane::DEMOTE, Wait::Migrate, ns, Job::Reclaim);
        }
    }

    pub(super) fn finish_reclaim(&mut self) {
        let to = TierId::FAST.slower();
        for unit in std::mem::take(&mut self.keeper.picked) {
            let state = self.engine.view().state(unit.start);
            if state.tier() == Some(TierId::FAST) && !state.is_in_flight() {
                self.relocate(unit, TierId::FAST, to);
                self.totals.reclaimed += u64::from(unit.pages);
                self.pending.push(Event::Moved { run: unit, to, cause: MoveCause::Reclaim });
                self.forget_translations(unit);
            }
        }
    }
}
