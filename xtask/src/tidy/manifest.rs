//! Rules about `Cargo.toml` files.

use super::files::{File, Tree};
use super::problem::Findings;
use toml::{Table, Value};

/// Fields of `[package]` that every crate takes from the workspace.
const INHERITED: &[&str] = &["version", "edition", "rust-version", "license", "authors"];
const DEPENDENCIES: &[&str] = &["dependencies", "dev-dependencies", "build-dependencies"];

/// Which of our crates each may name. Dependencies point inward, and the product names no laboratory;
/// what does not stand here may name everything.
const LAYERS: &[(&str, &[&str])] = &[
    ("frostline-core", &[]),
    ("frostline-daemon", &["frostline-core"]),
    ("frostline-trace", &["frostline-core"]),
    ("frostline-workloads", &["frostline-core", "frostline-trace"]),
    ("frostline-parquet", &["frostline-core", "frostline-trace"]),
    ("frostline-record", &["frostline-core", "frostline-trace"]),
    ("frostline-bound", &["frostline-core", "frostline-trace"]),
    ("frostline-sim", &["frostline-core", "frostline-daemon", "frostline-trace"]),
    (
        "frostline-study",
        &[
            "frostline-core",
            "frostline-trace",
            "frostline-workloads",
            "frostline-bound",
            "frostline-sim",
        ],
    ),
    (
        "frostline-py",
        &[
            "frostline-core",
            "frostline-trace",
            "frostline-workloads",
            "frostline-profile",
            "frostline-sim",
            "frostline-study",
        ],
    ),
    (
        "frostline-report",
        &[
            "frostline-core",
            "frostline-trace",
            "frostline-profile",
            "frostline-sim",
            "frostline-study",
        ],
    ),
    ("frostline-disasters", &["frostline-core", "frostline-daemon"]),
    ("frostline-linux", &["frostline-core"]),
    ("frostline-inprocess", &["frostline-core", "frostline-linux"]),
    (
        "frostline-driver",
        &["frostline-core", "frostline-daemon", "frostline-linux", "frostline-inprocess"],
    ),
    (
        "frostline-agent",
        &["frostline-core", "frostline-linux", "frostline-inprocess", "frostline-driver"],
    ),
    (
        "frostline-terminal",
        &[
            "frostline-core",
            "frostline-trace",
            "frostline-sim",
            "frostline-study",
            "frostline-linux",
            "frostline-driver",
        ],
    ),
    ("frostline-serve", &["frostline-core", "frostline-linux", "frostline-driver"]),
    (
        "frostline",
        &[
            "frostline-core",
            "frostline-trace",
            "frostline-workloads",
            "frostline-parquet",
            "frostline-record",
            "frostline-profile",
            "frostline-bound",
            "frostline-sim",
            "frostline-study",
            "frostline-report",
            "frostline-linux",
            "frostline-inprocess",
            "frostline-driver",
            "frostline-serve",
            "frostline-terminal",
        ],
    ),
    ("frostline-kubernetes", &["frostline-driver", "frostline-terminal"]),
    (
        "frostline-repro",
        &[
            "frostline-core",
            "frostline-daemon",
            "frostline-trace",
            "frostline-workloads",
            "frostline-record",
            "frostline-profile",
            "frostline-sim",
            "frostline-study",
            "frostline-report",
            "frostline-linux",
            "frostline-terminal",
        ],
    ),
];

/// A member of this workspace, parsed.
fn member(file: &File) -> Option<Result<Table, toml::de::Error>> {
    let is_member = file.name() == "Cargo.toml"
        && (file.path.starts_with("crates/")
            || ["demo/", "disasters/", "fuzz/", "lab/", "repro/", "xtask/"]
                .iter()
                .any(|f| file.path.starts_with(f)));
    is_member.then(|| file.text.parse())
}

fn from_workspace(value: Option<&Value>) -> bool {
    value.and_then(|v| v.get("workspace")).and_then(Value::as_bool) == Some(true)
}

