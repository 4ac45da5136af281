//! The bound against the exact optimum of small traces.

mod common;

use common::{Step, Steps, matrix, optimum, random_model, random_steps};
use frostline_bound::{EpochChoice, EpochMatrix, SolveOptions, solve};
use frostline_core::rng::Rng;

const SEARCH: SolveOptions = SolveOptions { target_gap: 0.0, max_iterations: 300, keep_plan: true };

/// Also with moves at any moment, for every division into epochs and however short the search.
#[test]
fn no_placement_saves_more_than_the_bound() {
    let mut rng = Rng::new(11);
    let (mut positive, mut binding, mut freed) = (0, 0, 0);
    for case in 0..600 {
        let pages = 1 + rng.below(5);
        let accesses = 1 + rng.below(24) as usize;
        let steps = random_steps(&mut rng, pages, accesses);
        let capacity = 1 + rng.below(3);
        let model = random_model(&mut rng, capacity);
        let exact = optimum(&steps, &model);
        let free = optimum(&steps, &model.with_capacity(64));
        positive += u32::from(exact > 0.0);
        binding += u32::from(exact < free);
        freed += u32::from(steps.iter().any(|s| matches!(s, Step::Free(_))));
        for epochs in [1, 2, 5, 1000] {
            let matrix = matrix(&steps, EpochChoice::About(epochs));
            for max_iterations in [1, 2, 7, 40] {
                let options = SolveOptions { max_iterations, ..SEARCH };
                let bound = solve(&matrix, &model, &options).unwrap();
                assert!(
                    bound.saving_upper_ns >= exact - 1e-9,
                    "case {case}: {} below {exact}, {epochs} epochs, {steps:?}, {model:?}",
                    bound.saving_upper_ns
                );
                assert!(bound.saving_feasible_ns <= exact + 1e-9, "case {case}");
                let plan = bound.plan.expect("asked for");
                let value = plan.check(&matrix, &model).expect("a plan has to be possible");
                assert_eq!(value, bound.saving_feasible_ns, "case {case}");
            }
        }
    }
    assert!(positive > 300 && binding > 200 && freed > 200, "{positive} {binding} {freed}");
}

/// With one price per access nothing is relaxed: the dual of a flow problem meets its optimum.
#[test]
fn one_price_per_access_gives_the_optimum() {
    let mut rng = Rng::new(5);
    let (mut cases, mut excess, mut worst) = (0, 0.0, 0.0f64);
    while cases < 150 {
        let pages = 2 + rng.below(3);
        let steps = random_steps(&mut rng, pages, 12);
        let capacity = 1 + rng.below(2);
        let model = random_model(&mut rng, capacity);
        let exact = optimum(&steps, &model);
        if exact <= 0.0 || exact == optimum(&steps, &model.with_capacity(64)) {
            continue;
        }
        let matrix = matrix(&steps, EpochChoice::Records(1));
        let options = SolveOptions { max_iterations: 3000, ..SEARCH };
        let bound = solve(&matrix, &model, &options).unwrap();
        let over = bound.saving_upper_ns / exact - 1.0;
        excess += over;
        worst = worst.max(over);
        cases += 1;
    }
    let mean = excess / f64::from(cases);
    eprintln!("mean {mean}, worst {worst}");
    assert!(mean < 0.01, "{mean}");
    assert!(worst < 0.06, "{worst}");
}

/// Records that share a tick, as in traces too long for a tick each.
#[test]
fn coarse_ticks_bound_too() {
    let mut rng = Rng::new(17);
    let mut plans = 0;
    for case in 0..300 {
        let pages = 2 + rng.below(4);
        let steps = random_steps(&mut rng, pages, 30);
        let capacity = 1 + rng.below(2);
        let model = random_model(&mut rng, capacity);
        let exact = optimum(&steps, &model);
        let (mut source, epochs) = (Steps::new(&steps), EpochChoice::About(3));
        let matrix = EpochMatrix::with_ticks(&mut source, epochs, 7).unwrap();
        assert_eq!(matrix.epoch_records(matrix.epochs() - 1).end, matrix.records());
        let bound = solve(&matrix, &model, &SEARCH).unwrap();
        assert!(bound.saving_upper_ns >= exact - 1e-9, "case {case}");
        assert!(bound.saving_feasible_ns <= exact + 1e-9, "case {case}: {steps:?} {model:?}");
        let plan = bound.plan.expect("asked for");
        assert_eq!(plan.check(&matrix, &model), Ok(bound.saving_feasible_ns), "case {case}");
        plans += u32::from(!plan.residencies().is_empty());
    }
    assert!(plans > 150, "{plans}");
}
