//! Spin lock that neither allocates nor reads thread-local memory: for code inside of other people's
//! programs, where both may lead into memory that is away.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

/// A value that one thread at a time has to itself.
#[derive(Debug)]
pub struct SpinLock<T> {
    locked: AtomicBool,
    value: UnsafeCell<T>,
}

/// Unlocks, however the work ends.
struct Unlock<'a>(&'a AtomicBool);

impl Drop for Unlock<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl<T> SpinLock<T> {
    /// With this value.
    pub const fn new(value: T) -> Self {
        Self { locked: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Works with the value, which must not lead here again.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        while self.locked.swap(true, Ordering::Acquire) {
            rustix::thread::sched_yield();
        }
        let _unlock = Unlock(&self.locked);
        // SAFETY: whoever has set `locked` is alone with the value until it is unset.
        work(unsafe { &mut *self.value.get() })
    }

    /// Unlocks it in a forked child, whose only thread this is: it may have been locked by one that
    /// this process does not have.
    pub fn forget(&self) {
        self.locked.store(false, Ordering::Relaxed);
    }
}

// SAFETY: the value is reached by `with` alone, which lets one thread in at a time.
unsafe impl<T: Send> Sync for SpinLock<T> {}
