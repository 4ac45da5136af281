//! The future, for offline policies.

use frostline_bound::{BoundModel, EpochCursor, EpochMatrix};
use frostline_core::policy::offline::{EpochReader, Oracle, PageSaving};
use std::sync::Arc;

/// Tells offline policies what pages save, on the same terms as the bound.
pub struct MatrixOracle {
    /// The trace, page by page.
    pub matrix: Arc<EpochMatrix>,
    /// The machine.
    pub model: BoundModel,
}

impl Oracle for MatrixOracle {
    fn totals(&self, sink: &mut dyn FnMut(PageSaving)) {
        let totals = self.matrix.page_totals(&self.model);
        for (page, saving_ns) in (0..).zip(totals).filter(|(_, saving_ns)| *saving_ns > 0.0) {
            sink(PageSaving { page: frostline_core::PageId(page), saving_ns });
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
                    return;
                }
            }
        })
    }

    fn promotion_cost_ns(&self) -> f64 {
        self.model.promotion_cost_ns
    }

    fn demotion_cost_ns(&self) -> f64 {
        self.model.demotion_cost_ns
    }
}
