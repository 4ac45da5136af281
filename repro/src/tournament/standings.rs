//! Standings: how far each policy is from the best of each case.

use super::results::Case;
use frostline_core::policy::registry;
use frostline_report::table::Table;
use serde::Serialize;
use std::collections::BTreeSet;

/// Regret up to which a policy counts as the best.
const NEAR: f64 = 0.01;
/// Loss to no tiering from which on a policy counts as harmful.
const HARM: f64 = 0.03;

/// A policy over all cases. Regrets are of modelled seconds: 0.1 is a tenth longer than the best.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Standing {
    /// The policy.
    pub policy: String,
    /// Cases that it has played.
    pub cases: usize,
    /// Mean over the cases.
    pub regret_mean: f64,
    /// The largest.
    pub regret_worst: f64,
    /// Cases within 1 % of the best.
    pub near_best: usize,
    /// Cases more than 3 % slower than first touch.
    pub harmful: usize,
    /// Mean share of the bound, where there is one.
    pub share_of_bound_mean: Option<f64>,
}

/// From the least mean regret to the largest; ties by name.
pub fn standings(cases: &[&Case]) -> Vec<Standing> {
    let names: BTreeSet<&String> = cases.iter().flat_map(|case| case.policies.keys()).collect();
    let mut all: Vec<Standing> = names.into_iter().map(|name| standing(name, cases)).collect();
    all.sort_by(|a, b| a.regret_mean.total_cmp(&b.regret_mean));
    all
}

fn standing(policy: &str, cases: &[&Case]) -> Standing {
    let mut regrets = Vec::new();
    let mut shares = Vec::new();
    let mut harmful = 0;
    for case in cases {
        let Some(own) = case.policies.get(policy) else { continue };
        let best = case.policies.values().map(|one| one.seconds).fold(f64::INFINITY, f64::min);
        regrets.push(own.seconds / best - 1.0);
        shares.extend(own.share_of_bound);
        let untiered = case.policies.get(registry::FIRST_TOUCH);
        harmful += usize::from(untiered.is_some_and(|u| own.seconds > u.seconds * (1.0 + HARM)));
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    Standing {
        policy: policy.to_owned(),
        cases: regrets.len(),
        regret_mean: mean(&regrets),
        regret_worst: regrets.iter().copied().fold(0.0, f64::max),
        near_best: regrets.iter().filter(|regret| **regret <= NEAR).count(),
        harmful,
        share_of_bound_mean: (!shares.is_empty()).then(|| mean(&shares)),
    }
}

/// A table of them.
pub fn text(standings: &[Standing]) -> String {
    let headings =
        ["policy", "cases", "regret", "worst", "within 1 %", "> 3 % worse than none", "of bound"];
    let mut table = Table::new(&headings);
    let percent = |value: f64| format!("{:.1} %", value * 100.0);
    for one in standings {
        table.row(vec![
            one.policy.clone(),
            one.cases.to_string(),
            percent(one.regret_mean),
            percent(one.regret_worst),
            one.near_best.to_string(),
            one.harmful.to_string(),
            one.share_of_bound_mean.map_or_else(|| "-".to_owned(), percent),
        ]);
    }
    table.show(0)
}

#[cfg(test)]
mod tests {
    use super::super::results::Reached;
    use super::*;

    #[test]
    fn regret_is_to_the_best_of_each_case() {
        let case = |fast: &str, times: [(&str, f64, Option<f64>); 3]| Case {
            family: "f".into(),
            trace: "t".into(),
            machine: "m".into(),
            fast: fast.into(),
            version: "v".into(),
            policies: times
                .map(|(name, seconds, share_of_bound)| {
                    (name.into(), Reached { seconds, share_of_bound })
                })
                .into(),
        };
        let cases = [
            case("1:2", [("a", 1.0, Some(0.8)), ("b", 1.005, None), ("first-touch", 1.5, None)]),
            case("1:8", [("a", 2.2, Some(0.4)), ("b", 2.0, None), ("first-touch", 2.1, None)]),
        ];
        let all = standings(&cases.iter().collect::<Vec<_>>());
        let names: Vec<&str> = all.iter().map(|one| &*one.policy).collect();
        assert_eq!(names, ["b", "a", "first-touch"]);
        let a = &all[1];
        assert!((a.regret_mean - 0.05).abs() < 1e-9 && (a.regret_worst - 0.1).abs() < 1e-9);
        assert_eq!((a.cases, a.near_best, a.harmful), (2, 1, 1));
        assert!((a.share_of_bound_mean.unwrap_or(0.0) - 0.6).abs() < 1e-9);
        assert_eq!((all[0].near_best, all[0].harmful, all[0].share_of_bound_mean), (2, 0, None));
    }
}
