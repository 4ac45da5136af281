//! Time, our processor time, and our memory.

use crate::Root;
use frostline_core::types::{Bytes, Nanos};
use rustix::time::{ClockId, Timespec, clock_gettime};

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

/// Time of all processors together on whatever they ran; 0 where `/proc/stat` does not tell.
pub fn machine(root: &Root) -> Nanos {
    let text = root.read("/proc/stat").unwrap_or_default();
    let first = text.lines().next().unwrap_or_default();
    let words: Vec<u64> = first.split_ascii_whitespace().skip(1).flat_map(str::parse).collect();
    // user nice system idle iowait irq softirq
    let busy = words.iter().take(7).enumerate().filter(|(index, _)| !(3..5).contains(index));
    Nanos(busy.fold(0, |sum: u64, (_, ticks)| sum.saturating_add(*ticks)).saturating_mul(tick().0))
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
