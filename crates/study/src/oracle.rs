//! The future, for offline policies.

use super::Input;
use frostline_bound::{BoundModel, EpochCursor, EpochMatrix};
use frostline_core::PageId;
use frostline_core::policy::oracle::{AccessReader, EpochReader, KnownAccess, Oracle, PageSaving};
use frostline_trace::{Batch, TraceError};
use std::sync::{Arc, OnceLock};

/// Tells offline policies what pages save, on the same terms as the bound.
pub struct MatrixOracle {
    /// The trace, page by page.
    pub matrix: Arc<EpochMatrix>,
    /// The machine.
    pub model: BoundModel,
    /// The trace, access by access, where somebody asks for it.
    pub order: Arc<LazyOrder>,
}

/// The pages of all accesses in their order, and where each one's page is accessed next.
#[derive(Default)]
pub struct Order {
    pages: Vec<u32>,
    /// [`NEVER`] where it is not.
    next: Vec<u32>,
}

const NEVER: u32 = u32::MAX;

impl Order {
    fn read(input: &Input) -> Result<Self, TraceError> {
        let (mut source, mut batch, mut pages) = (input.source()?, Batch::new(), Vec::new());
        while source.next_batch(&mut batch)? {
            pages.extend_from_slice(&batch.pages);
        }
        let most = pages.iter().max().map_or(0, |page| *page as usize + 1);
        let (mut after, mut next) = (vec![NEVER; most], vec![NEVER; pages.len()]);
        for (at, &page) in pages.iter().enumerate().rev() {
            next[at] = std::mem::replace(&mut after[page as usize], at as u32);
        }
        Ok(Self { pages, next })
    }
}

/// An [`Order`] that is read when it is asked for the first time.
pub struct LazyOrder {
    input: Arc<Input>,
    order: OnceLock<Arc<Order>>,
}

impl LazyOrder {
    /// Of a trace that has been read already.
    pub fn new(input: Arc<Input>) -> Self {
        Self { input, order: OnceLock::new() }
    }

    /// A trace that cannot be read any more has no accesses; the replay says so, too.
    fn get(&self) -> Arc<Order> {
        let read = || Arc::new(Order::read(&self.input).unwrap_or_default());
        Arc::clone(self.order.get_or_init(read))
    }
}

impl Oracle for MatrixOracle {
    fn totals(&self, sink: &mut dyn FnMut(PageSaving)) {
        let totals = self.matrix.page_totals(&self.model);
        for (page, saving_ns) in (0..).zip(totals).filter(|(_, saving_ns)| *saving_ns > 0.0) {
            sink(PageSaving { page: PageId(page), saving_ns });
        }
    }

    fn epochs(&self) -> EpochReader {
        let (matrix, model) = (Arc::clone(&self.matrix), self.model);
        let mut cursor = EpochCursor::new(Arc::clone(&matrix), &model);
        let mut pages = Vec::new();
        Box::new(move |number, sink| {
            if number < u64::from(cursor.next_number()) {
                cursor = EpochCursor::new(Arc::clone(&matrix), &model);
            }
            while cursor.next_epoch(&mut pages) {
                if u64::from(cursor.next_number()) > number {
                    for (page, saving_ns) in pages.drain(..) {
                        sink(PageSaving { page, saving_ns: saving_ns.max(0.0) });
                    }
                    return true;
                }
            }
            false
        })
    }

    fn accesses(&self) -> AccessReader {
        let (order, mut at) = (self.order.get(), 0);
        Box::new(move || {
            let (page, next) = (*order.pages.get(at)?, order.next[at]);
            at += 1;
            let next = if next == NEVER { u64::MAX } else { u64::from(next) };
            Some(KnownAccess { page: PageId(page), next })
        })
    }

    fn promotion_cost_ns(&self) -> f64 {
        self.model.promotion_cost_ns
    }

    fn demotion_cost_ns(&self) -> f64 {
        self.model.demotion_cost_ns
    }
}
