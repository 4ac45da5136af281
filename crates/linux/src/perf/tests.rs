use super::faults::{FaultKind, FaultSample, FaultSampler};
use super::{Lifecycle, Start, monotonic_ns};
use crate::root::Root;
use crate::sys::fork::in_forked_child;
use frostline_testing::{Requirement, skip};
use rustix::process::{Pid, Resource, Rlimit, WaitOptions, setrlimit, waitpid};
use std::collections::HashMap;
use std::io::Write;
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const PAGE: usize = 4096;

/// None, said why, where this user may not watch even itself. A touch brings in one page only
/// from now on.
fn sampler(kind: FaultKind) -> Option<FaultSampler> {
    rustix::thread::disable_transparent_huge_pages(true).expect("every kernel can");
    FaultSampler::new(&Root::system(), kind)
        .inspect_err(|error| skip(Requirement::Faults, error))
        .ok()
}

/// Touches each page of fresh memory once; returns its address range.
fn touch(pages: usize) -> std::ops::Range<u64> {
    let mut memory = memmap2::MmapMut::map_anon(pages * PAGE).expect("there is memory");
    for page in memory.chunks_mut(PAGE) {
        page[PAGE / 2] = 1;
    }
    let start = memory.as_ptr() as u64;
    start..start + (pages * PAGE) as u64
}

fn poll(sampler: &mut FaultSampler) -> Vec<FaultSample> {
    let mut samples = Vec::new();
    sampler.poll(&mut |sample| samples.push(sample));
    samples
}

fn shell(script: &str) -> Child {
    Command::new("sh")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("a shell is there")
}

/// Polls until the main thread of `pid` is known to have ended.
fn poll_to_exit(sampler: &mut FaultSampler, pid: u32) -> (Vec<FaultSample>, Vec<Lifecycle>) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let (mut samples, mut lifecycle) = (Vec::new(), Vec::new());
    while !lifecycle.iter().any(|l| matches!(l, Lifecycle::Exited { pid: p, .. } if *p == pid)) {
        assert!(Instant::now() < deadline, "the exit of {pid} was not seen: {lifecycle:?}");
        samples.extend(poll(sampler));
        lifecycle.extend(sampler.take_lifecycle());
        std::thread::sleep(Duration::from_millis(1));
    }
    (samples, lifecycle)
}

/// Whether it executed a program, in the last minute.
fn executed(lifecycle: &[Lifecycle], pid: u32) -> bool {
    let now_ns = monotonic_ns();
    let lately = now_ns.saturating_sub(60_000_000_000)..now_ns;
    lifecycle.iter().any(|life| match life {
        Lifecycle::Executed { pid: p, time_ns } => *p == pid && lately.contains(time_ns),
        _ => false,
    })
}

/// Checks that every page of `range` was reported for the thread, and (nearly) none twice: when
/// another test forks between a fault and the touch that it was for, the touch faults again.
fn check_exact(samples: &[FaultSample], tid: u32, range: &std::ops::Range<u64>) {
    let mut seen: HashMap<u64, u32> = HashMap::new();
    for sample in samples.iter().filter(|s| s.tid == tid && range.contains(&s.address)) {
        *seen.entry(sample.address / PAGE as u64).or_default() += 1;
    }
    assert_eq!(seen.len() as u64, (range.end - range.start) / PAGE as u64, "of thread {tid}");
    let twice = seen.values().filter(|times| **times > 1).count();
    assert!(twice <= seen.len().div_ceil(20), "{twice} of {} were reported twice", seen.len());
}

fn own_tid() -> u32 {
    rustix::thread::gettid().as_raw_pid() as u32
}

