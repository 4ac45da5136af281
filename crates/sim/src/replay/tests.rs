//! Every mechanism once, with the proof that it was exercised.

use super::testing::*;
use super::*;
use crate::machine::Machine;
use crate::measure_footprint;
use crate::options::FaultInjection;
use crate::size::FastSize;
use frostline_core::action::{Action, Lane, MoveId, Scan};
use frostline_core::event::{AccessBits, Level, MoveCause, MoveOutcome};
use frostline_core::policy::{FaultDecision, Offer, Telemetry, registry};
use frostline_core::rng::Rng;
use frostline_trace::TraceEvent;
use frostline_trace::event::StreamId;

pub(super) fn options(machine: &str, fast_pages: u64) -> SimOptions {
    let fast = FastSize::Bytes(PageCount(fast_pages).bytes());
    SimOptions::new(Machine::parse(machine).unwrap(), fast)
}

pub(super) fn run(
    steps: &[Step],
    script: Script,
    options: &SimOptions,
) -> (RunOutcome, Vec<Event>) {
    let (outcome, events) = run_script(steps, script, options);
    check(&outcome);
    (outcome, events)
}

pub(super) fn run_policy(
    steps: &[Step],
    policy: Made,
    options: &SimOptions,
    careful: bool,
) -> RunOutcome {
    let outcome = replay_steps(steps, policy, options, careful);
    check(&outcome);
    outcome
}

/// What holds after every run.
fn check(outcome: &RunOutcome) {
    let report = &outcome.report;
    let by_tier: u64 = report.tiers.iter().map(|t| t.accesses).sum();
    assert_eq!(by_tier, report.accesses, "every access is served by one tier");
    assert_eq!(counter(outcome, "engine.anomalies"), 0.0);
    let split = &report.time_split;
    let sum = split.app + split.scan + split.migrate + split.fault;
    assert!((sum - report.modelled_seconds).abs() < 1e-9 * sum.max(1.0));
    assert!(split.app >= -1e-12);
    for tier in &report.tiers {
        assert!(tier.resident_bytes_max <= tier.capacity_bytes, "{tier:?}");
        assert!(tier.resident_bytes <= tier.resident_bytes_max);
    }
    let all: u64 = outcome.series.iter().map(|p| p.accesses).sum();
    assert_eq!(all, report.accesses, "the series adds up");
}

pub(super) fn counter(outcome: &RunOutcome, name: &str) -> f64 {
    outcome.report.counters[name]
}

fn migrate(start: u32, end: u32, to: u8) -> Action {
    Action::Migrate {
        id: MoveId(0),
        run: PageRun::between(start, end),
        to: TierId(to),
        lane: Lane::PROMOTE,
    }
}

/// Pages once each, then `more` rounds over them.
pub(super) fn rounds(pages: u32, more: usize) -> Vec<Step> {
    (0..=more).flat_map(|_| (0..pages).map(load)).collect()
}

#[test]
fn first_touch_fills_the_fast_tier_first() {
    let steps = rounds(100, 9);
    let (outcome, events) = run(&steps, Script::new([]), &options("dram-nvm:thp=off", 25));
    let report = &outcome.report;
    assert_eq!(report.accesses, 1000);
    assert_eq!(report.fast_hit_ratio, 0.25);
    assert_eq!(report.tiers[0].resident_bytes, 25 * PAGE_BYTES);
    assert_eq!(counter(&outcome, "machine.base_faults"), 100.0);
    assert!(report.time_split.fault > 0.0);
    let populated = events.iter().filter(|e| matches!(e, Event::Populated { .. })).count();
    assert_eq!(populated, 100);
}

#[test]
fn a_tier_below_its_watermark_is_told_once() {
    let (_, events) =
        run(&rounds(20, 5), Script::new([]), &options("dram-nvm:thp=off:watermark=0.5", 20));
    let pressure = events.iter().filter(|e| matches!(e, Event::Pressure { tier: TierId(0) }));
    assert_eq!(pressure.count(), 1);
}

#[test]
fn time_is_instructions_and_latencies() {
    let mut options = options("dram-nvm:thp=off:costs.fault_base_ns=0", 0);
    options.machine.costs.zero_bytes_per_second = 1e30;
    // No queue to speak of.
    options.machine.tiers.iter_mut().for_each(|t| t.service_ns = Some(0.0));
    let steps = rounds(10, 99);
    let (outcome, _) = run(&steps, Script::new([]), &options);
    let machine = &options.machine;
    let instructions_ns = 1000.0 * 10.0 / (machine.cpu.ghz * machine.cpu.ipc);
    let expected = instructions_ns + 1000.0 * 300.0 / machine.cpu.mlp;
    assert!((outcome.report.modelled_seconds * 1e9 / expected - 1.0).abs() < 1e-9);
    let fast = instructions_ns + 1000.0 * 80.0 / machine.cpu.mlp;
    assert!((outcome.report.slowdown_vs_all_fast - expected / fast).abs() < 1e-9);
    assert!((outcome.report.speedup_vs_all_slow - 1.0).abs() < 1e-12);
    assert_eq!(outcome.report.saving_ns, 0.0);
    assert!((outcome.report.tiers[1].latency_ns_mean - 300.0).abs() < 1e-9);
}

