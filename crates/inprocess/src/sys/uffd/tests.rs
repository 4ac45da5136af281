use super::{Back, Block, Event, Taken, Userfault, Writes};
use frostline_core::span::Span;
use frostline_core::types::Vpn;
use frostline_linux::pages::pagemap::Pagemap;
use frostline_linux::{Root, Target, in_forked_child};
use frostline_testing::takes_pages_out;
use frostline_testing::{Requirement, skip, userfaultfd};
use rustix::process::{Pid, WaitOptions, waitpid};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
const WORDS: usize = PAGE / 8;

/// Memory of a test, seen as numbers that anybody may change at any time. On both sides of it lies
/// a page that nobody may use: a page that is unmapped for a while leaves a gap for nobody else.
struct Memory {
    start: *mut u8,
    pages: usize,
}

// SAFETY: it is used through atomics alone.
unsafe impl Sync for Memory {}

impl Memory {
    fn new(pages: usize) -> Self {
        let (prot, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: asks for a mapping at an address of the kernel's choice.
        let start = unsafe {
            let all = (pages + 2) * PAGE;
            let start = libc::mmap(ptr::null_mut(), all, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            let start = start.byte_add(PAGE);
            assert_eq!(libc::mprotect(start, pages * PAGE, prot), 0);
            libc::madvise(start, pages * PAGE, libc::MADV_NOHUGEPAGE);
            start.cast()
        };
        let memory = Self { start, pages };
        for page in 0..pages {
            memory.fill(page, 1000 + page as u64);
        }
        memory
    }

    fn word(&self, page: usize, word: usize) -> &AtomicU64 {
        assert!(page < self.pages && word < WORDS);
        // SAFETY: it lies in the mapping.
        unsafe { &*self.start.add(page * PAGE + word * 8).cast() }
    }

    fn fill(&self, page: usize, value: u64) {
        (0..WORDS).for_each(|word| self.word(page, word).store(value, Ordering::Relaxed));
    }

    fn holds(&self, page: usize, value: u64) -> bool {
        (0..WORDS).all(|word| self.word(page, word).load(Ordering::Relaxed) == value)
    }

    fn whole(&self) -> bool {
        (0..self.pages).all(|page| self.holds(page, 1000 + page as u64))
    }

    fn vpn(&self, page: usize) -> Vpn {
        Vpn((self.start.addr() + page * PAGE) as u64 / 4096)
    }

    fn span(&self) -> Span {
        Span::new(self.vpn(0), self.pages as u64)
    }

    fn page(&self, page: usize) -> *mut libc::c_void {
        self.start.wrapping_add(page * PAGE).cast()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is the test's, which is over.
        unsafe { libc::munmap(self.start.sub(PAGE).cast(), (self.pages + 2) * PAGE) };
    }
}

/// Not told of copies of the process: other tests make some, and would wait until this one looks,
/// which may wait for memory itself that they have locked.
fn userfault(slots: usize) -> Option<Userfault> {
    opened(Userfault::open_for(slots, false))
}

fn opened(userfault: Result<Userfault, i32>) -> Option<Userfault> {
    let opened = |userfault: Result<_, i32>| userfault.map_err(std::io::Error::from_raw_os_error);
    userfaultfd().then(|| opened(userfault).expect("this machine can"))
}

fn registered(memory: &Memory, slots: usize) -> Option<Userfault> {
    let mut userfault = userfault(slots)?;
    userfault.register(memory.span()).expect("registered");
    Some(userfault)
}

/// Waits for an event of some kind.
fn wait_for(userfault: &mut Userfault, is_it: impl Fn(Event) -> bool) -> Event {
    let began = Instant::now();
    loop {
        match userfault.next_event() {
            Some(event) if is_it(event) => return event,
            Some(_) => {}
            None => thread::sleep(Duration::from_millis(1)),
        }
        assert!(began.elapsed() < Duration::from_secs(20), "no such event");
    }
}

#[test]
fn who_touches_a_page_that_is_out_waits_until_it_is_back() {
    let _alone = takes_pages_out();
    let memory = Memory::new(8);
    let Some(mut userfault) = registered(&memory, 4) else { return };
    assert_eq!(userfault.take_out(memory.vpn(3), 1), Taken::Out);
    assert_eq!(userfault.take_out(memory.vpn(3), 2), Taken::Absent);
    assert_eq!(userfault.take_out(memory.vpn(4), 1), Taken::Refused, "the slot is not empty");
    assert_eq!(userfault.unregister(memory.span()), Err(libc::EBUSY));
    assert_eq!(userfault.empty_slots(), Err(libc::EBUSY));
    assert!(!userfault.zero(memory.vpn(3)), "it is not empty, but out");
    thread::scope(|scope| {
        let reader = scope.spawn(|| memory.holds(3, 1003));
        let touched = wait_for(&mut userfault, |event| matches!(event, Event::Touched { .. }));
        let expected = Event::Touched { page: memory.vpn(3), write: false };
        assert_eq!(touched, expected);
        assert!(!reader.is_finished());
        assert_eq!(userfault.put_back(1), Back::There);
        assert!(reader.join().expect("no panic"));
    });
    assert_eq!(userfault.put_back(1), Back::Nothing);
    // All are put back where the descriptor is closed.
    assert_eq!(userfault.take_out(memory.vpn(0), 0), Taken::Out);
    drop(userfault);
    assert!(memory.whole());
}

#[test]
fn system_calls_wait_too() {
    let _alone = takes_pages_out();
    let memory = Memory::new(2);
    let Some(mut userfault) = registered(&memory, 1) else { return };
    assert_eq!(userfault.take_out(memory.vpn(1), 0), Taken::Out);
    let (read, write) = rustix::pipe::pipe().expect("a pipe");
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            use std::os::fd::AsRawFd;
            // SAFETY: writes what is in the test's memory.
            unsafe { libc::write(write.as_raw_fd(), memory.page(1), 8) }
        });
        wait_for(&mut userfault, |event| matches!(event, Event::Touched { .. }));
        assert_eq!(userfault.put_back(0), Back::There);
        assert_eq!(writer.join().expect("no panic"), 8);
    });
    let mut bytes = [0; 8];
    rustix::io::read(&read, &mut bytes).expect("written");
    assert_eq!(u64::from_ne_bytes(bytes), 1001);
}

