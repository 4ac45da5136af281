//! The worked example of CONTRIBUTING.md: it is what is printed there, and it works.

use super::entry::Made;
use super::example::ENTRY;
use super::offer::Offer;
use super::registry::REGISTRY;
use crate::action::Action;
use crate::engine::{Engine, EngineConfig};
use crate::event::{Event, MoveOutcome, Sample, SampleKind};
use crate::spec::Spec;
use crate::types::*;
use alloc::vec::Vec;

fn made(text: &str) -> Made {
    ENTRY.make(&Spec::parse(text).unwrap(), &Offer::default()).unwrap()
}

#[test]
fn it_stands_in_the_document_as_it_is() {
    let (document, example) =
        (include_str!("../../../../CONTRIBUTING.md"), include_str!("example.rs"));
    let quoted = alloc::format!("```rust\n{example}```\n");
    assert!(document.contains(&quoted), "copy crates/core/src/policy/example.rs into it");
    assert!(example.lines().count() < 80);
    assert!(REGISTRY.iter().all(|entry| entry.name != ENTRY.name), "it is an example");
}

#[test]
fn sampled_pages_displace_those_that_were_not_sampled_for_longest() {
    let config = EngineConfig::two_tiers(PageCount(3), PageCount(100));
    let made = made("lru:wakeup=5ms");
    assert_eq!((&*made.name, made.facts.needs.load_sample_period), ("lru:wakeup=5ms", 200));
    let mut engine = Engine::new(config, made).unwrap();
    let mut now = Nanos::ZERO;
    let mut feed = |events: &[Event]| {
        now = now.saturating_add(Nanos(5_000_000));
        engine.handle_events(now, events);
        let mut moved = Vec::new();
        while let Some(action) = engine.poll_action() {
            let Action::Migrate { id, run, to, .. } = action else { panic!("{action:?}") };
            moved.push((run.start.0, to.0));
            let outcome = MoveOutcome::Moved;
            engine.handle_events(now, &[Event::MigrationDone { id, run, outcome }]);
        }
        moved
    };
    let populated = |run, tier| Event::Populated { run, tier, huge: false };
    let [fast, slow] = [PageRun::between(0, 2), PageRun::between(2, 9)];
    feed(&[populated(fast, TierId::FAST), populated(slow, TierId(1))]);
    let samples = |pages: &[u32]| -> Vec<Event> {
        let sample =
            |page| Sample::new(PageId(page), SampleKind::LoadMiss, TierId(1), ProcessId(0));
        pages.iter().map(|page| Event::Sample(sample(*page))).collect()
    };
    assert_eq!(feed(&samples(&[0, 5])), [(5, 0)], "there is room");
    assert_eq!(feed(&samples(&[6])), [(1, 1), (6, 0)], "1 was never sampled");
    assert_eq!(feed(&samples(&[0, 7])), [(5, 1), (7, 0)]);
    assert_eq!(feed(&samples(&[0, 6, 7, 900])), [], "all of them are there, or nowhere");
}
