//! Lanes: threads for which one thread of a trace stands.

use super::testing::*;
use super::tests::{rounds, run};
use super::*;
use crate::machine::{Machine, Workers};
use crate::size::FastSize;
use frostline_core::action::{Action, Lane, MoveId};
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
