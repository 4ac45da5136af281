//! One of DAMON's threads: it watches the frames of one tier, and moves what its scheme names.

use super::frames::{Frames, Memory};
use super::quota::Quota;
use super::regions::{Area, Areas};
use crate::action::{Lane, Plan};
use crate::event::AccessBits;
use crate::hotness::bitmap::Bitmap;
use crate::placement::View;
use crate::policy::kernel::{look, scan_units};
use crate::rng::Rng;
use crate::types::*;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// What a thread moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    /// Accessed frames of a slow tier.
    Promote,
    /// Frames of the fastest tier in whose area no access was found.
    Demote,
}

/// A frame that stands for its area.
#[derive(Clone, Copy, Debug)]
struct Pick {
    /// First page of the folio, or the page.
    unit: PageId,
    frame: u32,
    answered: bool,
}

/// One thread.
#[derive(Debug)]
pub(super) struct Worker {
    scheme: Scheme,
    areas: Areas,
    pub(super) quota: Quota,
    /// Frames whose bits have been cleared, by unit.
    cleared: Vec<Pick>,
    /// Frames whose bits are being read, by unit.
    read: Vec<Pick>,
    /// Units of areas that the scheme applies to, whose own bits have still to be read.
    asked: Bitmap,
    /// Units to be moved.
    chosen: Vec<PageId>,
    pub(super) looks: u64,
    pub(super) applied: u64,
    pub(super) filtered: u64,
}

impl Worker {
    pub(super) fn new(scheme: Scheme, areas: Areas, quota: Quota) -> Self {
        Self {
            scheme,
            areas,
            quota,
            cleared: Vec::new(),
            read: Vec::new(),
            asked: Bitmap::default(),
            chosen: Vec::new(),
            looks: 0,
            applied: 0,
            filtered: 0,
        }
    }

    fn frames<'m>(&self, memory: &'m Memory) -> Option<&'m Frames> {
        memory.tier(match self.scheme {
            Scheme::Promote => TierId::FAST.slower(),
            Scheme::Demote => TierId::FAST,
        })
    }

    pub(super) fn areas(&self) -> usize {
        self.areas.iter().len()
    }

    /// Has the bits of the last sample read, and those of the next one cleared.
    pub(super) fn sample(
        &mut self,
        memory: &Memory,
        view: &View<'_>,
        rng: &mut Rng,
        plan: &mut Plan,
    ) {
        let Some(frames) = self.frames(memory) else { return };
        self.areas.cover(frames.len());
        self.read = core::mem::take(&mut self.cleared);
        look_at(&self.read, false, view, plan);
        let picks = self.areas.iter().filter_map(|area| {
            let frame = area.frames.start + rng.below(u64::from(area.len())) as u32;
            let unit = view.unit(frames.page(frame)?).start;
            Some(Pick { unit, frame, answered: false })
        });
        self.cleared.extend(picks);
        self.cleared.sort_unstable_by_key(|pick| (pick.unit, pick.frame));
        self.looks += self.cleared.len() as u64;
        look_at(&self.cleared, true, view, plan);
    }

    /// Takes in what was read.
    pub(super) fn answer(&mut self, bits: &AccessBits) {
        for (unit, accessed) in bits.units() {
            let first = self.read.partition_point(|pick| pick.unit < unit);
            let picks = self.read[first..].iter_mut().take_while(|pick| pick.unit == unit);
            for pick in picks.filter(|pick| !pick.answered) {
                pick.answered = true;
                if accessed {
                    self.areas.accessed(pick.frame);
                }
            }
            if self.asked.contains(unit.0) {
                self.asked.remove(unit.0);
                if accessed == (self.scheme == Scheme::Promote) {
                    self.chosen.push(unit);
                } else {
                    self.filtered += 1;
                }
            }
        }
    }

    /// An aggregation of so many samples is over.
    pub(super) fn aggregate(&mut self, samples: u32) {
        self.areas.merge(samples);
    }

    /// The next one begins.
    pub(super) fn begin(&mut self, rng: &mut Rng) {
        self.areas.reset();
        self.areas.split(rng);
    }

    /// Applies the scheme to what comes first by `score`, as far as the quota goes.
    pub(super) fn apply(
        &mut self,
        score: impl Fn(&Area) -> u64,
        memory: &Memory,
        view: &View<'_>,
        plan: &mut Plan,
    ) {
        let Some(frames) = self.frames(memory) else { return };
        let fits = |area: &&Area| (area.accesses > 0) == (self.scheme == Scheme::Promote);
        let mut areas: Vec<(u64, &Area)> =
            self.areas.iter().filter(fits).map(|area| (score(area), area)).collect();
        areas.sort_by_key(|(score, _)| Reverse(*score));
        let mut units: Vec<PageId> = Vec::new();
        for (_, area) in areas {
            let bytes = self.quota.take(PageCount(u64::from(area.len())).bytes().0);
            let end = area.frames.start + Bytes(bytes).pages().0 as u32;
            if bytes == 0 {
                break;
            }
            self.applied += 1;
            let pages = (area.frames.start..end).filter_map(|frame| frames.page(frame));
            units.extend(pages.map(|page| view.unit(page).start));
        }
        units.sort_unstable();
        units.dedup();
        units.retain(|unit| !self.asked.contains(unit.0));
        units.iter().for_each(|unit| self.asked.insert(unit.0));
        scan_units(units.iter().map(|unit| view.unit(*unit)), Lane::SCAN, plan);
    }

    /// The units to be moved, in order.
    pub(super) fn take_chosen(&mut self) -> Vec<PageId> {
        let mut chosen = core::mem::take(&mut self.chosen);
        chosen.sort_unstable();
        chosen.dedup();
        chosen
    }

    pub(super) fn metadata_bytes(&self) -> usize {
        let picks = self.cleared.capacity() + self.read.capacity();
        self.areas.metadata_bytes()
            + picks * size_of::<Pick>()
            + self.asked.bytes().0 as usize
            + self.chosen.capacity() * 4
    }
}

/// Reads the bits of what was picked, of each folio once.
fn look_at(picks: &[Pick], clear: bool, view: &View<'_>, plan: &mut Plan) {
    for same in picks.chunk_by(|a, b| a.unit == b.unit) {
        look(view.unit(same[0].unit), clear, plan);
    }
}