#[test]
fn every_first_touch_of_old_and_new_threads_is_seen_once() {
    const PAGES: usize = 10_000;
    let Some(mut sampler) = sampler(FaultKind::All) else { return };
    let (attach, attached) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    let old = std::thread::spawn(move || {
        attach.send(own_tid()).expect("the test waits");
        wait.recv().expect("the test goes on");
        let range = touch(PAGES);
        wait.recv().expect("the test goes on");
        let new = std::thread::spawn(|| (own_tid(), touch(PAGES)));
        (range, new.join().expect("no panic"))
    });
    let tid = attached.recv().expect("the thread lives");
    sampler.attach_thread(tid);
    go.send(()).expect("the thread waits");
    let mut samples = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(20);
    while samples.len() < PAGES {
        assert!(Instant::now() < deadline, "only {} faults", samples.len());
        samples.extend(poll(&mut sampler));
    }
    go.send(()).expect("the thread waits");
    let (old_range, (new_tid, new_range)) = old.join().expect("no panic");
    samples.extend(poll(&mut sampler));
    assert_eq!(sampler.lost(), 0, "each ring has room for more than one thread touches");
    check_exact(&samples, tid, &old_range);
    check_exact(&samples, new_tid, &new_range);
    let cost = sampler.cost();
    assert_eq!((cost.malformed, cost.samples), (0, samples.len() as u64));
    assert!(cost.bytes >= cost.samples * 32);
}

#[test]
fn all_threads_of_a_process_are_watched() {
    let Some(mut sampler) = sampler(FaultKind::All) else { return };
    let (orders, threads): (Vec<_>, Vec<_>) = (0..3)
        .map(|_| {
            let (order, orders) = mpsc::channel::<()>();
            let thread = std::thread::spawn(move || {
                orders.iter().for_each(|()| {
                    touch(10);
                });
                own_tid()
            });
            (order, thread)
        })
        .unzip();
    let pid = std::process::id();
    let attached = sampler.attach(&Root::system(), pid, Start::Now);
    assert!(attached.expect("we may watch ourselves") > 3);
    let mut seen = HashMap::new();
    let deadline = Instant::now() + Duration::from_secs(20);
    // Other tests' threads, which are watched as well, may leave no room at times.
    for _ in 0..20 {
        orders.iter().for_each(|order| order.send(()).expect("the thread waits"));
        std::thread::sleep(Duration::from_millis(5));
        for sample in poll(&mut sampler) {
            *seen.entry(sample.tid).or_insert(0) += 1;
        }
        assert!(Instant::now() < deadline);
    }
    drop(orders);
    for thread in threads {
        let tid = thread.join().expect("no panic");
        assert!(seen.get(&tid).is_some_and(|faults| *faults >= 10), "thread {tid}: {seen:?}");
    }
}

#[test]
fn children_are_watched_and_their_lives_told() {
    let root = Root::system();
    let Some(mut sampler) = sampler(FaultKind::All) else { return };
    let mut child = shell("read x; (true); exec cat /dev/null");
    let pid = child.id();
    assert_eq!(sampler.attach(&root, pid, Start::Now).expect("a child may be watched"), 1);
    child.stdin.take().expect("a pipe").write_all(b"\n").expect("it reads");
    let (samples, lifecycle) = poll_to_exit(&mut sampler, pid);
    child.wait().expect("it ends");
    let children: Vec<u32> = lifecycle
        .iter()
        .filter_map(|l| match l {
            Lifecycle::Forked { parent, child, .. } if *parent == pid => Some(*child),
            _ => None,
        })
        .collect();
    assert_eq!(children.len(), 1, "{lifecycle:?}");
    assert!(executed(&lifecycle, pid), "{lifecycle:?}");
    for pid in [pid, children[0]] {
        assert!(samples.iter().any(|s| s.pid == pid), "no faults of {pid}");
    }
    assert!(samples.iter().all(|s| s.pid == pid || children.contains(&s.pid)));
    assert_eq!((sampler.threads(), sampler.attached()), (0, 0), "nothing is kept of the dead");
}

