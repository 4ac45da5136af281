//! Rule that links between documents lead somewhere.

use super::files::{File, Tree};
use super::problem::Findings;

/// Relative links of Markdown files name a file or folder that is there, and a heading that is in
/// it where they name one.
pub fn relative_links(file: &File, tree: &Tree, found: &mut Findings<'_>) {
    if file.extension() != "md" {
        return;
    }
    for (number, line) in outside_fences(file) {
        for target in targets(line) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            let Some(path) = resolve(&file.path, path) else {
                found(number, format!("the link to '{target}' leads out of the repository"));
                continue;
            };
            let known = tree.contains(&path)
                && (heading.is_empty() || tree.get(&path).is_some_and(|f| has_heading(f, heading)));
            if !known {
                found(number, format!("the link to '{target}' leads nowhere"));
            }
        }
    }
}

/// Lines that are not inside fenced blocks of code.
fn outside_fences(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let mut inside = false;
    file.lines().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        !inside && !fence
    })
}

/// What follows each `](` up to the closing parenthesis, outside inline code.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("](").filter_map(move |(at, open)| {
        let in_code = line[..at].matches('`').count() % 2 == 1;
        let rest = &line[at + open.len()..];
        rest.find(')').filter(|_| !in_code).map(|end| &rest[..end])
    })
}

/// Path from the root of what `link` means in the file at `from`; none where it leaves the root.
fn resolve(from: &str, link: &str) -> Option<String> {
    if link.is_empty() {
        return Some(from.to_owned());
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Whether a heading's anchor is `anchor`: lower case, spaces as hyphens, punctuation dropped.
fn has_heading(file: &File, anchor: &str) -> bool {
    outside_fences(file).any(|(_, line)| {
        let title = line.trim_start_matches('#');
        let slug: String = title
            .trim()
            .chars()
            .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c))
            .map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() })
            .collect();
        title.len() < line.len() && slug == anchor
    })
}

#[cfg(test)]
mod tests {
    use super::super::problem::lines;
    use super::*;

    #[test]
    fn links_to_files_folders_and_headings() {
        let tree = Tree::of(&[
            (
                "docs/a.md",
                "[up](../README.md)\n[folder](formats/)\n[gone](b.md)\n[out](../../x)\n\
                 [web](https://example.org/x)\n```\n[code](gone)\n```\n`[c](gone)`\n\
                 [h](../README.md#how-it-works)\n[h](../README.md#not-there)\n[own](#me)\n# Me\n",
            ),
            ("docs/formats/f.md", "x\n"),
            ("README.md", "# How `it` works\n"),
        ]);
        assert_eq!(lines(relative_links, &tree, "docs/a.md"), [3, 4, 11]);
    }

    #[test]
    fn paths_are_resolved_from_the_file_they_stand_in() {
        assert_eq!(resolve("a/b.md", "../c/./d").as_deref(), Some("c/d"));
        assert_eq!(resolve("b.md", "c").as_deref(), Some("c"));
        assert_eq!(resolve("b.md", "").as_deref(), Some("b.md"));
        assert_eq!(resolve("b.md", "../c"), None);
    }
}
