//! Rules that keep ARCHITECTURE.md true.

use super::files::{File, Tree};
use super::problem::Findings;

const DOCUMENT: &str = "ARCHITECTURE.md";
/// Where a target may be stopped and given code, and what does so.
const ENTERED_IN: [&str; 2] = ["crates/inprocess/src/inject/", "crates/inprocess/src/sys/"];
const ENTERS: [&str; 3] = ["ptrace::", "process_vm_writev", "/mem\""];

/// Files and folders that it names are there.
pub fn named_places(file: &File, tree: &Tree, found: &mut Findings<'_>) {
    if file.path != DOCUMENT {
        return;
    }
    for (number, line) in file.lines() {
        for name in line.split('`').skip(1).step_by(2).filter(|name| is_place(name)) {
            if !exists(tree, name) {
                found(number, format!("there is no '{name}'"));
            }
        }
    }
}

/// A path from the root, or from the crates' folder, or the end of one.
fn is_place(name: &str) -> bool {
    let is_path = name.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    is_path && (name.ends_with(".rs") || name.contains('/'))
}

fn exists(tree: &Tree, name: &str) -> bool {
    let (inner, last) = (format!("/{}/", name.trim_end_matches('/')), format!("/{name}"));
    tree.files().any(|file| {
        let path = format!("/{}", file.path);
        path.ends_with(&last) || path.contains(&inner)
    })
}

/// Each invariant says what checks it, or that no program does.
pub fn invariants_are_checked(file: &File, _: &Tree, found: &mut Findings<'_>) {
    if file.path != DOCUMENT {
        return;
    }
    let mut lines = file.lines().peekable();
    while let Some((number, line)) = lines.next() {
        if !line.starts_with("**Architecture invariant:**") {
            continue;
        }
        let mut text = line.to_owned();
        while let Some((_, more)) = lines.next_if(|(_, line)| !line.is_empty()) {
            text = text + " " + more;
        }
        if !["Checked by ", "Not checked by a program"].iter().any(|says| text.contains(says)) {
            found(number, "does not say what checks this invariant".to_owned());
        }
    }
}

/// It says of each crate what it is.
pub fn crates_listed(file: &File, tree: &Tree, found: &mut Findings<'_>) {
    if file.path != DOCUMENT {
        return;
    }
    for manifest in tree.files() {
        let Some(folder) = manifest.path.strip_suffix("/Cargo.toml") else { continue };
        let row = |line: &str| line.starts_with('|') && line.contains(&format!("`{folder}`"));
        if !file.lines().any(|(_, line)| row(line)) {
            found(0, format!("the table has no row for '{folder}'"));
        }
    }
}

/// A target is stopped and given code in one place.
pub fn targets_are_entered_in_one_place(file: &File, _: &Tree, found: &mut Findings<'_>) {
    let shipped = file.path.starts_with("crates/") && file.path.contains("/src/");
    let is_test = file.path.contains("tests");
    if file.extension() != "rs" || !shipped || is_test {
        return;
    }
    if ENTERED_IN.iter().any(|folder| file.path.starts_with(folder)) {
        return;
    }
    for (number, line) in file.lines() {
        if let Some(call) = ENTERS.iter().find(|call| line.contains(*call)) {
            found(number, format!("'{call}': targets are entered by {} alone", ENTERED_IN[0]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::problem::lines;
    use super::*;

    #[test]
    fn places_that_are_gone() {
        let text = "`crates/a` has `b.rs`, `x/`\nand `a/src/b.rs`\nnot `c.rs`\nor `gone/b.rs`\n\
                    `make test`, `1:8`, `and/or this`, `Moved`\n";
        let tree = Tree::of(&[(DOCUMENT, text), ("crates/a/src/b.rs", ""), ("crates/a/x/y", "")]);
        assert_eq!(lines(named_places, &tree, DOCUMENT), [3, 4]);
    }

    #[test]
    fn invariants_that_nothing_checks() {
        let text = "**Architecture invariant:** a.\n\n**Architecture invariant:** b\nc. Checked by d.\n\n\
                    **Architecture invariant:** e. Not checked by a program.\n";
        let tree = Tree::of(&[(DOCUMENT, text)]);
        assert_eq!(lines(invariants_are_checked, &tree, DOCUMENT), [1]);
    }

    #[test]
    fn crates_without_a_row() {
        let text = "| `crates/a` | x |\n`crates/b`\n";
        let tree = Tree::of(&[
            (DOCUMENT, text),
            ("Cargo.toml", ""),
            ("crates/a/Cargo.toml", ""),
            ("crates/b/Cargo.toml", ""),
        ]);
        assert_eq!(lines(crates_listed, &tree, DOCUMENT), [0]);
    }

    #[test]
    fn targets_entered_elsewhere() {
        let text = "use crate::sys::ptrace::Stopped;\nlet x = format!(\"/proc/{pid}/mem\");\nok\n";
        for (path, wrong) in [
            ("crates/driver/src/a.rs", &[1, 2][..]),
            ("crates/inprocess/src/inject/load.rs", &[]),
            ("crates/inprocess/src/sys/ptrace.rs", &[]),
            ("crates/linux/src/a_tests.rs", &[]),
            ("crates/cli/tests/safety/a.rs", &[]),
        ] {
            let tree = Tree::of(&[(path, text)]);
            assert_eq!(lines(targets_are_entered_in_one_place, &tree, path), wrong, "{path}");
        }
    }
}
