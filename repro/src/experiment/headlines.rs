//! Headlines: the numbers of the papers' abstracts, beside the mean of ours.

use super::{Finding, stored::Stored};
use serde::Serialize;

/// How the numbers of a headline become one.
#[derive(Clone, Copy, Debug)]
enum Fold {
    /// Geometric mean of factors; gains in per cent are made factors and back.
    GeometricMean,
    Mean,
    Most,
}

/// A number that a paper puts into its abstract.
struct Claim {
    what: &'static str,
    published: &'static str,
    /// Experiments, and what those of their results say of which it is made.
    of: &'static [(&'static str, &'static [&'static str])],
    fold: Fold,
}

const RIVALS: &[&str] =
    &["ahead of TPP", "ahead of AutoNUMA", "ahead of MEMTIS", "ahead of ARC", "ahead of 2Q"];

const CLAIMS: &[Claim] = &[
    Claim {
        what: "MEMTIS ahead of the second-best, geometric mean",
        published: "33.6 %",
        of: &[("memtis-fig5", &["ahead of the second-best"])],
        fold: Fold::GeometricMean,
    },
    Claim {
        what: "HybridTier ahead of five rivals, geometric mean",
        published: "19 %",
        of: &[("hybridtier-fig9", RIVALS), ("hybridtier-fig10-gap", RIVALS)],
        fold: Fold::GeometricMean,
    },
    Claim {
        what: "HybridTier adapts faster than MEMTIS, geometric mean",
        published: "3.2 x",
        of: &[(
            "hybridtier-table3",
            &["adapts faster than MEMTIS that samples for sixteen threads"],
        )],
        fold: Fold::GeometricMean,
    },
    Claim {
        what: "HotBox ahead of the best of swapping and Nimble, most",
        published: "125 %",
        of: &[("hotbox-fig10", &["HotBox against the best of swapping and Nimble"])],
        fold: Fold::Most,
    },
    Claim {
        what: "near memory saved by GPAC, mean",
        published: "50 to 70 %",
        of: &[("gpac-fig8", &["near memory saved by GPAC"])],
        fold: Fold::Mean,
    },
    Claim {
        what: "fast memory saved by PET, mean",
        published: "39.8 %",
        of: &[("pet-fig13", &["fast memory saved by PET"])],
        fold: Fold::Mean,
    },
    Claim {
        what: "slowdown by PET, geometric mean",
        published: "1.7 %",
        of: &[("pet-fig13", &["slowdown by PET"])],
        fold: Fold::GeometricMean,
    },
];

/// A claim beside ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Headline {
    /// What it says.
    pub what: &'static str,
    /// As published.
    pub published: &'static str,
    /// Ours, in the same unit; none where a result is missing.
    pub ours: Option<f64>,
    /// Unit of ours.
    pub unit: String,
    /// Numbers of which ours is made.
    pub numbers: usize,
}

/// All of them, from the results of experiments by name.
pub fn headlines<'a>(results: impl Fn(&str) -> Option<&'a Stored>) -> Vec<Headline> {
    CLAIMS.iter().map(|claim| headline(claim, &results)).collect()
}

fn headline<'a>(claim: &Claim, results: &impl Fn(&str) -> Option<&'a Stored>) -> Headline {
    let mut found: Vec<&Finding> = Vec::new();
    let mut complete = true;
    for (experiment, whats) in claim.of {
        let Some(stored) = results(experiment) else {
            complete = false;
            continue;
        };
        found.extend(stored.findings.iter().filter(|finding| whats.contains(&&*finding.what)));
    }
    let unit = found.first().map_or("", |finding| &finding.unit).to_owned();
    let ours = fold(claim.fold, &unit, found.iter().map(|finding| finding.ours));
    Headline {
        what: claim.what,
        published: claim.published,
        ours: ours.filter(|_| complete),
        unit,
        numbers: found.len(),
    }
}

fn fold(fold: Fold, unit: &str, numbers: impl ExactSizeIterator<Item = f64>) -> Option<f64> {
    let count = numbers.len() as f64;
    if count == 0.0 {
        return None;
    }
    Some(match fold {
        Fold::GeometricMean if unit == "%" => {
            let logs: f64 = numbers.map(|gain| (gain / 100.0).ln_1p()).sum();
            (logs / count).exp_m1() * 100.0
        }
        Fold::GeometricMean => (numbers.map(f64::ln).sum::<f64>() / count).exp(),
        Fold::Mean => numbers.sum::<f64>() / count,
        Fold::Most => numbers.fold(f64::MIN, f64::max),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::file::Experiment;
    use std::path::Path;

    #[test]
    fn claims_name_results_that_exist() {
        for claim in CLAIMS {
            for (name, whats) in claim.of {
                let experiment = Experiment::read(Path::new(name)).unwrap();
                for what in *whats {
                    let exists = experiment.result.iter().any(|result| result.what == *what);
                    assert!(exists, "{name}: {what}");
                }
            }
        }
    }

    #[test]
    fn means_are_of_factors() {
        let of = |how, unit: &str, numbers: &[f64]| fold(how, unit, numbers.iter().copied());
        let close = |is: Option<f64>, should: f64| (is.unwrap() - should).abs() < 1e-9;
        assert!(close(of(Fold::GeometricMean, "%", &[100.0, -50.0]), 0.0));
        assert!(close(of(Fold::GeometricMean, "x", &[2.0, 8.0]), 4.0));
        assert!(close(of(Fold::Mean, "%", &[2.0, 8.0]), 5.0));
        assert!(close(of(Fold::Most, "%", &[2.0, 8.0]), 8.0));
        assert_eq!(of(Fold::Mean, "%", &[]), None);
    }
}
