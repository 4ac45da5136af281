//! Programs side by side, and guests that gather their hot pages.

use super::testing::*;
use super::tests::counter;
use super::*;
use crate::guest::GuestSetup;
use crate::machine::Machine;
use crate::measure_footprint;
use crate::size::FastSize;
use frostline_core::action::{Action, Lane, MoveId};
use frostline_core::policy::{Offer, registry};
use frostline_trace::event::StreamId;
use frostline_trace::{MemTrace, TraceEvent};

fn options(machine: &str, fast: FastSize) -> SimOptions {
    SimOptions::new(Machine::parse(machine).unwrap(), fast)
}

fn policy(name: &str) -> Made {
    registry::make(name, &Offer::default()).unwrap()
}

/// All of these steps side by side, in guests where one is named.
fn together(
    programs: &[Vec<Step>],
    guest: Option<&str>,
    policy: Made,
    options: &SimOptions,
) -> RunOutcome {
    let guest = guest.map(|text| GuestSetup::parse(text).unwrap());
    let inside = Together::inside(&options.machine, guest.as_ref());
    let trace =
        |steps: &Vec<Step>| MemTrace::capture(&mut Steps::new(steps.iter().cloned())).unwrap();
    let traces: Vec<MemTrace> = programs.iter().map(trace).collect();
    let mut sources: Vec<(Box<dyn TraceSource + Send>, Footprint)> = Vec::new();
    for trace in &traces {
        let footprint = measure_footprint(&mut trace.reader().unwrap(), &inside).unwrap();
        sources.push((Box::new(trace.reader().unwrap()), footprint));
    }
    let footprints: Vec<Footprint> =
        sources.iter().map(|(_, footprint)| footprint.clone()).collect();
    let footprint = Together::footprint(&footprints, guest.as_ref());
    let programs = Together::new(sources, guest.as_ref(), 1.0, options.seed).unwrap();
    let outcome = simulate_together(programs, &footprint, policy, options, &mut ()).unwrap();
    let by_tier: u64 = outcome.report.tiers.iter().map(|tier| tier.accesses).sum();
    assert_eq!(by_tier, outcome.report.accesses);
    assert_eq!(counter(&outcome, "engine.anomalies"), 0.0);
    outcome
}

/// All pages once, then every 512th of them, `rounds` times.
fn sparse(regions: u32, rounds: usize) -> Vec<Step> {
    let hot = (0..rounds).flat_map(move |_| (0..regions).map(|r| r * 512 + 7));
    let mut steps = map(0, regions * 512);
    steps.extend((0..regions * 512).chain(hot).map(load));
    steps
}

#[test]
fn one_program_takes_turns_with_nobody() {
    let steps = sparse(8, 3000);
    let options = options("dram-nvm", FastSize::Ratio(1, 3));
    let trace = MemTrace::capture(&mut Steps::new(steps.clone())).unwrap();
    let footprint = measure_footprint(&mut trace.reader().unwrap(), &options.machine).unwrap();
    let mut source = trace.reader().unwrap();
    let alone = simulate(&mut source, &footprint, policy("memtis"), &options, &mut ()).unwrap();
    let mut turns = together(&[steps], None, policy("memtis"), &options);
    let own: Vec<String> =
        turns.report.counters.keys().filter(|k| k.starts_with("programs.")).cloned().collect();
    assert!(!own.is_empty());
    own.iter().for_each(|key| {
        turns.report.counters.remove(key);
    });
    turns.report.host = alone.report.host.clone();
    turns.report.trace.clone_from(&alone.report.trace);
    assert_eq!(turns.report, alone.report, "the same run");
}

#[test]
fn an_operation_takes_as_long_beside_others_as_alone() {
    let mut steps = map(0, 512);
    for op in 0..2000u32 {
        let stream = StreamId(1);
        steps.push(Step::Event(TraceEvent::OpBegin { stream, op: 7 }));
        steps.extend((0..20).map(|i| Step::Access((op + i) % 512, AccessKind::Load, stream.0)));
        steps.push(Step::Event(TraceEvent::OpEnd { stream, op: 7 }));
    }
    let options = options("dram-nvm", "200%".parse().unwrap());
    let median = |programs: usize| {
        let all = together(&vec![steps.clone(); programs], None, policy("first-touch"), &options);
        let latency = all.report.op_latency_ns.unwrap();
        assert_eq!(latency.count, 2000 * programs as u64);
        latency.p50 as f64
    };
    let (alone, four) = (median(1), median(4));
    assert!(alone > 200.0 && (four / alone - 1.0).abs() < 0.1, "{alone} and {four}");
}

