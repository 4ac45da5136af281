//! A control group of our own for one program, of either version.

use anyhow::Context;
use frostline_core::types::{Bytes, PAGE_BYTES};
use frostline_linux::Root;
use frostline_linux::groups::{Group, GroupName, Level, Trees, Version};
use frostline_terminal::errors::failure;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const NEEDS: &str = "it needs root, and a tree of control groups that limits memory";

/// Removed when it goes out of scope.
#[derive(Debug)]
pub struct ControlGroup(Group);

impl ControlGroup {
    /// Makes one for `purpose`, which is in its name.
    ///
    /// # Errors
    /// Without rights, or where no groups limit memory.
    pub fn create(purpose: &str) -> anyhow::Result<Self> {
        let root = Root::system();
        let roots = Trees::read(&root)?.memory_roots();
        let first = roots
            .first()
            .ok_or_else(|| failure("memory is limited by no control groups", NEEDS))?;
        let (folder, version) = (first.folder(), first.version());
        if version == Version::Two {
            let passed_on = fs::read_to_string(folder.join("cgroup.subtree_control"));
            if !passed_on.is_ok_and(|names| names.split_whitespace().any(|name| name == "memory")) {
                let what = format!("groups in {} do not limit memory", folder.display());
                let hint = format!("echo +memory >{}/cgroup.subtree_control", folder.display());
                return Err(failure(what, hint));
            }
        }
        let path = folder.join(format!("frostline-{purpose}-{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| {
            failure(format!("no control group {}: {error}", path.display()), NEEDS)
        })?;
        let name = GroupName::parse(&path.to_string_lossy())?;
        let group = Trees::read(&root)?.find(&root, &name)?;
        let group = group.with_context(|| format!("{} is gone", path.display()))?;
        Ok(Self(group))
    }

    /// What kind of group it is.
    pub fn version(&self) -> Version {
        self.0.version()
    }

    /// Its path from the root of its tree on.
    pub fn path(&self) -> String {
        let folder = self.0.folder();
        let name = folder.file_name().unwrap_or_default();
        format!("/{}", name.to_string_lossy())
    }

    /// Writes one of its files.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn write(&self, file: &str, text: &str) -> anyhow::Result<()> {
        let path = self.0.folder().join(file);
        fs::write(&path, text).with_context(|| path.display().to_string())
    }

    /// A command that enters it and then becomes `program`: no page of that is counted elsewhere.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", r#"echo 0 >"$0" && exec "$@""#]);
        command.arg(self.0.folder().join("cgroup.procs")).arg(program);
        command
    }

    /// Memory and swap that its programs take.
    ///
    /// # Errors
    /// Where it is gone.
    pub fn level(&self) -> anyhow::Result<Level> {
        Ok(Level::read(&Root::system(), &self.0)?)
    }

    /// Memory of it on a node.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn on_node(&self, node: u32) -> anyhow::Result<Bytes> {
        let path = self.0.folder().join("memory.numa_stat");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(match self.version() {
            Version::One => Bytes(on_node(&text, node, &["total"]) * PAGE_BYTES),
            Version::Two => Bytes(on_node(&text, node, &["anon", "file"])),
        })
    }

    /// Has the kernel keep its memory within `limit` from now on; `None` for no limit.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn limit(&self, limit: Option<Bytes>) -> anyhow::Result<()> {
        let (file, none) = match self.version() {
            Version::One => ("memory.limit_in_bytes", "-1"),
            Version::Two => ("memory.high", "max"),
        };
        self.write(file, &limit.map_or_else(|| none.to_owned(), |bytes| bytes.0.to_string()))
    }
}

/// Sum of what these lines of `memory.numa_stat` say of a node: `total=12 N0=8 N1=4`, or `anon N0=8 N1=4`.
fn on_node(text: &str, node: u32, lines: &[&str]) -> u64 {
    let name = format!("N{node}");
    let of_line = |line: &str| {
        let mut words = line.split([' ', '=']);
        lines.contains(&words.next()?).then_some(())?;
        words.by_ref().find(|word| *word == name)?;
        words.next()?.parse::<u64>().ok()
    };
    text.lines().filter_map(of_line).sum()
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // A killed program leaves it some milliseconds later.
        for _ in 0..100 {
            if fs::remove_dir(self.0.folder()).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_tell_what_is_on_a_node() {
        let first = "total=12 N0=8 N1=4\nfile=2 N0=2 N1=0\nhierarchical_total=99 N0=90 N1=9\n";
        assert_eq!([0, 1, 2].map(|node| on_node(first, node, &["total"])), [8, 4, 0]);
        let second =
            "anon N0=4096 N1=8192\nfile N0=100 N1=0\nkernel_stack N0=7 N1=7\nanon_thp N0=9 N1=9\n";
        assert_eq!([0, 1].map(|node| on_node(second, node, &["anon", "file"])), [4196, 8192]);
        assert_eq!(on_node("anon N1=x", 1, &["anon"]), 0);
    }
}
