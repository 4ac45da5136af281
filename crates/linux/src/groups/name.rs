//! A group as users name it.

use frostline_core::foreign::leads;
use frostline_core::spec::SpecError;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Component, Path, PathBuf};

const HINT: &str = "write system.slice/redis.service, or the group's folder; \
                    /proc/PID/cgroup has the groups of a process";

/// Name of a group: from the root of a tree (`system.slice/redis.service`), or its folder
/// (`/sys/fs/cgroup/system.slice/redis.service`). It leads nowhere else, and is not empty, which would be
/// every process there is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GroupName(String);

impl GroupName {
    /// Reads it.
    ///
    /// # Errors
    /// Where it names no group, holds `.` or `..` as one of its parts, or characters that a terminal obeys.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let wrong = |what: String| Err(SpecError::new(what, HINT));
        if text.chars().any(leads) {
            return wrong(format!(
                "the control group {text:?} has characters that a terminal obeys"
            ));
        }
        if text.split('/').any(|part| part == "." || part == "..") {
            return wrong(format!("the control group '{text}' is given by way of others"));
        }
        let path = Path::new(text);
        if !path.components().any(|part| matches!(part, Component::Normal(_))) {
            return wrong(format!(
                "the control group '{text}' would be every process of the system"
            ));
        }
        let plain: PathBuf = path.components().collect();
        Ok(Self(plain.to_string_lossy().into_owned()))
    }

    /// As it is written, without needless strokes.
    pub fn path(&self) -> &Path {
        Path::new(&self.0)
    }
}

impl TryFrom<String> for GroupName {
    type Error = SpecError;

    fn try_from(text: String) -> Result<Self, SpecError> {
        Self::parse(&text)
    }
}

impl From<GroupName> for String {
    fn from(name: GroupName) -> Self {
        name.0
    }
}

impl fmt::Display for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_that_are_every_process_or_lead_elsewhere_are_refused() {
        for (text, why) in [
            ("", "every process"),
            ("/", "every process"),
            ("//", "every process"),
            ("..", "by way of others"),
            ("a/../..", "by way of others"),
            ("./a", "by way of others"),
            ("/sys/fs/cgroup/../../etc", "by way of others"),
            ("a\0b", "terminal"),
            ("a\nb", "terminal"),
            ("\u{1b}[2J", "terminal"),
        ] {
            let error = GroupName::parse(text).expect_err(text);
            assert!(error.what.contains(why), "{text:?}: {}", error.what);
            assert!(error.hint.is_some_and(|hint| hint.contains("system.slice")));
        }
        for text in ["a", "/a", "a//b/", "user.slice/user-0.slice", "a b:c", "größe", "...", "..a"]
        {
            assert!(GroupName::parse(text).is_ok(), "{text}");
        }
        assert_eq!(GroupName::parse("a//b/").expect("a group").to_string(), "a/b");
    }

    proptest! {
        #[test]
        fn no_name_leads_out_of_a_tree(text in "[a./]{0,12}") {
            if let Ok(name) = GroupName::parse(&text) {
                let parts: Vec<_> = name.path().components().collect();
                let normal = |part: &&Component<'_>| matches!(part, Component::Normal(_));
                let rest = parts.iter().skip_while(|part| matches!(part, Component::RootDir));
                prop_assert!(rest.clone().all(|part| normal(&part)));
                prop_assert!(rest.count() > 0);
            }
        }
    }
}
