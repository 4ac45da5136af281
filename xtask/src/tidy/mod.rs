//! House rules that a compiler does not know.
//!
//! A rule is a plain function from a file (or from all of them) to problems; `RULES` is the list.

mod architecture;
mod files;
mod links;
mod manifest;
mod policies;
mod text;

use anyhow::Result;
use std::fmt;
use std::path::Path;

pub use files::{File, Tree};

/// One broken rule in one place.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Relative to the repository's root.
    pub path: String,
    /// From 1; 0 where the whole file is meant.
    pub line: usize,
    /// What is wrong, and what would be right.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}

/// Where a rule puts what it finds: line (0 for the whole file) and message.
pub type Findings<'a> = dyn FnMut(usize, String) + 'a;

/// A rule about one file.
type Rule = fn(&File, &Tree, &mut Findings<'_>);

const RULES: &[Rule] = &[
    text::length,
    text::whitespace,
    text::unfinished,
    text::skips,
    text::foreign_words,
    text::licence_tag,
    text::policy_header,
    text::crate_root,
    text::unsafe_stays_put,
    text::statics_own_nothing,
    links::relative_links,
    manifest::inherits,
    manifest::layers,
    architecture::named_places,
    architecture::crates_listed,
    architecture::targets_are_entered_in_one_place,
    policies::policies_are_not_named,
];

/// Every problem of the repository at `root`, in the order of paths and lines.
pub fn check(root: &Path) -> Result<Vec<Problem>> {
    Ok(check_tree(&Tree::read(root)?))
}

fn check_tree(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in tree.files() {
        for rule in RULES {
            rule(file, tree, &mut |line, what| {
                problems.push(Problem { path: file.path.clone(), line, what });
            });
        }
    }
    problems.sort();
    problems
}

/// Runs one rule over one file of a tree made up for a test; gives the lines it complained about.
#[cfg(test)]
fn lines(rule: Rule, tree: &Tree, path: &str) -> Vec<usize> {
    let mut found = Vec::new();
    rule(tree.get(path).expect("a file of the tree"), tree, &mut |line, _| found.push(line));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_of_several_files_come_sorted_and_print_as_editors_read_them() {
        let tree = Tree::of(&[("b.md", "two  \n"), ("a.md", "one \n[x](gone.md)\n")]);
        let problems: Vec<String> = check_tree(&tree).iter().map(Problem::to_string).collect();
        assert_eq!(
            problems,
            [
                "a.md:1: white space at the end of the line",
                "a.md:2: the link to 'gone.md' leads nowhere",
                "b.md:1: white space at the end of the line",
            ]
        );
        let whole = Problem { path: "a.rs".into(), line: 0, what: "too long".into() };
        assert_eq!(whole.to_string(), "a.rs: too long");
    }
}
