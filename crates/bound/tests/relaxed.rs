//! The bound against a linear program of the model it solves: fractional placements whose
//! occupancy stays within the capacity on average over every epoch.

mod common;

use common::{Step, matrix, random_model, random_steps, saving};
use frostline_bound::{BoundModel, EpochChoice, EpochMatrix, SolveOptions, solve};
use frostline_core::rng::Rng;
use microlp::{ComparisonOp, LinearExpr, OptimizationDirection, Problem, Variable};

/// A life of a page: from its first access to its end, at which leaving costs nothing.
struct Life {
    page: u32,
    birth: usize,
    death: usize,
}

fn lives(steps: &[Step]) -> (Vec<Life>, usize) {
    let mut lives: Vec<Life> = Vec::new();
    let mut time = 0;
    for &step in steps {
        let (Step::Access(page, _) | Step::Free(page)) = step;
        let open = lives.iter_mut().find(|l| l.page == page && l.death == usize::MAX);
        match (step, open) {
            (Step::Free(_), Some(life)) => life.death = time,
            (Step::Access(..), None) => lives.push(Life { page, birth: time, death: usize::MAX }),
            _ => {}
        }
        time += usize::from(matches!(step, Step::Access(..)));
    }
    lives.iter_mut().for_each(|life| life.death = life.death.min(time));
    (lives, time)
}

/// Written down from the definition: one variable per page and access for being fast, one each for
/// coming and going in between.
fn relaxed_optimum(steps: &[Step], model: &BoundModel, matrix: &EpochMatrix) -> f64 {
    let (lives, records) = lives(steps);
    let kinds: Vec<_> = steps
        .iter()
        .filter_map(|&step| match step {
            Step::Access(page, kind) => Some((page, kind)),
            Step::Free(_) => None,
        })
        .collect();
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let mut occupancy: Vec<Vec<Variable>> = vec![Vec::new(); records];
    for life in &lives {
        let mut previous: Option<Variable> = None;
        for time in life.birth..life.death {
            let (page, kind) = kinds[time];
            let gain = if page == life.page { saving(model, kind) } else { 0.0 };
            let fast = problem.add_var(gain, (0.0, 1.0));
            if let Some(previous) = previous {
                let come = problem.add_var(-model.promotion_cost_ns, (0.0, 1.0));
                let go = problem.add_var(-model.demotion_cost_ns, (0.0, 1.0));
                let mut balance = LinearExpr::empty();
                balance.add(fast, 1.0);
                balance.add(previous, -1.0);
                balance.add(come, -1.0);
                balance.add(go, 1.0);
                problem.add_constraint(balance, ComparisonOp::Eq, 0.0);
            }
            occupancy[time].push(fast);
            previous = Some(fast);
        }
    }
    for epoch in 0..matrix.epochs() {
        let range = matrix.epoch_records(epoch);
        let room = (range.end - range.start) * model.capacity_pages;
        let mut used = LinearExpr::empty();
        for time in range {
            occupancy[time as usize].iter().for_each(|&fast| used.add(fast, 1.0));
        }
        problem.add_constraint(used, ComparisonOp::Le, room as f64);
    }
    problem.solve().expect("staying slow is always possible").objective()
}

#[test]
fn the_dual_meets_the_optimum_of_the_relaxed_problem() {
    let mut rng = Rng::new(23);
    let (mut cases, mut total, mut worst) = (0, 0.0, 0.0f64);
    while cases < 120 {
        let pages = 3 + rng.below(6);
        let accesses = 10 + rng.below(50) as usize;
        let steps = random_steps(&mut rng, pages, accesses);
        let capacity = 1 + rng.below(3);
        let model = random_model(&mut rng, capacity);
        let matrix = matrix(&steps, EpochChoice::About(1 + rng.below(8) as u32));
        let exact = relaxed_optimum(&steps, &model, &matrix);
        if exact <= 0.0 || matrix.peak_resident_pages() <= capacity {
            continue;
        }
        let options =
            SolveOptions { target_gap: 0.0, max_iterations: 2000, ..SolveOptions::default() };
        let bound = solve(&matrix, &model, &options).unwrap();
        let over = bound.saving_upper_ns / exact - 1.0;
        assert!(over > -1e-6, "{} below {exact}: {steps:?}, {model:?}", bound.saving_upper_ns);
        total += over;
        worst = worst.max(over);
        cases += 1;
    }
    let mean = total / f64::from(cases);
    eprintln!("mean {mean}, worst {worst}");
    assert!(mean < 0.005, "{mean}");
    assert!(worst < 0.05, "{worst}");
}
