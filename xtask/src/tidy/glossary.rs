//! Glossary: its terms are in order, and each is there once.

use super::files::{File, Tree};
use super::problem::Findings;

/// The glossary.
const GLOSSARY: &str = "docs/reference/glossary.md";

/// Terms are sorted as people sort them, and none is defined twice.
pub fn terms(file: &File, _: &Tree, found: &mut Findings<'_>) {
    if file.path != GLOSSARY {
        return;
    }
    let mut before = String::new();
    for (number, line) in file.lines() {
        let Some(term) = line.strip_prefix("**").and_then(|rest| rest.split_once("**")) else {
            continue;
        };
        let term = term.0.to_lowercase();
        if term == before {
            found(number, format!("'{term}' is defined twice"));
        } else if term < before {
            found(number, format!("'{term}' stands after '{before}'"));
        }
        before = term;
    }
}

#[cfg(test)]
mod tests {
    use super::super::problem::lines;
    use super::*;

    #[test]
    fn terms_are_in_order_and_defined_once() {
        let of = |text: &str, path: &str| lines(terms, &Tree::of(&[(path, text)]), path);
        let text =
            "**page**: 4 KiB.\nfolio\n\n**Page**: again.\n\n**arm**: to.\n\n**region**: 2 MiB.\n";
        assert_eq!(of(text, GLOSSARY), [4, 6]);
        assert_eq!(of(text, "docs/a.md"), []);
    }
}
