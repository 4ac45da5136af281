//! An experiment's outcome as text.

use super::cannot::{Cannot, cannot};
use super::file::Experiment;
use super::measure::neutral;
use super::{Finding, Outcome};
use frostline_report::summary;
use frostline_report::table::{Table, wrap};
use frostline_study::SizeStudy;
use std::fmt::Write;

/// Paper beside ours, then how fast every policy was.
pub fn text(experiment: &Experiment, outcome: &Outcome, quick: bool) -> String {
    let about = wrap(experiment.about.trim(), 0);
    let mut out = format!("{}\n{}\n\n{about}\n\n", experiment.paper, wrap(&experiment.title, 0));
    for study in outcome.studies() {
        let _ = writeln!(out, "machine  {}", summary::machine(&study.machine));
    }
    let _ = writeln!(out, "seeds    {}", summary::seeds(&outcome.study.seeds));
    if quick {
        out.push_str("quick    smaller workloads than in a full run\n");
    }
    if !outcome.findings.is_empty() {
        let _ = write!(out, "\npaper beside ours\n{}", findings(&outcome.findings));
        reasons(&mut out, &outcome.findings);
    }
    for Cannot { what, workload, paper, unit, cannot, .. } in cannot(experiment) {
        let text =
            format!("{what}, {workload}: {} cannot be shown: {cannot}", published(paper, &unit));
        let _ = writeln!(out, "  {}", wrap(&text, 2));
    }
    for map in &outcome.maps {
        let (headings, rows) = map.table();
        let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
        let mut table = Table::new(&headings);
        rows.into_iter().for_each(|row| table.row(row));
        let _ = write!(out, "\n{}\n{}", map.title(), table.show(2));
    }
    if !experiment.fast.is_empty() {
        out.push_str("\nspeed against all memory being slow\n");
        out.push_str(&speeds(experiment, outcome));
    }
    let drawn = outcome.charts.len() + outcome.heatmaps.len();
    if drawn > 0 {
        let _ = writeln!(out, "\ncharts   {drawn}; --report draws them");
    }
    out
}

fn findings(findings: &[Finding]) -> String {
    let machines = findings.iter().any(|finding| finding.machine.is_some());
    let headings: &[&str] = match machines {
        true => &["workload", "machine", "fast", "paper", "ours", ""],
        false => &["workload", "fast", "paper", "ours", ""],
    };
    let mut table = Table::new(headings).left(if machines { 3 } else { 2 });
    let mut what = "";
    for finding in findings {
        if what != finding.what {
            what = &finding.what;
            table.heading(what);
        }
        let mut row = vec![format!("  {}", finding.workload)];
        row.extend(machines.then(|| finding.machine.clone().unwrap_or_default()));
        let ours = ours(finding, decimals(&finding.unit, findings));
        let more = [finding.fast.clone(), paper(finding), ours, remark(finding).into()];
        row.extend(more);
        table.row(row);
    }
    table.show(2)
}

/// Whether numbers in its unit can point one way or the other. A time, or an amount, cannot.
pub fn has_direction(unit: &str) -> bool {
    matches!(unit, "%" | "points" | "x" | "")
}

/// What is odd about ours: its direction, or that it is hardly there.
fn remark(finding: &Finding) -> &'static str {
    match direction(finding) {
        "" if is_slight(finding) => "slight",
        direction => direction,
    }
}

/// Whether ours points the same way, by less than a tenth of what was published.
pub fn is_slight(finding: &Finding) -> bool {
    const SLIGHT: f64 = 0.1;
    let neutral = neutral(&finding.unit);
    finding.same_direction == Some(true)
        && finding.paper.is_some_and(|paper| {
            let least = paper.iter().map(|value| (value - neutral).abs()).fold(f64::MAX, f64::min);
            (finding.ours - neutral).abs() < SLIGHT * least
        })
}

/// What is odd about the direction of ours. What was published as no difference has none.
pub fn direction(finding: &Finding) -> &'static str {
    if !has_direction(&finding.unit) {
        return "";
    }
    let neutral = neutral(&finding.unit);
    match (finding.paper, finding.same_direction) {
        (None, _) | (_, Some(true)) => "",
        (Some(paper), _) if paper == [neutral; 2] => "",
        (_, Some(false)) => "reversed",
        // Where the interval holds both directions, or nothing is compared.
        (_, None) => "unsure",
    }
}

/// `10.6 %`, `15.5 to 18.9 %`, or a dash.
pub fn paper(finding: &Finding) -> String {
    finding.paper.map_or("-".into(), |paper| published(paper, &finding.unit))
}

