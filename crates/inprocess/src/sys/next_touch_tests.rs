//! Memory of a program whose pages are taken out by [`NextTouch`], whatever the program does.

use crate::inside::after_fork;
use crate::next_touch::{MOST_PAGES, NextTouch, Touch};
use frostline_core::span::Span;
use frostline_core::types::Vpn;
use frostline_linux::in_forked_child;
use frostline_testing::takes_pages_out;
use frostline_testing::userfaultfd;
use rustix::mm::{Advice, MapFlags, MprotectFlags, MremapFlags, ProtFlags};
use rustix::mm::{madvise, mmap_anonymous, mprotect, mremap, munmap};
use rustix::process::{Pid, WaitOptions, waitpid};
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
const WORDS: usize = PAGE / 8;
/// Time of use, during which everything happens to the memory.
const LONG: Duration = Duration::from_millis(1500);
/// Longest wait for what is slow.
const TIMEOUT: Duration = Duration::from_secs(60);

extern "C" fn in_child() {
    crate::inside::forget_pages_away();
}

fn begin() -> Option<NextTouch> {
    static HANDLERS: Once = Once::new();
    HANDLERS.call_once(|| after_fork(in_child).expect("memory"));
    userfaultfd().then(|| NextTouch::begin().expect("this machine can"))
}

