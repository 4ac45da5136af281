//! Duels as text: how many there were, and the worst with what repeats them.

use super::Settings;
use super::duel::Outcome;
use serde::Serialize;
use std::fmt::Write;

/// Loss from which on a duel counts as harmful.
const HARM: f64 = 0.03;

/// All duels in numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Duels that were fought.
    pub tried: usize,
    /// Duels that failed.
    pub failed: usize,
    /// Duels in which the policy takes over 3 % longer than first touch.
    pub harmful: usize,
    /// Largest loss; a share, none where there was no duel.
    pub loss_worst: Option<f64>,
    /// Mean loss; below 0 is a gain.
    pub loss_mean: Option<f64>,
}

impl Summary {
    /// Of these duels.
    pub fn of(outcomes: &[&Outcome]) -> Self {
        let losses: Vec<f64> = outcomes.iter().filter_map(|one| one.loss()).collect();
        Self {
            tried: outcomes.len(),
            failed: outcomes.len() - losses.len(),
            harmful: losses.iter().filter(|loss| **loss > HARM).count(),
            loss_worst: losses.iter().copied().max_by(f64::total_cmp),
            loss_mean: (!losses.is_empty())
                .then(|| losses.iter().sum::<f64>() / losses.len() as f64),
        }
    }
}

/// Failures first, then the largest losses.
pub fn worst<'a>(outcomes: &[&'a Outcome], most: usize) -> Vec<&'a Outcome> {
    let mut outcomes = outcomes.to_vec();
    let loss = |one: &Outcome| one.loss().unwrap_or(f64::INFINITY);
    outcomes.sort_by(|a, b| loss(b).total_cmp(&loss(a)));
    outcomes.truncate(most);
    outcomes
}

/// All of it for people.
pub fn text(settings: &Settings, summary: &Summary, worst: &[&Outcome]) -> String {
    let Summary { tried, failed, harmful, .. } = summary;
    let policy = &settings.policy;
    let mut out = format!(
        "{policy} against first touch: {tried} tried, {harmful} more than 3 % worse, {failed} failed"
    );
    if let (Some(mean), Some(largest)) = (summary.loss_mean, summary.loss_worst) {
        let _ = write!(out, "; mean {:+.1} %, worst {:+.1} %", mean * 100.0, largest * 100.0);
    }
    out += "\n\n";
    for one in worst {
        let what = match (one.loss(), &one.failed) {
            (Some(loss), _) => format!("{:+.1} %", loss * 100.0),
            (None, Some(failed)) => format!("failed: {failed}"),
            (None, None) => "failed".to_owned(),
        };
        let _ =
            writeln!(out, "{what} (number {})\n  {}", one.duel.number, one.duel.command(policy));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::duel::Duel;
    use super::*;

    fn outcome(number: u64, policy: f64) -> Outcome {
        let duel = Duel::draw(1, number).expect("machines are known");
        Outcome { duel, seconds: Some((policy, 2.0)), failed: None }
    }

    #[test]
    fn the_worst_come_first_and_failures_before_them() {
        let mut all = [outcome(0, 1.0), outcome(1, 2.2), outcome(2, 2.02)];
        let of = |all: &[Outcome]| Summary::of(&all.iter().collect::<Vec<_>>());
        let Summary { tried, failed, harmful, loss_worst, loss_mean } = of(&all);
        assert_eq!((tried, failed, harmful), (3, 0, 1));
        assert!(loss_worst.is_some_and(|loss| (loss - 0.1).abs() < 1e-9));
        assert!(loss_mean.is_some_and(|loss| (loss + 0.13).abs() < 1e-9));
        all[2].seconds = None;
        all[2].failed = Some("it panicked".into());
        let refs: Vec<&Outcome> = all.iter().collect();
        let worst = worst(&refs, 2);
        assert_eq!([worst[0].duel.number, worst[1].duel.number], [2, 1]);
        let settings = Settings { policy: "lru".into(), seed: 1, build: String::new() };
        let text = text(&settings, &of(&all), &worst);
        assert!(text.contains("3 tried, 1 more than 3 % worse, 1 failed"), "{text}");
        assert!(
            text.contains("failed: it panicked (number 2)\n  frostline compare synth:"),
            "{text}"
        );
        assert!(text.contains("+10.0 % (number 1)"), "{text}");
    }

    #[test]
    fn no_duel_has_no_worst() {
        assert_eq!(Summary::of(&[]).loss_worst, None);
    }
}
