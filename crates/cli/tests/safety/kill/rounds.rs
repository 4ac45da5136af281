//! Kills beside one program, which looks at all of its memory in the end.

use super::tally::Tally;
use crate::consolidate;
use crate::inject::{Plain, inject, is_in};
use crate::inside::agent;
use crate::load::{Load, load_program};
use crate::support::{EAGER, Running, attach, frostline, only_run, text, wait_until};
use crate::system::{SOME_KIB, System, number, status_kib};
use crate::tiers::OtherSwap;
use frostline_core::rng::Rng;
use frostline_testing::Moments;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A frostline that has set up zram.
    Zram,
    /// One that uses swap of the machine's own.
    Swap,
    /// One whose program tiers itself, or that program.
    Inside,
    /// One that brings the library into a program that runs.
    Inject,
    /// One that asks a program to gather its hot pages.
    Gather,
}

impl Way {
    pub const ALL: [Self; 5] = [Self::Zram, Self::Swap, Self::Inside, Self::Inject, Self::Gather];

    pub fn takes_swap(self) -> bool {
        matches!(self, Self::Zram | Self::Swap | Self::Inside)
    }
}

/// By turns.
const POLICIES: [&str; 3] = ["memtis-plus", "hybridtier", "hotbox"];
const LOADS: [&str; 3] = [
    "--hot 20% --cold-rate 2000/s --writes 20% --shift 2 --threads 2 --fork-rate 4/s --churn 20/s",
    "--huge --hot 20% --cold-rate 2000/s --writes 20% --fork-rate 2/s",
    "--hot 50% --cold-rate 200/s --writes 50% --threads 4 --fork-rate 20/s --churn 100/s",
];
const MEMORY: &str = "--size 64MiB --checksums";
const DEVICE_MIB: u64 = 256;
/// Moments: half of them while things are set up, the others while pages move.
const SOON_MS: u64 = 150;
const LATEST_MS: u64 = 1200;
/// For which it is looked which pages are hot.
const LOOK_MS: u64 = 1000;
/// Between a request to end and the kill: taking the slow tier down takes about so long.
const LATEST_AT_END_MS: u64 = 60;

fn moment(rng: &mut Rng) -> Duration {
    let latest = if rng.below(2) == 0 { SOON_MS } else { LATEST_MS };
    Duration::from_millis(rng.below(latest))
}

/// So many kills beside one program; `None`, with the reason printed, where this cannot be done here.
pub fn kill_again_and_again(way: Way, turn: usize, kills: u64, rng: &mut Rng) -> Option<Tally> {
    let possible = if way.takes_swap() { true } else { consolidate::possible() };
    let system = if possible { System::take()? } else { return None };
    let mut tally = Tally::default();
    let policy = POLICIES[turn % POLICIES.len()];
    let load = format!("{MEMORY} {}", LOADS[turn / POLICIES.len() % LOADS.len()]);
    match way {
        Way::Zram => {
            let slow = format!("--policy {policy} --slow zram:size={DEVICE_MIB}MiB");
            outside(&system, &slow, &load, kills, rng, &mut tally);
        }
        Way::Swap => {
            let folder = tempfile::tempdir().expect("a folder");
            let other = OtherSwap::turn_on(folder.path(), 1)?;
            let slow = format!("--policy {policy} --slow swap");
            outside(&system, &slow, &load, kills, rng, &mut tally);
            drop(other);
        }
        Way::Inside => {
            for round in 0..kills {
                inside(&system, policy, &load, round + 1 == kills, rng, &mut tally);
            }
        }
        Way::Inject | Way::Gather => from_outside_within(way, kills, rng, &mut tally),
    }
    tally.shared = system.is_shared();
    system.finish();
    Some(tally)
}

impl Tally {
    fn note_end(&mut self, status: ExitStatus) {
        *if status.signal() == Some(9) { &mut self.killed } else { &mut self.ended } += 1;
    }

