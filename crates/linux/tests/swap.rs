//! Paging another program's memory out to compressed memory and back. One test, because there is
//! one system to set up; and where several run at a time, one of them after the other: pages go to
//! whichever device was set up last.

mod support;

use frostline_core::event::MoveOutcome;
use frostline_core::types::Bytes;
use frostline_linux::advise::{bring_in_verified, page_out_verified, prefetch};
use frostline_linux::changes::{Changes, SwapOff, restore};
use frostline_linux::pagemap::{Categories, PageEntry, Pagemap};
use frostline_linux::swap::{self, PAGE_CLUSTER};
use frostline_linux::zram::{Zram, ZramOptions};
use frostline_linux::{Root, Span, Target};
use std::io::{BufRead, BufReader};
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

/// Whether there is other swap that is filled before ours or set up by another frostline: pages may
/// be on either then.
fn is_shared() -> bool {
    let list = std::fs::read_to_string("/run/frostline/changes.json").unwrap_or_default();
    list.matches("\"kind\": \"zram\"").count() > 1
}

fn count(outcomes: &[(Span, MoveOutcome)], wanted: MoveOutcome) -> u64 {
    let pages =
        |&&(span, outcome): &&(Span, MoveOutcome)| (outcome == wanted).then_some(span.pages);
    outcomes.iter().filter_map(|entry| pages(&entry)).sum()
}

fn swapped_pages(pagemap: &mut Pagemap, span: Span) -> u64 {
    let mut entries = Vec::new();
    pagemap.read(span, &mut entries).expect("it runs");
    let swapped = entries.iter().filter(|entry| entry.swapped()).count() as u64;
    let mut runs = Vec::new();
    pagemap.places(span, &mut runs).expect("it runs");
    let swapped_runs = runs.iter().filter(|(_, place)| place.has(Categories::SWAPPED));
    // The kernel moves pages meanwhile, a few at a time.
    let told: u64 = swapped_runs.map(|(span, _)| span.pages).sum();
    assert!(told.abs_diff(swapped) <= PAGES / 8, "{told}, but {swapped}");
    swapped
}

#[test]
fn pages_go_out_and_come_back() {
    if !frostline_testing::zram() {
        return;
    }
    let _lock = frostline_testing::swap_lock();
    let root = Root::system();
    let before = swap::setting(&root, PAGE_CLUSTER);
    let changes = Changes::of_this_process(&root).expect("runs");
    // Where a run before this one was killed.
    restore(&root, SwapOff::WhenUnused).expect("the list is whole");
    changes.set(PAGE_CLUSTER, "0").expect("this machine can");
    let zram = Zram::create(&changes, &options(128)).expect("this machine can");
    // Taken down also where an assertion fails; the copies of the program end before that.
    let result = std::panic::catch_unwind(|| {
        out_and_back(&zram);
        shared_pages_stay();
        huge_folios_go_out(&zram);
        the_end_of_the_program_is_no_surprise();
    });
    let memory = Memory::start(512, Folios::Base);
    let mut pagemap = Pagemap::open(&memory.target).expect("ours");
    let span = memory.span;
    page_out_verified(&memory.target, &mut pagemap, &[span]).expect("allowed before");
    let device = zram.device();
    let kept = zram.take_down(&changes, SwapOff::WhenUnused).expect("the list is whole");
    if !is_shared() {
        assert_eq!(kept.kept.len(), 1, "pages of a running program are on it");
        assert!(kept.kept[0].why.contains(&memory.target.pid().to_string()), "{kept:?}");
    }
    memory.verify();
    drop(memory);
    let restored = changes.release(SwapOff::WhenItFits).expect("the list is whole");
    assert!(restored.kept.is_empty(), "{restored:?}");
    if !is_shared() {
        // A setting that was right before is none of our changes.
        let changed = 1 + usize::from(before.as_ref().is_ok_and(|value| *value != 0));
        assert_eq!(restored.undone.len(), changed, "{restored:?}");
    }
    assert!(!swap::devices(&root).expect("listed").iter().any(|swap| swap.path == device));
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
    a_full_device_says_so(&changes);
    a_crash_is_cleaned_up(&root);
    a_crash_at_any_moment_is_cleaned_up(&root);
    // Another run of the program may go on, and rely on the setting.
    if restore(&root, SwapOff::WhenUnused).expect("the list is whole").in_use == 0 {
        assert_eq!(swap::setting(&root, PAGE_CLUSTER).ok(), before.ok());
    }
}

