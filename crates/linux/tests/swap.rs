//! Paging another program's memory out to compressed memory and back. One test, because there is
//! one system to set up; and where several run at a time, one of them after the other: pages go to
//! whichever device was set up last.

mod support;

use frostline_core::event::MoveOutcome;
use frostline_core::span::Span;
use frostline_core::types::{Bytes, Vpn};
use frostline_linux::changes::{Changes, SwapOff, restore};
use frostline_linux::moves::advise::{bring_in_verified, page_out_verified, prefetch};
use frostline_linux::pages::pagemap::{Categories, PageEntry, Pagemap};
use frostline_linux::swap::zram::{Zram, ZramOptions};
use frostline_linux::swap::{self, PAGE_CLUSTER};
use frostline_linux::{Root, Target};
use frostline_testing::{Moments, wait_for, wait_until};
use memmap2::MmapMut;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{Folios, Memory};

const PAGES: u64 = 8192;
const CRASH: &str = "FROSTLINE_TEST_CRASH";

#[test]
fn serve_memory() {
    support::serve();
}

/// A process that sets everything up and waits to be killed.
#[test]
fn serve_crash() {
    if std::env::var_os(CRASH).is_none() {
        return;
    }
    let changes = Changes::of_this_process(&Root::system()).expect("runs");
    changes.set(PAGE_CLUSTER, "0").expect("allowed before");
    let zram = Zram::create(&changes, &options(16)).expect("allowed before");
    println!("\nset up {}", zram.device().display());
    std::io::stdin().lines().next();
}

fn options(mib: u64) -> ZramOptions {
    ZramOptions { size: Bytes(mib << 20), algorithm: None }
}

/// What the list of changes holds.
fn listed() -> Vec<Value> {
    let text = std::fs::read_to_string("/run/frostline/changes.json").unwrap_or_default();
    let mut list: Value = serde_json::from_str(&text).unwrap_or_default();
    match list["entries"].take() {
        Value::Array(entries) => entries,
        _ => Vec::new(),
    }
}

/// What the setting is when no frostline runs.
fn read_ahead(root: &Root) -> u64 {
    let set = listed().into_iter().find(|entry| entry["path"] == PAGE_CLUSTER);
    let old = set.and_then(|entry| entry["old"].as_str()?.trim().parse().ok());
    old.unwrap_or_else(|| swap::setting(root, PAGE_CLUSTER).expect("readable"))
}

/// Whether a device is filled before all others. A swap of the same priority takes its turns, and
/// that of a frostline that was started later comes before it.
fn is_first(device: &Path) -> bool {
    let devices = swap::devices(&Root::system()).expect("listed");
    let ours = devices.iter().find(|swap| swap.path == device).map(|swap| swap.priority);
    devices.iter().all(|swap| swap.path == device || Some(swap.priority) < ours)
}

fn is_alone(device: &Path) -> bool {
    let devices = swap::devices(&Root::system()).expect("listed");
    devices.iter().all(|swap| swap.path == device)
}

/// Pages of a program that nobody has written since its start which are in swap, and how many of
/// them are on a device: those of which it has the contents in the place that the page table names.
/// Numbers of devices are the kernel's own, and how much there is on one in all is anybody's.
fn pages_on(device: &Path, memory: &Memory, pagemap: &mut Pagemap) -> (u64, u64) {
    let mut by_number: BTreeMap<u8, Vec<(u64, u64)>> = BTreeMap::new();
    let note = |page: Vpn, entry: PageEntry| {
        let Some((number, place)) = entry.swap_place() else { return };
        by_number.entry(number).or_default().push((page.0 - memory.span.start.0, place));
    };
    pagemap.for_each(memory.span, note).expect("it runs");
    // What the kernel has of the device as a file is not what was written to it as swap.
    let mut options = File::options();
    let file = options.read(true).custom_flags(libc::O_DIRECT).open(device).expect("root");
    let mut there = MmapMut::map_anon(4096).expect("memory");
    let mut is_there = |&(page, place): &(u64, u64)| {
        let read = file.read_exact_at(&mut there, place * 4096);
        read.is_ok() && there[..] == support::contents(page)
    };
    // A page on its way is not there yet.
    let mut here = |pages: &&Vec<_>| pages.iter().take(64).any(&mut is_there);
    let on = by_number.values().filter(|pages| here(pages)).map(Vec::len).sum::<usize>();
    (by_number.values().map(Vec::len).sum::<usize>() as u64, on as u64)
}

