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
    /// Pages that they have come to, apart from all else: each sample is compared with all of them.
    at: Vec<u32>,
    streams: Vec<Stream>,
    /// Numbers of these, the one that was sampled last first: a search for the oldest takes 8 ns of each sample.
    order: Vec<u8>,
    sweeps: Vec<Sweep>,
    /// Samples in the order of streams.
    pub in_order: u64,
}

impl Streams {
    /// Takes in sample number `now`. True where it continues a believed stream forwards.
    pub(super) fn follow(&mut self, page: PageId, now: u64) -> bool {
        let gap = |at: &u32| page.0.abs_diff(*at);
        // Most samples continue none. That is found without a branch for each.
        if !self.at.iter().fold(false, |any, at| any | (gap(at) <= WINDOW)) {
            self.begin(page, now);
            return false;
        }
        let near = (0..self.at.len()).min_by_key(|number| gap(&self.at[*number])).unwrap_or(0);
        self.touch(near);
        let (at, stream) = (&mut self.at[near], &mut self.streams[near]);
        stream.last = now;
        if page.0 <= *at {
            stream.trust -= 2;
            return false;
        }
        *at = page.0;
        stream.trust = (stream.trust + 1).min(4 * BELIEVED);
        let in_order = stream.is_believed(now);
        self.in_order += u64::from(in_order);
        in_order
    }

    /// Begins a stream, in place of the one that was sampled longest ago where there are enough.
    fn begin(&mut self, page: PageId, now: u64) {
        let new = Stream { from: page.0, trust: 0, last: now };
        let number = self.streams.len();
        if number < FOLLOWED {
            self.at.push(page.0);
            self.streams.push(new);
            self.order.insert(0, number as u8);
            return;
        }
        self.order.rotate_right(1);
        let oldest = usize::from(self.order[0]);
        (self.at[oldest], self.streams[oldest]) = (page.0, new);
    }

    /// Notes that a stream was sampled last.
    fn touch(&mut self, number: usize) {
        let place = self.order.iter().position(|other| usize::from(*other) == number);
        if let Some(place) = place {
            self.order[..=place].rotate_right(1);
        }
    }

    /// What believed streams use at sample number `now`. A stream reaches no further than it has come.
    pub(super) fn look(&mut self, now: u64) -> &[Sweep] {
        self.sweeps.clear();
        let all = self.at.iter().zip(&self.streams);
        let believed = all.filter(|(_, stream)| stream.is_believed(now));
        self.sweeps.extend(believed.map(|(&at, stream)| {
            let reach = AHEAD.min(at - stream.from);
            Sweep {
                behind: PageRun::between(at.saturating_sub(WINDOW / 2), at),
                ahead: PageRun::between(at, at.saturating_add(reach)),
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
    use crate::rng::Rng;

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

    /// The same by lists that are searched: where each stream is, its trust and its last sample.
    #[derive(Default)]
    struct Searched(Vec<(u32, i32, u64)>);

    impl Searched {
        fn follow(&mut self, page: u32, now: u64) -> bool {
            let near = self.0.iter_mut().filter(|(at, ..)| page.abs_diff(*at) <= WINDOW);
            let Some(stream) = near.min_by_key(|(at, ..)| page.abs_diff(*at)) else {
                let is_full = self.0.len() == FOLLOWED;
                match self.0.iter_mut().min_by_key(|(.., last)| *last) {
                    Some(oldest) if is_full => *oldest = (page, 0, now),
                    _ => self.0.push((page, 0, now)),
                }
                return false;
            };
            stream.2 = now;
            if page <= stream.0 {
                stream.1 -= 2;
                return false;
            }
            (stream.0, stream.1) = (page, (stream.1 + 1).min(4 * BELIEVED));
            stream.1 >= BELIEVED
        }
    }

    #[test]
    fn as_many_streams_as_there_is_room_for_and_some_noise_are_followed_as_by_searching() {
        let mut rng = Rng::new(11);
        let (mut streams, mut searched) = (Streams::default(), Searched::default());
        let mut at = [0u32; 15];
        for sample in 1..100_000 {
            let page = match rng.below(100) as usize {
                drawn @ ..95 => {
                    let stream = drawn % at.len();
                    at[stream] += 1 + rng.below(30) as u32;
                    1_000_000 * stream as u32 + at[stream] % 700_000
                }
                _ => rng.below(1 << 22) as u32,
            };
            assert_eq!(
                streams.follow(PageId(page), sample),
                searched.follow(page, sample),
                "{sample}"
            );
        }
        assert!(streams.in_order > 10_000, "{}", streams.in_order);
    }
}
