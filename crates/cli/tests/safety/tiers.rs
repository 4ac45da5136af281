//! Slow tiers that are full, were never there, or go away.

use crate::load::{Load, run_load};
use crate::support::{EAGER, Running, attach, frostline, moved, status_of, text, wait_until};
use crate::system::{System, number, status_kib, succeeds, swaps};
use frostline_core::types::Bytes;
use frostline_linux::Root;
use frostline_linux::changes::{Changes, SwapOff};
use frostline_linux::zram::{Zram, ZramOptions};
use rustix::process::Signal;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

#[test]
fn a_full_tier_is_said_and_not_tried_again_and_again() {
    let Some(system) = System::take() else { return };
    let options = format!("--slow zram:size=16MiB --fast 20% {EAGER}");
    let run =
        run_load(&options, "--size 96MiB --hot 20% --cold-rate 100/s --checksums --seconds 5");
    run.whole();
    let (verified, full) = (moved(&run.summary, "verified"), moved(&run.summary, "no_space"));
    assert!(verified > 8 << 20 && full > 0, "{:#}", run.summary);
    // The program lacks 60 MiB of slow memory all the time: trying on and on would be far more.
    assert!(full < 64 << 20, "{:#}", run.summary);
    system.finish();
}

#[test]
fn what_does_not_fit_on_our_device_does_not_go_to_another() {
    let Some(system) = System::take() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let Some(other) = OtherSwap::turn_on(folder.path()) else { return };
    let load = "--size 96MiB --hot 20% --cold-rate 100/s --checksums --seconds 6";
    let run = run_load(&format!("--slow zram:size=32MiB --fast 20% {EAGER}"), load);
    run.whole();
    let (verified, full) = (moved(&run.summary, "verified"), moved(&run.summary, "no_space"));
    let rejected = number(&run.summary["rejected_pages"], "no_room");
    assert!(verified > 16 << 20 && full + rejected > 0, "{:#}", run.summary);
    assert!(other.used_kib() < 256, "{} KiB went to the other device", other.used_kib());
    let capacity = number(&run.summary["tiers"][1], "capacity_bytes");
    assert!(capacity <= 33 << 20, "{:#}", run.summary);
    // Where it is wanted, it does.
    let options = format!("--slow zram:size=32MiB --slow swap --fast 20% {EAGER}");
    let (run, most) = std::thread::scope(|scope| {
        let run = scope.spawn(|| run_load(&options, load));
        let mut most = 0;
        while !run.is_finished() {
            most = other.used_kib().max(most);
            std::thread::sleep(Duration::from_millis(20));
        }
        (run.join().expect("it ran"), most)
    });
    run.whole();
    assert_eq!(run.summary["tiers"].as_array().expect("tiers").len(), 2, "{:#}", run.summary);
    assert!(most > 4096, "{most} KiB went to the other device: {:#}", run.summary);
    drop(other);
    system.finish();
}

/// 128 MiB of swap on a file behind a loop device, filled last.
struct OtherSwap(String);

impl OtherSwap {
    fn turn_on(folder: &Path) -> Option<Self> {
        let file = folder.join("swap");
        std::fs::write(&file, vec![0; 128 << 20]).expect("room");
        let output = Command::new("losetup").args(["-f", "--show"]).arg(&file).output().ok()?;
        let device = text(&output.stdout).trim().to_owned();
        let other = Self(device);
        let on = succeeds("mkswap", &[&other.0]) && succeeds("swapon", &["-p", "1", &other.0]);
        if !on {
            println!("skipped: no second swap device can be set up here");
        }
        on.then_some(other)
    }

    fn used_kib(&self) -> u64 {
        let text = std::fs::read_to_string("/proc/swaps").expect("readable");
        let line = text.lines().find(|line| line.starts_with(&self.0)).expect("it is on");
        line.split_ascii_whitespace().nth(3).expect("used").parse().expect("a number")
    }
}

impl Drop for OtherSwap {
    fn drop(&mut self) {
        succeeds("swapoff", &[&self.0]);
        succeeds("losetup", &["-d", &self.0]);
    }
}

#[test]
fn without_any_swap_the_program_runs_on_its_own() {
    let Some(system) = System::take() else { return };
    if !swaps().is_empty() {
        println!("skipped: this system has swap");
        return;
    }
    let output = frostline()
        .args(["run", "--slow", "swap", "--", "sh", "-c", "echo out; sleep 1; exit 5"])
        .output()
        .expect("it runs");
    let told = text(&output.stderr);
    assert_eq!(
        (output.status.code(), text(&output.stdout)),
        (Some(5), "out\n".to_owned()),
        "{told}"
    );
    assert!(told.contains("without tiering") && told.contains("hint:"), "{told}");
    let own = std::process::id();
    let output = attach(own, "--slow swap").output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
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
    wait_until("the tier is set up", || !system.new_swaps().is_empty());
    let device = system.new_swaps().remove(0);
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
    assert_eq!(status_kib(load.pid(), "VmSwap"), 0);
    wait_until("it is noticed", || {
        assert!(!driver.has_ended(), "frostline has ended");
        load.check_running();
        let status = status_of(driver.pid());
        status.is_some_and(|status| number(&status["tiers"][1], "capacity_bytes") == 0)
    });
}
