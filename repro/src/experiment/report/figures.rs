//! The charts that an experiment's file asks for.

use crate::experiment::chart::{Drawn, Line};
use crate::experiment::file::ChartKind;
use frostline_report::html::over_time::{classes_legend, stack_classes, time_axis};
use frostline_report::html::palette::Palette;
use frostline_report::html::plot::{Entry, Plot, legend};
use frostline_report::html::svg::{Unit, bytes_unit, data, frame, number};
use frostline_report::units;

const HEIGHT: f64 = 200.0;
const ONE: Unit = Unit { divisor: 1.0, name: "" };
/// Subpages of a huge page.
const SUBPAGES: f64 = 512.0;
/// Rows of the table beside a chart.
const ROWS: usize = 10;

/// All of them, side by side.
pub fn all(charts: &[Drawn]) -> String {
    if charts.is_empty() {
        return String::new();
    }
    let specs: Vec<String> = charts.iter().flat_map(labels).collect();
    let palette = Palette::new(specs.iter().map(String::as_str));
    let charts: String = charts.iter().map(|chart| one(chart, &palette)).collect();
    format!("<div class=\"grid\">{charts}</div>")
}

fn one(chart: &Drawn, palette: &Palette) -> String {
    match chart.kind {
        ChartKind::Classes => classes(chart),
        ChartKind::OverTime => over_time(chart, palette),
        ChartKind::HugePages => huge_pages(chart),
    }
}

/// Names of the curves: policies, with the number where there are several.
fn labels(chart: &Drawn) -> Vec<String> {
    let several = chart.lines.iter().any(|line| line.number != chart.lines[0].number);
    let label = |line: &Line| match several {
        true => format!("{} {}", line.policy, line.number.replace('_', " ")),
        false => line.policy.clone(),
    };
    chart.lines.iter().map(label).collect()
}

fn heading(chart: &Drawn) -> String {
    let fast = chart.fast.as_ref().map_or(String::new(), |fast| format!(", {fast}"));
    format!("{}: {}{fast}", chart.title, chart.workload)
}

fn last_second(chart: &Drawn) -> f64 {
    let last = chart.lines.iter().filter_map(|line| line.points.last());
    last.map(|point| point[0]).fold(0.0, f64::max)
}

/// The numbers behind curves at the ends of equal spans of time.
fn table(chart: &Drawn, headings: &[String], show: impl Fn(f64) -> String) -> String {
    let seconds = last_second(chart);
    let row = |i: usize| {
        let at = seconds * (i + 1) as f64 / ROWS as f64;
        let cell = |line: &Line| {
            let past = line.points.partition_point(|point| point[0] <= at);
            let point = past.checked_sub(1).map(|i| line.points[i][1]);
            point.map_or_else(|| "-".to_owned(), &show)
        };
        std::iter::once(units::seconds(at)).chain(chart.lines.iter().map(cell)).collect()
    };
    let headings: Vec<String> =
        std::iter::once("at".to_owned()).chain(headings.iter().cloned()).collect();
    data(&headings, &(0..ROWS).map(row).collect::<Vec<_>>())
}

fn classes(chart: &Drawn) -> String {
    let [hot, warm, cold] = &chart.lines[..] else { return String::new() };
    let points = hot.points.iter().zip(&warm.points).zip(&cold.points);
    let series: Vec<(f64, [f64; 3])> =
        points.map(|((hot, warm), cold)| (hot[0], [hot[1], warm[1], cold[1]])).collect();
    let fast = chart.fast_bytes.unwrap_or(0) as f64;
    let sums = series.iter().map(|(_, classes)| classes.iter().sum::<f64>());
    let highest = sums.fold(fast, f64::max).max(1.0);
    let (unit, seconds) = (bytes_unit(highest), last_second(chart));
    let mut plot = Plot::new(HEIGHT, [0.0, seconds], [0.0, highest * 1.04]);
    time_axis(&mut plot, seconds);
    plot.y_axis(unit, &format!("memory ({})", unit.name), number);
    stack_classes(&mut plot, &series, fast);
    let label = format!("Areas of hot, warm and cold memory over time: {}", heading(chart));
    let said = format!("As {} classes it, under the first seed.", hot.policy);
    let table = table(chart, &["hot", "warm", "cold"].map(str::to_owned), units::bytes);
    frame(&heading(chart), &said, &(plot.show(&label, &said) + &classes_legend() + &table))
}