#[test]
fn what_cannot_be_taken_stays() {
    let _alone = takes_pages_out();
    let memory = Memory::new(4);
    let Some(mut userfault) = userfault(2) else { return };
    assert_eq!(userfault.take_out(memory.vpn(0), 0), Taken::Refused, "not registered");
    userfault.register(memory.span()).expect("registered");
    // SAFETY: the page is the test's.
    unsafe { libc::mlock(memory.page(0), PAGE) };
    assert_eq!(userfault.take_out(memory.vpn(0), 0), Taken::Refused, "locked");
    // A child that lives has the pages, too.
    let (read, write) = rustix::pipe::pipe().expect("a pipe");
    let pid = in_forked_child(|| {
        drop(write);
        u8::from(rustix::io::read(&read, &mut [0; 1]).is_err())
    });
    let pid = Pid::from_raw(pid.expect("a child") as i32).expect("one");
    assert_eq!(userfault.take_out(memory.vpn(1), 0), Taken::Shared);
    drop((read, userfault));
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    waitpid(Some(pid), WaitOptions::empty()).expect("ours");
    assert!(memory.whole());
}

/// In a process of its own; the exit code.
fn alone(test: impl FnOnce() -> u8) -> i32 {
    let pid = in_forked_child(test).expect("a child");
    let waited = waitpid(Pid::from_raw(pid as i32), WaitOptions::empty());
    let (_, status) = waited.expect("ours").expect("it has ended");
    status
        .exit_status()
        .unwrap_or_else(|| panic!("ended by signal {:?}", status.terminating_signal()))
}

#[test]
fn a_copy_of_the_process_has_what_is_out() {
    let _alone = takes_pages_out();
    let code = alone(|| {
        let memory = Memory::new(600);
        let Some(mut userfault) = opened(Userfault::open(8)) else { return 2 };
        if !userfault.sees_copies() {
            return 2;
        }
        userfault.register(memory.span()).expect("registered");
        for slot in 0..8 {
            assert_eq!(userfault.take_out(memory.vpn(slot * 70), slot), Taken::Out);
        }
        let forks = AtomicU64::new(0);
        let code = thread::scope(|scope| {
            let child = scope.spawn(|| alone(|| u8::from(!memory.whole())));
            while !child.is_finished() {
                if userfault.next_event() == Some(Event::Forked) {
                    forks.fetch_add(1, Ordering::Relaxed);
                }
            }
            child.join().expect("no panic")
        });
        userfault.put_all_back();
        u8::from(code != 0 || forks.into_inner() != 1 || !memory.whole())
    });
    match code {
        2 => skip(Requirement::Userfaultfd, "no right to see copies of the process"),
        code => assert_eq!(code, 0, "the child has other contents"),
    }
}

