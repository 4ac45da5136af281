//! Time of an interruption: what a running thread loses where a page of its program is paged out. Its core is
//! interrupted, twice for a page that goes alone, and it has to look translations up again. Whoever pages out waits for
//! that, which is what is measured, on memory of our own.

use frostline_core::event::MoveOutcome;
use frostline_core::span::Span;
use frostline_core::types::{PAGE_BYTES, Vpn};
use frostline_linux::moves::advise::{drain_page_lists, page_out, page_out_verified};
use frostline_linux::pages::pagemap::Pagemap;
use frostline_linux::process::clock;
use frostline_linux::{Root, Target};
use memmap2::{Advice, MmapMut};
use std::sync::atomic::{AtomicBool, Ordering};

/// Rounds with a thread that runs beside us, and as many without.
const ROUNDS: u64 = 7;
/// Pages of a round, of which none lies beside another.
const PAGES: u64 = 32;
/// From one page to the next.
const STRIDE: u64 = 2;

/// Mean over pages (ns), of the median rounds; `None` where there is one core or nothing is paged out.
pub(crate) fn measure(root: &Root) -> Option<f64> {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return None;
    }
    let pages = 2 * ROUNDS * PAGES * STRIDE;
    let mut memory = MmapMut::map_anon((pages * PAGE_BYTES) as usize).ok()?;
    memory.advise(Advice::NoHugePage).ok()?;
    memory.fill(1);
    drain_page_lists();
    let first = memory.as_ptr().addr() as u64 / PAGE_BYTES;
    let spans = |round: u64| {
        let numbers = round * PAGES..(round + 1) * PAGES;
        numbers.map(|page| Span::new(Vpn(first + page * STRIDE), 1)).collect::<Vec<_>>()
    };
    let own = Target::open(root, std::process::id()).ok()?;
    let time = |round: u64| {
        let spans = spans(round);
        let began = clock::monotonic();
        page_out(&own, &spans).ok()?;
        Some(clock::monotonic().saturating_sub(began).0 as f64 / PAGES as f64)
    };
    let alone: Option<Vec<f64>> = (0..ROUNDS).map(|round| time(2 * round)).collect();
    let beside: Option<Vec<f64>> =
        (0..ROUNDS).map(|round| beside_a_runner(|| time(2 * round + 1))).collect();
    let all: Vec<Span> = (0..2 * ROUNDS).flat_map(spans).collect();
    let outcomes = page_out_verified(&own, &mut Pagemap::open(&own).ok()?, &all).ok()?;
    let moved = outcomes.iter().all(|(_, outcome)| *outcome == MoveOutcome::Moved);
    let [alone, beside] = [median(alone?), median(beside?)];
    moved.then_some((beside - alone).max(0.0))
}

/// Does something while another thread runs all the time.
fn beside_a_runner<T>(what: impl FnOnce() -> T) -> T {
    let [runs, ends] = [const { AtomicBool::new(false) }; 2];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            runs.store(true, Ordering::Release);
            while !ends.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
        });
        while !runs.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        let done = what();
        ends.store(true, Ordering::Release);
        done
    })
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_core::types::Bytes;
    use frostline_linux::changes::{Changes, SwapOff};
    use frostline_linux::swap::zram::{Zram, ZramOptions};

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 100.0, -1.0]), 3.0);
    }

    #[test]
    fn who_runs_beside_us_does_so_until_we_are_done() {
        let began = std::thread::available_parallelism().map_or(1, usize::from);
        assert_eq!(beside_a_runner(|| began), began);
    }

    #[test]
    fn an_interruption_takes_less_than_a_millisecond() {
        if !frostline_testing::zram() {
            return;
        }
        let _lock = frostline_testing::swap_lock();
        let root = Root::system();
        let changes = Changes::of_this_process(&root).expect("runs");
        let options = ZramOptions { size: Bytes(64 << 20), algorithm: None };
        let zram = Zram::create(&changes, &options).expect("this machine can");
        let taken = measure(&root);
        zram.take_down(&changes, SwapOff::WhenItFits).expect("the list is whole");
        let has_others = std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
        assert_eq!(taken.is_some(), has_others, "{taken:?}");
        assert!(taken.is_none_or(|ns| ns < 1e6), "{taken:?}");
    }
}
