//! Advice about the memory of other processes, and its verified effect.
//!
//! Sources: process_madvise(2), process_vm_readv(2), `mm/madvise.c` in the kernel.

use crate::pages::pagemap::{Categories, PageEntry, Pagemap};
use crate::process::Target;
use crate::sys::memory::{self, AddressRange, MOST_RANGES};
use crate::{LinuxError, swap};
use frostline_core::event::MoveOutcome;
use frostline_core::span::{REGION_PAGES, Span, push_run};
use frostline_core::types::{Bytes, PAGE_BYTES};

pub use crate::sys::memory::Advice;

/// What goes into one call. The kernel holds the lock of the target's address space during a call
/// (Linux 6.13), so that the target's next `mmap` waits: a call shall last a few milliseconds.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Most pages; a whole number of regions, below the 2 GiB at which the kernel cuts calls.
    pages: u64,
    /// Most ranges.
    ranges: usize,
}

impl Limits {
    fn of(advice: Advice) -> Self {
        match advice {
            // About 7 us a page, and 9 us where each is a range of its own.
            Advice::PageOut | Advice::WillNeed => Self { pages: REGION_PAGES, ranges: 256 },
            // A page without a range around it may split a folio: up to 400 us.
            Advice::Cold => Self { pages: 8 * REGION_PAGES, ranges: 16 },
            // Milliseconds a region, but the lock is let go in between.
            Advice::Collapse => Self { pages: 8 * REGION_PAGES, ranges: MOST_RANGES },
        }
    }
}

/// What became of a batch of advice.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Advised {
    /// Bytes that the kernel went through. It may have left pages as they were; see
    /// [`page_out_verified`].
    pub bytes: Bytes,
    /// Spans that were refused, wholly or from some page on, with the error number. `EINVAL`: the
    /// mapping is not of a kind that can be advised so (locked, huge pages of hugetlbfs, a
    /// device); `ENOMEM`: there is a hole in it.
    pub failed: Vec<(Span, i32)>,
}

/// Gives one kind of advice about many spans, in as few calls as the kernel allows. A span that is
/// refused does not keep the others from being advised.
///
/// # Errors
/// [`LinuxError::Gone`] where the process has ended, [`LinuxError::Unsupported`] without the right
/// to advise it or without the system call.
pub fn advise(target: &Target, advice: Advice, spans: &[Span]) -> Result<Advised, LinuxError> {
    let limits = Limits::of(advice);
    let pieces: Vec<Span> = spans.iter().flat_map(|span| pieces(*span, limits.pages)).collect();
    let mut done = Advised::default();
    let mut rest = pieces.as_slice();
    while !rest.is_empty() {
        let batch = &rest[..batch_len(rest, limits)];
        let ranges: Vec<AddressRange> = batch.iter().map(range).collect();
        let wanted: u64 = ranges.iter().map(|range| range.len_bytes).sum();
        let advised = match target.is_this_process() {
            true => memory::madvise_own(&ranges, advice),
            false => memory::process_madvise(target_fd(target), &ranges, advice),
        };
        match advised {
            Ok(bytes) => {
                done.bytes += Bytes(bytes);
                // The kernel counts whole ranges: the next one is the one that failed. Alone at
                // the head of a call, it will tell why.
                rest = &rest
                    [if bytes >= wanted { batch.len() } else { ranges_within(batch, bytes) }..];
                if bytes == 0 {
                    rest = skip(rest, &mut done, libc::EAGAIN);
                }
            }
            Err(errno @ (libc::ESRCH | libc::EPERM | libc::ENOSYS)) => {
                target.check_alive()?;
                return Err(refused(target.pid(), errno));
            }
            Err(errno) => rest = skip(rest, &mut done, errno),
        }
    }
    Ok(done)
}

/// Pieces of at most `pages` pages, cut at multiples of that: a cut inside a region would split
/// its huge folio.
fn pieces(span: Span, pages: u64) -> impl Iterator<Item = Span> {
    let to_boundary = (pages - span.start.0 % pages).min(span.pages);
    let head = Span::new(span.start, to_boundary);
    let tail = Span::between(head.end(), span.end());
    std::iter::once(head).filter(|head| !head.is_empty()).chain(tail.pieces(pages))
}

fn target_fd(target: &Target) -> rustix::fd::BorrowedFd<'_> {
    rustix::fd::AsFd::as_fd(target)
}