#[test]
fn what_the_program_does_to_its_memory_holds_for_pages_that_are_out() {
    let _alone = takes_pages_out();
    let memory = Memory::new(64);
    let elsewhere = Memory::new(8);
    let Some(mut userfault) = registered(&memory, 8) else { return };
    let in_another_thread = |userfault: &mut Userfault, call: &(dyn Fn() -> bool + Sync)| {
        thread::scope(|scope| {
            let caller = scope.spawn(call);
            while !caller.is_finished() {
                userfault.next_event();
            }
            assert!(caller.join().expect("no panic"));
        });
    };
    let out = |userfault: &mut Userfault, page: usize| {
        userfault.empty_slots().expect("nothing is out");
        assert_eq!(userfault.take_out(memory.vpn(page), 0), Taken::Out);
    };
    out(&mut userfault, 0);
    // SAFETY: all of this concerns the test's own mappings.
    in_another_thread(&mut userfault, &|| unsafe {
        libc::madvise(memory.page(0), PAGE, libc::MADV_DONTNEED) == 0
    });
    assert_eq!(userfault.put_back(0), Back::Nothing);
    assert_eq!(userfault.take_out(memory.vpn(0), 1), Taken::Refused, "its contents may go");
    assert!(userfault.zero(memory.vpn(0)) && memory.holds(0, 0));

    out(&mut userfault, 10);
    in_another_thread(&mut userfault, &|| unsafe { libc::munmap(memory.page(10), PAGE) == 0 });
    assert_eq!(userfault.put_back(0), Back::Nothing);
    let remapped = |from: usize, flags| unsafe {
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | flags;
        let to = elsewhere.page(from - 20);
        libc::mremap(memory.page(from), PAGE, PAGE, flags, to) == to
    };
    for (from, flags) in [(20, 0), (21, libc::MREMAP_DONTUNMAP)] {
        out(&mut userfault, from);
        in_another_thread(&mut userfault, &|| remapped(from, flags));
        assert_eq!(userfault.put_back(0), Back::There);
        assert!(elsewhere.holds(from - 20, 1000 + from as u64));
    }
    out(&mut userfault, 30);
    in_another_thread(&mut userfault, &|| unsafe {
        libc::mprotect(memory.page(30), PAGE, libc::PROT_READ) == 0
    });
    assert_eq!(userfault.put_back(0), Back::Copied);
    out(&mut userfault, 31);
    in_another_thread(&mut userfault, &|| unsafe {
        libc::mprotect(memory.page(31), PAGE, libc::PROT_NONE) == 0
            && libc::mprotect(memory.page(32), PAGE, libc::PROT_NONE) == 0
    });
    assert_eq!(userfault.put_back(0), Back::Copied);
    assert_eq!(userfault.take_out(memory.vpn(32), 1), Taken::Refused);
    // SAFETY: as above.
    unsafe { libc::mprotect(memory.page(31), 2 * PAGE, libc::PROT_READ) };
    drop(userfault);
    for page in (1..64).filter(|page| ![10, 20, 21].contains(page)) {
        assert!(memory.holds(page, 1000 + page as u64), "{page}");
    }
    assert!(memory.holds(21, 0), "moved away");
}

#[test]
fn what_is_mapped_after_its_surroundings_were_registered_is_left_alone() {
    let _alone = takes_pages_out();
    let memory = Memory::new(8);
    let elsewhere = Memory::new(1);
    let Some(mut userfault) = userfault(8) else { return };
    let (mapped, rights) = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, libc::PROT_READ);
    let fixed = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: the test's own mappings.
    unsafe {
        assert_eq!(libc::munmap(memory.page(3), PAGE), 0);
        let away = elsewhere.page(0);
        assert_eq!(libc::mremap(memory.page(5), PAGE, PAGE, mapped, away), away);
    }
    userfault.register(memory.span()).expect("holes are no obstacle");
    // SAFETY: as above.
    unsafe {
        let (at, rights) = (memory.page(3), rights | libc::PROT_WRITE);
        assert_eq!(libc::mmap(at, PAGE, rights, fixed, -1, 0), at);
        let at = memory.page(5);
        assert_eq!(libc::mremap(elsewhere.page(0), PAGE, PAGE, mapped, at), at);
    }
    memory.fill(3, 1003);
    let taken: Vec<Taken> = (2..7).map(|page| userfault.take_out(memory.vpn(page), page)).collect();
    use Taken::{Out, Refused};
    assert_eq!(taken, [Out, Refused, Out, Refused, Out]);
    assert!(memory.holds(3, 1003) && memory.holds(5, 1005));
    userfault.register(memory.span()).expect("registered");
    assert_eq!(userfault.take_out(memory.vpn(3), 3), Out);
    drop(userfault);
    assert!(memory.whole());
}