#[test]
fn where_the_whole_system_is_watched_only_our_processes_count() {
    let root = Root::system();
    if sampler(FaultKind::All).is_none() {
        return;
    }
    let mut sampler = FaultSampler::with_ring_bytes(&root, FaultKind::All, 8 << 20)
        .expect("with smaller rings it worked");
    if let Err(error) = sampler.watch_system() {
        return skip(Requirement::Faults, error);
    }
    assert!(sampler.is_system_wide());
    let mut other = shell("read x; cat /dev/null");
    let mut child = shell("read x; (cat /dev/null; (cat /dev/null; true); true); exec true");
    let pid = child.id();
    assert_eq!(sampler.attach(&root, pid, Start::Now).expect("it runs"), 1);
    for process in [&mut other, &mut child] {
        process.stdin.take().expect("a pipe").write_all(b"\n").expect("it reads");
    }
    other.wait().expect("it ends");
    let (samples, lifecycle) = poll_to_exit(&mut sampler, pid);
    child.wait().expect("it ends");
    let mut ours = vec![pid];
    for life in &lifecycle {
        if let Lifecycle::Forked { parent, child, .. } = life {
            assert!(ours.contains(parent), "{lifecycle:?}");
            ours.push(*child);
        }
    }
    assert!(ours.len() >= 4 && !ours.contains(&other.id()), "{lifecycle:?}");
    assert_eq!(sampler.lost(), 0, "the rings have room for 250 000 faults each");
    assert!(ours.iter().all(|pid| samples.iter().any(|sample| sample.pid == *pid)));
    assert!(samples.iter().all(|sample| ours.contains(&sample.pid)));
    assert!(executed(&lifecycle, pid));
    assert_eq!(sampler.rescan(&root).expect("the dead are forgotten"), 0);
}

#[test]
fn with_too_few_descriptors_the_whole_system_is_watched() {
    let _forks = frostline_testing::forks();
    let root = Root::system();
    let Some(mut probe) = sampler(FaultKind::All) else { return };
    if let Err(error) = probe.watch_system() {
        return skip(Requirement::Faults, error);
    }
    let (go, wait) = mpsc::channel::<()>();
    let parked = std::thread::spawn(move || wait.recv());
    let parent = std::process::id();
    let pid = in_forked_child(|| {
        let Ok(mut sampler) = FaultSampler::new(&root, FaultKind::All) else { return 2 };
        // Room for one thread of the parent, which has this one, the parked one and the first.
        let free: Result<Vec<_>, _> =
            sampler.fds().iter().map(|_| std::fs::File::open("/proc/self/stat")).collect();
        let Ok(free) = free else { return 3 };
        let last = free.iter().map(|file| file.as_raw_fd()).max();
        let most = last.map_or(0, |last| last as u64 + 1);
        drop(free);
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        if setrlimit(Resource::Nofile, limit).is_err() {
            return 4;
        }
        let attached = sampler.attach(&root, parent, Start::Now);
        u8::from(!attached.is_ok_and(|threads| threads >= 3 && sampler.is_system_wide()))
    })
    .expect("another process is possible");
    let (_, status) = waitpid(Pid::from_raw(pid as i32), WaitOptions::empty())
        .expect("it is ours")
        .expect("it has ended");
    assert_eq!(status.exit_status(), Some(0));
    drop(go);
    assert!(parked.join().expect("no panic").is_err(), "it waited all the time");
}

#[test]
fn threads_that_come_and_go_are_all_seen() {
    const THREADS: u32 = 400;
    const PAGES: usize = 40;
    let Some(mut sampler) = sampler(FaultKind::All) else { return };
    let (samples, ranges) = std::thread::spawn(move || {
        sampler.attach_thread(own_tid());
        let mut samples = Vec::new();
        let mut ranges = Vec::new();
        for _ in 0..THREADS / 4 {
            let threads: Vec<_> =
                (0..4).map(|_| std::thread::spawn(|| (own_tid(), touch(PAGES)))).collect();
            ranges.extend(threads.into_iter().map(|thread| thread.join().expect("no panic")));
            samples.extend(poll(&mut sampler));
        }
        // Ends of threads count when they are a little old.
        std::thread::sleep(Duration::from_millis(20));
        samples.extend(poll(&mut sampler));
        assert_eq!((sampler.lost(), sampler.attached()), (0, 1));
        let deadline = Instant::now() + Duration::from_secs(20);
        while sampler.threads() > 1 {
            assert!(Instant::now() < deadline, "{} threads are left", sampler.threads());
            poll(&mut sampler);
        }
        (samples, ranges)
    })
    .join()
    .expect("no panic");
    assert_eq!(ranges.len(), THREADS as usize);
    for (tid, range) in ranges {
        check_exact(&samples, tid, &range);
    }
}