fn word(page: usize, round: u64) -> u64 {
    (page as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ round
}

/// Memory of a program, base pages.
struct Memory {
    start: *mut c_void,
    pages: usize,
}

// SAFETY: it is looked at by volatile accesses of words, each by one thread at a time.
unsafe impl Sync for Memory {}
// SAFETY: as above.
unsafe impl Send for Memory {}

impl Memory {
    fn new(pages: usize) -> Self {
        // Between pages that nobody can use, which stay: the pages beside what the C library keeps of a
        // thread are not taken out, and other tests have threads that come and go.
        let (len, flags) = ((pages + 2) * PAGE, MapFlags::PRIVATE);
        // SAFETY: asks for a new mapping.
        let all = unsafe { mmap_anonymous(ptr::null_mut(), len, ProtFlags::empty(), flags) };
        let start = all.expect("memory").wrapping_byte_add(PAGE);
        let rights = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: a part of the mapping, to which no reference exists.
        unsafe { mprotect(start, pages * PAGE, rights) }.expect("ours");
        let memory = Self { start, pages };
        memory.advise(0, pages, Advice::LinuxNoHugepage);
        (0..pages).for_each(|page| memory.write(page, 0));
        memory
    }

    fn span(&self) -> Span {
        Span::new(Vpn((self.start.addr() / PAGE) as u64), self.pages as u64)
    }

    fn page(&self, page: usize) -> Span {
        Span::single(Vpn(self.span().start.0 + page as u64))
    }

    fn at(&self, page: usize, word: usize) -> *mut u64 {
        assert!(page < self.pages && word < WORDS);
        self.start.cast::<u64>().wrapping_add(page * WORDS + word)
    }

    fn write(&self, page: usize, round: u64) {
        for at in [0, 100, WORDS - 1] {
            // SAFETY: the word is in the mapping.
            unsafe { self.at(page, at).write_volatile(word(page, round)) };
        }
    }

    fn read(&self, page: usize) -> [u64; 3] {
        // SAFETY: the words are in the mapping.
        [0, 100, WORDS - 1].map(|at| unsafe { self.at(page, at).read_volatile() })
    }

    fn holds(&self, page: usize, round: u64) -> bool {
        self.read(page) == [word(page, round); 3]
    }

    fn is_whole(&self) -> bool {
        (0..self.pages).all(|page| self.holds(page, 0))
    }

    fn advise(&self, page: usize, pages: usize, advice: Advice) {
        let start = self.at(page, 0).cast();
        // SAFETY: the mapping is the test's, and no reference to it exists.
        unsafe { madvise(start, pages * PAGE, advice) }.expect("ours");
    }

    /// Takes out what can be.
    fn take_out(&self, next: &NextTouch) -> u64 {
        next.take_out(&[(self.span(), self.span())])
    }

    /// Takes all pages out that are there. What the kernel is busy with is tried again.
    fn take_all_out(&self, next: &NextTouch, pages: usize) -> bool {
        let began = Instant::now();
        loop {
            self.take_out(next);
            let out = next.pages_out(self.span());
            if out.len() == pages {
                return true;
            }
            if began.elapsed() > TIMEOUT {
                let stay: Vec<_> = self.span().iter().filter(|page| !out.contains(page)).collect();
                println!("{} of {pages} are out; these are not: {stay:?}", out.len());
                return false;
            }
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: nobody uses it any more.
        let _ = unsafe { munmap(self.start, self.pages * PAGE) };
    }
}

fn exit_code(pid: u32) -> Option<i32> {
    let pid = Pid::from_raw(pid as i32);
    let (_, status) = waitpid(pid, WaitOptions::empty()).expect("ours").expect("it has ended");
    status.exit_status()
}

/// A child that `fork`'s handlers know nothing of.
fn plain_fork(work: impl FnOnce() -> u8) -> u32 {
    // SAFETY: the child does nothing but look at memory, and ends.
    match unsafe { libc::syscall(libc::SYS_fork) } {
        0 => {
            let code = work();
            // SAFETY: it does not return.
            unsafe { libc::_exit(code.into()) }
        }
        pid => u32::try_from(pid).expect("a child"),
    }
}

#[test]
fn touched_pages_are_back_and_told() {
    let (_alone, memory) = (takes_pages_out(), Memory::new(100));
    let Some(mut next) = begin() else { return };
    assert!(memory.take_all_out(&next, 100));
    assert_eq!(next.pages_out(memory.span()), memory.span().iter().collect::<Vec<_>>());
    assert!(memory.holds(7, 0));
    memory.write(9, 3);
    assert!(memory.holds(9, 3));
    let touch = |page: usize, write| Touch { page: memory.page(page).start, write, moved: false };
    assert_eq!(next.touched(), (&[touch(7, false), touch(9, true)][..], 0));
    next.put_back(Span::new(memory.page(20).start, 30));
    assert_eq!(next.pages_out(memory.span()).len(), 68);
    assert!(memory.holds(30, 0));
    memory.write(9, 0);
    assert_eq!(next.touched().0, []);
    // What was never there reads as zeros.
    let more = Memory::new(4);
    more.advise(1, 1, Advice::LinuxDontNeed);
    assert_eq!(more.take_out(&next), 3);
    assert_eq!((more.read(1), more.holds(0, 0)), ([0; 3], true));
    assert!(memory.is_whole());
    assert_eq!(next.pages_out(memory.span()), []);
}

#[test]
fn memory_that_grows_is_left_alone() {
    let (_alone, memory) = (takes_pages_out(), Memory::new(1000));
    let Some(next) = begin() else { return };
    memory.advise(0, 500, Advice::LinuxDontNeed);
    assert!(memory.take_all_out(&next, 500));
    (0..300).for_each(|page| memory.write(page, 0));
    assert_eq!(next.pages_out(memory.span()), []);
    assert_eq!(memory.take_out(&next), 0);
    (300..500).for_each(|page| memory.write(page, 0));
    assert!(memory.is_whole());
}

#[test]
fn what_the_kernel_keeps_of_threads_stays() {
    let _alone = takes_pages_out();
    let Some(next) = begin() else { return };
    let (tell, told) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let here = std::hint::black_box([1_u8; 64 << 10]);
        tell.send(here.as_ptr().addr() as u64 / 4096).expect("heard");
        let _ = ended.recv();
    });
    let here = Vpn(told.recv().expect("told"));
    let target =
        frostline_linux::Target::open(&frostline_linux::Root::system(), std::process::id())
            .expect("runs");
    let mut mappings = Vec::new();
    frostline_linux::process::maps::MapsReader::new().read(&target, &mut mappings).expect("read");
    let stack = mappings.iter().find(|m| m.span.contains(here)).expect("a stack").span;
    assert!(next.take_out(&[(stack, stack)]) > 0);
    drop(end);
    // By what the kernel writes.
    thread.join().expect("no panic");
}

