//! Lanes: threads for which one thread of a trace stands.

use super::testing::*;
use super::tests::{rounds, run, run_policy};
use super::*;
use crate::machine::{Machine, Workers};
use crate::size::FastSize;
use frostline_core::action::{Action, Lane, MoveId};
use frostline_core::policy::{Offer, registry};
use std::collections::BTreeSet;

/// A machine whose memory has bandwidth for everybody.
fn machine_of(cores: u32, lanes: u32) -> Machine {
    let mut machine = Machine::parse("dram-nvm:thp=off").unwrap();
    (machine.cpu.cores, machine.cpu.lanes) = (cores, lanes);
    for tier in &mut machine.tiers {
        tier.service_ns = Some(0.0);
        (tier.read_bytes_per_second, tier.write_bytes_per_second) = (1e17, 1e17);
    }
    machine
}

#[test]
fn a_stream_of_many_lanes_takes_the_time_of_its_cores() {
    let steps = rounds(100, 50);
    let seconds = |cores, lanes| {
        let options =
            SimOptions::new(machine_of(cores, lanes), FastSize::Bytes(PageCount(200).bytes()));
        run(&steps, Script::new([]), &options).0.report.modelled_seconds
    };
    let one = seconds(1, 1);
    for (cores, lanes, speed) in
        [(20, 20, 20.0), (20, 5, 5.0), (5, 20, 5.0), (20, 1, 1.0), (1, 20, 1.0)]
    {
        let is = one / seconds(cores, lanes);
        assert!((is / speed - 1.0).abs() < 1e-6, "{cores} cores, {lanes} lanes: {is} for {speed}");
    }
}

#[test]
fn lanes_share_the_bandwidth_of_memory() {
    let steps = rounds(100, 50);
    let mut machine = machine_of(20, 20);
    let options = |machine: &Machine| {
        SimOptions::new(machine.clone(), FastSize::Bytes(PageCount(200).bytes()))
    };
    let seconds = |machine: &Machine| {
        run(&steps, Script::new([]), &options(machine)).0.report.modelled_seconds
    };
    let free = seconds(&machine);
    // 5000 lines of 64 bytes at 1 GB/s.
    machine.tiers[0].read_bytes_per_second = 1e9;
    let bound = seconds(&machine);
    assert!(bound > 5.0 * free && bound >= 5000.0 * 64.0 / 1e9, "{bound} s beside {free}");
}

#[test]
fn faults_are_of_any_of_the_lanes() {
    let arm = |at| (at, Action::Arm { run: PageRun::between(0, 100), lane: Lane::SCAN });
    let threads = |lanes| {
        let script = Script { place: TierId(1), ..Script::new([arm(200_000)]) };
        let options =
            SimOptions::new(machine_of(lanes, lanes), FastSize::Bytes(PageCount(60).bytes()));
        let (_, events) = run(&rounds(100, 4000), script, &options);
        let faults: Vec<u32> = events
            .iter()
            .filter_map(|event| match event {
                Event::Fault(fault) => Some(fault.thread),
                _ => None,
            })
            .collect();
        assert_eq!(faults.len(), 100);
        faults.into_iter().collect::<BTreeSet<_>>()
    };
    assert_eq!(threads(1).len(), 1);
    let of_eight = threads(8);
    assert_eq!(of_eight.into_iter().collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
}

#[test]
fn workers_on_the_programs_cores_interrupt_all_others() {
    let steps = rounds(200, 4000);
    let moves: Vec<(u64, Action)> = (0..100)
        .map(|page| {
            let run = PageRun::single(PageId(2 * page));
            (10_000, Action::Migrate { id: MoveId(0), run, to: TierId(1), lane: Lane::DEMOTE })
        })
        .collect();
    let seconds = |workers, shootdown_ns| {
        let mut machine = machine_of(20, 20);
        machine.cpu.workers = workers;
        machine.costs.shootdown_ns = shootdown_ns;
        let options = SimOptions::new(machine, FastSize::Bytes(PageCount(400).bytes()));
        let outcome = run(&steps, Script::new(moves.clone()), &options).0;
        assert_eq!(outcome.report.counters["machine.shootdowns"], 100.0);
        outcome.report.time_split.migrate
    };
    let [own, shared] = [Workers::Own, Workers::Shared]
        .map(|workers| seconds(workers, 1000.0) - seconds(workers, 0.0));
    // A hundred microseconds of every core; of the worker's core as its work.
    assert!((own / 100e-6 - 1.0).abs() < 1e-6, "{own}");
    assert!((shared / own - 1.0).abs() < 1e-6, "{shared} beside {own}");
}

#[test]
fn a_page_is_found_shared_as_often_as_its_last_two_faults_are_of_different_lanes() {
    const PAGES: u32 = 200;
    let steps = [map(0, PAGES), rounds(PAGES, 4000)].concat();
    let spec = "tpp:scan-period=20us:scan-period-max=20us:scan-floor=20us:scan-delay=1us:free=0";
    for lanes in [1, 4, 20] {
        let policy = registry::make(spec, &Offer::default()).unwrap();
        let options = SimOptions::new(machine_of(1, lanes), FastSize::Bytes(PageCount(1).bytes()));
        let options = SimOptions { scale: crate::Scale::Paper, ..options };
        let counters = run_policy(&steps, policy, &options, false).report.counters;
        let counted = counters["policy.hint_faults_counted_pages_total"];
        // The first fault of a page has none before it.
        let faults = counted - f64::from(PAGES);
        assert!(faults > 1000.0, "{faults}");
        let share = counters["policy.hint_faults_shared_pages_total"] / faults;
        let closed_form = 1.0 - 1.0 / f64::from(lanes);
        let deviation = (closed_form * (1.0 - closed_form) / faults).sqrt();
        assert!((share - closed_form).abs() <= 4.0 * deviation, "{lanes}: {share} of {faults}");
    }
}

#[test]
fn a_thread_that_never_rests_takes_its_share_of_cores_that_are_shared() {
    let steps = rounds(100, 50);
    let seconds = |workers, lanes, spinning_threads| {
        let mut machine = machine_of(20, lanes);
        machine.cpu.workers = workers;
        let options = SimOptions::new(machine, FastSize::Bytes(PageCount(200).bytes()));
        let script = Script { spinning_threads, ..Script::new([]) };
        run(&steps, script, &options).0.report.time_split.app
    };
    for (workers, lanes, times) in
        [(Workers::Shared, 20, 21.0 / 20.0), (Workers::Shared, 10, 1.0), (Workers::Own, 20, 1.0)]
    {
        let is = seconds(workers, lanes, 1) / seconds(workers, lanes, 0);
        assert!((is - times).abs() < 1e-6, "{workers:?}, {lanes} lanes: {is} times");
    }
}
