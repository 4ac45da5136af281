//! House rules that a compiler does not know.
//!
//! A rule is a plain function from a file (or from all of them) to problems; `RULES` is the list.

mod architecture;
mod circles;
mod code;
mod files;
mod glossary;
mod links;
mod manifest;
mod policies;
mod problem;
mod shape;
mod text;

use anyhow::Result;
use files::Tree;
use problem::{Problem, Rule};
use std::path::Path;

const RULES: &[Rule] = &[
    text::length,
    text::whitespace,
    text::unfinished,
    text::skips,
    text::foreign_words,
    text::licence_tag,
    text::policy_header,
    text::noun_header,
    text::crate_root,
    text::unsafe_stays_put,
    text::statics_own_nothing,
    glossary::terms,
    links::relative_links,
    manifest::inherits,
    manifest::layers,
    architecture::named_places,
    architecture::crates_listed,
    architecture::invariants_are_checked,
    architecture::targets_are_entered_in_one_place,
    policies::policies_are_not_named,
];

/// Every problem of the repository at `root`, in the order of paths and lines.
pub fn check(root: &Path) -> Result<Vec<Problem>> {
    let tree = Tree::read(root)?;
    let mut problems = check_tree(&tree);
    problems.extend(structure(&tree));
    problems.sort();
    Ok(problems)
}

/// Problems of how files and types hang together.
fn structure(tree: &Tree) -> Vec<Problem> {
    let code = code::read(tree);
    let mut problems = circles::circles(&code);
    problems.extend(shape::shapes(&code));
    problems
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
