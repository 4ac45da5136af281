//! Circles: files that import each other in a loop.

use super::code::{Code, Names};
use super::problem::Problem;
use std::collections::BTreeSet;

/// Files of a circle, at most.
const MOST_FILES: usize = 3;

/// Circles of more files than that.
pub fn circles(code: &[Code]) -> Vec<Problem> {
    let arrows = arrows(code);
    let large = loops(&arrows).into_iter().filter(|files| files.len() > MOST_FILES);
    large
        .map(|files| {
            let inside: BTreeSet<usize> = files.iter().copied().collect();
            let ties = files.iter().flat_map(|file| {
                let to = arrows[*file].iter().filter(|to| inside.contains(to));
                to.map(|to| format!("{} -> {}", code[*file].path, code[*to].path))
            });
            let ties: Vec<String> = ties.collect();
            let what = format!(
                "a circle of {} files, {MOST_FILES} at most: {}",
                files.len(),
                ties.join(", ")
            );
            Problem { path: code[files[0]].path.clone(), line: 0, what }
        })
        .collect()
}

/// What each file imports.
fn arrows(code: &[Code]) -> Vec<BTreeSet<usize>> {
    let names = Names::new(code);
    let arrows = (0..code.len()).map(|file| {
        let mut to: BTreeSet<usize> =
            names.named_in(file).filter_map(|path| names.find(file, path)).collect();
        to.remove(&file);
        to
    });
    arrows.collect()
}

/// Loops of a graph: sets of nodes that all reach each other, of two and more (Tarjan's algorithm).
fn loops(arrows: &[BTreeSet<usize>]) -> Vec<Vec<usize>> {
    struct Search<'a> {
        arrows: &'a [BTreeSet<usize>],
        number: Vec<Option<usize>>,
        low: Vec<usize>,
        stack: Vec<usize>,
        next: usize,
        found: Vec<Vec<usize>>,
    }
    impl Search<'_> {
        fn visit(&mut self, node: usize) {
            (self.number[node], self.low[node]) = (Some(self.next), self.next);
            self.next += 1;
            self.stack.push(node);
            for &to in &self.arrows[node] {
                match self.number[to] {
                    None => {
                        self.visit(to);
                        self.low[node] = self.low[node].min(self.low[to]);
                    }
                    Some(number) if self.stack.contains(&to) => {
                        self.low[node] = self.low[node].min(number);
                    }
                    Some(_) => {}
                }
            }
            if self.number[node] == Some(self.low[node])
                && let Some(at) = self.stack.iter().position(|other| *other == node)
            {
                let mut part = self.stack.split_off(at);
                part.sort_unstable();
                if part.len() > 1 {
                    self.found.push(part);
                }
            }
        }
    }
    let mut search = Search {
        arrows,
        number: vec![None; arrows.len()],
        low: vec![0; arrows.len()],
        stack: Vec::new(),
        next: 0,
        found: Vec::new(),
    };
    for node in 0..arrows.len() {
        if search.number[node].is_none() {
            search.visit(node);
        }
    }
    search.found
}

#[cfg(test)]
mod tests {
    use super::super::code::read;
    use super::super::files::Tree;
    use super::*;

    const MANIFEST: (&str, &str) = ("crates/x/Cargo.toml", "[package]\nname = \"x-y\"\n");

    fn found(files: &[(&str, &str)]) -> usize {
        circles(&read(&Tree::of(&[files, &[MANIFEST]].concat()))).len()
    }

    #[test]
    fn files_that_import_each_other_in_a_loop() {
        let file = |name: &'static str, text: &'static str| (name, text);
        let a = file("crates/x/src/a.rs", "use crate::b::B;");
        let b = file("crates/x/src/b.rs", "fn f() { super::c::f() }");
        let c = file("crates/x/src/c.rs", "use crate::d;");
        let lib = file("crates/x/src/lib.rs", "mod a; mod b; mod c; mod d; pub use a::A;");
        let back = file("crates/x/src/d.rs", "use crate::A as Other;");
        assert_eq!(found(&[a, b, c, lib, back]), 1, "the crate hands on what `a` defines");
        let test = file("crates/x/src/d.rs", "#[cfg(test)] mod tests { use crate::a::A; }");
        assert_eq!(found(&[a, b, c, lib, test]), 0, "tests do not count");
        let short = file("crates/x/src/c.rs", "use crate::a::A;");
        assert_eq!(found(&[a, b, short, lib]), 0, "three are a family");
    }
}