#[test]
fn all_fast_policy_has_no_slowdown() {
    let policy = registry::make("all-fast", &Offer::default()).unwrap();
    let outcome = run_policy(&rounds(2000, 3), policy, &options("dram-nvm", 10), false);
    assert_eq!(outcome.report.slowdown_vs_all_fast, 1.0);
    assert_eq!(outcome.report.fast_hit_ratio, 1.0);
}

#[test]
fn zero_fast_memory_is_all_slow() {
    let policy = registry::make("first-touch", &Offer::default()).unwrap();
    let outcome = run_policy(&rounds(600, 3), policy, &options("dram-nvm", 0), false);
    assert_eq!(outcome.report.fast_hit_ratio, 0.0);
    assert_eq!(outcome.report.speedup_vs_all_slow, 1.0);
}

#[test]
fn migration_moves_costs_and_saves() {
    let script = Script {
        place: TierId(1),
        ..Script::new([(200_000, migrate(0, 50, 0)), (200_000, migrate(300, 310, 0))])
    };
    let steps = rounds(100, 400);
    let (outcome, events) = run(&steps, script, &options("dram-nvm:thp=off", 60));
    assert_eq!(counter(&outcome, "engine.rejected_not_resident"), 10.0);
    let report = &outcome.report;
    assert_eq!(report.promoted_bytes, 50 * PAGE_BYTES);
    assert!(report.fast_hit_ratio > 0.1);
    assert_eq!(report.good_put, Some(1.0), "all were touched afterwards");
    assert!(counter(&outcome, "machine.worker_cpu_seconds") >= 29e-6);
    assert!(counter(&outcome, "machine.shootdowns") > 0.0);
    assert!(report.time_split.migrate > 0.0);
    let machine = Machine::parse("dram-nvm").unwrap();
    let hits = report.tiers[0].accesses as f64;
    let model = machine.saving_model();
    let saving = hits * model.read_saving_ns - 50.0 * model.promotion_cost_ns;
    assert!((report.saving_ns / saving - 1.0).abs() < 1e-9);
    assert!(
        events
            .iter()
            .any(|e| matches!(e, Event::MigrationDone { outcome: MoveOutcome::Moved, .. }))
    );
}

#[test]
fn promotions_for_nothing_lower_good_put() {
    let mut steps: Vec<Step> = (0..100).map(load).collect();
    steps.extend((0..60_000).map(|_| load(99)));
    let script = Script {
        place: TierId(1),
        ..Script::new([(200_000, migrate(0, 40, 0)), (900_000, migrate(0, 40, 1))])
    };
    let (outcome, _) = run(&steps, script, &options("dram-nvm:thp=off", 60));
    assert_eq!(outcome.report.promoted_bytes, 40 * PAGE_BYTES);
    assert_eq!(outcome.report.demoted_bytes, 40 * PAGE_BYTES);
    assert_eq!(outcome.report.good_put, Some(0.0));
}

#[test]
fn huge_folios_bloat_and_splits_free_what_was_never_touched() {
    let mut steps = map(0, 1024);
    // 10 pages of each of two regions.
    let touched: Vec<u32> = (0..20).map(|i| i / 10 * 512 + i % 10 * 50).collect();
    steps.extend((0..30_000).map(|i| load(touched[i % 20])));
    let split = Action::Split { region: Region(0), lane: Lane::SCAN };
    let (outcome, events) =
        run(&steps, Script::new([(100_000, split)]), &options("dram-nvm", 4096));
    let report = &outcome.report;
    assert_eq!(counter(&outcome, "machine.huge_faults"), 2.0);
    assert_eq!(report.footprint_bytes, 1024 * PAGE_BYTES);
    assert_eq!(report.program_rss_bytes, 1024 * PAGE_BYTES);
    assert_eq!(report.splits, 1);
    assert_eq!(counter(&outcome, "machine.zero_pages_freed"), 502.0);
    assert_eq!(report.tiers[0].resident_bytes, (512 + 10) * PAGE_BYTES);
    let freed: u32 =
        events.iter().map(|e| if let Event::Freed { run } = e { run.pages } else { 0 }).sum();
    assert_eq!(freed, 502);
}

