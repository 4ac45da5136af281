//! Search for prices at which the bound is low.

use crate::matrix::EpochMatrix;
use crate::model::{BoundError, BoundModel};
use crate::plan::Plan;
use crate::prices::{Demand, Prices, epoch_len};
use crate::repair;
use crate::walk::{Terms, best};
use rayon::prelude::*;

/// Sums over pages are made in so many parts, always the same ones.
const PARTS: u64 = 64;
/// Relative allowance for rounding in sums of up to 10^9 terms; the bound is raised by it.
const ROUNDING: f64 = 1e-9;

/// Steps without improvement before steps become shorter.
const TIMEOUT: u32 = 5;
/// Iterations from one feasible plan to the next: a plan takes as long as several iterations.
const PLAN_EVERY: u32 = 16;

/// Prices are near enough for a plan once the mismatch of supply and demand is below this part of
/// the gap aimed at. Mismatch over-states what repair costs, since pages at the margin hardly
/// differ.
const SETTLED: f64 = 2.0;

/// How long to search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SolveOptions {
    /// Stop as soon as the gap is not above this share of the bound. 0 searches on to the last
    /// iteration.
    pub target_gap: f64,
    /// Passes over the trace at most; each gives a valid bound.
    pub max_iterations: u32,
    /// Whether to hand back the feasible plan.
    pub keep_plan: bool,
}

impl Default for SolveOptions {
    /// Gap 0.2 %, 60 iterations, no plan.
    fn default() -> Self {
        Self { target_gap: 0.002, max_iterations: 60, keep_plan: false }
    }
}

/// What fast memory can save at most, and what a plan is known to save.
#[derive(Clone, Debug)]
pub struct Bound {
    /// No placement saves more, net of its migrations, in nanoseconds.
    pub saving_upper_ns: f64,
    /// What the best plan found saves, net of its migrations, in nanoseconds.
    pub saving_feasible_ns: f64,
    /// `(upper - feasible) / upper`; 0 where nothing can be saved.
    pub gap: f64,
    /// What fast memory without limit would save, in nanoseconds.
    pub all_fast_saving_ns: f64,
    /// Passes over the trace.
    pub iterations: u32,
    /// Price of a page's worth of fast memory for a whole epoch, by epoch, in nanoseconds: what
    /// one page more would save.
    pub epoch_prices_ns: Vec<f64>,
    /// The plan, where asked for.
    pub plan: Option<Plan>,
}

impl Bound {
    /// Share of the bound that a saving reaches; `None` where nothing can be saved.
    pub fn share(&self, saving_ns: f64) -> Option<f64> {
        (self.saving_upper_ns > 0.0).then(|| saving_ns / self.saving_upper_ns)
    }
}

/// Bounds what fast memory can save on a trace.
///
/// # Errors
/// [`BoundError::Model`] where a number of the model makes no sense.
pub fn solve(
    matrix: &EpochMatrix,
    model: &BoundModel,
    options: &SolveOptions,
) -> Result<Bound, BoundError> {
    model.validate()?;
    let mut search = Search::new(matrix, model, options);
    if model.capacity_pages > 0 && matrix.records() > 0 {
        search.run();
    }
    Ok(search.finish())
}

/// The bound at some prices.
struct Evaluation {
    prices: Vec<f64>,
    bound_ns: f64,
    /// Page ticks asked for, by epoch.
    demand: Vec<f64>,
}

struct Search<'a> {
    matrix: &'a EpochMatrix,
    model: &'a BoundModel,
    options: &'a SolveOptions,
    /// Page ticks that there are, by epoch.
    supply: Vec<f64>,
    best: Option<Evaluation>,
    plan: Plan,
    plan_ns: f64,
    iterations: u32,
}

impl<'a> Search<'a> {
    fn new(matrix: &'a EpochMatrix, model: &'a BoundModel, options: &'a SolveOptions) -> Self {
        let capacity = model.capacity_pages as f64;
        let len = |epoch| epoch_len(epoch, matrix.epoch_shift(), matrix.ticks());
        Self {
            matrix,
            model,
            options,
            supply: (0..matrix.epochs() as usize).map(|e| capacity * f64::from(len(e))).collect(),
            best: None,
            plan: Plan::default(),
            plan_ns: 0.0,
            iterations: 0,
        }
    }

