//! Absurd values of every parameter of every policy: refused with a hint, or run in little memory.

use super::offer::Offer;
use super::oracle::{EpochReader, Oracle, PageSaving};
use super::registry;
use super::registry::REGISTRY;
use super::registry::make;
use super::testing::World;
use crate::engine::EngineConfig;
use crate::event::{Backing, Event};
use crate::params::{Kind, Param};
use crate::types::*;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

const ABSURD: [&str; 20] = [
    "0",
    "1",
    "2",
    "-1",
    "-0",
    "0x",
    "1e308x",
    "1e-308x",
    "-1x",
    "NaN",
    "inf",
    "1e308",
    "1e-308",
    "1e15",
    "18446744073709551615",
    "4T",
    "1ns",
    "18446744073709551615ns",
    "1e18ns",
    "1000000h",
];
const FOOTPRINT: u32 = 4 * HUGE_PAGES;
/// What a policy may hold of that footprint.
const MOST_BYTES: u64 = 32 << 20;

struct Short;

impl Oracle for Short {
    fn totals(&self, sink: &mut dyn FnMut(PageSaving)) {
        (0..FOOTPRINT).for_each(|page| sink(PageSaving { page: PageId(page), saving_ns: 1.0 }));
    }
    fn epochs(&self) -> EpochReader {
        let mut asked = 0;
        Box::new(move |number, sink| {
            asked += 1;
            assert!(asked < 10_000, "asked for epochs without an end");
            sink(PageSaving { page: PageId(number as u32 % FOOTPRINT), saving_ns: 1.0 });
            number < 8
        })
    }
    fn promotion_cost_ns(&self) -> f64 {
        1.0
    }
    fn demotion_cost_ns(&self) -> f64 {
        1.0
    }
}

fn context(fast: u64) -> Offer {
    Offer {
        fast_pages: PageCount(fast),
        total_pages_hint: PageCount(FOOTPRINT.into()),
        oracle: Some(Arc::new(Short)),
        ..Offer::default()
    }
}

/// Values for a parameter: the same for all, and the words that it knows.
fn values(param: &Param) -> Vec<String> {
    let words = match param.kind {
        Kind::Choice(words) => words,
        Kind::Switch => &["on", "off"],
        _ => &[],
    };
    ABSURD.iter().chain(words).map(ToString::to_string).collect()
}

fn live(spec: &str) {
    let fast = 700;
    let config = EngineConfig::two_tiers(PageCount(fast), PageCount(1 << 20));
    let mut world = World::with(config, spec, &context(fast));
    let all = PageRun { start: PageId(0), pages: FOOTPRINT };
    let mapped = Event::Mapped { run: all, backing: Backing::Anonymous, process: ProcessId(0) };
    world.feed(&[mapped]);
    world.populate(PageRun { start: PageId(0), pages: HUGE_PAGES }, true);
    world.populate(PageRun { start: PageId(HUGE_PAGES), pages: FOOTPRINT - HUGE_PAGES }, false);
    for round in 0..24u64 {
        world.now += Nanos(1 + round * 100_000_000);
        let pages = (0..64).map(|n| (n * 37 + round as u32 * 11) % FOOTPRINT);
        world.touch(pages.clone());
        world.sample(pages, 3);
        let counters = Event::Counters { fast: 1000, slow: round * 10 };
        let usage = Event::CpuUsage { wall: Nanos(1_000_000), sampler: Nanos(10_000) };
        let latency = |tier, waited| Event::ReadLatency {
            tier: TierId(tier),
            reads: 1000 * (round % 3),
            waited: Nanos(waited),
        };
        let latencies = [latency(0, 100_000), latency(1, 50_000 * (round % 5))];
        world.feed(&latencies);
        world.feed(&[counters, usage, Event::Epoch { number: round }]);
        if world.engine.poll_timeout().is_some_and(|due| due < Nanos(1 << 61)) {
            world.wake();
        }
    }
    let policy = world.engine.policy().metadata_bytes();
    assert!(policy < Bytes(MOST_BYTES), "{spec} holds {} bytes", policy.0);
    world.engine.policy().metrics(&mut |_, _| {});
}

#[test]
fn every_absurd_value_is_refused_with_a_hint_or_runs_in_little_memory() {
    let (mut ran, mut refused) = (0, 0);
    for entry in REGISTRY {
        for param in entry.params() {
            for value in values(&param) {
                let spec = format!("{}:{}={value}", entry.name, param.name);
                match make(&spec, &context(700)) {
                    Err(error) => {
                        assert!(error.what.contains("hint: "), "{spec}: {error}");
                        refused += 1;
                    }
                    Ok(_) => {
                        assert!(registry::check(&spec).is_ok(), "{spec}");
                        live(&spec);
                        ran += 1;
                    }
                }
            }
        }
    }
    assert!(ran > 500 && refused > 500, "{ran} ran, {refused} were refused");
}
