//! A kernel that allocates without telling anybody: what a daemon finds out when, where folios fit, and what
//! zeroing leaves in the cache.

use super::testing::*;
use super::tests::{counter, run_policy};
use super::*;
use crate::machine::Machine;
use crate::measure_footprint;
use crate::options::HostedDaemon;
use crate::size::FastSize;
use frostline_core::action::{Action, Lane, MoveId};
use frostline_core::policy::{Offer, registry};
use frostline_trace::header::CacheModel;

/// An access takes 10 us: 100 000 of them a second.
const SLOW: &str = "lab:costs.step_ns=0:costs.fault_base_ns=0:costs.fault_huge_ns=0\
                    :costs.zero_line_stalls=0:tiers.fast.read_ns=10us:tiers.slow.read_ns=10us";

fn options(changes: &str, kernel_pages: u64) -> SimOptions {
    let machine = Machine::parse(&format!("{SLOW}{changes}")).unwrap();
    let fast = FastSize::Bytes(PageCount(kernel_pages).bytes());
    SimOptions::new(machine, fast)
}

/// The policy decides in a daemon, which the kernel does not know.
fn hosted(changes: &str, kernel_pages: u64) -> SimOptions {
    let daemon = HostedDaemon {
        spare: Bytes(0),
        cpu_share: 0.25,
        settling_cpu_share: 0.5,
        brief: false,
        goal: None,
    };
    SimOptions { daemon: Some(daemon), ..options(changes, kernel_pages) }
}

fn demote(at_ms: u64, page: u32) -> (u64, Action) {
    let (run, to) = (PageRun::single(PageId(page)), TierId(1));
    (at_ms * 1_000_000, Action::Migrate { id: MoveId(at_ms), run, to, lane: Lane::DEMOTE })
}

/// Accesses to `pages` in turn, for so many milliseconds.
fn loads(pages: std::ops::Range<u32>, ms: u32) -> impl Iterator<Item = Step> {
    pages.cycle().take(100 * ms as usize).map(load)
}

fn populated(events: &[Event]) -> Vec<PageRun> {
    let runs = events.iter().filter_map(|event| match event {
        Event::Populated { run, .. } => Some(*run),
        _ => None,
    });
    runs.collect()
}

#[test]
fn a_kernel_that_knows_of_no_policy_maps_what_it_maps() {
    let mut steps = map(0, 1024);
    steps.extend(loads(0..1024, 100));
    let folios = |options: &SimOptions| {
        let policy = registry::make("hybridtier", &Offer::default()).unwrap();
        assert!(policy.facts.base_pages);
        counter(&run_policy(&steps, policy, options, false), "machine.huge_faults")
    };
    assert_eq!(folios(&hosted("", 2048)), 2.0);
    assert_eq!(folios(&options("", 2048)), 0.0);
}

#[test]
fn what_is_mapped_anew_is_seen_when_mappings_are_read_again() {
    let mut steps = map(0, 512);
    steps.extend(loads(0..512, 200));
    steps.extend(map(512, 1024));
    steps.extend(loads(0..1024, 1500));
    let actions = || vec![demote(900, 5), demote(900, 600), demote(1400, 601)];
    let counters = |options: &SimOptions| {
        let (outcome, _) = run_script(&steps, sampling(1_000_000, actions()), options);
        let counters = outcome.report.counters;
        (outcome.report.demoted_bytes / PAGE_BYTES, counters["engine.rejected_not_resident"])
    };
    // At 0.9 s nobody knows of page 600, at 1.4 s of page 601.
    assert_eq!(counters(&hosted(":thp=off", 2048)), (2, 1.0));
    assert_eq!(counters(&options(":thp=off", 2048)), (3, 0.0), "a kernel knows everything");
}

#[test]
fn what_is_touched_later_is_seen_when_the_round_comes_by() {
    // All is mapped from the beginning; memory is touched 100 ms later.
    let mut steps = map(0, 16 * 512);
    steps.extend(loads(0..1, 100));
    steps.extend(loads(0..16 * 512, 1000));
    let runs = |changes: &str| {
        let options = hosted(&format!(":thp=off{changes}"), 16 * 512);
        populated(&run_script(&steps, sampling(1_000_000, Vec::new()), &options).1)
    };
    let pages = |runs: &[PageRun]| runs.iter().map(|run| run.pages).sum::<u32>();
    let all = runs("");
    assert_eq!(pages(&all), 16 * 512);
    assert!(all.windows(2).all(|two| two[0].end() <= two[1].start.0), "by address: {all:?}");
    // Looking up a page takes so long that the first eight regions use up the share.
    let few = runs(":costs.lookup_ns=10ms");
    assert!(pages(&few) < 16 * 512 && few.iter().all(|run| run.end() <= 8 * 512), "{few:?}");
}

