//! Costs of the kernel's work in this machine: first touches, and moves between nodes as
//! frostline asks for them.

use anyhow::{Context, ensure};
use frostline_core::event::MoveOutcome;
use frostline_core::rng::Rng;
use frostline_core::types::{HUGE_PAGES, PAGE_BYTES, Vpn};
use frostline_linux::moves::migrate::{NodeStatus, move_to_node, nodes_of};
use frostline_linux::{Root, Target};
use memmap2::MmapMut;
use std::time::Instant;

/// Pages that frostline moves with one call.
const CALL_PAGES: usize = 256;

#[derive(clap::Args)]
pub struct Options {
    /// Memory to do it with, in MiB
    #[arg(long, default_value_t = 16)]
    mib: usize,
}

/// Prints a line for each cost.
pub fn run(root: &Root, options: &Options) -> anyhow::Result<()> {
    let target = Target::open(root, std::process::id())?;
    let mut memory = MmapMut::map_anon(options.mib << 20)?;
    memory.advise(memmap2::Advice::NoHugePage)?;
    let page_bytes = PAGE_BYTES as usize;
    let pages = memory.len() / page_bytes;
    let started = Instant::now();
    memory.chunks_mut(page_bytes).for_each(|page| page[0] = 1);
    print("fault", started, pages);
    // Hot pages lie anywhere, and are moved in the order of their addresses.
    let first = memory.as_ptr().addr() as u64 / PAGE_BYTES;
    let mut order: Vec<Vpn> = (first..first + pages as u64).map(Vpn).collect();
    Rng::new(1).shuffle(&mut order);
    order.chunks_mut(CALL_PAGES).for_each(<[Vpn]>::sort_unstable);
    for (name, node) in [("demotion", 1), ("promotion", 0)] {
        let started = Instant::now();
        for call in order.chunks(CALL_PAGES) {
            move_all(&target, call, node)?;
        }
        print(name, started, pages);
    }
    let started = Instant::now();
    let found = nodes_of(&target, &order)?;
    ensure!(found.iter().all(|node| *node == NodeStatus::Node(0)), "a page is elsewhere");
    print("lookup", started, pages);
    let started = Instant::now();
    for page in &order[..CALL_PAGES.min(pages)] {
        move_all(&target, &[*page], 1)?;
    }
    print("single", started, CALL_PAGES.min(pages));
    huge(&target, options.mib)
}

/// The same with huge folios, ns for each of them.
fn huge(target: &Target, mib: usize) -> anyhow::Result<()> {
    let folio_bytes = PAGE_BYTES as usize * HUGE_PAGES as usize;
    let folios = (mib << 20) / folio_bytes;
    let mut memory = MmapMut::map_anon((folios + 1) * folio_bytes)?;
    memory.advise(memmap2::Advice::HugePage)?;
    let skipped = memory.as_ptr().addr().next_multiple_of(folio_bytes) - memory.as_ptr().addr();
    let memory = &mut memory[skipped..skipped + folios * folio_bytes];
    let started = Instant::now();
    memory.chunks_mut(folio_bytes).for_each(|folio| folio[0] = 1);
    print("huge fault", started, folios);
    let first = memory.as_ptr().addr() as u64 / PAGE_BYTES;
    let heads = (0..folios as u64).map(|folio| Vpn(first + folio * u64::from(HUGE_PAGES)));
    let heads: Vec<Vpn> = heads.collect();
    for (name, node) in [("huge demotion", 1), ("huge promotion", 0)] {
        let started = Instant::now();
        move_all(target, &heads, node)?;
        print(name, started, folios);
    }
    Ok(())
}

fn move_all(target: &Target, pages: &[Vpn], node: u32) -> anyhow::Result<()> {
    let outcomes = move_to_node(target, pages, node).context("moving")?;
    ensure!(outcomes.iter().all(|outcome| *outcome == MoveOutcome::Moved), "a page stayed");
    Ok(())
}

fn print(name: &str, started: Instant, pages: usize) {
    println!("{name} {:.0} ns each", started.elapsed().as_nanos() as f64 / pages as f64);
}
