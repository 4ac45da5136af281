//! Frostline killed at random moments.

use crate::load::{Load, load_program};
use crate::support::{EAGER, Running, attach, frostline, status_of, text, wait_until};
use crate::system::{System, number, status_kib};
use frostline_core::rng::Rng;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// Rounds, unless this variable says otherwise.
const ROUNDS: u64 = 8;
const ROUNDS_VARIABLE: &str = "FROSTLINE_KILLS";
/// Seed of the moments, unless this variable says otherwise.
const SEED: u64 = 1;
const SEED_VARIABLE: &str = "FROSTLINE_KILL_SEED";

const LATEST_MS: u64 = 1500;
const DEVICE_MIB: u64 = 256;
/// So many KiB do not come back by themselves between two looks.
const SOME_KIB: u64 = 4096;
/// Between a request to end and the kill: taking the slow tier down takes about so long.
const LATEST_AT_END_MS: u64 = 60;

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect(name))
}

/// By turns.
const POLICIES: [&str; 3] = ["memtis", "hybridtier", "hotbox"];

/// What the rounds went through.
#[derive(Debug, Default)]
struct Seen {
    killed: u64,
    pages_out: u64,
    kept_by_clean: u64,
    /// Rounds beside another frostline's device, on which pages may have been.
    shared: u64,
    journals: u64,
    actions: u64,
}

#[test]
fn killed_at_random_moments_nothing_is_lost() {
    let Some(system) = System::take() else { return };
    let (rounds, seed) = (variable(ROUNDS_VARIABLE, ROUNDS), variable(SEED_VARIABLE, SEED));
    let mut rng = Rng::new(seed);
    let folder = tempfile::tempdir().expect("a folder");
    let mut load = Load::start(
        "--size 64MiB --hot 20% --cold-rate 2000/s --writes 20% --shift 2s --threads 2 --checksums \
         --fork-rate 4/s --churn 20/s",
    );
    let mut seen = Seen::default();
    for round in 0..rounds {
        let journal = folder.path().join("journal");
        let policy = POLICIES[round as usize % POLICIES.len()];
        let options =
            format!("--policy {policy} --slow zram:size={DEVICE_MIB}MiB --fast 40% {EAGER}");
        let mut driver =
            Running::start(attach(load.pid(), &options).arg("--journal").arg(&journal));
        let last = round + 1 == rounds;
        if last {
            wait_until("pages are out", || load.swapped_kib() > 2 * SOME_KIB);
        } else {
            std::thread::sleep(Duration::from_millis(rng.below(LATEST_MS)));
        }
        if !last && rng.below(4) == 0 {
            driver.signal(Signal::INT);
            std::thread::sleep(Duration::from_millis(rng.below(LATEST_AT_END_MS)));
        }
        seen.killed += u64::from(driver.kill().signal() == Some(9));
        load.check_running();
        seen.pages_out += u64::from(load.swapped_kib() > 0);
        // A device that is not the first one any more is not taken over.
        let ours = system.swaps_of_mib(DEVICE_MIB);
        assert!(ours.len() <= 1 || system.is_shared(), "round {round}: {ours:?}");
        if last || rng.below(2) == 0 {
            seen.kept_by_clean += u64::from(clean_keeps_what_is_needed(&system, &load));
        }
        seen.shared += u64::from(system.is_shared());
        if let Some(actions) = replayed(&journal) {
            seen.journals += 1;
            seen.actions += actions;
        }
        let _ = std::fs::remove_file(&journal);
    }
    println!("seed {seed}, {rounds} rounds: {seen:?}");
    assert!(seen.killed * 2 > rounds, "{seen:?}");
    assert!(seen.pages_out > 0 && seen.journals > 0, "{seen:?}");
    assert!(seen.kept_by_clean > 0 || seen.shared > 0, "{seen:?}");
    let summary = load.end();
    assert!(summary["forks"].as_u64() > Some(0), "{summary}");
    system.finish();
}

#[test]
fn a_program_outlives_the_frostline_that_started_it() {
    let Some(system) = System::take() else { return };
    let mut command = frostline();
    command.args(format!("run --slow zram:size=128MiB --fast 30% {EAGER} --").split(' '));
    command.arg(load_program()).args("--size 48MiB --checksums --seconds 6 --json".split(' '));
    let mut driver = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::null()));
    let mut program = None;
    wait_until("pages are out", || {
        program = status_of(driver.pid()).map(|s| number(&s["targets"][0], "pid") as u32);
        program.is_some_and(|pid| status_kib(pid, "VmSwap") > SOME_KIB)
    });
    let mut stdout = driver.0.stdout.take().expect("piped");
    driver.kill();
    system.clean_keeps();
    let mut out = Vec::new();
    stdout.read_to_end(&mut out).expect("readable");
    let load: Value = serde_json::from_slice(&out).expect("JSON");
    assert_eq!((&load["mismatches"], &load["ended_by"]), (&json!(0), &json!("time")), "{load}");
    system.finish();
}

/// Cleans up while pages are in swap; whether they had to stay there.
fn clean_keeps_what_is_needed(system: &System, load: &Load) -> bool {
    if load.swapped_kib() < SOME_KIB {
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
    let output = frostline().args(["replay", "--json"]).arg(journal).output().expect("it runs");
    let told = text(&output.stderr);
    if output.status.success() {
        let done = crate::support::only_run(&output.stdout);
        assert!(done["difference"].is_null(), "{done}");
        return done["actions"].as_u64();
    }
    let nothing_in_it = std::fs::metadata(journal).map_or(0, |file| file.len()) < 200;
    assert!(nothing_in_it && told.contains("journal"), "{told}");
    None
}
