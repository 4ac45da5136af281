//! Pods as the cluster describes them: what concerns tiering alone.

use serde::Deserialize;
use std::collections::BTreeMap;

/// Annotation of a pod that the kubelet reads from a file: its control group is named by this, not by its uid.
const CONFIG_HASH: &str = "kubernetes.io/config.hash";

/// Answer to a question for pods.
#[derive(Debug, Deserialize)]
pub struct List {
    /// Of the list.
    pub metadata: ListMeta,
    /// The pods.
    #[serde(default)]
    pub items: Vec<Pod>,
}

/// What is told of a list.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListMeta {
    /// State of the cluster that it shows.
    #[serde(default)]
    pub resource_version: String,
}

/// A pod.
#[derive(Debug, Deserialize)]
pub struct Pod {
    /// Who it is.
    pub metadata: Meta,
    /// How it fares.
    #[serde(default)]
    pub status: Status,
}

/// Who a pod is.
#[derive(Debug, Deserialize)]
pub struct Meta {
    /// Unique among those of its namespace that live.
    pub name: String,
    /// Where it belongs.
    #[serde(default)]
    pub namespace: String,
    /// Unique for ever.
    pub uid: String,
    /// What users and programs noted.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
}

/// How a pod fares.
#[derive(Debug, Default, Deserialize)]
pub struct Status {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    #[serde(default)]
    pub phase: String,
}

impl Pod {
    /// Namespace and name.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.metadata.namespace, self.metadata.name)
    }

    /// Whether it has ended and will not run again.
    pub fn is_over(&self) -> bool {
        matches!(&*self.status.phase, "Succeeded" | "Failed")
    }

    /// What its control group is named by.
    pub fn group_id(&self) -> &str {
        let hash = self.metadata.annotations.get(CONFIG_HASH);
        hash.map_or(&self.metadata.uid, |hash| hash)
    }
}
