//! Time of a refault, measured on copies of a program's pages: memory of our own is paged out and touched, and the program
//! is left alone.

use crate::drawn::There;
use frostline_core::event::MoveOutcome;
use frostline_core::span::Span;
use frostline_core::types::{Nanos, PAGE_BYTES, Vpn};
use frostline_linux::moves::advise::page_out_verified;
use frostline_linux::pages::contents;
use frostline_linux::pages::pagemap::Pagemap;
use frostline_linux::process::clock;
use frostline_linux::{LinuxError, Root, Target};
use memmap2::{Advice, MmapMut};

/// Pages that are copied.
const PAGES: u64 = 1024;
/// Fewer say nothing.
const LEAST: usize = 128;
/// Pages that are timed together.
const TOGETHER: usize = 32;
const PAGE: usize = PAGE_BYTES as usize;

/// What the refault of a page of `target` takes here, from the swap that the kernel takes first: the median of means over
/// a few pages, since some are interrupted by others that run. `None` where too few pages can be copied or paged out.
///
/// # Errors
/// Where the process has ended or rights are missing.
pub fn measure(root: &Root, target: &Target, seed: u64) -> Result<Option<Nanos>, LinuxError> {
    let there = There::of(target, &mut Pagemap::open(target)?)?;
    let map = |error: std::io::Error| LinuxError::Unsupported {
        what: format!("no memory for copies: {error}"),
        hint: "free some".into(),
    };
    let mut memory = MmapMut::map_anon((PAGES * PAGE_BYTES) as usize).map_err(map)?;
    memory.advise(Advice::NoHugePage).map_err(map)?;
    let in_memory = there.draw(PAGES, seed).filter(|(_, swapped)| !swapped);
    let mut copied = 0;
    for (page, _) in in_memory {
        let at = copied * PAGE;
        let Some(Ok(bytes)) = memory.get_mut(at..at + PAGE).map(<&mut [u8; PAGE]>::try_from) else {
            break;
        };
        copied += usize::from(contents::read(target, page, bytes));
    }
    let own = Target::open(root, std::process::id())?;
    let first = Vpn(memory.as_ptr().addr() as u64 / PAGE_BYTES);
    let span = Span::new(first, copied as u64);
    let outcomes = page_out_verified(&own, &mut Pagemap::open(&own)?, &[span])?;
    let moved = outcomes.iter().filter(|(_, outcome)| *outcome == MoveOutcome::Moved);
    let out: Vec<usize> =
        moved.flat_map(|(span, _)| span.iter()).map(|page| (page.0 - first.0) as usize).collect();
    if out.len() < LEAST {
        return Ok(None);
    }
    let time = |pages: &[usize]| {
        let began = clock::monotonic();
        for page in pages {
            std::hint::black_box(memory[page * PAGE]);
        }
        clock::monotonic().saturating_sub(began).0 / TOGETHER as u64
    };
    let mut means: Vec<u64> = out.chunks_exact(TOGETHER).map(time).collect();
    means.sort_unstable();
    Ok(means.get(means.len() / 2).map(|mean| Nanos(*mean)))
}