#[test]
fn without_thp_or_in_a_part_of_a_region_pages_are_small() {
    let touch = |steps: &mut Vec<Step>| steps.extend((0..20).map(load));
    let mut whole = map(0, 512);
    touch(&mut whole);
    let mut part = map(0, 500);
    touch(&mut part);
    for (steps, machine) in [(&whole, "dram-nvm:thp=off"), (&part, "dram-nvm")] {
        let (outcome, _) = run(steps, Script::new([]), &options(machine, 4096));
        assert_eq!(counter(&outcome, "machine.base_faults"), 20.0);
        assert_eq!(outcome.report.footprint_bytes, 20 * PAGE_BYTES);
    }
}

#[test]
fn collapse_rebuilds_a_folio() {
    let steps = rounds(512, 400);
    let collapse = Action::Collapse { region: Region(0), to: TierId(0), lane: Lane::SCAN };
    let options = options("dram-nvm:thp=off", 2048);
    let (outcome, events) = run(&steps, Script::new([(300_000, collapse)]), &options);
    assert_eq!(outcome.report.collapses, 1);
    assert!(events.iter().any(|e| matches!(e, Event::CollapseDone { tier: Some(TierId(0)), .. })));
    assert!(counter(&outcome, "machine.worker_cpu_seconds") >= 1.4e-3);
}

#[test]
fn fragmented_memory_has_no_room_for_folios() {
    let mut steps = map(0, 2048);
    steps.extend((0..4u32).map(|r| load(r * 512)));
    let (outcome, _) = run(&steps, Script::new([]), &options("dram-nvm:fragmentation=1", 4096));
    assert_eq!(counter(&outcome, "machine.huge_faults"), 0.0);
    assert_eq!(counter(&outcome, "machine.base_faults"), 4.0);
    assert_eq!(counter(&outcome, "machine.huge_frame_shortages"), 4.0);
}

#[test]
fn scans_report_and_clear_access_bits_at_a_price() {
    let mut steps: Vec<Step> = (0..128).map(load).collect();
    steps.extend((0..20_000).map(|i| load(i % 2 * 100)));
    let scan = Scan {
        run: PageRun::between(0, 128),
        clear: true,
        level: Level::Base,
        skip_untouched: false,
    };
    let action = Action::Scan { scan, lane: Lane::SCAN };
    let needs = Telemetry { access_bits: true, ..Telemetry::default() };
    let script = Script { needs, ..Script::new([(150_000, action), (300_000, action)]) };
    let (outcome, events) = run(&steps, script, &options("dram-nvm:thp=off", 2048));
    assert_eq!(outcome.report.page_checks, 256);
    let bits: Vec<AccessBits> = events
        .iter()
        .filter_map(|e| if let Event::AccessBits(bits) = e { Some(*bits) } else { None })
        .collect();
    let accessed: Vec<u64> = bits.iter().map(|b| b.accessed).collect();
    assert_eq!(accessed, [u64::MAX, u64::MAX, 1, 1 << 36], "first all, then pages 0 and 100");
    assert!(counter(&outcome, "machine.worker_cpu_seconds") >= 256.0 * 34e-9);
    assert_eq!(outcome.report.time_split.scan, 0.0, "scans have a core of their own");
    let shared = options("dram-nvm:thp=off:workers=shared", 2048);
    let script = Script { needs, ..Script::new([(150_000, action)]) };
    let (outcome, _) = run(&steps, script, &shared);
    assert!(outcome.report.time_split.scan > 0.0);
}

#[test]
fn huge_scans_have_one_bit_per_region() {
    let mut steps = map(0, 2048);
    steps.extend((0..2048).map(load));
    steps.extend((0..20_000).map(|_| load(1030)));
    let scan = Scan {
        run: PageRun::between(0, 2048),
        clear: true,
        level: Level::Huge,
        skip_untouched: false,
    };
    let action = Action::Scan { scan, lane: Lane::SCAN };
    let at = 3_000_000;
    let (outcome, events) = run(
        &steps,
        Script::new([(at - 1_500_000, action), (at, action)]),
        &options("dram-nvm:costs.fault_huge_ns=500us", 4096),
    );
    assert!(outcome.report.page_checks >= 4);
    let last = events
        .iter()
        .rev()
        .find_map(|e| if let Event::AccessBits(b) = e { Some(*b) } else { None });
    assert_eq!(last.unwrap().accessed & 0b100, 0b100);
    assert_eq!(last.unwrap().level, Level::Huge);
}