fn over_time(chart: &Drawn, palette: &Palette) -> String {
    let of_bytes = chart.lines.iter().all(|line| line.number.ends_with("_bytes"));
    let fast = chart.fast_bytes.filter(|_| of_bytes).map(|bytes| bytes as f64);
    let values = chart.lines.iter().flat_map(|line| &line.points).map(|point| point[1]);
    let highest = values.fold(fast.unwrap_or(0.0), f64::max).max(1e-9);
    let seconds = last_second(chart);
    let mut plot = Plot::new(HEIGHT, [0.0, seconds], [0.0, highest * 1.04]);
    time_axis(&mut plot, seconds);
    let unit = if of_bytes { bytes_unit(highest) } else { ONE };
    let title = if of_bytes { format!("memory ({})", unit.name) } else { String::new() };
    plot.y_axis(unit, &title, number);
    let labels = labels(chart);
    let strokes: Vec<String> = labels.iter().map(|label| palette.look(label).stroke).collect();
    let key = |i: usize| (labels.len() > 1).then_some(i + 1);
    let mut entries = Vec::new();
    for (i, line) in chart.lines.iter().enumerate() {
        let points: Vec<(f64, f64)> = line.points.iter().map(|p| (p[0], p[1])).collect();
        plot.curve(&strokes[i], &points, &labels[i], key(i));
        entries.push(Entry::Line(&strokes[i], key(i), &labels[i]));
    }
    if let Some(fast) = fast {
        plot.limit(fast);
        entries.push(Entry::Line("limit", None, "size of the fast tier"));
    }
    let label = format!("Curves over time: {}", heading(chart));
    let said = "Over modelled time, under the first seed.";
    let show = if of_bytes { units::bytes } else { number };
    let table = table(chart, &labels, show);
    frame(&heading(chart), said, &(plot.show(&label, said) + &legend(&entries) + &table))
}

fn huge_pages(chart: &Drawn) -> String {
    let most = chart.huge_pages.iter().map(|page| page.samples).max().unwrap_or(1).max(1) as f64;
    let mut plot = Plot::new(HEIGHT, [0.0, SUBPAGES], [0.0, most * 1.04]);
    plot.x_axis(ONE, "subpages used, of 512", number);
    plot.y_axis(ONE, "samples", number);
    for page in &chart.huge_pages {
        plot.dot("f0 small", f64::from(page.used), page.samples as f64, None);
    }
    let label = format!("Dots of {} huge pages: {}", chart.huge_pages.len(), heading(chart));
    let said = "Each dot is a huge page: how often it was sampled, and how many of its subpages.";
    frame(&heading(chart), said, &(plot.show(&label, said) + &tenths(chart)))
}

/// Means of each tenth of the huge pages, the hottest first.
fn tenths(chart: &Drawn) -> String {
    let mut ranked = chart.huge_pages.clone();
    ranked.sort_by_key(|page| std::cmp::Reverse((page.samples, page.used)));
    let mean = |sum: u64, n: usize| format!("{:.1}", sum as f64 / n as f64);
    let row = |(i, pages): (usize, &[_])| {
        let pages: &[crate::experiment::huge_pages::HugePage] = pages;
        let samples = pages.iter().map(|page| page.samples).sum();
        let used = pages.iter().map(|page| u64::from(page.used)).sum();
        vec![(i + 1).to_string(), mean(samples, pages.len()), mean(used, pages.len())]
    };
    let tenth = ranked.len().div_ceil(ROWS).max(1);
    let rows: Vec<Vec<String>> = ranked.chunks(tenth).enumerate().map(row).collect();
    data(&["tenth, the hottest first", "samples", "subpages used"].map(str::to_owned), &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::huge_pages::HugePage;

    fn chart(kind: ChartKind, numbers: &[&str]) -> Drawn {
        let line = |number: &&str| Line {
            policy: "memtis".into(),
            number: (*number).into(),
            points: vec![[0.5, 1e6], [1.0, 2e6]],
        };
        Drawn {
            title: "T<".into(),
            kind,
            workload: "W".into(),
            fast: Some("1:8".into()),
            fast_bytes: Some(3 << 20),
            lines: numbers.iter().map(line).collect(),
            huge_pages: Vec::new(),
        }
    }

    #[test]
    fn every_kind_is_drawn() {
        let areas = all(&[chart(ChartKind::Classes, &["hot_bytes", "warm_bytes", "cold_bytes"])]);
        assert!(areas.contains("T&lt;: W, 1:8") && areas.contains("size of the fast tier"));
        let curves = all(&[chart(ChartKind::OverTime, &["hot_bytes", "cold_bytes"])]);
        assert!(curves.contains("memtis hot bytes") && curves.contains("curve s1"), "{curves}");
        let ratio = all(&[chart(ChartKind::OverTime, &["fast_hit_ratio"])]);
        assert!(!ratio.contains("class=\"limit\""), "no bytes, no size");
        let huge_pages =
            vec![HugePage { samples: 10, used: 512 }, HugePage { samples: 3, used: 5 }];
        let dots = all(&[Drawn { huge_pages, ..chart(ChartKind::HugePages, &[]) }]);
        assert_eq!(dots.matches("<circle").count(), 2);
        assert_eq!(all(&[]), "");
    }
}