/// Pages all of a program out; what came of it, once nothing is kept from it by what the kernel does
/// with pages meanwhile.
fn all_out(memory: &Memory, pagemap: &mut Pagemap) -> Vec<(Span, MoveOutcome)> {
    wait_for("all pages are told to have gone out, or that there is no room", || {
        let out = page_out_verified(&memory.target, pagemap, &[memory.span]).expect("allowed");
        assert_eq!(out.iter().map(|(span, _)| span.pages).sum::<u64>(), memory.span.pages);
        let done = count(&out, MoveOutcome::Moved) + count(&out, MoveOutcome::NoSpace);
        if done == memory.span.pages { Ok(out) } else { Err(format!("{out:?}")) }
    })
}

fn count(outcomes: &[(Span, MoveOutcome)], wanted: MoveOutcome) -> u64 {
    let pages =
        |&&(span, outcome): &&(Span, MoveOutcome)| (outcome == wanted).then_some(span.pages);
    outcomes.iter().filter_map(|entry| pages(&entry)).sum()
}

/// How many pages are in swap, by their entries and by a scan: others may turn swap off in between.
fn swapped_pages(pagemap: &mut Pagemap, span: Span) -> (u64, u64) {
    let mut entries = Vec::new();
    pagemap.read(span, &mut entries).expect("it runs");
    let swapped = entries.iter().filter(|entry| entry.swapped()).count() as u64;
    let mut runs = Vec::new();
    pagemap.places(span, &mut runs).expect("it runs");
    let swapped_runs = runs.iter().filter(|(_, place)| place.has(Categories::SWAPPED));
    (swapped, swapped_runs.map(|(span, _)| span.pages).sum())
}

#[test]
fn pages_go_out_and_come_back() {
    if !frostline_testing::zram() {
        return;
    }
    let _lock = frostline_testing::swap_lock();
    let root = Root::system();
    let changes = Changes::of_this_process(&root).expect("runs");
    // Where a run before this one was killed.
    restore(&root, SwapOff::WhenUnused).expect("the list is whole");
    let before = read_ahead(&root);
    changes.set(PAGE_CLUSTER, "0").expect("this machine can");
    let zram = Zram::create(&changes, &options(128)).expect("this machine can");
    // Taken down also where an assertion fails; the copies of the program end before that.
    let result = std::panic::catch_unwind(|| {
        out_and_back(&zram);
        shared_pages_stay();
        huge_folios_go_out(&zram);
        the_end_of_the_program_is_no_surprise();
    });
    let device = zram.device();
    let memory = Memory::start(512, Folios::Base);
    let mut pagemap = Pagemap::open(&memory.target).expect("ours");
    let needed = wait_for("its pages are on our device, or others are filled before", || {
        all_out(&memory, &mut pagemap);
        let on = pages_on(&device, &memory, &mut pagemap).1;
        if on > 0 || !is_first(&device) { Ok(on > 0) } else { Err("none".to_owned()) }
    });
    let kept = zram.take_down(&changes, SwapOff::WhenUnused).expect("the list is whole").kept;
    if needed {
        assert_eq!(kept.len(), 1, "pages of a running program are on it");
        let (pid, why) = (memory.target.pid().to_string(), &kept[0].why);
        assert!(why.contains(&pid) || why.contains(" more"), "{why}");
    }
    memory.verify();
    drop(memory);
    wait_for("our device is taken down", || {
        let restored = changes.release(SwapOff::WhenItFits).expect("the list is whole");
        let is_on = swap::devices(&root).expect("listed").iter().any(|swap| swap.path == device);
        if is_on { Err(format!("{restored:?}")) } else { Ok(()) }
    });
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
    a_full_device_says_so(&changes);
    a_crash_is_cleaned_up(&root);
    a_crash_at_any_moment_is_cleaned_up(&root);
    wait_for("the setting is as it was, or another frostline relies on it", || {
        let relied_on = listed().iter().any(|entry| entry["path"] == PAGE_CLUSTER);
        let now = swap::setting(&root, PAGE_CLUSTER).expect("readable");
        if relied_on || now == before { Ok(()) } else { Err(format!("{now}, not {before}")) }
    });
}

