//! Outcome of fuzzing a target, by what libFuzzer wrote.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What came of one target.
pub struct Outcome {
    target: String,
    /// Of a processor.
    time: Duration,
    executions: u64,
    /// Places of the code that were reached.
    coverage: u64,
    /// Files.
    corpus: usize,
    /// Files with input that showed something.
    pub found: Vec<PathBuf>,
    /// What it showed.
    why: String,
}

/// Title of lines.
pub fn head() -> String {
    format!(
        "{:<12} {:>10} {:>9} {:>9} {:>7} {:>6}",
        "target", "executions", "a second", "coverage", "corpus", "finds"
    )
}

/// A table for a document: `before`, a table of earlier runs, with this one added. Rows are in order of names.
pub fn table(before: &str, outcome: &Outcome) -> String {
    let mut rows: BTreeMap<&str, Row> = before.lines().filter_map(Row::parse).collect();
    let row = rows.entry(&outcome.target).or_default();
    row.hours += outcome.time.as_secs_f64() / 3600.0;
    row.executions += outcome.executions;
    row.coverage = row.coverage.max(outcome.coverage);
    row.corpus = outcome.corpus as u64;
    row.finds += outcome.found.len() as u64;
    let mut text = "| target | hours | executions | a second | coverage | corpus | finds |\n\
        | --- | --- | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for (target, Row { hours, executions, coverage, corpus, finds }) in rows {
        let rate = executions as f64 / (hours * 3600.0).max(1e-3);
        // Writing to a string does not fail, here and below.
        let _ = writeln!(
            text,
            "| {target} | {hours:.3} | {executions} | {rate:.0} | {coverage} | {corpus} | {finds} |"
        );
    }
    text
}

/// A target in a table.
#[derive(Default)]
struct Row {
    hours: f64,
    executions: u64,
    coverage: u64,
    corpus: u64,
    finds: u64,
}

impl Row {
    /// A line of a table with the name of its target; none for the title's lines.
    fn parse(line: &str) -> Option<(&str, Self)> {
        let cells: Vec<&str> = line.strip_prefix('|')?.split('|').map(str::trim).collect();
        let [target, hours, executions, _, coverage, corpus, finds, _] = cells[..] else {
            return None;
        };
        let number = |text: &str| text.parse().ok();
        let row = Self {
            hours: hours.parse().ok()?,
            executions: number(executions)?,
            coverage: number(coverage)?,
            corpus: number(corpus)?,
            finds: number(finds)?,
        };
        Some((target, row))
    }
}

impl Outcome {
    /// By the log of a run and the time that it had a processor.
    pub fn new(
        target: &str,
        time: Duration,
        log: &str,
        corpus: usize,
        found: Vec<PathBuf>,
    ) -> Self {
        let after = |line: &str, name: &str| {
            let (_, rest) = line.split_once(name)?;
            rest.split_whitespace().next()?.parse::<u64>().ok()
        };
        let last = |name: &str| log.lines().rev().find_map(|line| after(line, name));
        let begun = log.lines().rev().find_map(|line| {
            line.strip_prefix('#')?.split_whitespace().next()?.parse::<u64>().ok()
        });
        Self {
            target: target.to_owned(),
            time,
            executions: last("number_of_executed_units:").or(begun).unwrap_or(0),
            coverage: last(" cov: ").unwrap_or(0),
            corpus,
            found,
            why: why(log),
        }
    }

    fn rate(&self) -> f64 {
        self.executions as f64 / self.time.as_secs_f64().max(1e-3)
    }

    /// In one line, below [`head`].
    pub fn line(&self) -> String {
        let (rate, finds) = (self.rate(), self.found.len());
        let Self { target, executions, coverage, corpus, .. } = self;
        format!("{target:<12} {executions:>10} {rate:>9.0} {coverage:>9} {corpus:>7} {finds:>6}")
    }

