//! Advice by probes of a running program: how often pages come back that are out of memory.
//!
//! The loss at a size is the sum of the rates of the coldest pages, which are out, times what a refault takes.
//! Which pages are the coldest is judged by one half of the time and their rates are those of the other, both
//! ways round: who sorts by the very numbers that are added up finds the luckiest pages, not the coldest.

use super::blocks::{RESAMPLED, ends};
use super::curve::Curve;
use super::{Advice, Answer};
use frostline_core::rng::Rng;
use frostline_core::types::PAGE_BYTES;

/// Pages, of those that are judged to be about as cold, whose rates are one: at least so many, and one in so many.
const ALIKE: usize = 16;
const GROUPS: usize = 50;
/// Points of the curve that is told.
const POINTS: usize = 21;

/// How often a page came back in half of the time, and how long it was out (s).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Half {
    /// Times.
    pub returns: f64,
    /// Seconds.
    pub seconds: f64,
}

impl Half {
    /// Returns in a second; none where it was never out.
    fn rate(self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.returns / self.seconds)
    }
}

/// Probes of a program.
#[derive(Clone, Debug)]
pub struct Probed {
    /// Pages drawn, each by halves of the time.
    pub pages: Vec<[Half; 2]>,
    /// Memory of the program.
    pub memory_bytes: u64,
    /// Part of it that was not probed, and is taken to be needed.
    pub unknown: f64,
    /// What a refault takes (s).
    pub refault_seconds: f64,
    /// Processor time that the program takes in a second, without probes.
    pub busy: f64,
}

impl Probed {
    /// Sizes that slowdowns take, with intervals by the pages that happened to be drawn. `policy` is what the advice
    /// says of who places pages.
    pub fn advise(&self, policy: &str, goals: &[f64], seed: u64) -> Advice {
        let curve = self.curve(self.pages.iter());
        let mut rng = Rng::new(seed);
        let count = self.pages.len() as u64;
        let resampled: Vec<Curve> = (0..RESAMPLED)
            .map(|_| {
                let drawn: Vec<_> =
                    (0..count).map(|_| &self.pages[rng.below(count) as usize]).collect();
                self.curve(drawn.into_iter())
            })
            .collect();
        let answer = |goal: &f64| {
            let size = curve.size_for(*goal);
            let is_least = size.is_some() && size == curve.points().first().map(|(size, _)| *size);
            Answer {
                goal: *goal,
                size,
                is_least,
                interval: Some(ends(resampled.iter().map(|curve| curve.size_for(*goal)))),
            }
        };
        let answers = goals.iter().map(answer).collect();
        let last = curve.points().len() - 1;
        let told = (0..POINTS).map(|point| curve.points()[point * last / (POINTS - 1)]);
        let mut told: Vec<_> = told.collect();
        told.dedup_by_key(|(size, _)| *size);
        Advice {
            policy: policy.to_owned(),
            footprint_bytes: self.memory_bytes,
            part: None,
            curve: Curve::new(told),
            answers,
            replays: 0,
        }
    }

    /// Slowdown by size where the coldest of these pages are out.
    fn curve<'a>(&self, pages: impl Iterator<Item = &'a [Half; 2]> + Clone) -> Curve {
        let ways = [(0, 1), (1, 0)].map(|(judged, counted)| {
            let mut halves: Vec<(f64, Half)> = pages
                .clone()
                .map(|halves| {
                    // Not out in one half: there is the other.
                    let of = |first: usize, other: usize| match halves[first].seconds > 0.0 {
                        true => halves[first],
                        false => halves[other],
                    };
                    (of(judged, counted).rate().unwrap_or(f64::MAX), of(counted, judged))
                })
                .collect();
            halves.sort_by(|a, b| a.0.total_cmp(&b.0));
            rates(&halves)
        });
        let count = ways[0].len();
        let known_pages = self.memory_bytes as f64 / PAGE_BYTES as f64 * (1.0 - self.unknown);
        let of_a_return =
            known_pages / count.max(1) as f64 * self.refault_seconds / self.busy.max(1e-9);
        let mut points = vec![(1.0, 0.0)];
        let mut sum = 0.0;
        for out in 0..count {
            sum += ways.iter().map(|rates| rates[out]).sum::<f64>() / ways.len() as f64;
            let fast = 1.0 - (1.0 - self.unknown) * (out + 1) as f64 / count as f64;
            points.push((fast, sum * of_a_return));
        }
        Curve::new(points)
    }
}

