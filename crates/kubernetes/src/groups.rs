//! Control groups of pods, as the kubelet lays them out.
//!
//! By its driver, version of control groups and root, the group of pod `1-2` of class Burstable is
//! `kubepods/burstable/pod1-2`, `kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice`, or one of these below
//! `kubelet` or `kubelet.slice`, and with version 1 below each controller. A pod of class Guaranteed lacks the middle part.
//! Source: `pkg/kubelet/cm` of Kubernetes.

use anyhow::Context;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Folder of the controller of memory, with version 1.
const MEMORY: &str = "memory";
/// Parts of names of folders on the way to pods.
const ON_THE_WAY: [&str; 2] = ["kubepods", "kubelet"];
const CLASSES: [&str; 2] = ["burstable", "besteffort"];
/// From the root, or from that of the controller: `kubelet.slice`, `kubepods`, class, pod.
const DEEPEST: usize = 4;

/// Folders by uid, relative to the root, dashes as they are in the cluster.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Groups(BTreeMap<String, PathBuf>);

impl Groups {
    /// Those of all pods that there are below `root`.
    ///
    /// # Errors
    /// Where the folder cannot be read.
    pub fn find(root: &Path) -> anyhow::Result<Self> {
        let listed = fs::read_dir(root).with_context(|| format!("cannot read {}", root.display()));
        drop(listed?);
        let mut found = Self::default();
        let memory = Path::new(MEMORY);
        let start = if root.join(MEMORY).is_dir() { memory } else { Path::new("") };
        found.descend(root, start, DEEPEST);
        Ok(found)
    }

    /// Folder of a pod's group, relative to the root.
    pub fn get(&self, id: &str) -> Option<&Path> {
        self.0.get(&id.replace('_', "-")).map(|path| &**path)
    }

    fn descend(&mut self, root: &Path, folder: &Path, deepest: usize) {
        // What is gone meanwhile has no pods.
        let Ok(entries) = fs::read_dir(root.join(folder)) else { return };
        for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|t| t.is_dir())) {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if let Some(id) = pod_of(name) {
                self.0.insert(id, folder.join(name));
            } else if deepest > 1 && leads_to_pods(name) {
                self.descend(root, &folder.join(name), deepest - 1);
            }
        }
    }
}

fn leads_to_pods(name: &str) -> bool {
    ON_THE_WAY.iter().any(|part| name.contains(part)) || CLASSES.contains(&name)
}

