//! Programs under systems, several times each.

use crate::programs::Program;
use crate::systems::System;
use crate::trial::{self, Trial};
use frostline_guest::LabOptions;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// What shall run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Programs.
    pub programs: Vec<Program>,
    /// Systems.
    pub systems: Vec<System>,
    /// Of seeds 1, 2, ... so many.
    pub seeds: u64,
    /// Machines that run at the same time.
    pub jobs: usize,
    /// The machine; its seed is each trial's own.
    pub lab: LabOptions,
}

/// Runs all of it, and says on standard error what is over. The first failure ends it.
///
/// # Errors
/// Of the first trial that failed.
pub fn run(plan: &Plan) -> anyhow::Result<Vec<Trial>> {
    let mut all = Vec::new();
    for program in &plan.programs {
        for system in &plan.systems {
            all.extend((1..=plan.seeds).map(|seed| (*program, system, seed)));
        }
    }
    let next = AtomicUsize::new(0);
    let results = Mutex::new((Vec::new(), None));
    thread::scope(|scope| {
        for _ in 0..plan.jobs.clamp(1, all.len().max(1)) {
            scope.spawn(|| {
                while let Some((program, system, seed)) =
                    all.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let result = trial::run(*program, system, *seed, plan.lab);
                    let mut results = results.lock().unwrap_or_else(|error| error.into_inner());
                    match result {
                        Ok(trial) => {
                            let done = results.0.len() + 1;
                            let (name, system) = (program.name, &system.name);
                            eprintln!("[{done}/{}] {name} under {system}, seed {seed}", all.len());
                            results.0.push(trial);
                        }
                        Err(error) => {
                            results.1.get_or_insert(error);
                            next.store(all.len(), Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    let (mut trials, failed) = results.into_inner().unwrap_or_else(|error| error.into_inner());
    if let Some(error) = failed {
        return Err(error);
    }
    let place = |trial: &Trial| {
        let program = plan.programs.iter().position(|program| program.name == trial.program);
        let system = plan.systems.iter().position(|system| system.name == trial.system);
        (program, system, trial.seed)
    };
    trials.sort_by_key(place);
    Ok(trials)
}

/// Mean, and half of the span from least to most.
fn mean_and_spread(values: &[f64]) -> (f64, f64) {
    let (least, most) =
        values.iter().fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(*v), b.max(*v)));
    (values.iter().sum::<f64>() / values.len().max(1) as f64, (most - least).max(0.0) / 2.0)
}

/// A table: a line for each program and system, means over seeds with half their span.
pub fn table(trials: &[Trial]) -> String {
    let mut text = String::new();
    let mut rest = trials;
    while let Some(first) = rest.first() {
        let same =
            rest.iter().take_while(|t| (&t.program, &t.system) == (&first.program, &first.system));
        let (group, after) = rest.split_at(same.count());
        rest = after;
        let of = |value: fn(&Trial) -> f64| {
            mean_and_spread(&group.iter().map(value).collect::<Vec<_>>())
        };
        let (hits, hits_span) = of(|trial| 100.0 * trial.fast_hit_ratio);
        let (late, _) = of(|trial| 100.0 * trial.fast_hit_ratio_late);
        let (seconds, seconds_span) = of(|trial| trial.seconds);
        let (moved, _) = of(|trial| trial.moved_bytes as f64 / f64::from(1 << 20));
        let (tiering, _) = of(|trial| trial.tiering_seconds);
        let _ = writeln!(
            text,
            "{:10} {:24} {hits:6.1} ±{hits_span:<4.1} {late:6.1} {seconds:9.2} ±{seconds_span:<5.2} {moved:9.0} {tiering:9.2}",
            first.program, first.system,
        );
    }
    let head = format!(
        "{:10} {:24} {:>12} {:>6} {:>16} {:>9} {:>9}\n",
        "program", "system", "fast hits %", "late", "modelled s", "MiB moved", "tiering s"
    );
    head + &text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_put_together() {
        let trial = |system: &str, seed, fast_hit_ratio| Trial {
            program: "p".into(),
            system: system.to_owned(),
            seed,
            accesses: 1,
            fast_hit_ratio,
            fast_hit_ratio_late: 0.5,
            seconds: 1.0,
            moved_bytes: 1 << 20,
            ..Trial::default()
        };
        let text = table(&[trial("a", 1, 0.2), trial("a", 2, 0.4), trial("b", 1, 1.0)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[1].contains("30.0 ±10.0") && lines[2].contains("100.0 ±0.0"), "{text}");
    }
}
