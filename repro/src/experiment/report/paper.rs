//! A paper's numbers beside ours.

use super::{both, figures, map};
use crate::experiment::cannot::{Cannot, cannot};
use crate::experiment::file::Experiment;
use crate::experiment::score::Score;
use crate::experiment::{Finding, Outcome, show};
use frostline_report::html::rows::Rows;
use frostline_report::html::svg::{escape, frame, number, round_up};
use std::fmt::Write;

/// What was published and what came out.
pub fn section(experiment: &Experiment, outcome: &Outcome) -> String {
    let mut out = String::from("<section>");
    let cannot = cannot(experiment);
    out.push_str(&verdict(&outcome.findings, cannot.len()));
    let mut units = vec!["%", "points", "x", ""];
    for finding in &outcome.findings {
        if !units.contains(&&*finding.unit) {
            units.push(&finding.unit);
        }
    }
    for unit in units {
        let of_unit: Vec<&Finding> = outcome.findings.iter().filter(|f| f.unit == unit).collect();
        if !of_unit.is_empty() {
            out.push_str(&chart(&of_unit, unit));
        }
    }
    out.push_str(&reasons(&outcome.findings));
    out.push_str(&unshown(&cannot));
    outcome.maps.iter().for_each(|map| out.push_str(&map::chart(map)));
    outcome.heatmaps.iter().for_each(|picture| out.push_str(&both(picture)));
    out.push_str(&figures::all(&outcome.charts));
    let _ = writeln!(
        out,
        "<h3>How it was run</h3><p>{}</p></section>",
        code(&escape(experiment.about.trim()))
    );
    out
}

/// How many of ours agree, in a sentence. Empty where nothing was published that has a direction.
fn verdict(findings: &[Finding], cannot: usize) -> String {
    let score = Score::of(findings, cannot);
    let Score { published, met, same_direction, slight, reversed, unsure, cannot } = score;
    let mut text = match published {
        0 => return String::new(),
        1 => "Of the one published number, ours ".to_owned(),
        n => format!("Of {n} published numbers, ours "),
    };
    let _ = write!(text, "<b>meet {met}</b>, point the same way in {same_direction}");
    if slight > 0 {
        let _ = write!(text, " (in {slight} by less than a tenth of it)");
    }
    for (n, what) in [(reversed, "the other way"), (unsure, "neither way for sure")] {
        if n > 0 {
            let _ = write!(text, ", {what} in {n}");
        }
    }
    if cannot > 0 {
        let _ = write!(text, "; {cannot} cannot be shown by any run of ours");
    }
    text.push('.');
    format!("<div class=\"verdict\"><p>{text}</p></div>\n")
}

fn chart(findings: &[&Finding], unit: &str) -> String {
    let sign = if unit == "x" { "×" } else { unit };
    let ends = findings.iter().flat_map(|f| {
        let half = f.half_width.unwrap_or(0.0);
        let paper = f.paper.unwrap_or([f.ours; 2]);
        [f.ours - half, f.ours + half, paper[0], paper[1]]
    });
    let (low, high) = ends.fold((0.0f64, 0.0f64), |(low, high), v| (low.min(v), high.max(v)));
    let step = round_up(((high - low) / 8.0).max(1e-9));
    let range = [(low / step).floor() * step, (high / step).ceil() * step];
    let published = findings.iter().any(|f| f.paper.is_some());
    let class = if published { "paper" } else { "" };
    let mut rows = Rows::new(class, range, sign, |v| number(v).replace('-', "−"));
    let one_size = findings.iter().all(|f| f.fast == findings[0].fast);
    let one_group = findings.iter().all(|f| f.what == findings[0].what);
    let decimals = show::decimals(unit, findings.iter().copied());
    let mut group = "";
    for finding in findings {
        if group != finding.what && !one_group {
            rows.heading(&finding.what);
        }
        group = &finding.what;
        row(&mut rows, finding, decimals, one_size, published);
    }
    let mut title = match (one_group, published) {
        (true, _) => capital(&findings[0].what),
        (false, true) => "Paper beside ours".to_owned(),
        (false, false) => "Ours".to_owned(),
    };
    if one_size && findings[0].fast != "-" {
        let _ = write!(title, ", fast memory {}", findings[0].fast);
    }
    let label = format!("{} results in {}, published and ours", findings.len(), unit_name(unit));
    let said = match published {
        true => "What points the other way than published is marked.",
        false => "The paper's text has no numbers for these.",
    };
    let explained = match unit {
        "" => format!("Numbers from −1 to 1. {said}"),
        unit => format!("In {}. {said}", unit_name(unit)),
    };
    frame(&title, &explained, &(rows.show(&label) + &key(findings)))
}

