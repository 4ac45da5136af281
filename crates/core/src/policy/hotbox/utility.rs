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
    /// Mean of the windows that made migration pause; `None` while there is migration.
    steady: Option<f64>,
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
            steady: None,
            windows: 0,
            pauses: 0,
            resumptions: 0,
        }
    }

    /// Whether migration pauses.
    pub(super) fn is_paused(&self) -> bool {
        self.steady.is_some()
    }

    /// Takes in accesses since the last call.
    pub(super) fn count(&mut self, now: Nanos, fast: u64, slow: u64) {
        self.fast += fast;
        self.all += fast + slow;
        if now.saturating_sub(self.began) < self.rule.window {
            return;
        }
        self.began = now;
        if self.all > 0 {
            self.close(self.fast as f64 / self.all as f64);
        }
        (self.fast, self.all) = (0, 0);
    }

    fn close(&mut self, share: f64) {
        self.windows += 1;
        if let Some(steady) = self.steady {
            if (share - steady).abs() > self.rule.deviation {
                self.steady = None;
                self.recent.clear();
                self.resumptions += 1;
            }
            return;
        }
        if self.recent.len() == self.rule.windows {
            self.recent.pop_front();
        }
        self.recent.push_back(share);
        let (least, most) =
            self.recent.iter().fold((f64::MAX, f64::MIN), |(a, b), s| (a.min(*s), b.max(*s)));
        if self.recent.len() == self.rule.windows && most - least <= self.rule.deviation {
            self.steady = Some(self.recent.iter().sum::<f64>() / self.recent.len() as f64);
            self.pauses += 1;
        }
    }

    pub(super) fn bytes(&self) -> Bytes {
        Bytes((self.recent.capacity() * size_of::<f64>()) as u64)
    }
}
