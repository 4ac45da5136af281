//! A region that is judged by some of its pages.

use crate::event::AccessBits;
use crate::rng::Rng;
use crate::types::*;
use alloc::vec::Vec;

/// How far the judgement has come.
#[derive(Clone, Debug, PartialEq)]
enum State {
    /// Access bits have been cleared; answers are about what was before.
    Fresh,
    /// They are being read: pages accessed so far, and pages that are still to be answered for.
    Reading { accessed: Vec<PageId>, unread: u32 },
    /// Some of the accessed pages are armed, in order, and have faulted so often.
    Counting { accessed: u32, armed: Vec<PageId>, faults: u32 },
}

/// One region of a sample.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    region: Region,
    was_huge: bool,
    state: State,
}

impl Sample {
    /// Drawn; `was_huge` where a folio is split for it.
    pub(super) fn new(region: Region, was_huge: bool) -> Self {
        Self { region, was_huge, state: State::Fresh }
    }

    pub(super) fn region(&self) -> Region {
        self.region
    }

    pub(super) fn was_huge(&self) -> bool {
        self.was_huge
    }

    /// From here on, answers count.
    pub(super) fn begin_reading(&mut self) {
        self.state = State::Reading { accessed: Vec::new(), unread: HUGE_PAGES };
    }

    /// Takes in what was read.
    pub(super) fn read(&mut self, bits: &AccessBits) {
        if let State::Reading { accessed, unread } = &mut self.state {
            accessed.extend(bits.units().filter(|(_, yes)| *yes).map(|(page, _)| page));
            *unread = unread.saturating_sub(bits.run.pages);
        }
    }

    /// Once everything is read, or nothing more shall be: the pages to arm, at most so many, drawn from
    /// those accessed.
    pub(super) fn poison(&mut self, late: bool, most: usize, rng: &mut Rng) -> Vec<PageId> {
        let State::Reading { accessed, unread } = &mut self.state else { return Vec::new() };
        if *unread > 0 && !late {
            return Vec::new();
        }
        let mut armed = core::mem::take(accessed);
        let accessed = armed.len() as u32;
        rng.shuffle(&mut armed);
        armed.truncate(most);
        armed.sort_unstable();
        self.state = State::Counting { accessed, armed: armed.clone(), faults: 0 };
        armed
    }

    /// The pages that are armed.
    pub(super) fn armed(&self) -> &[PageId] {
        match &self.state {
            State::Counting { armed, .. } => armed,
            _ => &[],
        }
    }

    /// Counts the fault of a page; false where it is none of the armed.
    pub(super) fn fault(&mut self, page: PageId) -> bool {
        let State::Counting { armed, faults, .. } = &mut self.state else { return false };
        let ours = armed.binary_search(&page).is_ok();
        *faults += u32::from(ours);
        ours
    }

    /// Accesses to all of its pages while faults were counted, as these tell; `None` where it was not
    /// read in time.
    pub(super) fn accesses(&self) -> Option<f64> {
        match &self.state {
            State::Counting { accessed, armed, faults } => {
                Some(f64::from(*faults) * f64::from(*accessed) / armed.len().max(1) as f64)
            }
            _ => None,
        }
    }

    pub(super) fn metadata_bytes(&self) -> usize {
        let pages = match &self.state {
            State::Fresh => 0,
            State::Reading { accessed, .. } => accessed.capacity(),
            State::Counting { armed, .. } => armed.capacity(),
        };
        size_of::<Self>() + pages * size_of::<PageId>()
    }
}

/// The sample of a region; they are in order.
pub(super) fn of(samples: &mut [Sample], region: Region) -> Option<&mut Sample> {
    let at = samples.binary_search_by_key(&region, |sample| sample.region).ok()?;
    samples.get_mut(at)
}