/// What is the same for all crates is said once, in the workspace.
pub fn inherits(file: &File, _: &Tree, found: &mut Findings<'_>) {
    let Some(manifest) = member(file) else { return };
    let manifest = match manifest {
        Ok(manifest) => manifest,
        Err(error) => return found(0, format!("cannot be parsed: {error}")),
    };
    let package = manifest.get("package");
    for field in INHERITED {
        if !from_workspace(package.and_then(|p| p.get(field))) {
            found(0, format!("'{field}' is not taken from the workspace"));
        }
    }
    if package.and_then(|p| p.get("description")).is_none() {
        found(0, "no description".to_owned());
    }
    if !from_workspace(manifest.get("lints")) {
        found(0, "the lints are not taken from the workspace".to_owned());
    }
    for (name, value) in dependencies(&manifest) {
        if !from_workspace(Some(value)) {
            found(0, format!("dependency '{name}' is not taken from the workspace"));
        }
    }
}

/// Dependencies between our crates point inward: towards the core, never out of it.
pub fn layers(file: &File, _: &Tree, found: &mut Findings<'_>) {
    let Some(Ok(manifest)) = member(file) else { return };
    let name = manifest.get("package").and_then(|p| p.get("name")).and_then(Value::as_str);
    let Some((_, allowed)) = LAYERS.iter().find(|(layer, _)| Some(*layer) == name) else { return };
    let Some(dependencies) = manifest.get("dependencies").and_then(Value::as_table) else { return };
    for used in dependencies.keys().filter(|used| used.starts_with("frostline")) {
        if !allowed.contains(&used.as_str()) {
            found(0, format!("may not depend on '{used}': dependencies point inward"));
        }
    }
}

fn dependencies(manifest: &Table) -> impl Iterator<Item = (&String, &Value)> {
    DEPENDENCIES.iter().filter_map(|kind| manifest.get(*kind)?.as_table()).flatten()
}

#[cfg(test)]
mod tests {
    use super::super::problem::lines;
    use super::*;

    const GOOD: &str = "[package]\nname = \"frostline-trace\"\ndescription = \"x\"\n\
        version.workspace = true\nedition.workspace = true\nrust-version.workspace = true\n\
        license.workspace = true\nauthors.workspace = true\n[lints]\nworkspace = true\n\
        [dependencies]\nfrostline-core.workspace = true\n";

    fn check(rule: super::super::problem::Rule, text: &str) -> usize {
        let path = "crates/x/Cargo.toml";
        lines(rule, &Tree::of(&[(path, text)]), path).len()
    }

    #[test]
    fn what_is_common_comes_from_the_workspace() {
        assert_eq!(check(inherits, GOOD), 0);
        assert_eq!(check(inherits, &GOOD.replace("edition.workspace = true\n", "")), 1);
        assert_eq!(check(inherits, &GOOD.replace("[lints]\nworkspace = true\n", "")), 1);
        assert_eq!(check(inherits, &GOOD.replace("description = \"x\"\n", "")), 1);
        assert_eq!(check(inherits, &format!("{GOOD}serde = \"1\"\n")), 1);
        assert_eq!(check(inherits, &format!("{GOOD}serde = {{ workspace = true }}\n")), 0);
        assert_eq!(check(inherits, "[package"), 1);
    }

    #[test]
    fn dependencies_point_inward() {
        assert_eq!(check(layers, GOOD), 0);
        assert_eq!(check(layers, &format!("{GOOD}frostline-sim.workspace = true\n")), 1);
        let core = GOOD.replace("frostline-trace", "frostline-core");
        assert_eq!(check(layers, &core), 1);
        let dev = format!("{GOOD}[dev-dependencies]\nfrostline-sim.workspace = true\n");
        assert_eq!(check(layers, &dev), 0, "tests may look outward");
    }

    #[test]
    fn the_workspace_itself_is_left_alone() {
        let tree = Tree::of(&[("Cargo.toml", "[package]\n")]);
        assert_eq!(lines(inherits, &tree, "Cargo.toml"), []);
    }
}