fn out_and_back(zram: &Zram) {
    let memory = Memory::start(PAGES, Folios::Base);
    let mut pagemap = Pagemap::open(&memory.target).expect("ours");
    let spans = [memory.span];
    let out = page_out_verified(&memory.target, &mut pagemap, &spans).expect("allowed");
    assert_eq!(out.iter().map(|(span, _)| span.pages).sum::<u64>(), PAGES);
    let moved = count(&out, MoveOutcome::Moved);
    assert!(moved >= PAGES * 99 / 100, "{out:?}");
    assert_eq!(swapped_pages(&mut pagemap, memory.span), moved);
    assert_eq!(memory.target.usage().expect("it runs").swapped.pages().0, moved);
    let usage = zram.usage().expect("ours");
    let device = swap::device_in_use().expect("allowed");
    let entry = pagemap.page(memory.span.start).expect("it runs");
    if !is_shared() {
        assert_eq!(entry.swap_place().map(|place| place.0), device);
        assert!(zram.swap().expect("listed").expect("on").used.pages().0 >= moved);
        assert!(usage.original >= Bytes(moved * 4096), "{usage:?}");
        assert!(usage.memory.0 < usage.original.0 * 3 / 4, "it compresses: {usage:?}");
    }

    let faults = memory.target.stat().expect("it runs").major_faults;
    let half = [Span::new(memory.span.start, PAGES / 2)];
    let back = bring_in_verified(&memory.target, &mut pagemap, &half).expect("allowed");
    assert_eq!(back, [(half[0], MoveOutcome::Moved)]);
    assert_eq!(swapped_pages(&mut pagemap, half[0]), 0);
    assert_eq!(memory.target.stat().expect("it runs").major_faults, faults, "it took no fault");
    let rest = [Span::between(half[0].end(), memory.span.end())];
    let advised = prefetch(&memory.target, &rest).expect("allowed");
    assert_eq!((advised.bytes, advised.failed), (rest[0].bytes(), vec![]));
    memory.verify();
    assert_eq!(swapped_pages(&mut pagemap, memory.span), 0);

    // While it writes, too.
    assert_eq!(memory.ask("write"), "writing");
    let mut moved = 0;
    for _ in 0..5 {
        let out = page_out_verified(&memory.target, &mut pagemap, &spans).expect("allowed");
        moved += count(&out, MoveOutcome::Moved);
        bring_in_verified(&memory.target, &mut pagemap, &half).expect("allowed");
    }
    assert!(moved > PAGES, "{moved}");
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
    let spans = [memory.span];
    let before = zram.usage().expect("ours").original;
    let out = page_out_verified(&memory.target, &mut pagemap, &spans).expect("allowed");
    assert_eq!(count(&out, MoveOutcome::Moved), 4 * 512, "{out:?}");
    assert!(is_shared() || zram.usage().expect("ours").original > before);
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
    let root = changes.root();
    // Other swap takes what a full device does not.
    let others = !swap::devices(root).expect("listed").is_empty();
    let zram = Zram::create(changes, &options(4)).expect("allowed before");
    let device = swap::device_in_use().expect("allowed").expect("to ours");
    let memory = Memory::start(PAGES, Folios::Base);
    let mut pagemap = Pagemap::open(&memory.target).expect("ours");
    let out = page_out_verified(&memory.target, &mut pagemap, &[memory.span]).expect("allowed");
    let (moved, full) = (count(&out, MoveOutcome::Moved), count(&out, MoveOutcome::NoSpace));
    let mut entries = Vec::new();
    pagemap.read(memory.span, &mut entries).expect("it runs");
    let is_here = |entry: &&PageEntry| entry.swap_place().is_some_and(|place| place.0 == device);
    let here = entries.iter().filter(is_here).count();
    assert_eq!(moved + full, PAGES);
    if !is_shared() {
        assert!(here > 500 && here < 1024, "{here} on 4 MiB");
        assert!(others || (moved == here as u64 && full > 0), "{here} of {moved}");
    }
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

fn a_crash_at_any_moment_is_cleaned_up(root: &Root) {
    let before = unlisted_devices(root);
    let mut undone = 0;
    for killed_after_ms in (2..32).step_by(2) {
        let mut child = start_crash();
        std::thread::sleep(Duration::from_millis(killed_after_ms));
        child.kill().expect("killed");
        child.wait().expect("waited for");
        let restored = restore(root, SwapOff::WhenItFits).expect("the list is whole");
        assert_eq!(restored.kept, [], "after {killed_after_ms} ms");
        undone += restored.undone.len();
        assert_eq!(unlisted_devices(root), before, "after {killed_after_ms} ms");
    }
    assert!(undone > 0, "it was always killed before it did anything");
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
    assert!(restored.undone.is_empty() && restored.in_use >= 1, "its owner runs: {restored:?}");
    child.kill().expect("killed");
    child.wait().expect("waited for");
    assert!(is_on(), "nobody has cleaned up");
    let restored = restore(root, SwapOff::WhenItFits).expect("the list is whole");
    assert!(restored.kept.is_empty() && !restored.undone.is_empty(), "{restored:?}");
    assert!(!is_on());
}