#[test]
fn watching_can_begin_with_the_program() {
    let root = Root::system();
    let Some(mut sampler) = sampler(FaultKind::All) else { return };
    let mut child = shell("read x; exec cat /dev/null");
    let pid = child.id();
    sampler.attach(&root, pid, Start::OnExec).expect("a child may be watched");
    child.stdin.take().expect("a pipe").write_all(b"\n").expect("it reads");
    let (samples, lifecycle) = poll_to_exit(&mut sampler, pid);
    child.wait().expect("it ends");
    assert!(executed(&lifecycle, pid));
    assert!(samples.iter().any(|s| s.pid == pid), "the new program faults its pages in");
}

#[test]
fn a_thread_that_slipped_through_is_found_once() {
    let root = Root::system();
    let Some(mut sampler) = sampler(FaultKind::All) else { return };
    let mut child = shell("read x");
    let pid = child.id();
    // As if the child had been started by a thread that was not attached to yet.
    sampler.follow(pid);
    assert_eq!(sampler.rescan(&root).expect("it runs"), 0, "might be inherited: wait for a poll");
    assert_eq!(sampler.rescan(&root).expect("it runs"), 0, "no poll between");
    poll(&mut sampler);
    assert_eq!(sampler.rescan(&root).expect("it runs"), 1);
    poll(&mut sampler);
    assert_eq!(sampler.rescan(&root).expect("it runs"), 0, "already watched");
    child.stdin.take().expect("a pipe").write_all(b"\n").expect("it reads");
    let (samples, _) = poll_to_exit(&mut sampler, pid);
    child.wait().expect("it ends");
    assert!(samples.iter().all(|s| s.pid == pid));
}

/// Two threads that touch fresh memory when told to: the first is attached to, the second has
/// inherited its events.
struct Pair {
    orders: [mpsc::Sender<usize>; 2],
    done: mpsc::Receiver<(u32, std::ops::Range<u64>)>,
    old: u32,
}

impl Pair {
    fn start(sampler: &mut FaultSampler) -> Self {
        let (tell, done) = mpsc::channel();
        let (old_order, old_orders) = mpsc::channel::<usize>();
        let (new_order, new_orders) = mpsc::channel::<usize>();
        let (attach, attached) = mpsc::channel();
        let (go, wait) = mpsc::channel::<()>();
        let serve = |orders: mpsc::Receiver<usize>, tell: mpsc::Sender<_>| {
            for pages in orders {
                tell.send((own_tid(), touch(pages))).expect("the test waits");
            }
        };
        std::thread::spawn(move || {
            attach.send(own_tid()).expect("the test waits");
            wait.recv().expect("the test goes on");
            let tell_too = tell.clone();
            std::thread::spawn(move || serve(new_orders, tell_too));
            serve(old_orders, tell);
        });
        let old = attached.recv().expect("the thread lives");
        sampler.attach_thread(old);
        go.send(()).expect("the thread waits");
        Self { orders: [old_order, new_order], done, old }
    }

    /// Samples that a thread's touches of so many pages give, and which thread it was.
    fn touch(&self, sampler: &mut FaultSampler, which: usize, pages: usize) -> (u32, usize) {
        poll(sampler);
        self.orders[which].send(pages).expect("it waits");
        let (tid, range) = self.done.recv().expect("it answers");
        let ours = |sample: &&FaultSample| sample.tid == tid && range.contains(&sample.address);
        (tid, poll(sampler).iter().filter(ours).count())
    }
}