    fn note_left(&mut self, system: &System) {
        let left = system.abandoned();
        self.nothing_left += u64::from(left.is_empty());
        for kind in left {
            *self.left.entry(kind).or_default() += 1;
        }
    }
}

/// A frostline that is attached to a load is killed, and another one takes its place.
fn outside(system: &System, slow: &str, load: &str, kills: u64, rng: &mut Rng, tally: &mut Tally) {
    let folder = tempfile::tempdir().expect("a folder");
    let journal = folder.path().join("journal");
    let mut load = Load::start(load);
    for round in 0..kills {
        let options = format!("{slow} --fast 40% {EAGER}");
        let mut driver =
            Running::start(attach(load.pid(), &options).arg("--journal").arg(&journal));
        let last = round + 1 == kills;
        if last {
            wait_until("pages are out", || load.swapped_kib() > 2 * SOME_KIB);
        } else {
            std::thread::sleep(moment(rng));
        }
        if !last && rng.below(4) == 0 {
            driver.signal(Signal::INT);
            std::thread::sleep(Duration::from_millis(rng.below(LATEST_AT_END_MS)));
        }
        tally.note_end(driver.kill());
        load.check_running();
        tally.out += u64::from(load.swapped_kib() > 0);
        tally.note_left(system);
        // A device that is not the first one any more is not taken over.
        let ours = system.swaps_of_mib(DEVICE_MIB);
        assert!(ours.len() <= 1 || system.is_shared(), "round {round}: {ours:?}");
        if last || rng.below(4) == 0 {
            tally.kept += u64::from(clean_keeps_what_is_needed(system, &load));
        }
        if let Some(actions) = replayed(&journal) {
            tally.journals += 1;
            tally.actions += actions;
        }
        let _ = std::fs::remove_file(&journal);
    }
    tally.verified += number(&load.end(), "verified_pages");
}

/// Cleans up while pages are in swap; whether they had to stay there.
fn clean_keeps_what_is_needed(system: &System, load: &Load) -> bool {
    if load.swapped_kib() < SOME_KIB || system.swaps_of_mib(DEVICE_MIB).is_empty() {
        system.clean(&[]);
        return false;
    }
    let kept = system.clean_keeps();
    assert!(load.swapped_kib() > 0, "the swap device was taken from a running program");
    kept
}

/// Repeats what is left of a journal; how many actions that were. `None` where the kill came
/// before its first entry.
fn replayed(journal: &Path) -> Option<u64> {
    let output =
        frostline().args(["journal", "verify", "--json"]).arg(journal).output().expect("it runs");
    let told = text(&output.stderr);
    if output.status.success() {
        let done = only_run(&output.stdout);
        assert!(done["difference"].is_null(), "{done}");
        return done["actions"].as_u64();
    }
    let nothing_in_it = std::fs::metadata(journal).map_or(0, |file| file.len()) < 200;
    assert!(nothing_in_it && told.contains("journal"), "{told}");
    None
}