/// What the marks are, of those that there are.
fn key(findings: &[&Finding]) -> String {
    let published = findings.iter().filter_map(|f| f.paper);
    let (numbers, ranges): (Vec<_>, Vec<_>) = published.partition(|[low, high]| low == high);
    let mut out = String::from("<ul class=\"legend\">");
    let mut entry = |picture: &str, name: &str| {
        let _ = write!(
            out,
            "<li><svg viewBox=\"0 0 30 12\" aria-hidden=\"true\">{picture}</svg>{name}</li>"
        );
    };
    if !ranges.is_empty() {
        let range = "<rect class=\"published\" x=\"1\" y=\"1\" width=\"28\" height=\"10\"/>";
        entry(range, "published: a range");
    }
    if !numbers.is_empty() {
        entry("<path class=\"stroke\" d=\"M15 0v12\"/>", "published: a number");
    }
    let ours = "<path class=\"stem s0\" d=\"M0 6h15\"/><path class=\"whisker\" d=\"M8 6h14\"/>\
                <circle class=\"dot f0\" cx=\"15\" cy=\"6\" r=\"5\"/>";
    let interval = findings.iter().any(|f| f.half_width.is_some());
    entry(ours, if interval { "ours, with its 95 % interval" } else { "ours" });
    out.push_str("</ul>");
    out
}

fn unit_name(unit: &str) -> &str {
    match unit {
        "%" => "per cent",
        "points" => "percentage points",
        "" => "numbers from −1 to 1",
        "x" => "times",
        other => other,
    }
}

fn row(rows: &mut Rows, finding: &Finding, decimals: usize, one_size: bool, beside: bool) {
    let mut name = escape(&finding.workload);
    if let Some(machine) = &finding.machine {
        let _ = write!(name, " <small>{}</small>", escape(machine));
    }
    if !one_size {
        let _ = write!(name, " <small>{}</small>", escape(&finding.fast));
    }
    let sign = |text: String| escape(&text.replace('-', "−").replace(" x", " ×"));
    let published = match finding.paper {
        Some(_) => format!("<small>paper</small> {}", sign(show::paper(finding))),
        None => "<small>paper: no number</small>".to_owned(),
    };
    let mark = match show::direction(finding) {
        "" => String::new(),
        word => format!(" <em>{word}</em>"),
    };
    let ours = format!("<b>{}</b>{mark}", sign(show::ours(finding, decimals)));
    let value = match beside {
        true => format!("<span>{published}</span><span><small>ours</small> {ours}</span>"),
        false => ours,
    };
    let mut picture = String::new();
    match finding.paper {
        Some([low, high]) if low == high => picture.push_str(&rows.stroke("stroke", low)),
        Some([low, high]) => picture.push_str(&rows.span("published", low, high, 3.0)),
        None => {}
    }
    picture.push_str(&rows.stem("stem s0", finding.ours));
    picture.push_str(&rows.whisker(finding.ours, finding.half_width));
    picture.push_str(&rows.dot("f0", finding.ours));
    rows.row(&name, &value, &picture);
}

/// Why ours differ, each reason once.
fn reasons(findings: &[Finding]) -> String {
    let mut said: Vec<(&str, Vec<&Finding>)> = Vec::new();
    for finding in findings {
        let Some(why) = finding.differs.as_deref() else { continue };
        match said.iter_mut().find(|(known, _)| *known == why) {
            Some((_, of)) => of.push(finding),
            None => said.push((why, vec![finding])),
        }
    }
    if said.is_empty() {
        return String::new();
    }
    let mut out = String::from("<h3>Why ours differ</h3><dl class=\"reasons\">");
    for (why, of) in said {
        let mut workloads: Vec<&str> = of.iter().map(|f| f.workload.as_str()).collect();
        workloads.dedup();
        let _ = write!(
            out,
            "<dt>{}: {}</dt><dd>{}</dd>",
            escape(&of[0].what),
            escape(&workloads.join(", ")),
            code(&escape(why.trim()))
        );
    }
    out.push_str("</dl>");
    out
}

