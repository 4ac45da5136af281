//! Slow tiers that are full, were never there, or go away.

use crate::load::{Load, run_load_until};
use crate::support::{EAGER, Run, Running, attach, frostline, moved, status_of, text, wait_until};
use crate::system::{System, number, status_kib, succeeds};
use frostline_core::types::{Bytes, Vpn};
use frostline_linux::changes::{Changes, SwapOff};
use frostline_linux::pages::pagemap::{PageEntry, Pagemap};
use frostline_linux::process::maps::MapsReader;
use frostline_linux::swap;
use frostline_linux::swap::zram::{Zram, ZramOptions};
use frostline_linux::{Root, Target};
use frostline_testing::{Requirement, skip};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

#[test]
fn a_full_tier_is_said_and_not_tried_again_and_again() {
    let Some(system) = System::take() else { return };
    let options = format!("--slow zram:size=16MiB --fast 20% {EAGER}");
    let full = |run: &Run, _: &Value| {
        let tier = &run.summary["tiers"][1];
        number(tier, "used_bytes") > number(tier, "capacity_bytes") / 10 * 9
    };
    let args = "--size 96MiB --hot 20% --cold-rate 100/s --checksums";
    let (run, _) = run_load_until(&options, args, 5, full);
    let (verified, full) = (moved(&run.summary, "verified"), moved(&run.summary, "no_space"));
    let tier = &run.summary["tiers"][1];
    let (used, capacity) = (number(tier, "used_bytes"), number(tier, "capacity_bytes"));
    assert!(verified > 8 << 20 && used > capacity / 10 * 9, "{:#}", run.summary);
    // The program lacks 60 MiB of slow memory all the time: trying on and on would be far more.
    assert!(full < 64 << 20, "{:#}", run.summary);
    system.finish();
}

#[test]
fn what_does_not_fit_on_our_device_does_not_go_to_another() {
    let Some(system) = System::take() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let Some(other) = OtherSwap::turn_on(folder.path(), after_ours()) else { return };
    let load = Load::start("--size 96MiB --hot 20% --cold-rate 100/s --checksums");
    let options = format!("--slow zram:size=32MiB --fast 20% {EAGER}");
    let mut driver = Running::start(&mut attach(load.pid(), &options));
    let mut status = Value::Null;
    wait_until("there is no more room", || {
        status = status_of(driver.pid()).unwrap_or_default();
        let room = |tier: &Value| number(tier, "capacity_bytes") - number(tier, "used_bytes");
        status["accounts"].is_object()
            && moved(&status, "verified") > 16 << 20
            && room(&status["tiers"][1]) < 1 << 20
    });
    let capacity = number(&status["tiers"][1], "capacity_bytes");
    assert!(capacity <= 33 << 20, "{status:#}");
    // It goes on trying for a while.
    std::thread::sleep(Duration::from_secs(2));
    let (out, there) = other.pages_of(&load);
    assert!(out > 4096, "{out} pages are in swap");
    assert!(out <= (33 << 20) / 4096, "{out} pages are in swap, of which there is room for 8192");
    assert!(there < 64, "{there} of {out} pages went to the other device");
    driver.signal(Signal::INT);
    assert_eq!(driver.end().code(), Some(0));

    // Where it is wanted, it does.
    let options = format!("--slow zram:size=32MiB --slow swap --fast 20% {EAGER}");
    let mut driver = Running::start(&mut attach(load.pid(), &options));
    wait_until("the other device is used", || {
        let (out, there) = other.pages_of(&load);
        // The device of another frostline is filled before.
        out > (34 << 20) / 4096 && (there > 1024 || system.is_shared())
    });
    let status = status_of(driver.pid()).expect("it runs");
    assert_eq!(status["tiers"].as_array().expect("tiers").len(), 2, "{status:#}");
    driver.signal(Signal::INT);
    assert_eq!(driver.end().code(), Some(0));
    load.end();
    drop(other);
    system.finish();
}

