//! Rules and what they find.

use super::files::{File, Tree};
use std::fmt;

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
pub type Rule = fn(&File, &Tree, &mut Findings<'_>);

/// Runs one rule over one file of a tree made up for a test; gives the lines it complained about.
#[cfg(test)]
pub fn lines(rule: Rule, tree: &Tree, path: &str) -> Vec<usize> {
    let mut found = Vec::new();
    rule(tree.get(path).expect("a file of the tree"), tree, &mut |line, _| found.push(line));
    found
}
