//! Both worlds over time: where they part.

use super::predict::Predicted;
use crate::trial::Trial;
use std::fmt::Write;

/// Lines of comma-separated values, the lab's first. Seconds count from when the work began; shares
/// are of the interval that ends there, bytes and pages of the moment or the interval.
pub fn csv(trial: &Trial, predicted: &Predicted) -> String {
    let mut text =
        String::from("world,seconds,fast_hits,fast_mib,slow_mib,promoted_mib,demoted_mib\n");
    for (seconds, fast_hits) in &trial.series {
        let _ = writeln!(text, "lab,{seconds:.3},{fast_hits:.4},,,,");
    }
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    for point in &predicted.series {
        let seconds = point.seconds - predicted.begin_seconds;
        let resident = |tier: usize| mib(point.resident_bytes.get(tier).copied().unwrap_or(0));
        let _ = writeln!(
            text,
            "simulator,{seconds:.3},{:.4},{:.2},{:.2},{:.2},{:.2}",
            point.fast_hit_ratio,
            resident(0),
            resident(1),
            mib(point.promoted_bytes),
            mib(point.demoted_bytes),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::Numbers;
    use frostline_sim::SeriesPoint;

    #[test]
    fn time_counts_from_the_beginning_of_the_work() {
        let trial = Trial { series: vec![(0.25, 0.5)], ..Trial::default() };
        let point = SeriesPoint {
            seconds: 1.5,
            fast_hit_ratio: 0.75,
            resident_bytes: vec![1 << 20, 2 << 20],
            promoted_bytes: 1 << 19,
            ..SeriesPoint::default()
        };
        let predicted = Predicted {
            numbers: Numbers::default(),
            counters: Default::default(),
            series: vec![point],
            begin_seconds: 2.0,
        };
        let text = csv(&trial, &predicted);
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(lines, ["lab,0.250,0.5000,,,,", "simulator,-0.500,0.7500,1.00,2.00,0.50,0.00"]);
    }
}
