//! Tournament of a policy against published ones: on families of programs, sizes and machines, with the
//! best rival of each case chosen on other seeds than it is compared on.

pub mod contest;
pub mod families;
pub mod forms;
pub mod held_out;
pub mod matrix;
pub mod results;
pub mod show;
pub mod standings;
pub mod units;

use crate::lines::Lines;
use crate::parallel;
use frostline_sim::FastSize;
use frostline_terminal::progress::{bar, note};
use results::{Case, Settings};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use units::{Unit, Units};

/// Plays what `results` does not have yet, and notes each unit when it is done. `known` has cases whose
/// rivals need not play again.
///
/// # Errors
/// Those of a study, a stop, and results that cannot be written.
pub fn play(
    units: &Units,
    settings: &Settings,
    known: &[Case],
    jobs: usize,
    results: &mut Lines<Case>,
) -> anyhow::Result<()> {
    let has = |unit: &Unit, fast| results.rows().iter().any(|case| case.is(unit, fast));
    let to_do: Vec<&Unit> =
        units.all.iter().filter(|unit| unit.fast.iter().any(|&fast| !has(unit, fast))).collect();
    let cases: usize = to_do.iter().map(|unit| unit.fast.len()).sum();
    let bar = bar("playing", "cases", Some(cases as u64));
    let (results, done) = (Mutex::new(results), AtomicUsize::new(0));
    let outcome = parallel::each(&to_do, jobs, |unit, monitor| {
        let known = |fast: FastSize| known.iter().find(|case| case.is(unit, fast)).cloned();
        let cases = contest::play(unit, settings, &known, monitor)?;
        bar.inc(cases.len() as u64);
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        note(&format!("[{done}/{}] {} on {}", to_do.len(), unit.trace, unit.machine));
        let mut results = results.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for case in cases {
            if !results.rows().iter().any(|old| same(old, &case)) {
                results.add(case)?;
            }
        }
        Ok(())
    });
    bar.finish_and_clear();
    outcome
}

fn same(a: &Case, b: &Case) -> bool {
    (&a.family, &a.trace, &a.machine, a.tlb, &a.fast)
        == (&b.family, &b.trace, &b.machine, b.tlb, &b.fast)
}

/// Cases of these units that have been played.
pub fn played<'a>(units: &Units, results: &'a Lines<Case>) -> Vec<&'a Case> {
    let of = |case: &&Case| {
        units.all.iter().any(|unit| unit.fast.iter().any(|&fast| case.is(unit, fast)))
    };
    results.rows().iter().filter(of).collect()
}
