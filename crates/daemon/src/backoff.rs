//! Exponential back-off from work that is in vain.

use frostline_core::types::Nanos;

/// Shortest and longest time for which work that is in vain is put off.
const WAITS: [Nanos; 2] = [Nanos(1_000_000_000), Nanos(32_000_000_000)];
/// Work of which less than one part in so many succeeds is in vain.
const IN_VAIN: u64 = 16;

/// Puts off work that has turned out to be in vain, longer each time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    tried: u64,
    done: u64,
    wait: Nanos,
    until: Nanos,
}

impl Backoff {
    /// Whether it is time to try.
    pub fn allows(&self, now: Nanos) -> bool {
        now >= self.until
    }

    /// So many pages were tried, and so many of them done.
    pub fn note(&mut self, tried: u64, done: u64) {
        self.tried += tried;
        self.done += done;
    }

    /// Judges what was noted since the last time; whether it was worth the effort.
    pub fn conclude(&mut self, now: Nanos) -> bool {
        let (tried, done) = (core::mem::take(&mut self.tried), core::mem::take(&mut self.done));
        if done * IN_VAIN >= tried {
            self.wait = Nanos::ZERO;
            return true;
        }
        self.wait = Nanos(self.wait.0 * 2).clamp(WAITS[0], WAITS[1]);
        self.until = now.saturating_add(self.wait);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_vain_is_tried_less_and_less() {
        let mut backoff = Backoff::default();
        let (mut now, mut tries) = (0, 0);
        while now < 300 {
            now += 1;
            if backoff.allows(Nanos(now * 1_000_000_000)) {
                backoff.note(160, 9);
                assert!(!backoff.conclude(Nanos(now * 1_000_000_000)));
                tries += 1;
            }
        }
        assert!((10..20).contains(&tries), "{tries}");
        backoff.note(160, 10);
        assert!(backoff.conclude(Nanos(now)));
        backoff.note(160, 0);
        backoff.conclude(Nanos(0));
        assert!(backoff.allows(WAITS[0]), "the shortest wait again");
    }
}
