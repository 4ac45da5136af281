//! The limit of fast memory where a kernel allocates that does not know it.

use super::background::Job;
use super::{Replay, Wait};
use frostline_core::action::Lane;
use frostline_core::daemon::Growth;
use frostline_core::event::{Event, MoveCause};
use frostline_core::hotness::bitmap::Bitmap;
use frostline_core::types::*;

/// How many pages go at once where the policy makes no room.
const RECLAIM_PAGES: u64 = 256;

/// Keeps the limit of fast memory where the kernel does not.
#[derive(Debug, Default)]
pub(super) struct Keeper {
    over_since_ns: Option<f64>,
    growth: Growth,
    hand: u32,
    /// Sampled since the hand last passed.
    pub(super) spared: Bitmap,
    picked: Vec<PageRun>,
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
        let grace = self.keeper.growth.grace(Nanos(self.now_ns as u64), resident);
        if excess == 0 {
            self.keeper.over_since_ns = None;
            return;
        }
        let since_ns = *self.keeper.over_since_ns.get_or_insert(self.now_ns);
        if self.now_ns - since_ns < grace.0 as f64 || !self.background.is_idle() {
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
