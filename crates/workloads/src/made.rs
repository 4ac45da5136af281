//! Generators as sources of traces: a stage, and what makes accesses on it.

use crate::stage::Stage;
use frostline_trace::batch::Want;
use frostline_trace::{Batch, TraceError, TraceHeader, TraceSource};

/// Generator at its beginning.
pub(crate) struct Made {
    pub(crate) stage: Stage,
    pub(crate) workload: Box<dyn Workload>,
}

/// Part of a generator that makes accesses.
pub(crate) trait Workload: Send {
    /// Makes some more, by preference a batch or a few; false where there are no more.
    fn step(&mut self, stage: &mut Stage) -> bool;
}

/// Source of a generator's trace.
pub(crate) struct Synth {
    stage: Stage,
    workload: Box<dyn Workload>,
    done: bool,
}

impl Synth {
    /// At the beginning.
    pub(crate) fn new(made: Made) -> Self {
        Self { stage: made.stage, workload: made.workload, done: false }
    }
}

impl TraceSource for Synth {
    fn header(&self) -> &TraceHeader {
        &self.stage.header
    }

    fn want(&mut self, want: Want) {
        self.stage.want = want;
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        loop {
            if self.stage.take(batch) {
                return Ok(true);
            }
            if self.done {
                batch.clear();
                return Ok(false);
            }
            if !self.workload.step(&mut self.stage) {
                self.stage.finish();
                self.done = true;
            }
        }
    }
}
