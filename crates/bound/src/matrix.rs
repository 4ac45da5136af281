//! A trace, page by page.

use crate::builder::Builder;
use crate::model::{BoundError, BoundModel};
use frostline_core::types::PageId;
use frostline_trace::TraceSource;
use std::ops::{Deref, Range};

/// Ticks that an entry can name.
pub(crate) const MAX_TICKS: u32 = (1 << 30) - 1;
/// Entry code: the page's life ends before the access of this tick.
pub(crate) const FREED: u8 = 3;

const CODE_BITS: u32 = 2;
const TARGET_EPOCHS: u32 = 256;

/// An entry: time in ticks, and what happened to the page.
pub(crate) const fn entry(tick: u32, code: u8) -> u32 {
    tick << CODE_BITS | code as u32
}

/// Tick of an entry.
#[inline]
pub(crate) const fn tick_of(entry: u32) -> u32 {
    entry >> CODE_BITS
}

/// Code of an entry: 0 read, 1 store, 2 write-back, [`FREED`].
#[inline]
pub(crate) const fn code_of(entry: u32) -> usize {
    (entry & ((1 << CODE_BITS) - 1)) as usize
}

/// Into how many stretches of equal length the trace is divided. Prices are constant inside one.
///
/// Lengths are powers of two. More epochs make the bound tighter where demand for fast memory
/// changes quickly, and cost iterations; no choice makes it invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochChoice {
    /// At least this many and fewer than twice as many; one per record where there are fewer
    /// records. 0 counts as 1.
    About(u32),
    /// This many records per epoch, rounded down to a power of two. 0 counts as 1.
    Records(u64),
}

impl Default for EpochChoice {
    /// About 256: fine enough to follow the phases of a program, and few enough that prices stay
    /// in the first-level cache.
    fn default() -> Self {
        Self::About(TARGET_EPOCHS)
    }
}

/// Every access of a trace, sorted by page and then by time: 4 bytes each.
///
/// Built in one pass; serves any number of models and capacities. While it is built it takes 9
/// bytes per record, afterwards 4, and 8 bytes per page id throughout.
///
/// Time runs in *ticks*: one per record, or several records per tick where a trace has more than
/// 2^30 - 2 of them.
#[derive(Clone, Debug)]
pub struct EpochMatrix {
    /// By page: where its entries start; one more at the end.
    offsets: Vec<u64>,
    entries: Vec<u32>,
    records: u64,
    records_per_tick: u64,
    ticks: u32,
    epoch_shift: u32,
    thinning: u32,
    touched_pages: u64,
    peak_resident_pages: u64,
}

impl EpochMatrix {
    /// Reads a trace to its end.
    ///
    /// # Errors
    /// [`BoundError::Trace`] where the trace cannot be read.
    pub fn from_source(
        source: &mut dyn TraceSource,
        epochs: EpochChoice,
    ) -> Result<Self, BoundError> {
        Self::with_ticks(source, epochs, MAX_TICKS)
    }

    /// As [`Self::from_source`], with at most so many ticks (1 to 2^30 - 1): several records share
    /// one where there are more, as in very long traces.
    ///
    /// # Errors
    /// As [`Self::from_source`].
    pub fn with_ticks(
        source: &mut dyn TraceSource,
        epochs: EpochChoice,
        max_ticks: u32,
    ) -> Result<Self, BoundError> {
        Ok(Builder::read(source, epochs, max_ticks.clamp(1, MAX_TICKS))?)
    }

    pub(crate) fn new(
        offsets: Vec<u64>,
        entries: Vec<u32>,
        records: u64,
        records_per_tick: u64,
        epochs: EpochChoice,
        thinning: u32,
        peak_resident_pages: u64,
    ) -> Self {
        let touched_pages = offsets.windows(2).filter(|pair| pair[0] < pair[1]).count() as u64;
        let matrix = Self {
            offsets,
            entries,
            records,
            records_per_tick,
            ticks: records.div_ceil(records_per_tick) as u32,
            epoch_shift: 0,
            thinning,
            touched_pages,
            peak_resident_pages,
        };
        matrix.with_epochs(epochs)
    }

    /// The same trace divided otherwise; costs nothing.
    pub fn with_epochs(mut self, epochs: EpochChoice) -> Self {
        let ticks_per_epoch = match epochs {
            EpochChoice::About(epochs) => u64::from(self.ticks / epochs.max(1)),
            EpochChoice::Records(records) => records / self.records_per_tick,
        };
        self.epoch_shift = ticks_per_epoch.clamp(1, u64::from(MAX_TICKS)).ilog2();
        self
    }

    /// Accesses in the trace; each stands for [`Self::thinning`] of the program's.
    pub const fn records(&self) -> u64 {
        self.records
    }
    /// Accesses of the program that one record stands for.
    pub const fn thinning(&self) -> u32 {
        self.thinning
    }
    /// All page ids are below this.
    pub fn pages(&self) -> u32 {
        (self.offsets.len() - 1) as u32
    }
    /// Page ids accessed at least once.
    pub const fn touched_pages(&self) -> u64 {
        self.touched_pages
    }
    /// Largest number of pages accessed and not yet freed at the same time: with so much fast
    /// memory nothing ever has to be slow.
    pub const fn peak_resident_pages(&self) -> u64 {
        self.peak_resident_pages
    }
    /// Epochs in the trace; 0 where it is empty.
    pub const fn epochs(&self) -> u32 {
        self.ticks.div_ceil(1 << self.epoch_shift)
    }
    /// Positions of the records of an epoch, `[start, end)` from 0; empty past the last epoch.
    pub fn epoch_records(&self, epoch: u32) -> Range<u64> {
        let ticks = self.epoch_ticks(epoch);
        let record = |tick: u32| (u64::from(tick) * self.records_per_tick).min(self.records);
        record(ticks.start)..record(ticks.end)
    }

