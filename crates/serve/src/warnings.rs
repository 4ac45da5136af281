//! Warnings: what of a target somebody should look at.

use frostline_driver::Status;
use serde::Serialize;

/// Seconds over the limit from which on it is one.
const LONG: f64 = 60.0;
/// Slowdown beyond a goal that is no chance.
const BEYOND: f64 = 0.005;
/// Memory that does not compress from which on it is worth a word.
const MUCH: u64 = 64 << 20;
/// Part of what may be used of a tier from which on it is nearly full.
const NEARLY: f64 = 0.95;

/// What is wrong, and what can be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Warning {
    pub text: String,
    pub hint: &'static str,
}

/// All of a target.
pub fn of(status: &Status) -> Vec<Warning> {
    let mut found = Vec::new();
    let mut warn = |text: String, hint| found.push(Warning { text, hint });
    if status.over_limit_seconds >= LONG {
        let seconds = status.over_limit_seconds.round();
        warn(format!("over its limit for {seconds} s"), "raise --fast, or --cpu-limit");
    }
    let beyond = status.loss.and_then(|loss| Some((loss.goal?, loss.latest)));
    if let Some((goal, latest)) = beyond.filter(|(goal, latest)| latest.low > goal + BEYOND) {
        let text = format!(
            "loses {:.1} % in the last half minute, of at most {:.1} %",
            100.0 * latest.share,
            100.0 * goal
        );
        warn(text, "it has what it needs again soon; a higher --min-fast keeps more");
    }
    for tier in status.tiers.iter().skip(1) {
        if tier.capacity_bytes > 0 && tier.used_bytes as f64 > NEARLY * tier.capacity_bytes as f64 {
            warn(format!("{} is nearly full", tier.name), "give --slow a larger size");
        }
    }
    if status.unmanaged.incompressible_bytes >= MUCH {
        let text = "much of its memory does not compress".to_owned();
        warn(text, "a node of slow memory would hold it: --slow node:N");
    }
    if status.own_limit_bytes > 0 && status.own_rss_bytes > status.own_limit_bytes {
        let text = "frostline itself takes more memory than it should".to_owned();
        warn(text, "watch fewer processes with one daemon");
    }
    let lost: u64 = status.sources.iter().map(|source| source.lost).sum();
    let seen: u64 = status.sources.iter().map(|source| source.touches).sum();
    if lost > seen / 10 && lost > 0 {
        warn(format!("{lost} of {} samples were lost", lost + seen), "raise --cpu-limit");
    }
    if !status.refused.is_empty() {
        let count = status.refused.len();
        let hint = "frostline status says why";
        warn(format!("{count} of its processes are left alone"), hint);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_driver::status::{Loss, LossStatus, SourceStatus, TierStatus};

    #[test]
    fn a_target_that_is_well_has_none() {
        assert_eq!(of(&Status::default()), []);
    }

    #[test]
    fn each_has_a_hint() {
        let latest = Loss { share: 0.04, low: 0.03, high: 0.05, ..Loss::default() };
        let loss = LossStatus { goal: Some(0.02), latest, ..LossStatus::default() };
        let tier = |name: &str, used_bytes| TierStatus {
            name: name.into(),
            used_bytes,
            capacity_bytes: 100,
            ..TierStatus::default()
        };
        let mut status = Status {
            over_limit_seconds: 61.0,
            loss: Some(loss),
            tiers: vec![tier("memory", 100), tier("swap", 96)],
            own_limit_bytes: 1,
            own_rss_bytes: 2,
            sources: vec![SourceStatus { touches: 10, lost: 5, ..SourceStatus::default() }],
            ..Status::default()
        };
        status.unmanaged.incompressible_bytes = MUCH;
        status.refused.insert(7, "another user's".into());
        let found = of(&status);
        assert_eq!(found.len(), 7, "{found:?}");
        assert!(found[1].text.contains("loses 4.0 %") && found[2].text.starts_with("swap "));
        assert!(found.iter().all(|warning| !warning.hint.is_empty()));
        // By chance, or with no goal, it is none.
        status.loss = Some(LossStatus { latest: Loss { low: 0.0, ..latest }, ..loss });
        assert_eq!(of(&status).len(), 6);
        status.loss = Some(LossStatus { goal: None, ..loss });
        assert_eq!(of(&status).len(), 6);
    }
}
