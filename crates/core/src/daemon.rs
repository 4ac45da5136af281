//! When a daemon that manages memory works, and when it waits: for the live driver, and for the
//! simulator that stands for it.

use crate::types::Nanos;

/// Longest time for which unused allowance is saved up.
const SAVED: Nanos = Nanos(500_000_000);

/// Allows processor time at a share of one core. What has been used beyond the allowance is owed.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    share: f64,
    allowance_ns: f64,
    at: Option<Nanos>,
    /// Processor time that has been charged, or belongs to somebody else.
    cpu: Nanos,
}

impl Pacer {
    /// `share` of one core, above 0, for a thread that has used `cpu` so far.
    pub fn new(share: f64, cpu: Nanos) -> Self {
        Self { share, allowance_ns: 0.0, at: None, cpu }
    }

    /// Another share from now on.
    pub fn set_share(&mut self, share: f64) {
        self.share = share;
    }

    /// Time has come to `now`.
    pub fn refill(&mut self, now: Nanos) {
        let passed = self.at.map_or(0, |at| now.saturating_sub(at).0);
        self.at = Some(now);
        let most = SAVED.0 as f64 * self.share;
        self.allowance_ns = (self.allowance_ns + passed as f64 * self.share).min(most);
    }

    /// Whether work may begin.
    pub fn allows(&self) -> bool {
        self.allowance_ns > 0.0
    }

    /// Charges what the thread has used since the last call, its processor time being `cpu` now.
    pub fn charge(&mut self, cpu: Nanos) {
        self.allowance_ns -= cpu.saturating_sub(self.cpu).0 as f64;
        self.cpu = cpu;
    }

    /// What the thread has used since the last call is charged to somebody else.
    pub fn skip(&mut self, cpu: Nanos) {
        self.cpu = cpu;
    }
}

/// Shortest and longest time between rounds that find nothing.
const RESTS: [Nanos; 2] = [Nanos(1_000_000_000), Nanos(8_000_000_000)];
/// A round finds nothing where less than one page in so many was not where it was known to be.
const FEW: u64 = 1024;

/// When to look over everything again: at once while that finds something new, else less and less
/// often.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rounds {
    pages: u64,
    found: u64,
    rest: Nanos,
    due: Nanos,
}

impl Rounds {
    /// Whether a round goes on, or is to begin.
    pub fn allows(&self, now: Nanos) -> bool {
        now >= self.due
    }

    /// Of `pages` that were looked at, so many were `found` to be elsewhere.
    pub fn note(&mut self, pages: u64, found: u64) {
        self.pages += pages;
        self.found += found;
    }

    /// The round is over.
    pub fn end(&mut self, now: Nanos) {
        let (pages, found) = (core::mem::take(&mut self.pages), core::mem::take(&mut self.found));
        self.rest = match found * FEW < pages || found == 0 {
            true => Nanos(self.rest.0 * 2).clamp(RESTS[0], RESTS[1]),
            false => Nanos::ZERO,
        };
        self.due = now.saturating_add(self.rest);
    }

    /// Something has changed: the next round begins at once.
    pub fn wake(&mut self) {
        (self.rest, self.due) = (Nanos::ZERO, Nanos::ZERO);
    }
}

/// Shortest and longest time for which work that is in vain is put off.
const WAITS: [Nanos; 2] = [Nanos(1_000_000_000), Nanos(32_000_000_000)];
/// Work of which less than one part in so many succeeds is in vain.
const IN_VAIN: u64 = 16;

/// Puts off work that has turned out to be in vain, longer each time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Patience {
    tried: u64,
    done: u64,
    wait: Nanos,
    until: Nanos,
}

impl Patience {
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

/// How long a policy is given to make room before that is done for it.
const GRACE: Nanos = Nanos(600_000_000);
/// The same while memory grows: what comes next finds no room in fast memory meanwhile, and is more
/// likely to be used than what has been there for longest.
const GROWING_GRACE: Nanos = Nanos(100_000_000);
/// Memory has grown where it is larger than within the last [`GRACE`] by one part in so many.
const GROWN_PART: u64 = 128;

/// Whether memory grows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Growth {
    resident: u64,
    until: Nanos,
}

