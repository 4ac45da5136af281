//! Trees of groups, as they are mounted, and the groups in them.

use super::{GroupName, Version};
use crate::{LinuxError, Root};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

const MOUNTS: &str = "/proc/self/mountinfo";

/// One place where a tree, or a part of it, is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    version: Version,
    /// The first version's tree that limits memory.
    limits_memory: bool,
    /// Which group is seen there: the root of the tree (`/`), as a rule.
    seen: PathBuf,
    /// Where.
    point: PathBuf,
}

/// All trees that are mounted.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Trees(Vec<Mount>);

/// A group, which there may be no more.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// Where its tree begins, as far as it is seen.
    point: PathBuf,
    /// Its place below that; empty for the root.
    within: PathBuf,
    is_v2: bool,
}

impl Trees {
    /// What is mounted.
    ///
    /// # Errors
    /// Where the list of mounts is damaged or cannot be read. A kernel without groups has none.
    pub fn read(root: &Root) -> Result<Self, LinuxError> {
        let path = root.path(MOUNTS);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(error) => return Err(LinuxError::io("read", path, &error)),
        };
        let mut mounts = Vec::new();
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match parse_mount(line) {
                Some(Some(mount)) => mounts.push(mount),
                Some(None) => {}
                None => {
                    let what = format!("'{}' is no mount", String::from_utf8_lossy(line));
                    return Err(LinuxError::Malformed { path, what });
                }
            }
        }
        Ok(Self(mounts))
    }

    /// Where the second version's tree is mounted.
    pub fn unified(&self) -> Option<&Path> {
        self.0.iter().find(|mount| mount.version == Version::Two).map(|mount| &*mount.point)
    }

    /// Mounts of the tree that limits memory: that of the first version where there is one.
    fn of_memory(&self) -> impl Iterator<Item = &Mount> {
        let first = self.0.iter().any(|mount| mount.limits_memory);
        self.0.iter().filter(move |mount| match first {
            true => mount.limits_memory,
            false => mount.version == Version::Two,
        })
    }

    /// Roots of the tree that limits memory, as far as it is seen; several where parts of it are.
    pub fn memory_roots(&self) -> Vec<Group> {
        self.of_memory().map(|mount| mount.group(PathBuf::new())).collect()
    }

    /// The group that limits a process's memory; `None` where it is not seen from here.
    ///
    /// # Errors
    /// [`LinuxError::Gone`] where there is no such process; where its list of groups is damaged.
    pub fn memory_group_of(&self, root: &Root, pid: u32) -> Result<Option<Group>, LinuxError> {
        let path = root.path(format!("/proc/{pid}/cgroup"));
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => {
                // A kernel without groups has no such file.
                let runs = root.path(format!("/proc/{pid}/stat")).exists();
                return if runs { Ok(None) } else { Err(LinuxError::Gone { pid }) };
            }
            Err(error) => return Err(LinuxError::io("read", path, &error)),
        };
        let (mut first, mut second) = (None, None);
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let mut parts = line.splitn(3, |byte| *byte == b':');
            let (Some(_), Some(controllers), Some(group)) =
                (parts.next(), parts.next(), parts.next())
            else {
                let what = format!("'{}' is no group", String::from_utf8_lossy(line));
                return Err(LinuxError::Malformed { path, what });
            };
            let group = PathBuf::from(OsStr::from_bytes(group));
            if controllers.split(|byte| *byte == b',').any(|name| name == b"memory") {
                first = Some(group);
            } else if controllers.is_empty() {
                second = Some(group);
            }
        }
        let limits_memory = first.is_some();
        let Some(path) = first.or(second) else { return Ok(None) };
        let mounts = self.0.iter().filter(|mount| match limits_memory {
            true => mount.limits_memory,
            false => mount.version == Version::Two,
        });
        // The mount that shows most of the groups above it.
        let seen = mounts.filter_map(|mount| Some((mount, mount.place_of(&path)?)));
        let most = seen.max_by_key(|(_, within)| within.components().count());
        Ok(most.map(|(mount, within)| mount.group(within)))
    }

    /// The group that a user means: by its folder, or by its name in the second version's tree, or else in
    /// that of memory, or in any. `None` where there is no such group now.
    ///
    /// # Errors
    /// [`LinuxError::Unsupported`] without any tree, and where it is the root of one: every process there is.
    pub fn find(&self, root: &Root, name: &GroupName) -> Result<Option<Group>, LinuxError> {
        if self.0.is_empty() {
            return Err(LinuxError::Unsupported {
                what: "no tree of control groups is mounted".into(),
                hint: "mount -t cgroup2 none /sys/fs/cgroup".into(),
            });
        }
        let path = name.path();
        let mut in_folder: Vec<Group> = self
            .0
            .iter()
            .filter_map(|mount| Some(mount.group(path.strip_prefix(&mount.point).ok()?.into())))
            .collect();
        in_folder.sort_by_key(|group| group.within.components().count());
        if let Some(group) = in_folder.into_iter().next() {
            if group.within.as_os_str().is_empty() {
                return Err(LinuxError::Unsupported {
                    what: format!("the control group '{name}' is every process of the system"),
                    hint: "name a group in it, such as system.slice/redis.service".into(),
                });
            }
            return Ok(Some(group).filter(|group| group.exists(root)));
        }
        let within = path.strip_prefix("/").unwrap_or(path);
        let mut mounts: Vec<&Mount> = self.0.iter().collect();
        mounts.sort_by_key(|mount| (mount.version != Version::Two, !mount.limits_memory));
        let mut groups = mounts.into_iter().map(|mount| mount.group(within.to_owned()));
        Ok(groups.find(|group| group.exists(root)))
    }
}