fn out_and_back(zram: &Zram) {
    let memory = Memory::start(PAGES, Folios::Base);
    let mut pagemap = Pagemap::open(&memory.target).expect("ours");
    let spans = [memory.span];
    let device = zram.device();
    wait_for("what is told of pages is so", || {
        let out = all_out(&memory, &mut pagemap);
        let moved = count(&out, MoveOutcome::Moved);
        let swapped = swapped_pages(&mut pagemap, memory.span);
        // The kernel adds up what its processors count, each up to some number by itself.
        let counted = memory.target.usage().expect("it runs").swapped.pages().0;
        let (places, on) = pages_on(&device, &memory, &mut pagemap);
        let used = zram.swap().expect("listed").map_or(0, |swap| swap.used.pages().0);
        let usage = zram.usage().expect("ours");
        let told = moved == PAGES
            && swapped == (PAGES, PAGES)
            && places == PAGES
            && counted.abs_diff(PAGES) <= PAGES / 8;
        // Others may have pages on it, too, of which none takes more room than it has.
        let held = used >= on
            && usage.original.pages().0 >= on
            && (on == 0 || usage.compressed < usage.original && usage.memory > Bytes::ZERO);
        let here = match (is_alone(&device), is_first(&device)) {
            (true, _) => on == PAGES,
            (false, first) => on > 0 || !first,
        };
        let all = format!(
            "{moved} moved, {swapped:?} in swap, {counted} counted, {on} on ours: {used} {usage:?}"
        );
        if told && held && here { Ok(()) } else { Err(all) }
    });

    let faults = memory.target.stat().expect("it runs").major_faults;
    let half = [Span::new(memory.span.start, PAGES / 2)];
    let back = bring_in_verified(&memory.target, &mut pagemap, &half).expect("allowed");
    assert_eq!(back, [(half[0], MoveOutcome::Moved)]);
    assert_eq!(swapped_pages(&mut pagemap, half[0]), (0, 0));
    assert_eq!(memory.target.stat().expect("it runs").major_faults, faults, "it took no fault");
    let rest = [Span::between(half[0].end(), memory.span.end())];
    let advised = prefetch(&memory.target, &rest).expect("allowed");
    assert_eq!((advised.bytes, advised.failed), (rest[0].bytes(), vec![]));
    memory.verify();
    assert_eq!(swapped_pages(&mut pagemap, memory.span), (0, 0));

    // While it writes, too.
    assert_eq!(memory.ask("write"), "writing");
    let mut moved = 0;
    wait_until("more than all pages have gone out", || {
        let out = page_out_verified(&memory.target, &mut pagemap, &spans).expect("allowed");
        moved += count(&out, MoveOutcome::Moved);
        bring_in_verified(&memory.target, &mut pagemap, &half).expect("allowed");
        moved > PAGES
    });
    assert_eq!(memory.ask("stop"), "0 wrong, written: true");
    memory.verify();
}

fn shared_pages_stay() {
    let memory = Memory::start(512, Folios::Base);
    let mut pagemap = Pagemap::open(&memory.target).expect("ours");
    let spans = [memory.span];
    assert_eq!(memory.ask("fork"), "forked");
    let out = page_out_verified(&memory.target, &mut pagemap, &spans).expect("allowed");
    assert_eq!(out, [(memory.span, MoveOutcome::Shared)]);
    assert_eq!(memory.ask("end copy"), "ended");
    memory.verify();
}

fn huge_folios_go_out(zram: &Zram) {
    let memory = Memory::start(4 * 512, Folios::Huge);
    let mut pagemap = Pagemap::open(&memory.target).expect("ours");
    let device = zram.device();
    wait_for("all are in swap, and on our device unless others are filled before", || {
        all_out(&memory, &mut pagemap);
        let (all, on) = pages_on(&device, &memory, &mut pagemap);
        let done = all == 4 * 512 && (on > 0 || !is_first(&device));
        if done { Ok(()) } else { Err(format!("{on} of {all}")) }
    });
    memory.verify();
}

fn the_end_of_the_program_is_no_surprise() {
    let memory = Memory::start(PAGES, Folios::Base);
    let mut pagemap = Pagemap::open(&memory.target).expect("ours");
    let target = Target::open(&Root::system(), memory.target.pid()).expect("it runs");
    let span = memory.span;
    let ending = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(30));
        drop(memory);
    });
    let deadline = Instant::now() + Duration::from_secs(30);
    let error = loop {
        let out = page_out_verified(&target, &mut pagemap, &[span]);
        let result = out.and_then(|_| bring_in_verified(&target, &mut pagemap, &[span]));
        if let Err(error) = result {
            break error;
        }
        assert!(Instant::now() < deadline, "it goes on after its end");
    };
    assert!(error.is_gone(), "{error}");
    ending.join().expect("no panic");
}

