//! P-blocks: what one allocation got, by address, and what is known of each (sections 4.1 and 4.2).

use crate::types::*;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A stretch of memory of which one page at a time is watched.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watch {
    /// Page whose access bit was cleared.
    pub page: Option<PageId>,
    /// Page whose access bit is being read.
    pub reading: Option<PageId>,
    /// An access was seen since the last decision.
    pub accessed: bool,
    /// It was heard since then whether a page was accessed, or there was none to ask about.
    pub heard: bool,
    /// A decision has waited for an answer.
    waited: bool,
}

impl Watch {
    /// A stretch of which an access was seen.
    pub(super) fn of_access() -> Self {
        Self { accessed: true, ..Self::default() }
    }

    /// Whether something is known that a decision can stand on. An answer that has not come by the second
    /// decision is not waited for: another page is asked about.
    pub(super) fn is_conclusive(&mut self) -> bool {
        let conclusive = self.accessed || self.heard;
        if !conclusive && core::mem::replace(&mut self.waited, true) {
            *self = Self::default();
        }
        conclusive
    }

    /// What was learned is used up.
    pub(super) fn forget(&mut self) {
        (self.accessed, self.heard, self.waited) = (false, false, false);
    }
}

/// A temporary block: a part of a block that may be demoted, judged by itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub run: PageRun,
    pub watch: Watch,
}

/// How far a block is on its way to the slower tier.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// Watched as a whole.
    Normal(Watch),
    /// Watched by parts.
    Phase1(Vec<Part>),
    /// Watched by parts, a share of whose pages fault.
    Phase2(Vec<Part>),
    /// In the slower tier as a whole.
    Demoted(Faults),
}

/// Faults of a demoted block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Faults {
    /// Since they were last reset: of canaries, or as many as would have been of them.
    pub counted: f64,
    /// Canaries of a full share for which each of its canaries stands.
    pub weight: f64,
    /// Canaries that have faulted since the last decision.
    pub canaries: u64,
    /// None of its canaries was out before that.
    pub blind: bool,
}

impl Default for Faults {
    fn default() -> Self {
        Self { counted: 0.0, weight: 1.0, canaries: 0, blind: false }
    }
}

/// A P-block.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub run: PageRun,
    pub state: State,
}

impl Block {
    /// A new block, of which nothing is known.
    pub(super) fn normal(run: PageRun) -> Self {
        Self { run, state: State::Normal(Watch::default()) }
    }

    pub(super) fn is_demoted(&self) -> bool {
        matches!(self.state, State::Demoted(_))
    }

    /// Everything of it that is watched, with its pages.
    pub(super) fn watched(&mut self) -> impl Iterator<Item = (PageRun, &mut Watch)> {
        let (whole, parts) = match &mut self.state {
            State::Normal(watch) => (Some((self.run, watch)), [].iter_mut()),
            State::Phase1(parts) | State::Phase2(parts) => (None, parts.iter_mut()),
            State::Demoted(_) => (None, [].iter_mut()),
        };
        whole.into_iter().chain(parts.map(|part| (part.run, &mut part.watch)))
    }

    /// The part of it that lies in a run.
    fn clip(&self, run: PageRun) -> Self {
        let clip = |parts: &[Part]| {
            let clipped = parts.iter().map(|part| Part { run: part.run.intersect(run), ..*part });
            clipped.filter(|part| part.run.pages > 0).collect()
        };
        let state = match &self.state {
            State::Phase1(parts) => State::Phase1(clip(parts)),
            State::Phase2(parts) => State::Phase2(clip(parts)),
            other => other.clone(),
        };
        Self { run: self.run.intersect(run), state }
    }

    /// The block at another address.
    fn shift(mut self, from: PageId, to: PageId) -> Self {
        let shift = |page: PageId| PageId(page.0 - from.0 + to.0);
        self.run.start = shift(self.run.start);
        if let State::Phase1(parts) | State::Phase2(parts) = &mut self.state {
            parts.iter_mut().for_each(|part| part.run.start = shift(part.run.start));
        }
        for (_, watch) in self.watched() {
            // Another page is chosen at the next sampling.
            (watch.page, watch.reading) = (None, None);
        }
        self
    }
}

/// All blocks; none overlaps another.
#[derive(Clone, Debug, Default)]
pub(super) struct Blocks {
    by_start: BTreeMap<PageId, Block>,
}

impl Blocks {
    /// Takes in an allocation, as blocks of at most so many pages.
    pub(super) fn allocate(&mut self, run: PageRun, most: u32) {
        self.take(run);
        for start in (run.start.0..run.end()).step_by(most as usize) {
            self.put(Block::normal(PageRun::between(
                start,
                run.end().min(start.saturating_add(most)),
            )));
        }
    }

    /// Puts a block where none is.
    pub(super) fn put(&mut self, block: Block) {
        self.by_start.insert(block.run.start, block);
    }

    /// The block of a page.
    pub(super) fn of(&mut self, page: PageId) -> Option<&mut Block> {
        let (_, block) = self.by_start.range_mut(..=page).next_back()?;
        block.run.contains(page).then_some(block)
    }

    /// Takes away what lies in a run; gives it. Blocks that reach out of it are cut.
    pub(super) fn take(&mut self, run: PageRun) -> Vec<Block> {
        let first = self.of(run.start).map_or(run.start, |block| block.run.start);
        let within = self.by_start.range(first..).take_while(|(start, _)| start.0 < run.end());
        let starts: Vec<PageId> = within.map(|(start, _)| *start).collect();
        let mut taken = Vec::new();
        for start in starts {
            let Some(block) = self.by_start.remove(&start) else { continue };
            let mut whole = true;
            for rest in block.run.without(run) {
                self.put(block.clip(rest));
                whole = false;
            }
            taken.push(if whole { block } else { block.clip(run) });
        }
        taken
    }

    /// Pages have another address.
    pub(super) fn remap(&mut self, from: PageRun, to: PageId) {
        let moved = self.take(from);
        self.take(PageRun { start: to, pages: from.pages });
        moved.into_iter().for_each(|block| self.put(block.shift(from.start, to)));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Block> {
        self.by_start.values()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Block> {
        self.by_start.values_mut()
    }

    /// Pages of demoted blocks.
    pub(super) fn demoted_pages(&self) -> u64 {
        self.iter().filter(|b| b.is_demoted()).map(|b| u64::from(b.run.pages)).sum()
    }

    pub(super) fn count(&self) -> usize {
        self.by_start.len()
    }

    /// Memory of the blocks, with their parts.
    pub(super) fn bytes(&self) -> Bytes {
        let parts = self.iter().map(|block| match &block.state {
            State::Phase1(parts) | State::Phase2(parts) => parts.capacity() * size_of::<Part>(),
            State::Normal(_) | State::Demoted(_) => 0,
        });
        let entry = size_of::<PageId>() + size_of::<Block>();
        Bytes((parts.sum::<usize>() + self.by_start.len() * entry) as u64)
    }
}
