//! Units of memory that move together, in a run.

use crate::placement::View;
use crate::types::*;

/// Resident pages and folios of a run, those that lie in it as a whole.
pub(super) fn units_in(run: PageRun, view: &View<'_>) -> impl Iterator<Item = PageRun> {
    let mut next = run.start.0;
    let end = run.end().min(view.pages());
    core::iter::from_fn(move || {
        while next < end {
            let unit = view.unit(PageId(next));
            next = unit.end();
            if view.state(unit.start).is_resident() && run.intersect(unit) == unit {
                return Some(unit);
            }
        }
        None
    })
}