#[test]
fn workers_on_the_programs_cores_take_their_interruptions_with_them() {
    let moves = || Script::new((0..1000).map(|i| (3_000_000, migrate(2 * i, 2 * i + 1, 1))));
    let run_on = |machine: &str| run(&rounds(2200, 80), moves(), &options(machine, 4096)).0;
    let own = run_on("dram-nvm:thp=off");
    let shared = run_on("dram-nvm:thp=off:workers=shared");
    for outcome in [&own, &shared] {
        assert_eq!(outcome.report.demoted_bytes, 1000 * PAGE_BYTES);
        assert!(counter(outcome, "machine.shootdowns") >= 1000.0);
    }
    let worked = counter(&shared, "machine.worker_cpu_seconds");
    assert!(worked > counter(&own, "machine.worker_cpu_seconds") + 1000.0 * 1.4e-6);
    let waited = shared.report.time_split.migrate;
    assert!((waited / worked - 1.0).abs() < 0.01, "{waited} of {worked}");
}

#[test]
fn arming_gathers_its_interruptions() {
    let single = |page| Action::Arm { run: PageRun::single(PageId(page)), lane: Lane::SCAN };
    let arms = (0..1100).map(|i| (4_000_000, single(2 * i)));
    let script = Script { place: TierId(1), ..Script::new(arms) };
    let (outcome, _) = run(&rounds(2200, 80), script, &options("dram-nvm:thp=off", 60));
    assert!(outcome.report.hint_faults > 1024, "they were armed: {}", outcome.report.hint_faults);
    assert_eq!(counter(&outcome, "machine.shootdowns"), 2.0, "one per 512 pages");
}

#[test]
fn armed_pages_fault_once_and_can_move_in_the_fault() {
    let steps = rounds(100, 400);
    let arm = Action::Arm { run: PageRun::between(0, 30), lane: Lane::SCAN };
    let stay = Script { place: TierId(1), ..Script::new([(200_000, arm)]) };
    let (outcome, events) = run(&steps, stay, &options("dram-nvm:thp=off", 60));
    assert_eq!(outcome.report.hint_faults, 30);
    assert_eq!(outcome.report.promoted_bytes, 0);
    assert_eq!(events.iter().filter(|e| matches!(e, Event::Fault(_))).count(), 30);
    let here = Script {
        place: TierId(1),
        fault: FaultDecision::MoveHere(TierId(0)),
        ..Script::new([(200_000, arm)])
    };
    let (outcome, events) = run(&steps, here, &options("dram-nvm:thp=off", 20));
    assert_eq!(outcome.report.hint_faults, 30);
    assert_eq!(outcome.report.promoted_bytes, 20 * PAGE_BYTES);
    assert_eq!(counter(&outcome, "engine.rejected_no_room"), 10.0);
    let decided = |e: &&Event| matches!(e, Event::Moved { cause: MoveCause::FaultDecision, .. });
    assert_eq!(events.iter().filter(decided).count(), 20);
}

#[test]
fn exchange_swaps_two_pages() {
    let arm = Action::Arm { run: PageRun::single(PageId(99)), lane: Lane::SCAN };
    let script =
        Script { fault: FaultDecision::Exchange(PageId(0)), ..Script::new([(200_000, arm)]) };
    let (outcome, _) = run(&rounds(100, 400), script, &options("dram-nvm:thp=off", 50));
    assert_eq!(outcome.report.hint_faults, 1);
    assert_eq!(outcome.report.promoted_bytes, PAGE_BYTES);
    assert_eq!(outcome.report.demoted_bytes, PAGE_BYTES);
    assert_eq!(outcome.report.tiers[0].resident_bytes, 50 * PAGE_BYTES);
}

#[test]
fn swap_tiers_bring_every_touched_page_in() {
    let (outcome, events) = run(&rounds(200, 3), Script::new([]), &options("dram-zram", 100));
    let report = &outcome.report;
    assert_eq!(report.fast_hit_ratio, 1.0, "no access is served by zram");
    assert!(counter(&outcome, "machine.refaults") >= 300.0);
    assert!(counter(&outcome, "machine.reclaimed_pages") >= 300.0);
    for cause in [MoveCause::Refault, MoveCause::Reclaim] {
        let of = |e: &Event| matches!(e, Event::Moved { cause: c, .. } if *c == cause);
        assert!(events.iter().any(of), "{cause:?}");
    }
    assert!(report.time_split.fault >= 300.0 * 7e-6);
}