/// `10.6 %`, `15.5 to 18.9 %`.
pub fn published([low, high]: [f64; 2], unit: &str) -> String {
    let text =
        if low == high { format!("{low} {unit}") } else { format!("{low} to {high} {unit}") };
    text.trim_end().to_owned()
}

/// With how many decimals ours are shown: those of the published numbers in the same unit, and no
/// fewer than the unit has of its own.
pub fn decimals<'a>(unit: &str, findings: impl IntoIterator<Item = &'a Finding>) -> usize {
    let own = if matches!(unit, "x" | "" | "s") { 2 } else { 1 };
    let of = |number: f64| number.to_string().split_once('.').map_or(0, |(_, part)| part.len());
    let same = findings.into_iter().filter(|finding| finding.unit == unit);
    same.filter_map(|finding| finding.paper).flatten().map(of).fold(own, usize::max)
}

/// `12.3 ±0.4 %`.
pub fn ours(finding: &Finding, decimals: usize) -> String {
    let (mean, unit) = (finding.ours, &finding.unit);
    let text = match finding.half_width {
        Some(width) => format!("{mean:.decimals$} ±{width:.decimals$} {unit}"),
        None => format!("{mean:.decimals$} {unit}"),
    };
    text.trim_end().to_owned()
}

fn reasons(out: &mut String, findings: &[Finding]) {
    let mut said: Vec<&str> = Vec::new();
    for finding in findings {
        if let Some(why) = finding.differs.as_deref().filter(|why| !said.contains(why)) {
            if said.is_empty() {
                out.push('\n');
            }
            said.push(why);
            let _ = writeln!(out, "  {}", wrap(&format!("{}: {why}", finding.what), 2));
        }
    }
}

fn speeds(experiment: &Experiment, outcome: &Outcome) -> String {
    let first: Option<&SizeStudy> = outcome.study.traces.first().and_then(|t| t.sizes.first());
    let policies: Vec<&str> =
        first.map_or(Vec::new(), |size| size.policies.iter().map(|p| p.spec.as_str()).collect());
    let several = !outcome.others.is_empty();
    let mut headings = if several { vec!["workload", "machine"] } else { vec!["workload"] };
    headings.push("fast");
    headings.extend(&policies);
    let mut table = Table::new(&headings).left(if several { 3 } else { 2 });
    for (machine, study) in experiment.machines().iter().zip(outcome.studies()) {
        for (workload, trace) in experiment.workload.iter().zip(&study.traces) {
            for (fast, size) in experiment.fast.iter().zip(&trace.sizes) {
                let mut row = vec![workload.name.clone()];
                row.extend(several.then(|| machine.clone()));
                row.push(fast.clone());
                let speeds = size.policies.iter().map(|p| p.stat(|run| run.speedup_vs_all_slow));
                row.extend(speeds.map(|speed| speed.show(2)));
                table.row(row);
            }
        }
    }
    table.show(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(unit: &str, paper: Option<[f64; 2]>) -> Finding {
        Finding {
            what: "metadata".into(),
            machine: None,
            workload: "CDN".into(),
            fast: "1:8".into(),
            unit: unit.into(),
            paper,
            ours: 0.104_49,
            half_width: Some(0.001_6),
            same_direction: None,
            differs: None,
        }
    }

    #[test]
    fn ours_has_the_decimals_of_what_was_published_in_its_unit() {
        let published = [
            finding("%", Some([0.05; 2])),
            finding("%", Some([0.097, 0.2])),
            finding("%", None),
            finding("x", Some([2.0; 2])),
            finding("MB/s", None),
        ];
        let shown: Vec<String> =
            published.iter().map(|f| ours(f, decimals(&f.unit, &published))).collect();
        let percent = "0.104 ±0.002 %";
        assert_eq!(shown, [percent, percent, percent, "0.10 ±0.00 x", "0.1 ±0.0 MB/s"]);
        let mut level = finding("%", Some([0.0; 2]));
        level.same_direction = Some(false);
        assert_eq!(direction(&level), "", "there is no other way than no difference");
        level.paper = Some([0.0, 9.0]);
        assert_eq!(direction(&level), "reversed");
        assert_eq!(direction(&finding("s", Some([13.0; 2]))), "", "a time has no direction");
        let table = findings(&published);
        assert!(table.contains("0.097 to 0.2 %  0.104 ±0.002 %"), "{table}");
    }
}
