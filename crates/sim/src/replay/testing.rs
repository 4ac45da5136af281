//! Traces and policies for tests.

use super::{RunOutcome, SimOptions, replay};
use crate::measure_footprint;
use frostline_core::action::{Action, Plan};
use frostline_core::budget::Budget;
use frostline_core::event::{Event, Fault};
use frostline_core::placement::View;
use frostline_core::policy::{Allocation, Facts, FaultDecision, Home, Made, Policy, Telemetry};
use frostline_core::types::*;
use frostline_trace::event::MapKind;
use frostline_trace::{Batch, TimedEvent, TraceError, TraceEvent, TraceHeader, TraceSource};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// An access or an event; the clock advances by 10 with every access.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Access(u32, AccessKind, u32),
    Event(TraceEvent),
}

/// Steps in batches of at most 256 accesses, each of the line after that of the one before.
pub(crate) struct Steps {
    pub(crate) header: TraceHeader,
    steps: VecDeque<Step>,
    clock: u64,
}

impl Steps {
    pub(crate) fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self { header: TraceHeader::named("test"), steps: steps.into_iter().collect(), clock: 0 }
    }
    pub(crate) fn loads(pages: impl IntoIterator<Item = u32>) -> Self {
        Self::new(pages.into_iter().map(load))
    }
}

pub(crate) fn load(page: u32) -> Step {
    Step::Access(page, AccessKind::Load, 0)
}

impl TraceSource for Steps {
    fn header(&self) -> &TraceHeader {
        &self.header
    }
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.clear();
        while let Some(Step::Event(_)) = self.steps.front() {
            if let Some(Step::Event(event)) = self.steps.pop_front() {
                batch.events.push(TimedEvent { clock: self.clock, event });
            }
        }
        batch.clock_start = self.clock;
        let (mut kinds, mut streams, mut lines) = (Vec::new(), Vec::new(), Vec::new());
        while batch.pages.len() < 256
            && let Some(Step::Access(page, kind, stream)) = self.steps.front().cloned()
        {
            self.steps.pop_front();
            batch.pages.push(page);
            kinds.push(kind as u32);
            streams.push(stream);
            lines.push((self.clock / 10 % 64) as u32);
            self.clock += 10;
        }
        *batch.lines.values_mut() = lines;
        if !kinds.iter().all(|k| *k == 0) {
            *batch.kinds.values_mut() = kinds;
        }
        if !streams.iter().all(|s| *s == 0) {
            *batch.streams.values_mut() = streams;
        }
        batch.clock_end = self.clock;
        Ok(!batch.is_empty() || !batch.events.is_empty())
    }
}

/// Maps pages `[start, end)` as anonymous memory at the address that equals their ids.
pub(crate) fn map(start: u32, end: u32) -> Vec<Step> {
    let process = ProcessId(0);
    let mut steps: Vec<Step> = (start / 512..end.div_ceil(512))
        .map(|r| {
            let region = Region(r);
            Step::Event(TraceEvent::RegionNamed { region, process, huge_vpn: u64::from(r) })
        })
        .collect();
    steps.push(Step::Event(TraceEvent::Map {
        process,
        start: u64::from(start) * PAGE_BYTES,
        len_bytes: u64::from(end - start) * PAGE_BYTES,
        kind: MapKind::Anonymous,
        accessible: true,
        runs: vec![PageRun::between(start, end)],
    }));
    steps
}

pub(crate) fn unmap(start: u32, end: u32) -> Step {
    Step::Event(TraceEvent::Unmap {
        process: ProcessId(0),
        start: u64::from(start) * PAGE_BYTES,
        len_bytes: u64::from(end - start) * PAGE_BYTES,
        runs: vec![PageRun::between(start, end)],
    })
}

/// What a [`Script`] was told.
pub(crate) type Log = Arc<Mutex<Vec<Event>>>;

/// A policy that does what the test says: actions at times, one answer to faults, one tier.
pub(crate) struct Script {
    pub(crate) actions: VecDeque<(u64, Action)>,
    pub(crate) fault: FaultDecision,
    pub(crate) place: TierId,
    pub(crate) needs: Telemetry,
    pub(crate) spinning_threads: u32,
    /// Swaps with base pages, and names these pages as victims, over and over.
    pub(crate) swaps: bool,
    pub(crate) victims: Vec<PageId>,
    pub(crate) log: Log,
}

impl Script {
    pub(crate) fn new(actions: impl IntoIterator<Item = (u64, Action)>) -> Self {
        Self {
            actions: actions.into_iter().collect(),
            fault: FaultDecision::Stay,
            place: TierId(0),
            needs: Telemetry::default(),
            spinning_threads: 0,
            swaps: false,
            victims: Vec::new(),
            log: Log::default(),
        }
    }
    pub(crate) fn boxed(self) -> (Made, Log) {
        let log = Arc::clone(&self.log);
        let Self { needs, swaps, spinning_threads, .. } = self;
        let facts = Facts { needs, swaps, base_pages: swaps, spinning_threads, ..Facts::default() };
        (Made::unlisted("script", Box::new(self), facts), log)
    }
}

/// Measures and replays.
pub(crate) fn replay_steps(
    steps: &[Step],
    policy: Made,
    options: &SimOptions,
    careful: bool,
) -> RunOutcome {
    let source = || Steps::new(steps.iter().cloned());
    let footprint = measure_footprint(&mut source(), &options.machine).unwrap();
    replay(&mut source(), &footprint, policy, options, &mut (), careful).unwrap()
}

/// What became of it, and what the script was told.
pub(crate) fn run_script(
    steps: &[Step],
    script: Script,
    options: &SimOptions,
) -> (RunOutcome, Vec<Event>) {
    let (policy, log) = script.boxed();
    let outcome = replay_steps(steps, policy, options, false);
    let events = log.lock().unwrap().clone();
    (outcome, events)
}

/// Sampled, so that there is somebody who looks after the program.
pub(crate) fn sampling(period: u32, actions: Vec<(u64, Action)>) -> Script {
    let needs = Telemetry { load_sample_period: period, ..Telemetry::default() };
    Script { needs, ..Script::new(actions) }
}

impl Policy for Script {
    fn observe(&mut self, _: Nanos, events: &[Event], _: &View<'_>) {
        self.log.lock().unwrap().extend_from_slice(events);
    }
    fn decide(&mut self, now: Nanos, _: &View<'_>, _: Budget, plan: &mut Plan) {
        while self.actions.front().is_some_and(|(at, _)| *at <= now.0) {
            plan.push(self.actions.pop_front().unwrap().1);
        }
    }
    fn next_wakeup(&self) -> Option<Nanos> {
        self.actions.front().map(|(at, _)| Nanos(*at))
    }
    fn on_fault(&mut self, _: Nanos, _: &Fault, _: &View<'_>) -> FaultDecision {
        self.fault
    }
    fn place(&mut self, _: Nanos, _: &Allocation, _: &View<'_>) -> Home {
        self.place.into()
    }
    fn victims(&mut self, _: Nanos, _: PageCount, _: &View<'_>, out: &mut Vec<PageId>) {
        out.extend(&self.victims);
    }
    fn metadata_bytes(&self) -> Bytes {
        Bytes::ZERO
    }
}