#[test]
fn a_policy_can_make_memory_a_swap_device() {
    let machine = "disaggregated-750:costs.fault_base_ns=0";
    let mut steps = map(0, 512);
    steps.extend(rounds(101, 400));
    let script = || Script { swaps: true, ..Script::new([]) };
    let (outcome, _) = run(&steps, script(), &options(machine, 100));
    let report = &outcome.report;
    assert_eq!((report.fast_hit_ratio, report.tiers[1].accesses), (1.0, 0));
    assert_eq!(counter(&outcome, "machine.base_faults"), 101.0, "no folio");
    // The oldest of 101 pages is always the next: second chance misses one page at a time.
    let refaults = counter(&outcome, "machine.refaults");
    assert!(refaults > 0.0);
    let modelled = Machine::parse(machine).unwrap();
    let costs = &modelled.costs;
    let copy = 4096.0 * 1e9 / costs.copy_bytes_per_second;
    assert_eq!(costs.migrate_base_ns + copy + costs.shootdown_ns, 4000.0);
    let each = costs.swap_in_ns + copy + 750.0;
    let zeroing = 101.0 * 4096.0 / costs.zero_bytes_per_second;
    let fault = report.time_split.fault - zeroing;
    assert!((fault * 1e9 / (refaults * each) - 1.0).abs() < 1e-9, "{fault}");
    assert_eq!(modelled.swap_ns(0, 1), costs.swap_out_ns + copy, "and out");
    // The policy that names the page used last has all others hit.
    let best = Script { victims: vec![PageId(99), PageId(98)], ..script() };
    let (chosen, events) = run(&steps, best, &options(machine, 100));
    let reclaimed = |e: &&Event| matches!(e, Event::Moved { cause: MoveCause::Reclaim, .. });
    let first = events.iter().find(reclaimed).unwrap();
    assert!(matches!(first, Event::Moved { run, .. } if run.start == PageId(99)), "{first:?}");
    assert!(counter(&chosen, "machine.refaults") < refaults);
}

#[test]
fn background_work_goes_on_while_faults_are_waited_for() {
    // Batches are rounds over all pages: faults before and after the end of the move belong to the
    // same batch where pages ascend.
    let script = Script { swaps: true, ..Script::new([(5_000_000, migrate(0, 256, 1))]) };
    let (_, events) = run(&rounds(256, 40), script, &options("disaggregated-1500", 128));
    let end = events.iter().position(|e| matches!(e, Event::MigrationDone { .. })).unwrap();
    let page = |event: &Event| match event {
        Event::Fault(fault) => Some(fault.page),
        _ => None,
    };
    let before = events[..end].iter().rev().find_map(page).unwrap();
    let after = events[end..].iter().find_map(page).unwrap();
    assert!(before < after, "{before:?} {after:?}");
}

#[test]
fn samples_come_every_nth_load_and_cost() {
    let needs = Telemetry { load_sample_period: 10, ..Telemetry::default() };
    let mixed: Vec<Step> = (0..5000u32)
        .map(|i| Step::Access(i % 64, AccessKind::from_bits((i % 4) as u8), 0))
        .collect();
    for (steps, loads) in [(rounds(50, 99), 5000), (mixed, 1250)] {
        let (outcome, events) =
            run(&steps, Script { needs, ..Script::new([]) }, &options("dram-nvm:thp=off", 10));
        let samples = events.iter().filter(|e| matches!(e, Event::Sample(_))).count();
        assert_eq!(samples, loads / 10);
        assert_eq!(counter(&outcome, "machine.samples"), loads as f64 / 10.0);
        let cpu = samples as f64 * 250e-9;
        assert!((counter(&outcome, "machine.sampler_cpu_seconds") / cpu - 1.0).abs() < 1e-9);
        assert!(outcome.report.sampler_cpu_share > 0.0);
    }
}

#[test]
fn store_samples_stand_for_997_stores() {
    let needs = Telemetry { store_sample_period: 9970, ..Telemetry::default() };
    let mut steps = rounds(50, 1);
    for _ in 0..10 {
        let samples = (0..50).map(|i| (StreamId(0), PageId(i % 50))).collect();
        steps.push(Step::Event(TraceEvent::StoreSamples { samples }));
        steps.push(load(0));
    }
    let (_, events) =
        run(&steps, Script { needs, ..Script::new([]) }, &options("dram-nvm:thp=off", 100));
    let stores =
        events.iter().filter(|e| matches!(e, Event::Sample(s) if s.kind == SampleKind::Store));
    assert_eq!(stores.count(), 50, "every tenth of 500");
}

#[test]
fn periods_can_be_changed_and_usage_is_reported() {
    let needs = Telemetry {
        load_sample_period: 2,
        counters: true,
        read_latencies: true,
        ..Telemetry::default()
    };
    let off = Action::SetSampling { kind: SampleKind::LoadMiss, period: 0 };
    let steps = rounds(100, 20_000);
    let script = Script { needs, ..Script::new([(25_000_000, off)]) };
    let (outcome, events) = run(&steps, script, &options("dram-nvm:thp=off", 10));
    let samples = counter(&outcome, "machine.samples");
    assert!(samples > 1000.0 && samples < 900_000.0, "{samples}");
    assert!(events.iter().any(|e| matches!(e, Event::CpuUsage { sampler, .. } if sampler.0 > 0)));
    let counted: u64 = events
        .iter()
        .map(|e| if let Event::Counters { fast, slow } = e { fast + slow } else { 0 })
        .sum();
    assert!(counted > 1_000_000 && counted <= outcome.report.accesses);
    for (at, unloaded_ns) in [(TierId::FAST, 80), (TierId(1), 300)] {
        let (mut all, mut waited_ns) = (0, 0);
        for event in &events {
            if let Event::ReadLatency { tier, reads, waited } = event
                && *tier == at
            {
                (all, waited_ns) = (all + reads, waited_ns + waited.0);
            }
        }
        assert!(all > 100_000, "{all} reads of {at:?}");
        let mean_ns = waited_ns / all;
        assert!((unloaded_ns..3 * unloaded_ns).contains(&mean_ns), "{mean_ns} ns in {at:?}");
    }
}

