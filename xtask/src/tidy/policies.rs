//! Rule that worlds and the program name no policy, and set no parameter of one.

use super::files::{File, Tree};
use super::problem::Findings;
use std::collections::BTreeSet;

/// Where policies, and the names that the program itself uses, are declared.
const POLICIES: &str = "crates/core/src/policy/";
/// What makes an engine of a policy, or tells it what happens.
const WORLDS: [&str; 5] = [
    "crates/agent/src/",
    "crates/daemon/src/",
    "crates/driver/src/",
    "crates/linux/src/",
    "crates/sim/src/",
];
/// Names that other things have, too.
const SHARED: [&str; 1] = ["damon"];

/// Policies are named where they are, by constants of the registry, and by users.
pub fn policies_are_not_named(file: &File, tree: &Tree, found: &mut Findings<'_>) {
    let shipped = file.path.starts_with("crates/") && file.path.contains("/src/");
    let is_test = file.path.contains("test");
    if file.extension() != "rs" || !shipped || is_test || file.path.starts_with(POLICIES) {
        return;
    }
    let (names, keys) = declared(tree);
    let is_world = WORLDS.iter().any(|world| file.path.starts_with(world));
    for (number, line) in file.lines().take_while(|(_, line)| *line != "#[cfg(test)]") {
        if line.trim_start().starts_with("//") {
            continue;
        }
        let literals: Vec<&str> = line.split('"').skip(1).step_by(2).collect();
        let policy = |text: &&&str| text.split(':').next().is_some_and(|name| names.contains(name));
        if let Some(text) = literals.iter().find(policy) {
            found(number, format!("policy '{text}' is named; use a constant of the registry"));
        }
        if let Some(key) = keys.iter().find(|key| is_world && sets(line, key)) {
            found(
                number,
                format!("'{key}' is a policy's; have the policy derive it from the offer"),
            );
        }
    }
}

/// Names of policies, and keys of their parameters.
fn declared(tree: &Tree) -> (BTreeSet<&str>, BTreeSet<&str>) {
    let (mut names, mut keys) = (BTreeSet::new(), BTreeSet::new());
    for file in tree.files().filter(|file| file.path.starts_with(POLICIES)) {
        let quoted = |text: &'_ str| text.trim_start().strip_prefix('"').map(str::len);
        let first = |at: usize| {
            let rest = &file.text[at..];
            let begin = rest.len() - quoted(rest)?;
            rest[begin..].split('"').next()
        };
        let after = |what: &str| -> Vec<&str> {
            let places = file.text.match_indices(what);
            places.filter_map(|(at, _)| first(at + what.len())).collect()
        };
        names.extend(after("\n    name: ").into_iter().filter(|name| !SHARED.contains(name)));
        keys.extend(after("Param::fixed("));
        keys.extend(after("Param::scaled("));
    }
    (names, keys)
}

/// Whether a pair of this key and a value stands in a line, and is not the beginning of a call.
fn sets(line: &str, key: &str) -> bool {
    let pair = format!("(\"{key}\", \"");
    line.match_indices(&pair).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '!')
    })
}

#[cfg(test)]
mod tests {
    use super::super::problem::lines;
    use super::*;

    #[test]
    fn policies_and_their_keys_named_elsewhere() {
        let policy = "pub const ENTRY: Entry = Entry {\n    name: \"memtis\",\n    params: &[\n        \
                      Param::fixed(\n            \"adaptation\",\n";
        let world = "use x;\nlet a = \"memtis:b=1\"; // \"memtis\"\nlet b = \"of memtis\";\n\
                     // \"memtis\"\nv.push((\"adaptation\", \"2000\"));\nerror(\"adaptation\", \"x\");\n\
                     #[cfg(test)]\nlet c = \"memtis\";\n";
        let found = |path: &str| {
            let tree = Tree::of(&[("crates/core/src/policy/memtis.rs", policy), (path, world)]);
            lines(policies_are_not_named, &tree, path)
        };
        assert_eq!(found("crates/driver/src/start.rs"), [2, 5]);
        assert_eq!(found("crates/cli/src/main.rs"), [2]);
        for free in ["crates/core/src/policy/x.rs", "crates/sim/src/tests.rs", "lab/a.rs"] {
            assert_eq!(found(free), [0; 0], "{free}");
        }
    }
}
