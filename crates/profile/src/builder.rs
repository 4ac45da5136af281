//! One pass over a trace.

use crate::profile::Profile;
use crate::stack::LruStack;
use frostline_core::types::{PageId, PageRun};
use frostline_trace::{Batch, TraceError, TraceEvent, TraceSource};

/// Which records count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// So many of the first ones are left out. What they touch is in memory when the others
    /// begin: a loading phase.
    pub skip: u64,
    /// Stop after counting so many; `None`: at the end.
    pub records: Option<u64>,
}

/// What is known of the trace so far.
pub(crate) struct Builder {
    stack: LruStack,
    /// Accesses by page.
    counts: Vec<u64>,
    /// Accesses by depth.
    depths: Vec<u64>,
    first_touches: u64,
    by_kind: [u64; 4],
    seen: u64,
    /// Of the trace's clock, with the records that counted.
    ticks: f64,
    span: Span,
}

impl Profile {
    /// Reads `source` to the end of the span. `progress` is told the number of records now and
    /// then, and stops the reading by returning false; the profile is then of what was read.
    ///
    /// # Errors
    /// Those of the source.
    pub fn of(
        source: &mut dyn TraceSource,
        span: Span,
        mut progress: impl FnMut(u64) -> bool,
    ) -> Result<Self, TraceError> {
        /// Batches between two looks at the progress.
        const BATCHES: u32 = 256;
        let mut builder = Builder::new(span);
        let mut batch = Batch::new();
        let mut batches = 0u32;
        while !builder.full() && source.next_batch(&mut batch)? {
            builder.add(&batch);
            batches = batches.wrapping_add(1);
            if batches.is_multiple_of(BATCHES) && !progress(builder.seen) {
                break;
            }
        }
        progress(builder.seen);
        Ok(builder.finish())
    }
}

impl Builder {
    fn new(span: Span) -> Self {
        Self {
            stack: LruStack::new(),
            counts: Vec::new(),
            depths: Vec::new(),
            first_touches: 0,
            by_kind: [0; 4],
            seen: 0,
            ticks: 0.0,
            span,
        }
    }

    fn end(&self) -> u64 {
        self.span.records.map_or(u64::MAX, |records| self.span.skip.saturating_add(records))
    }

    fn full(&self) -> bool {
        self.seen >= self.end()
    }

    fn add(&mut self, batch: &Batch) {
        for event in &batch.events {
            self.event(&event.event);
        }
        let within = |at: u64| at.saturating_sub(self.seen).min(batch.len() as u64) as usize;
        let (from, to) = (within(self.span.skip), within(self.end()));
        for &page in &batch.pages[..from] {
            self.stack.touch(page);
        }
        self.seen += to as u64;
        // The clock goes on evenly within a batch, and where there are no accesses.
        let counted = match batch.len() {
            0 => f64::from(u8::from(self.seen >= self.span.skip)),
            len => (to - from) as f64 / len as f64,
        };
        self.ticks += batch.clock_end.saturating_sub(batch.clock_start) as f64 * counted;
        let Some(highest) = batch.pages[from..to].iter().max() else { return };
        if *highest as usize >= self.counts.len() {
            self.counts.resize((*highest as usize + 1).next_multiple_of(512), 0);
        }
        // Whatever these records bring in, none of them comes from below this depth.
        let deepest = self.stack.height() as usize + (to - from) + 1;
        if deepest > self.depths.len() {
            self.depths.resize(deepest.next_power_of_two(), 0);
        }
        for &page in &batch.pages[from..to] {
            self.counts[page as usize] += 1;
            match self.stack.touch(page) {
                Some(depth) => self.depths[depth as usize] += 1,
                None => self.first_touches += 1,
            }
        }
        match batch.kinds.constant() {
            Some(kind) => self.by_kind[kind as usize & 3] += (to - from) as u64,
            None => (from..to).for_each(|i| self.by_kind[batch.kind(i) as usize] += 1),
        }
    }

    fn event(&mut self, event: &TraceEvent) {
        match event {
            TraceEvent::Unmap { runs, .. } | TraceEvent::Discard { runs, .. } => {
                runs.iter().for_each(|run| self.free(*run));
            }
            TraceEvent::Remap { moves, lost, .. } => {
                for (from, to) in moves {
                    self.rename(*from, *to);
                }
                lost.iter().for_each(|run| self.free(*run));
            }
            _ => {}
        }
    }

    fn free(&mut self, run: PageRun) {
        let known = run.intersect(self.stack.known());
        known.iter().for_each(|page| self.stack.free(page.0));
    }

    /// Runs that overlap are moved from the end that is not overwritten.
    fn rename(&mut self, run: PageRun, to: PageId) {
        let start = run.start.0;
        let target = |page: PageId| to.0 + (page.0 - start);
        let run = run.intersect(self.stack.known());
        if to.0 > run.start.0 {
            run.iter().rev().for_each(|page| self.stack.rename(page.0, target(page)));
        } else {
            run.iter().for_each(|page| self.stack.rename(page.0, target(page)));
        }
    }

    fn finish(self) -> Profile {
        let left_out = self.seen.min(self.span.skip);
        let left_out = (left_out, self.ticks as u64);
        Profile::new(left_out, self.by_kind, self.first_touches, &self.depths, &self.counts)
    }
}