/// The kernel does not change what was inherited: threads that were started while they were watched
/// would go on as before.
#[test]
fn another_period_holds_for_all_threads_and_opens_nothing_twice() {
    const PAGES: usize = 1000;
    let Some(mut sampler) = sampler(FaultKind::All) else { return };
    let pair = Pair::start(&mut sampler);
    let (_, seen) = pair.touch(&mut sampler, 1, PAGES);
    assert!(seen >= PAGES, "{seen}");
    let deadline = Instant::now() + Duration::from_secs(20);
    while sampler.threads() < 2 {
        assert!(Instant::now() < deadline, "the second thread was not told of");
        poll(&mut sampler);
    }
    assert_eq!(sampler.attached(), 1);
    let mut opened = vec![sampler.cost().opened];
    for period in [10, 100, 1] {
        sampler.set_period(NonZeroU64::new(period));
        opened.push(sampler.cost().opened);
        for which in 0..2 {
            let (tid, seen) = pair.touch(&mut sampler, which, PAGES);
            assert_eq!(tid == pair.old, which == 0);
            let fair = PAGES / period as usize;
            // What else a thread faults on counts, too.
            let right = fair.saturating_sub(2)..=fair + fair / 20 + 2;
            assert!(right.contains(&seen), "{seen} samples by thread {which}, one in {period}");
        }
    }
    assert_eq!((sampler.attached(), sampler.threads()), (2, 2));
    let each = opened[0];
    assert_eq!(opened, [each, 3 * each, 3 * each, 3 * each], "both anew, once");
}

#[test]
fn a_pause_takes_no_samples_and_forgets_no_thread() {
    let Some(mut sampler) = sampler(FaultKind::All) else { return };
    let pair = Pair::start(&mut sampler);
    sampler.set_period(None);
    for which in 0..2 {
        assert_eq!(pair.touch(&mut sampler, which, 500).1, 0, "thread {which}");
    }
    sampler.set_period(NonZeroU64::new(1));
    // The second was started before the pause or in it, and may have to be found.
    let deadline = Instant::now() + Duration::from_secs(20);
    for which in 0..2 {
        while pair.touch(&mut sampler, which, 500).1 < 500 {
            assert!(Instant::now() < deadline, "thread {which} stays unseen");
            sampler.rescan(&Root::system()).expect("we may look for threads");
        }
    }
}

#[test]
fn lost_records_are_counted() {
    if sampler(FaultKind::All).is_none() {
        return;
    }
    let mut sampler = FaultSampler::with_ring_bytes(&Root::system(), FaultKind::All, 4096)
        .expect("with larger rings it worked");
    let touched = std::thread::spawn(move || {
        // Attached from inside: only this thread, so that others do not fill the ring.
        sampler.attach_thread(own_tid());
        touch(5000);
        let mut seen = poll(&mut sampler).len() as u64;
        let reported = sampler.lost();
        touch(50);
        seen += poll(&mut sampler).len() as u64;
        sampler.rescan(&Root::system()).expect("there is nobody to look for");
        assert!(reported <= sampler.lost());
        (seen, sampler.lost())
    });
    let (seen, lost) = touched.join().expect("no panic");
    assert!(lost >= 1000, "only {lost} of 5000 lost in rings for 128");
    // A few more are faults of the thread elsewhere, and of pages that another test's fork shares.
    assert!((5050..5500).contains(&(seen + lost)), "{seen} seen, {lost} lost");
}

#[test]
fn a_process_that_is_gone_is_an_error_of_its_own() {
    let Some(mut sampler) = sampler(FaultKind::Major) else { return };
    let mut child = shell("exit");
    child.wait().expect("it ends");
    let error = sampler.attach(&Root::system(), child.id(), Start::Now).expect_err("it has ended");
    assert!(error.is_gone(), "{error}");
}
