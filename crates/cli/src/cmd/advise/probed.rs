//! Advice on a program that runs, by probes of it.

use super::told::Measured;
use crate::live::slow::SlowMemory;
use frostline_core::types::Nanos;
use frostline_driver::probes::{Asked, Half, Probed, Probes, TICK};
use frostline_linux::{Root, Target};
use frostline_report::units::{bytes, percent};
use frostline_study::advise::Advice;
use frostline_study::advise::probed;
use frostline_terminal::errors::{ResultExt, failure};
use frostline_terminal::{cancel, progress};
use std::time::Duration;

/// Part of the least slowdown that is accepted that probes may cost.
const COST: f64 = 0.1;
/// Most that they may cost.
const MOST_COST: f64 = 0.002;
/// Who places pages, as advice has it.
pub(super) const PLACED: &str = "coldest-out";
/// The machine, as advice has it.
pub(super) const MACHINE: &str = "zram";
/// Where probes go: more than all pages that are drawn.
const DEVICE: &str = "zram:size=64MiB";
/// Processor time in a second from which on a program works.
const WORKS: f64 = 0.01;

/// How long a program is probed where nobody says.
pub(super) const TIME: Nanos = Nanos(60_000_000_000);

/// Advice, and what it is based on.
pub(super) struct Found {
    pub(super) name: String,
    pub(super) advice: Advice,
    pub(super) measured: Measured,
    pub(super) based_on: String,
}

/// Probes a process for so long.
///
/// # Errors
/// Where it cannot be probed, does nothing, or ends.
pub(super) fn probe(pid: u32, time: Nanos, goals: &[f64], seed: u64) -> anyhow::Result<Found> {
    let root = Root::system();
    let target = Target::open(&root, pid).or_hint(
        format!("cannot probe process {pid}"),
        "`pidof PROGRAM` tells its number; there is no trace of that name either",
    )?;
    let name = format!("process {pid} ({})", target.comm()?);
    drop(target);
    let least = goals.iter().copied().fold(f64::INFINITY, f64::min);
    let share = (least * COST).min(MOST_COST);
    cancel::install()?;
    // Pages go to a device of our own: nothing is known of what a refault takes from another one.
    let slow = SlowMemory::set_up(&root, &DEVICE.parse()?)?;
    let found = looks(&root, pid, Asked { time, share, seed });
    slow.take_down();
    let found = found?;
    let measured = measured(&found);
    let busy = measured.cores;
    if found.pages.is_empty() || busy < WORKS {
        let what =
            format!("{name} has worked {} of the time: nothing is slowed down", percent(busy));
        return Err(failure(what, "ask while it works, or for longer: --for 10min"));
    }
    let half = |half: Half| probed::Half {
        returns: f64::from(half.returns),
        seconds: half.time.as_secs_f64(),
    };
    let asked = probed::Probed {
        pages: found.pages.iter().map(|halves| halves.map(half)).collect(),
        memory_bytes: found.memory.0,
        unknown: found.huge.0 as f64 / found.memory.0.max(1) as f64,
        refault_seconds: measured.refault_seconds,
        busy,
    };
    let advice = asked.advise(PLACED, goals, seed);
    Ok(Found { based_on: based_on(&found, &measured), advice, measured, name })
}

fn measured(found: &Probed) -> Measured {
    let refaults = found.pages.iter().flatten().map(|half| u64::from(half.returns)).sum::<u64>();
    let [refault, cpu, seconds] = [found.refault, found.cpu, found.time].map(Nanos::as_secs_f64);
    let probes = refaults as f64 * refault;
    let useful = (cpu - probes).max(0.0);
    Measured {
        pages: found.pages.len(),
        probes: found.probes,
        refaults,
        seconds,
        refault_seconds: refault,
        is_presumed: found.is_presumed,
        cores: useful / seconds.max(1e-9),
        cost: probes / useful.max(1e-9),
    }
}

fn looks(root: &Root, pid: u32, asked: Asked) -> anyhow::Result<Probed> {
    let mut probes = Probes::begin(root, pid, asked)?;
    let bar = progress::bar("probing", "looks", Some(asked.time.0 / TICK.0));
    while probes.step()? && !cancel::requested() {
        bar.inc(1);
        std::thread::sleep(Duration::from_nanos(TICK.0));
    }
    bar.finish_and_clear();
    // What is out comes back first.
    let found = probes.end()?;
    cancel::check()?;
    Ok(found)
}

fn based_on(found: &Probed, measured: &Measured) -> String {
    let Measured { pages, probes, refaults, seconds, refault_seconds, cores, cost, .. } = measured;
    let told =
        if measured.is_presumed { "presumed: the kernel does not tell" } else { "as measured" };
    let huge = match found.huge.0 {
        0 => String::new(),
        n => format!(" {} in huge folios were left alone and count as needed.", bytes(n as f64)),
    };
    format!(
        "{pages} of its pages, drawn at random, were paged out {probes} times in {seconds:.0} s, and came back {refaults} \
         times, which cost it {:.2} %. A refault takes {:.1} us ({told}); the program used {cores:.2} cores.{huge} The \
         sizes are those with which the coldest pages of this time are in compressed memory, however that is decided: what a \
         daemon takes itself, and what it does not foresee, comes on top. The intervals say how much the sizes vary with \
         the pages that were drawn. Of slow nodes nothing is said: how often a page is accessed is not seen by probes, only \
         whether it is.",
        cost * 100.0,
        refault_seconds * 1e6,
    )
}
