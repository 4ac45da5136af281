//! Daemon hosted by the machine: its share of a core, and its limit of fast memory.

use super::testing::*;
use super::*;
use crate::machine::Machine;
use crate::options::HostedDaemon;
use crate::size::FastSize;
use frostline_core::action::{Action, Lane, MoveId};
use frostline_core::policy::{Offer, registry};
use frostline_daemon::Goal;

/// Few accesses take long.
const SLOW: &str = "lab:thp=off:os.collapse=off:costs.step_ns=500us:costs.fault_base_ns=0\
                    :tiers.fast.read_ns=10us:tiers.slow.read_ns=30us";
/// When all memory has been touched and found, in ns.
const FOUND: u64 = 100_000_000;

fn options(fast_pages: u64) -> SimOptions {
    let machine = Machine::parse(SLOW).unwrap();
    SimOptions::new(machine, FastSize::Bytes(PageCount(fast_pages).bytes()))
}

/// The policy decides in a daemon.
fn hosted(fast_pages: u64, spare_pages: u64, share: f64) -> SimOptions {
    let daemon = HostedDaemon {
        spare: PageCount(spare_pages).bytes(),
        cpu_share: share,
        settling_cpu_share: share,
        brief: false,
        goal: None,
    };
    SimOptions { daemon: Some(daemon), ..options(fast_pages) }
}

fn demote(id: u64, page: u32, pages: u32) -> Action {
    let run = PageRun { start: PageId(page), pages };
    Action::Migrate { id: MoveId(id), run, to: TierId(1), lane: Lane::DEMOTE }
}

#[test]
fn a_daemon_keeps_to_its_share_of_a_core_and_the_program_pays_for_it() {
    let steps: Vec<Step> = (0..100_000).map(|i| load(i % 1024)).collect();
    let actions = || (0..8).map(|i| (FOUND, demote(i, i as u32 * 128, 128))).collect();
    let ratios = |share| {
        let options = hosted(2048, 0, share);
        let (outcome, _) = run_script(&steps, sampling(1_000_000, actions()), &options);
        assert_eq!(outcome.report.demoted_bytes, 1024 * PAGE_BYTES);
        (outcome.report.fast_hit_ratio, outcome.report.time_split.migrate)
    };
    let ((half, paid), (tenth, also_paid)) = (ratios(0.5), ratios(0.1));
    assert!(tenth > half + 0.02, "fast for longer: {half} {tenth}");
    assert!((paid - also_paid).abs() < 1e-9 && paid > 1024.0 * 30e-6, "{paid} {also_paid}");
}

#[test]
fn a_program_that_fits_stays_where_it_is_while_it_is_found() {
    // They come within two seconds, and the daemon has not found all of them when it looks at its limit.
    let steps: Vec<Step> = (0..1_000_000).map(|i| load((i / 3).min(75_000))).collect();
    let (outcome, _) =
        run_script(&steps, sampling(1_000_000, Vec::new()), &hosted(76_000, 0, 0.02));
    assert_eq!(outcome.report.footprint_bytes, 75_001 * PAGE_BYTES);
    assert_eq!(outcome.report.counters["machine.reclaimed_pages"], 0.0);
}

#[test]
fn loads_are_counted_by_tier_for_who_wants_no_samples() {
    // Half of the pages are slow after a while.
    let steps: Vec<Step> = (0..1_000_000).map(|i| load(i % 1024)).collect();
    let needs = Telemetry { counters: true, ..Telemetry::default() };
    let actions = (0..4).map(|i| (FOUND, demote(i, i as u32 * 128, 128)));
    let (_, events) =
        run_script(&steps, Script { needs, ..Script::new(actions) }, &hosted(2048, 0, 0.5));
    assert!(!events.iter().any(|event| matches!(event, Event::Sample(_))));
    let (fast, slow) = events.iter().fold((0, 0), |sum, event| match event {
        Event::Counters { fast, slow } => (sum.0 + fast, sum.1 + slow),
        _ => sum,
    });
    let counted = fast + slow;
    assert!((200..=1_000_000 / u64::from(COUNTED) + 1).contains(&counted), "{counted}");
    assert!((80..=fast).contains(&slow), "{slow} of {counted}");
}

#[test]
fn a_kernel_gives_more_than_the_limit_and_the_daemon_takes_it_back() {
    let steps: Vec<Step> = (0..300_000).map(|i| load(i % 1000)).collect();
    let (outcome, _) = run_script(&steps, sampling(1_000_000, Vec::new()), &hosted(500, 200, 0.25));
    assert_eq!(outcome.report.tiers[0].resident_bytes_max, 700 * PAGE_BYTES);
    assert_eq!(outcome.report.tiers[0].resident_bytes, 500 * PAGE_BYTES);
    assert_eq!(outcome.report.fast_bytes, 500 * PAGE_BYTES);
    assert_eq!(outcome.report.counters["machine.reclaimed_pages"], 200.0);
}

#[test]
fn reclaim_gives_a_second_chance_to_what_was_sampled() {
    // Pages 0 to 99 are used, the others touched once.
    let mut steps: Vec<Step> = (0..700).map(load).collect();
    steps.extend((0..300_000).map(|i| load(i % 100)));
    let ratio = |period| {
        let (outcome, _) =
            run_script(&steps, sampling(period, Vec::new()), &hosted(500, 200, 0.25));
        assert_eq!(outcome.report.tiers[0].resident_bytes, 500 * PAGE_BYTES);
        outcome.report.fast_hit_ratio
    };
    assert_eq!(ratio(101), 1.0);
    assert!(ratio(1_000_000) < 0.9, "whom nobody has seen leaves");
}