    /// What was found, and how to see it again; empty where nothing was.
    pub fn finds(&self, program: &Path) -> String {
        let mut text = String::new();
        for path in &self.found {
            let (target, path, program) = (&self.target, path.display(), program.display());
            let _ = writeln!(text, "\n{target}: {path}\n  {}", self.why.replace('\n', "\n  "));
            let _ = writeln!(text, "reproduce: FROSTLINE_FUZZ={target} {program} {path}");
        }
        text
    }
}

/// The lines of a log that say what was wrong.
fn why(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let said = |begin: &str| lines.iter().position(|line| line.contains(begin));
    if let Some(at) = said("panicked at ") {
        let end = lines[at..].iter().position(|line| line.starts_with("stack backtrace"));
        return lines[at..lines.len().min(at + end.unwrap_or(4).min(12))].join("\n");
    }
    let other = said("memory allocation of").or_else(|| said("ERROR: libFuzzer"));
    other.map_or_else(String::new, |at| lines[at].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLEAN: &str = "INFO: Seed: 1\n#2\tINITED cov: 32 ft: 32 corp: 1/1b exec/s: 0 rss: 27Mb\n\
        #1000\tDONE   cov: 36 ft: 40 corp: 4/13b lim: 4096 exec/s: 333 rss: 27Mb\n\
        Done 1000 runs in 3 second(s)\nstat::number_of_executed_units: 1001\n";
    const FOUND: &str = "#2\tINITED cov: 32 ft: 32 corp: 1/1b\n\
        #77\tNEW    cov: 33 ft: 40 corp: 4/13b lim: 4096 exec/s: 333 rss: 27Mb\n\n\
        thread '<unnamed>' (1) panicked at fuzz/src/x.rs:1:2:\nassertion failed: it\nstack backtrace:\n   0: a\n\
        ==1== ERROR: libFuzzer: deadly signal\n";

    #[test]
    fn numbers_are_those_of_the_log() {
        let clean = Outcome::new("a", Duration::from_secs(4), CLEAN, 9, Vec::new());
        assert_eq!(
            clean.line().split_whitespace().collect::<Vec<_>>(),
            ["a", "1001", "250", "36", "9", "0"]
        );
        assert_eq!(clean.finds(Path::new("p")), "");
    }

    #[test]
    fn a_table_adds_to_what_it_has() {
        let run = |target, executions| Outcome {
            target: String::from(target),
            time: Duration::from_mins(30),
            executions,
            coverage: executions % 1000,
            corpus: 9,
            found: Vec::new(),
            why: String::new(),
        };
        let first = table(&table("", &run("b", 3_600_036)), &run("a", 1800));
        assert!(
            first.ends_with(
                "| a | 0.500 | 1800 | 1 | 800 | 9 | 0 |\n| b | 0.500 | 3600036 | 2000 | 36 | 9 | 0 |\n"
            ),
            "{first}"
        );
        let second = table(&first, &run("a", 9000));
        assert!(second.contains("| a | 1.000 | 10800 | 3 | 800 | 9 | 0 |\n"), "{second}");
        assert!(second.ends_with("| b | 0.500 | 3600036 | 2000 | 36 | 9 | 0 |\n"), "{second}");
    }

    #[test]
    fn a_find_is_told_with_its_reason_and_how_to_see_it_again() {
        let found = Outcome::new("a", Duration::from_secs(1), FOUND, 9, vec!["f/crash-1".into()]);
        assert_eq!((found.executions, found.coverage), (77, 33));
        let text = found.finds(Path::new("/p"));
        assert!(text.contains("x.rs:1:2:\n  assertion failed: it\n"), "{text}");
        assert!(text.ends_with("reproduce: FROSTLINE_FUZZ=a /p f/crash-1\n"), "{text}");
        let memory =
            "memory allocation of 17 bytes failed\n==1== ERROR: libFuzzer: deadly signal\n";
        assert_eq!(why(memory), "memory allocation of 17 bytes failed");
        assert_eq!(
            why("x\n==1== ERROR: libFuzzer: timeout after 10\n"),
            "==1== ERROR: libFuzzer: timeout after 10"
        );
    }
}
