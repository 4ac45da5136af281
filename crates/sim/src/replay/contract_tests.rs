//! Page sizes, exchanges and samples as policies of the simulator get them.

use super::testing::{Log, Step, load, map, replay_steps};
use super::tests::{counter, options};
use crate::{RunOutcome, SimOptions};
use frostline_core::action::{Lane, Plan};
use frostline_core::budget::Budget;
use frostline_core::event::{Event, Sample};
use frostline_core::placement::View;
use frostline_core::policy::{Allocation, Facts, Home, Made, PageSize, Policy, Telemetry};
use frostline_core::types::*;

#[derive(Default)]
struct Chooser {
    size: Option<PageSize>,
    exchange: Option<(PageRun, PageRun)>,
    log: Log,
}

impl Policy for Chooser {
    fn observe(&mut self, _: Nanos, events: &[Event], _: &View<'_>) {
        self.log.lock().unwrap().extend_from_slice(events);
    }
    fn decide(&mut self, _: Nanos, view: &View<'_>, _: Budget, plan: &mut Plan) {
        if let Some((one, other)) = self.exchange
            && view.state(one.start).is_resident()
        {
            plan.exchange(one, other, Lane::PROMOTE);
            self.exchange = None;
        }
    }
    fn next_wakeup(&self) -> Option<Nanos> {
        self.exchange.map(|_| Nanos::ZERO)
    }
    fn place(&mut self, _: Nanos, _: &Allocation, _: &View<'_>) -> Home {
        Home { size: self.size, ..Home::default() }
    }
    fn metadata_bytes(&self) -> Bytes {
        Bytes::ZERO
    }
}

fn run(steps: &[Step], policy: Chooser, options: &SimOptions) -> RunOutcome {
    let needs = Telemetry { load_sample_period: 10, ..Telemetry::default() };
    let facts = Facts { needs, ..Facts::default() };
    replay_steps(steps, Made::unlisted("chooser", Box::new(policy), facts), options, false)
}

fn touched(pages: u32) -> Vec<Step> {
    let mut steps = map(0, pages);
    steps.extend((0..pages).map(load));
    steps
}

#[test]
fn new_memory_has_pages_of_the_size_that_the_policy_chooses() {
    let steps = touched(1024);
    let folios = |machine: &str, size: Option<PageSize>| {
        let policy = Chooser { size, ..Chooser::default() };
        let outcome = run(&steps, policy, &options(machine, 4096));
        [counter(&outcome, "machine.huge_faults"), counter(&outcome, "machine.base_faults")]
    };
    assert_eq!(folios("dram-nvm", None), [2.0, 0.0]);
    assert_eq!(folios("dram-nvm", Some(PageSize::Base)), [0.0, 1024.0]);
    assert_eq!(folios("dram-nvm:thp=off", None), [0.0, 1024.0]);
    assert_eq!(folios("dram-nvm:thp=off", Some(PageSize::Folio)), [2.0, 0.0]);
    let refused = "dram-nvm:thp=off:os.collapse=off";
    assert_eq!(folios(refused, Some(PageSize::Folio)), [0.0, 1024.0], "by the program");
}

#[test]
fn an_exchange_in_the_background_moves_both_ways() {
    let mut steps = touched(1024);
    steps.extend((0..20_000).map(|i| load(i % 1024)));
    let exchange = Some((Region(1).run(), Region(0).run()));
    let policy = Chooser { exchange, ..Chooser::default() };
    let outcome = run(&steps, policy, &options("dram-nvm:watermark=0", 512));
    let moved =
        ["engine.promoted_pages", "engine.demoted_pages"].map(|name| counter(&outcome, name));
    assert_eq!(moved, [512.0, 512.0]);
}

#[test]
fn samples_say_whether_they_missed_and_walked_where_that_is_modelled() {
    let steps = touched(2048);
    let samples = |tlb: bool| -> Vec<Sample> {
        let policy = Chooser { size: Some(PageSize::Base), ..Chooser::default() };
        let log = policy.log.clone();
        run(&steps, policy, &SimOptions { tlb, ..options("dram-nvm", 4096) });
        let log = log.lock().unwrap();
        log.iter().filter_map(|e| if let Event::Sample(s) = e { Some(*s) } else { None }).collect()
    };
    let (with, without) = (samples(true), samples(false));
    assert!(with.len() > 100 && with.len() == without.len());
    assert!(with.iter().all(|sample| sample.walked == Some(true)), "each page once");
    assert!(without.iter().all(|sample| sample.walked.is_none() && sample.missed == Some(true)));
}
