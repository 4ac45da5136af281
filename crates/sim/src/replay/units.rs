//! Units of memory that move as one: base pages and folios.

use frostline_core::Engine;
use frostline_core::types::*;

/// The page, or the whole folio that holds it.
pub(super) fn unit(engine: &Engine, page: PageId) -> PageRun {
    if engine.view().state(page).is_huge() { page.region().run() } else { PageRun::single(page) }
}

/// Base pages and folios of a run, in order; a folio cut by the run's ends counts as pages.
pub(super) fn units(engine: &Engine, run: PageRun) -> Vec<PageRun> {
    let mut units = Vec::new();
    let mut next = run.start.0;
    while next < run.end() {
        let unit = unit(engine, PageId(next));
        let unit = if unit.intersect(run) == unit { unit } else { PageRun::single(PageId(next)) };
        next = unit.end();
        units.push(unit);
    }
    units
}

/// Resident pages of a run inside one region, and whether they belong to a folio.
pub(super) fn mapped(engine: &Engine, part: PageRun) -> (u64, bool) {
    let view = engine.view();
    let resident = part.iter().filter(|p| view.state(*p).is_resident()).count() as u64;
    (resident, view.state(part.start).is_huge())
}

/// The parts of a run that lie in different regions.
pub(super) fn regions(run: PageRun) -> impl Iterator<Item = PageRun> {
    let last = if run.pages == 0 { 0 } else { PageId(run.end() - 1).region().0 + 1 };
    (run.start.region().0..last).map(move |r| run.intersect(Region(r).run()))
}