/// Rates of pages in the order in which they are judged: of neighbours together. A page alone that came back soon,
/// and then waited until it was probed again, would count for more than one that stayed out.
fn rates(pages: &[(f64, Half)]) -> Vec<f64> {
    let alike = ALIKE.max(pages.len() / GROUPS);
    let groups = pages.chunks(alike).flat_map(|group| {
        let sum = |of: fn(&Half) -> f64| group.iter().map(|(_, half)| of(half)).sum::<f64>();
        let (returns, seconds) = (sum(|half| half.returns), sum(|half| half.seconds));
        std::iter::repeat_n(if seconds > 0.0 { returns / seconds } else { 0.0 }, group.len())
    });
    groups.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times of a Poisson process in so many seconds, by halves.
    fn watched(rng: &mut Rng, rate: f64, seconds: f64) -> [Half; 2] {
        let mut halves = [Half { returns: 0.0, seconds: seconds / 2.0 }; 2];
        let mut now = 0.0;
        loop {
            now += -(1.0 - rng.unit_f64()).ln() / rate;
            if now >= seconds {
                return halves;
            }
            halves[usize::from(now >= seconds / 2.0)].returns += 1.0;
        }
    }

    fn probed(rates: &[(usize, f64)], seconds: f64, seed: u64) -> Probed {
        let mut rng = Rng::new(seed);
        let mut pages = Vec::new();
        for (count, rate) in rates {
            pages.extend((0..*count).map(|_| watched(&mut rng, *rate, seconds)));
        }
        Probed {
            pages,
            memory_bytes: 100_000 * 4096,
            unknown: 0.0,
            refault_seconds: 5e-6,
            busy: 1.0,
        }
    }

    /// Share of the memory that is enough, of groups of pages with known rates.
    fn right(rates: &[(usize, f64)], goal: f64) -> f64 {
        let mut rates = rates.to_vec();
        rates.sort_by(|a, b| a.1.total_cmp(&b.1));
        let count: usize = rates.iter().map(|(count, _)| count).sum();
        let weight = 100_000.0 / count as f64 * 5e-6;
        let (mut out, mut lost) = (0.0, 0.0);
        for (pages, rate) in rates {
            let all = pages as f64 * rate * weight;
            let part = ((goal - lost) / all).clamp(0.0, 1.0);
            out += pages as f64 * part;
            lost += all;
        }
        1.0 - out / count as f64
    }

    #[test]
    fn known_rates_give_known_sizes() {
        let rates = [(400, 20.0), (1200, 0.05), (400, 0.4)];
        for seed in 0..5 {
            let advice = probed(&rates, 120.0, seed).advise("p", &[0.01, 0.02, 0.05], 1);
            for answer in &advice.answers {
                let (right, size) =
                    (right(&rates, answer.goal), answer.size.expect("there is one"));
                assert!((size / right - 1.0).abs() < 0.05, "{seed}: {answer:?}, not {right}");
                let (low, high) = answer.interval.expect("always");
                assert!(low.unwrap() <= size && size <= high.unwrap(), "{answer:?}");
            }
            assert_eq!(advice.curve.points().last(), Some(&(1.0, 0.0)));
        }
    }

    #[test]
    fn luck_is_not_taken_for_cold() {
        // All alike, each touched twice on average: the slowdown is a straight line, although many had no touch.
        let rates = [(2000, 2.0 / 60.0)];
        let goal = 0.5 * 100_000.0 * 5e-6 * 2.0 / 60.0;
        for seed in 0..5 {
            let size = probed(&rates, 60.0, seed).advise("p", &[goal], 1).answers[0].size;
            assert!((size.expect("half of it") - 0.5).abs() < 0.05, "{seed}: {size:?}");
        }
    }

    #[test]
    fn pages_that_wait_for_their_next_probe_do_not_count_for_more() {
        let (rate, half) = (0.05, 30.0);
        let mut rng = Rng::new(7);
        // Each is out until it comes back for the first time in a half, and waits then.
        let mut once = || {
            let time = -(1.0 - rng.unit_f64()).ln() / rate;
            Half { returns: f64::from(u8::from(time < half)), seconds: time.min(half) }
        };
        let pages: Vec<[Half; 2]> = (0..2000).map(|_| [once(), once()]).collect();
        let probed = Probed { pages, ..probed(&[], 60.0, 1) };
        let all = 100_000.0 * 5e-6 * rate;
        let size = probed.advise("p", &[all / 2.0], 1).answers[0].size.expect("half of it");
        assert!((size - 0.5).abs() < 0.05, "{size}");
    }

    #[test]
    fn what_was_not_probed_is_needed() {
        let mut probed = probed(&[(1000, 1e-9)], 60.0, 1);
        probed.unknown = 0.2;
        let answer = probed.advise("p", &[0.01], 1).answers[0];
        assert!(answer.is_least && (answer.size.unwrap() - 0.2).abs() < 1e-9, "{answer:?}");
    }

    #[test]
    fn fewer_pages_make_a_wider_interval() {
        let wide = |times: usize| {
            let rates = [(20 * times, 5.0), (80 * times, 0.2)];
            let answer = probed(&rates, 60.0, 1).advise("p", &[0.02], 1).answers[0];
            let (low, high) = answer.interval.unwrap();
            high.unwrap() - low.unwrap()
        };
        assert!(wide(20) < 0.5 * wide(1), "{} {}", wide(20), wide(1));
    }
}
