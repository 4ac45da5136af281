//! Frostline killed at random moments, over all that it does to programs here.
//!
//! `FROSTLINE_KILLS=2000` is a campaign (docs/notes/reliability.md); without it, the same runs short.

mod rounds;
mod tally;

use crate::load::load_program;
use crate::support::{EAGER, Running, frostline, status_of, wait_until};
use crate::system::{SOME_KIB, System, number, status_kib};
use frostline_core::rng::Rng;
use rounds::{Way, kill_again_and_again};
use serde_json::{Value, json};
use std::io::Read;
use std::process::Stdio;
use tally::Tally;

/// Kills, unless this variable says otherwise.
const KILLS: u64 = 15;
const KILLS_VARIABLE: &str = "FROSTLINE_KILLS";
/// Seed of the moments, unless this variable says otherwise.
const SEED: u64 = 1;
const SEED_VARIABLE: &str = "FROSTLINE_SEED";
/// Kills that are left out: to go on after an interruption, with the same seed.
const FROM_VARIABLE: &str = "FROSTLINE_KILLS_FROM";
/// Kills beside one program, before it looks at all of its memory.
const MOST_PER_PROGRAM: u64 = 20;

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect(name))
}

#[test]
fn killed_at_random_moments_nothing_is_lost() {
    let (kills, seed) = (variable(KILLS_VARIABLE, KILLS), variable(SEED_VARIABLE, SEED));
    let ways = Way::ALL.len() as u64;
    let per_program = (kills / ways).clamp(1, MOST_PER_PROGRAM);
    let first = variable(FROM_VARIABLE, 0) / per_program;
    let mut tallies = Way::ALL.map(|way| (way, Tally::default()));
    for part in first..kills.div_ceil(per_program) {
        let turn = part as usize;
        let (way, tally) = &mut tallies[turn % Way::ALL.len()];
        // Each part has moments of its own, whatever came before it.
        let mut rng = Rng::new(seed.wrapping_mul(1 << 32).wrapping_add(part));
        let killed = part * per_program;
        let count = per_program.min(kills - killed);
        let Some(seen) = kill_again_and_again(*way, turn / Way::ALL.len(), count, &mut rng) else {
            continue;
        };
        *tally += seen;
        tally::say(&format!(
            "seed {seed}, {} of {kills} kills; {}",
            killed + count,
            tally.line(*way)
        ));
    }
    tally::print(seed, &tallies);
    for (way, tally) in tallies {
        tally.check(way);
    }
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
