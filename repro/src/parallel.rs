//! Pieces of work side by side, which end together.

use frostline_study::{Monitor, Pass, Unwatched};
use frostline_terminal::cancel;
use frostline_terminal::progress::note;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Most threads, whatever is asked for.
const MOST_JOBS: usize = 1024;

/// What the studies of all threads hear of: whether to stop. Bars of many studies at once would tear
/// each other apart.
#[derive(Default)]
pub struct Together {
    failed: AtomicBool,
}

impl Monitor for Together {
    fn pass<'a>(&'a self, _: &str, _: &str, _: Option<u64>) -> Box<dyn Pass + 'a> {
        Box::new(Unwatched)
    }
    fn note(&self, text: &str) {
        note(text);
    }
    fn stops(&self) -> bool {
        self.failed.load(Ordering::Relaxed) || cancel::requested()
    }
}

/// A study's monitor that hands on how much of it is done.
pub struct Counted<'a> {
    inner: &'a dyn Monitor,
    advance: &'a (dyn Fn(u64) + Sync),
    done: AtomicU64,
}

impl<'a> Counted<'a> {
    /// Tells `advance`, and `inner` everything else.
    pub fn new(inner: &'a dyn Monitor, advance: &'a (dyn Fn(u64) + Sync)) -> Self {
        Self { inner, advance, done: AtomicU64::new(0) }
    }

    /// Makes it `units` in all, of which some may not have been heard of.
    pub fn fill(&self, units: u64) {
        self.up_to(units, units);
    }

    fn up_to(&self, units: u64, most: u64) {
        let before = self.done.fetch_add(units, Ordering::Relaxed);
        (self.advance)(units.min(most.saturating_sub(before)));
    }
}

impl Monitor for Counted<'_> {
    fn pass<'a>(&'a self, _: &str, _: &str, _: Option<u64>) -> Box<dyn Pass + 'a> {
        Box::new(self)
    }
    fn note(&self, text: &str) {
        self.inner.note(text);
    }
    fn stops(&self) -> bool {
        self.inner.stops()
    }
}

impl Pass for &Counted<'_> {
    fn advance(&self, units: u64) {
        self.up_to(units, u64::MAX);
    }
}

/// What is behind a lock, whoever has failed with it.
pub fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// So many at a time.
pub struct Semaphore {
    free: Mutex<usize>,
    freed: Condvar,
}

impl Semaphore {
    /// For `most`.
    pub fn new(most: usize) -> Self {
        Self { free: Mutex::new(most), freed: Condvar::new() }
    }

    /// Waits until there is one; it is given back when it is dropped.
    pub fn take(&self) -> impl Drop + '_ {
        struct Taken<'a>(&'a Semaphore);
        impl Drop for Taken<'_> {
            fn drop(&mut self) {
                *lock(&self.0.free) += 1;
                self.0.freed.notify_one();
            }
        }
        let free = self.freed.wait_while(lock(&self.free), |free| *free == 0);
        *free.unwrap_or_else(PoisonError::into_inner) -= 1;
        Taken(self)
    }
}

/// Threads: as asked for, or one per core.
pub fn jobs(asked: Option<NonZeroUsize>) -> usize {
    let cores = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    asked.unwrap_or_else(cores).get().min(MOST_JOBS)
}

/// Does `work` on each item, in order, `jobs` at a time. A failure stops what is under way, too.
///
/// A study's own threads would each begin another piece while they wait: each study has one thread.
///
/// # Errors
/// The first failure, or a stop by the user.
pub fn each<T: Sync>(
    items: &[T],
    jobs: usize,
    work: impl Fn(&T, &dyn Monitor) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<()> {
    let (next, together) = (AtomicUsize::new(0), Together::default());
    let worker = || {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            if together.stops() {
                return Ok(());
            }
            if let Err(error) = work(item, &together) {
                // Others are stopped by this one, and their errors say no more than that.
                let first = !together.failed.swap(true, Ordering::Relaxed);
                return if first { Err(error) } else { Ok(()) };
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads = jobs.clamp(1, items.len().max(1));
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        let ended = started
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        ended.collect::<Vec<_>>().into_iter().collect::<anyhow::Result<()>>()
    })?;
    cancel::check()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_has_its_turn_once() {
        let items: Vec<u32> = (0..100).collect();
        let seen = Mutex::new(Vec::new());
        each(&items, 4, |item, _| {
            seen.lock().expect("no panic").push(*item);
            Ok(())
        })
        .expect("nothing fails");
        let mut seen = seen.into_inner().expect("no panic");
        seen.sort_unstable();
        assert_eq!(seen, items);
    }

    #[test]
    fn a_failure_ends_all() {
        let items: Vec<u32> = (0..1000).collect();
        let done = AtomicUsize::new(0);
        let error = each(&items, 2, |item, together| {
            done.fetch_add(1, Ordering::Relaxed);
            if *item == 3 {
                anyhow::bail!("three");
            }
            while *item > 3 && !together.stops() {
                std::thread::yield_now();
            }
            Ok(())
        })
        .expect_err("three fails");
        assert_eq!(error.to_string(), "three");
        assert!(done.into_inner() < 10);
    }
}