#[test]
fn folios_are_split_and_built_by_calls() {
    let steps: Vec<Step> = (0..200_000).map(|i| load(i % 1024)).collect();
    let split = Action::Split { region: Region(1), lane: Lane::SCAN };
    let collapse = Action::Collapse { region: Region(1), to: TierId(0), lane: Lane::SCAN };
    let actions = vec![(FOUND, split), (2 * FOUND, collapse), (3 * FOUND, split)];
    let mut options = hosted(2048, 0, 0.5);
    options.machine = Machine::parse(&SLOW.replace("=off", "=on")).unwrap();
    let (outcome, _) = run_script(&steps, sampling(1_000_000, actions), &options);
    assert_eq!((outcome.report.splits, outcome.report.collapses), (2, 1));
    assert_eq!(outcome.report.tiers[0].resident_bytes, 1024 * PAGE_BYTES);
    assert_eq!(outcome.report.counters["engine.anomalies"], 0.0);
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
    let mut options = options(256);
    options.moments = vec![25_600, 51_200, u64::MAX];
    let (outcome, _) = run_script(&steps, Script::new([]), &options);
    let [first, second] = &outcome.moments[..] else { panic!("{:?}", outcome.moments) };
    let all = |moment: &Moment| moment.accesses.iter().sum::<u64>();
    // The clock advances by 10 with every access, and batches have 256.
    assert_eq!((all(first), all(second)), (2560 - 256, 5120 - 256));
    assert!(second.seconds > first.seconds && first.accesses[1] > 0);
}

#[test]
fn a_daemon_with_a_goal_finds_the_size_by_itself() {
    // A fifth of the pages has 49 of 50 accesses; the run takes a minute.
    let page = |i: u32| match i % 50 {
        0 => 400 + (i / 50) % 1600,
        _ => i.wrapping_mul(7919) % 400,
    };
    let steps: Vec<Step> = (0..6_000_000).map(|i| load(page(i))).collect();
    let run = |most_loss| {
        let mut options = hosted(2000, 0, 0.5);
        let machine = "dram-zram:thp=off:costs.fault_base_ns=0:tiers.dram.read_ns=40us\
                       :costs.refault_ns=280us";
        options.machine = Machine::parse(machine).expect("a machine");
        let goal = Goal { most_loss, floor: None, ceiling: None };
        options.daemon.as_mut().expect("there is one").goal = Some(goal);
        let policy = registry::make("frost", &Offer::default()).expect("it is listed");
        let report = replay_steps(&steps, policy, &options, false).report;
        (report.slowdown_vs_all_fast - 1.0, report.fast_bytes_mean / PAGE_BYTES as f64)
    };
    let (little, some, much) = (run(0.02), run(0.05), run(0.5));
    assert!(little.0 <= 0.02 && some.0 <= 0.05 && much.0 <= 0.5, "{little:?} {some:?} {much:?}");
    assert!(little.1 > some.1 && some.1 > much.1, "{little:?} {some:?} {much:?}");
    assert!(little.1 > 1500.0 && much.1 < 1800.0, "{little:?} {much:?}");
}

/// A run of more than a minute in which some of 30 000 pages are used, others now and then, and after that pages in that order.
fn rush_after(then: &[u32], goal: Goal) -> RunOutcome {
    let mut steps: Vec<Step> = (0..30_000).map(load).collect();
    // What comes back meanwhile teaches the time of a refault.
    let page = |i: u32| match i % 1000 {
        0 => 400 + i / 1000 * 7 % 29_600,
        _ => i.wrapping_mul(7919) % 400,
    };
    steps.extend((0..2_000_000).map(|i| load(page(i))));
    steps.extend(then.iter().map(|page| load(*page)));
    let mut options = hosted(30_000, 0, 0.5);
    let machine = "dram-zram:thp=off:costs.fault_base_ns=0:tiers.dram.read_ns=40us\
                   :costs.refault_ns=280us";
    options.machine = Machine::parse(machine).expect("a machine");
    options.daemon.as_mut().expect("there is one").goal = Some(goal);
    let policy = registry::make("frost", &Offer::default()).expect("it is listed");
    replay_steps(&steps, policy, &options, false)
}

#[test]
fn in_a_rush_most_pages_are_back_before_they_are_touched() {
    let goal = Goal { most_loss: 0.02, floor: None, ceiling: None };
    let refaults = |run: &RunOutcome| run.report.counters["machine.refaults"];
    let quiet = rush_after(&[], goal);
    let out = (quiet.report.tiers[1].resident_bytes / PAGE_BYTES) as f64;
    assert!(out > 3000.0, "{out} of 30 000 pages have left");
    let in_turn: Vec<u32> = (0..30_000).collect();
    let scattered: Vec<u32> = (0..30_000).map(|i| i * 2671 % 30_000).collect();
    for order in [in_turn, scattered] {
        let run = rush_after(&order, goal);
        let came = refaults(&run) - refaults(&quiet);
        // Two thirds take one where nothing is brought in ahead of touches; the policy brings in the others.
        assert!(came > 50.0 && came < out / 3.0, "{came} of {out}");
        let left = (run.report.tiers[1].resident_bytes / PAGE_BYTES) as f64;
        assert!(left < out / 20.0, "{left}");
    }
}