fn a_full_device_says_so(changes: &Changes) {
    let zram = Zram::create(changes, &options(4)).expect("allowed before");
    let device = zram.device();
    let memory = Memory::start(PAGES, Folios::Base);
    let mut pagemap = Pagemap::open(&memory.target).expect("ours");
    wait_for("what fits is on it", || {
        let out = all_out(&memory, &mut pagemap);
        let (moved, full) = (count(&out, MoveOutcome::Moved), count(&out, MoveOutcome::NoSpace));
        let (all, on) = pages_on(&device, &memory, &mut pagemap);
        let here = match (is_alone(&device), is_first(&device)) {
            (true, _) => on > 500 && on == moved && full == PAGES - moved,
            // Other swap takes what a full device does not.
            (false, first) => on > 0 || !first,
        };
        let fits = moved == all && on < 1024;
        if here && fits { Ok(()) } else { Err(format!("{on} of {all}; {moved} moved, {full} not")) }
    });
    memory.verify();
    drop(memory);
    let restored = zram.take_down(changes, SwapOff::WhenItFits).expect("the list is whole");
    assert_eq!((restored.kept.len(), restored.undone.len()), (0, 1), "{restored:?}");
}

fn start_crash() -> Child {
    let own = std::env::current_exe().expect("a path");
    Command::new(own)
        .args(["serve_crash", "--exact", "--nocapture"])
        .env(CRASH, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts")
}

/// Zram devices that no frostline has written down: others set up and take down theirs meanwhile.
fn unlisted_devices(root: &Root) -> Vec<String> {
    let list = || std::fs::read_to_string("/run/frostline/changes.json").unwrap_or_default();
    let before = list();
    let mut names = root.list("/sys/block").expect("listed");
    let lists = before + &list();
    names.retain(|name| {
        name.strip_prefix("zram").is_some_and(|n| !lists.contains(&format!("\"number\": {n},")))
    });
    names
}

/// Whether a process is on the list of changes.
fn is_listed(pid: u32) -> bool {
    let owns = |entry: &Value| {
        entry["owners"].as_array().is_some_and(|all| all.iter().any(|owner| owner["pid"] == pid))
    };
    listed().iter().any(owns)
}

fn a_crash_at_any_moment_is_cleaned_up(root: &Root) {
    let before = unlisted_devices(root);
    let mut moments = Moments::from(Duration::from_millis(8));
    let (mut early, mut late) = (0, 0);
    while early < 5 || late < 5 {
        let after = moments.next();
        let mut child = start_crash();
        std::thread::sleep(after);
        child.kill().expect("killed");
        child.wait().expect("waited for");
        let began = is_listed(child.id());
        moments.was_done(began);
        *if began { &mut late } else { &mut early } += 1;
        restore(root, SwapOff::WhenItFits).expect("the list is whole");
        assert!(!is_listed(child.id()), "after {after:?}");
        assert_eq!(unlisted_devices(root), before, "after {after:?}");
    }
}

fn a_crash_is_cleaned_up(root: &Root) {
    let mut child = start_crash();
    let from = BufReader::new(child.stdout.take().expect("piped"));
    let lines = from.lines().map(|line| line.expect("text"));
    let device = lines.filter_map(|line| Some(line.strip_prefix("set up ")?.to_owned())).next();
    let device = std::path::PathBuf::from(device.expect("it was set up"));
    let is_on = || swap::devices(root).expect("listed").iter().any(|swap| swap.path == device);
    assert!(is_on());
    let restored = restore(root, SwapOff::WhenUnused).expect("the list is whole");
    assert!(restored.in_use >= 1 && is_on(), "its owner runs: {restored:?}");
    child.kill().expect("killed");
    child.wait().expect("waited for");
    assert!(is_on(), "nobody has cleaned up");
    let restored = restore(root, SwapOff::WhenItFits).expect("the list is whole");
    assert!(!restored.undone.is_empty() && !is_on(), "{restored:?}");
}
