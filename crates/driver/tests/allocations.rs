//! Allocations of a real program, in the extents that it asked for: what the engine is told while
//! it maps, grows, moves and gives back memory, forks, and executes another program.

use frostline_core::event::Event;
use frostline_core::types::{Nanos, PAGE_BYTES, PageRun, ProcessId};
use frostline_driver::journal::{self, Entries, Entry};
use frostline_driver::start::Stopwatch;
use frostline_driver::{Driver, Options, Selection, start};
use frostline_linux::perf::tracefs::Tracefs;
use frostline_linux::{Root, in_forked_child};
use frostline_testing::{Requirement, skip};
use rustix::process::{
    Pid, Signal, WaitOptions, kill_process, set_parent_process_death_signal, waitpid,
};
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Above what the allocator ever keeps for later (32 MiB): each is a mapping of its own.
const LEN: usize = 40 << 20;
/// Attempts to have two of them side by side.
const MOST: usize = 16;
/// With the header that the allocator puts before it.
const PAGES: u32 = (LEN as u64 / PAGE_BYTES) as u32 + 1;

/// The program: does one thing for each byte that it reads, and answers it.
fn program(mut orders: &PipeReader, mut answers: &PipeWriter) -> u8 {
    let mut next = || {
        let mut order = [0];
        orders.read_exact(&mut order).map(|()| order[0])
    };
    let mut done = |number: usize| answers.write_all(&[number as u8]);
    let mut work = || -> std::io::Result<()> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        next()?;
        let mut others = vec![Vec::<u8>::with_capacity(LEN)];
        let mut grown = Vec::<u8>::with_capacity(LEN);
        // The kernel fills gaps first.
        while grown.as_ptr().addr() + PAGES as usize * PAGE_BYTES as usize
            != others[others.len() - 1].as_ptr().addr()
            && others.len() < MOST
        {
            others.push(std::mem::replace(&mut grown, Vec::with_capacity(LEN)));
        }
        let mut low = others.pop().unwrap_or_default();
        low.resize(LEN, 1_u8);
        grown.resize(LEN, 2_u8);
        done(others.len() + 2)?;
        next()?;
        // Above it is the other one: it has to move.
        grown.reserve_exact(2 * LEN - grown.len());
        done(0)?;
        next()?;
        drop(low);
        done(0)?;
        next()?;
        let child = in_forked_child(|| {
            let mut forked = || -> std::io::Result<()> {
                set_parent_process_death_signal(Some(Signal::KILL))?;
                let own = vec![3_u8; LEN];
                done(0)?;
                next()?;
                drop(own);
                Err(Command::new("/bin/sleep").arg("100").exec())
            };
            u8::from(forked().is_err())
        });
        let child = child.map_err(std::io::Error::other)?;
        let _ = waitpid(Pid::from_raw(child as i32), WaitOptions::empty());
        drop(grown);
        Ok(())
    };
    u8::from(work().is_err())
}

struct Watched {
    pid: u32,
    orders: PipeWriter,
    answers: PipeReader,
}

impl Watched {
    fn start() -> Self {
        let (read, orders) = pipe().expect("a pipe");
        let (answers, write) = pipe().expect("a pipe");
        let pid = in_forked_child(|| program(&read, &write)).expect("another process");
        Self { pid, orders, answers }
    }

    fn order(&mut self) -> u64 {
        self.orders.write_all(b"x").expect("it reads");
        let mut answer = [0];
        self.answers.read_exact(&mut answer).expect("it answers");
        answer[0].into()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.pid as i32) {
            let _ = kill_process(pid, Signal::KILL);
            let _ = waitpid(Some(pid), WaitOptions::empty());
        }
    }
}

