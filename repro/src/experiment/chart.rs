//! Charts of an experiment, as numbers.

use super::file::{Chart, ChartKind, Experiment, names};
use super::huge_pages::HugePage;
use frostline_sim::SeriesPoint;
use frostline_study::{PolicyStudy, SizeStudy, Study};
use serde::Serialize;

/// One chart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Drawn {
    /// What it shows.
    pub title: String,
    /// What is drawn.
    pub kind: ChartKind,
    /// Name of the workload.
    pub workload: String,
    /// Size of fast memory; none where nothing depends on it.
    pub fast: Option<String>,
    /// The same in bytes.
    pub fast_bytes: Option<u64>,
    /// Curves; for classes hot, warm and cold memory of one policy.
    pub lines: Vec<Line>,
    /// Huge pages.
    pub huge_pages: Vec<HugePage>,
}

/// A number over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Policy.
    pub policy: String,
    /// Name of the number.
    pub number: String,
    /// Modelled seconds and values.
    pub points: Vec<[f64; 2]>,
}

const CLASSES: [&str; 3] = ["hot_bytes", "warm_bytes", "cold_bytes"];

/// All charts in the order of the file; `pages` by workload and seed.
pub fn draw(experiment: &Experiment, study: &Study, pages: &[Vec<Vec<HugePage>>]) -> Vec<Drawn> {
    let mut drawn = Vec::new();
    for chart in &experiment.chart {
        let workloads = experiment.workload.iter().zip(&study.traces).zip(pages);
        for ((workload, trace), pages) in workloads {
            if !names(&chart.workloads, &workload.name) {
                continue;
            }
            let empty = Drawn {
                title: chart.title.clone(),
                kind: chart.kind,
                workload: workload.name.clone(),
                fast: None,
                fast_bytes: None,
                lines: Vec::new(),
                huge_pages: Vec::new(),
            };
            if chart.kind == ChartKind::HugePages {
                let huge_pages = pages.first().cloned().unwrap_or_default();
                drawn.push(Drawn { huge_pages, ..empty });
                continue;
            }
            let sizes = experiment.fast.iter().zip(&trace.sizes);
            for (fast, size) in sizes.filter(|(fast, _)| names(&chart.fast, fast)) {
                let empty = Drawn {
                    fast: Some(fast.clone()),
                    fast_bytes: Some(size.fast_bytes),
                    ..empty.clone()
                };
                drawn.extend(of_size(chart, size, &empty));
            }
        }
    }
    drawn
}

/// A chart per policy where classes are drawn, else one for all.
fn of_size(chart: &Chart, size: &SizeStudy, empty: &Drawn) -> Vec<Drawn> {
    let policies: Vec<&PolicyStudy> =
        chart.policies.iter().filter_map(|p| size.policies.iter().find(|s| s.spec == *p)).collect();
    let lines = |policy: &PolicyStudy, numbers: &mut dyn Iterator<Item = &str>| -> Vec<Line> {
        let all = numbers.map(|number| line(policy, number));
        all.filter(|line| !line.points.is_empty()).collect()
    };
    if chart.kind == ChartKind::Classes {
        let of_policy = |policy: &&PolicyStudy| Drawn {
            lines: lines(policy, &mut CLASSES.into_iter()),
            ..empty.clone()
        };
        return policies.iter().map(of_policy).filter(|drawn| !drawn.lines.is_empty()).collect();
    }
    let numbers = || chart.numbers.iter().map(String::as_str);
    let all = policies.iter().flat_map(|policy| lines(policy, &mut numbers())).collect();
    vec![Drawn { lines: all, ..empty.clone() }]
}

fn line(policy: &PolicyStudy, number: &str) -> Line {
    let series = &policy.first().series;
    let points = series.iter().filter_map(|point| Some([point.seconds, value(point, number)?]));
    Line { policy: policy.spec.clone(), number: number.to_owned(), points: points.collect() }
}

/// A number of a point by its name, gauges of the policy included.
fn value(point: &SeriesPoint, name: &str) -> Option<f64> {
    if let Some(class) = CLASSES.iter().position(|class| *class == name) {
        return point.classes_bytes.map(|classes| classes[class] as f64);
    }
    let own = match name {
        "fast_hit_ratio" => Some(point.fast_hit_ratio),
        "promoted_bytes" => Some(point.promoted_bytes as f64),
        "demoted_bytes" => Some(point.demoted_bytes as f64),
        _ => None,
    };
    own.or_else(|| point.gauges.get(name).copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_point_go_by_name() {
        let point = SeriesPoint {
            classes_bytes: Some([1, 2, 3]),
            fast_hit_ratio: 0.5,
            gauges: [("paused".to_owned(), 1.0)].into(),
            ..SeriesPoint::default()
        };
        let found = ["hot_bytes", "cold_bytes", "fast_hit_ratio", "paused", "colour"]
            .map(|name| value(&point, name));
        assert_eq!(found, [Some(1.0), Some(3.0), Some(0.5), Some(1.0), None]);
        assert_eq!(value(&SeriesPoint::default(), "hot_bytes"), None);
    }
}
