//! Huge folios are split, their pages spread over both nodes, and made whole again, while the
//! process writes to them.

use crate::held::{Held, Pages, Work};
use crate::kernel::{count, counter, on_node};
use anyhow::{Result, ensure};
use frostline_core::event::MoveOutcome;
use frostline_core::span::Span;
use frostline_core::types::Vpn;
use frostline_linux::Root;
use frostline_linux::moves::migrate::move_to_node;
use frostline_linux::pages::folio::{CollapseOutcome, Folio, Folios, SplitOutcome};
use frostline_linux::pages::pagemap::{Kpageflags, Pagemap};

const MIB: u64 = 16;

pub fn split_and_collapse() -> Result<()> {
    let held = Held::start(Pages::Huge, MIB, Work::Write)?;
    let mut pagemap = Pagemap::open(&held.target)?;
    let flags = Kpageflags::open(&Root::system())?;
    let mut folios = Folios::new(&held.target, &mut pagemap, Some(&flags))?;
    let regions = held.regions();
    for &region in &regions {
        ensure!(folios.of(region)? == Folio::Huge, "{region:?} is not huge");
    }

    let before = counter("thp_split_page")?;
    let outcomes = folios.split(&regions)?;
    let split = outcomes.iter().filter(|&&outcome| outcome == SplitOutcome::Split).count();
    let counted = counter("thp_split_page")? - before;
    ensure!(split == regions.len() && counted >= split as u64, "{outcomes:?}, counted {counted}");
    println!("split {split}");

    // Of the first region every second page, of the second one nearly all.
    let second: Vec<Vpn> = Span::region_of(regions[0]).iter().step_by(2).collect();
    let most: Vec<Vpn> = Span::region_of(regions[1]).iter().skip(64).collect();
    for pages in [&second, &most] {
        let outcomes = move_to_node(&held.target, pages, 1)?;
        ensure!(count(&outcomes, MoveOutcome::Moved) == pages.len(), "{outcomes:?}");
    }
    let slow = on_node(&held, &held.pages(), 1)?;
    ensure!(slow == second.len() + most.len(), "{slow} pages are on node 1");
    println!("{slow} single pages moved");

    let outcomes = folios.collapse(&regions)?;
    let whole = outcomes.iter().filter(|&&outcome| outcome == CollapseOutcome::Collapsed).count();
    ensure!(whole == regions.len(), "{outcomes:?}");
    for &region in &regions {
        ensure!(folios.of(region)? == Folio::Huge, "{region:?} is not huge again");
    }
    let majority: Vec<Vpn> = Span::region_of(regions[1]).iter().collect();
    let there = on_node(&held, &majority, 1)?;
    ensure!(there == majority.len(), "{there} pages are where most of the folio was");
    println!("collapsed {whole}");
    held.end()
}