fn skip<'a>(rest: &'a [Span], done: &mut Advised, errno: i32) -> &'a [Span] {
    let Some((first, others)) = rest.split_first() else { return rest };
    done.failed.push((*first, errno));
    others
}

fn range(span: &Span) -> AddressRange {
    AddressRange { start: span.address(), len_bytes: span.bytes().0 }
}

/// How many of the first spans go into one call; at least 1.
fn batch_len(spans: &[Span], limits: Limits) -> usize {
    let mut pages = 0;
    let fits = spans.iter().take(limits.ranges).take_while(|span| {
        pages += span.pages;
        pages <= limits.pages
    });
    fits.count().max(1)
}

/// How many of the first spans `bytes` cover wholly.
fn ranges_within(batch: &[Span], bytes: u64) -> usize {
    let mut left = bytes;
    batch
        .iter()
        .take_while(|span| {
            let fits = span.bytes().0 <= left;
            left = left.saturating_sub(span.bytes().0);
            fits
        })
        .count()
}

fn refused(pid: u32, errno: i32) -> LinuxError {
    match errno {
        libc::EPERM => LinuxError::Unsupported {
            what: format!("no right to advise the memory of process {pid}"),
            hint: "run as root, or with CAP_SYS_NICE and CAP_SYS_PTRACE".into(),
        },
        libc::ENOSYS => LinuxError::Unsupported {
            what: "this kernel has no process_madvise".into(),
            hint: "use Linux 5.10 or later".into(),
        },
        _ => LinuxError::call("process_madvise", pid, errno),
    }
}

/// Asks for the spans to be reclaimed now. What was, [`page_out_verified`] tells.
///
/// # Errors
/// As [`advise`].
pub fn page_out(target: &Target, spans: &[Span]) -> Result<Advised, LinuxError> {
    advise(target, Advice::PageOut, spans)
}

/// Asks for the spans to be read from swap. They come into memory without being mapped: the page
/// table goes on to say that they are in swap, and their next touch takes a short fault.
///
/// # Errors
/// As [`advise`].
pub fn prefetch(target: &Target, spans: &[Span]) -> Result<Advised, LinuxError> {
    advise(target, Advice::WillNeed, spans)
}

/// Puts the spans first in the order of reclaim and clears their access bits. Splits a huge folio
/// of which a span names only a part. Pages that another process has, too, stay as they are: after a
/// fork, all that neither has written since.
///
/// # Errors
/// As [`advise`].
pub fn cold(target: &Target, spans: &[Span]) -> Result<Advised, LinuxError> {
    advise(target, Advice::Cold, spans)
}

/// Empties the kernel's per-processor lists of pages on their way to the LRU lists. A page on one
/// of them is held by it and can be neither reclaimed nor split. Costs about 30 us; asking to move
/// no pages does it (`do_pages_move` in `mm/migrate.c`).
pub fn drain_page_lists() {
    // Without NUMA in the kernel there is no such call; then a page may stay held a little longer.
    let _ = memory::move_pages(0, &[], Some(0), &mut []);
}

/// Pages out the spans, looks at the page table, asks once more for what stayed, and tells page by
/// page, as ascending runs in the order of the spans, how it ended: `Moved` is in swap, `Busy`
/// stayed in memory (pinned, locked, or a kind of mapping that is not reclaimed), `NoSpace` stayed
/// while swap is full, `Shared` is mapped by others as well or is the zero page, `Gone` is neither
/// in memory nor in swap.
///
/// # Errors
/// [`LinuxError::Gone`] where the process has ended or runs another program by now; as [`advise`].
pub fn page_out_verified(
    target: &Target,
    pagemap: &mut Pagemap,
    spans: &[Span],
) -> Result<Vec<(Span, MoveOutcome)>, LinuxError> {
    Ok(page_out_together(target, pagemap, spans)?.0)
}

/// The same, and how many spans the kernel was asked for: those between which all is in swap are one, since each
/// interrupts whoever runs, twice, and we wait for that. A page in between that comes back at this moment goes out again.
///
/// # Errors
/// As [`page_out_verified`].
pub fn page_out_together(
    target: &Target,
    pagemap: &mut Pagemap,
    spans: &[Span],
) -> Result<(Vec<(Span, MoveOutcome)>, u64), LinuxError> {
    let together = together(spans, |between| swapped(pagemap, between));
    page_out(target, &together)?;
    let asked = together.len() as u64;
    let outcomes = outcomes(pagemap, spans, outcome_of_page_out)?;
    let busy = |&&(_, outcome): &&(Span, MoveOutcome)| outcome == MoveOutcome::Busy;
    let stayed: Vec<Span> = outcomes.iter().filter(busy).map(|&(span, _)| span).collect();
    if stayed.is_empty() {
        return Ok((outcomes, asked));
    }
    drain_page_lists();
    page_out(target, &stayed)?;
    let full = swap::is_full(target.root())?;
    let outcomes = self::outcomes(pagemap, spans, |entry| match outcome_of_page_out(entry) {
        MoveOutcome::Busy if full => MoveOutcome::NoSpace,
        other => other,
    })?;
    Ok((outcomes, asked + stayed.len() as u64))
}

