//! A placement that keeps to the capacity, and its value.

use crate::matrix::{EpochMatrix, FREED, code_of, tick_of};
use crate::model::BoundModel;
use crate::walk::Terms;
use frostline_core::types::PageId;

/// A page in fast memory during `[start, end)`.
///
/// Times are ticks of the [`EpochMatrix`]: the page is fast for every access with
/// `start <= tick < end`. It got there by a promotion, or was born there where `start` is its
/// first access; it leaves by a demotion, or for nothing where it is freed or the trace ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Residency {
    /// Which page.
    pub page: PageId,
    /// First tick.
    pub start: u32,
    /// One past the last tick.
    pub end: u32,
}

/// Residencies ascending by page, then start. Two of a page that meet are a demotion and a promotion
/// at once, unless the page is freed and born again there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    residencies: Vec<Residency>,
}

/// What makes a plan impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Residencies that are empty or overlap.
    #[error("page {page}: the residency from tick {start} is empty or overlaps the one before", page = residency.page.0, start = residency.start)]
    Order {
        /// The later one.
        residency: Residency,
    },
    /// The page does not exist all the time.
    #[error("page {page} does not live from tick {start} to tick {end}", page = residency.page.0, start = residency.start, end = residency.end)]
    NotAlive {
        /// The residency.
        residency: Residency,
    },
    /// More pages than fast memory holds.
    #[error("{pages} pages at tick {tick}, and room for {capacity_pages}")]
    OverCapacity {
        /// When, for the first time.
        tick: u32,
        /// How many.
        pages: u64,
        /// How many would fit.
        capacity_pages: u64,
    },
}

impl Plan {
    /// A plan of these residencies, in any order.
    pub fn new(mut residencies: Vec<Residency>) -> Self {
        residencies.sort_unstable();
        Self { residencies }
    }

    /// All residencies, ascending by page, then start.
    pub fn residencies(&self) -> &[Residency] {
        &self.residencies
    }

    /// Checks that the plan is possible, and computes what it saves, net of its moves, in
    /// nanoseconds.
    ///
    /// # Errors
    /// What makes it impossible.
    pub fn check(&self, matrix: &EpochMatrix, model: &BoundModel) -> Result<f64, PlanError> {
        self.check_capacity(model.capacity_pages)?;
        let savings = model.savings(matrix.thinning());
        let mut value_ns = 0.0;
        let mut previous: Option<Residency> = None;
        for &residency in &self.residencies {
            let overlaps =
                previous.is_some_and(|p| p.page == residency.page && p.end > residency.start);
            if overlaps || residency.start >= residency.end {
                return Err(PlanError::Order { residency });
            }
            previous = Some(residency);
            let Some(stay) = Stay::of(matrix, residency, &savings) else {
                return Err(PlanError::NotAlive { residency });
            };
            value_ns += stay.saving_ns;
            if !stay.born {
                value_ns -= model.promotion_cost_ns;
            }
            if !stay.dies {
                value_ns -= model.demotion_cost_ns;
            }
        }
        Ok(value_ns)
    }

    fn check_capacity(&self, capacity_pages: u64) -> Result<(), PlanError> {
        let mut changes: Vec<(u32, i64)> =
            self.residencies.iter().flat_map(|r| [(r.start, 1), (r.end, -1)]).collect();
        // Ends before starts at the same tick.
        changes.sort_unstable();
        let mut pages = 0;
        for (tick, change) in changes {
            pages += change;
            if pages > 0 && pages as u64 > capacity_pages {
                return Err(PlanError::OverCapacity { tick, pages: pages as u64, capacity_pages });
            }
        }
        Ok(())
    }
}

/// A residency looked at against its page's life.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stay {
    pub(crate) saving_ns: f64,
    /// It starts at the page's birth.
    pub(crate) born: bool,
    /// It ends at the page's death, or at the end of the trace.
    pub(crate) dies: bool,
}

impl Stay {
    /// `None` where the page is not alive all the time.
    pub(crate) fn of(
        matrix: &EpochMatrix,
        residency: Residency,
        savings: &[f64; 4],
    ) -> Option<Self> {
        if residency.page.0 >= matrix.pages() {
            return None;
        }
        let entries = matrix.page(residency.page.0);
        let from = entries.partition_point(|&e| tick_of(e) < residency.start);
        // Where a tick holds several records, a death and the next birth may share one.
        let freed = |e: u32| code_of(e) == usize::from(FREED);
        let from = from + entries[from..].iter().take_while(|&&e| freed(e)).count();
        let mut saving_ns = 0.0;
        let mut death = matrix.ticks();
        for &entry in &entries[from..] {
            if freed(entry) {
                // Shared ticks: the page has its room to the tick's end.
                death = tick_of(entry) + 1 - matrix.access_ticks();
                break;
            }
            if tick_of(entry) < residency.end {
                saving_ns += savings[code_of(entry)];
            }
        }
        let born_before = entries[..from].last().is_some_and(|&e| !freed(e));
        let birth = match entries.get(from) {
            _ if born_before => None,
            Some(&first) => Some(tick_of(first)),
            None => return None,
        };
        if birth.is_some_and(|birth| residency.start < birth) || residency.end > death {
            return None;
        }
        Some(Self { saving_ns, born: birth == Some(residency.start), dies: residency.end == death })
    }

    /// Net of the moves that it needs.
    pub(crate) fn value_ns(&self, terms: &Terms<'_>) -> f64 {
        let promotion = if self.born { 0.0 } else { terms.promotion_cost_ns };
        let demotion = if self.dies { 0.0 } else { terms.demotion_cost_ns };
        self.saving_ns - promotion - demotion
    }
}
