//! Newborn memory: how much of it comes, and whether fast memory is worth keeping free for it.

use crate::hotness::bitmap::Bitmap;
use crate::types::*;
use alloc::collections::VecDeque;

/// Samples for which memory is young.
const YOUNG: u64 = 1024;
/// Of what was born while memory is young, the part that room is kept for.
const PART: u64 = 4;
/// Samples over which births, and samples of young memory, are averaged.
const SPAN: f64 = 6400.0;

/// Memory that was touched first a short while ago.
#[derive(Debug, Default)]
pub(super) struct Newborn {
    young: Bitmap,
    /// Runs by the sample at which they were born, the oldest first.
    births: VecDeque<(u64, PageRun)>,
    /// Pages of these.
    young_pages: u64,
    /// Samples of young memory, and pages born, of late.
    samples: f64,
    born: f64,
    /// Samples at the last plan.
    last: u64,
    /// Pages of fast memory that are worth keeping free.
    pub room: u64,
}

impl Newborn {
    /// Memory was touched first.
    pub(super) fn born(&mut self, run: PageRun, now: u64) {
        run.iter().for_each(|page| self.young.insert(page.0));
        self.births.push_back((now, run));
        self.young_pages += u64::from(run.pages);
        self.born += f64::from(run.pages);
    }

    /// A page is sampled.
    #[inline]
    pub(super) fn sample(&mut self, page: PageId) {
        if self.young_pages > 0 && self.young.contains(page.0) {
            self.samples += 1.0;
        }
    }

    /// Finds the pages that are worth keeping free at the next plan, `most` at most: fast memory has to bring
    /// `rent_per_sample` samples a page while memory is young.
    pub(super) fn keep_room(&mut self, now: u64, rent_per_sample: f64, most: u64) {
        while let Some((at, run)) = self.births.front().copied()
            && now - at >= YOUNG
        {
            run.iter().for_each(|page| self.young.remove(page.0));
            self.young_pages -= u64::from(run.pages);
            self.births.pop_front();
        }
        let keep = (1.0 - (now - self.last) as f64 / SPAN).max(0.0);
        self.last = now;
        self.samples *= keep;
        self.born *= keep;
        let pays = self.born > 0.0 && self.samples / self.born >= rent_per_sample * YOUNG as f64;
        self.room = if pays { most.min(self.young_pages / PART) } else { 0 };
    }

    pub(super) fn bytes(&self) -> Bytes {
        self.young.bytes() + Bytes((self.births.capacity() * size_of::<(u64, PageRun)>()) as u64)
    }
}
