//! Results, computed from runs.

use super::adaptation::{adaptation_seconds, latencies, recovery_seconds};
use super::file::{OTHERS, Over, ResultOf};
use super::huge_pages::{self, HugePage};
use frostline_core::policy::registry;
use frostline_sim::RunReport;
use frostline_study::stats::Stat;
use frostline_study::{PolicyStudy, SizeStudy, is_online};
use frostline_terminal::errors::usage;
use serde::Deserialize;

/// How a result is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// How much faster `of` runs than `over`, in per cent; by another time than the run's where a
    /// `number` is named.
    Gain,
    /// How many times as fast `of` runs as all memory being slow.
    Speedup,
    /// By how much a `number` of `of` is below that of `over`, in per cent.
    Less,
    /// A `number` of `of`, in per cent.
    Share,
    /// By how much a `number` of `of` is above that of `over`, in percentage points.
    Points,
    /// Modelled time from `since` on until memory's latency is what it is at the end.
    Adaptation,
    /// How many times as fast `of` adapts as `over`.
    AdaptsFaster,
    /// Mean time from each of `changes` changes on, the first one at `since`, until accesses come at 95 %
    /// of their highest rate again; multiplied by the scale.
    Recovery,
    /// A `number` of `of` as it is; its `unit` is said beside it.
    Number,
    /// A `number` of `of`, divided by that of `over`.
    Ratio,
    /// Correlation of how hot huge pages are with how many of their subpages are used.
    Correlation,
    /// Subpages that the hottest tenth of the huge pages uses, in per cent.
    UsedOfHottest,
}

impl Measure {
    /// Unit of its values.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Gain | Self::Less | Self::Share | Self::UsedOfHottest => "%",
            Self::Points => "points",
            Self::Correlation | Self::Number => "",
            Self::Speedup | Self::AdaptsFaster | Self::Ratio => "x",
            Self::Adaptation => "ms",
            Self::Recovery => "s",
        }
    }

    /// Whether it is about the workload alone, whatever the policy and the size of fast memory.
    pub fn is_of_workload(self) -> bool {
        matches!(self, Self::Correlation | Self::UsedOfHottest)
    }

    /// Whether the result has what it needs, and nothing else.
    ///
    /// # Errors
    /// A key that is missing, or has no meaning here.
    pub fn check(self, result: &ResultOf) -> anyhow::Result<()> {
        let compares = matches!(
            self,
            Self::Gain | Self::Less | Self::Points | Self::AdaptsFaster | Self::Ratio
        );
        let adapts = matches!(self, Self::Adaptation | Self::AdaptsFaster | Self::Recovery);
        let counts =
            matches!(self, Self::Less | Self::Share | Self::Points | Self::Number | Self::Ratio);
        let keys = [
            ("of", !self.is_of_workload(), !result.of.is_empty()),
            ("over", compares, result.over.is_some()),
            ("number", counts, result.number.is_some() && self != Self::Gain),
            ("since", adapts, result.since.is_some()),
            ("changes", self == Self::Recovery, result.changes.is_some()),
            ("unit", self == Self::Number, result.unit.is_some()),
        ];
        for (key, wanted, given) in keys {
            if wanted != given {
                let (verb, hint) =
                    if wanted { ("needs", "add") } else { ("has no use for", "drop") };
                let what = format!("result \"{}\": its measure {verb} {key}", result.what);
                return Err(usage(what, format!("{hint} {key} = ...")));
            }
        }
        Ok(())
    }
}

/// The value under each seed, of the huge pages under each seed; none where something does not vary.
pub fn values_of_workload(result: &ResultOf, seeds: &[Vec<HugePage>]) -> Option<Vec<f64>> {
    let one = |pages: &Vec<HugePage>| match result.measure {
        Measure::Correlation => huge_pages::correlation(pages),
        Measure::UsedOfHottest => huge_pages::used_of_hottest(pages).map(|used| 100.0 * used),
        _ => None,
    };
    seeds.iter().map(one).collect()
}

