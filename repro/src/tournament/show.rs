//! Standings as text for people, and as a table between marks of a document.

use super::results::{Case, Settings};
use super::standings::Standing;
use frostline_report::table::Table;
use frostline_terminal::errors::failure;
use std::fmt::Write;

const BEGIN: &str = "<!-- generated: frostline-repro tournament -->";
const END: &str = "<!-- end of what is generated -->";

const HEADINGS: [&str; 9] = [
    "by",
    "",
    "cases",
    "regret",
    "worst",
    "within 1 %",
    "> 3 % worse than none",
    "of bound",
    "samples a page",
];

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Regret with its sign: negative is faster than the best rival.
pub fn signed(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

fn cells(one: &Standing) -> Vec<String> {
    vec![
        one.by.to_owned(),
        one.group.clone(),
        one.cases.to_string(),
        signed(one.regret_mean),
        signed(one.regret_worst),
        percent(one.near_best_share),
        one.harmful.to_string(),
        one.share_of_bound_mean.map_or_else(|| "-".to_owned(), percent),
        format!("{:.2}", one.samples_per_page_median),
    ]
}

/// Standings, the worst cases with what repeats them, and what did not play.
///
/// # Errors
/// A case whose size cannot be read.
pub fn text(
    settings: &Settings,
    standings: &[Standing],
    worst: &[&Case],
    missing: &[String],
) -> anyhow::Result<String> {
    let mut table = Table::new(&HEADINGS).left(2);
    standings.iter().for_each(|one| table.row(cells(one)));
    let mut out = format!("{} against the best of {}\n\n", settings.policy, against(settings));
    out += &table.show(0);
    let _ = writeln!(out, "\nWorst cases:");
    for case in worst {
        let _ = writeln!(out, "  {}: {}", signed(case.regret()), name(case));
        let _ = writeln!(out, "    {}", case.command(settings)?);
    }
    if !missing.is_empty() {
        let _ = writeln!(out, "\nMissing recorded programs: {}", missing.join(", "));
    }
    Ok(out)
}

fn against(settings: &Settings) -> String {
    let pages = if settings.as_is { "pages of their own" } else { "folios or base pages" };
    format!(
        "{} policies with {pages}, chosen on {} and compared on {} other seeds",
        settings.rivals.len(),
        settings.choice_seeds,
        settings.compare_seeds
    )
}

/// A case by name, and the rival that it is compared with.
fn name(case: &Case) -> String {
    let tlb = if case.tlb { "" } else { ", TLB off" };
    let Case { trace, fast, machine, rival, .. } = case;
    format!(
        "{trace} at {fast} on {machine}{tlb}; {} with {} is the best",
        rival.policy, rival.pages
    )
}

/// The same for a document.
pub fn markdown(settings: &Settings, standings: &[Standing], worst: &[&Case]) -> String {
    let row = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut out = format!(
        "`{}` against the best of {}; form {}.\n\n",
        settings.policy,
        against(settings),
        settings.form
    );
    out += &row(&HEADINGS.map(str::to_owned));
    out += &row(&HEADINGS.map(|_| "---".to_owned()));
    standings.iter().for_each(|one| out += &row(&cells(one)));
    out += "\n| worst cases | fast | machine | TLB | regret | best rival | with |\n";
    out += &row(&["---"; 7].map(str::to_owned));
    for case in worst {
        out += &row(&[
            format!("`{}`", case.trace),
            case.fast.clone(),
            format!("`{}`", case.machine),
            if case.tlb { "on" } else { "off" }.to_owned(),
            signed(case.regret()),
            format!("`{}`", case.rival.policy),
            case.rival.pages.to_string(),
        ]);
    }
    out
}

/// The document with another table between its marks.
///
/// # Errors
/// Where it has no marks.
pub fn insert(document: &str, table: &str) -> anyhow::Result<String> {
    let parts = document
        .split_once(BEGIN)
        .and_then(|(before, rest)| rest.split_once(END).map(|(_, after)| (before, after)));
    let Some((before, after)) = parts else {
        let hint = format!("put the lines `{BEGIN}` and `{END}` where the table belongs");
        return Err(failure("the document has no place for the table", hint));
    };
    Ok(format!("{before}{BEGIN}\n\n{table}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::super::results::testing::{case, settings};
    use super::super::standings::standings;
    use super::*;

    #[test]
    fn worst_cases_are_named_with_what_repeats_them() {
        let case = case("dram-cxl", "1:2", 2.2);
        let all = standings(&[&case]);
        let text = text(&settings(), &all, &[&case], &["redis".to_owned()]).expect("sizes");
        for part in [
            "chosen on 2 and compared on 3 other seeds",
            "+10.0 %: synth:zipf at 1:2 on dram-cxl; memtis with base pages is the best",
            "    frostline compare synth:zipf:seed=1001 -p frost",
            "Missing recorded programs: redis",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }

    #[test]
    fn a_table_stands_between_marks() {
        let case = case("dram-cxl", "1:2", 2.2);
        let table = markdown(&settings(), &standings(&[&case]), &[&case]);
        let document = format!("a\n\n{BEGIN}\n\nold\n\n{END}\n\nz\n");
        let new = insert(&document, &table).expect("marks");
        assert!(new.starts_with("a\n") && new.ends_with("z\n") && !new.contains("old"));
        assert_eq!(insert(&new, &table).expect("marks"), new);
        let widths: Vec<usize> = table
            .lines()
            .filter(|line| line.starts_with("| "))
            .map(|line| line.matches('|').count())
            .collect();
        assert!(widths.iter().all(|width| [8, 10].contains(width)), "{table}");
        let error = insert("a\n", &table).expect_err("no marks");
        assert!(frostline_terminal::errors::text(&error).contains("hint:"));
    }
}
