//! Memory and swap of control groups: limits and usage.

use super::ceiling::number;
use super::{Ceiling, Group, Trees, Version};
use crate::{LinuxError, Root};
use frostline_core::Foreign;
use frostline_core::types::Bytes;
use std::fmt;

/// What of a group's limit is left for what its programs ask for next, where pages are brought back: a
/// 32nd of it.
const KEPT_PART: u64 = 32;

/// A limit, and how much of it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The tightest that the group itself has.
    pub ceiling: Ceiling,
    /// The file that says so.
    pub file: &'static str,
    /// What counts.
    pub used: Bytes,
}

/// One group's memory and swap, those of all groups in it included. What the groups say that it is in
/// is not looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// Its name in the tree.
    pub name: Foreign,
    /// Memory, what is cached of files included.
    pub memory: Part,
    /// What of it is cached of files: the kernel drops that first, as far as it is not needed at once.
    pub cached: Bytes,
    /// Swap space.
    pub swap: Part,
}

impl Part {
    /// What there may be more of.
    pub fn room(&self) -> Ceiling {
        self.ceiling.left(self.used)
    }

    /// As [`Self::room`], less what is kept free.
    pub fn spare(&self) -> Ceiling {
        let kept = self.ceiling.map(|bytes| Bytes(bytes.0 / KEPT_PART));
        self.room().left(kept.bytes().unwrap_or(Bytes::ZERO))
    }
}

impl Level {
    /// Reads it. A file that is not there means no limit: the root has none, and so has a group without the
    /// memory controller, or one that is gone.
    ///
    /// # Errors
    /// Where a file is damaged, by its name, or cannot be read.
    pub fn read(root: &Root, group: &Group) -> Result<Self, LinuxError> {
        let files = Files { root, group };
        match group.version() {
            Version::One => files.first_version(),
            Version::Two => files.second_version(),
        }
    }

    /// What it can take in at all, without a program of it being killed for want of memory: half of what is cached makes room.
    fn can_take_in(&self) -> Ceiling {
        self.memory.spare().plus(Ceiling::At(Bytes(self.cached.0 / 2)))
    }
}

struct Files<'a> {
    root: &'a Root,
    group: &'a Group,
}

impl Files<'_> {
    /// What a file says, `None` where it is not there.
    fn read<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, LinuxError> {
        let path = self.group.folder().join(name);
        let text = match self.root.read_optional(&path) {
            // Removed while it was open.
            Err(error) if error.errno() == Some(libc::ENODEV) => None,
            text => text?,
        };
        let Some(text) = text else { return Ok(None) };
        let malformed = || LinuxError::Malformed {
            path: self.root.path(&path),
            what: format!("'{}' is not what the kernel writes there", Foreign::from(&*text)),
        };
        parse(&text).ok_or_else(malformed).map(Some)
    }

    fn bytes(&self, name: &str) -> Result<Bytes, LinuxError> {
        Ok(self.read(name, number)?.map_or(Bytes::ZERO, Bytes))
    }

    fn ceiling(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Option<Ceiling>,
    ) -> Result<Ceiling, LinuxError> {
        Ok(self.read(name, parse)?.unwrap_or(Ceiling::Unlimited))
    }

    /// Sum of some numbers of `memory.stat`; what is not listed is 0.
    fn stat(&self, names: &[&str]) -> Result<Bytes, LinuxError> {
        let sum = |text: &str| {
            text.lines().try_fold(0_u64, |sum, line| {
                let (name, value) = line.split_once(' ')?;
                let value = number(value)?;
                Some(if names.contains(&name) { sum.saturating_add(value) } else { sum })
            })
        };
        Ok(self.read("memory.stat", sum)?.map_or(Bytes::ZERO, Bytes))
    }

    fn second_version(&self) -> Result<Level, LinuxError> {
        let tighter = |files: [&'static str; 2]| -> Result<(Ceiling, &'static str), LinuxError> {
            let [a, b] = files;
            let (at_a, at_b) = (self.ceiling(a, Ceiling::of_v2)?, self.ceiling(b, Ceiling::of_v2)?);
            Ok(if at_b < at_a { (at_b, b) } else { (at_a, a) })
        };
        let (ceiling, file) = tighter(["memory.max", "memory.high"])?;
        let memory = Part { ceiling, file, used: self.bytes("memory.current")? };
        let cached = self.stat(&["inactive_file", "active_file"])?;
        let (ceiling, file) = tighter(["memory.swap.max", "memory.swap.high"])?;
        let swap = Part { ceiling, file, used: self.bytes("memory.swap.current")? };
        Ok(Level { name: self.group.name().into(), memory, cached, swap })
    }

    /// Its limit of swap is one of memory and swap together. Whoever sets it means as swap what it has more than that
    /// of memory alone, which is how container engines carry it over to the second version.
    fn first_version(&self) -> Result<Level, LinuxError> {
        let ceiling = self.ceiling("memory.limit_in_bytes", Ceiling::of_v1)?;
        let both = self.ceiling("memory.memsw.limit_in_bytes", Ceiling::of_v1)?;
        let used = self.bytes("memory.usage_in_bytes")?;
        let swapped = match self.read("memory.memsw.usage_in_bytes", number)? {
            Some(both) => Bytes(both).saturating_sub(used),
            // A kernel that does not count swap for groups.
            None => self.stat(&["total_swap"])?,
        };
        let memory = Part { ceiling, file: "memory.limit_in_bytes", used };
        let cached = self.stat(&["total_inactive_file", "total_active_file"])?;
        let swap = Part {
            ceiling: both.left(ceiling.bytes().unwrap_or(Bytes::ZERO)),
            file: "memory.memsw.limit_in_bytes",
            used: swapped,
        };
        Ok(Level { name: self.group.name().into(), memory, cached, swap })
    }
}

/// A group that would exceed its limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    level: Level,
    coming: Bytes,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Level { name, memory, .. } = &self.level;
        let mib = |bytes: Bytes| bytes.0.div_ceil(1 << 20);
        let [limit, spare] = [memory.ceiling, self.level.can_take_in()]
            .map(|ceiling| ceiling.bytes().map_or(0, mib));
        write!(
            f,
            "control group {name} has {} MiB in swap and may take in {spare} MiB: its {} is {limit} MiB; \
             raise that, or end programs of the group",
            mib(self.coming),
            memory.file,
        )
    }
}

/// The first group whose programs the kernel might kill if all that is on a swap device, `used` in all, came back into
/// memory. The kernel does not tell what of a group's swap is on which device: all of it may be.
///
/// # Errors
/// Where a group's files are damaged or cannot be read.
pub fn obstacle(root: &Root, used: Bytes) -> Result<Option<Obstacle>, LinuxError> {
    let roots = Trees::read(root)?.memory_roots();
    for group in roots.iter().flat_map(|group| group.below(root)) {
        let level = Level::read(root, &group)?;
        let coming = level.swap.used.min(used);
        if coming > Bytes::ZERO && level.can_take_in() < Ceiling::At(coming) {
            return Ok(Some(Obstacle { level, coming }));
        }
    }
    Ok(None)
}