#[test]
fn the_tlb_prefers_folios() {
    let mut steps = map(0, 512 * 16);
    let mut rng = Rng::new(5);
    steps.extend((0..40_000).map(|_| load(rng.below(512 * 16) as u32)));
    let run_with = |machine: &str, tlb: bool| {
        let options = SimOptions { tlb, ..options(machine, 512 * 32) };
        run(&steps, Script::new([]), &options).0
    };
    let huge = run_with("dram-nvm", true);
    let base = run_with("dram-nvm:thp=off", true);
    let off = run_with("dram-nvm:thp=off", false);
    assert!(counter(&base, "machine.tlb_walks") > 20_000.0);
    assert!(counter(&huge, "machine.tlb_walks") < 200.0);
    let looked = |o: &RunOutcome| {
        ["l1_hits", "l2_hits", "walks"]
            .iter()
            .map(|n| counter(o, &format!("machine.tlb_{n}")))
            .sum::<f64>()
    };
    assert_eq!((looked(&base), looked(&off)), (40_000.0, 0.0));
    assert!(counter(&base, "machine.walk_seconds") > counter(&huge, "machine.walk_seconds"));
    assert_eq!(counter(&off, "machine.walk_seconds"), 0.0);
}

#[test]
fn memory_comes_and_goes_with_mappings() {
    let mut steps = map(0, 1024);
    steps.extend((0..1024).map(load));
    steps.push(unmap(0, 512));
    steps.extend((512..1024).map(load));
    steps.push(Step::Event(TraceEvent::Remap {
        process: ProcessId(0),
        old_start: 512 * PAGE_BYTES,
        old_len_bytes: 512 * PAGE_BYTES,
        new_start: 2048 * PAGE_BYTES,
        new_len_bytes: 512 * PAGE_BYTES,
        moves: vec![(PageRun::between(512, 1024), PageId(2048))],
        gained: vec![],
        lost: vec![],
    }));
    steps.extend((2048..2560).map(load));
    let (outcome, events) = run(&steps, Script::new([]), &options("dram-nvm", 4096));
    assert_eq!(outcome.report.footprint_bytes, 1024 * PAGE_BYTES);
    assert_eq!(outcome.report.tiers[0].resident_bytes, 512 * PAGE_BYTES);
    assert_eq!(counter(&outcome, "machine.huge_faults"), 2.0, "moved memory is not faulted again");
    assert!(events.iter().any(|e| matches!(e, Event::Remapped { .. })));
    assert!(events.iter().any(|e| matches!(e, Event::Unmapped { .. })));
}

#[test]
fn marked_operations_have_latencies() {
    let mut steps = rounds(4, 0);
    for op in 0..100u32 {
        let stream = StreamId(1 + op % 2);
        steps.push(Step::Event(TraceEvent::OpBegin { stream, op: 7 }));
        steps.push(Step::Access(op % 4, AccessKind::Load, stream.0));
        steps.push(Step::Event(TraceEvent::OpEnd { stream, op: 7 }));
    }
    let (outcome, _) = run(&steps, Script::new([]), &options("dram-nvm:thp=off", 100));
    let latency = outcome.report.op_latency_ns.unwrap();
    assert_eq!(latency.count, 100);
    let one = 10.0 / 6.0 + 80.0 / 4.0;
    assert!((latency.p50 as f64 - one).abs() <= 2.0, "{latency:?}");
}

#[test]
fn touched_sets_set_access_bits() {
    let mut steps = rounds(64, 0);
    let scan = Scan {
        run: PageRun::between(0, 64),
        clear: true,
        level: Level::Base,
        skip_untouched: false,
    };
    let action = Action::Scan { scan, lane: Lane::SCAN };
    steps.extend((0..8000).map(|_| load(0)));
    let mut bits = [0; 8];
    bits[0] = 0b100;
    steps.push(Step::Event(TraceEvent::Touched { epoch: 0, regions: vec![(Region(0), bits)] }));
    steps.extend((0..8000).map(|_| load(0)));
    let (_, events) = run(
        &steps,
        Script::new([(80_000, action), (280_000, action)]),
        &options("dram-nvm:thp=off", 100),
    );
    let seen: Vec<u64> = events
        .iter()
        .filter_map(|e| if let Event::AccessBits(b) = e { Some(b.accessed) } else { None })
        .collect();
    assert_eq!(seen, [u64::MAX, 0b101]);
}

