//! Start and end of the agent's thread: the handshake between it and the program's threads.

use crate::remarks;
use frostline_inprocess::inside::{self, Thread};
use rustix::thread::futex;
use rustix::time::Timespec;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// No thread.
const ABSENT: u32 = 0;
/// It is at work.
const WORKS: u32 = 1;
/// It shall write its last numbers, because the program ends.
const ASKED: u32 = 2;
/// It has.
const TOLD: u32 = 3;

static STATE: AtomicU32 = AtomicU32::new(ABSENT);
/// Process of which that is true: a child that was made without `fork`'s handlers has a copy.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Number of the thread.
static THREAD: AtomicU32 = AtomicU32::new(0);
/// Tiering has ended for good, here and in what is forked from now on.
static OFF: AtomicBool = AtomicBool::new(false);
/// This process was forked by one that has an agent.
static CHILD: AtomicBool = AtomicBool::new(false);

/// Longest time that the end of a program waits for the last numbers.
const LAST_NUMBERS: Duration = Duration::from_millis(250);

fn own_thread() -> u32 {
    rustix::thread::gettid().as_raw_pid() as u32
}

/// Starts the thread.
pub fn begin(thread: &'static Thread) {
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    STATE.store(WORKS, Ordering::Release);
    if inside::start(thread).is_err() {
        STATE.store(ABSENT, Ordering::Relaxed);
        OFF.store(true, Ordering::Relaxed);
        if !is_child() {
            remarks::say_without_memory("frostline: no thread for tiering; the program goes on\n");
        }
    }
}

/// Starts a thread in a forked child, where the program had one.
pub fn forked(thread: &'static Thread, follow: bool) {
    STATE.store(ABSENT, Ordering::Relaxed);
    CHILD.store(true, Ordering::Relaxed);
    if follow && !OFF.load(Ordering::Relaxed) {
        begin(thread);
    }
}

/// Whether this process was forked by one that has an agent.
pub fn is_child() -> bool {
    CHILD.load(Ordering::Relaxed)
}

/// The thread says that it runs.
pub fn thread_begins() {
    THREAD.store(own_thread(), Ordering::Release);
}

/// The thread ends; `for_good` where children shall not have one either.
pub fn thread_ends(for_good: bool) {
    OFF.fetch_or(for_good, Ordering::Relaxed);
    STATE.store(TOLD, Ordering::Release);
    let _ = futex::wake(&STATE, futex::Flags::PRIVATE, u32::MAX);
}

/// Whether the program ends and waits for the last numbers.
pub fn is_asked() -> bool {
    STATE.load(Ordering::Acquire) == ASKED
}

/// Waits for so long, or until the program ends.
pub fn pause(time: Duration) {
    wait(WORKS, time);
}

fn wait(state: u32, time: Duration) {
    let Ok(time) = Timespec::try_from(time) else { return };
    // Whatever ends the wait, the caller looks at what has come.
    let _ = futex::wait(&STATE, futex::Flags::PRIVATE, state, Some(&time));
}

/// Asks the thread for its last numbers, and waits for them a little.
pub extern "C" fn end_of_program() {
    let here = PROCESS.load(Ordering::Relaxed) == std::process::id();
    // The last thread of a process ends it, and that may be ours.
    if !here || THREAD.load(Ordering::Acquire) == own_thread() {
        return;
    }
    if STATE.compare_exchange(WORKS, ASKED, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return;
    }
    let _ = futex::wake(&STATE, futex::Flags::PRIVATE, u32::MAX);
    let began = Instant::now();
    while is_asked() {
        let Some(left) = LAST_NUMBERS.checked_sub(began.elapsed()) else { return };
        wait(ASKED, left);
    }
}

/// Where the kernel has no memory for us: the thread stays where it is for ever, since neither
/// allocating nor unwinding is possible, and the program goes on.
pub fn out_of_memory() -> ! {
    OFF.store(true, Ordering::Relaxed);
    STATE.store(ABSENT, Ordering::Release);
    remarks::say_without_memory("frostline: no memory for tiering; the program goes on without\n");
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}