/// The spans, as one where `out` has all that is between two of them in a region. It is asked for what is out between the
/// first and the last one there.
fn together(spans: &[Span], mut out: impl FnMut(Span) -> Vec<Span>) -> Vec<Span> {
    let region = |span: &Span| span.start.0 / REGION_PAGES;
    let mut together: Vec<Span> = Vec::new();
    for near in spans.chunk_by(|a, b| region(a) == region(b) && a.end() < b.start) {
        let [first, rest @ ..] = near else { continue };
        together.push(*first);
        let Some(last) = rest.last() else { continue };
        let out = out(Span::between(first.end(), last.start));
        for span in rest {
            let is_out = |gap: Span| out.iter().any(|out| out.intersect(gap) == gap);
            match together.last_mut() {
                Some(last) if is_out(Span::between(last.end(), span.start)) => {
                    *last = Span::between(last.start, span.end());
                }
                _ => together.push(*span),
            }
        }
    }
    together
}

/// What of a window is in swap; nothing where that is not told at once.
fn swapped(pagemap: &mut Pagemap, window: Span) -> Vec<Span> {
    let there = Categories::PRESENT.with(Categories::SWAPPED);
    let mut runs = Vec::new();
    match pagemap.scan(window, there, Categories::PRESENT, &mut runs) {
        Ok(()) => runs.retain(|(_, told)| !told.has(Categories::PRESENT)),
        Err(_) => runs.clear(),
    }
    runs.into_iter().map(|(run, _)| run).collect()
}

/// What the page table says of each page, as runs.
fn outcomes(
    pagemap: &mut Pagemap,
    spans: &[Span],
    outcome_of: impl Fn(PageEntry) -> MoveOutcome,
) -> Result<Vec<(Span, MoveOutcome)>, LinuxError> {
    let mut outcomes = Vec::new();
    for &span in spans {
        pagemap.for_each(span, |page, entry| {
            push_run(&mut outcomes, Span::single(page), outcome_of(entry));
        })?;
    }
    Ok(outcomes)
}

fn outcome_of_page_out(entry: PageEntry) -> MoveOutcome {
    if entry.swapped() {
        MoveOutcome::Moved
    } else if entry.in_transit() {
        MoveOutcome::Busy
    } else if !entry.present() {
        MoveOutcome::Gone
    } else if entry.file_or_shared() || !entry.exclusive() {
        MoveOutcome::Shared
    } else {
        MoveOutcome::Busy
    }
}

/// Brings pages back from swap and maps them, as if the target had touched them, and tells page by
/// page how it ended: `Moved` is in memory, `NoSpace` is still in swap (nothing is read into
/// memory that is not free), `Gone` is in neither. Pages that are not in swap are left alone.
///
/// # Errors
/// [`LinuxError::Gone`] where the process has ended or runs another program by now;
/// [`LinuxError::Unsupported`] without the right to read its memory.
pub fn bring_in_verified(
    target: &Target,
    pagemap: &mut Pagemap,
    spans: &[Span],
) -> Result<Vec<(Span, MoveOutcome)>, LinuxError> {
    let mut addresses = Vec::new();
    for &span in spans {
        // Only what is in swap is touched: elsewhere, reading could map the zero page, or wait
        // for a program that serves its own faults.
        pagemap.for_each(span, |page, entry| {
            if entry.swapped() {
                addresses.push(page.0.saturating_mul(PAGE_BYTES));
            }
        })?;
    }
    touch_all(target, &addresses)?;
    outcomes(pagemap, spans, |entry| {
        if entry.present() || entry.in_transit() {
            MoveOutcome::Moved
        } else if entry.swapped() {
            MoveOutcome::NoSpace
        } else {
            MoveOutcome::Gone
        }
    })
}