/// The value under each seed; none where a number is missing in a run.
pub fn values(result: &ResultOf, size: &SizeStudy) -> Option<Vec<f64>> {
    let of = policy(size, &result.of)?;
    let over = match &result.over {
        Some(Over::One(name)) if name == OTHERS => Some(best_other(size, &result.of)?),
        Some(over) => Some(size.ranked().into_iter().find(|p| over.names().contains(&p.spec))?),
        None => None,
    };
    let number = result.number.as_deref();
    let adaptation = |policy: &PolicyStudy, seed: usize| {
        let run = &policy.runs[seed];
        adaptation_seconds(&run.series, result.since?, latencies(&run.report))
    };
    let one = |seed: usize| -> Option<f64> {
        match result.measure {
            Measure::Adaptation => return Some(1000.0 * adaptation(of, seed)?),
            Measure::AdaptsFaster => return Some(adaptation(over?, seed)? / adaptation(of, seed)?),
            Measure::Recovery => {
                let run = &of.runs[seed];
                let seconds = recovery_seconds(&run.series, result.since?, result.changes?)?;
                return Some(run.report.scale * seconds);
            }
            _ => {}
        }
        let of = &of.runs[seed].report;
        let over = over.map(|over| &over.runs[seed].report);
        Some(match result.measure {
            Measure::Gain => {
                let time = number.unwrap_or("modelled_seconds");
                100.0 * (number_of(over?, time)? / number_of(of, time)? - 1.0)
            }
            Measure::Speedup => of.speedup_vs_all_slow,
            Measure::Less => {
                let base = number_of(over?, number?)?;
                if base == 0.0 { 0.0 } else { 100.0 * (1.0 - number_of(of, number?)? / base) }
            }
            Measure::Share => 100.0 * number_of(of, number?)?,
            Measure::Points => 100.0 * (number_of(of, number?)? - number_of(over?, number?)?),
            Measure::Number => number_of(of, number?)?,
            Measure::Ratio => number_of(of, number?)? / number_of(over?, number?)?,
            _ => return None,
        })
    };
    (0..of.runs.len()).map(one).collect()
}

/// The number of a unit that says that nothing differs.
pub fn neutral(unit: &str) -> f64 {
    if unit == "x" { 1.0 } else { 0.0 }
}

/// Whether ours is on the same side as what was published: of nothing gained, of all memory
/// being slow, or of the same number. None where our interval reaches over to the other side. A number
/// or a time alone has no sides.
pub fn same_direction(measure: Measure, paper: [f64; 2], ours: Stat) -> Option<bool> {
    if matches!(measure, Measure::Number | Measure::Recovery) {
        return None;
    }
    let neutral = neutral(measure.unit());
    let distance = ours.mean - neutral;
    let middle = (paper[0] + paper[1]) / 2.0;
    let sure = distance.abs() > ours.half_width.unwrap_or(0.0);
    sure.then_some((middle >= neutral) == (distance >= 0.0))
}

fn policy<'a>(size: &'a SizeStudy, name: &str) -> Option<&'a PolicyStudy> {
    size.policies.iter().find(|policy| policy.spec == name)
}

/// The fastest one that one would run, of those that are no variants of `of`; where only variants
/// were run, the fastest reference that has both tiers.
fn best_other<'a>(size: &'a SizeStudy, of: &str) -> Option<&'a PolicyStudy> {
    let family = |spec: &str| spec.split([':', '-']).next().unwrap_or_default().to_owned();
    let others = || size.ranked().into_iter().filter(|p| family(&p.spec) != family(of));
    others()
        .find(|p| is_online(&p.spec))
        .or_else(|| others().find(|p| p.spec == registry::FIRST_TOUCH))
}

