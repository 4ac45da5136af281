//! Pages of this process that are away from their places, and copies of it: a child that is forked
//! meanwhile finds zeros there. So `fork` waits until all are back, and nothing leaves while it
//! lasts.
//!
//! A child that is made without the C library's handlers (`clone`, `_Fork`) is not seen here. What is
//! started with `vfork` or `posix_spawn` shares memory, and needs nobody to wait.

use frostline_core::span::Span;
use frostline_core::types::{PAGE_BYTES, Vpn};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use rustix::process::getpid;
use rustix::thread::futex;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

const PAGE: usize = PAGE_BYTES as usize;

/// Forks that wait or are under way.
static FORKS: AtomicU32 = AtomicU32::new(0);
/// Values of [`Away`].
static AWAY: AtomicU32 = AtomicU32::new(0);
/// The process that this is true of; 0 for none.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Address of the page of [`bell`]; 0 for none.
static BELL: AtomicU64 = AtomicU64::new(0);
/// What a fork has waited, at most, in microseconds.
static LONGEST_US: AtomicU32 = AtomicU32::new(0);

/// Somebody has pages away from their places. Lives until they are back.
#[derive(Debug)]
pub struct Away(());

impl Away {
    /// To be called before the first page leaves; `None` while the process is forked.
    pub fn begin() -> Option<Self> {
        PROCESS.store(own(), SeqCst);
        AWAY.fetch_add(1, SeqCst);
        // Whoever forks has counted itself before it looks at `AWAY`.
        let away = Self(());
        (FORKS.load(SeqCst) == 0).then_some(away)
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        AWAY.fetch_sub(1, SeqCst);
        let _ = futex::wake(&AWAY, futex::Flags::PRIVATE, u32::MAX);
    }
}

/// A page that is read by whoever is about to fork while pages are away. Where touching it makes a
/// fault, that calls for them. Mapped once and for good; not in forked children.
///
/// # Errors
/// The kernel's error number.
pub fn bell() -> Result<Span, i32> {
    if BELL.load(SeqCst) == 0 {
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: asks for a mapping at an address of the kernel's choice; replaces nothing.
        let page = unsafe { mmap_anonymous(ptr::null_mut(), PAGE, prot, flags) };
        let page = page.map_err(rustix::io::Errno::raw_os_error)?;
        // SAFETY: the mapping is ours, and there is nothing in it.
        let _ = unsafe { madvise(page, PAGE, Advice::LinuxDontFork) };
        BELL.store(page.expose_provenance() as u64, SeqCst);
    }
    Ok(Span::single(Vpn(BELL.load(SeqCst) / PAGE_BYTES)))
}

/// Takes the page of [`bell`] away after it was read: the next touch makes a fault again.
pub fn set_bell() {
    let bell = BELL.load(SeqCst) as usize;
    if bell != 0 {
        let page = ptr::with_exposed_provenance_mut(bell);
        // SAFETY: the page is ours, and nobody looks at what is in it.
        let _ = unsafe { madvise(page, PAGE, Advice::LinuxDontNeed) };
    }
}

/// What a fork has waited for pages, at most.
pub fn longest_wait() -> Duration {
    Duration::from_micros(LONGEST_US.load(SeqCst).into())
}

/// A child: nothing of that is true of it.
pub fn forget() {
    for word in [&FORKS, &AWAY, &PROCESS, &LONGEST_US] {
        word.store(0, SeqCst);
    }
    BELL.store(0, SeqCst);
}

fn own() -> u32 {
    getpid().as_raw_pid() as u32
}

/// To be called before this process is forked, on the thread that does it.
pub(super) extern "C" fn fork_begins() {
    FORKS.fetch_add(1, SeqCst);
    if AWAY.load(SeqCst) == 0 || PROCESS.load(SeqCst) != own() {
        return;
    }
    let began = Instant::now();
    let bell = BELL.load(SeqCst) as usize;
    if bell != 0 {
        // SAFETY: `bell` has mapped a page there, which is never unmapped.
        unsafe { ptr::with_exposed_provenance::<u8>(bell).read_volatile() };
    }
    loop {
        let away = AWAY.load(SeqCst);
        if away == 0 {
            break;
        }
        // Whatever ends the wait, the number is looked at again.
        let _ = futex::wait(&AWAY, futex::Flags::PRIVATE, away, None);
    }
    let waited = u32::try_from(began.elapsed().as_micros()).unwrap_or(u32::MAX);
    LONGEST_US.fetch_max(waited, SeqCst);
}

/// To be called afterwards in the parent, also where no child was made.
pub(super) extern "C" fn fork_ends() {
    FORKS.fetch_sub(1, SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// Other tests fork, too.
    fn begin() -> Away {
        loop {
            if let Some(away) = Away::begin() {
                return away;
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_fork_waits_until_pages_are_back_and_none_leaves_meanwhile() {
        static BACK: AtomicBool = AtomicBool::new(false);
        static WAITS: AtomicBool = AtomicBool::new(false);
        let away = begin();
        let forks = std::thread::spawn(|| {
            WAITS.store(true, SeqCst);
            fork_begins();
            let back = BACK.load(SeqCst);
            let refused = Away::begin().is_none();
            fork_ends();
            (back, refused)
        });
        while FORKS.load(SeqCst) == 0 || !WAITS.load(SeqCst) {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(20));
        BACK.store(true, SeqCst);
        drop(away);
        assert_eq!(forks.join().expect("no panic"), (true, true));
        assert!(longest_wait() > Duration::ZERO);
        drop(begin());
    }
}
