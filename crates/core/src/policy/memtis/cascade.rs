//! More than two tiers: what a tier between others passes on, so that there is room in it for what
//! comes from above.
//!
//! The thresholds of such a tier are those of Algorithm 1 for all tiers down to it together: what
//! is less hot than what they can hold belongs below.

use super::lists::{DemotionClock, Demotions};
use super::tracker::Tracker;
use crate::action::Plan;
use crate::hotness::histogram::BINS;
use crate::hotness::threshold::Thresholds;
use crate::placement::View;
use crate::types::*;
use alloc::vec::Vec;

/// Largest part of a tier that is made free in advance.
const UNMET_PART: u64 = 16;

/// One tier between the fastest and the slowest.
#[derive(Clone, Debug)]
struct Middle {
    demotions: Demotions,
    /// Hotness below which its pages belong below it.
    limit: u32,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Cascade {
    /// Tiers 1, 2, ... up to the last but one.
    tiers: Vec<Middle>,
}

impl Cascade {
    /// Hotness has changed.
    pub(super) fn adapt(&mut self, tracker: &Tracker, view: &View<'_>) {
        let middle = (1..view.tiers() - 1).map(|index| TierId(index as u8));
        let mut room = view.limits(TierId::FAST).capacity;
        for (index, tier) in middle.enumerate() {
            room = room.saturating_add(view.limits(tier).capacity);
            if index == self.tiers.len() {
                let clock = DemotionClock::of(tier);
                let demotions = Demotions { clock, ..Demotions::default() };
                self.tiers.push(Middle { demotions, limit: 0 });
            }
            let hot = Thresholds::adapt(&tracker.pages(), room, 1.0).hot;
            let bin = usize::try_from(hot).unwrap_or(0).min(BINS - 1);
            self.tiers[index].limit = tracker.binning().floor(bin);
        }
    }

    /// Everything may hold victims again.
    pub(super) fn rearm(&mut self, regions: u32) {
        self.tiers.iter_mut().for_each(|middle| middle.demotions.clock.rearm(regions));
    }

    /// Proposes demotions so that in each of these tiers the share `keep` is free once `coming`
    /// pages have come from above, and some more where `unmet` pages found no room; at most
    /// `affordable` pages in all. Gives how many.
    #[expect(clippy::too_many_arguments, reason = "one step of `decide`, split off for its state")]
    pub(super) fn demote(
        &mut self,
        coming: u64,
        unmet: u64,
        keep: f64,
        affordable: PageCount,
        tracker: &Tracker,
        view: &View<'_>,
        plan: &mut Plan,
    ) -> u64 {
        let (mut coming, mut unmet, mut left) = (coming, unmet, affordable.0);
        for (index, middle) in self.tiers.iter_mut().enumerate() {
            let tier = TierId(index as u8 + 1);
            let limits = view.limits(tier);
            let kept = ((limits.capacity.0 as f64 * keep) as u64).max(limits.keep_free.0);
            let kept = kept.max(unmet.min(limits.capacity.0 / UNMET_PART));
            let below = view.limits(tier.slower()).keep_free;
            let below = view.free(tier.slower()).saturating_sub(below).0;
            // What the tier is over by is not free either.
            let wanted = view.over(tier).0 + (coming + kept).saturating_sub(view.free(tier).0);
            let wanted = wanted.saturating_sub(middle.demotions.leaving.pages(tier, view));
            let proposed = plan.len();
            let need = wanted.min(below).min(left);
            let limit = middle.limit;
            let pages = match need {
                0 => 0,
                _ => middle.demotions.clock.demote(need, (limit, limit), tracker, view, plan).0,
            };
            middle.demotions.leaving.add(plan, proposed);
            left = left.saturating_sub(pages);
            (coming, unmet) = (pages, wanted.saturating_sub(pages));
        }
        affordable.0 - left
    }
}
