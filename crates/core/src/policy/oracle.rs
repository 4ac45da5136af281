//! Knowledge of a whole trace, for offline policies.

use crate::types::*;
use alloc::boxed::Box;
use core::fmt;

/// What a page saves where it is in the fastest tier instead of the next one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageSaving {
    /// The page.
    pub page: PageId,
    /// Nanoseconds saved; not below 0.
    pub saving_ns: f64,
}

/// Knowledge of a whole trace on a given machine.
pub trait Oracle: Send + Sync {
    /// Calls `sink` once for every page that is ever accessed, with what it saves over the whole
    /// trace.
    fn totals(&self, sink: &mut dyn FnMut(PageSaving));
    /// Starts to read single epochs.
    fn epochs(&self) -> EpochReader;
    /// Starts to read all accesses in their order. The default knows none.
    fn accesses(&self) -> AccessReader {
        Box::new(|| None)
    }
    /// Nanoseconds that moving one page to the fastest tier costs; not below 0.
    fn promotion_cost_ns(&self) -> f64;
    /// Nanoseconds that moving one page from the fastest tier costs; not below 0.
    fn demotion_cost_ns(&self) -> f64;
}

impl fmt::Debug for dyn Oracle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Oracle")
    }
}

/// An oracle equals itself alone.
impl PartialEq for dyn Oracle {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::addr_eq(self, other)
    }
}

/// Calls the function handed to it once for every page accessed in an epoch, with what it saves in
/// it. False where neither that epoch nor a later one is there. Epochs are numbered from 0 as in
/// [`Event::Epoch`](crate::event::Event::Epoch); to read them in ascending order may be much faster than in any other.
pub type EpochReader = Box<dyn FnMut(u64, &mut dyn FnMut(PageSaving)) -> bool + Send>;

/// An access, and when its page is accessed next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownAccess {
    /// The page.
    pub page: PageId,
    /// The page's next access, as its place in the trace from 0 upwards; `u64::MAX` where there is none.
    pub next: u64,
}

/// Gives one access after the other, `None` after the last one.
pub type AccessReader = Box<dyn FnMut() -> Option<KnownAccess> + Send>;