#[test]
fn swap_that_is_never_filled_after_ours_is_named() {
    let Some(system) = System::take() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let Some(other) = OtherSwap::turn_on(folder.path(), 32_767) else { return };
    let sleep = Running::start(Command::new("sleep").arg("600"));
    let pid = sleep.pid().to_string();
    let mut attach = frostline();
    attach.args(["attach", &pid, "--slow", "zram:size=16MiB", "--seconds", "1"]);
    let told = text(&attach.output().expect("it runs").stderr);
    let named = format!("does not come after zram: {}", other.device);
    assert!(told.contains(&named) && told.contains("\nhint: "), "{told}");
    let doctor = frostline().args(["doctor", "--json"]).output().expect("it runs");
    let told: Value = serde_json::from_slice(&doctor.stdout).expect("JSON");
    let mut all = told["runs"].as_array().expect("an envelope").iter();
    let zram = all.find(|capability| capability["name"] == "zram").expect("named");
    assert!(zram["why"].as_str().is_some_and(|why| why.contains(&other.device)), "{zram}");
    assert_eq!(zram["available"], false);
    drop(other);
    system.finish();
}

/// 128 MiB of swap on a file behind a loop device.
pub struct OtherSwap {
    device: String,
    file: File,
}

/// A priority with which swap is filled before all other that there is, and after zram that is set up
/// later.
fn after_ours() -> i16 {
    let devices = swap::devices(&Root::system()).expect("listed");
    let highest = devices.iter().map(|device| device.priority).max().unwrap_or(0);
    highest.clamp(0, 32_765) as i16 + 1
}

impl OtherSwap {
    /// The lower its priority, the later it is filled.
    pub fn turn_on(folder: &Path, priority: i16) -> Option<Self> {
        let path = folder.join("swap");
        std::fs::write(&path, vec![0; 128 << 20]).expect("room");
        let set_up = Command::new("losetup").args(["-f", "--show"]).arg(&path).output();
        let device = set_up.map_or_else(|_| String::new(), |output| text(&output.stdout));
        let device = device.trim().to_owned();
        let other = Self { device, file: File::open(&path).expect("ours") };
        let on = succeeds("mkswap", &[&other.device])
            && succeeds("swapon", &["-p", &priority.to_string(), &other.device]);
        if !on {
            skip(Requirement::FileSwap, "no second swap device can be set up here");
        }
        on.then_some(other)
    }

    /// Pages of a load in swap, and how many of them are on this device: those of which it has the
    /// contents in the place that the load's page table names. Numbers of devices are the kernel's
    /// own, and how much there is on one in all is anybody's.
    fn pages_of(&self, load: &Load) -> (usize, usize) {
        load.signal(Signal::STOP);
        let pages = self.stopped_pages(load.pid());
        load.signal(Signal::CONT);
        pages
    }

    fn stopped_pages(&self, pid: u32) -> (usize, usize) {
        let target = Target::open(&Root::system(), pid).expect("it runs");
        let mut pagemap = Pagemap::open(&target).expect("root");
        let memory = File::open(format!("/proc/{pid}/mem")).expect("root");
        let mut mappings = Vec::new();
        MapsReader::new().read(&target, &mut mappings).expect("root");
        let mut by_device: BTreeMap<u8, Vec<(Vpn, u64)>> = BTreeMap::new();
        for mapping in mappings {
            let note = |page, entry: PageEntry| {
                let Some((device, place)) = entry.swap_place() else { return };
                by_device.entry(device).or_default().push((page, place));
            };
            pagemap.for_each(mapping.span, note).expect("root");
        }
        let is_here = |&(page, place): &(Vpn, u64)| {
            let [mut there, mut contents] = [[0; 4096]; 2];
            let read = self.file.read_exact_at(&mut there, place * 4096).is_ok()
                && memory.read_exact_at(&mut contents, page.0 * 4096).is_ok();
            read && there == contents && contents.iter().any(|byte| *byte != 0)
        };
        // Reading brings a page back: a few tell whose place it is.
        let here = by_device.values().filter(|pages| pages.iter().take(16).any(is_here));
        let here = here.map(Vec::len).sum();
        (by_device.values().map(Vec::len).sum(), here)
    }
}