    fn run(&mut self) {
        let epochs = self.supply.len();
        if self.model.capacity_pages >= self.matrix.peak_resident_pages() {
            self.evaluate(vec![0.0; epochs]);
            return self.plan(&[1.0]);
        }
        self.evaluate(vec![self.first_price(); epochs]);
        self.scale_levels();
        self.plan(&[1.0, 0.97]);
        self.descend();
    }

    fn finish(self) -> Bound {
        let (upper, prices) = match self.best {
            Some(best) => (best.bound_ns, best.prices),
            None => (0.0, vec![0.0; self.supply.len()]),
        };
        let upper = (upper * (1.0 + ROUNDING)).max(self.plan_ns);
        let shift = self.matrix.epoch_shift();
        let ticks = self.matrix.ticks();
        Bound {
            saving_upper_ns: upper,
            saving_feasible_ns: self.plan_ns,
            gap: if upper > 0.0 { (upper - self.plan_ns) / upper } else { 0.0 },
            all_fast_saving_ns: self.matrix.all_fast_saving_ns(self.model),
            iterations: self.iterations,
            epoch_prices_ns: prices
                .iter()
                .enumerate()
                .map(|(epoch, price)| price * f64::from(epoch_len(epoch, shift, ticks)))
                .collect(),
            plan: self.options.keep_plan.then_some(self.plan),
        }
    }