/// A number of a run by its name in the JSON output, counters included.
fn number_of(report: &RunReport, name: &str) -> Option<f64> {
    let migrated = (report.promoted_bytes + report.demoted_bytes) as f64;
    match name {
        "migrated_bytes" => return Some(migrated),
        "migrated_mb_per_second" => return Some(migrated / 1e6 / report.modelled_seconds),
        // Of base pages, of which each fault promotes one.
        "promotions_failed_share" => {
            let counter = |name: &str| report.counters.get(&format!("policy.{name}")).copied();
            let failed = counter("hint_faults_without_room_total")?;
            let all = failed + counter("promoted_in_fault_pages_total")?;
            return (all > 0.0).then(|| failed / all);
        }
        _ => {}
    }
    if let Some(counter) = report.counters.get(name) {
        return Some(*counter);
    }
    let report = serde_json::to_value(report).ok()?;
    name.split('.').try_fold(&report, |value, key| value.get(key))?.as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_sim::RunOutcome;
    use frostline_study::{NoBound, PolicyStudy};

    fn run(seconds: f64, promoted_bytes: u64) -> RunOutcome {
        let report = RunReport {
            modelled_seconds: seconds,
            promoted_bytes,
            speedup_vs_all_slow: 10.0 / seconds,
            fast_hit_ratio: 0.25,
            counters: [("policy.estimated_hit_ratio".to_owned(), 0.5)].into(),
            ..RunReport::default()
        };
        RunOutcome { report, series: Vec::new(), heatmaps: None, moments: Vec::new() }
    }

    #[test]
    fn promotions_that_fail_are_a_share_of_all_that_were_tried() {
        let mut report = run(1.0, 0).report;
        assert_eq!(number_of(&report, "promotions_failed_share"), None);
        for (name, value) in
            [("hint_faults_without_room_total", 3.0), ("promoted_in_fault_pages_total", 9.0)]
        {
            report.counters.insert(format!("policy.{name}"), value);
        }
        assert_eq!(number_of(&report, "promotions_failed_share"), Some(0.25));
    }

    fn size() -> SizeStudy {
        let study = |spec: &str, runs: Vec<RunOutcome>| PolicyStudy { spec: spec.into(), runs };
        SizeStudy {
            fast: "1:8".parse().unwrap(),
            fast_bytes: 1,
            bound: Err(NoBound::NotAsked),
            policies: vec![
                study("memtis", vec![run(2.0, 100), run(4.0, 100)]),
                study("memtis-ns", vec![run(3.0, 200), run(5.0, 400)]),
                study("first-touch", vec![run(2.5, 0), run(5.0, 0)]),
                study("all-slow", vec![run(10.0, 0), run(10.0, 0)]),
            ],
        }
    }

    fn result(text: &str) -> ResultOf {
        toml::from_str(&format!("what = \"x\"\nof = \"memtis\"\n{text}")).unwrap()
    }

    #[test]
    fn values_come_seed_by_seed() {
        for (text, expected) in [
            ("measure = \"gain\"\nover = \"memtis-ns\"", [50.0, 25.0]),
            ("measure = \"gain\"\nover = \"others\"", [25.0, 25.0]),
            ("measure = \"speedup\"", [5.0, 2.5]),
            ("measure = \"less\"\nover = \"memtis-ns\"\nnumber = \"migrated_bytes\"", [50.0, 75.0]),
            ("measure = \"share\"\nnumber = \"fast_hit_ratio\"", [25.0, 25.0]),
            ("measure = \"share\"\nnumber = \"policy.estimated_hit_ratio\"", [50.0, 50.0]),
            ("measure = \"number\"\nnumber = \"time_split.app\"\nunit = \"s\"", [0.0, 0.0]),
            (
                "measure = \"number\"\nnumber = \"migrated_mb_per_second\"\nunit = \"MB/s\"",
                [5e-5, 2.5e-5],
            ),
            (
                "measure = \"ratio\"\nnumber = \"modelled_seconds\"\nover = \"memtis-ns\"",
                [2.0 / 3.0, 0.8],
            ),
            ("measure = \"gain\"\nover = [\"all-slow\", \"first-touch\"]", [25.0, 25.0]),
            ("measure = \"points\"\nover = \"memtis-ns\"\nnumber = \"fast_hit_ratio\"", [0.0, 0.0]),
        ] {
            let result = result(text);
            result.measure.check(&result).unwrap();
            assert_eq!(values(&result, &size()), Some(expected.to_vec()), "{text}");
        }
        let missing = result("measure = \"share\"\nnumber = \"colour\"");
        assert_eq!(values(&missing, &size()), None);
    }

    #[test]
    fn directions_are_relative_to_no_effect() {
        let one = |mean| Stat { mean, half_width: None };
        assert_eq!(same_direction(Measure::Gain, [10.0, 20.0], one(3.0)), Some(true));
        assert_eq!(same_direction(Measure::Gain, [10.6; 2], one(-0.1)), Some(false));
        assert_eq!(same_direction(Measure::Speedup, [1.3; 2], one(0.9)), Some(false));
        let unsure = Stat { mean: 3.0, half_width: Some(3.5) };
        assert_eq!(same_direction(Measure::Gain, [10.6; 2], unsure), None);
    }
}
