//! Dense numbers in the place of sparse ones, so that tables by number stay in proportion to the trace.
//!
//! Pages, processes, threads and files of a trace have numbers of 32 bits, and whoever reads it keeps tables
//! by them. Numbers that a recorder gives are dense. Those of other files need not be: [`Sheet`] gives dense ones
//! to the pages that are accessed, in the same order, and [`Names`] to everything else.

mod names;
mod sheet;
mod survey;
#[cfg(test)]
mod tests;

use names::{FREE_NAMES, Names};
pub use sheet::Sheet;
pub(crate) use survey::{Survey, records_hold};

use crate::batch::Batch;
use crate::event::TimedEvent;
use frostline_core::limit::BYTES_PER_PAGE;
use frostline_core::{Bytes, LimitError, PageId};
use std::sync::Arc;

/// What a reader needs to hand out dense numbers.
#[derive(Debug)]
pub(crate) struct Numbering {
    sheet: Arc<Sheet>,
    /// Page ids below this are their own.
    plain: u64,
    names: Names,
}

impl Numbering {
    pub(crate) fn new(sheet: Arc<Sheet>) -> Self {
        Self { plain: sheet.plain(), sheet, names: Names::default() }
    }

    pub(crate) fn sheet(&self) -> &Arc<Sheet> {
        &self.sheet
    }

    /// The event with dense numbers; `None` where it concerns no page that is accessed.
    pub(crate) fn event(&mut self, event: TimedEvent) -> Option<TimedEvent> {
        let (clock, mut event) = (event.clock, event.event);
        self.names.event(&mut event);
        self.sheet.event(event).map(|event| TimedEvent { clock, event })
    }

    /// Whether pages or streams up to these have to be looked at.
    #[inline]
    pub(crate) fn concerns(&self, (page, stream): (u64, u64)) -> bool {
        page >= self.plain || stream >= FREE_NAMES.into()
    }

    /// Gives the accesses of a batch their dense numbers.
    #[cold]
    pub(crate) fn renumber(&mut self, batch: &mut Batch) -> Result<(), LimitError> {
        batch.streams.renumber(|stream| self.names.stream(stream));
        for page in &mut batch.pages {
            match self.sheet.page(PageId(*page)) {
                Some(PageId(dense)) => *page = dense,
                None => {
                    return Err(LimitError {
                        what: format!("page {page}"),
                        wanted: Bytes((u64::from(*page) + 1) * BYTES_PER_PAGE),
                        allowed: Bytes(self.plain * BYTES_PER_PAGE),
                    });
                }
            }
        }
        Ok(())
    }
}