/// Touches every address, passing over those that cannot be read.
fn touch_all(target: &Target, addresses: &[u64]) -> Result<(), LinuxError> {
    let mut rest = addresses;
    while !rest.is_empty() {
        target.check_alive()?;
        let batch = &rest[..rest.len().min(MOST_RANGES)];
        let done = match memory::touch(target.pid(), batch) {
            Ok(pages) if pages as usize >= batch.len() => batch.len(),
            Ok(pages) => pages as usize + 1,
            Err(errno @ (libc::EPERM | libc::ENOSYS)) => {
                return Err(LinuxError::Unsupported {
                    what: format!(
                        "no right to read the memory of process {}: {}",
                        target.pid(),
                        std::io::Error::from_raw_os_error(errno)
                    ),
                    hint: "run as root, or with CAP_SYS_PTRACE".into(),
                });
            }
            Err(libc::ESRCH) => return Err(LinuxError::Gone { pid: target.pid() }),
            Err(_) => 1,
        };
        rest = &rest[done.min(batch.len())..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_core::types::Vpn;

    #[test]
    fn batches_keep_to_their_limits() {
        let limits = Limits { pages: 4096, ranges: 100 };
        assert_eq!(batch_len(&vec![Span::single(Vpn(7)); 5000], limits), 100);
        let large = [Span::new(Vpn(0), 1000), Span::new(Vpn(0), 3096), Span::new(Vpn(0), 1)];
        assert_eq!(batch_len(&large, limits), 2);
        assert_eq!(batch_len(&[Span::new(Vpn(0), 1 << 30)], limits), 1);
        for advice in [Advice::PageOut, Advice::WillNeed, Advice::Cold, Advice::Collapse] {
            let limits = Limits::of(advice);
            assert_eq!(limits.pages % REGION_PAGES, 0, "a cut in a region splits its folio");
            assert!(limits.ranges <= MOST_RANGES && limits.pages * PAGE_BYTES < 1 << 31);
        }
    }

    #[test]
    fn spans_go_together_where_all_between_them_is_out() {
        let span = |start, pages| Span::new(Vpn(start), pages);
        let spans = [span(3, 1), span(5, 2), span(9, 1), span(20, 1), span(600, 1), span(602, 1)];
        let mut asked = Vec::new();
        let found = together(&spans, |between| {
            asked.push(between);
            vec![span(4, 1), span(7, 2), span(10, 9), span(595, 5), span(601, 1)]
        });
        assert_eq!(found, [span(3, 7), span(20, 1), span(600, 3)]);
        assert_eq!(asked, [span(4, 16), span(601, 1)]);
        assert_eq!(together(&spans, |_| Vec::new()), spans);
        let unordered = [span(9, 1), span(3, 1), span(4, 1)];
        assert_eq!(together(&unordered, |_| vec![span(0, 512)]), unordered);
    }

    #[test]
    fn long_spans_are_cut_between_regions() {
        let cut: Vec<Span> = pieces(Span::new(Vpn(4095), 4098), 4096).collect();
        let expected =
            [Span::new(Vpn(4095), 1), Span::new(Vpn(4096), 4096), Span::new(Vpn(8192), 1)];
        assert_eq!(cut, expected);
        assert_eq!(pieces(Span::new(Vpn(5), 0), 4096).count(), 0);
        assert_eq!(pieces(Span::new(Vpn(4096), 4096), 4096).count(), 1);
    }

    #[test]
    fn the_range_that_failed_is_found_by_the_bytes_before_it() {
        let batch = [Span::new(Vpn(0), 2), Span::new(Vpn(9), 1), Span::new(Vpn(20), 4)];
        assert_eq!(ranges_within(&batch, 0), 0);
        assert_eq!(ranges_within(&batch, 8192), 1);
        assert_eq!(ranges_within(&batch, 12288), 2);
        assert_eq!(ranges_within(&batch, 20480), 2);
    }

    #[test]
    fn outcomes_follow_the_page_table() {
        let cases = [
            (1 << 62, MoveOutcome::Moved),
            (0, MoveOutcome::Gone),
            (1 << 62 | 1 << 58 | 31, MoveOutcome::Gone),
            (1 << 62 | 25, MoveOutcome::Busy),
            (1 << 63 | 1 << 56, MoveOutcome::Busy),
            (1 << 63, MoveOutcome::Shared),
            (1 << 63 | 1 << 61 | 1 << 56, MoveOutcome::Shared),
        ];
        for (bits, outcome) in cases {
            assert_eq!(outcome_of_page_out(PageEntry(bits)), outcome, "{bits:#x}");
        }
    }
}