/// Uid in the name of a pod's group, with dashes.
fn pod_of(name: &str) -> Option<String> {
    let id = match name.strip_suffix(".slice") {
        Some(slice) => slice.rsplit_once("-pod")?.1,
        None => name.strip_prefix("pod")?,
    };
    let is_id =
        id.len() >= 32 && id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-' || b == b'_');
    is_id.then(|| id.replace('_', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UIDS: [&str; 3] = [
        "0fa1c7f0-5b0e-4f5e-9a38-6f1f4a0f9d21",
        "7c9e6679-7425-40de-944b-e07fc1f90ae7",
        "f47ac10b-58cc-4372-a567-0e02b2c3d479",
    ];
    /// Of a pod from a file: a hash without dashes.
    const HASH: &str = "5d3a1f0c2b7e49d8a6b4c1e2f3a4b5c6";
    const CONTAINER: &str = "4f1c0a7d2e9b8c6f5a3d1e0b9c8a7f6e5d4c3b2a1908f7e6d5c4b3a291807f6e";

    /// Folders of a node, with `{N}` for uids, `{N_}` for those with underscores, `{H}` and `{C}` for the hash and a container.
    fn node(folders: &[&str]) -> (tempfile::TempDir, Groups) {
        let root = tempfile::tempdir().unwrap();
        for folder in folders {
            let mut folder = folder.replace("{H}", HASH).replace("{C}", CONTAINER);
            for (n, uid) in UIDS.iter().enumerate() {
                folder = folder.replace(&format!("{{{n}}}"), uid);
                folder = folder.replace(&format!("{{{n}_}}"), &uid.replace('-', "_"));
            }
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        let groups = Groups::find(root.path()).unwrap();
        (root, groups)
    }

    fn folder(groups: &Groups, id: &str) -> String {
        let path = groups.get(id).unwrap_or_else(|| panic!("{id} is in {groups:?}"));
        UIDS.iter().enumerate().fold(path.to_str().unwrap().to_owned(), |text, (n, uid)| {
            text.replace(uid, &format!("{{{n}}}"))
                .replace(&uid.replace('-', "_"), &format!("{{{n}_}}"))
        })
    }

    #[test]
    fn version_2_with_systemd_has_slices() {
        let (_root, groups) = node(&[
            "system.slice/containerd.service",
            "user.slice/user-1000.slice",
            "kubepods.slice/kubepods-pod{0_}.slice/cri-containerd-{C}.scope",
            "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{1_}.slice/crio-{C}.scope/container",
            "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{2_}.slice",
            "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{H}.slice",
        ]);
        assert_eq!(folder(&groups, UIDS[0]), "kubepods.slice/kubepods-pod{0_}.slice");
        assert_eq!(
            folder(&groups, UIDS[1]),
            "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{1_}.slice"
        );
        assert_eq!(
            folder(&groups, UIDS[2]),
            "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{2_}.slice"
        );
        assert!(folder(&groups, HASH).ends_with(&format!("kubepods-burstable-pod{HASH}.slice")));
        assert_eq!(groups.0.len(), 4);
    }

    #[test]
    fn version_2_with_cgroupfs_has_folders() {
        let (_root, groups) = node(&[
            "kubepods/pod{0}/{C}",
            "kubepods/burstable/pod{1}/{C}",
            "kubepods/besteffort/pod{2}",
            "kubelet",
        ]);
        assert_eq!(folder(&groups, UIDS[0]), "kubepods/pod{0}");
        assert_eq!(folder(&groups, UIDS[1]), "kubepods/burstable/pod{1}");
        assert_eq!(folder(&groups, UIDS[2]), "kubepods/besteffort/pod{2}");
    }

    #[test]
    fn version_1_has_them_below_the_controller_of_memory() {
        let (_root, groups) = node(&[
            "cpu,cpuacct/kubepods/burstable/pod{1}",
            "memory/kubepods/burstable/pod{1}/{C}",
            "memory/kubepods.slice/kubepods-pod{0_}.slice/docker-{C}.scope",
            "pids/kubepods/burstable/pod{2}",
        ]);
        assert_eq!(folder(&groups, UIDS[1]), "memory/kubepods/burstable/pod{1}");
        assert_eq!(folder(&groups, UIDS[0]), "memory/kubepods.slice/kubepods-pod{0_}.slice");
        assert_eq!(groups.get(UIDS[2]), None);
    }

    #[test]
    fn a_root_of_the_kubelets_own_is_found() {
        let (_root, groups) = node(&[
            "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/\
             kubelet-kubepods-burstable-pod{1_}.slice/cri-containerd-{C}.scope",
            "kubelet/kubepods/besteffort/pod{2}/{C}",
        ]);
        assert!(folder(&groups, UIDS[1]).ends_with("/kubelet-kubepods-burstable-pod{1_}.slice"));
        assert_eq!(folder(&groups, UIDS[2]), "kubelet/kubepods/besteffort/pod{2}");
    }

    #[test]
    fn groups_of_others_are_no_pods() {
        let (_root, groups) = node(&[
            "system.slice/podman-{0_}.slice",
            "machine.slice/libpod-{C}.scope",
            "kubepods/burstable/podman",
            "kubepods/pod-of-somebody",
            "pod{0}",
        ]);
        // A pod's group that stands by itself is one that its runtime made.
        assert_eq!(groups.0.len(), 1);
        assert_eq!(groups.get("nobody"), None);
    }

    #[test]
    fn a_root_that_is_missing_is_an_error() {
        let error = Groups::find(Path::new("/nonexistent")).unwrap_err();
        assert!(error.to_string().contains("/nonexistent"));
    }
}
