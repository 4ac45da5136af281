//! Control groups: where their trees are, who is in a group, and what it may have of memory and swap.
//!
//! Sources: cgroups(7), proc_pid_mountinfo(5), `Documentation/admin-guide/cgroup-v2.rst` and
//! `Documentation/admin-guide/cgroup-v1/memory.rst` in the kernel.

mod ceiling;
mod memory;
mod name;
#[cfg(test)]
mod tests;
mod trees;

pub use ceiling::Ceiling;
pub use memory::{Level, Obstacle, Part, obstacle};
pub use name::GroupName;
pub use trees::{Group, Trees};

/// The two interfaces of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A tree for each controller, or for some of them together.
    One,
    /// One tree for all controllers that are in no tree of the other version.
    Two,
}
