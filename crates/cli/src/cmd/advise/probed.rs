//! Advice on a program that runs, by probes of it.

use super::asked::{Asked, Found, Measured, PLACED, Samples};
use frostline_core::types::Nanos;
use frostline_driver::probes::{self, Half, Probed, Probes, TICK};
use frostline_linux::Root;
use frostline_report::units::bytes;
use frostline_study::advise::probed;
use frostline_terminal::{cancel, progress};
use std::time::Duration;

/// Part of the least slowdown that is accepted that probes may cost.
const COST: f64 = 0.1;
/// Most that they may cost.
const MOST_COST: f64 = 0.002;

/// Probes a process.
///
/// # Errors
/// Where it cannot be probed, or ends.
pub(super) fn probe(root: &Root, asked: &Asked<'_>) -> anyhow::Result<Found> {
    let least = asked.goals.iter().copied().fold(f64::INFINITY, f64::min);
    let share = (least * COST).min(MOST_COST);
    let found =
        looks(root, asked.pid, probes::Asked { time: asked.time, share, seed: asked.seed })?;
    let measured = measured(&found);
    let half = |half: Half| probed::Half {
        returns: f64::from(half.returns),
        seconds: half.time.as_secs_f64(),
    };
    let of_pages = probed::Probed {
        pages: found.pages.iter().map(|halves| halves.map(half)).collect(),
        memory_bytes: found.memory.0,
        unknown: found.huge.0 as f64 / found.memory.0.max(1) as f64,
        refault_seconds: measured.refault_seconds,
        busy: measured.cores,
    };
    // The rest would have no meaning.
    asked.check_work(measured.pages, measured.cores)?;
    let advice = of_pages.advise(PLACED, asked.goals, asked.seed);
    Ok(Found { based_on: based_on(&found, &measured), advice, measured })
}

fn measured(found: &Probed) -> Measured {
    let refaults = found.pages.iter().flatten().map(|half| u64::from(half.returns)).sum::<u64>();
    let [refault, cpu, seconds] = [found.refault, found.cpu, found.time].map(Nanos::as_secs_f64);
    let probes = refaults as f64 * refault;
    let useful = (cpu - probes).max(0.0);
    Measured {
        by: Samples::Probes,
        pages: found.pages.len(),
        probes: Some(found.probes),
        refaults: Some(refaults),
        touches: None,
        seconds,
        refault_seconds: refault,
        is_presumed: found.is_presumed,
        cores: useful / seconds.max(1e-9),
        cost: probes / useful.max(1e-9),
    }
}

fn looks(root: &Root, pid: u32, asked: probes::Asked) -> anyhow::Result<Probed> {
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
    let Measured { pages, seconds, refault_seconds, cores, cost, .. } = measured;
    let (probes, refaults) = (measured.probes.unwrap_or(0), measured.refaults.unwrap_or(0));
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