/// What no run can show, and why.
fn unshown(cannot: &[Cannot]) -> String {
    let mut out = String::new();
    for Cannot { what, workload, paper, unit, cannot, .. } in cannot {
        let name = format!("{what}: {workload}, {}", show::published(*paper, unit));
        let _ = write!(out, "<dt>{}</dt><dd>{}</dd>", escape(&name), code(&escape(cannot)));
    }
    match out.is_empty() {
        true => out,
        false => format!("<h3>What no run can show</h3><dl class=\"reasons\">{out}</dl>"),
    }
}

/// What stands between backticks, as code. Takes escaped text.
fn code(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return text.to_owned();
    }
    let part = |(i, part): (usize, &&str)| match i % 2 {
        0 => (*part).to_owned(),
        _ => format!("<code>{part}</code>"),
    };
    parts.iter().enumerate().map(part).collect()
}

/// With a capital in front, unless the first word has capitals of its own.
fn capital(text: &str) -> String {
    let word = text.split(' ').next().unwrap_or_default();
    let mut letters = text.chars();
    match letters.next() {
        Some(first) if word.chars().all(char::is_lowercase) => {
            first.to_uppercase().chain(letters).collect()
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(paper: Option<[f64; 2]>, ours: f64, same_direction: Option<bool>) -> Finding {
        Finding {
            what: "gain".into(),
            workload: "Silo".into(),
            fast: "1:8".into(),
            machine: None,
            unit: "%".into(),
            paper,
            ours,
            half_width: Some(1.0),
            same_direction,
            differs: None,
        }
    }

    #[test]
    fn the_verdict_counts() {
        let findings = [
            finding(Some([10.0; 2]), 9.5, Some(true)),
            finding(Some([1.0, 3.0]), 8.0, Some(true)),
            finding(Some([4.0; 2]), -3.0, Some(false)),
            finding(Some([4.0; 2]), 0.5, None),
            finding(None, 2.0, None),
        ];
        let slight = [finding(Some([10.6; 2]), 0.2, Some(true)), findings[0].clone()];
        let text = verdict(&slight, 0);
        assert!(text.contains("same way in 1 (in 1 by less than a tenth of it)."), "{text}");
        let text = verdict(&findings, 0);
        assert!(text.contains("Of 4 published numbers"), "{text}");
        let rest = "the same way in 1, the other way in 1, neither way for sure in 1.";
        assert!(text.contains(&format!("meet 1</b>, point {rest}")), "{text}");
        assert_eq!(verdict(&findings[4..], 0), "");
        let text = verdict(&findings, 2);
        assert!(text.contains("Of 6 published") && text.contains("; 2 cannot be shown"), "{text}");
    }

    #[test]
    fn published_numbers_and_ranges_look_different() {
        let (number, range) = (
            finding(Some([10.0; 2]), 12.0, Some(true)),
            finding(Some([1.0, 3.0]), -2.0, Some(false)),
        );
        let picture = chart(&[&number, &range], "%");
        let list = &picture[..picture.find("class=\"legend\"").unwrap()];
        assert_eq!(list.matches("class=\"stroke\"").count(), 1);
        assert_eq!(list.matches("class=\"published\"").count(), 1);
        assert!(list.contains("<b>−2.0 ±1.0 %</b> <em>reversed</em>"), "{list}");
        assert!(list.contains("paper</small> 1 to 3 %"));
    }

    #[test]
    fn names_keep_their_capitals() {
        assert_eq!(capital("gain by splitting"), "Gain by splitting");
        assert_eq!(capital("rHR above rHR-NS"), "rHR above rHR-NS");
    }

    #[test]
    fn backticks_become_code() {
        assert_eq!(code("the `a &amp; b` of it"), "the <code>a &amp; b</code> of it");
        assert_eq!(code("a lone ` stays"), "a lone ` stays");
    }
}
