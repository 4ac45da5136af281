//! Background work of a daemon: one thread that keeps to a share of a core.

use super::background::Work;
use std::collections::VecDeque;

/// Longest time for which a share of a core is saved up.
const SAVED_NS: f64 = 0.5e9;

/// A thread for all lanes. It does one job after the other, and begins none before all that it has
/// used so far is paid for.
#[derive(Debug)]
pub(super) struct Limited {
    share: f64,
    paid_at: f64,
    busy_until: f64,
    is_busy: bool,
    first: VecDeque<Work>,
    making_room: VecDeque<Work>,
}

impl Limited {
    /// A share of a core, above 0.
    pub(super) fn new(share: f64) -> Self {
        Self {
            share,
            paid_at: 0.0,
            busy_until: 0.0,
            is_busy: false,
            first: VecDeque::new(),
            making_room: VecDeque::new(),
        }
    }

    /// Another share from now on.
    pub(super) fn set_share(&mut self, share: f64) {
        self.share = share;
    }

    /// Whether it has nothing to do.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_busy
    }

    /// Uses processor time at once.
    pub(super) fn spend(&mut self, now_ns: f64, ns: f64) {
        self.paid_at = self.paid_at.max(now_ns - SAVED_NS) + ns / self.share;
    }

    /// Takes a job over. What makes room waits until all else is done: room for that has been
    /// reserved already.
    pub(super) fn add(&mut self, work: Work, makes_room: bool) {
        if makes_room { &mut self.making_room } else { &mut self.first }.push_back(work);
    }

    /// Begins the next job where none is under way; when it ends.
    pub(super) fn begin_next(&mut self, now_ns: f64) -> Option<(f64, Work)> {
        if self.is_busy {
            return None;
        }
        let work = self.first.pop_front().or_else(|| self.making_room.pop_front())?;
        let start_ns = now_ns.max(self.busy_until).max(self.paid_at);
        self.spend(start_ns, work.ns);
        self.busy_until = start_ns + work.ns;
        self.is_busy = true;
        Some((self.busy_until, work))
    }

    /// The job under way has ended; when.
    pub(super) fn end(&mut self) -> f64 {
        self.is_busy = false;
        self.busy_until
    }
}
