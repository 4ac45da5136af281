//! Small traces, and their exact optimum by trying every placement.

#![allow(dead_code)]

use frostline_bound::{BoundModel, EpochChoice, EpochMatrix};
use frostline_core::rng::Rng;
use frostline_core::types::{AccessKind, PageId, PageRun, ProcessId};
use frostline_trace::{Batch, TimedEvent, TraceError, TraceEvent, TraceHeader, TraceSource};

/// A step of a small trace.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Access(u32, AccessKind),
    Free(u32),
}

/// Serves steps, in batches of at most 3 accesses so that events fall between batches.
pub struct Steps {
    header: TraceHeader,
    steps: Vec<Step>,
    at: usize,
}

impl Steps {
    pub fn new(steps: &[Step]) -> Self {
        Self { header: TraceHeader::named("steps"), steps: steps.to_vec(), at: 0 }
    }
    pub fn thinned(steps: &[Step], thinning: u32) -> Self {
        let mut source = Self::new(steps);
        source.header.thinning = thinning;
        source
    }
}

impl TraceSource for Steps {
    fn header(&self) -> &TraceHeader {
        &self.header
    }
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.clear();
        let mut kinds = Vec::new();
        while let Some(&step) = self.steps.get(self.at) {
            match step {
                Step::Access(page, kind) => {
                    if batch.pages.len() == 3 {
                        break;
                    }
                    batch.pages.push(page);
                    kinds.push(kind as u32);
                }
                Step::Free(page) => {
                    if !batch.is_empty() {
                        break;
                    }
                    let event = TraceEvent::Unmap {
                        process: ProcessId(0),
                        start: 0,
                        len_bytes: 4096,
                        runs: vec![PageRun::single(PageId(page))],
                    };
                    batch.events.push(TimedEvent { clock: 0, event });
                }
            }
            self.at += 1;
        }
        batch.kinds.values_mut().extend(kinds);
        Ok(!batch.is_empty() || !batch.events.is_empty())
    }
}

pub fn matrix(steps: &[Step], epochs: EpochChoice) -> EpochMatrix {
    EpochMatrix::from_source(&mut Steps::new(steps), epochs).expect("steps cannot fail")
}

/// A random trace of up to `pages` pages in which pages are freed now and then, and are sometimes
/// accessed in bursts.
pub fn random_steps(rng: &mut Rng, pages: u64, accesses: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut page = 0;
    while steps.len() < accesses {
        if rng.below(3) > 0 {
            page = rng.below(pages) as u32;
        }
        steps.push(match rng.below(12) {
            0 => Step::Free(page),
            1..=3 => Step::Access(page, AccessKind::Store),
            4 => Step::Access(page, AccessKind::WriteBack),
            5 => Step::Access(page, AccessKind::Fetch),
            _ => Step::Access(page, AccessKind::Load),
        });
    }
    steps
}

pub fn random_model(rng: &mut Rng, capacity_pages: u64) -> BoundModel {
    BoundModel {
        read_saving_ns: rng.below(8) as f64,
        write_saving_ns: rng.below(12) as f64,
        write_back_saving_ns: rng.below(2) as f64,
        promotion_cost_ns: rng.below(10) as f64,
        demotion_cost_ns: rng.below(6) as f64,
        capacity_pages,
    }
}

pub fn saving(model: &BoundModel, kind: AccessKind) -> f64 {
    match kind {
        AccessKind::Load | AccessKind::Fetch => model.read_saving_ns,
        AccessKind::Store => model.write_saving_ns,
        AccessKind::WriteBack => model.write_back_saving_ns,
    }
}

/// The most that any sequence of placements saves, net of its moves: every set of pages before
/// every access, any change between two of them. Pages are at most 6.
pub fn optimum(steps: &[Step], model: &BoundModel) -> f64 {
    const SETS: usize = 1 << 6;
    let mut value = vec![f64::NEG_INFINITY; SETS];
    value[0] = 0.0;
    let mut alive = 0usize;
    for &step in steps {
        match step {
            Step::Free(page) => {
                let bit = 1 << page;
                for set in 0..SETS {
                    if set & bit != 0 {
                        value[set & !bit] = value[set & !bit].max(value[set]);
                        value[set] = f64::NEG_INFINITY;
                    }
                }
                alive &= !bit;
            }
            Step::Access(page, kind) => {
                let bit = 1usize << page;
                let born = if alive & bit == 0 { bit } else { 0 };
                alive |= bit;
                let mut next = vec![f64::NEG_INFINITY; SETS];
                for (to, best) in next.iter_mut().enumerate() {
                    if to & !alive != 0 || u64::from(to.count_ones()) > model.capacity_pages {
                        continue;
                    }
                    for (from, value) in value.iter().enumerate() {
                        let promoted = (to & !from & !born).count_ones();
                        let demoted = (from & !to).count_ones();
                        let moves = f64::from(promoted) * model.promotion_cost_ns
                            + f64::from(demoted) * model.demotion_cost_ns;
                        *best = best.max(value - moves);
                    }
                    if to & bit != 0 {
                        *best += saving(model, kind);
                    }
                }
                value = next;
            }
        }
    }
    value.into_iter().fold(0.0, f64::max)
}