#[test]
fn everything_full_is_an_error_with_a_hint() {
    let options =
        SimOptions { limits: vec![(1, PageCount(30).bytes())], ..options("dram-nvm:thp=off", 20) };
    let steps = rounds(51, 0);
    let footprint = measure_footprint(&mut Steps::new(steps.clone()), &options.machine).unwrap();
    let (policy, _) = Script::new([]).boxed();
    let error =
        simulate(&mut Steps::new(steps), &footprint, policy, &options, &mut ()).unwrap_err();
    assert!(matches!(error, SimError::OutOfMemory { .. }));
    assert!(error.to_string().contains("hint:"));
}

#[test]
fn an_empty_trace_is_an_error() {
    let machine = Machine::parse("dram-nvm").unwrap();
    let error = measure_footprint(&mut Steps::loads([]), &machine).unwrap_err();
    assert!(matches!(error, SimError::EmptyTrace));
}

#[test]
fn an_observer_can_stop_the_run() {
    let steps = rounds(1000, 600);
    let options = options("dram-nvm", 100);
    let footprint = measure_footprint(&mut Steps::new(steps.clone()), &options.machine).unwrap();
    let (policy, _) = Script::new([]).boxed();
    let mut stop = |_: &Progress| false;
    let error =
        simulate(&mut Steps::new(steps), &footprint, policy, &options, &mut stop).unwrap_err();
    assert!(matches!(error, SimError::Cancelled));
}

/// A busy trace: several regions, all kinds, allocation and freeing, two threads.
fn busy_trace(seed: u64) -> Vec<Step> {
    let mut rng = Rng::new(seed);
    let mut steps = map(0, 512 * 12);
    for i in 0..60_000u32 {
        let page = (rng.below(512 * 12) * rng.below(1000) / 1000) as u32;
        let kind = AccessKind::from_bits(rng.below(4) as u8);
        steps.push(Step::Access(page, kind, rng.below(2) as u32));
        if i % 20_000 == 19_999 {
            steps.push(unmap(512 * 3, 512 * 4 + 17));
            steps.extend(map(512 * 3, 512 * 4 + 17));
        }
    }
    steps
}

fn memtis(options: &SimOptions, steps: &[Step]) -> Made {
    let footprint = measure_footprint(&mut Steps::new(steps.to_vec()), &options.machine).unwrap();
    let context = Offer {
        seed: options.seed,
        scale: options.scale.factor(&footprint),
        fast_pages: options.fast.pages(&footprint),
        total_pages_hint: PageCount(footprint.peak_resident_pages),
        ..Offer::default()
    };
    registry::make("memtis-plus", &context).unwrap()
}

fn fingerprint(outcome: &RunOutcome) -> String {
    let mut report = outcome.report.clone();
    report.host = crate::report::Host::default();
    format!(
        "{} {}",
        serde_json::to_string(&report).unwrap(),
        serde_json::to_string(&outcome.series).unwrap()
    )
}

#[test]
fn the_hot_loop_agrees_with_one_access_at_a_time() {
    for (machine, tlb, faults) in
        [("dram-nvm", false, false), ("dram-nvm:thp=off", true, false), ("dram-nvm", true, true)]
    {
        let steps = busy_trace(11);
        let mut options = SimOptions { tlb, heatmaps: true, ..options(machine, 512 * 3) };
        if faults {
            options.faults =
                FaultInjection { lost_samples: 0.2, busy_pages: 0.2, full_node: 0.1, exits: 2 };
        }
        let quick = run_policy(&steps, memtis(&options, &steps), &options, false);
        let careful = run_policy(&steps, memtis(&options, &steps), &options, true);
        assert_eq!(fingerprint(&quick), fingerprint(&careful), "{machine}");
        assert_eq!(quick.heatmaps, careful.heatmaps);
        assert!(counter(&quick, "machine.samples") > 0.0);
    }
}

#[test]
fn equal_inputs_give_equal_reports_and_other_seeds_other_faults() {
    let steps = busy_trace(3);
    let faults = FaultInjection { lost_samples: 0.5, ..FaultInjection::default() };
    let with_seed = |seed| {
        let options = SimOptions { seed, faults, ..options("dram-nvm", 512 * 3) };
        fingerprint(&run_policy(&steps, memtis(&options, &steps), &options, false))
    };
    assert_eq!(with_seed(1), with_seed(1));
    assert_ne!(with_seed(1), with_seed(2));
}

