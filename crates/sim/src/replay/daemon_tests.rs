//! A daemon's limits: what it may use of a core, and memory that a kernel gave beyond its limit.

use super::testing::*;
use super::*;
use crate::size::FastSize;
use frostline_core::action::{Action, Lane, MoveId};
use frostline_core::event::MoveCause;

/// Few accesses take long.
const SLOW: &str = "lab:thp=off:os.collapse=off:upkeep_share=0.01:costs.fault_base_ns=0\
                    :tiers.fast.read_ns=10us:tiers.slow.read_ns=30us";
/// When all memory has been touched, and when the daemon has been there for long, in ns.
const TOUCHED: u64 = 100_000_000;
const SETTLED: u64 = 1_500_000_000;

fn options(changes: &str, fast_pages: u64) -> SimOptions {
    let machine = Machine::parse(&format!("{SLOW}{changes}")).unwrap();
    SimOptions::new(machine, FastSize::Bytes(PageCount(fast_pages).bytes()))
}

fn demote(id: u64, page: u32, pages: u32) -> Action {
    let run = PageRun { start: PageId(page), pages };
    Action::Migrate { id: MoveId(id), run, to: TierId(1), lane: Lane::DEMOTE }
}

#[test]
fn a_thread_keeps_to_its_share_of_a_core_and_the_program_pays_for_it() {
    let steps: Vec<Step> = (0..100_000).map(|i| load(i % 1024)).collect();
    let actions = || (0..8).map(|i| (TOUCHED, demote(i, i as u32 * 128, 128))).collect();
    let seconds = |share: &str| {
        let options = options(&format!(":worker_share={share}:settling_share={share}"), 2048);
        let (outcome, _) = run_script(&steps, sampling(1_000_000, actions()), &options);
        assert_eq!(outcome.report.demoted_bytes, 1024 * PAGE_BYTES);
        (outcome.report.fast_hit_ratio, outcome.report.time_split.migrate)
    };
    let ((half, paid), (tenth, also_paid)) = (seconds("0.5"), seconds("0.1"));
    assert!(tenth > half + 0.02, "fast for longer: {half} {tenth}");
    assert!((paid - also_paid).abs() < 1e-9 && paid > 1024.0 * 30e-6, "{paid} {also_paid}");
}

#[test]
fn what_brings_pages_up_goes_before_what_brings_them_down() {
    let steps: Vec<Step> = (0..200_000).map(|i| load(i % 1024)).collect();
    let promote = Action::Migrate {
        id: MoveId(9),
        run: PageRun { start: PageId(1020), pages: 4 },
        to: TierId(0),
        lane: Lane::PROMOTE,
    };
    let room = (TOUCHED, demote(0, 512, 64));
    let later = [demote(1, 0, 128), demote(2, 128, 128), promote].map(|what| (SETTLED, what));
    let actions = std::iter::once(room).chain(later).collect();
    let (_, events) = run_script(&steps, sampling(1_000_000, actions), &options("", 1020));
    let order: Vec<u64> = events
        .iter()
        .filter_map(|e| if let Event::MigrationDone { id, .. } = e { Some(id.0) } else { None })
        .collect();
    let first = order[0];
    // The demotion under way is not interrupted; the one behind it waits.
    assert_eq!(order, [first, first + 1, first + 3, first + 2]);
}

#[test]
fn a_kernel_gives_more_than_the_limit_and_the_daemon_takes_it_back() {
    let steps: Vec<Step> = (0..300_000).map(|i| load(i % 1000)).collect();
    let mut options = options("", 500);
    options.kernel_fast = Some(PageCount(700).bytes());
    let (outcome, events) = run_script(&steps, sampling(1_000_000, Vec::new()), &options);
    assert_eq!(outcome.report.tiers[0].resident_bytes_max, 700 * PAGE_BYTES);
    assert_eq!(outcome.report.tiers[0].resident_bytes, 500 * PAGE_BYTES);
    let reclaimed = |e: &&Event| matches!(e, Event::Moved { cause: MoveCause::Reclaim, .. });
    assert_eq!(events.iter().filter(reclaimed).count(), 200);
    // Nobody looks after a program whose policy is told nothing.
    let (outcome, events) = run_script(&steps, Script::new([]), &options);
    assert_eq!(outcome.report.tiers[0].resident_bytes, 700 * PAGE_BYTES);
    assert_eq!(events.iter().filter(reclaimed).count(), 0);
}

#[test]
fn reclaim_gives_a_second_chance_to_what_was_sampled() {
    // Pages 0 to 99 are used, the others touched once.
    let mut steps: Vec<Step> = (0..700).map(load).collect();
    steps.extend((0..300_000).map(|i| load(i % 100)));
    let mut options = options("", 500);
    options.kernel_fast = Some(PageCount(700).bytes());
    let (outcome, events) = run_script(&steps, sampling(101, Vec::new()), &options);
    assert_eq!(outcome.report.tiers[0].resident_bytes, 500 * PAGE_BYTES);
    let taken = events.iter().filter_map(|e| match e {
        Event::Moved { run, cause: MoveCause::Reclaim, .. } => Some(run.start.0),
        _ => None,
    });
    assert_eq!(taken.filter(|page| *page < 100).count(), 0);
}

#[test]
fn collapse_fails_where_programs_refuse_folios() {
    let steps: Vec<Step> = (0..200_000).map(|i| load(i % 512)).collect();
    let collapse = Action::Collapse { region: Region(0), to: TierId(0), lane: Lane::SCAN };
    let collapses = |machine: &str| {
        let machine = Machine::parse(machine).unwrap();
        let options = SimOptions::new(machine, FastSize::Bytes(PageCount(2048).bytes()));
        let (outcome, _) = run_script(&steps, Script::new([(300_000, collapse)]), &options);
        let failed = outcome.report.counters["engine.failed_collapses"];
        (outcome.report.collapses, failed)
    };
    assert_eq!(collapses("dram-nvm:thp=off"), (1, 0.0));
    assert_eq!(collapses("dram-nvm:thp=off:os.collapse=off"), (0, 1.0));
}

#[test]
fn moments_tell_what_has_happened_so_far() {
    let steps: Vec<Step> = (0..10_240).map(|i| load(i % 512)).collect();
    let mut options = options("", 256);
    options.moments = vec![25_600, 51_200, u64::MAX];
    let (outcome, _) = run_script(&steps, Script::new([]), &options);
    let [first, second] = &outcome.moments[..] else { panic!("{:?}", outcome.moments) };
    let all = |moment: &Moment| moment.accesses.iter().sum::<u64>();
    // The clock advances by 10 with every access, and batches have 256.
    assert_eq!((all(first), all(second)), (2560 - 256, 5120 - 256));
    assert!(second.seconds > first.seconds && first.accesses[1] > 0);
}

#[test]
fn shares_out_of_range_are_refused() {
    for wrong in ["worker_share=0", "settling_share=2", "upkeep_share=1"] {
        assert!(Machine::parse(&format!("lab:cpu.{wrong}")).is_err(), "{wrong}");
    }
}