impl Mount {
    fn group(&self, within: PathBuf) -> Group {
        Group { point: self.point.clone(), within, is_v2: self.version == Version::Two }
    }

    /// Where a group of this tree is below the mount, if it is. Groups outside of our name space are told by `..`.
    fn place_of(&self, path: &Path) -> Option<PathBuf> {
        let within = path.strip_prefix(&self.seen).ok()?;
        let inside = within.components().all(|part| matches!(part, Component::Normal(_)));
        inside.then(|| within.to_owned())
    }
}

impl Group {
    /// Where its files are.
    pub fn folder(&self) -> PathBuf {
        self.point.join(&self.within)
    }

    /// Its name in the tree, such as `/system.slice/redis.service`; `/` for the root.
    pub fn name(&self) -> String {
        format!("/{}", self.within.to_string_lossy())
    }

    /// Which files it has.
    pub fn version(&self) -> Version {
        if self.is_v2 { Version::Two } else { Version::One }
    }

    /// Whether there is such a group.
    pub fn exists(&self, root: &Root) -> bool {
        root.path(self.folder().join("cgroup.procs")).exists()
    }

    /// The one that it is in; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        let within = self.within.parent()?.to_owned();
        Some(Self { within, ..self.clone() })
    }

    /// Itself and all that it is in, the root last.
    pub fn chain(&self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self.clone()), Self::parent)
    }

    /// Itself and all that are in it. Groups come and go meanwhile: what is gone is left out.
    pub fn below(&self, root: &Root) -> Vec<Self> {
        let mut found = Vec::new();
        let mut next = vec![self.clone()];
        while let Some(group) = next.pop() {
            for name in root.list(group.folder()).unwrap_or_default() {
                let child = Self { within: group.within.join(name), ..group.clone() };
                if child.exists(root) {
                    next.push(child);
                }
            }
            found.push(group);
        }
        found
    }

    /// Processes in it and in all below it, ascending.
    ///
    /// # Errors
    /// Where it is there and its members are not told.
    pub fn members(&self, root: &Root) -> Result<Vec<u32>, LinuxError> {
        let mut found = Vec::new();
        for (nth, group) in self.below(root).into_iter().enumerate() {
            let text = match root.read(group.folder().join("cgroup.procs")) {
                Ok(text) => text,
                Err(error) if nth > 0 || error.is_not_found() => continue,
                Err(error) if error.errno() == Some(Errno::OPNOTSUPP.raw_os_error()) => {
                    return Err(LinuxError::Unsupported {
                        what: format!(
                            "the control group '{}' has threads, not processes",
                            self.name()
                        ),
                        hint: "name the group that its processes are in: that above".into(),
                    });
                }
                // Removed between looking and reading.
                Err(error) if error.errno() == Some(libc::ENODEV) => continue,
                Err(error) => return Err(error),
            };
            // 0 stands for a process outside of our name space.
            let pids = text.lines().filter_map(|line| line.trim().parse().ok());
            found.extend(pids.filter(|pid: &u32| *pid != 0));
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }
}

/// A line of the list of mounts: `None` where it is none, `Some(None)` where it is one of something else.
fn parse_mount(line: &[u8]) -> Option<Option<Mount>> {
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let dash = words.iter().position(|word| *word == b"-")?;
    let (seen, point) = (words.get(3)?, words.get(4)?);
    let (kind, options) = (*words.get(dash + 1)?, *words.get(dash + 3)?);
    if dash < 6 {
        return None;
    }
    let (version, limits_memory) = match kind {
        b"cgroup2" => (Version::Two, false),
        b"cgroup" => {
            (Version::One, options.split(|byte| *byte == b',').any(|option| option == b"memory"))
        }
        _ => return Some(None),
    };
    let (seen, point) = (unescaped(seen), unescaped(point));
    Some(Some(Mount { version, limits_memory, seen, point }))
}

/// The kernel writes white space and strokes as three octal digits.
fn unescaped(word: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&byte, tail)) = rest.split_first() {
        let digits = tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code.filter(|_| byte == b'\\') {
            Some(code) => {
                bytes.push(code);
                rest = &tail[3..];
            }
            None => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    OsString::from_vec(bytes).into()
}
