//! Tests of the matrix: its content for a trace, odd traces, and refusals.

mod common;

use common::{Step, Steps, matrix, random_model, random_steps, saving};
use frostline_bound::{
    BoundError, BoundModel, EpochChoice, EpochMatrix, Plan, PlanError, Residency, SolveOptions,
    solve,
};
use frostline_core::rng::Rng;
use frostline_core::types::{AccessKind, PageId, PageRun, ProcessId};
use frostline_trace::{Batch, TimedEvent, TraceError, TraceEvent, TraceHeader, TraceSource};
use std::collections::BTreeMap;

const LOAD: AccessKind = AccessKind::Load;
const STORE: AccessKind = AccessKind::Store;

fn model(capacity_pages: u64) -> BoundModel {
    BoundModel {
        read_saving_ns: 2.0,
        write_saving_ns: 3.0,
        write_back_saving_ns: 0.0,
        promotion_cost_ns: 5.0,
        demotion_cost_ns: 1.0,
        capacity_pages,
    }
}

/// Ten accesses to pages 0 and 4, which is freed and accessed again.
fn steps() -> Vec<Step> {
    let mut steps = vec![Step::Access(0, LOAD); 5];
    steps.extend([Step::Access(4, STORE), Step::Access(4, AccessKind::WriteBack), Step::Free(4)]);
    steps.extend([
        Step::Access(0, LOAD),
        Step::Access(4, AccessKind::Fetch),
        Step::Access(0, STORE),
    ]);
    steps
}

#[test]
fn totals_and_sizes() {
    let matrix = matrix(&steps(), EpochChoice::Records(4));
    assert_eq!((matrix.records(), matrix.pages(), matrix.touched_pages()), (10, 5, 2));
    assert_eq!(matrix.peak_resident_pages(), 2);
    assert_eq!(matrix.page_totals(&model(1)), [15.0, 0.0, 0.0, 0.0, 5.0]);
    assert_eq!(matrix.all_fast_saving_ns(&model(1)), 20.0);
    assert_eq!(matrix.epochs(), 3);
    assert_eq!(
        (0..4).map(|e| matrix.epoch_records(e)).collect::<Vec<_>>(),
        [0..4, 4..8, 8..10, 10..10]
    );
    assert_eq!(matrix.epoch_pages(1, &model(1)), [(PageId(0), 4.0), (PageId(4), 3.0)]);
}

#[test]
fn epochs_by_cursor_by_number_and_by_counting_agree() {
    let mut rng = Rng::new(3);
    for _ in 0..50 {
        let steps = random_steps(&mut rng, 6, 80);
        let model = random_model(&mut rng, 1);
        let matrix = matrix(&steps, EpochChoice::About(1 + rng.below(20) as u32));
        let accesses: Vec<_> = steps
            .iter()
            .filter_map(|&s| match s {
                Step::Access(page, kind) => Some((page, kind)),
                Step::Free(_) => None,
            })
            .collect();
        let mut cursor = matrix.cursor(&model);
        let mut pages = Vec::new();
        for epoch in 0..matrix.epochs() {
            let range = matrix.epoch_records(epoch);
            let mut counted = BTreeMap::new();
            for &(page, kind) in &accesses[range.start as usize..range.end as usize] {
                *counted.entry(PageId(page)).or_insert(0.0) += saving(&model, kind);
            }
            let counted: Vec<_> = counted.into_iter().collect();
            assert!(cursor.next_epoch(&mut pages));
            assert_eq!(pages, counted);
            assert_eq!(matrix.epoch_pages(epoch, &model), counted);
        }
        assert!(!cursor.next_epoch(&mut pages));
        assert!(pages.is_empty());
    }
}

#[test]
fn the_number_of_epochs_is_about_what_was_asked_for() {
    let steps = vec![Step::Access(0, LOAD); 1000];
    for about in [1, 2, 3, 100, 500] {
        let epochs = matrix(&steps, EpochChoice::About(about)).epochs();
        assert!((about..=2 * about).contains(&epochs), "{epochs} for {about}");
    }
    assert_eq!(matrix(&steps, EpochChoice::About(0)).epochs(), 2);
    assert_eq!(matrix(&steps, EpochChoice::About(5000)).epochs(), 1000);
    assert_eq!(matrix(&steps, EpochChoice::Records(100)).epoch_records(0), 0..64);
    assert_eq!(matrix(&steps, EpochChoice::Records(0)).epochs(), 1000);
    assert_eq!(matrix(&steps, EpochChoice::Records(u64::MAX)).epochs(), 1);
}

#[test]
fn a_thinned_record_stands_for_many() {
    let matrix =
        EpochMatrix::from_source(&mut Steps::thinned(&steps(), 8), EpochChoice::default()).unwrap();
    assert_eq!(matrix.all_fast_saving_ns(&model(1)), 160.0);
}

