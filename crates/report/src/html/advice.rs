//! Advice: slowdown by size of fast memory, with what is accepted and what that takes.

use super::document;
use super::palette::Palette;
use super::plot::{Entry, Plot, legend};
use super::svg::{Unit, data, escape, frame, number, round_up, table};
use crate::units::{bytes, percent};
use frostline_study::advise::{Advice, Answer};

const PERCENT: Unit = Unit { divisor: 0.01, name: "%" };
/// Largest slowdown that is drawn, by the largest that is accepted.
const SHOWN: f64 = 2.5;

/// Advice for a machine.
pub struct Advised<'a> {
    /// The machine.
    pub machine: &'a str,
    /// By policy.
    pub policies: Vec<&'a Advice>,
}

/// The report: a chart for each machine. `based_on` says what the numbers come from, and what they leave out; text.
pub fn advice(of: &str, machines: &[Advised<'_>], based_on: &str) -> String {
    let all = || machines.iter().flat_map(|machine| &machine.policies);
    let palette = Palette::new(all().map(|advice| advice.policy.as_str()));
    let footprint = all().map(|advice| advice.footprint_bytes).max().unwrap_or(0);
    let lead = format!("{} of memory: <code>{}</code>", bytes(footprint as f64), escape(of));
    let body: String = machines.iter().map(|machine| section(machine, &palette)).collect();
    let notes =
        format!("<section><h2>What these numbers are</h2><p>{}</p></section>", escape(based_on));
    let heading = "How much fast memory does it need?";
    document(of, heading, &lead, &(body + &notes))
}

fn section(machine: &Advised<'_>, palette: &Palette) -> String {
    let verdict: String = machine.policies.iter().map(|advice| verdict(advice)).collect();
    format!(
        "<section><h2><code>{}</code></h2><div class=\"verdict\"><ul>{verdict}</ul></div>{}{}</section>\n",
        escape(machine.machine),
        chart(machine, palette),
        answers(machine)
    )
}

/// The answer for the least slowdown that has one.
fn verdict(advice: &Advice) -> String {
    let policy = escape(&advice.policy);
    let best = advice.answers.iter().filter(|answer| answer.size.is_some());
    match best.min_by(|a, b| a.goal.total_cmp(&b.goal)) {
        Some(&Answer { goal, size: Some(size), .. }) => format!(
            "<li><b>{}</b> of fast memory ({}) is enough under <b>{policy}</b> for {} at most.</li>",
            bytes(size * advice.footprint_bytes as f64),
            percent(size),
            percent(goal)
        ),
        _ => format!("<li>No size is enough under <b>{policy}</b>.</li>"),
    }
}

fn chart(machine: &Advised<'_>, palette: &Palette) -> String {
    let goals = || machine.policies.iter().flat_map(|advice| &advice.answers);
    let most = goals().map(|answer| answer.goal).fold(0.0, f64::max) * SHOWN;
    let points = || machine.policies.iter().flat_map(|advice| advice.curve.points());
    let worst = points().map(|(_, loss)| *loss).fold(0.0, f64::max).min(most);
    let step = round_up(worst / 5.0);
    let top = (worst / step).ceil().max(1.0) * step;
    let mut plot = Plot::new(280.0, [0.0, 1.02], [0.0, top]);
    plot.x_axis(PERCENT, "fast memory (% of the footprint)", number);
    plot.y_axis(PERCENT, "slower by (%)", number);
    let mut accepted: Vec<f64> = goals().map(|answer| answer.goal).collect();
    accepted.sort_by(f64::total_cmp);
    accepted.dedup();
    accepted.iter().filter(|goal| **goal <= top).for_each(|goal| plot.limit(*goal));
    let looks: Vec<_> =
        machine.policies.iter().map(|advice| palette.look(&advice.policy)).collect();
    let mut entries = Vec::new();
    for (i, (advice, look)) in machine.policies.iter().zip(&looks).enumerate() {
        let below = |&(share, loss): &(f64, f64)| (share, loss.clamp(0.0, top));
        let line: Vec<(f64, f64)> = advice.curve.points().iter().map(below).collect();
        plot.curve(&look.stroke, &line, &advice.policy, Some(i + 1));
        for answer in advice.answers.iter().filter(|answer| answer.goal <= top) {
            if let Some(size) = answer.size {
                let (low, high) = answer.interval.unwrap_or((Some(size), Some(size)));
                let [low, high] = [low, high].map(|end| end.unwrap_or(1.0));
                plot.interval(&look.fill, [low.min(size), size, high.max(size)], answer.goal);
            }
        }
        entries.push(Entry::Line(&look.stroke, Some(i + 1), advice.policy.as_str()));
    }
    let headings = ["policy", "fast memory", "share", "slower by"].map(str::to_owned);
    let row = |advice: &Advice, &(share, loss): &(f64, f64)| {
        let size = bytes(share * advice.footprint_bytes as f64);
        vec![advice.policy.clone(), size, percent(share), percent(loss)]
    };
    let rows: Vec<Vec<String>> = machine
        .policies
        .iter()
        .flat_map(|advice| advice.curve.points().iter().map(|point| row(advice, point)))
        .collect();
    let explained = "Dashed lines are what is accepted; dots, and the intervals that hold them in 95 of 100 cases, the \
         sizes from which on no more is lost.";
    let description =
        format!("{} policies, {} replays or steps", machine.policies.len(), rows.len());
    frame(
        "Slowdown by size of fast memory",
        explained,
        &(plot.show("Slowdown by size of fast memory", &description)
            + &legend(&entries)
            + &data(&headings, &rows)),
    )
}

fn answers(machine: &Advised<'_>) -> String {
    let headings = ["policy", "slower by", "fast memory", "share", "95 %"].map(str::to_owned);
    let row = |advice: &Advice, answer: &Answer| {
        let of = |share: f64| bytes(share * advice.footprint_bytes as f64);
        let end = |share: Option<f64>| share.map_or("all".to_owned(), of);
        let interval = answer.interval.map_or("too short to tell".to_owned(), |(low, high)| {
            format!("{} to {}", end(low), end(high))
        });
        let (size, share) = match answer.size {
            Some(size) => (of(size), percent(size)),
            None => ("more than there is".to_owned(), String::new()),
        };
        let goal = format!("{} at most", percent(answer.goal));
        vec![advice.policy.clone(), goal, size, share, interval]
    };
    let rows: Vec<Vec<String>> = machine
        .policies
        .iter()
        .flat_map(|advice| advice.answers.iter().map(|answer| row(advice, answer)))
        .collect();
    table(&headings, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_study::advise::Curve;

    fn advised(policy: &str) -> Advice {
        let answer = |goal, size| Answer {
            goal,
            size,
            is_least: false,
            interval: size.map(|size| (Some(size - 0.1), None)),
        };
        Advice {
            policy: policy.to_owned(),
            footprint_bytes: 1 << 30,
            part: None,
            curve: Curve::new(vec![(0.25, 0.3), (0.5, 0.05), (1.0, 0.01)]),
            answers: vec![answer(0.001, None), answer(0.05, Some(0.5))],
            replays: 3,
        }
    }

    #[test]
    fn a_chart_marks_what_is_accepted_and_what_it_takes() {
        let (a, b) = (advised("<a>"), advised("b"));
        let page =
            advice("t.flt", &[Advised { machine: "m", policies: vec![&a, &b] }], "a <model>");
        assert_eq!(page.matches("class=\"limit\"").count(), 2, "{page}");
        assert_eq!(page.matches("class=\"whisker\"").count(), 2, "an answer has an interval");
        assert_eq!(page.matches("<path class=\"curve s").count(), 4, "lines and their legend");
        assert!(page.contains("more than there is") && page.contains("512.0 MiB"));
        assert!(page.contains("&lt;a&gt;") && page.contains("a &lt;model&gt;"));
        assert!(!page.contains("<a>"));
    }
}
