//! Demotion and promotion.

use crate::held::{Held, Pages, Work};
use crate::kernel::{count, counter, numa_maps, on_node};
use anyhow::{Result, ensure};
use frostline_core::event::MoveOutcome;
use frostline_core::types::Vpn;
use frostline_linux::moves::migrate::move_to_node;
use frostline_linux::pages::folio::{Folio, Folios};
use frostline_linux::pages::pagemap::Pagemap;

const MIB: u64 = 32;

pub fn base() -> Result<()> {
    let held = Held::start(Pages::Base, MIB, Work::Write)?;
    let pages = held.pages();
    let before = counter("pgmigrate_success")?;
    there_and_back(&held, &pages)?;
    let moved = counter("pgmigrate_success")? - before;
    ensure!(moved >= 2 * held.span.pages, "the kernel counted {moved} pages");
    held.end()
}

/// One page of each folio takes all of it along.
pub fn huge() -> Result<()> {
    let held = Held::start(Pages::Huge, MIB, Work::Write)?;
    let mut pagemap = Pagemap::open(&held.target)?;
    let mut folios = Folios::new(&held.target, &mut pagemap, None)?;
    let regions = held.regions();
    let before = counter("thp_migration_success")?;
    there_and_back(&held, &regions)?;
    let moved = counter("thp_migration_success")? - before;
    ensure!(moved >= 2 * regions.len() as u64, "the kernel counted {moved} huge folios");
    for region in regions {
        let folio = folios.of(region)?;
        ensure!(folio == Folio::Huge, "{region:?} is {folio:?} now");
    }
    held.end()
}

fn there_and_back(held: &Held, named: &[Vpn]) -> Result<()> {
    let all = held.pages();
    ensure!(on_node(held, &all, 0)? == all.len(), "memory comes from node 0");
    for node in [1, 0] {
        let outcomes = move_to_node(&held.target, named, node)?;
        let moved = count(&outcomes, MoveOutcome::Moved);
        ensure!(moved == named.len(), "to node {node}: {moved} of {}", named.len());
        ensure!(on_node(held, &all, node)? == all.len(), "not all on node {node}");
        // A thread's stack may lie beside it and be part of the same mapping.
        let seen = numa_maps(held)?;
        let (there, elsewhere) = (seen[node as usize], seen[1 - node as usize]);
        ensure!(there >= held.span.pages && elsewhere < 64, "numa_maps has {seen:?}");
        println!("node {node}: {moved} moved, {} pages there", all.len());
    }
    println!("moved there and back");
    Ok(())
}
