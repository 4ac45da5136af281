//! The comparison as text, and where it stands in a document.

use super::{Pair, TOLERANCE_POINTS};
use anyhow::Context;
use std::fmt::Write;

const BEGIN: &str = "<!-- generated: cargo xtask lab validate -->";
const END: &str = "<!-- end of what is generated -->";

/// A line for each program and system, means over seeds; then what they come to.
pub fn markdown(pairs: &[Pair]) -> String {
    let means = Pair::means(pairs);
    let seeds = |of: &Pair| {
        let same = |pair: &&Pair| (&pair.program, &pair.system) == (&of.program, &of.system);
        pairs.iter().filter(same).count()
    };
    let mut text = String::from(
        "| program | system | seeds | fast hits: lab | simulator | points | late: lab | simulator \
         | seconds: lab | simulator | ratio | MiB moved: lab | simulator |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for pair in &means {
        let (lab, sim) = (&pair.lab, &pair.simulated);
        let percent = |share: f64| 100.0 * share;
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let mark = if pair.agrees() { "" } else { "**" };
        let _ = writeln!(
            text,
            "| {} | `{}` | {} | {:.1} | {:.1} | {mark}{:+.1}{mark} | {:.1} | {:.1} | {:.2} | {:.2} \
             | {:.2} | {:.0} | {:.0} |",
            pair.program,
            pair.system,
            seeds(pair),
            percent(lab.fast_hit_ratio),
            percent(sim.fast_hit_ratio),
            pair.points(),
            percent(lab.fast_hit_ratio_late),
            percent(sim.fast_hit_ratio_late),
            lab.seconds,
            sim.seconds,
            pair.time_ratio(),
            mib(lab.moved_bytes),
            mib(sim.moved_bytes),
        );
    }
    text.push('\n');
    text + &verdict(&means)
}

/// How many pairs agree, and how far times are apart.
fn verdict(pairs: &[Pair]) -> String {
    let agreeing = pairs.iter().filter(|pair| pair.agrees()).count();
    let all = pairs.len().max(1);
    let mut off: Vec<f64> = pairs.iter().map(|pair| pair.points().abs()).collect();
    let mut times: Vec<f64> = pairs.iter().map(|pair| (pair.time_ratio() - 1.0).abs()).collect();
    off.sort_by(f64::total_cmp);
    times.sort_by(f64::total_cmp);
    let middle = |sorted: &[f64]| sorted.get(sorted.len() / 2).copied().unwrap_or(0.0);
    format!(
        "Fast hits within {TOLERANCE_POINTS:.0} points: {agreeing} of {} pairs ({:.0} %); median \
         difference {:.1} points, the largest {:.1}. Time: median difference {:.1} %, the largest \
         {:.1} %.\n",
        pairs.len(),
        100.0 * agreeing as f64 / all as f64,
        middle(&off),
        off.last().copied().unwrap_or(0.0),
        100.0 * middle(&times),
        100.0 * times.last().copied().unwrap_or(0.0),
    )
}

/// The document with another table between its marks.
///
/// # Errors
/// Where it has no marks.
pub fn insert(document: &str, table: &str) -> anyhow::Result<String> {
    let marks = || format!("no lines `{BEGIN}` and `{END}`");
    let (before, rest) = document.split_once(BEGIN).with_context(marks)?;
    let (_, after) = rest.split_once(END).with_context(marks)?;
    Ok(format!("{before}{BEGIN}\n\n{table}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::Numbers;

    fn pair(system: &str, lab: f64, simulated: f64) -> Pair {
        let numbers = |fast_hit_ratio| Numbers {
            accesses: 100,
            fast_hit_ratio,
            fast_hit_ratio_late: fast_hit_ratio,
            seconds: 1.0 + fast_hit_ratio,
            moved_bytes: 1 << 20,
            tiering_seconds: 0.0,
        };
        Pair {
            program: "p".into(),
            system: system.into(),
            seed: 1,
            lab: numbers(lab),
            simulated: numbers(simulated),
            counters: Default::default(),
        }
    }

    #[test]
    fn differences_are_counted_and_marked() {
        let pairs = [pair("near", 0.50, 0.54), pair("far", 1.0, 0.0)];
        assert!(pairs[0].agrees() && !pairs[1].agrees());
        assert!((pairs[1].time_ratio() - 0.5).abs() < 1e-12);
        let text = markdown(&pairs);
        assert!(text.contains("| p | `near` | 1 | 50.0 | 54.0 | +4.0 |"), "{text}");
        assert!(text.contains("**-100.0**") && text.contains("1 of 2 pairs (50 %)"), "{text}");
        assert!(text.contains("the largest 100.0. Time") && text.contains("the largest 50.0 %"));
        assert!(verdict(&[]).contains("0 of 0"));
    }

    #[test]
    fn seeds_are_put_together() {
        let pairs = [pair("a", 0.2, 0.1), pair("a", 0.4, 0.5), pair("b", 0.5, 0.5)];
        let means = Pair::means(&pairs);
        assert_eq!(means.len(), 2);
        assert!((means[0].lab.fast_hit_ratio - 0.3).abs() < 1e-12 && means[0].agrees());
        let text = markdown(&pairs);
        assert!(
            text.contains("| p | `a` | 2 | 30.0 | 30.0 |") && text.contains("2 of 2"),
            "{text}"
        );
    }

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let document = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        let new = insert(&document, "table\n").expect("marks");
        assert_eq!(new, format!("a\n{BEGIN}\n\ntable\n\n{END}\nb\n"));
        assert_eq!(insert(&new, "table\n").expect("marks"), new);
        assert!(insert("nothing", "").is_err());
    }
}
