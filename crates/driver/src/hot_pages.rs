//! Hot pages of processes, as they are seen from outside while nothing is moved.
//!
//! A page is hot that was accessed in two rounds over access bits in succession, a read as well as a write. Of a folio that is
//! mapped as a whole there is one bit, so that all of its pages are hot or none is.

use crate::source::sweeps::Sweeps;
use crate::source::{Source, Touch};
use frostline_core::span::{Span, difference, joined};
use frostline_core::types::{Nanos, Vpn};
use frostline_linux::{LinuxError, Root};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// From one round to the next, as long as an agent watches for writes.
const WINDOW: Nanos = Nanos(500_000_000);
/// Rounds: one that clears, and two that tell.
const ROUNDS: usize = 3;
/// Between two looks whether a round is due.
const PAUSE: Duration = Duration::from_millis(20);
/// Longest wait for all rounds.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Who sees them.
#[derive(Debug)]
pub struct HotPages {
    root: Root,
    sweeps: Sweeps,
}

impl HotPages {
    /// Takes about half of `share` of a core while it looks.
    ///
    /// # Errors
    /// Where page tables cannot be read.
    pub fn new(root: &Root, share: f64) -> Result<Self, LinuxError> {
        Ok(Self { root: root.clone(), sweeps: Sweeps::new(root, share)?.every(WINDOW) })
    }

    /// Hot pages of each of these processes, ascending and apart; those of which nothing could be seen are left out. Takes
    /// a second or two, and ends early with nothing where `stop` says so.
    ///
    /// # Errors
    /// Where page tables cannot be read any more.
    pub fn of(
        &mut self,
        pids: &[u32],
        stop: &dyn Fn() -> bool,
    ) -> Result<BTreeMap<u32, Vec<Span>>, LinuxError> {
        for pid in pids {
            self.sweeps.attach(&self.root, *pid, false)?;
        }
        let mut rounds: [BTreeMap<u32, Vec<Vpn>>; ROUNDS] = Default::default();
        let before = self.sweeps.rounds();
        let until = Instant::now() + TIMEOUT;
        let seen = loop {
            let round = (self.sweeps.rounds() - before) as usize;
            if stop() || Instant::now() >= until {
                break false;
            }
            let Some(touched) = rounds.get_mut(round) else { break true };
            let mut sink = |touch: Touch| touched.entry(touch.pid).or_default().push(touch.page);
            self.sweeps.poll(&self.root, &mut sink)?;
            if self.sweeps.is_between_rounds() {
                std::thread::sleep(PAUSE);
            }
        };
        let watched = self.sweeps.watched();
        pids.iter().for_each(|pid| self.sweeps.detach(&self.root, *pid));
        if !seen {
            return Ok(BTreeMap::new());
        }
        let of = |round: usize, pid: &u32| {
            let mut pages = rounds[round].get(pid).cloned().unwrap_or_default();
            pages.sort_unstable();
            joined(pages.into_iter().map(Span::single))
        };
        let hot = |pid: u32| {
            let (first, second) = (of(1, &pid), of(2, &pid));
            (pid, difference(&first, &difference(&first, &second)))
        };
        Ok(watched.into_iter().filter(|pid| pids.contains(pid)).map(hot).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_core::types::PAGE_BYTES;
    use frostline_testing::{Requirement, skip};
    use memmap2::{Advice, MmapMut};
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn pages_that_are_only_read_are_seen_and_others_are_not() {
        let root = Root::system();
        let mut hot = match HotPages::new(&root, 1.0) {
            Ok(hot) => hot,
            Err(error) => return skip(Requirement::PageTables, error),
        };
        let pages = 2048;
        let mut memory = MmapMut::map_anon(pages * PAGE_BYTES as usize).unwrap();
        memory.advise(Advice::NoHugePage).unwrap();
        memory.fill(1);
        let start = memory.as_ptr().addr() as u64 / PAGE_BYTES;
        let ended = AtomicBool::new(false);
        let found = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    for page in (0..pages).step_by(16) {
                        std::hint::black_box(memory[page * PAGE_BYTES as usize]);
                    }
                    std::thread::sleep(Duration::from_millis(10));
                }
            });
            let own = std::process::id();
            let found = hot.of(&[own, u32::MAX], &|| false);
            ended.store(true, Ordering::Relaxed);
            found.unwrap()
        });
        assert_eq!(found.len(), 1, "there is no other process");
        let all = Span::new(Vpn(start), pages as u64);
        let here: Vec<Span> =
            found.values().flatten().filter(|s| all.contains(s.start)).copied().collect();
        let right =
            here.iter().filter(|s| s.pages == 1 && (s.start.0 - start).is_multiple_of(16)).count();
        // Another observer of the whole machine's access bits may take one before us.
        assert!(right >= pages / 16 * 9 / 10, "{right} of {}", pages / 16);
        assert!(here.len() - right <= 2, "{here:?}");
        assert!(hot.of(&[std::process::id()], &|| true).unwrap().is_empty(), "stopped");
    }
}
