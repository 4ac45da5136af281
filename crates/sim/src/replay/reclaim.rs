//! Reclaim by the daemon, where a kernel allocates that does not know the limit of fast memory.

use super::background::Job;
use super::{Replay, Wait};
use frostline_core::action::Lane;
use frostline_core::event::{Event, MoveCause};
use frostline_core::hotness::bitmap::Bitmap;
use frostline_core::types::*;
use frostline_daemon::{Growth, Reclaimer};

/// Pages that are reclaimed in one go.
const RECLAIM_PAGES: u64 = 256;

/// What the daemon knows for it, and what it reclaims at the moment.
#[derive(Debug, Default)]
pub(super) struct Reclaim {
    reclaimer: Reclaimer,
    growth: Growth,
    /// Pages that were sampled since the hand last passed.
    pub(super) referenced: Bitmap,
    leaving: Vec<PageRun>,
}

impl Replay<'_> {
    /// Makes room where the program has had more fast memory than it may for a while and the policy
    /// has made none.
    pub(super) fn keep_limit(&mut self) {
        if self.options.kernel_fast.is_none() || self.upkeep <= 0.0 {
            return;
        }
        let (fast, next) = (TierId::FAST, TierId::FAST.slower());
        let now = Nanos(self.now_ns as u64);
        let Reclaim { reclaimer, growth, referenced, leaving } = &mut self.reclaim;
        let view = self.engine.view();
        let excess = view.over(fast).saturating_sub(view.reserved(next)).0;
        let grace = growth.grace(now, view.resident().0);
        if excess == 0 {
            return reclaimer.reset();
        }
        if !reclaimer.is_due(now, grace) || !self.background.is_idle() {
            return;
        }
        let (room, pages) = (view.free(next).0, u64::from(view.pages()));
        let wanted = excess.min(RECLAIM_PAGES).min(room);
        let (mut taken, mut looked_at) = (0, 0);
        while taken < wanted && looked_at < 2 * pages {
            let wanted = (wanted - taken, room - taken);
            let pass = reclaimer.pass(&view, fast, wanted, referenced, |unit| leaving.push(unit));
            taken += pass.taken;
            looked_at += pass.looked_at;
            if !reclaimer.note(now, pages, pass, pass.taken, false) {
                break;
            }
        }
        if taken > 0 {
            let leaving = &self.reclaim.leaving;
            let ns = leaving.iter().map(|unit| self.move_ns(*unit, fast, next)).sum();
            self.schedule(Lane::DEMOTE, Wait::Migrate, ns, Job::Reclaim);
        }
    }

    pub(super) fn finish_reclaim(&mut self) {
        let to = TierId::FAST.slower();
        for unit in std::mem::take(&mut self.reclaim.leaving) {
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
