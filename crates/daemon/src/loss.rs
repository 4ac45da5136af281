//! Loss: how much slower the targets run because part of their memory is slow, and because we watch and move it.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use frostline_core::types::Nanos;
use serde::{Deserialize, Serialize};

/// Seconds that the latest loss is of.
const LATEST: usize = 30;
/// Seconds summed up before their spread is looked at: what one second costs depends on the one before.
const BLOCK: u32 = 5;
/// Half width of an interval that holds the mean in 95 of 100 cases, in standard errors.
const WIDTH: f64 = 1.96;

/// Time that a refault takes where few or none were measured: from zram, with its fault (ns).
pub const REFAULT: f64 = 6000.0;
/// Time of a refault beside that of reading the page: the fault, and room that is freed in swap (ns).
pub(crate) const REFAULT_BESIDES: f64 = 1600.0;
/// Refaults from which on their measured mean is one.
const MEASURED: u64 = 1000;

/// Time of the targets' threads, as a system counts it, since the daemon began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// On processors; with what was lost there.
    pub busy: Nanos,
    /// Waits for a core.
    pub core_wait: Nanos,
    /// In refaults.
    pub swap_in: Nanos,
    /// Refaults that this is the time of; `None` where it is that of all.
    pub swap_ins: Option<u64>,
    /// On processors in the kernel: refaults from compressed memory are part of it.
    pub kernel: Nanos,
    /// Of all processors together, on whatever they ran.
    pub machine: Nanos,
    /// Time in which all processors that we may run on were busy, at most: that of the least busy one.
    pub crowded: Nanos,
    /// Runs of pages that were paged out: each has interrupted whoever ran.
    pub interruptions: u64,
}

impl Spent {
    /// Refaults since `before` whose time is known; `None` where that of all is.
    pub fn timed(&self, before: Self) -> Option<u64> {
        Some(self.swap_ins?.saturating_sub(before.swap_ins?))
    }

    /// What a refault takes in the mean, as far as that was measured (ns).
    pub(crate) fn refault(&self) -> f64 {
        let measured = self.swap_ins.filter(|refaults| *refaults >= MEASURED);
        measured
            .map_or(REFAULT, |refaults| self.swap_in.0 as f64 / refaults as f64 + REFAULT_BESIDES)
    }
}

/// Time that was lost, in nanoseconds of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lost {
    /// To pages that came back from swap.
    pub swap_ins: f64,
    /// To loads from slower nodes.
    pub slow_loads: f64,
    /// To faults by which accesses are seen.
    pub faults: f64,
    /// To our own processor time, and to being interrupted and looked at by us.
    pub ours: f64,
}

impl Lost {
    /// All of it.
    pub fn total(self) -> f64 {
        self.swap_ins + self.slow_loads + self.faults + self.ours
    }

    /// What the size of fast memory decides on.
    pub fn to_memory(self) -> f64 {
        self.total() - self.ours
    }

    /// Each part by a function of it and that of another one.
    fn with(self, other: Self, by: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            swap_ins: by(self.swap_ins, other.swap_ins),
            slow_loads: by(self.slow_loads, other.slow_loads),
            faults: by(self.faults, other.faults),
            ours: by(self.ours, other.ours),
        }
    }
}

/// A stretch of time: what the targets have used for themselves, and what was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stretch {
    /// Time of threads without what was lost (ns).
    pub useful: f64,
    /// The rest.
    pub lost: Lost,
}

impl Stretch {
    fn add(&mut self, other: Self) {
        self.useful += other.useful;
        self.lost = self.lost.with(other.lost, |a, b| a + b);
    }

    /// A part of what was lost for each unit of useful time. Where nothing was used, nothing was lost.
    pub fn share(&self, of: impl Fn(Lost) -> f64) -> f64 {
        if self.useful > 0.0 { of(self.lost) / self.useful } else { 0.0 }
    }
}

/// Slowdown with its parts, as shares of the time without any. The interval says how much it varies by chance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Loss {
    /// All of it: 0.02 for a program that takes 2 % longer.
    pub share: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// What it is made of.
    pub parts: Lost,
}

impl Loss {
    /// The same where what slow loads take is known within a factor: the interval holds that, too.
    pub(crate) fn within(self, factor: f64) -> Self {
        let slow = self.parts.slow_loads;
        let low = (self.low - slow * (1.0 - 1.0 / factor)).max(0.0);
        Self { low, high: self.high + slow * (factor - 1.0), ..self }
    }
}

/// Sums from which a share and its interval follow: a ratio of means over blocks.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    blocks: f64,
    all: Stretch,
    squares: [f64; 3],
}

impl Sums {
    fn add(&mut self, block: Stretch) {
        let (useful, lost) = (block.useful, block.lost.total());
        self.blocks += 1.0;
        self.all.add(block);
        for (sum, square) in
            self.squares.iter_mut().zip([lost * lost, lost * useful, useful * useful])
        {
            *sum += square;
        }
    }

    fn loss(&self) -> Loss {
        let share = self.all.share(Lost::total);
        let useful = self.all.useful.max(1.0);
        let parts = self.all.lost.with(Lost::default(), |part, _| part / useful);
        if self.blocks < 2.0 {
            return Loss { share, low: 0.0, high: 1.0_f64.max(share), parts };
        }
        let [lost, both, used] = self.squares;
        let deviations = (lost - 2.0 * share * both + share * share * used).max(0.0);
        let error = libm::sqrt(deviations * self.blocks / (self.blocks - 1.0)) / useful;
        Loss { share, low: (share - WIDTH * error).max(0.0), high: share + WIDTH * error, parts }
    }
}

/// Measures the loss second by second.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    latest: VecDeque<Stretch>,
    block: Stretch,
    in_block: u32,
    sums: Sums,
}

impl Meter {
    /// Takes in a second.
    pub fn add(&mut self, second: Stretch) {
        if self.latest.len() == LATEST {
            self.latest.pop_front();
        }
        self.latest.push_back(second);
        self.block.add(second);
        self.in_block += 1;
        if self.in_block == BLOCK {
            self.sums.add(core::mem::take(&mut self.block));
            self.in_block = 0;
        }
    }

    /// Loss since the start, but for the last seconds; `None` in the first ones.
    pub fn loss(&self) -> Option<Loss> {
        (self.sums.blocks > 0.0).then(|| self.sums.loss())
    }

    /// Loss of the last half minute.
    pub fn latest_loss(&self) -> Option<Loss> {
        let mut sums = Sums::default();
        let all: Vec<Stretch> = self.latest.iter().copied().collect();
        for block in all.rchunks_exact(BLOCK as usize) {
            let mut sum = Stretch::default();
            block.iter().for_each(|second| sum.add(*second));
            sums.add(sum);
        }
        (sums.blocks > 0.0).then(|| sums.loss())
    }

    /// How many of the latest seconds there are.
    pub fn seconds(&self) -> usize {
        self.latest.len()
    }

    /// The last `seconds`, or as many as there were.
    pub fn last(&self, seconds: usize) -> Stretch {
        let mut sum = Stretch::default();
        self.latest.iter().rev().take(seconds).for_each(|second| sum.add(*second));
        sum
    }
}
