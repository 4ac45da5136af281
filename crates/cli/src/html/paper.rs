//! A paper's numbers beside ours.

use super::svg::{Axis, Picture, escape, figure, number, round_up, text, x_grid};
use crate::experiment::file::Experiment;
use crate::experiment::{Finding, Outcome, show};
use std::fmt::Write;

const WIDTH: f64 = 760.0;
const ROW: f64 = 30.0;
const TOP: f64 = 8.0;
const LEFT: f64 = 330.0;
/// Room for a value behind the longest bar.
const VALUE: f64 = 120.0;
/// Most letters of a label.
const LABEL: usize = 52;

/// What was published and what came out, as charts and as a table.
pub fn section(experiment: &Experiment, outcome: &Outcome) -> String {
    let mut out = format!(
        "<section><h2>{}</h2><p>{}</p>",
        escape(&experiment.paper),
        escape(experiment.about.trim())
    );
    for unit in ["%", "points", "x"] {
        let of_unit: Vec<&Finding> = outcome.findings.iter().filter(|f| f.unit == unit).collect();
        if !of_unit.is_empty() {
            out.push_str(&chart(&of_unit, unit));
        }
    }
    out.push_str(&table(&outcome.findings));
    out.push_str("</section>\n");
    out
}

fn chart(findings: &[&Finding], unit: &str) -> String {
    let ends = findings.iter().flat_map(|f| {
        let half = f.half_width.unwrap_or(0.0);
        let paper = f.paper.unwrap_or([f.ours; 2]);
        [f.ours - half, f.ours + half, paper[0], paper[1]]
    });
    let (low, high) = ends.fold((0.0f64, 0.0f64), |(low, high), v| (low.min(v), high.max(v)));
    let step = round_up(((high - low) / 5.0).max(1e-9));
    let (min, max) = ((low / step).floor() * step, (high / step).ceil() * step);
    let axis = Axis { min, max, from: LEFT, to: WIDTH - VALUE };
    let bottom = TOP + findings.len() as f64 * ROW;
    let mut body = String::new();
    x_grid(&mut body, &axis, TOP, bottom, number);
    for (row, finding) in findings.iter().enumerate() {
        bars(&mut body, &axis, TOP + (row as f64 + 0.5) * ROW, finding);
    }
    text(&mut body, "axis", (axis.from + axis.to) / 2.0, bottom + 30.0, "middle", unit);
    let picture = Picture { width: WIDTH as u32, height: (bottom + 36.0) as u32, body };
    figure(
        "Paper beside ours",
        "Upper bar: published, a range as its two ends. Lower bar: this run, with its 95 % interval.",
        &format!("Bars of {} results in {unit}, published and ours", findings.len()),
        &picture,
        "",
    )
}

fn bars(out: &mut String, axis: &Axis, y: f64, finding: &Finding) {
    let label: String = format!("{}, {}, {}", finding.what, finding.workload, finding.fast);
    let label = match label.chars().count() {
        n if n <= LABEL => label,
        _ => label.chars().take(LABEL - 1).chain(['…']).collect(),
    };
    text(out, "", axis.from - 8.0, y + 4.0, "end", &label);
    let mut bar = |class: &str, from: f64, to: f64, y: f64, name: &str| {
        let (a, b) = (axis.at(from.min(to)), axis.at(from.max(to)));
        let _ = write!(
            out,
            "<rect class=\"{class}\" x=\"{a:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"9\" rx=\"2\">\
             <title>{}</title></rect>",
            (b - a).max(1.5),
            escape(name)
        );
    };
    if let Some([low, high]) = finding.paper {
        let title = format!("paper: {}", show::paper(finding));
        bar("fref", if low == high { 0.0 } else { low }, high, y - 10.0, &title);
    }
    let label = show::ours(finding);
    bar("f0", 0.0, finding.ours, y + 1.0, &format!("ours: {label}"));
    let mut end = axis.at(finding.ours.max(0.0));
    if let Some(half) = finding.half_width.filter(|half| *half > 0.0) {
        let (a, b) = (axis.at(finding.ours - half), axis.at(finding.ours + half));
        let at = y + 5.5;
        let _ = write!(out, "<path class=\"whisker\" d=\"M{a:.1} {at:.1}L{b:.1} {at:.1}\"/>");
        end = end.max(b);
    }
    text(out, "strong", end + 6.0, y + 9.0, "start", &label);
}

fn table(findings: &[Finding]) -> String {
    let mut out = String::from(
        "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th>result</th><th>workload</th><th>fast</th>\
         <th>paper</th><th>ours</th><th>why it differs</th></tr></thead><tbody>",
    );
    for finding in findings {
        let cells = [
            finding.what.clone(),
            finding.workload.clone(),
            finding.fast.clone(),
            show::paper(finding),
            format!("{} {}", show::ours(finding), show::direction(finding)),
            finding.differs.clone().unwrap_or_default(),
        ];
        let cells: String = cells.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
        let _ = write!(out, "<tr>{cells}</tr>");
    }
    out.push_str("</tbody></table></div>");
    out
}
