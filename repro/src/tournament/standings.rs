//! Standings: how far the policy is from the best rival, over all cases and over groups of them.

use super::results::Case;
use serde::Serialize;
use std::collections::BTreeMap;

/// Regret up to which the policy counts as the best.
const NEAR: f64 = 0.01;
/// Loss to first touch from which on it counts as harmful.
const HARM: f64 = 0.03;

/// The policy over a group of cases. Regret is of modelled seconds: 0.1 is a tenth longer than the best
/// rival, below 0 is faster than it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Standing {
    /// What the cases have in common: `all`, `machine`, `fast`...
    pub by: &'static str,
    /// Its value; empty for all.
    pub group: String,
    /// How many.
    pub cases: usize,
    /// Mean over the cases.
    pub regret_mean: f64,
    /// The largest.
    pub regret_worst: f64,
    /// Share of the cases that are at most 1 % slower than the best rival.
    pub near_best_share: f64,
    /// Cases more than 3 % slower than first touch.
    pub harmful: usize,
    /// Mean share of the bound, where there is one.
    pub share_of_bound_mean: Option<f64>,
    /// Median of the samples that the policy had of a page.
    pub samples_per_page_median: f64,
}

/// What cases are grouped by.
type Key = (&'static str, fn(&Case) -> String);

const KEYS: [Key; 7] = [
    ("all", |_| String::new()),
    ("machine", |case| machine(case).0.to_owned()),
    ("workers", |case| machine(case).1.to_owned()),
    ("TLB", |case| if case.tlb { "on" } else { "off" }.to_owned()),
    ("fast", |case| case.fast.clone()),
    ("samples a page", samples),
    ("family", |case| case.family.clone()),
];

/// All cases, then by each key.
pub fn standings(cases: &[&Case]) -> Vec<Standing> {
    let mut all = Vec::new();
    for (by, key) in KEYS {
        let mut groups: BTreeMap<String, Vec<&Case>> = BTreeMap::new();
        for case in cases {
            groups.entry(key(case)).or_default().push(case);
        }
        let mut of: Vec<Standing> =
            groups.into_iter().map(|(group, cases)| standing(by, group, &cases)).collect();
        if by == "fast" {
            of.sort_by_key(|standing| slow_parts(&standing.group));
        }
        all.append(&mut of);
    }
    all
}

/// The cases with the largest regret, the worst first.
pub fn worst<'a>(cases: &[&'a Case], most: usize) -> Vec<&'a Case> {
    let mut cases = cases.to_vec();
    cases.sort_by(|a, b| b.regret().total_cmp(&a.regret()));
    cases.truncate(most);
    cases
}

fn standing(by: &'static str, group: String, cases: &[&Case]) -> Standing {
    let count = |is: fn(&Case) -> bool| cases.iter().filter(|case| is(case)).count();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let regrets: Vec<f64> = cases.iter().map(|case| case.regret()).collect();
    let shares: Vec<f64> = cases.iter().filter_map(|case| case.share_of_bound).collect();
    let mut samples: Vec<f64> = cases.iter().map(|case| case.samples_per_page).collect();
    samples.sort_by(f64::total_cmp);
    Standing {
        by,
        group,
        cases: cases.len(),
        regret_mean: mean(&regrets),
        regret_worst: regrets.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        near_best_share: count(|case| case.regret() <= NEAR) as f64 / cases.len().max(1) as f64,
        harmful: count(|case| case.over_first_touch() > HARM),
        share_of_bound_mean: (!shares.is_empty()).then(|| mean(&shares)),
        samples_per_page_median: samples.get(samples.len() / 2).copied().unwrap_or(0.0),
    }
}

/// A machine without its workers, and these.
fn machine(case: &Case) -> (&str, &str) {
    case.machine.split_once(":workers=").unwrap_or((&case.machine, "own"))
}

/// Orders of magnitude of the samples, with the least in front.
fn samples(case: &Case) -> String {
    match case.samples_per_page {
        few if few < 0.1 => "below 0.1",
        few if few < 1.0 => "0.1 to 1",
        some if some < 10.0 => "1 to 10",
        _ => "10 and more",
    }
    .to_owned()
}

/// Order of sizes: ratios by their slow part, then others.
fn slow_parts(fast: &str) -> u32 {
    fast.strip_prefix("1:").and_then(|slow| slow.parse().ok()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::results::testing::case;
    use super::*;

    #[test]
    fn regret_is_to_the_best_rival_and_harm_to_first_touch() {
        let cases = [
            case("dram-nvm", "1:16", 1.9),
            case("dram-nvm:workers=shared", "1:2", 2.01),
            case("dram-cxl", "1:2", 2.6),
            case("dram-cxl", "2MiB", 3.1),
        ];
        let cases: Vec<&Case> = cases.iter().collect();
        let all = standings(&cases);
        let Standing { cases: number, regret_mean, regret_worst, near_best_share, harmful, .. } =
            all[0].clone();
        assert_eq!((number, harmful), (4, 1));
        assert!((regret_mean - 0.20125).abs() < 1e-9 && (regret_worst - 0.55).abs() < 1e-9);
        assert!((near_best_share - 0.5).abs() < 1e-9);
        assert!(all[0].share_of_bound_mean.is_some_and(|share| (share - 0.5).abs() < 1e-9));
        let groups = |by| -> Vec<(&str, usize)> {
            let of = all.iter().filter(|one| one.by == by);
            of.map(|one| (&*one.group, one.cases)).collect()
        };
        assert_eq!(groups("machine"), [("dram-cxl", 2), ("dram-nvm", 2)]);
        assert_eq!(groups("workers"), [("own", 3), ("shared", 1)]);
        assert_eq!(groups("fast"), [("1:2", 2), ("1:16", 1), ("2MiB", 1)]);
        assert_eq!(groups("samples a page"), [("0.1 to 1", 4)]);
        let worst = worst(&cases, 2);
        assert_eq!((&*worst[0].fast, &*worst[1].machine), ("2MiB", "dram-cxl"));
    }

    #[test]
    fn no_case_is_no_standing() {
        assert_eq!(standings(&[]), []);
    }
}
