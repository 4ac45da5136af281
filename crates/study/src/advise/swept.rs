//! Advice by sweeps over a running program: how often pages are touched that had not been touched for some time.
//!
//! Where those that were not touched for longest are out, each such touch is a refault. What is between two ages is on a
//! straight line.

use super::curve::Curve;
use super::{Advice, Answer};
use frostline_core::types::PAGE_BYTES;

/// Pages that could be out, and touches of them in a second of useful time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cold {
    /// Pages.
    pub pages: f64,
    /// Touches in a second, as they were seen.
    pub returns: f64,
    /// The same, at the upper end of what is likely.
    pub most_returns: f64,
}

/// Sweeps over a program.
#[derive(Clone, Debug)]
pub struct Swept {
    /// By the age of pages, in any order.
    pub cold: Vec<Cold>,
    /// Memory of the program.
    pub memory_bytes: u64,
    /// What a refault takes (s).
    pub refault_seconds: f64,
}

impl Swept {
    /// Sizes that slowdowns take, with intervals by how many touches were seen. `policy` is what the advice says of who
    /// places pages.
    pub fn advise(&self, policy: &str, goals: &[f64]) -> Advice {
        let curve = self.curve(|cold| cold.returns);
        let low = self.curve(|cold| (2.0 * cold.returns - cold.most_returns).max(0.0));
        let high = self.curve(|cold| cold.most_returns);
        let answer = |goal: &f64| {
            let size = curve.size_for(*goal);
            Answer {
                goal: *goal,
                size,
                is_least: size.is_some() && size == curve.points().first().map(|(size, _)| *size),
                interval: Some((low.size_for(*goal), high.size_for(*goal))),
            }
        };
        Advice {
            policy: policy.to_owned(),
            footprint_bytes: self.memory_bytes,
            part: None,
            answers: goals.iter().map(answer).collect(),
            curve,
            replays: 0,
        }
    }

    fn curve(&self, returns: impl Fn(&Cold) -> f64) -> Curve {
        let memory = (self.memory_bytes as f64 / PAGE_BYTES as f64).max(1.0);
        let point = |cold: &Cold| {
            ((1.0 - cold.pages / memory).max(0.0), returns(cold) * self.refault_seconds)
        };
        let mut points: Vec<(f64, f64)> = self.cold.iter().map(point).collect();
        points.push((1.0, 0.0));
        points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        points.dedup_by_key(|(size, _)| *size);
        Curve::new(points)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn swept(cold: &[(f64, f64, f64)]) -> Swept {
        let cold = cold.iter().map(|&(pages, returns, most_returns)| Cold {
            pages,
            returns,
            most_returns,
        });
        Swept { cold: cold.collect(), memory_bytes: 1000 * PAGE_BYTES, refault_seconds: 1e-5 }
    }

    #[test]
    fn an_answer_lies_where_returns_take_what_is_accepted() {
        let swept = swept(&[(600.0, 4000.0, 5000.0), (200.0, 0.0, 0.0), (400.0, 1000.0, 2000.0)]);
        let advice = swept.advise("p", &[0.01, 0.025, 0.5]);
        let found: Vec<_> = advice.answers.iter().map(|a| (a.size.unwrap(), a.is_least)).collect();
        assert_eq!(found[0], (0.6, false));
        assert!((found[1].0 - 0.5).abs() < 1e-9);
        assert_eq!(found[2], (0.4, true));
        let (low, high) = advice.answers[1].interval.unwrap();
        assert!((low.unwrap() - (0.6 - 0.2 * 2.5 / 3.0)).abs() < 1e-9, "{low:?}");
        assert!((high.unwrap() - (0.6 - 0.2 * 0.5 / 3.0)).abs() < 1e-9, "{high:?}");
    }

    #[test]
    fn where_nothing_was_seen_all_is_needed() {
        let advice = swept(&[]).advise("p", &[0.01]);
        assert_eq!(advice.answers[0].size, Some(1.0));
        // More cold pages than there are by now: the program has given some back.
        let advice = swept(&[(2000.0, 0.0, 0.0), (1500.0, 0.0, 0.0)]).advise("p", &[0.01]);
        assert_eq!(advice.answers[0].size, Some(0.0));
    }
}