/// Lets the driver go on until something is so.
fn until(driver: &mut Driver, clock: Stopwatch, is_so: impl Fn(&Driver) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so(driver) {
        assert!(Instant::now() < deadline, "{:?}", driver.status("test"));
        driver.step(clock.elapsed()).expect("it goes on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn mapped(driver: &Driver, index: usize) -> u64 {
    driver.status("test").targets.get(index).map_or(0, |target| target.mapped_bytes)
}

fn run(pages: u64) -> u64 {
    pages * PAGE_BYTES
}

fn events(path: &Path) -> Vec<Event> {
    let mut entries = Entries::open(path).expect("a journal");
    let mut events = Vec::new();
    while let Some(entry) = entries.next_entry().expect("not damaged") {
        if let Entry::Events(_, batch) = entry {
            events.extend(batch);
        }
    }
    events
}

/// Extents of so many pages that a process has mapped. Blocks of 2 MiB that neighbours share have
/// been numbered already: such an extent comes in two runs, one after the other.
fn extents(events: &[Event], pid: u32, pages: u32) -> Vec<Vec<PageRun>> {
    let mut found: Vec<Vec<PageRun>> = Vec::new();
    let mut before: Option<PageRun> = None;
    for event in events {
        let run = match event {
            Event::Mapped { run, process: ProcessId(process), .. } if *process == pid => *run,
            _ => {
                before = None;
                continue;
            }
        };
        match before.take() {
            Some(before) if before.pages + run.pages == pages => found.push(vec![before, run]),
            _ if run.pages == pages => found.push(vec![run]),
            _ => before = Some(run),
        }
    }
    found
}

#[test]
fn the_engine_is_told_of_extents_as_they_were_asked_for() {
    let root = Root::system();
    if Tracefs::find(&root).is_err() {
        return again_with_tracefs();
    }
    let folder = tempfile::tempdir().expect("a folder");
    let journal = folder.path().join("journal");
    let mut program = Watched::start();
    let options = Options {
        policy: "first-touch".parse().unwrap(),
        fast: "100%".parse().ok(),
        cpu_limit: "50%".parse().unwrap(),
        settling_cpu_limit: "50%".parse().unwrap(),
        journal: Some(journal.clone()),
        extents: true,
        ..Options::default()
    };
    let selection = Selection::Process { pid: program.pid, tree: true };
    let (mut driver, notes) = match start(root.clone(), options, selection) {
        Ok(started) => started,
        Err(error) => return skip(Requirement::Tracefs, error),
    };
    assert!(notes.iter().any(|note| note.contains("allocations are followed")), "{notes:?}");
    let clock = Stopwatch::start();
    until(&mut driver, clock, |driver| mapped(driver, 0) > 0);
    let before = mapped(&driver, 0);
    let pages = u64::from(PAGES);

    let count = program.order();
    until(&mut driver, clock, |driver| mapped(driver, 0) == before + run(count * pages));
    let maps = root.read(format!("/proc/{}/maps", program.pid)).expect("it runs");
    let joined = maps.lines().any(|line| {
        let (start, end) =
            line.split_once(' ').and_then(|(range, _)| range.split_once('-')).unwrap();
        let number = |text| u64::from_str_radix(text, 16).expect("an address");
        number(end) - number(start) >= run(2 * pages)
    });
    assert!(joined, "the kernel shows both as one mapping:\n{maps}");
    let resident = |driver: &Driver| driver.status("test").footprint_bytes;
    until(&mut driver, clock, |driver| resident(driver) >= run(2 * pages));

    program.order();
    let grown = before + run((count + 1) * pages - 1);
    until(&mut driver, clock, |driver| mapped(driver, 0) == grown);
    assert!(resident(&driver) >= run(2 * pages), "pages that move are known at once");

    program.order();
    until(&mut driver, clock, |driver| mapped(driver, 0) == grown - run(pages));

    program.order();
    until(&mut driver, clock, |driver| mapped(driver, 1) == mapped(driver, 0) + run(pages));
    let child = driver.status("test").targets[1].pid;
    program.orders.write_all(b"x").expect("the child reads");
    until(&mut driver, clock, |driver| {
        let status = driver.status("test");
        status.targets.get(1).is_some_and(|t| t.comm == "sleep" && t.mapped_bytes < 64 << 20)
    });
    let status = driver.status("test");
    let source = status.sources.iter().find(|source| source.name == "allocations");
    let source = source.expect("it is among the sources");
    assert!(source.touches > 0 && source.cpu_seconds > 0.0, "{source:?}");
    drop(driver);

    let events = events(&journal);
    let mut all = extents(&events, program.pid, PAGES);
    assert_eq!(all.len() as u64, count, "extents of {PAGES} pages: {all:?}");
    let two = all.split_off(all.len() - 2);
    assert_eq!(extents(&events, program.pid, PAGES - 1).len(), 1, "what was added to one");
    let moved = events.iter().filter_map(|event| match event {
        Event::Remapped { from, .. } => Some(*from),
        _ => None,
    });
    let moved: Vec<PageRun> = moved.collect();
    let in_second = |page| two[1].iter().any(|run| run.contains(page));
    assert!(moved.iter().all(|run| run.iter().all(in_second)), "{moved:?}");
    assert_eq!(moved.iter().map(|run| run.pages).sum::<u32>(), PAGES);
    let unmapped = events.iter().filter_map(|event| match event {
        Event::Unmapped { run } => {
            Some(two[0].iter().map(|r| r.intersect(*run).pages).sum::<u32>())
        }
        _ => None,
    });
    assert!(unmapped.sum::<u32>() >= PAGES, "the first one was given back");
    let others = all.len();
    assert_eq!(extents(&events, child, PAGES).len(), others + 1, "the child's own is one more");
    assert_eq!(extents(&events, child, 2 * PAGES - 1).len(), 1, "the one that it was forked with");
    let replayed = journal::replay(&mut Entries::open(&journal).expect("a journal"));
    let replayed = replayed.expect("not damaged");
    assert_eq!((replayed.difference, replayed.cut_off), (None, false));
    eprintln!("two extents in one mapping, one moved with {PAGES} pages, {} lost", source.lost);
}

#[test]
fn without_tracepoints_extents_are_refused_with_a_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = Root::at(folder.path());
    let file = |path: &str, text: String| {
        let path = root.path(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    };
    // Nobody manages himself.
    let pid = std::os::unix::process::parent_id();
    file("/proc/self/mounts", String::new());
    file("/sys/devices/system/cpu/online", "0".into());
    file(&format!("/proc/{pid}/stat"), format!("{pid} (x) S 1 {}", "0 ".repeat(40)));
    file(&format!("/proc/{pid}/status"), "RssAnon: 8 kB\n".into());
    let options = Options {
        policy: "first-touch".parse().unwrap(),
        fast: "1MiB".parse().ok(),
        dry_run: true,
        extents: true,
        ..Options::default()
    };
    let selection = Selection::Process { pid, tree: false };
    let started = start(root, options, selection);
    let text = started.map(|_| Nanos::ZERO).expect_err("there is no tracefs").to_string();
    assert!(text.contains("allocations cannot be followed: tracefs is not mounted"), "{text}");
    assert!(text.contains("hint: "), "{text}");
}

const INSIDE: &str = "FROSTLINE_TEST_OWN_MOUNTS";

/// Where no tracefs is mounted, the test starts itself again among mounts of its own.
fn again_with_tracefs() {
    if std::env::var_os(INSIDE).is_some() {
        return skip(Requirement::Tracefs, "tracefs cannot be mounted");
    }
    let this = std::env::current_exe().expect("a test is a program");
    let script = "mount -t tracefs tracefs /sys/kernel/tracing; exec \"$@\"";
    let status = Command::new("unshare")
        .args(["-m", "--propagation", "private", "sh", "-c", script, "sh"])
        .arg(this)
        .args(["--exact", "the_engine_is_told_of_extents_as_they_were_asked_for", "--nocapture"])
        .env(INSIDE, "1")
        .status();
    match status {
        Ok(status) if status.code() == Some(1) => skip(Requirement::Mounts, "no mounts of our own"),
        Ok(status) => assert!(status.success(), "{status}"),
        Err(error) => skip(Requirement::Mounts, format!("no unshare: {error}")),
    }
}