#[test]
fn a_page_that_is_mapped_to_where_registration_ends_is_put_back_there() {
    let _alone = takes_pages_out();
    let memory = Memory::new(8);
    let Some(mut userfault) = registered(&memory, 1) else { return };
    assert_eq!(userfault.take_out(memory.vpn(0), 0), Taken::Out);
    let rest = Span::new(memory.vpn(4), 4);
    let (ended, whole) = thread::scope(|scope| {
        // SAFETY: the test's own mapping; nobody else uses these pages meanwhile.
        let mover = scope.spawn(|| unsafe {
            let (flags, to) = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, memory.page(6));
            libc::mremap(memory.page(0), PAGE, PAGE, flags, to) == to && memory.holds(6, 1000)
        });
        while !userfault.are_mappings_changing() {
            thread::yield_now();
        }
        let before = userfault.unregister(rest);
        wait_for(&mut userfault, |event| matches!(event, Event::Remapped { .. }));
        let after = userfault.unregister(rest);
        while !mover.is_finished() {
            userfault.next_event();
            userfault.put_back(0);
        }
        ([before, after, userfault.unregister(rest)], mover.join().expect("no panic"))
    });
    assert_eq!((ended, whole), ([Err(libc::EBUSY), Err(libc::EBUSY), Ok(())], true));
}

#[test]
fn replaced_pages_lose_no_store_and_lie_side_by_side() {
    let _alone = takes_pages_out();
    const HOT: usize = 512;
    let memory = Memory::new(HOT * 3);
    let Some(mut userfault) = registered(&memory, HOT) else { return };
    let mut block = Block::new().expect("memory");
    let target = Target::open(&Root::system(), std::process::id()).expect("runs");
    let mut pagemap = Pagemap::open(&target).expect("ours");
    let huge = pagemap.is_huge(block.span().start).expect("read");
    let stop = AtomicBool::new(false);
    let written: Vec<u64> = thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let (memory, stop) = (&memory, &stop);
                scope.spawn(move || {
                    let mut value = 0;
                    while !stop.load(Ordering::Relaxed) {
                        value += 1;
                        for page in 0..HOT {
                            memory.word(page * 3, writer).store(value, Ordering::Relaxed);
                        }
                    }
                    value
                })
            })
            .collect();
        let last = HOT * 3 - 3;
        let begun =
            |writer| memory.word(last, writer).load(Ordering::Relaxed) != 1000 + last as u64;
        while !(begun(0) && begun(1)) {
            thread::yield_now();
        }
        for page in 0..HOT {
            assert_eq!(userfault.take_out(memory.vpn(page * 3), page), Taken::Out);
            assert_eq!(userfault.replace(page, &mut block), Back::There);
        }
        assert!(block.is_full());
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().expect("no panic")).collect()
    });
    userfault.empty_slots().expect("none is out");
    drop(userfault);
    for page in 0..HOT {
        for (word, value) in written.iter().enumerate() {
            assert_eq!(memory.word(page * 3, word).load(Ordering::Relaxed), *value, "{page}");
        }
        assert_eq!(memory.word(page * 3, 2).load(Ordering::Relaxed), 1000 + page as u64 * 3);
    }
    let frame = |page: usize, pagemap: &mut Pagemap| {
        pagemap.page(memory.vpn(page * 3)).expect("read").pfn()
    };
    match frame(0, &mut pagemap) {
        Some(first) if huge => {
            assert_eq!(first % 512, 0);
            assert!((0..HOT).all(|page| frame(page, &mut pagemap) == Some(first + page as u64)));
        }
        _ => skip(Requirement::HugePages, "no huge folio, or no right to see frames"),
    }
}