#[test]
fn two_programs_share_fast_memory_and_each_has_its_own_time() {
    let steps = sparse(4, 4000);
    let options = options("dram-nvm", FastSize::Ratio(1, 1));
    let alone = replay_steps(&steps, policy("all-fast"), &options, false);
    // The first to touch all of its memory fills the fast tier together with half of the other's.
    let both = together(&[steps.clone(), steps], None, policy("first-touch"), &options);
    assert_eq!(both.report.accesses, 2 * alone.report.accesses);
    let [one, two] = ["programs.1.seconds", "programs.2.seconds"].map(|n| counter(&both, n));
    assert!(one > alone.report.modelled_seconds, "{one}: its last regions are slow");
    assert!((one - two).abs() < 0.2 * one, "side by side: {one} {two}");
    assert!((both.report.modelled_seconds - one.max(two)).abs() < 0.01 * one);
    let fast: f64 = (1..=2).map(|i| counter(&both, &format!("programs.{i}.fast_bytes_late"))).sum();
    assert!((fast - both.report.fast_bytes as f64).abs() < 0.01 * fast, "{fast}");
}

#[test]
fn who_waits_for_slow_memory_gets_less_done() {
    // The same accesses; the first program touches all of its memory before the second one does.
    let mapped = map(0, 4 * 512).len();
    let mut first = sparse(4, 6000);
    let hot = first.split_off(mapped + 4 * 512);
    let one_page = || std::iter::repeat_n(load(0), 100_000);
    let touches = first.split_off(mapped);
    let mut second = first.clone();
    first.extend(touches.iter().cloned().chain(one_page()).chain(hot.iter().cloned()));
    second.extend(one_page().chain(touches).chain(hot));
    let options = options("dram-nvm", FastSize::Bytes(Bytes(4 << 21)));
    let both = together(&[first, second], None, policy("first-touch"), &options);
    let hits = |i: u32| counter(&both, &format!("programs.{i}.fast_hit_ratio"));
    assert!(hits(1) > hits(2) + 0.05, "{} {}", hits(1), hits(2));
    assert!(counter(&both, "programs.1.seconds") < counter(&both, "programs.2.seconds"));
}

#[test]
fn a_host_sees_folios_and_a_guests_pages_lie_scattered_in_them() {
    let options = options("dram-nvm", FastSize::Percent(200.0));
    let none = together(&[sparse(8, 2000)], Some("none"), policy("first-touch"), &options);
    assert_eq!(counter(&none, "machine.base_faults"), 0.0, "the host maps folios only");
    let folios = counter(&none, "machine.huge_faults");
    assert!((9.0..=13.0).contains(&folios), "{folios}: others have half of some regions");
    assert!(counter(&none, "guests.consolidated_pages_total") == 0.0);
    let fresh = together(&[sparse(8, 2000)], Some("none:aged=0"), policy("first-touch"), &options);
    assert_eq!(counter(&fresh, "machine.huge_faults"), 8.0);
}

#[test]
fn consolidation_makes_one_hot_region_of_many() {
    let options = options("dram-nvm", FastSize::Percent(200.0));
    let steps = || vec![sparse(40, 20_000)];
    let run = |guest| together(&steps(), Some(guest), policy("first-touch"), &options);
    let none = run("none:window=1ms");
    let gpac = run("gpac:cl=5:window=1ms");
    let regions = |o: &RunOutcome| counter(o, "guests.accessed_regions_mean");
    assert!(regions(&none) > 30.0, "{}", regions(&none));
    assert!(regions(&gpac) <= 3.0, "{}", regions(&gpac));
    assert!((38.0..=80.0).contains(&counter(&gpac, "guests.consolidated_pages_total")));
    assert_eq!(gpac.report.accesses, none.report.accesses, "the program sees nothing of it");
    assert_eq!(gpac.report.splits, 0, "the host never splits");
    // Paid by the guest: access bits, copies and, by the program itself, flushes.
    assert!(gpac.report.tiering_cpu_seconds > counter(&gpac, "guests.scan_seconds"));
    assert!(counter(&gpac, "guests.consolidation_seconds") > 0.0);
    assert!(gpac.report.time_split.migrate > 0.0);
    assert_eq!(none.report.tiering_cpu_seconds, 0.0);
}

