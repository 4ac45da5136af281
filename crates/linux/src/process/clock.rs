//! Time, our processor time, and our memory.

use crate::Root;
use frostline_core::types::{Bytes, Nanos};
use rustix::thread::CpuSet;
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::collections::BTreeMap;

fn nanos(time: Timespec) -> Nanos {
    let (sec, nsec) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    Nanos(sec.unwrap_or(0) * 1_000_000_000 + nsec.unwrap_or(0))
}

/// Time since some moment in the past; stands still while the machine sleeps.
pub fn monotonic() -> Nanos {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// Unit in which `/proc` counts processor time.
pub fn tick() -> Nanos {
    Nanos(1_000_000_000 / rustix::param::clock_ticks_per_second().max(1))
}

/// Time that each processor that is on was busy, by its number; none where `/proc/stat` does not tell.
pub fn processors(root: &Root) -> BTreeMap<usize, Nanos> {
    let text = root.read("/proc/stat").unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.strip_prefix("cpu")?.split_once(' '));
    let busy = |words: &str| {
        let words: Vec<u64> = words.split_ascii_whitespace().flat_map(str::parse).collect();
        // user nice system idle iowait irq softirq
        let busy = words.iter().take(7).enumerate().filter(|(index, _)| !(3..5).contains(index));
        busy.fold(0, |sum: u64, (_, ticks)| sum.saturating_add(*ticks))
    };
    let lines = lines.filter_map(|(number, words)| Some((number.parse().ok()?, busy(words))));
    lines.map(|(number, ticks)| (number, Nanos(ticks.saturating_mul(tick().0)))).collect()
}

/// Tells of processors whether the calling thread may run on them, as it is now.
pub fn may_run_on() -> impl Fn(&usize) -> bool {
    let allowed = rustix::thread::sched_getaffinity(None).ok();
    move |processor| {
        *processor >= CpuSet::MAX_CPU || allowed.is_none_or(|set| set.is_set(*processor))
    }
}

/// Processor time of the calling thread.
pub fn thread_cpu() -> Nanos {
    nanos(clock_gettime(ClockId::ThreadCPUTime))
}

/// Processor time of this process.
pub fn process_cpu() -> Nanos {
    nanos(clock_gettime(ClockId::ProcessCPUTime))
}

/// Resident memory of this process; 0 where `/proc` does not tell.
pub fn own_rss() -> Bytes {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok());
    Bytes(pages.unwrap_or(0) * frostline_core::types::PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_busy_by_what_they_ran() {
        let tree = crate::testing::Tree::new();
        assert!(processors(tree.root()).is_empty());
        tree.file(
            "/proc/stat",
            "cpu  9 9 9 9 9 9 9 9\ncpu0 1 2 3 400 50 6 7 8\ncpu3 0 0 5 1 0 0 0 0\nintr 1 2\n",
        );
        let busy = processors(tree.root()).into_iter();
        let ticks: Vec<_> = busy.map(|(number, busy)| (number, busy.0 / tick().0)).collect();
        assert_eq!(ticks, [(0, 19), (3, 5)]);
    }

    #[test]
    fn this_thread_may_run_somewhere() {
        let own = Root::system();
        let may = may_run_on();
        assert!(processors(&own).keys().any(may));
    }
}