    fn terms<'p>(&self, prices: &'p Prices) -> Terms<'p> {
        Terms {
            prices,
            savings: self.model.savings(self.matrix.thinning()),
            promotion_cost_ns: self.model.promotion_cost_ns,
            demotion_cost_ns: self.model.demotion_cost_ns,
            access_ticks: self.matrix.access_ticks(),
            ticks: self.matrix.ticks(),
        }
    }

    fn curve(&self, per_tick: &[f64]) -> Prices {
        Prices::new(per_tick, self.matrix.epoch_shift(), self.matrix.ticks())
    }

    /// What the last page that fits saves per tick, if placement never changed.
    fn first_price(&self) -> f64 {
        let mut totals = self.matrix.page_totals(self.model);
        let rank = (self.model.capacity_pages as usize).min(totals.len() - 1);
        let (_, &mut threshold, _) = totals.select_nth_unstable_by(rank, |a, b| b.total_cmp(a));
        let ticks = f64::from(self.matrix.ticks());
        let mean = self.matrix.all_fast_saving_ns(self.model) / self.matrix.touched_pages() as f64;
        threshold.max(mean * 1e-3).max(f64::MIN_POSITIVE) / ticks
    }

    /// The bound at `prices`; remembered where it is the lowest so far.
    fn evaluate(&mut self, prices: Vec<f64>) -> Evaluation {
        let curve = self.curve(&prices);
        let terms = self.terms(&curve);
        let (epochs, shift) = (prices.len(), self.matrix.epoch_shift());
        let parts: Vec<(f64, Demand)> = self
            .matrix
            .page_ranges(PARTS)
            .into_par_iter()
            .map(|pages| {
                let mut demand = Demand::new(epochs, shift);
                let value = pages
                    .map(|page| best(self.matrix.page(page), &terms, |s, e| demand.add(s, e)))
                    .sum();
                (value, demand)
            })
            .collect();
        let mut demand = Demand::new(epochs, shift);
        let mut bound_ns = curve.whole() * self.model.capacity_pages as f64;
        for (value, part) in &parts {
            bound_ns += value;
            demand.merge(part);
        }
        self.iterations += 1;
        let demand = demand.page_ticks(self.matrix.ticks());
        if self.best.as_ref().is_none_or(|best| bound_ns < best.bound_ns) {
            self.best =
                Some(Evaluation { prices: prices.clone(), bound_ns, demand: demand.clone() });
        }
        Evaluation { prices, bound_ns, demand }
    }

    /// Makes feasible plans from the best prices, lowered by each of the factors: at lower prices
    /// pages ask for more than there is, and the best of them are chosen.
    fn plan(&mut self, factors: &[f64]) {
        let Some(best) = &self.best else { return };
        let prices = best.prices.clone();
        for factor in factors {
            let lowered: Vec<f64> = prices.iter().map(|price| price * factor).collect();
            let curve = self.curve(&lowered);
            let terms = self.terms(&curve);
            let plan = repair::feasible(self.matrix, &terms, self.model.capacity_pages);
            let value_ns = plan.check(self.matrix, self.model);
            debug_assert!(value_ns.is_ok(), "the sweep made an impossible plan: {value_ns:?}");
            if let Ok(value_ns) = value_ns
                && value_ns > self.plan_ns
            {
                self.plan = plan;
                self.plan_ns = value_ns;
            }
        }
    }

    fn gap(&self) -> f64 {
        let upper = self.best.as_ref().map_or(0.0, |best| best.bound_ns);
        if upper > 0.0 { (upper - self.plan_ns) / upper } else { 0.0 }
    }

    fn done(&self) -> bool {
        self.iterations >= self.options.max_iterations
    }

    /// Multiplies prices by a power of demand over supply, first for all of time together, then
    /// for shorter and shorter stretches. Where demand is about inversely proportional to price,
    /// as for popularity by Zipf's law, the power 1 is Newton's step.
    fn scale_levels(&mut self) {
        let epochs = self.supply.len();
        let mut stretch = epochs.next_power_of_two();
        loop {
            let rounds = if stretch == 1 { 12 } else { 4 };
            self.scale(stretch, rounds);
            let best = self.best.as_ref();
            let settled =
                best.is_some_and(|b| self.mismatch(b) < self.options.target_gap * SETTLED);
            if stretch == 1 || settled || self.done() {
                return;
            }
            stretch = (stretch / 8).max(1);
        }
    }

    fn scale(&mut self, stretch: usize, rounds: u32) {
        let Some(best) = &self.best else { return };
        let mut prices = best.prices.clone();
        let mut demand = best.demand.clone();
        let stretches = prices.len().div_ceil(stretch);
        let mut powers = vec![1.0f64; stretches];
        let mut signs = vec![0.0f64; stretches];
        for _ in 0..rounds {
            if self.done() {
                return;
            }
            for s in 0..stretches {
                let range = s * stretch..((s + 1) * stretch).min(prices.len());
                let asked: f64 = demand[range.clone()].iter().sum();
                let there: f64 = self.supply[range.clone()].iter().sum();
                let excess = (asked / there).max(1e-3).ln().clamp(-1.4, 1.4);
                powers[s] = if excess * signs[s] < 0.0 {
                    powers[s] * 0.5
                } else {
                    (powers[s] * 1.2).min(2.0)
                };
                signs[s] = excess.signum();
                let factor = (powers[s] * excess).exp();
                prices[range].iter_mut().for_each(|price| *price *= factor);
            }
            let evaluation = self.evaluate(prices);
            let settled = self.mismatch(&evaluation) < self.options.target_gap * SETTLED;
            (prices, demand) = (evaluation.prices, evaluation.demand);
            if settled {
                return;
            }
        }
    }

    /// Rent of what is asked for and not there, or there and not asked for, as a share of the
    /// bound: about how far the pages' wishes are from a plan.
    fn mismatch(&self, at: &Evaluation) -> f64 {
        let epochs = 0..at.prices.len();
        let rent: f64 = epochs.map(|e| at.prices[e] * (self.supply[e] - at.demand[e]).abs()).sum();
        rent / at.bound_ns.max(f64::MIN_POSITIVE)
    }

    /// Subgradient steps with Polyak's length, towards the value of the best plan, in a metric
    /// that makes steps proportional to prices.
    fn descend(&mut self) {
        let mut share = 0.5;
        let mut since_better = 0;
        let mut current: Option<Evaluation> = None;
        while !self.done() && self.gap() > self.options.target_gap {
            let Some(best) = &self.best else { return };
            let from = current.as_ref().unwrap_or(best);
            let floor = from.prices.iter().sum::<f64>() / from.prices.len() as f64 * 1e-3;
            let metric = |e: usize| from.prices[e].max(floor) / self.supply[e];
            let slope = |e: usize| self.supply[e] - from.demand[e];
            let norm: f64 = (0..from.prices.len()).map(|e| slope(e).powi(2) * metric(e)).sum();
            let distance = from.bound_ns - self.plan_ns;
            if norm <= 0.0 || distance <= 0.0 {
                return;
            }
            let step = share * distance / norm;
            let prices = (0..from.prices.len())
                .map(|e| (from.prices[e] - step * metric(e) * slope(e)).max(0.0))
                .collect();
            let before = best.bound_ns;
            let evaluation = self.evaluate(prices);
            let better = evaluation.bound_ns < before;
            since_better = if better { 0 } else { since_better + 1 };
            current = Some(evaluation);
            if since_better == TIMEOUT {
                share *= 0.5;
                since_better = 0;
                current = None;
            }
            if self.iterations.is_multiple_of(PLAN_EVERY) {
                self.plan(&[1.0, 0.9]);
            }
            if share < 1e-4 {
                return;
            }
        }
    }
}
