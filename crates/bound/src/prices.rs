//! Prices of a page's worth of fast memory over time, and the demand for it.

/// A price per page and tick, constant in each epoch.
#[derive(Clone, Debug)]
pub(crate) struct Prices {
    /// By epoch: price of a page from the start of time to the epoch's start, and price per tick
    /// in it. One more at the end, for the end of time.
    steps: Vec<(f64, f64)>,
    shift: u32,
    ticks: u32,
}

impl Prices {
    /// Prices per page and tick, by epoch; each at least 0.
    pub(crate) fn new(per_tick: &[f64], shift: u32, ticks: u32) -> Self {
        let mut steps = Vec::with_capacity(per_tick.len() + 1);
        let mut sum = 0.0;
        for (epoch, &price) in per_tick.iter().enumerate() {
            debug_assert!(price >= 0.0, "a price below 0 bounds nothing");
            steps.push((sum, price));
            sum += price * f64::from(epoch_len(epoch, shift, ticks));
        }
        steps.push((sum, 0.0));
        Self { steps, shift, ticks }
    }

    /// Price of a page from the start of time to `tick`, and price of the tick itself.
    #[inline]
    pub(crate) fn at(&self, tick: u32) -> (f64, f64) {
        let (before, slope) = self.steps[(tick >> self.shift) as usize];
        let into = tick & ((1 << self.shift) - 1);
        (before + slope * f64::from(into), slope)
    }

    /// Price of a page during `[start, end)`.
    pub(crate) fn between(&self, start: u32, end: u32) -> f64 {
        self.cumulative(end) - self.cumulative(start)
    }

    /// Price of a page over all of time.
    pub(crate) fn whole(&self) -> f64 {
        self.cumulative(self.ticks)
    }

    /// Price of a page from the start of time to `tick`.
    #[inline]
    pub(crate) fn cumulative(&self, tick: u32) -> f64 {
        if tick >= self.ticks { self.steps[self.steps.len() - 1].0 } else { self.at(tick).0 }
    }
}

/// Ticks in an epoch; the last one may be shorter.
pub(crate) fn epoch_len(epoch: usize, shift: u32, ticks: u32) -> u32 {
    let start = (epoch as u64) << shift;
    u64::from(ticks).saturating_sub(start).min(1 << shift) as u32
}

/// Fast memory asked for, in page ticks by epoch.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    /// Ticks of residencies that cover their epoch only in part.
    partial: Vec<i64>,
    /// Residencies that cover the epoch whole, as differences to the epoch before.
    whole: Vec<i64>,
    shift: u32,
}

impl Demand {
    pub(crate) fn new(epochs: usize, shift: u32) -> Self {
        Self { partial: vec![0; epochs + 1], whole: vec![0; epochs + 1], shift }
    }

    /// Asks for one page during `[start, end)`.
    #[inline]
    pub(crate) fn add(&mut self, start: u32, end: u32) {
        let (first, last) = ((start >> self.shift) as usize, (end >> self.shift) as usize);
        if first == last {
            self.partial[first] += i64::from(end - start);
        } else {
            self.partial[first] += (((first + 1) as i64) << self.shift) - i64::from(start);
            self.partial[last] += i64::from(end & ((1 << self.shift) - 1));
            self.whole[first + 1] += 1;
            self.whole[last] -= 1;
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.partial.iter_mut().zip(&other.partial) {
            *mine += theirs;
        }
        for (mine, theirs) in self.whole.iter_mut().zip(&other.whole) {
            *mine += theirs;
        }
    }

    /// Page ticks by epoch, of a trace that is `ticks` long.
    pub(crate) fn page_ticks(&self, ticks: u32) -> Vec<f64> {
        let mut whole = 0;
        (0..self.partial.len() - 1)
            .map(|epoch| {
                whole += self.whole[epoch];
                let len = i64::from(epoch_len(epoch, self.shift, ticks));
                (self.partial[epoch] + whole * len) as f64
            })
            .collect()
    }
}