impl Drop for OtherSwap {
    fn drop(&mut self) {
        succeeds("swapoff", &[&self.device]);
        succeeds("losetup", &["-d", &self.device]);
    }
}

#[test]
fn without_any_swap_the_program_runs_on_its_own() {
    let Some(system) = System::take() else { return };
    // Whatever swap this system has, the list is empty for whom it is hidden from.
    let hidden = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        let script = "mount --bind /dev/null /proc/swaps && exec \"$@\"";
        command.args(["-m", "--propagation", "private", "sh", "-c", script, "sh"]);
        command.arg(env!("CARGO_BIN_EXE_frostline")).args(arguments);
        command.output().expect("it runs")
    };
    let output = hidden(&["run", "--slow", "swap", "--", "sh", "-c", "echo out; sleep 1; exit 5"]);
    let told = text(&output.stderr);
    if told.contains("unshare: ") || told.contains("mount: ") {
        return skip(Requirement::Mounts, told);
    }
    assert_eq!(
        (output.status.code(), text(&output.stdout)),
        (Some(5), "out\n".to_owned()),
        "{told}"
    );
    assert!(told.contains("without tiering") && told.contains("hint:"), "{told}");
    let own = std::process::id().to_string();
    let output = hidden(&["attach", &own, "--slow", "swap"]);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("no swap") && told.contains("hint:"), "{told}");
    system.finish();
}

#[test]
fn swap_that_is_turned_off_gives_everything_back() {
    let Some(system) = System::take() else { return };
    let changes = Changes::of_this_process(&Root::system()).expect("runs");
    let options = ZramOptions { size: Bytes(128 << 20), algorithm: None };
    let zram = Zram::create(&changes, &options).expect("tried before");
    let mut load = Load::start("--size 48MiB --hot 20% --checksums");
    let options = format!("--slow swap --fast 40% {EAGER}");
    let mut driver = Running::start(&mut attach(load.pid(), &options));
    goes_away(&mut load, &mut driver, &zram.device().to_string_lossy());
    zram.take_down(&changes, SwapOff::WhenUnused).expect("the list is whole");
    changes.release(SwapOff::WhenUnused).expect("the list is whole");
    driver.signal(Signal::INT);
    assert_eq!(driver.end().code(), Some(0));
    load.end();
    system.finish();
}

#[test]
fn a_device_that_somebody_else_takes_down_is_no_loss() {
    let Some(system) = System::take() else { return };
    let mut load = Load::start("--size 48MiB --hot 20% --checksums");
    let options = format!("--slow zram:size=128MiB --fast 40% {EAGER}");
    let mut driver = Running::start(&mut attach(load.pid(), &options));
    wait_until("the tier is set up", || !system.swaps_of_mib(128).is_empty());
    let device = system.swaps_of_mib(128).remove(0);
    goes_away(&mut load, &mut driver, &device);
    let name = device.trim_start_matches("/dev/");
    std::fs::write(format!("/sys/block/{name}/reset"), "1").expect("nobody uses it");
    std::fs::write("/sys/class/zram-control/hot_remove", name.trim_start_matches("zram"))
        .expect("nobody uses it");
    driver.signal(Signal::INT);
    assert_eq!(driver.end().code(), Some(0));
    load.end();
    system.finish();
}

/// Turns swap off while there are pages on it, and watches frostline take it.
fn goes_away(load: &mut Load, driver: &mut Running, device: &str) {
    wait_until("pages are out", || load.swapped_kib() > 8 << 10);
    assert!(succeeds("swapoff", &[device]), "swapoff {device}");
    // What other swap there is may hold pages, and is room for more.
    let others = || {
        let devices = frostline_linux::swap::devices(&Root::system()).expect("listed");
        devices.iter().map(|device| device.size.0).sum::<u64>()
    };
    let left = status_kib(load.pid(), "VmSwap");
    assert!(left <= others() >> 10, "{left} KiB");
    wait_until("it is noticed", || {
        assert!(!driver.has_ended(), "frostline has ended");
        load.check_running();
        let status = status_of(driver.pid());
        status.is_some_and(|status| number(&status["tiers"][1], "capacity_bytes") <= others())
    });
}