#[test]
fn samples_of_unseen_pages_are_dropped_and_their_accesses_count() {
    let mut steps = map(0, 512);
    steps.extend(loads(0..512, 100));
    steps.extend(map(512, 1024));
    steps.extend(loads(512..1024, 2000));
    // Half of what is mapped later finds no room in fast memory.
    let options = hosted(":thp=off", 768);
    let (outcome, events) = run_script(&steps, sampling(7, Vec::new()), &options);
    let seen = events.iter().position(
        |event| matches!(event, Event::Populated { run, .. } if run.contains(PageId(1023))),
    );
    let seen = seen.expect("seen in the end");
    let late = |event: &&Event| matches!(event, Event::Sample(sample) if sample.page.0 >= 512);
    assert_eq!(events[..seen].iter().filter(late).count(), 0);
    assert!(events[seen..].iter().filter(late).count() > 1000);
    let hits = outcome.report.fast_hit_ratio;
    assert!((hits - (100.0 + 1000.0) / 2100.0).abs() < 0.01, "{hits}");
    assert_eq!(outcome.report.counters["engine.anomalies"], 0.0);
}

#[test]
fn what_goes_unseen_leaves_nothing_behind() {
    let mut steps = map(0, 512);
    steps.extend(loads(0..512, 100));
    steps.extend(map(512, 1024));
    steps.extend(loads(512..1024, 100));
    steps.push(unmap(512, 1024));
    steps.extend(map(1024, 1536));
    steps.extend(loads(1024..1536, 1500));
    // There is room for two of the three.
    let (outcome, events) =
        run_script(&steps, sampling(1_000_000, Vec::new()), &hosted(":thp=off", 1024));
    assert_eq!(populated(&events).iter().map(|run| run.pages).sum::<u32>(), 1024);
    assert_eq!(outcome.report.tiers[0].resident_bytes, 1024 * PAGE_BYTES);
    assert_eq!(outcome.report.tiers[1].resident_bytes_max, 0);
}

#[test]
fn folios_beyond_the_fast_tier_are_for_who_asks() {
    let steps: Vec<Step> = map(0, 4 * 512).into_iter().chain((0..4 * 512).map(load)).collect();
    let faults = |changes: &str, blocks: Option<u64>| {
        let mut options = options(changes, 2 * 512);
        options.kernel_blocks = blocks;
        let (outcome, _) = run_script(&steps, Script::new([]), &options);
        let count = |name: &str| outcome.report.counters[name] as u64;
        (count("machine.huge_faults"), count("machine.base_faults"))
    };
    assert_eq!(faults("", None), (4, 0));
    assert_eq!(faults(":os.thp_remote=off", None), (2, 1024));
    // One block of the two is taken in pieces.
    assert_eq!(faults(":os.thp_remote=off", Some(1)), (1, 1536));
}

#[test]
fn what_was_zeroed_is_in_the_cache() {
    // A program that writes whole pages, and one that writes a line of each.
    let store = |page| Step::Access(page, AccessKind::Store, 0);
    let whole: Vec<Step> = (0..64).flat_map(|page| (0..64).map(move |_| store(page))).collect();
    let sparse: Vec<Step> = (0..64).map(store).collect();
    let seconds = |steps: &[Step], cache_bytes| {
        let machine = Machine::parse(
            "lab:thp=off:costs.fault_base_ns=0:costs.zero_bytes_per_second=1e18:ipc=1e9",
        );
        let options = SimOptions::new(machine.unwrap(), FastSize::Bytes(Bytes(1 << 20)));
        let footprint =
            measure_footprint(&mut Steps::new(steps.iter().cloned()), &options.machine).unwrap();
        let mut source = Steps::new(steps.iter().cloned());
        let llc = CacheModel { size_bytes: cache_bytes, ways: 16, line_bytes: 64 };
        source.header.llc = Some(llc).filter(|_| cache_bytes > 0);
        let (policy, _) = Script::new([]).boxed();
        let outcome = replay(&mut source, &footprint, policy, &options, &mut (), false).unwrap();
        outcome.report.modelled_seconds
    };
    let zeroing = 64.0 * 64.0 * 100e-9;
    let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-6, "{a} {b}");
    near(seconds(&whole, 2 << 20), zeroing);
    near(seconds(&sparse, 2 << 20), zeroing);
    near(seconds(&sparse, 0), zeroing + 64.0 * 100e-9);
    near(seconds(&whole, 0), 2.0 * zeroing);
}