#[test]
fn all_are_back_when_it_ends_also_by_a_panic() {
    let (_alone, memory) = (takes_pages_out(), Memory::new(3000));
    let Some(next) = begin() else { return };
    assert!(memory.take_all_out(&next, 3000));
    drop(next);
    assert!(memory.is_whole());
    let Some(next) = begin() else { return };
    assert!(memory.take_all_out(&next, 3000));
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _next = next;
        std::panic::resume_unwind(Box::new("no message"));
    }));
    assert!(unwound.is_err() && memory.is_whole());
}

#[test]
fn system_calls_wait_for_pages() {
    let (_alone, memory) = (takes_pages_out(), Memory::new(8));
    let Some(mut next) = begin() else { return };
    assert!(memory.take_all_out(&next, 8));
    let (read, write) = rustix::pipe::pipe().expect("a pipe");
    // SAFETY: the page is in the mapping, and written by nobody meanwhile.
    let bytes = unsafe { std::slice::from_raw_parts(memory.at(3, 0).cast::<u8>(), PAGE) };
    assert_eq!(rustix::io::write(&write, bytes), Ok(PAGE));
    // SAFETY: as above.
    let bytes = unsafe { std::slice::from_raw_parts_mut(memory.at(5, 0).cast::<u8>(), PAGE) };
    assert_eq!(rustix::io::read(&read, bytes), Ok(PAGE));
    assert_eq!(memory.read(5), memory.read(3));
    let (touches, _) = next.touched();
    assert_eq!(touches.iter().map(|touch| touch.write).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn children_find_all_of_it_however_they_are_made() {
    let (_alone, memory) = (takes_pages_out(), Memory::new(MOST_PAGES));
    let Some(next) = begin() else { return };
    // What a child had, too, is nobody's alone until it is written.
    let write_all = || (0..memory.pages).for_each(|page| memory.write(page, 0));
    for _ in 0..3 {
        write_all();
        assert!(memory.take_out(&next) > MOST_PAGES as u64 * 9 / 10);
        let began = Instant::now();
        let child = in_forked_child(|| u8::from(memory.is_whole())).expect("a child");
        let took = began.elapsed();
        println!("fork with {MOST_PAGES} pages out: {took:?}, {:?}", crate::inside::longest_wait());
        assert_eq!(next.pages_out(memory.span()), []);
        assert_eq!(exit_code(child), Some(1));
        next.tend();
        assert_eq!(memory.take_out(&next), 0);
    }
    for _ in 0..3 {
        write_all();
        let taken = memory.take_out(&next);
        assert!(taken > MOST_PAGES as u64 * 9 / 10, "{taken}");
        let child = plain_fork(|| u8::from(memory.is_whole()));
        assert_eq!(exit_code(child), Some(1));
        assert_eq!(next.pages_out(memory.span()).len() as u64, taken);
        next.put_back(memory.span());
    }
    assert!(memory.is_whole());
}

#[test]
fn contents_that_are_thrown_away_stay_so() {
    let (_alone, mut memory) = (takes_pages_out(), Memory::new(64));
    let Some(next) = begin() else { return };
    assert!(memory.take_all_out(&next, 64));
    memory.advise(10, 10, Advice::LinuxDontNeed);
    assert_eq!((memory.read(12), memory.holds(20, 0)), ([0; 3], true));
    // The kernel says so before it does: what is there may be on its way out.
    assert_eq!(memory.take_out(&next), 0);
    next.tend();
    assert_eq!(memory.take_out(&next), 0);
    drop(next);
    let Some(next) = begin() else { return };
    assert_eq!(memory.take_out(&next), 64 - 9, "one of ten is there again");
    // SAFETY: the test's own mapping, to which no reference exists.
    unsafe { munmap(memory.at(32, 0).cast(), 32 * PAGE) }.expect("ours");
    memory.pages = 32;
    assert_eq!(next.pages_out(memory.span()).len(), 32 - 9);
    drop(next);
    assert!((0..10).all(|page| memory.holds(page, 0)));
}

#[test]
fn pages_follow_their_mapping() {
    let (_alone, memory) = (takes_pages_out(), Memory::new(64));
    let Some(next) = begin() else { return };
    assert!(memory.take_all_out(&next, 64));
    let mut place = Memory::new(128);
    let to = place.at(64, 0).cast();
    let flags = MremapFlags::MAYMOVE;
    // Unmapped once alone: where they were, another thread may have memory by now.
    let old = ManuallyDrop::new(memory);
    // SAFETY: both are the test's, and no reference to them exists.
    let moved = unsafe {
        rustix::mm::mremap_fixed(old.start, 64 * PAGE, 64 * PAGE, flags, to).expect("ours")
    };
    let mut memory = ManuallyDrop::new(Memory { start: moved, pages: 64 });
    assert!(memory.is_whole());
    // SAFETY: as above.
    let shorter = unsafe { mremap(memory.start, 64 * PAGE, 32 * PAGE, flags) }.expect("ours");
    assert_eq!(shorter, moved);
    (memory.pages, place.pages) = (32, 96);
    assert!(memory.is_whole());
}

#[test]
fn rights_may_change_while_pages_are_out() {
    let (_alone, memory) = (takes_pages_out(), Memory::new(600));
    let Some(next) = begin() else { return };
    let protect = |flags| {
        // SAFETY: the test's own mapping, to which no reference exists.
        unsafe { mprotect(memory.start, 600 * PAGE, flags) }.expect("ours");
    };
    assert!(memory.take_all_out(&next, 600));
    protect(MprotectFlags::READ);
    assert!(memory.holds(3, 0));
    protect(MprotectFlags::empty());
    // By a fork.
    let child = in_forked_child(|| 0).expect("a child");
    assert_eq!(exit_code(child), Some(0));
    assert_eq!(next.pages_out(memory.span()), []);
    protect(MprotectFlags::READ | MprotectFlags::WRITE);
    assert!(memory.is_whole());
    memory.write(5, 1);
    assert!(memory.holds(5, 1));
}

#[test]
fn memory_in_use_stays_as_it_is_whatever_happens_to_it() {
    let (_alone, memory) = (takes_pages_out(), Memory::new(4096));
    let Some(mut next) = begin() else { return };
    let (ends, writes) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut taken, mut touched, mut forks) = (0, 0, 0);
    std::thread::scope(|scope| {
        for part in 0..4 {
            let (memory, ends, writes) = (&memory, &ends, &writes);
            scope.spawn(move || {
                let mut rounds = [0_u64; 1024];
                let mut random = part as u64 + 1;
                while !ends.load(SeqCst) {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let at = (random >> 40) as usize % 1024;
                    let page = part * 1024 + at;
                    assert!(memory.holds(page, rounds[at]), "page {page}");
                    rounds[at] += 1;
                    memory.write(page, rounds[at]);
                    writes.fetch_add(1, SeqCst);
                }
                for (at, round) in rounds.iter().enumerate() {
                    assert!(memory.holds(part * 1024 + at, *round));
                    memory.write(part * 1024 + at, 0);
                }
            });
        }
        // Mappings come and go beside them.
        let ends = &ends;
        scope.spawn(move || {
            while !ends.load(SeqCst) {
                let memory = Memory::new(70);
                memory.advise(3, 5, Advice::LinuxDontNeed);
                assert!(memory.holds(2, 0) && memory.read(3) == [0; 3]);
            }
        });
        let began = Instant::now();
        for round in 0.. {
            taken += memory.take_out(&next);
            touched += next.touched().0.len();
            match round % 6 {
                1 => {
                    let child = in_forked_child(|| 0).expect("a child");
                    assert_eq!(exit_code(child), Some(0));
                    forks += 1;
                }
                3 => {
                    let child = plain_fork(|| 0);
                    assert_eq!(exit_code(child), Some(0));
                    forks += 1;
                }
                5 => next.tend(),
                _ => std::thread::yield_now(),
            }
            let enough = taken > 1000 && touched > 1000 && forks > 0 && began.elapsed() > LONG;
            if enough || began.elapsed() > TIMEOUT {
                break;
            }
        }
        ends.store(true, SeqCst);
    });
    let writes = writes.load(SeqCst);
    println!("{taken} out, {touched} touched, {writes} written, {forks} forks");
    assert!(taken > 1000 && touched > 1000 && forks > 0);
    next.tend();
    assert!(memory.is_whole());
}