#[test]
fn injected_faults_happen_and_are_survived() {
    let steps = rounds(600, 200);
    let moves = (0..40).map(|i| {
        let to = (i % 2) as u8;
        (200_000 + i * 40_000, migrate(0, 100, to))
    });
    let needs = Telemetry { load_sample_period: 10, ..Telemetry::default() };
    let options = SimOptions {
        faults: FaultInjection { lost_samples: 0.3, busy_pages: 0.3, full_node: 0.3, exits: 3 },
        ..options("dram-nvm:thp=off", 300)
    };
    let script = Script { needs, place: TierId(1), ..Script::new(moves) };
    let (outcome, events) = run(&steps, script, &options);
    assert_eq!(counter(&outcome, "machine.injected_exits"), 3.0);
    assert!(counter(&outcome, "machine.injected_exit_pages") > 0.0);
    assert!(counter(&outcome, "machine.injected_busy_folios") > 0.0);
    assert!(counter(&outcome, "machine.injected_full_calls") > 0.0);
    assert!(counter(&outcome, "machine.samples_lost") > 100.0);
    let outcomes: Vec<MoveOutcome> = events
        .iter()
        .filter_map(|e| {
            if let Event::MigrationDone { outcome, .. } = e { Some(*outcome) } else { None }
        })
        .collect();
    for wanted in [MoveOutcome::Moved, MoveOutcome::Busy, MoveOutcome::NoSpace] {
        assert!(outcomes.contains(&wanted), "{wanted:?}");
    }
    assert!(events.iter().any(|e| matches!(e, Event::SamplesLost { .. })));
    assert!(events.iter().any(|e| matches!(e, Event::Exited { .. })));
}

#[test]
fn three_tiers_are_counted_apart() {
    let mut machine = Machine::parse("dram-nvm:thp=off").unwrap();
    let mut middle = machine.tiers[1].clone();
    middle.name = "cxl".into();
    middle.read_ns = 150.0;
    middle.capacity_bytes = Some(30 * PAGE_BYTES);
    machine.tiers.insert(1, middle);
    let options = SimOptions::new(machine, FastSize::Bytes(PageCount(20).bytes()));
    let (outcome, _) = run(&rounds(100, 9), Script::new([]), &options);
    let accesses: Vec<u64> = outcome.report.tiers.iter().map(|t| t.accesses).collect();
    assert_eq!(accesses, [200, 300, 500]);
    let expected = 200.0 * 220.0 / 4.0 + 300.0 * 150.0 / 4.0;
    assert!((outcome.report.saving_ns / expected - 1.0).abs() < 1e-9);
}

#[test]
fn threads_share_cores_only_where_there_are_several() {
    let mut steps: Vec<Step> = (0..2)
        .map(|i| {
            Step::Event(TraceEvent::Thread { stream: StreamId(i), process: ProcessId(0), tid: i })
        })
        .collect();
    steps.extend(rounds(100, 500));
    let on = |machine: &str| {
        let (outcome, events) = run(&steps, Script::new([]), &options(machine, 200));
        let cores = events.iter().filter_map(|event| match event {
            Event::Running { cores } => Some(*cores),
            _ => None,
        });
        (outcome.report.modelled_seconds, cores.collect::<Vec<_>>())
    };
    let ((one, cores), (two, more)) = (on("dram-nvm:thp=off"), on("dram-nvm:thp=off:cores=8"));
    assert!(two < 0.6 * one, "{two} of {one}");
    assert_eq!((cores, more), (vec![], vec![2]), "policies are told once");
    assert_eq!(on("dram-nvm:thp=off:cores=8:lanes=3").1, [6]);
}

#[test]
fn accessed_pages_of_fast_memory_are_counted_against_what_could_be() {
    // Every eighth page of eight regions is accessed, over and over.
    let mut steps = map(0, 4096);
    steps.extend((0..400).flat_map(|_| (0..4096).step_by(8).map(load)));
    let report = |spec: &str| {
        let policy = registry::make(spec, &Offer::default()).unwrap();
        // A 128th of the run is shorter than the second that is looked at.
        let options = SimOptions { scale: crate::Scale::Paper, ..options("dram-nvm", 512) };
        run_policy(&steps, policy, &options, false).report
    };
    let (huge, base) = (report("first-touch"), report("first-touch:pages=base"));
    // One folio fits, of which 64 pages are accessed; all 512 base pages fit.
    assert_eq!(
        (huge.fast_pages_accessed_mean, huge.hotness_fragmentation),
        (Some(64.0), Some(0.875))
    );
    assert_eq!(
        (base.fast_pages_accessed_mean, base.hotness_fragmentation),
        (Some(512.0), Some(0.0))
    );
}
