//! The future, for offline policies.

use frostline_bound::{BoundModel, EpochMatrix};
use frostline_core::policy::offline::{Oracle, PageSaving};
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

    fn epoch(&self, number: u64, sink: &mut dyn FnMut(PageSaving)) {
        let Ok(number) = u32::try_from(number) else { return };
        if number < self.matrix.epochs() {
            for (page, saving_ns) in self.matrix.epoch_pages(number, &self.model) {
                sink(PageSaving { page, saving_ns: saving_ns.max(0.0) });
            }
        }
    }

    fn promotion_cost_ns(&self) -> f64 {
        self.model.promotion_cost_ns
    }

    fn demotion_cost_ns(&self) -> f64 {
        self.model.demotion_cost_ns
    }
}