#[test]
fn a_call_takes_512_pages_and_too_few_are_left_for_later() {
    let options = options("dram-nvm", FastSize::Percent(200.0));
    // 4 hot pages in each of 160 regions: 640.
    let regions = 160;
    let hot = (0..800).flat_map(|_| (0..regions).flat_map(|r| (0..4).map(move |p| r * 512 + p)));
    let mut steps = map(0, regions * 512);
    steps.extend((0..regions * 512).chain(hot).map(load));
    let run = |guest| together(&[steps.clone()], Some(guest), policy("first-touch"), &options);
    let two = run("gpac:cl=100:window=4ms:aged=0");
    assert_eq!(counter(&two, "guests.consolidations_total"), 2.0);
    assert_eq!(counter(&two, "guests.consolidated_pages_total"), 640.0);
    let one = run("gpac:cl=200:window=4ms:aged=0");
    assert_eq!(counter(&one, "guests.consolidations_total"), 1.0, "128 are fewer than 200");
    assert_eq!(counter(&one, "guests.consolidated_pages_total"), 512.0);
    let none = run("gpac:cl=4:window=4ms:aged=0");
    assert_eq!(counter(&none, "guests.consolidated_pages_total"), 0.0, "no region has fewer");
}

#[test]
fn without_a_free_region_a_guest_goes_on_as_it_was() {
    let options = options("dram-nvm", FastSize::Percent(200.0));
    let full = together(
        &[sparse(20, 20_000)],
        Some("gpac:cl=5:window=1ms:memory=100%:aged=0"),
        policy("first-touch"),
        &options,
    );
    assert!(counter(&full, "guests.without_region_total") > 1.0, "tried again in each window");
    assert_eq!(counter(&full, "guests.consolidated_pages_total"), 0.0);
    assert_eq!(counter(&full, "machine.huge_faults"), 20.0);
}

#[test]
fn walks_through_two_page_tables_take_as_long_as_was_measured() {
    let run = |machine: &str, guest: &str| {
        let options = SimOptions { tlb: true, ..options(machine, FastSize::Percent(300.0)) };
        // Pages far apart, more of them than there are entries.
        let steps: Vec<Step> =
            (0..30u32).flat_map(|_| (0..40 * 512).step_by(9)).map(load).collect();
        let mut all = map(0, 40 * 512);
        all.extend(steps);
        together(&[all], Some(guest), policy("first-touch"), &options)
    };
    let per_walk = |o: &RunOutcome| counter(o, "machine.walk_ns_mean");
    let huge = run("dram-nvm", "none:pages=huge:aged=0");
    let base = run("dram-nvm", "none");
    let both = run("dram-nvm:thp=off", "none");
    assert!((per_walk(&huge) - 24.0).abs() < 1e-6, "{}", per_walk(&huge));
    assert!((per_walk(&base) / 24.0 - 2.3).abs() < 1e-6);
    assert!((per_walk(&both) / 24.0 - 4.2).abs() < 1e-6);
    let walks = |o: &RunOutcome| counter(o, "machine.tlb_walks");
    assert!(walks(&huge) < walks(&base) / 10.0, "{} {}", walks(&huge), walks(&base));
}

#[test]
fn a_host_that_moves_a_folio_flushes_its_guest() {
    let action = |to| Action::Migrate {
        id: MoveId(0),
        run: PageRun::between(0, 512),
        to: TierId(to),
        lane: Lane::DEMOTE,
    };
    let run = |actions: Vec<(u64, Action)>| {
        let options = SimOptions { tlb: true, ..options("dram-nvm", FastSize::Percent(300.0)) };
        let (script, _) = Script::new(actions).boxed();
        together(&[sparse(4, 20_000)], Some("none:aged=0"), script, &options)
    };
    let still = run(Vec::new());
    let moving = run((1..6).map(|i| (i * 100_000, action((i % 2) as u8))).collect());
    assert!(moving.report.demoted_bytes > 0);
    let walks = |o: &RunOutcome| counter(o, "machine.tlb_walks");
    assert!(walks(&moving) > walks(&still), "{} {}", walks(&moving), walks(&still));
}

#[test]
fn memory_that_a_guest_frees_is_used_again() {
    let options = options("dram-nvm", FastSize::Percent(200.0));
    let mut steps = Vec::new();
    for _ in 0..10 {
        steps.extend(map(0, 512 * 8));
        steps.extend((0..512 * 8).map(load));
        steps.push(unmap(0, 512 * 8));
    }
    let all = together(&[steps], Some("none:memory=110%:aged=0"), policy("first-touch"), &options);
    assert_eq!(counter(&all, "machine.huge_faults"), 8.0, "the host is told of nothing");
}