#[test]
fn empty_traces_and_no_fast_memory_save_nothing() {
    let none = matrix(&[], EpochChoice::default());
    assert_eq!((none.records(), none.epochs(), none.pages()), (0, 0, 0));
    let bound = solve(&none, &model(3), &SolveOptions::default()).unwrap();
    assert_eq!((bound.saving_upper_ns, bound.gap, bound.iterations), (0.0, 0.0, 0));
    assert_eq!(bound.share(1.0), None);
    let some = matrix(&steps(), EpochChoice::default());
    let bound = solve(&some, &model(0), &SolveOptions::default()).unwrap();
    assert_eq!(bound.saving_upper_ns, 0.0);
}

#[test]
fn room_for_everything_saves_everything() {
    let matrix = matrix(&steps(), EpochChoice::default());
    let bound = solve(&matrix, &model(2), &SolveOptions::default()).unwrap();
    assert_eq!(bound.saving_feasible_ns, bound.all_fast_saving_ns);
    assert!(bound.gap < 1e-8 && bound.iterations == 1);
}

/// Page 0 is moved onto page 1: both are born again, and may be fast without a promotion.
#[test]
fn a_remapped_page_may_change_tiers_for_nothing() {
    struct Remapped(TraceHeader, u32);
    impl TraceSource for Remapped {
        fn header(&self) -> &TraceHeader {
            &self.0
        }
        fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
            batch.clear();
            self.1 += 1;
            let event = TraceEvent::Remap {
                process: ProcessId(0),
                old_start: 0,
                old_len_bytes: 4096,
                new_start: 4096,
                new_len_bytes: 4096,
                moves: vec![(PageRun::single(PageId(0)), PageId(1))],
                gained: Vec::new(),
                lost: Vec::new(),
            };
            match self.1 {
                1 => batch.pages.extend([0, 1, 2]),
                2 => {
                    batch.events.push(TimedEvent { clock: 0, event });
                    batch.pages.extend([2, 1]);
                }
                _ => {}
            }
            Ok(!batch.is_empty())
        }
    }
    let mut source = Remapped(TraceHeader::named("remapped"), 0);
    let matrix = EpochMatrix::from_source(&mut source, EpochChoice::Records(1)).unwrap();
    assert_eq!(matrix.peak_resident_pages(), 3);
    let plan = Plan::new(vec![
        Residency { page: PageId(1), start: 1, end: 3 },
        Residency { page: PageId(1), start: 4, end: 5 },
    ]);
    assert_eq!(plan.check(&matrix, &model(1)), Ok(4.0), "no move is paid for");
}

#[test]
fn impossible_plans_are_refused() {
    let matrix = matrix(&steps(), EpochChoice::default());
    let stay = |page, start, end| Residency { page: PageId(page), start, end };
    let check =
        |residencies: &[Residency]| Plan::new(residencies.to_vec()).check(&matrix, &model(1));
    assert_eq!(check(&[stay(0, 0, 10)]), Ok(15.0));
    assert_eq!(check(&[stay(0, 2, 5)]), Ok(6.0 - 5.0 - 1.0));
    assert_eq!(check(&[stay(4, 5, 7), stay(0, 7, 10)]), Ok(3.0 + 5.0 - 5.0));
    let over = PlanError::OverCapacity { tick: 5, pages: 2, capacity_pages: 1 };
    assert_eq!(check(&[stay(0, 0, 10), stay(4, 5, 7)]), Err(over));
    for dead in
        [stay(4, 4, 7), stay(4, 5, 8), stay(4, 5, 10), stay(0, 0, 11), stay(1, 0, 1), stay(9, 0, 1)]
    {
        assert_eq!(check(&[dead]), Err(PlanError::NotAlive { residency: dead }));
    }
    assert!(matches!(check(&[stay(0, 3, 3)]), Err(PlanError::Order { .. })));
    let twice = Plan::new(vec![stay(0, 0, 4), stay(0, 3, 6)]).check(&matrix, &model(2));
    assert!(matches!(twice, Err(PlanError::Order { .. })));
}

#[test]
fn senseless_models_are_refused() {
    let matrix = matrix(&steps(), EpochChoice::default());
    let wrong = [
        BoundModel { promotion_cost_ns: -1.0, ..model(1) },
        BoundModel { demotion_cost_ns: f64::INFINITY, ..model(1) },
        BoundModel { read_saving_ns: f64::NAN, ..model(1) },
    ];
    for model in wrong {
        let error = solve(&matrix, &model, &SolveOptions::default()).unwrap_err();
        assert!(matches!(error, BoundError::Model { .. }), "{error}");
    }
}

/// Sums are made in an order of their own.
#[test]
fn the_number_of_threads_changes_nothing() {
    let mut rng = Rng::new(29);
    let steps = random_steps(&mut rng, 300, 20_000);
    let matrix = matrix(&steps, EpochChoice::default());
    let model = BoundModel { read_saving_ns: 7.0, ..model(60) };
    let bounds = [1, 3].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| solve(&matrix, &model, &SolveOptions::default())).unwrap()
    });
    assert_eq!(bounds[0].saving_upper_ns, bounds[1].saving_upper_ns);
    assert_eq!(bounds[0].saving_feasible_ns, bounds[1].saving_feasible_ns);
    assert_eq!(bounds[0].epoch_prices_ns, bounds[1].epoch_prices_ns);
    assert!(bounds[0].gap < 0.1 && bounds[0].saving_upper_ns < bounds[0].all_fast_saving_ns);
}
