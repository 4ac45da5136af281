//! Streams: samples in the order of addresses, which say what is accessed next.

use crate::types::*;
use alloc::vec::Vec;

/// Streams that are followed at a time; the one that was sampled last longest ago is given up for a new one.
const FOLLOWED: usize = 16;
/// Pages within which a sample continues a stream.
const WINDOW: u32 = 256;
/// Steps forward, less two for each step back, after which a stream is believed.
const BELIEVED: i32 = 16;
/// Samples without one of its own after which a stream is not believed.
const SILENT: u64 = 1024;
/// Most pages ahead that a stream is believed to reach.
const AHEAD: u32 = 512;

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    at: u32,
    from: u32,
    trust: i32,
    last: u64,
}

impl Stream {
    fn is_believed(&self, now: u64) -> bool {
        self.trust >= BELIEVED && now - self.last < SILENT
    }
}

/// What a believed stream has just passed, and what it reaches next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sweep {
    /// Just passed: used still.
    pub behind: PageRun,
    /// About to be used.
    pub ahead: PageRun,
}

impl Sweep {
    /// Whether it uses some of these pages now.
    pub(super) fn uses(&self, run: PageRun) -> bool {
        let used = PageRun::between(self.behind.start.0, self.ahead.end());
        used.intersect(run).pages > 0
    }
}

/// Where memory is swept.
#[derive(Debug, Default)]
pub(super) struct Streams {
    streams: Vec<Stream>,
    sweeps: Vec<Sweep>,
    /// Samples in the order of streams.
    pub in_order: u64,
}

impl Streams {
    /// Takes in sample number `now`. True where it continues a believed stream forwards.
    pub(super) fn follow(&mut self, page: PageId, now: u64) -> bool {
        let gap = |stream: &Stream| page.0.abs_diff(stream.at);
        let near =
            self.streams.iter_mut().filter(|stream| gap(stream) <= WINDOW).min_by_key(|s| gap(s));
        let Some(stream) = near else {
            let new = Stream { at: page.0, from: page.0, trust: 0, last: now };
            if self.streams.len() < FOLLOWED {
                self.streams.push(new);
            } else if let Some(oldest) = self.streams.iter_mut().min_by_key(|stream| stream.last) {
                *oldest = new;
            }
            return false;
        };
        stream.last = now;
        if page.0 <= stream.at {
            stream.trust -= 2;
            return false;
        }
        stream.at = page.0;
        stream.trust = (stream.trust + 1).min(4 * BELIEVED);
        let in_order = stream.is_believed(now);
        self.in_order += u64::from(in_order);
        in_order
    }

    /// What believed streams use at sample number `now`. A stream reaches no further than it has come.
    pub(super) fn look(&mut self, now: u64) -> &[Sweep] {
        self.sweeps.clear();
        let believed = self.streams.iter().filter(|stream| stream.is_believed(now));
        self.sweeps.extend(believed.map(|stream| {
            let reach = AHEAD.min(stream.at - stream.from);
            Sweep {
                behind: PageRun::between(stream.at.saturating_sub(WINDOW / 2), stream.at),
                ahead: PageRun::between(stream.at, stream.at.saturating_add(reach)),
            }
        }));
        &self.sweeps
    }

    /// The same as of the last look.
    pub(super) fn sweeps(&self) -> &[Sweep] {
        &self.sweeps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_forward_are_believed_and_steps_back_are_not() {
        let mut streams = Streams::default();
        let ordered =
            (1..40).filter(|i| streams.follow(PageId(1000 + 20 * i), u64::from(*i))).count();
        assert_eq!(ordered, 39 - 16);
        let sweep = streams.look(40)[0];
        assert_eq!((sweep.ahead.start, sweep.ahead.pages), (PageId(1780), 512));
        assert!(
            sweep.uses(PageRun::single(PageId(1700))) && !sweep.uses(PageRun::single(PageId(1640)))
        );
        assert!(streams.look(40 + SILENT).is_empty());
        let mut streams = Streams::default();
        for i in 0..1000u32 {
            assert!(!streams.follow(PageId(1000 + i * 7919 % 256), u64::from(i)));
        }
        assert!(streams.look(1000).is_empty());
    }

    #[test]
    fn streams_side_by_side_are_told_apart() {
        let mut streams = Streams::default();
        for i in 0..400u32 {
            streams.follow(PageId(100_000 * (i % 8) + i), u64::from(i));
        }
        assert_eq!(streams.look(400).len(), 8);
    }
}