#[test]
fn writes_are_noted_page_by_page() {
    let _alone = takes_pages_out();
    let memory = Memory::new(64);
    let mut writes = match Writes::open() {
        Ok(writes) => writes,
        Err(errno) => return skip(Requirement::Userfaultfd, format!("error {errno}")),
    };
    let target = Target::open(&Root::system(), std::process::id()).expect("runs");
    let mut pagemap = Pagemap::open(&target).expect("ours");
    writes.watch(memory.span()).expect("registered");
    let mut written = |writes: &mut Writes| {
        let mut spans = Vec::new();
        writes.take(&mut pagemap, &mut spans).expect("read");
        spans
    };
    assert_eq!(written(&mut writes), [memory.span()], "all at first");
    assert_eq!(written(&mut writes), []);
    memory.fill(7, 1007);
    memory.fill(8, 1008);
    assert!(memory.whole());
    assert_eq!(written(&mut writes), [Span::new(memory.vpn(7), 2)]);
    // What is mapped anew is not watched; the rest is.
    // SAFETY: the page is the test's.
    unsafe {
        let (rights, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        libc::mmap(memory.page(9), PAGE, rights, flags | libc::MAP_FIXED, -1, 0);
    }
    memory.fill(9, 1009);
    memory.fill(10, 1010);
    assert_eq!(written(&mut writes), [Span::new(memory.vpn(10), 1)]);
    assert_eq!(written(&mut writes), []);
    drop(writes);
    assert!(memory.whole());
}

/// Two kinds of threads use memory, and one takes all of its pages out and puts them back elsewhere,
/// all the time, as an agent does: with a table of files of its own, and without allocating.
#[test]
fn nothing_is_lost_whatever_the_program_does_meanwhile() {
    let _alone = takes_pages_out();
    const PAGES: usize = 256;
    const MOVED: u64 = 500;
    const EVENTS: u64 = 10;
    const LEAST: Duration = Duration::from_secs(3);
    const MOST: Duration = Duration::from_secs(12);
    let code = alone(|| {
        // The first half is written all the time; whole pages of the second one come and go.
        let memory = Memory::new(2 * PAGES);
        let (stop, moved, events) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
        let done = thread::scope(|scope| {
            scope.spawn(|| move_about(&memory, &stop, &moved, &events));
            let writers: Vec<_> = (0..2)
                .map(|writer| {
                    let (memory, stop) = (&memory, &stop);
                    scope.spawn(move || write_words(memory, writer, PAGES, stop))
                })
                .collect();
            let odd = scope.spawn(|| odd_habits(&memory, PAGES, &stop));
            let (began, count) = (Instant::now(), |n: &AtomicU64| n.load(Ordering::Relaxed));
            thread::sleep(LEAST);
            // A slow machine takes longer; one that can move nothing has been found out by now.
            while count(&moved) > 0
                && (count(&moved) < MOVED || count(&events) < EVENTS)
                && began.elapsed() < MOST
            {
                thread::sleep(Duration::from_millis(100));
            }
            stop.store(true, Ordering::Relaxed);
            let writers = writers.into_iter().map(|writer| writer.join().expect("no panic"));
            let whole: Vec<bool> = writers.collect();
            match (whole.into_iter().all(|whole| whole), odd.join().expect("no panic")) {
                (true, None) => 0,
                (false, _) => 1,
                (true, Some(habit)) => ODD + habit,
            }
        });
        let (moved, events) = (moved.into_inner(), events.into_inner());
        match (done, moved) {
            (0, 0) => 2,
            (0, _) => u8::from(moved < MOVED || events < EVENTS) * 3,
            (lost, _) => lost,
        }
    });
    match code {
        2 => skip(Requirement::Userfaultfd, "nothing can be moved here"),
        3 => panic!("pages were hardly moved, or nobody came in between"),
        0 => {}
        1 => panic!("what a writer had written was lost"),
        code => panic!("contents were lost after habit {}", code - i32::from(ODD)),
    }
}

/// Exit codes of what was lost by a habit begin here.
const ODD: u8 = 10;

fn move_about(memory: &Memory, stop: &AtomicBool, moved: &AtomicU64, events: &AtomicU64) {
    // SAFETY: takes a number.
    unsafe { libc::unshare(libc::CLONE_FILES) };
    let mut removed: Vec<(Span, Instant)> = Vec::with_capacity(4096);
    let mut batches = (0..memory.pages / 16).cycle();
    while !stop.load(Ordering::Relaxed) {
        let (Ok(mut userfault), Ok(mut block)) = (Userfault::open(512), Block::new()) else {
            return;
        };
        // Contents go after the event that tells of it: how long after is up to the scheduler.
        removed.retain(|(_, when)| when.elapsed() < Duration::from_secs(10));
        for batch in batches.by_ref().take(8) {
            let mut slot = batch * 16;
            // What is unmapped now is not registered at all.
            if userfault.register(memory.span()).is_err() {
                continue;
            }
            for page in batch * 16..batch * 16 + 16 {
                let page = memory.vpn(page);
                if removed.iter().any(|(span, _)| span.contains(page)) {
                    continue;
                }
                if userfault.take_out(page, slot) == Taken::Out {
                    if userfault.replace(slot, &mut block) == Back::There {
                        moved.fetch_add(1, Ordering::Relaxed);
                    }
                    slot += 1;
                }
            }
            drain_events(&mut userfault, &mut removed, events);
            let _ = userfault.unregister(memory.span());
            drain_events(&mut userfault, &mut removed, events);
        }
    }
}

fn drain_events(userfault: &mut Userfault, removed: &mut Vec<(Span, Instant)>, events: &AtomicU64) {
    while let Some(event) = userfault.next_event() {
        // Who only waits has not come in between.
        let between = !matches!(event, Event::Touched { .. });
        events.fetch_add(between.into(), Ordering::Relaxed);
        if let Event::Removed(span) = event {
            removed.retain(|(known, _)| *known != span);
            assert!(removed.len() < removed.capacity(), "as many spans as pages");
            removed.push((span, Instant::now()));
        }
    }
}

/// Raises the numbers of one writer in the first pages, and sees each again.
fn write_words(memory: &Memory, writer: usize, pages: usize, stop: &AtomicBool) -> bool {
    let mut value = 1_000_000;
    let mut last = vec![None; pages];
    while !stop.load(Ordering::Relaxed) {
        value += 1;
        for (page, last) in last.iter_mut().enumerate() {
            let word = memory.word(page, writer * 7);
            if last.is_some_and(|last| word.load(Ordering::Relaxed) != last) {
                return false;
            }
            word.store(value, Ordering::Relaxed);
            *last = Some(value);
        }
    }
    true
}

/// Does to the other pages, one after the other, all that a program may do; says what has lost
/// contents.
fn odd_habits(memory: &Memory, from: usize, stop: &AtomicBool) -> Option<u8> {
    let elsewhere = Memory::new(1);
    let fixed = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    for turn in 0_usize.. {
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        let (page, value) = (from + turn * 7 % (memory.pages - from), 1000 + turn as u64);
        let at = memory.page(page);
        memory.fill(page, value);
        // SAFETY: all of this concerns the test's own mappings, which nobody else looks into.
        let whole = unsafe {
            match turn % 8 {
                0 => libc::madvise(at, PAGE, libc::MADV_DONTNEED) == 0 && memory.holds(page, 0),
                1 => {
                    libc::munmap(at, PAGE) == 0
                        && libc::mmap(at, PAGE, rights, fixed, -1, 0) == at
                        && memory.holds(page, 0)
                }
                2 => libc::mmap(at, PAGE, rights, fixed, -1, 0) == at && memory.holds(page, 0),
                3 => {
                    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
                    let away = elsewhere.page(0);
                    // A page with neighbours that are registered apart is no whole mapping: refused.
                    let there = libc::mremap(at, PAGE, PAGE, flags, away) == away;
                    let whole =
                        if there { elsewhere.holds(0, value) } else { memory.holds(page, value) };
                    let back = !there || libc::mremap(away, PAGE, PAGE, flags, at) == at;
                    let again = libc::mmap(away, PAGE, rights, fixed, -1, 0) == away;
                    whole && back && again && memory.holds(page, value)
                }
                4 => {
                    libc::mprotect(at, PAGE, libc::PROT_READ) == 0
                        && memory.holds(page, value)
                        && libc::mprotect(at, PAGE, rights) == 0
                        && memory.holds(page, value)
                }
                5 if turn % 64 == 5 => alone(|| u8::from(!memory.holds(page, value))) == 0,
                6 => {
                    libc::mlock(at, PAGE) == 0
                        && memory.holds(page, value)
                        && libc::munlock(at, PAGE) == 0
                }
                _ => memory.holds(page, value),
            }
        };
        if !whole {
            return Some(turn as u8 % 8);
        }
    }
    None
}