impl Growth {
    /// So many pages are there now; how long the policy is given.
    pub fn grace(&mut self, now: Nanos, resident: u64) -> Nanos {
        if resident > self.resident + self.resident / GROWN_PART {
            self.until = now.saturating_add(GRACE);
            self.resident = resident;
        }
        self.resident = self.resident.min(resident);
        if now < self.until { GROWING_GRACE } else { GRACE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_kept_over_time() {
        let mut pacer = Pacer::new(0.03, Nanos(0));
        pacer.refill(Nanos(0));
        assert!(!pacer.allows());
        let (mut used, step) = (0, Nanos(400_000));
        for ms in 1..=10_000u64 {
            pacer.refill(Nanos(ms * 1_000_000));
            while pacer.allows() {
                used += step.0;
                pacer.charge(Nanos(used));
            }
        }
        let share = used as f64 / 10e9;
        assert!((0.0299..=0.0302).contains(&share), "{share}");
    }

    #[test]
    fn rounds_that_find_nothing_come_less_often() {
        let second = |n: u64| Nanos(n * 1_000_000_000);
        let mut rounds = Rounds::default();
        assert!(rounds.allows(second(0)));
        rounds.note(100_000, 50);
        rounds.note(100_000, 150);
        rounds.end(second(0));
        assert!(rounds.allows(second(0)), "one in a thousand was elsewhere");
        let mut now = second(0);
        for rest in [1, 2, 4, 8, 8] {
            rounds.note(100_000, 90);
            rounds.end(now);
            assert!(!rounds.allows(Nanos(now.0 + second(rest).0 - 1)));
            now = now.saturating_add(second(rest));
            assert!(rounds.allows(now));
        }
        rounds.end(now);
        rounds.wake();
        assert!(rounds.allows(now));
        rounds.end(now);
        assert!(rounds.allows(now.saturating_add(second(1))), "begins anew");
    }

    #[test]
    fn idle_time_is_not_hoarded() {
        let mut pacer = Pacer::new(0.1, Nanos(0));
        pacer.refill(Nanos(0));
        pacer.refill(Nanos(3_600_000_000_000));
        pacer.charge(Nanos(60_000_000));
        assert!(!pacer.allows(), "half a second's worth at most");
    }

    #[test]
    fn what_is_in_vain_is_tried_less_and_less() {
        let mut patience = Patience::default();
        let (mut now, mut tries) = (0, 0);
        while now < 300 {
            now += 1;
            if patience.allows(Nanos(now * 1_000_000_000)) {
                patience.note(160, 9);
                assert!(!patience.conclude(Nanos(now * 1_000_000_000)));
                tries += 1;
            }
        }
        assert!((10..20).contains(&tries), "{tries}");
        patience.note(160, 10);
        assert!(patience.conclude(Nanos(now)));
        patience.note(160, 0);
        patience.conclude(Nanos(0));
        assert!(patience.allows(WAITS[0]), "the shortest wait again");
    }

    #[test]
    fn one_page_in_a_thousand_is_enough_to_go_on() {
        let mut rounds = Rounds::default();
        let now = Nanos(7_000_000_000);
        let mut rests = [0; 7];
        for (found, rest) in [0, 90, 0, 0, 0, 150, 0].into_iter().zip(&mut rests) {
            rounds.note(100_000, found);
            rounds.end(now);
            *rest = rounds.due.saturating_sub(now).0 / 1_000_000_000;
        }
        assert_eq!(rests, [1, 2, 4, 8, 8, 0, 1]);
    }

    #[test]
    fn the_policy_has_less_time_while_memory_grows() {
        let mut growth = Growth::default();
        let ms = |ms: u64| Nanos(ms * 1_000_000);
        assert_eq!(growth.grace(ms(0), 12_800), GROWING_GRACE);
        assert_eq!(growth.grace(ms(599), 12_900), GROWING_GRACE);
        assert_eq!(growth.grace(ms(600), 12_900), GRACE, "not by a 128th");
        assert_eq!(growth.grace(ms(700), 12_901), GROWING_GRACE, "little by little");
        assert_eq!(growth.grace(ms(1200), 10_000), GROWING_GRACE);
        assert_eq!(growth.grace(ms(1300), 10_000), GRACE);
        assert_eq!(growth.grace(ms(1400), 10_100), GROWING_GRACE, "what was lost comes again");
    }
}
