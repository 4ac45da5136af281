//! Count of the published numbers that come out.

use super::{Finding, show};
use serde::Serialize;
use std::iter::Sum;
use std::ops::Add;

/// Published numbers by what became of them. Counted are those that have a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Score {
    /// All of them.
    pub published: usize,
    /// Ours points the same way; any way does where no difference was published.
    pub same: usize,
    /// Of these, by less than a tenth of what was published.
    pub slight: usize,
    /// Ours points the other way.
    pub reversed: usize,
    /// Our interval holds both directions.
    pub unsure: usize,
    /// Our interval reaches what was published.
    pub within: usize,
}

impl Score {
    /// Of these findings.
    pub fn of(findings: &[Finding]) -> Self {
        findings.iter().map(Self::of_one).sum()
    }

    fn of_one(finding: &Finding) -> Self {
        if finding.paper.is_none() || !show::has_direction(finding) {
            return Self::default();
        }
        let direction = show::direction(finding);
        Self {
            published: 1,
            same: direction.is_empty().into(),
            slight: show::is_slight(finding).into(),
            reversed: (direction == "reversed").into(),
            unsure: (direction == "unsure").into(),
            within: within(finding).into(),
        }
    }
}

impl Add for Score {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            published: self.published + other.published,
            same: self.same + other.same,
            slight: self.slight + other.slight,
            reversed: self.reversed + other.reversed,
            unsure: self.unsure + other.unsure,
            within: self.within + other.within,
        }
    }
}

impl Sum for Score {
    fn sum<I: Iterator<Item = Self>>(scores: I) -> Self {
        scores.fold(Self::default(), Add::add)
    }
}

/// Whether our interval reaches into what was published.
fn within(finding: &Finding) -> bool {
    let half = finding.half_width.unwrap_or(0.0);
    finding
        .paper
        .is_some_and(|[low, high]| finding.ours + half >= low && finding.ours - half <= high)
}