    /// What each page would save in fast memory all its life, in nanoseconds, by page id.
    pub fn page_totals(&self, model: &BoundModel) -> Vec<f64> {
        let savings = model.savings(self.thinning);
        (0..self.pages()).map(|page| total(self.page(page), &savings)).collect()
    }

    /// What fast memory without limit would save, in nanoseconds.
    pub fn all_fast_saving_ns(&self, model: &BoundModel) -> f64 {
        total(&self.entries, &model.savings(self.thinning))
    }

    /// Pages accessed in an epoch and what they would save in it in fast memory, in nanoseconds;
    /// ascending by page. To visit all epochs in order, [`Self::cursor`] is faster.
    pub fn epoch_pages(&self, epoch: u32, model: &BoundModel) -> Vec<(PageId, f64)> {
        let savings = model.savings(self.thinning);
        let ticks = self.epoch_ticks(epoch);
        let mut pages = Vec::new();
        for page in 0..self.pages() {
            let entries = self.page(page);
            let from = entries.partition_point(|&e| tick_of(e) < ticks.start);
            let to = entries.partition_point(|&e| tick_of(e) < ticks.end);
            pages.extend(in_epoch(page, &entries[from..to], &savings));
        }
        pages
    }

    /// Visits the epochs in order, for those who need the pages of each.
    pub fn cursor(&self, model: &BoundModel) -> EpochCursor<&Self> {
        EpochCursor::new(self, model)
    }

    pub(crate) const fn ticks(&self) -> u32 {
        self.ticks
    }
    pub(crate) const fn epoch_shift(&self) -> u32 {
        self.epoch_shift
    }
    /// Ticks during which an access itself occupies fast memory: 1 where ticks are single records,
    /// 0 where a tick's records cannot be told apart (prices then apply between ticks).
    pub(crate) const fn access_ticks(&self) -> u32 {
        (self.records_per_tick == 1) as u32
    }
    /// Entries of a page, ascending in time.
    #[inline]
    pub(crate) fn page(&self, page: u32) -> &[u32] {
        let page = page as usize;
        &self.entries[self.offsets[page] as usize..self.offsets[page + 1] as usize]
    }
    /// Page ranges that hold about equally many entries; a function of the trace alone, so that
    /// sums over them do not depend on the number of threads.
    pub(crate) fn page_ranges(&self, parts: u64) -> Vec<Range<u32>> {
        let mut ranges = Vec::with_capacity(parts as usize);
        let mut start = 0;
        for part in 1..=parts {
            let bound = u128::from(self.entries.len() as u64) * u128::from(part);
            let bound = (bound / u128::from(parts)) as u64;
            let end = self.offsets.partition_point(|&offset| offset < bound) as u32;
            let end = if part == parts { self.pages() } else { end.min(self.pages()) };
            if end > start {
                ranges.push(start..end);
                start = end;
            }
        }
        ranges
    }

    fn epoch_ticks(&self, epoch: u32) -> Range<u32> {
        let start = |epoch: u64| (epoch << self.epoch_shift).min(u64::from(self.ticks)) as u32;
        start(u64::from(epoch))..start(u64::from(epoch) + 1)
    }
}

/// Goes through the epochs of an [`EpochMatrix`] from the first to the last.
#[derive(Clone, Debug)]
pub struct EpochCursor<M> {
    matrix: M,
    savings: [f64; 4],
    next: Vec<u64>,
    epoch: u32,
}

impl<M: Deref<Target = EpochMatrix>> EpochCursor<M> {
    /// Before the first epoch. Takes 8 bytes per page id.
    pub fn new(matrix: M, model: &BoundModel) -> Self {
        let savings = model.savings(matrix.thinning);
        let next = matrix.offsets[..matrix.offsets.len() - 1].to_vec();
        Self { matrix, savings, next, epoch: 0 }
    }

    /// Number of the epoch that comes next.
    pub const fn next_number(&self) -> u32 {
        self.epoch
    }

    /// Replaces `pages` by the pages accessed in the next epoch and what they would save in it in
    /// fast memory, in nanoseconds; ascending by page. False after the last epoch.
    pub fn next_epoch(&mut self, pages: &mut Vec<(PageId, f64)>) -> bool {
        pages.clear();
        if self.epoch >= self.matrix.epochs() {
            return false;
        }
        let end = self.matrix.epoch_ticks(self.epoch).end;
        let matrix = &*self.matrix;
        for (page, next) in self.next.iter_mut().enumerate() {
            let stop = matrix.offsets[page + 1];
            let rest = &matrix.entries[*next as usize..stop as usize];
            let count = rest.iter().take_while(|&&e| tick_of(e) < end).count();
            pages.extend(in_epoch(page as u32, &rest[..count], &self.savings));
            *next += count as u64;
        }
        self.epoch += 1;
        true
    }
}

fn in_epoch(page: u32, entries: &[u32], savings: &[f64; 4]) -> Option<(PageId, f64)> {
    let accessed = entries.iter().any(|&e| code_of(e) != usize::from(FREED));
    accessed.then(|| (PageId(page), total(entries, savings)))
}

/// What a page saves over some of its entries, in nanoseconds.
pub(crate) fn total(entries: &[u32], savings: &[f64; 4]) -> f64 {
    let mut counts = [0u64; 4];
    for &entry in entries {
        counts[code_of(entry)] += 1;
    }
    counts.iter().zip(savings).map(|(&count, saving)| count as f64 * saving).sum()
}
