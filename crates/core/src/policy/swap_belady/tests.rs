//! Tests of `swap-belady` against a plain implementation of Belady's algorithm.

use crate::engine::{Engine, EngineConfig};
use crate::event::{Event, Fault, MoveCause};
use crate::policy::contract::Allocation;
use crate::policy::offer::Offer;
use crate::policy::oracle::{AccessReader, EpochReader, KnownAccess, Oracle, PageSaving};
use crate::policy::registry::make;
use crate::rng::Rng;
use crate::types::*;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

const SLOW: TierId = TierId(1);

struct Known(Vec<u32>);

impl Oracle for Known {
    fn totals(&self, _: &mut dyn FnMut(PageSaving)) {}
    fn epochs(&self) -> EpochReader {
        Box::new(|_, _| false)
    }
    fn accesses(&self) -> AccessReader {
        let (pages, mut at) = (self.0.clone(), 0);
        Box::new(move || {
            let page = *pages.get(at)?;
            at += 1;
            Some(KnownAccess { page: PageId(page), next: next(&pages, at, page) })
        })
    }
    fn promotion_cost_ns(&self) -> f64 {
        0.0
    }
    fn demotion_cost_ns(&self) -> f64 {
        0.0
    }
}

fn next(pages: &[u32], from: usize, page: u32) -> u64 {
    pages[from..].iter().position(|p| *p == page).map_or(u64::MAX, |ahead| (from + ahead) as u64)
}

/// Faults after the first touch of each page, one victim at a time, while the program waits.
fn faults(pages: &[u32], fast: usize) -> u64 {
    let oracle = Some(Arc::new(Known(pages.to_vec())) as _);
    let context = Offer { oracle, ..Offer::default() };
    let mut config = EngineConfig::two_tiers(PageCount(fast as u64), PageCount(1000));
    config.tiers[1].direct_access = false;
    // Nothing leaves ahead of need.
    config.migration_bytes_per_second = Some(Bytes::ZERO);
    config.migration_burst = Bytes::ZERO;
    let mut engine = Engine::new(config, make("swap-belady", &context).unwrap()).unwrap();
    let (mut faults, now) = (0, Nanos(1));
    let room = |engine: &mut Engine| {
        if engine.view().free(TierId::FAST).0 == 0 {
            let [victim] = engine.victims(now, PageCount(1))[..] else { panic!("no victim") };
            let run = PageRun::single(victim);
            let cause = MoveCause::Reclaim;
            engine.handle_events(now, &[Event::Moved { run, to: SLOW, cause }]);
        }
    };
    for &page in pages {
        let run = PageRun::single(PageId(page));
        let process = ProcessId(0);
        match engine.view().state(run.start).tier() {
            Some(TierId::FAST) => {}
            Some(tier) => {
                faults += 1;
                let fault = Fault { page: run.start, tier, write: false, process, thread: 0 };
                engine.on_fault(now, &fault);
                room(&mut engine);
                let (to, cause) = (TierId::FAST, MoveCause::Refault);
                engine.handle_events(now, &[Event::Moved { run, to, cause }]);
            }
            None => {
                let allocation = Allocation { run, huge: false, may_be_huge: false, process };
                if engine.populate(now, &allocation).is_none() {
                    room(&mut engine);
                    engine.populate(now, &allocation).unwrap();
                }
            }
        }
    }
    faults
}

fn slow_faults(pages: &[u32], fast: usize) -> u64 {
    let (mut inside, mut seen, mut faults): (Vec<u32>, Vec<u32>, u64) = Default::default();
    for (at, &page) in pages.iter().enumerate() {
        if inside.contains(&page) {
            continue;
        }
        faults += u64::from(seen.contains(&page));
        seen.push(page);
        if inside.len() == fast {
            let last = (0..fast).max_by_key(|i| next(pages, at, inside[*i])).unwrap();
            inside.remove(last);
        }
        inside.push(page);
    }
    faults
}

#[test]
fn agrees_with_the_plain_algorithm() {
    let mut rng = Rng::new(5);
    for _ in 0..20 {
        let pages: Vec<u32> = (0..400).map(|_| (rng.below(6) * rng.below(8)) as u32).collect();
        for fast in [3, 7, 20] {
            let (ours, plain) = (faults(&pages, fast), slow_faults(&pages, fast));
            assert!(plain > 0);
            assert_eq!(ours, plain, "{fast} of {pages:?}");
        }
    }
}

#[test]
fn it_needs_to_know_the_future() {
    assert!(make("swap-belady", &Offer::default()).is_err());
}