/// A program that tiers itself loses the frostline that has started it, or is killed itself.
fn inside(system: &System, policy: &str, load: &str, last: bool, rng: &mut Rng, tally: &mut Tally) {
    let mut command = frostline();
    command.args(["run", "--in-process", "--agent"]).arg(agent());
    command.args(["--policy", policy, "--slow", &format!("zram:size={DEVICE_MIB}MiB")]);
    command.args("--fast 30%".split(' ')).args(EAGER.split(' ')).arg("--").arg(load_program());
    command.args("--json --seconds 36000".split(' ')).args(load.split(' '));
    let mut outer = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::null()));
    let mut out = outer.0.stdout.take().expect("piped");
    let outer_pid = outer.pid();
    let child = || {
        let file = format!("/proc/{outer_pid}/task/{outer_pid}/children");
        let children = std::fs::read_to_string(file).unwrap_or_default();
        children.split_whitespace().next()?.parse::<u32>().ok()
    };
    let mut program = None;
    let waits_for_pages = rng.below(2) == 0 || last;
    if waits_for_pages {
        wait_until("pages are out", || {
            program = child();
            program.is_some_and(|pid| status_kib(pid, "VmSwap") > SOME_KIB)
        });
    }
    std::thread::sleep(Duration::from_millis(rng.below(SOON_MS)));
    program = child().filter(|pid| is_load(*pid));
    let signal_program = |program: Option<u32>, signal| {
        let pid = program.and_then(|pid| Pid::from_raw(pid as i32));
        pid.map(|pid| kill_process(pid, signal))
    };
    tally.out += u64::from(program.is_some_and(|pid| status_kib(pid, "VmSwap") > 0));
    let program_dies = program.is_some() && rng.below(4) == 0 && !last;
    if program_dies {
        // The agent dies with it.
        let _ = signal_program(program, Signal::KILL);
        tally.killed += 1;
        outer.end();
    } else {
        // Whoever stands starts nothing: this is all that it leaves.
        outer.signal(Signal::STOP);
        wait_until("it stands", || state(outer_pid) == Some('T'));
        let left = child();
        tally.note_end(outer.kill());
        tally.note_left(system);
        // It goes on by itself, where it has begun.
        std::thread::sleep(Duration::from_millis(rng.below(SOON_MS)));
        let begun = || left.filter(|pid| is_load(*pid));
        wait_until("the program begins, or does not", || {
            begun().is_some() || left.is_none_or(|pid| matches!(state(pid), None | Some('Z')))
        });
        program = begun();
        if waits_for_pages {
            let pid = program.expect("seen");
            assert!(status_kib(pid, "VmSwap") > 0, "it is gone, or its pages are back");
        }
        let _ = signal_program(program, Signal::INT);
    }
    let mut told = Vec::new();
    out.read_to_end(&mut told).expect("readable");
    if waits_for_pages && !program_dies {
        let done: Value = serde_json::from_slice(&told).expect("JSON");
        assert_eq!(done["mismatches"], 0, "{done}");
        tally.verified += number(&done, "verified_pages");
    }
    // What it has left, the next one takes over, or this takes down.
    if rng.below(2) == 0 {
        system.clean(&[]);
    }
}

/// Whether it is the program, and not what is to become it.
fn is_load(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm"))
        .is_ok_and(|name| name == "frostline-load\n")
}

/// What `/proc` tells: `T` stopped, `Z` ended and not yet waited for; `None` where it is gone.
fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Who brings the library into a program, or asks the library that is there, is killed.
fn from_outside_within(way: Way, kills: u64, rng: &mut Rng, tally: &mut Tally) {
    let options = "--fork-rate 2/s --churn 20/s --seconds 36000";
    let mut moments = Moments::from(Duration::from_millis(100));
    let mut load = Plain::start(options);
    if way == Way::Gather {
        let output = inject(load.pid(), "").output().expect("it runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let mut round = 0;
    // However long it takes here, some come before the library is there, and some after.
    while round < kills || tally.out == 0 {
        round += 1;
        let pid = load.pid();
        let mut command = match way {
            Way::Inject => inject(pid, ""),
            _ => {
                let mut command = frostline();
                command.args(["consolidate", &pid.to_string()]);
                command
            }
        };
        let mut asking = Running::start(command.stdout(Stdio::null()).stderr(Stdio::null()));
        std::thread::sleep(match way {
            Way::Inject => moments.next(),
            // It looks which pages are hot for a second, asks, and waits for the answer.
            _ => Duration::from_millis(match rng.below(3) {
                0 => rng.below(LOOK_MS),
                _ => LOOK_MS + rng.below(SOON_MS),
            }),
        });
        tally.note_end(asking.kill());
        // The thread that was taken waits again, whatever was begun.
        wait_until("the first thread waits", || {
            let call = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/syscall"));
            call.is_ok_and(|call| call.starts_with("230 "))
        });
        let done = is_in(pid);
        moments.was_done(done);
        tally.out += u64::from(done);
        if way == Way::Inject && done {
            tally.verified += number(&load.end(), "verified_pages");
            load = Plain::start(options);
        }
    }
    tally.verified += number(&load.end(), "verified_pages");
}
