//! Benchmarks of Frostline, where possible beside a peer on the same trace in the same job.
//!
//! Nothing here judges: times depend on the machine, and no test looks at them. Run
//! `make bench`, which also installs the peer, or `cargo bench -p frostline-bench`.
#![forbid(unsafe_code)]

pub mod clock;
pub mod contest;
pub mod lru;
pub mod peer;

use anyhow::Result;
use frostline_trace::{Batch, TraceSource};

/// A page cache of fixed size, fed with the dense page ids of a trace.
pub trait PageCache {
    /// Accesses these pages in order.
    fn access_all(&mut self, pages: &[u32]);

    /// Accesses so far to pages that were not in the cache.
    fn misses(&self) -> u64;

    /// Pages in the cache.
    fn resident(&self) -> usize;
}

/// Runs a whole trace through a cache; gives the number of accesses.
///
/// # Errors
/// Those of the trace.
pub fn replay(source: &mut dyn TraceSource, cache: &mut dyn PageCache) -> Result<u64> {
    let mut batch = Batch::new();
    let mut accesses = 0;
    while source.next_batch(&mut batch)? {
        cache.access_all(&batch.pages);
        accesses += batch.len() as u64;
    }
    Ok(accesses)
}

/// Pages worked on together.
const GROUP: usize = 64;

/// Reads what `state` holds of each page, to no effect but that the cache misses of these reads
/// overlap. The work that follows on page after page finds its lines there.
#[inline]
fn touch<T: Copy + Into<u32>>(state: &[T], pages: &[u32]) {
    let sum = pages.iter().fold(0_u32, |sum, &page| {
        sum.wrapping_add(state.get(page as usize).map_or(0, |&value| value.into()))
    });
    std::hint::black_box(sum);
}
