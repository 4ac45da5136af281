//! Verdicts on the numbers that come out, and their count.

use super::measure::neutral;
use super::{Finding, show};
use serde::{Serialize, Serializer};
use std::iter::Sum;
use std::ops::Add;

/// How far from a published number, in parts of it, ours may be to be met whatever its interval.
const TOLERANCE: f64 = 0.25;

/// What became of a published number that has a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Our interval reaches what was published, or ours is within a quarter of it.
    Met,
    /// Ours points the same way.
    SameDirection,
    /// Ours points the other way.
    Reversed,
    /// Our interval holds both directions, or none was published.
    Unsure,
}

impl Verdict {
    /// Of a finding; none where nothing was published, or what was has no direction.
    pub fn of(finding: &Finding) -> Option<Self> {
        let paper = finding.paper.filter(|_| show::has_direction(&finding.unit))?;
        let neutral = neutral(&finding.unit);
        if is_met(finding, paper, neutral) {
            return Some(Self::Met);
        }
        Some(match finding.same_direction {
            Some(_) if paper == [neutral; 2] => Self::Unsure,
            Some(true) => Self::SameDirection,
            Some(false) => Self::Reversed,
            None => Self::Unsure,
        })
    }

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::SameDirection => "same direction",
            Self::Reversed => "reversed",
            Self::Unsure => "unsure",
        }
    }
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A factor is as far from 1 as a gain in per cent is from 0, so that both are judged alike.
fn is_met(finding: &Finding, [low, high]: [f64; 2], neutral: f64) -> bool {
    let away = |ours: f64| (low - ours).max(ours - high).max(0.0);
    let nearest = finding.ours.clamp(low, high);
    let tolerated = TOLERANCE * (nearest - neutral).abs();
    away(finding.ours) <= tolerated.max(finding.half_width.unwrap_or(0.0))
}

/// Published numbers by verdict. Counted are those that have a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Score {
    /// All of them.
    pub published: usize,
    /// [`Verdict::Met`].
    pub met: usize,
    /// [`Verdict::SameDirection`].
    pub same_direction: usize,
    /// Of these, by less than a tenth of what was published.
    pub slight: usize,
    /// [`Verdict::Reversed`].
    pub reversed: usize,
    /// [`Verdict::Unsure`].
    pub unsure: usize,
    /// No run of ours can show them.
    pub cannot: usize,
}

impl Score {
    /// Of these findings, and of so many numbers that cannot be shown.
    pub fn of(findings: &[Finding], cannot: usize) -> Self {
        let of_cannot = Self { published: cannot, cannot, ..Self::default() };
        findings.iter().map(Self::of_one).sum::<Self>() + of_cannot
    }

    fn of_one(finding: &Finding) -> Self {
        let Some(verdict) = Verdict::of(finding) else { return Self::default() };
        let same = verdict == Verdict::SameDirection;
        Self {
            published: 1,
            met: (verdict == Verdict::Met).into(),
            same_direction: same.into(),
            slight: (same && show::is_slight(finding)).into(),
            reversed: (verdict == Verdict::Reversed).into(),
            unsure: (verdict == Verdict::Unsure).into(),
            cannot: 0,
        }
    }
}

impl Add for Score {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            published: self.published + other.published,
            met: self.met + other.met,
            same_direction: self.same_direction + other.same_direction,
            slight: self.slight + other.slight,
            reversed: self.reversed + other.reversed,
            unsure: self.unsure + other.unsure,
            cannot: self.cannot + other.cannot,
        }
    }
}

impl Sum for Score {
    fn sum<I: Iterator<Item = Self>>(scores: I) -> Self {
        scores.fold(Self::default(), Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(unit: &str, paper: [f64; 2], ours: f64, half_width: Option<f64>) -> Finding {
        let neutral = neutral(unit);
        let sure = (ours - neutral).abs() > half_width.unwrap_or(0.0);
        Finding {
            what: "gain".into(),
            machine: None,
            workload: "Btree".into(),
            fast: "1:8".into(),
            unit: unit.into(),
            paper: Some(paper),
            ours,
            half_width,
            same_direction: sure.then_some((paper[0] >= neutral) == (ours >= neutral)),
            differs: None,
        }
    }

    #[test]
    fn verdicts_are_by_interval_and_by_a_quarter() {
        use Verdict::{Met, Reversed, SameDirection, Unsure};
        for (unit, paper, ours, half_width, verdict) in [
            ("%", [20.0; 2], 15.0, None, Met),
            ("%", [20.0; 2], 14.9, None, SameDirection),
            ("%", [20.0; 2], 14.9, Some(5.1), Met),
            ("%", [20.0, 40.0], 50.0, None, Met),
            ("%", [20.0, 40.0], 50.1, None, SameDirection),
            ("%", [20.0; 2], -1.0, Some(0.5), Reversed),
            ("%", [20.0; 2], -1.0, Some(1.5), Unsure),
            ("%", [-20.0; 2], -15.0, None, Met),
            // A factor is judged as its gain in per cent is.
            ("x", [1.2; 2], 1.16, None, Met),
            ("x", [1.2; 2], 1.14, None, SameDirection),
            ("%", [0.0; 2], 0.1, Some(0.2), Met),
            ("%", [0.0; 2], 30.0, Some(0.2), Unsure),
        ] {
            let of = Verdict::of(&finding(unit, paper, ours, half_width));
            assert_eq!(of, Some(verdict), "{paper:?} {unit}, {ours} ± {half_width:?}");
        }
        assert_eq!(Verdict::of(&finding("s", [3.0; 2], 3.0, None)), None, "a time has none");
    }

    #[test]
    fn each_number_is_counted_once() {
        let findings = [
            finding("%", [20.0; 2], 20.0, None),
            finding("%", [20.0; 2], 1.0, None),
            finding("%", [20.0; 2], 10.0, None),
            finding("%", [20.0; 2], -1.0, None),
            finding("%", [20.0; 2], 0.0, None),
            finding("MB/s", [20.0; 2], 20.0, None),
        ];
        let score = Score::of(&findings, 0);
        let expected = Score {
            published: 5,
            met: 1,
            same_direction: 2,
            slight: 1,
            reversed: 1,
            unsure: 1,
            cannot: 0,
        };
        assert_eq!(score, expected);
        let with_cannot = Score { published: 8, cannot: 3, ..expected };
        assert_eq!(Score::of(&findings, 3), with_cannot);
    }
}
