//! Targets of the daemon, from pods' annotations.

use crate::groups::Groups;
use crate::pods::Pod;
use frostline_driver::Options;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Before the name of each of our annotations.
pub const PREFIX: &str = "frostline.dev/";
/// What pods may ask for: names of annotations, and the keys of a target that they are. What concerns the node or other
/// pods (tiers, sources of samples, priorities) is its operator's.
const ASKED: [(&str, &str); 5] = [
    ("max-slowdown", "max_slowdown"),
    ("fast", "fast"),
    ("min-fast", "min_fast"),
    ("policy", "policy"),
    ("cpu-limit", "cpu_limit"),
];
/// Bytes of a target's name.
const LONGEST_NAME: usize = 128;

/// A target as it stands in the file.
#[derive(Serialize)]
struct Target {
    name: String,
    cgroup: String,
    #[serde(flatten)]
    asked: BTreeMap<&'static str, String>,
}

#[derive(Serialize)]
struct File {
    target: Vec<Target>,
}

/// What is to be written and said.
#[derive(Debug, Default)]
pub struct Targets {
    /// The file.
    pub text: String,
    /// Targets in it.
    pub count: usize,
    /// What is wrong with pods.
    pub remarks: BTreeSet<String>,
    /// Whether a pod has no control group yet.
    pub waiting: bool,
}

impl Targets {
    /// Those of the pods that ask for it and have a group, which the daemon finds below `root`.
    pub fn of(pods: &[Pod], groups: &Groups, root: &Path) -> Self {
        let mut found = Self::default();
        let mut targets = Vec::new();
        for pod in pods.iter().filter(|pod| !pod.is_over()) {
            match asked_of(pod) {
                Err(wrong) => {
                    found.remarks.insert(format!("{} is not tiered: {wrong}", pod.full_name()));
                }
                Ok(asked) if asked.is_empty() => {}
                Ok(asked) => match groups.get(pod.group_id()) {
                    None => found.waiting = true,
                    Some(group) => {
                        let cgroup = root.join(group).to_string_lossy().into_owned();
                        targets.push(Target { name: name_of(pod), cgroup, asked });
                    }
                },
            }
        }
        targets.sort_by(|a, b| a.name.cmp(&b.name));
        found.count = targets.len();
        let text = toml::to_string(&File { target: targets });
        found.text = text.unwrap_or_else(|error| unreachable!("text and tables alone: {error}"));
        found
    }
}

/// Keys and values that a pod asks for; none where it asks for nothing.
fn asked_of(pod: &Pod) -> Result<BTreeMap<&'static str, String>, String> {
    let mut asked = BTreeMap::new();
    let mut options = Options::default();
    for (name, value) in &pod.metadata.annotations {
        let Some(name) = name.strip_prefix(PREFIX) else { continue };
        let known = ASKED.iter().find(|(known, _)| *known == name);
        let Some(&(_, key)) = known else {
            let known = ASKED.map(|(name, _)| name).join(", ");
            return Err(format!("no annotation {PREFIX}{name}; known: {known}"));
        };
        let set = options.set_words(key, std::slice::from_ref(value));
        set.map_err(|error| format!("{PREFIX}{name}: {}", error.what))?;
        asked.insert(key, value.clone());
    }
    Ok(asked)
}

/// Name of the target. One that would be too long keeps its beginning and has the pod's uid.
fn name_of(pod: &Pod) -> String {
    let name = pod.full_name();
    if name.len() <= LONGEST_NAME {
        return name;
    }
    let uid = &pod.metadata.uid;
    // Names of the cluster are ASCII.
    let kept: String = name.chars().take(LONGEST_NAME - 1 - uid.len()).collect();
    format!("{kept}-{uid}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pods::List;

    const UID: &str = "0fa1c7f0-5b0e-4f5e-9a38-6f1f4a0f9d21";

    fn pods(items: &serde_json::Value) -> Vec<Pod> {
        let list = serde_json::json!({"metadata": {"resourceVersion": "7"}, "items": items});
        serde_json::from_value::<List>(list).unwrap().items
    }

    fn pod(name: &str, annotations: &serde_json::Value) -> serde_json::Value {
        serde_json::json!({
            "metadata": {"name": name, "namespace": "shop", "uid": UID, "annotations": annotations},
            "spec": {"nodeName": "n"}, "status": {"phase": "Running"}
        })
    }

    fn targets(items: &serde_json::Value) -> Targets {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join(format!("kubepods/pod{UID}"))).unwrap();
        Targets::of(&pods(items), &Groups::find(root.path()).unwrap(), Path::new("/sys/fs/cgroup"))
    }

    #[test]
    fn an_annotated_pod_is_a_target() {
        let asked = serde_json::json!({"frostline.dev/max-slowdown": "2%", "frostline.dev/fast": "4GiB", "other/x": "y"});
        let found = targets(&serde_json::json!([
            pod("cart", &asked),
            pod("plain", &serde_json::json!({}))
        ]));
        assert_eq!(
            found.text,
            format!(
                "[[target]]\nname = \"shop/cart\"\ncgroup = \"/sys/fs/cgroup/kubepods/pod{UID}\"\n\
                 fast = \"4GiB\"\nmax_slowdown = \"2%\"\n"
            )
        );
        assert_eq!((found.count, found.waiting, found.remarks.len()), (1, false, 0));
    }

    #[test]
    fn a_wrong_annotation_costs_its_pod_alone() {
        let wrong = [
            ("frostline.dev/max-slowdown", "very"),
            ("frostline.dev/fast", "4\n[[target]]"),
            ("frostline.dev/policy", "nonsense"),
            ("frostline.dev/slow", "zram"),
            ("frostline.dev/priority", "100"),
        ];
        for (key, value) in wrong {
            let right = pod("right", &serde_json::json!({"frostline.dev/max-slowdown": "1%"}));
            let found =
                targets(&serde_json::json!([pod("bad", &serde_json::json!({key: value})), right]));
            assert_eq!(found.count, 1, "{}", found.text);
            let remark = found.remarks.first().expect("it is told");
            assert!(
                remark.starts_with("shop/bad is not tiered: ") && remark.contains(key),
                "{remark}"
            );
        }
    }

    #[test]
    fn a_pod_without_a_group_is_waited_for_and_one_that_is_over_is_not() {
        let asked = serde_json::json!({"frostline.dev/fast": "50%"});
        let mut other = pod("other", &asked);
        other["metadata"]["uid"] = "7c9e6679-7425-40de-944b-e07fc1f90ae7".into();
        let found = targets(&serde_json::json!([other]));
        assert_eq!((found.count, found.waiting), (0, true));
        other["status"]["phase"] = "Succeeded".into();
        let found = targets(&serde_json::json!([other]));
        assert_eq!((found.count, found.waiting), (0, false));
        assert!(found.text.is_empty() || found.text == "target = []\n", "{:?}", found.text);
    }

    #[test]
    fn long_names_stay_apart() {
        let asked = serde_json::json!({"frostline.dev/fast": "50%"});
        let found = targets(&serde_json::json!([pod(&"x".repeat(253), &asked)]));
        let name = found.text.lines().nth(1).unwrap();
        assert_eq!(name.len(), "name = \"\"".len() + LONGEST_NAME);
        assert!(name.ends_with(&format!("-{UID}\"")));
    }
}
