use crate::action::Action;
use crate::engine::EngineConfig;
use crate::policy::offer::Offer;
use crate::policy::testing::{SLOW, World};
use crate::types::*;
use alloc::vec::Vec;

/// A step takes 10 ms; in a period, 30 accesses to slow memory are allowed.
const SPEC: &str = "thermostat:period=30ms:share=1:penalty=30us:rearm=100us";

fn world(spec: &str, fast: u64) -> World {
    World::new(fast, spec)
}

/// Until the present step is over; these pages are accessed every time the policy wakes up.
fn step(w: &mut World, accessed: &[u32]) {
    let end = Nanos((w.now.0 / 10_000_000 + 1) * 10_000_000);
    while w.engine.poll_timeout().unwrap() < end {
        w.touch(accessed.iter().copied());
        w.wake();
    }
    w.wake();
}

/// The steps of one period, from the beginning of the sample to its judgement.
fn period(w: &mut World, accessed: &[u32]) {
    (0..3).for_each(|_| step(w, accessed));
}

fn region(number: u32) -> PageRun {
    Region(number).run()
}

#[test]
fn regions_whose_faults_fit_what_is_allowed_are_demoted() {
    let mut w = world(SPEC, 1 << 16);
    w.populate(PageRun::between(0, 4 * 512), false);
    period(&mut w, &[0, 600]);
    assert_eq!(w.metric("sampled_regions_total"), 4.0);
    assert_eq!(w.metric("poisoned_pages_total"), 2.0);
    // Each page faults as often as it is armed, some hundred times: more than is allowed.
    assert!(w.metric("sampled_faults_total") > 60.0, "{}", w.metric("sampled_faults_total"));
    assert_eq!(w.metric("cold_regions_total"), 2.0);
    let tiers: Vec<_> = (0..4).map(|r| w.tier(r * 512)).collect();
    assert_eq!(tiers, [Some(TierId::FAST), Some(TierId::FAST), Some(SLOW), Some(SLOW)]);
    // No page of fast memory is left armed, and all others are.
    step(&mut w, &[]);
    let armed = |run: PageRun| run.iter().filter(|p| w.engine.view().state(*p).is_armed()).count();
    assert_eq!((armed(region(0)), armed(region(2))), (0, 512));
}

#[test]
fn at_most_so_many_of_the_accessed_pages_are_armed_and_stand_for_all() {
    let mut w = world("thermostat:period=30ms:share=1:poisoned=4:rearm=100us", 1 << 16);
    w.populate(region(0), false);
    let accessed: Vec<u32> = (0..40).collect();
    step(&mut w, &accessed);
    step(&mut w, &accessed);
    assert_eq!(w.metric("poisoned_pages_total"), 0.0);
    w.wake();
    assert_eq!(w.metric("poisoned_pages_total"), 4.0);
    let armed = |a: &Action| matches!(a, Action::Arm { .. });
    let first = w.count(armed);
    w.touch(accessed.iter().copied());
    w.wake();
    // Those that faulted, again; neighbours in one action.
    assert!(w.count(armed) > first);
    assert_eq!(w.metric("sampled_faults_total"), 4.0);
}

#[test]
fn faults_stand_for_the_accessed_pages_that_are_not_armed() {
    // 30 accesses in a period are 10 in a step. Of 20 pages, 2 are armed, each fault counts as 10.
    let spec = "thermostat:period=30ms:share=1:poisoned=2:penalty=30us:rearm=2ms";
    let mut w = world(spec, 1 << 16);
    w.populate(PageRun::between(0, 1024), false);
    let accessed: Vec<u32> = (0..20).collect();
    period(&mut w, &accessed);
    assert!((2.0..=9.0).contains(&w.metric("sampled_faults_total")));
    assert_eq!((w.tier(0), w.tier(512)), (Some(TierId::FAST), Some(SLOW)));
}

#[test]
fn folios_are_split_for_the_sample_and_whole_afterwards() {
    let mut w = world(SPEC, 1 << 16);
    w.populate(PageRun::between(0, 1024), true);
    step(&mut w, &[3]);
    assert_eq!(w.metric("splits_proposed_total"), 2.0);
    assert!(!w.engine.view().state(PageId(0)).is_huge());
    step(&mut w, &[3]);
    step(&mut w, &[3]);
    let moved = w.count(|a| matches!(a, Action::Migrate { .. }));
    assert_eq!((moved, w.metric("collapses_proposed_total")), (1, 0.0));
    w.wake();
    assert!(w.metric("collapses_proposed_total") == 2.0);
    let state = |page| w.engine.view().state(PageId(page));
    assert!(state(0).is_huge() && state(512).is_huge());
    assert_eq!((w.tier(0), w.tier(512)), (Some(TierId::FAST), Some(SLOW)));
}

#[test]
fn a_share_of_the_regions_is_sampled_with_a_share_of_what_is_allowed() {
    let mut w = world("thermostat:period=30ms:share=0.25:rearm=1ms", 1 << 16);
    w.populate(PageRun::between(0, 16 * 512), false);
    period(&mut w, &[]);
    assert_eq!(w.metric("sampled_regions_total"), 4.0);
    assert_eq!(w.metric("cold_regions_total"), 4.0);
    assert_eq!(w.used(), 12 * 512);
}

#[test]
fn slow_memory_that_is_accessed_too_often_comes_back_until_the_rest_is_allowed() {
    let mut w = world("thermostat:period=30ms:share=1:penalty=30us:rearm=1ms", 1 << 16);
    w.populate(PageRun::between(0, 6 * 512), false);
    period(&mut w, &[]);
    assert_eq!(w.used(), 0);
    // About 30 faults of each page in a period: one of three may stay.
    period(&mut w, &[0, 1, 512, 513, 1024]);
    assert_eq!(w.metric("corrections_total"), 1.0);
    assert!(w.metric("slow_faults_total") > 30.0);
    assert_eq!((w.tier(0), w.tier(512)), (Some(TierId::FAST), Some(TierId::FAST)));
    assert_eq!(w.tier(3 * 512), Some(SLOW));
}

#[test]
fn nothing_moves_where_there_is_no_room() {
    let config = EngineConfig::two_tiers(PageCount(1024), PageCount(512));
    let context = Offer { fast_pages: PageCount(1024), ..Offer::default() };
    let mut w = World::with(config, SPEC, &context);
    w.populate(PageRun::between(0, 1024), false);
    period(&mut w, &[]);
    assert_eq!(w.metric("cold_regions_total"), 2.0);
    assert_eq!(w.metric("demotions_proposed_pages_total"), 512.0);
    assert_eq!(w.engine.stats().rejected.iter().sum::<u64>(), 0);
}
