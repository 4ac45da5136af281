//! Tournament of policies: every one of them on a matrix of traces, sizes and machines, and their regret to
//! the best of each case.

pub mod matrix;
pub mod results;
pub mod standings;

use frostline_sim::SimOptions;
use frostline_study::{Monitor, Programs, Request, run};
use frostline_terminal::limit;
use matrix::{Matrix, Unit};
use results::{Case, Reached, Results};
use std::collections::BTreeMap;

/// Plays what `results` does not have yet, a trace on a machine at a time, and notes each when it is done.
///
/// # Errors
/// Those of a study, a stop, and results that cannot be written.
pub fn play(
    matrix: &Matrix,
    units: &[Unit<'_>],
    jobs: Option<usize>,
    results: &mut Results,
    monitor: &dyn Monitor,
) -> anyhow::Result<()> {
    let policies = matrix.policies()?;
    let sizes = matrix.sizes()?;
    for (number, unit) in units.iter().enumerate() {
        if sizes.iter().all(|fast| results.has(unit, &fast.to_string(), &policies)) {
            continue;
        }
        monitor.note(&format!(
            "[{}/{}] {} on {}",
            number + 1,
            units.len(),
            unit.trace,
            unit.machine
        ));
        let machine = frostline_study::machine(unit.machine)?;
        let request = Request {
            traces: vec![Programs::alone(unit.trace)],
            guests: Vec::new(),
            sizes: sizes.clone(),
            policies: policies.clone(),
            seeds: 1,
            bound: true,
            jobs,
            options: SimOptions::new(machine, sizes[0]),
            every_series: false,
            limit: limit::current(),
        };
        let study = run(&request, monitor)?;
        for size in &study.traces[0].sizes {
            let reached = size.policies.iter().map(|policy| {
                let report = &policy.first().report;
                let seconds = report.modelled_seconds;
                (policy.spec.clone(), Reached { seconds, share_of_bound: report.share_of_bound })
            });
            results.add(Case {
                family: unit.family.to_owned(),
                trace: unit.trace.to_owned(),
                machine: unit.machine.to_owned(),
                fast: size.fast.to_string(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                policies: reached.collect::<BTreeMap<_, _>>(),
            })?;
        }
    }
    Ok(())
}
