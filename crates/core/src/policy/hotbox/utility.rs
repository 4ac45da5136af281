//! Utility of migration: the share of accesses that fast memory serves, window
//! by window (section 5.3).

use crate::types::*;
use alloc::collections::VecDeque;

/// What makes migration pause, and go on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    /// Length of a window.
    pub(super) window: Nanos,
    /// Windows that have to be alike.
    pub(super) windows: usize,
    /// Shares that differ by no more are alike.
    pub(super) deviation: f64,
    /// Passes over slow memory after which what is hot can have moved; before, nothing is compared.
    pub(super) passes: u64,
}

/// Whether there is migration.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Migrating,
    /// Paused; the share without migration is not known yet. It differs from the one that made it pause,
    /// since moves have ended, not because the program does something else.
    Settling,
    /// Paused, with the share of the first window that had no migration.
    Steady(f64),
}

/// Watches the share of accesses that fast memory serves.
#[derive(Clone, Debug)]
pub(super) struct Utility {
    rule: Rule,
    began: Nanos,
    fast: u64,
    all: u64,
    /// Shares of the last windows, the oldest first; at most as many as have to be alike.
    recent: VecDeque<f64>,
    state: State,
    pub(super) windows: u64,
    pub(super) pauses: u64,
    pub(super) resumptions: u64,
}

impl Utility {
    pub(super) fn new(rule: Rule) -> Self {
        Self {
            rule,
            began: Nanos::ZERO,
            fast: 0,
            all: 0,
            recent: VecDeque::new(),
            state: State::Migrating,
            windows: 0,
            pauses: 0,
            resumptions: 0,
        }
    }

    /// Whether migration pauses.
    pub(super) fn is_paused(&self) -> bool {
        self.state != State::Migrating
    }

    /// Takes in accesses of fast and slow memory since the last call, after so many passes over slow memory.
    pub(super) fn count(&mut self, now: Nanos, (fast, slow): (u64, u64), passes: u64) {
        self.fast += fast;
        self.all += fast + slow;
        if now.saturating_sub(self.began) < self.rule.window {
            return;
        }
        self.began = now;
        if self.all > 0 {
            self.close(self.fast as f64 / self.all as f64, passes);
        }
        (self.fast, self.all) = (0, 0);
    }

    fn close(&mut self, share: f64, passes: u64) {
        self.windows += 1;
        match self.state {
            State::Migrating if passes >= self.rule.passes => self.compare(share),
            State::Migrating => {}
            State::Settling => self.state = State::Steady(share),
            State::Steady(steady) if (share - steady).abs() > self.rule.deviation => {
                self.state = State::Migrating;
                self.recent.clear();
                self.resumptions += 1;
            }
            State::Steady(_) => {}
        }
    }

    /// Pauses where the last windows are alike.
    fn compare(&mut self, share: f64) {
        if self.recent.len() == self.rule.windows {
            self.recent.pop_front();
        }
        self.recent.push_back(share);
        let (least, most) =
            self.recent.iter().fold((f64::MAX, f64::MIN), |(a, b), s| (a.min(*s), b.max(*s)));
        if self.recent.len() == self.rule.windows && most - least <= self.rule.deviation {
            self.state = State::Settling;
            self.pauses += 1;
        }
    }

    pub(super) fn bytes(&self) -> Bytes {
        Bytes((self.recent.capacity() * size_of::<f64>()) as u64)
    }
}
